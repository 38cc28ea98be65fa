"""A running program as the host sees it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import asdict, replace

from evals.sandbox.base import Limits, Outcome, Program
from evals.sandbox.inside.link import pack, unpack
from evals.sandbox.worker import CHUNK, Worker, WorkerError, frame

GRACE_S = 30.0
"""Seconds beyond a program's own bound on the wall in which its worker must have told of its end."""

HIGH_WATER = 1 << 20


class Conversation:
    """Implements `Session` over the connection to a worker."""

    def __init__(self, worker: Worker, program: Program, limits: Limits, *, channel: bool) -> None:
        self._worker, self._channel = worker, channel
        self._loop = asyncio.get_running_loop()
        self._outgoing = bytearray()
        self._writing = False
        self._drained = asyncio.Event()
        self._news = asyncio.Event()
        self._partial = bytearray()
        self._lines: deque[bytes] = deque()
        self._heard = 0
        self._closed = not channel
        self._waiting = not channel
        self._result: asyncio.Future[Outcome] = self._loop.create_future()
        self._loop.add_reader(worker.sock, self._read)
        patience = limits.wall_s + GRACE_S
        self._alarm = self._loop.call_later(patience, self._fail, "a worker did not tell how its program ended")
        self._write(frame(b"p", body_of(program, limits, channel=channel)))

    @property
    def ended(self) -> bool:
        """Whether the worker has told of the end, so that it can run the next program."""
        return self._result.done() and not self._result.cancelled() and self._result.exception() is None

    async def send(self, line: bytes) -> None:
        """Write one message; returns when the connection has taken most of it."""
        if self._result.done():
            return
        self._write(frame(b"m", line + b"\n"))
        while len(self._outgoing) > HIGH_WATER and not self._result.done():
            self._drained.clear()
            await self._drained.wait()

    async def receive(self) -> bytes | None:
        """The next message; None when there will be no more."""
        while not self._lines and not self._closed and not self._result.done():
            self._wait()
            self._news.clear()
            await self._news.wait()
        return self._lines.popleft() if self._lines else None

    async def outcome(self) -> Outcome:
        """Close the channel and wait for the end.

        Raises:
            WorkerError: the worker failed.
        """
        if self._channel and not self._result.done():
            self._write(frame(b"e"))
            self._wait()
        return await asyncio.shield(self._result)

    async def stop(self) -> None:
        """End the program and wait until it has."""
        if not self._result.done():
            self._write(frame(b"k"))
            await self.outcome()

    def let_go(self) -> None:
        """Stop listening to the worker."""
        self._alarm.cancel()
        self._loop.remove_reader(self._worker.sock)
        if self._writing:
            self._loop.remove_writer(self._worker.sock)
        if self._result.done() and not self._result.cancelled():
            self._result.exception()  # somebody has looked, so that the loop does not complain
        self._result.cancel()

    def _wait(self) -> None:
        """Let the program's idle time count: the host waits for it."""
        if not self._waiting:
            self._waiting = True
            self._write(frame(b"w", b"%d" % self._heard))

    def _write(self, data: bytes) -> None:
        """Send what the connection takes, the rest when it does."""
        self._outgoing += data
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        """Send what the connection takes."""
        try:
            while self._outgoing:
                del self._outgoing[: self._worker.sock.send(memoryview(self._outgoing)[:CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            self._outgoing.clear()  # the reader learns of the end
        if len(self._outgoing) <= HIGH_WATER:
            self._drained.set()
        if self._writing != bool(self._outgoing):
            self._writing = bool(self._outgoing)
            if self._writing:
                self._loop.add_writer(self._worker.sock, self._flush)
            else:
                self._loop.remove_writer(self._worker.sock)

    def _read(self) -> None:
        """Take in what the worker says."""
        try:
            chunk = self._worker.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not self._worker.fill(chunk):
            self._fail("a worker has ended")
            return
        while (found := self._worker.next_frame()) is not None:
            self._hear(*found)

    def _hear(self, kind: bytes, body: bytes) -> None:
        """Act on one frame."""
        if kind == b"m":
            self._hear_message(body)
        elif kind == b"x":
            self._closed = True
        elif kind == b"r" and not self._result.done():
            self._result.set_result(outcome_of(body))
        elif kind == b"f":
            self._fail(body.decode("utf-8", "replace"))
        self._news.set()

    def _hear_message(self, chunk: bytes) -> None:
        """Add to the messages; once one is complete, the worker counts no idle time until it is told to."""
        self._partial += chunk
        if b"\n" in chunk:
            *lines, rest = bytes(self._partial).split(b"\n")
            self._partial = bytearray(rest)
            self._lines += lines
            self._heard += len(lines)
            self._waiting = False

    def _fail(self, reason: str) -> None:
        """Take note that the worker failed."""
        self._loop.remove_reader(self._worker.sock)
        if not self._result.done():
            self._result.set_exception(WorkerError(reason))
        self._news.set()
        self._drained.set()


def body_of(program: Program, limits: Limits, *, channel: bool) -> bytes:
    """The body of the frame that starts a program."""
    header = {"limits": asdict(limits), "channel": channel, "files": list(program.files)}
    source = program.source.encode("utf-8", "surrogatepass")
    return pack(header, [source, program.stdin, *program.files.values()])


def outcome_of(body: bytes) -> Outcome:
    """What a result frame says."""
    header, (stdout, stderr) = unpack(body)
    return Outcome(header["end"], header["code"], stdout, stderr, header["cpu"], header["wall"])


def scaled(limits: Limits, scale: float) -> Limits:
    """Limits for a machine that takes `scale` times as long as the one that they were written for."""
    return replace(limits, cpu_s=limits.cpu_s * scale)
