"""Follows one program from its start to its end: carries its bytes, holds it to its bounds, and says how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import time
from typing import Any

from evals.sandbox.inside.link import Link, pack
from evals.sandbox.inside.streams import Channel, Input, Output
from evals.sandbox.inside.watch import Watch, processes

PERIOD = 0.02
"""Seconds between two looks at what the program uses."""

LONGEST = 0.1
"""Seconds that one look may add to the time idle: what is more, the worker itself was kept waiting."""

REPORT = 1 << 14
PAUSE = 0.0005
"""Seconds between two looks whether all that was ended is gone."""


class FailedError(Exception):
    """The sandbox failed, not the program."""


class Ends:
    """The supervisor's ends of what a program is tied to, and the program's, to be handed over.

    Attributes:
        status: socket on which the program's first process reports.
        job, stdout, stderr: pipes.
        channel: socket; None where the program has none.
        theirs: the other ends in the order that `cell.start` wants them in.
    """

    def __init__(self, stdin: bytes, *, channel: bool) -> None:
        self.status, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        letters: socket.socket | None = None
        self.channel: socket.socket | None = None
        if channel:
            self.channel, letters = socket.socketpair()
        job, self.job = os.pipe()
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = os.pipe()
        self.theirs = [status.detach(), job, sealed(stdin), stdout, stderr, *([letters.detach()] if letters else [])]
        for stream in (self.job, self.stdout, self.stderr):
            os.set_blocking(stream, False)
        for sock in (self.status, self.channel):
            if sock is not None:
                sock.settimeout(0)

    def hand_over(self, template: socket.socket) -> None:
        """Let the template fork a program that has the other ends."""
        socket.send_fds(template, [b"g"], self.theirs)
        for descriptor in self.theirs:
            os.close(descriptor)


def sealed(content: bytes) -> int:
    """A descriptor of a file in memory that nobody can change: as judges do it, whose programs ask how long it is."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


class Run:
    """One running program.

    Args:
        header: `limits` and `channel`.
        job: what the program's first process reads.
        ends: what the program is tied to.
        link: connection to the host.
        template: number of the process that it is forked from.
    """

    def __init__(self, header: dict[str, Any], job: bytes, ends: Ends, link: Link, template: int) -> None:
        self.limits: dict[str, float] = header["limits"]
        cap = int(self.limits["output_bytes"])
        self.ends, self.link, self.template = ends, link, template
        self.end: str | None = None
        self._stdout, self._stderr = Output(ends.stdout, cap), Output(ends.stderr, cap)
        self._job = Input(ends.job, job)
        self._channel = Channel(ends.channel, link)
        self._host_waits = not header["channel"]
        self._heard = 0
        self._watch = Watch(template)
        self._scratch: int | None = None
        self._scratch_base = 0
        self._status: dict[str, float] | None = None
        self._begun = self._over = False
        self._cpu = self._idle = 0.0
        self._begin(time.monotonic())

    def _begin(self, now: float) -> None:
        """Start the clocks: the program's own code runs from now on."""
        self._started = self._looked = now
        self._next = now + PERIOD

    def follow(self) -> bytes:
        """Follow the program to its end; the body of a result frame.

        Raises:
            FailedError: the sandbox failed.
        """
        try:
            self._obey()
            while not self._over and not self.link.closed and (self.end is None or not self._begun):
                self._step()
            wall = time.monotonic() - self._started
            stop_all(self.template)
            self._drain()
            return self._result(wall)
        finally:
            stop_all(self.template)
            self._release()

    def _step(self) -> None:
        """Wait for the next event or the next look, and serve it."""
        readers: list[Any] = [self.link.source, self.ends.status]
        readers += [output.stream for output in (self._stdout, self._stderr) if output.open]
        readers += [self._channel.sock] if self._channel.readable else []
        writers: list[Any] = [self.link.sink] if self.link.outgoing else []
        writers += [self._job.stream] if self._job.open else []
        writers += [self._channel.sock] if self._channel.letters else []
        ready, able, _ = select.select(readers, writers, [], max(0.0, self._next - time.monotonic()))
        self._serve([*ready, *able])
        if time.monotonic() >= self._next:
            self._look()

    def _serve(self, ready: list[Any]) -> None:
        """Carry what can be carried: the program's last words before the news of its end."""
        for output in (self._stdout, self._stderr):
            if output.stream in ready:
                output.read()
        if self._channel.sock in ready:
            self._carry()
        if self._job.stream in ready:
            self._job.write()
        self.link.flush()
        if self.link.source in ready:
            self.link.fill()
            self._obey()
        if self.ends.status in ready:
            self._hear_cell()
        if self._stdout.overflowed or self._channel.carried > self._stdout.cap:
            self.end = "output"

    def _carry(self) -> None:
        """Move messages both ways; once one is complete, it is the host that is waited for."""
        if self._channel.readable:
            self._channel.read()
        if self._channel.messages > self._heard:
            self._host_waits = False
        self._channel.write()

    def _obey(self) -> None:
        """Act on what the host has said: a message, that it closes the channel, that it waits, that it is enough."""
        while (frame := self.link.take()) is not None:
            kind, body = frame
            if kind == b"m":
                self._channel.letters += body
                self._channel.write()
            elif kind == b"e":
                self._channel.close_writing()
            elif kind == b"w":
                # It may have been said before the last message arrived there.
                self._heard = int(body)
                self._host_waits = self._heard >= self._channel.messages
            elif kind == b"k":
                self.end = self.end or "wall"

    def _hear_cell(self) -> None:
        """Take in what the program's first process says; it ends without a word only when it is killed."""
        message, descriptors, _, _ = receive(self.ends)
        if message is None:
            return
        kind, body = message[:1], message[1:]
        if kind == b"f":
            raise FailedError(body.decode())
        if kind == b"d":
            self._scratch = descriptors[0]
            self._scratch_base = used(self._scratch)
        elif kind == b"o":
            self._begun = True
            self._begin(time.monotonic())
        else:
            self._status = json.loads(body) if body else None
            self._over = True

    def _look(self) -> None:
        """See what the program has used, and end it where that is too much."""
        usage = self._watch.usage()
        now = time.monotonic()
        if self._host_waits and not usage.working:
            self._idle += min(now - self._looked, LONGEST)
        self._cpu, self._looked, self._next = usage.cpu, now, now + PERIOD
        self.end = self.end or self._bound_met(usage.memory, now - self._started)

    def _bound_met(self, memory: int, wall: float) -> str | None:
        """The bound that the program has met, if any."""
        bound = self.limits["memory_bytes"]
        scratch = used(self._scratch) - self._scratch_base if self._scratch is not None else 0
        met = {
            "memory": memory + scratch > bound and self._watch.exact_memory() + scratch > bound,
            "cpu": self._cpu > self.limits["cpu_s"],
            "idle": self._idle > self.limits["idle_s"],
            "wall": wall > self.limits["wall_s"],
        }
        return next((name for name, is_met in met.items() if is_met), None)

    def _drain(self) -> None:
        """Read what the program, now gone, has left in its pipes."""
        for source in (self._stdout, self._stderr, self._channel):
            while source.read():
                pass
        if self._stdout.overflowed or self._channel.carried > self._stdout.cap:
            self.end = "output"

    def _result(self, wall: float) -> bytes:
        """The body of a result frame."""
        cpu, code = self._cpu, None
        end = self.end
        if end is None:
            ended = int(self._status["status"]) if self._status else int(signal.SIGKILL)
            end, code = (
                ("signalled", os.WTERMSIG(ended)) if os.WIFSIGNALED(ended) else ("exited", os.WEXITSTATUS(ended))
            )
            cpu = max(cpu, self._status["cpu"] + self._watch.lost) if self._status else cpu
        if cpu > self.limits["cpu_s"] and end in ("exited", "signalled"):
            end, code = "cpu", None
        header = {"end": end, "code": code, "cpu": cpu, "wall": wall}
        return pack(header, [bytes(self._stdout.kept), bytes(self._stderr.kept)])

    def _release(self) -> None:
        """Close everything that this run had open."""
        self._job.close()
        os.close(self.ends.stdout)
        os.close(self.ends.stderr)
        self.ends.status.close()
        if self.ends.channel is not None:
            self.ends.channel.close()
        if self._scratch is not None:
            os.close(self._scratch)
            self._scratch = None


def receive(ends: Ends) -> tuple[bytes | None, list[int], int, object]:
    """One report of the program's first process, with what it hands over; no bytes where it has gone."""
    try:
        return socket.recv_fds(ends.status, REPORT, 1)
    except BlockingIOError:
        return None, [], 0, None
    except OSError:
        return b"", [], 0, None


def used(folder: int) -> int:
    """Bytes that the file system of a folder holds."""
    found = os.fstatvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def stop_all(template: int) -> None:
    """End every process of the program and wait until none is left.

    The first process of a namespace of its own takes the others with it; elsewhere they are ended one by one, and those
    whose parents have gone become children of this process.
    """
    while found := processes(template):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reap(template)
        time.sleep(PAUSE)
    reap(template)


def reap(template: int) -> None:
    """Collect the children that have ended.

    Raises:
        FailedError: the template is one of them.
    """
    while True:
        try:
            child, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if child == template:
            raise FailedError("the worker has lost the process that programs come from")
        if child == 0:
            return
