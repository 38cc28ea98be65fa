"""Hostile programs reach nothing, break nothing, cannot lie about themselves and do not trouble those after them."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from evals.sandbox.base import Limits, Program
from evals.sandbox.pool import Pool
from tests.evals.sandbox.hostile.base import LIMITS, Hostile, refused, source
from tests.evals.sandbox.hostile.every import EVERY

ROOT = Path(__file__).parents[3]
AFTERWARDS = 10
CANARY = "canary-4f1c9e"


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, object]]:
    """What a host has to lose: a key, a file in its home, listeners, processes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    secret = tmp_path / "canary.txt"
    secret.write_text(CANARY)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{CANARY}-{os.getpid()}")
        abstract.listen()
        server.settimeout(0)
        yield {
            "CANARY": f"{CANARY}-{os.getpid()}",
            "FILE": secret,
            "PORT": server.getsockname()[1],
            "PID": os.getpid(),
            "HOME": pwd.getpwuid(os.getuid()).pw_dir,
        }
        with pytest.raises(BlockingIOError):
            server.accept()


async def rightly_run(pool: Pool, number: int) -> bool:
    """Whether a harmless program comes out right."""
    program = Program("print(sum(map(int, input().split())))", f"{number} 17".encode())
    outcome = await pool.run(program, Limits())
    return outcome.ok and outcome.stdout == b"%d\n" % (number + 17)


@pytest.mark.parametrize("name", sorted(EVERY))
async def test_contained(isolated: Pool, known: Mapping[str, object], name: str) -> None:
    """What must hold of a hostile program holds, and the next ten programs come out right."""
    hostile = EVERY[name]
    outcome = await isolated.run(Program(source(hostile, known)), hostile.limits)
    assert hostile.holds(outcome), outcome
    assert all(await asyncio.gather(*(rightly_run(isolated, number) for number in range(AFTERWARDS))))


def test_enough_programs() -> None:
    """There are at least sixty hostile programs."""
    assert len(EVERY) >= 60


LEFT = """
import os
for folder in (".", "/tmp", "/dev/shm", "/program", "/sandbox", "/var/tmp"):
    try:
        with open(f"{folder}/left", "w") as file:
            file.write("@CANARY@")
    except OSError:
        pass
stuff = ["@CANARY@" * 1000]
print("tried", "@CANARY@" * 1000, flush=True)
"""
# What is looked for is a pattern that does not hold itself, so that the program does not find its own.
LOOKED_FOR = """
import re
wanted = re.compile(rb"canar[y]-lef[t]-behin[d]")
for folder in (".", "/tmp", "/dev/shm", "/program", "/sandbox", "/var/tmp"):
    if os.path.exists(f"{folder}/left"):
        print("BREACH", folder)
for line in open("/proc/self/maps"):
    first, last = (int(word, 16) for word in line.split()[0].split("-"))
    if "rw" in line.split()[1]:
        with open("/proc/self/mem", "rb", 0) as memory:
            memory.seek(first)
            try:
                if wanted.search(memory.read(last - first)):
                    print("BREACH", line)
            except OSError:
                pass
print("tried")
"""


async def test_nothing_is_left_for_the_next(own: Pool) -> None:
    """A program finds neither files nor memory of the one before it in the same worker, nor what that one was given."""
    secret = b"canary-left-behind"
    text = LEFT.replace("@CANARY@", secret.decode())
    first = await own.run(Program(text, stdin=secret * 1000, files={"data": secret * 1000}), LIMITS)
    assert b"tried" in first.stdout
    second = await own.run(Program(source(Hostile(LOOKED_FOR, refused), {})), LIMITS)
    assert refused(second), second


@pytest.mark.parametrize(
    "name", ["reads home", "calls the host", "abstract sockets of the host", "kills the host", "reads the suite"]
)
async def test_the_programs_do_harm_elsewhere(plain: Pool, tmp_path: Path, name: str) -> None:
    """Where nothing isolates, the same programs succeed: they can tell a sandbox from none."""
    secret = tmp_path / "canary.txt"
    secret.write_text(CANARY)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + secret.as_posix())
        abstract.listen()
        port = server.getsockname()[1]
        known = {"CANARY": secret, "FILE": secret, "PORT": port, "PID": os.getpid(), "HOME": tmp_path}
        text = f"import sys\nsys.path.append({str(ROOT)!r})\n" + source(EVERY[name], known)
        outcome = await plain.run(Program(text), Limits())
    assert b"BREACH" in outcome.stdout, outcome
