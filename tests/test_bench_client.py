"""The parts of the client's benchmark that could make its numbers wrong."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest

from tests.bench import client as bench


def request(body: bytes, name: bytes = b"Content-Length") -> bytes:
    """A request as a client sends it."""
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n%s: %d\r\n\r\n%s" % (name, len(body), body)


async def answers(*pieces: bytes) -> int:
    """How many answers a server gives to bytes that come in these pieces."""
    server = await asyncio.get_running_loop().create_server(lambda: bench.Answering(0.0), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        writer.write_eof()
        received = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert len(received) % len(bench.ANSWER) == 0
    return received.count(bench.ANSWER)


@pytest.mark.parametrize(
    ("pieces", "count"),
    [
        ([request(b"{}")], 1),
        ([request(b"{}", b"content-length")], 1),
        ([request(b"{}")[:40], request(b"{}")[40:]], 1),
        ([request(b"{}")[:-1], b"}"], 1),
        ([request(b"{}") + request(b"[1]")], 2),
        ([request(b"{}")[:-1]], 0),
    ],
    ids=["whole", "lower case", "half a head", "half a body", "two at once", "incomplete"],
)
async def test_the_server_answers_each_request_once(pieces: list[bytes], count: int) -> None:
    """However a request arrives, it is answered when it is complete and not before."""
    assert await answers(*pieces) == count


async def test_calls_are_counted_while_the_windows_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call in flight is asked with a number of its own, and rate and waits are of calls that ended."""
    asked: list[int] = []
    sleep = asyncio.sleep

    async def window(_: float) -> None:
        """As long as twenty more calls take, however fast this machine is."""
        enough = len(asked) + 20
        while len(asked) < enough:
            await sleep(0.001)

    monkeypatch.setattr(asyncio, "sleep", window)

    async def ask(number: int) -> None:
        asked.append(number)
        await sleep(0.002)

    start = time.perf_counter()
    measured = await bench.steady(ask, 8, os.getpid())
    longest = time.perf_counter() - start
    assert asked == list(range(len(asked)))
    assert (20 * bench.WINDOWS - 8) / longest <= measured["rate"]
    assert measured["rate"] <= len(asked) / (0.002 * 2 * bench.WINDOWS)
    assert 2 <= measured["p50_ms"] <= measured["p99_ms"]
    assert measured["cpu_ms"] > 0


@pytest.mark.parametrize(
    ("rival", "theirs", "ok"),
    [("litellm.acompletion", 25, True), ("litellm.acompletion", 26, False), ("openai", 99, True)],
)
def test_rates_are_judged_beside_their_rival(rival: str, theirs: float, ok: bool) -> None:
    """Being faster is enough, beside litellm four times as fast; the share is of what the server's delay allows."""
    same: dict[str, Any] = {"p50_ms": 1.0, "p99_ms": 2.0, "cpu_ms": 0.3, "server_busy": 0.1}
    line = bench.rate_line(128, {"rate": 100.0, **same}, rival, {"rate": theirs, **same})
    assert line["ok"] is ok
    assert line["share_of_ideal"] == round(100 / 640, 3)
