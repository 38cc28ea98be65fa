"""One worker as the host sees it: started, spoken to, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import uuid
import weakref

from evals.sandbox.inside.link import HEAD, Frames, pack, unpack
from evals.sandbox.launch import Launcher

START_S = 120.0
"""Seconds in which a worker must have imported what it preloads."""

END_S = 2.0
CHUNK = 1 << 18


class WorkerError(Exception):
    """A worker failed or could not be started; says why."""


class Worker:
    """A process that runs one program at a time.

    Attributes:
        preload: what its interpreter has imported.
        python: version of its interpreter, known once it has greeted.
        sock: connection to it; never blocks.
    """

    def __init__(self, launcher: Launcher, preload: tuple[str, ...]) -> None:
        self.preload = preload
        self.python = ""
        self._incoming = Frames()
        name = f"trinity-sandbox-{uuid.uuid4().hex}"
        command = list(launcher.command(name))
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(0)
        with theirs:
            try:
                self.process = subprocess.Popen(  # noqa: S603 - the command is ours
                    command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.PIPE,
                    env=launcher.environment(),
                    start_new_session=True,
                )
            except OSError as error:
                self.sock.close()
                raise WorkerError(f"{command[0]} does not start: {error}") from error
        self.close = weakref.finalize(self, end, self.process, self.sock, launcher, name, os.getpid())
        with contextlib.suppress(OSError):  # whoever waits for the greeting learns why it has ended
            self.sock.send(frame(b"c", pack({**launcher.settings(), "preload": preload}, [])))

    async def greeting(self) -> None:
        """Wait until it can run programs.

        Raises:
            WorkerError: it cannot.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(START_S):
                while (greeting := self.next_frame()) is None:
                    if not self.fill(await loop.sock_recv(self.sock, CHUNK)):
                        raise ConnectionResetError
        except TimeoutError:
            raise WorkerError(f"a worker said nothing in {START_S:.0f} s") from None
        except OSError:
            raise WorkerError(await loop.run_in_executor(None, self._last_words)) from None
        self.python = unpack(greeting[1])[0]["python"]
        close_errors(self.process)

    def fill(self, chunk: bytes) -> bool:
        """Take in what came; whether it was anything."""
        self._incoming.add(chunk)
        return bool(chunk)

    def next_frame(self) -> tuple[bytes, bytes] | None:
        """The next complete frame, if there is one."""
        return self._incoming.take()

    @property
    def alive(self) -> bool:
        """Whether it could run a program now."""
        return self.close.alive and self.process.poll() is None

    def _last_words(self) -> str:
        """Why it ended: the last line of its errors, or its exit code."""
        try:
            _, errors = self.process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            return "a worker closed its connection"
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        named = [line for line in lines if line.startswith(("bwrap: ", "docker: "))]
        return (named or lines)[-1] if lines else f"a worker ended with exit code {self.process.returncode}"


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """A frame for a worker."""
    return HEAD.pack(kind, len(body)) + body


def close_errors(process: subprocess.Popen[bytes]) -> None:
    """Listen to its errors no longer."""
    if process.stderr is not None:
        process.stderr.close()


def end(process: subprocess.Popen[bytes], sock: socket.socket, launcher: Launcher, name: str, owner: int) -> None:
    """End a worker and all that it runs; in a fork of the process that has started it, only let go of it."""
    sock.close()
    close_errors(process)
    if os.getpid() != owner:
        process.returncode = 0
        return
    try:
        process.wait(END_S / 20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    launcher.release(name)
