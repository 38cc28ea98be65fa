"""A sandbox whose programs say what the test wants them to say: for what the host makes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from evals.sandbox.base import End, Limits, Outcome, Program

Script = Callable[[bytes], Sequence[bytes]]
"""What a program says to a message."""


def outcome(end: End = "exited", code: int | None = 0, stdout: bytes = b"") -> Outcome:
    """The end of a program."""
    return Outcome(end, code, stdout, b"", 0.1, 0.1)


class CannedSession:
    """Implements `Session`; what is not asked for in time is told in the end."""

    def __init__(self, script: Script, end: Outcome) -> None:
        self._script, self._end = script, end
        self._waiting: list[bytes] = []

    async def send(self, line: bytes) -> None:
        """Hear a message."""
        self._waiting += self._script(line)

    async def receive(self) -> bytes | None:
        """Say the next line."""
        return self._waiting.pop(0) if self._waiting else None

    async def outcome(self) -> Outcome:
        """End as foreseen."""
        return self._end


class Canned:
    """Implements `Sandbox`: the n-th session follows the n-th script, the last one all further ones.

    Attributes:
        programs: what was started.
    """

    kind = "none"

    def __init__(self, *scripts: Script, end: Outcome | None = None) -> None:
        self._scripts, self._end = list(scripts), end or outcome()
        self.programs: list[Program] = []

    async def ready(self) -> None:
        """It always works."""

    def facts(self) -> Mapping[str, object]:
        """Nothing is known."""
        return {}

    async def run(self, program: Program, limits: Limits) -> Outcome:
        """End as foreseen."""
        self.programs.append(program)
        return self._end

    @asynccontextmanager
    async def session(self, program: Program, limits: Limits) -> AsyncIterator[CannedSession]:
        """A session of the next script."""
        self.programs.append(program)
        yield CannedSession(self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0], self._end)

    async def close(self) -> None:
        """Nothing is held."""
