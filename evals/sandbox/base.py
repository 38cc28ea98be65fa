"""What is run, within which bounds, what came of it, and what every sandbox offers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

End = Literal["exited", "signalled", "cpu", "idle", "wall", "memory", "output"]
"""How a program ended: by itself, by a signal, or at the bound named."""

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one program, all its processes together where not said otherwise.

    Attributes:
        cpu_s: seconds of CPU time on the reference machine; a sandbox scales them by its calibration.
        idle_s: seconds that it may wait (asleep, for input) without using or wanting a processor.
        wall_s: seconds after which it is ended whatever it did: a backstop that a loaded machine does not reach.
        memory_bytes: anonymous memory, page tables, scratch files, and what its sockets may hold.
        processes: processes and threads at once.
        file_bytes: of one file.
        scratch_bytes: of its working folder and /tmp.
        scratch_files: files and folders there.
        open_files: of one process.
        output_bytes: of standard output, of standard error and of messages, each.
    """

    cpu_s: float = 6.0
    idle_s: float = 6.0
    wall_s: float = 120.0
    memory_bytes: int = 1024 * MIB
    processes: int = 64
    file_bytes: int = 64 * MIB
    scratch_bytes: int = 128 * MIB
    scratch_files: int = 10_000
    open_files: int = 256
    output_bytes: int = 8 * MIB


@dataclass(frozen=True, slots=True)
class Program:
    """Python source that is run as `__main__` in an empty working folder.

    Attributes:
        source: what is run.
        stdin: what it reads; a real file that nobody can change, so that `sys.stdin.buffer`, `os.read` and the file's
            size work as they do with judges.
        files: relative path -> content, in its working folder.
        preload: modules that the interpreter has imported before; they cost the program no time and no import.
    """

    source: str
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    preload: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a program. Everything in it but `end` and the times is the program's own word.

    Attributes:
        end: how it ended.
        code: exit code, or the signal's number where `end` is `signalled`; None where a bound ended it.
        stdout: its bytes, at most `output_bytes`.
        stderr: likewise; what came beyond was read and thrown away.
        cpu_s: of all its processes, on this machine (not scaled).
        wall_s: from start to end.
    """

    end: End
    code: int | None
    stdout: bytes
    stderr: bytes
    cpu_s: float
    wall_s: float

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.end == "exited" and self.code == 0


class Session(Protocol):
    """A running program and a channel to it, apart from stdin, stdout and stderr.

    Inside, the channel is file descriptor 3, a stream socket; a message is a line of bytes that ends with a newline.
    """

    async def send(self, line: bytes) -> None:
        """Write one message (without its newline); nothing happens where the program has ended."""
        ...

    async def receive(self) -> bytes | None:
        """The next message without its newline; None when the program has closed the channel or ended."""
        ...

    async def outcome(self) -> Outcome:
        """Close the channel, wait for the end (a bound at the latest), and say what came of it."""
        ...


class Sandbox(Protocol):
    """Where programs run.

    Attributes:
        kind: `bubblewrap`, `docker`, or `none` where nothing isolates.
    """

    kind: str

    async def ready(self) -> None:
        """Make sure that it works and measure how fast this machine is; again is free.

        Raises:
            ConfigError: nothing can isolate here; says what to install, or which setting names the risk.
        """
        ...

    def facts(self) -> Mapping[str, object]:
        """What the manifest says of it: kind, version, scale of CPU time, Python; known after `ready`."""
        ...

    async def run(self, program: Program, limits: Limits) -> Outcome:
        """Run a program to its end.

        Raises:
            GraderError: the sandbox itself failed (not the program).
        """
        ...

    def session(self, program: Program, limits: Limits) -> AbstractAsyncContextManager[Session]:
        """A program with a channel; leaving the context ends it.

        Raises:
            GraderError: the sandbox itself failed.
        """
        ...

    async def close(self) -> None:
        """End every worker; it can be used again afterwards."""
        ...
