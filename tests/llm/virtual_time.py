"""An event loop whose clock jumps to the next timer, so that tests of hours take milliseconds and wait for nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

TICK_S = 1e-6
"""What one turn of the loop takes: in a world without it rounding could keep a timer for ever just ahead."""


class _Jump(selectors.SelectSelector):
    """Instead of waiting for a timer, moves the clock there."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; nobody ready and no timer set means that everybody waits for ever."""
        if timeout is None:
            message = "everybody waits for somebody else"
            raise AssertionError(message)
        self.now += max(timeout, 0.0) + TICK_S
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only while everybody waits."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._jump.now


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main` on a loop of its own, with `asyncio.sleep` and every timer in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
