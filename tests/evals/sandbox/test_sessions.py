"""A session talks with a running program, line by line, and the program cannot spoil it."""

from __future__ import annotations

import asyncio
import time

import pytest

from evals.sandbox.base import MIB, Limits, Program
from evals.sandbox.pool import Pool

ECHO = """
import socket
channel = socket.socket(fileno=3).makefile("rwb")
for line in channel:
    channel.write(b"got " + line)
    channel.flush()
print("bye")
"""


async def test_messages(isolated: Pool) -> None:
    """Messages go both ways in order, of any bytes but newlines; the program sees the end when the host closes."""
    async with isolated.session(Program(ECHO), Limits()) as session:
        for text in (b"one", b"", "größe\0".encode()):
            await session.send(text)
            assert await session.receive() == b"got " + text
        outcome = await session.outcome()
        assert (outcome.end, outcome.code, outcome.stdout) == ("exited", 0, b"bye\n")
        assert await session.receive() is None


async def test_messages_sent_ahead(isolated: Pool) -> None:
    """Many messages may be sent before one is received, more than a socket holds."""
    async with isolated.session(Program(ECHO), Limits(output_bytes=16 * MIB)) as session:
        body = b"x" * 100_000
        for _ in range(30):
            await session.send(body)
        for _ in range(30):
            assert await session.receive() == b"got " + body
        assert (await session.outcome()).ok


async def test_stdin_beside_the_channel(isolated: Pool) -> None:
    """The channel leaves the standard streams alone."""
    source = "import os\nos.write(3, input().encode() + b'\\n')\nprint('out')"
    async with isolated.session(Program(source, stdin=b"in\n"), Limits()) as session:
        assert await session.receive() == b"in"
        assert (await session.outcome()).stdout == b"out\n"


async def test_no_channel_in_a_run(isolated: Pool) -> None:
    """Without a session there is no descriptor beyond the standard streams."""
    outcome = await isolated.run(
        Program("import os\ntry:\n    os.fstat(3)\nexcept OSError:\n    print('none')"), Limits()
    )
    assert outcome.stdout == b"none\n"


@pytest.mark.parametrize(
    "source", ["pass", "import os; os.close(3); import time; time.sleep(0.1)", "import os; os._exit(1)"]
)
async def test_end_of_the_program(isolated: Pool, source: str) -> None:
    """When the program has closed the channel or ended, there is no message, and sending does nothing."""
    async with isolated.session(Program(source), Limits()) as session:
        assert await session.receive() is None
        await session.send(b"x")
        assert (await session.outcome()).end == "exited"
        await session.send(b"x")
        assert await session.receive() is None


async def test_half_a_message(isolated: Pool) -> None:
    """What comes without its newline is no message."""
    async with isolated.session(Program("import os\nos.write(3, b'whole\\nhalf')"), Limits()) as session:
        assert await session.receive() == b"whole"
        assert await session.receive() is None


@pytest.mark.parametrize("text", ["b'x' * 4096", "b'x\\n' * 2048"])
async def test_too_many_messages(isolated: Pool, text: str) -> None:
    """Messages beyond the bound on output end the program, whether or not they are complete."""
    source = f"import socket\ns = socket.socket(fileno=3)\nwhile True:\n    s.sendall({text})"
    async with isolated.session(Program(source), Limits(output_bytes=MIB)) as session:
        assert (await session.outcome()).end == "output"


async def test_leaving_ends_the_program(isolated: Pool) -> None:
    """A program whose session is left is ended, and the worker serves the next one."""
    async with isolated.session(Program("import time; time.sleep(100)"), Limits(idle_s=100)):
        pass
    assert (await isolated.run(Program("print(1)"), Limits())).stdout == b"1\n"


async def test_an_error_in_the_session(isolated: Pool) -> None:
    """An error of the host's own passes through, and the program is ended."""
    with pytest.raises(ZeroDivisionError):
        async with isolated.session(Program(ECHO), Limits()):
            _ = 1 / 0
    assert (await isolated.run(Program("print(1)"), Limits())).stdout == b"1\n"


async def test_the_hosts_own_time_is_not_the_programs(isolated: Pool) -> None:
    """While the host thinks, a waiting program is not idle; once the host waits for it, it is."""
    limits = Limits(idle_s=0.3)
    async with isolated.session(Program(ECHO), limits) as session:
        await asyncio.sleep(0.5)
        await session.send(b"a")
        assert await session.receive() == b"got a"
        time.sleep(0.6)  # noqa: ASYNC251 - a host that hears nothing meanwhile
        await asyncio.sleep(0.3)
        await session.send(b"b")
        assert await session.receive() == b"got b"
        assert await session.receive() is None
        assert (await session.outcome()).end == "idle"


async def test_programs_that_talk_to_each_other(own: Pool) -> None:
    """Where one program may run at once, a second can still be started within the first one's session."""
    async with own.session(Program(ECHO), Limits()) as outer:
        async with own.session(Program(ECHO), Limits()) as inner:
            await inner.send(b"a")
            await outer.send(await inner.receive() or b"")
            assert await outer.receive() == b"got got a"
            assert (await inner.outcome()).ok
        assert (await own.run(Program("print(2)"), Limits())).stdout == b"2\n"
        assert (await outer.outcome()).ok


async def test_hidden_messages_of_a_liar(isolated: Pool) -> None:
    """What a program writes to its channel is a message and nothing else."""
    source = "import os\nos.write(3, b'r\\x00\\x00\\x00\\x02{}\\n')\nos._exit(3)"
    async with isolated.session(Program(source), Limits()) as session:
        assert await session.receive() == b"r\x00\x00\x00\x02{}"
        assert (await session.outcome()).code == 3
