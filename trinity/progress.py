"""Progress on stderr: a moving bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from trinity.cli import harmless
from trinity.types import Record

QUIET_S = 20.0
"""Seconds between two lines of a stage where no bar can move."""


def console(plain_width: int) -> Console:
    """Where tables go: stdout, as wide as the terminal, or `plain_width` columns in a file or a pipe."""
    out = Console(file=sys.stdout)
    out.width = out.width if out.is_terminal else plain_width
    return out


class ConsoleProgress:
    """Stages, steps and lasting lines on stderr; use it as a context manager."""

    def __init__(self) -> None:
        """Nothing is drawn before the first stage."""
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._stage: TaskID | None = None
        self._name, self._total, self._done, self._spoke = "", 0, 0, 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def stage(self, name: str, total: int) -> None:
        """A new stage of `total` episodes begins; the bar of the one before goes."""
        if self._stage is not None:
            self._bar.remove_task(self._stage)
        self._stage = self._bar.add_task(escape(name), total=total)
        self._name, self._total, self._done, self._spoke = name, total, 0, time.monotonic()

    def step(self, record: Record) -> None:
        """An episode ended."""
        del record
        self._done += 1
        if self._stage is not None:
            self._bar.advance(self._stage)
        self._remind()

    async def watch(self, calls: Callable[[], int]) -> None:
        """Until it is cancelled, speak of a stage in which no episode ends for long; `calls` were asked for so far."""
        while True:
            await asyncio.sleep(QUIET_S)
            if self._done < self._total:
                self._remind(f", {calls()} calls")

    def _remind(self, more: str = "") -> None:
        if self._bar.disable and time.monotonic() - self._spoke >= QUIET_S:
            self._spoke = time.monotonic()
            self.say(f"  {self._name}: {self._done} of {self._total} episodes{more}")

    def say(self, line: str) -> None:
        """One line that stays; it may quote what a provider sent."""
        self._console.print(escape(harmless(line)))


class Silence:
    """No progress at all (replay, tests)."""

    def stage(self, name: str, total: int) -> None:
        """Say nothing."""

    def step(self, record: Record) -> None:
        """Say nothing."""

    def say(self, line: str) -> None:
        """Say nothing."""
