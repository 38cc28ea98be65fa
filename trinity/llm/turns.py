"""What coroutines share of a turn of the event loop: its time, and work that is done once for all of them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

SLICE_S = 0.002
"""Most time that found answers take of one turn of the event loop."""

WOKEN = 8
"""Coroutines that are let in at a time; most of a thousand would only find that the time is used up."""


class Slices:
    """Lets other coroutines in: answers that are found need no waiting, so a thousand of them would block the loop."""

    def __init__(self) -> None:
        self._until = 0.0
        self._turning = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def used_up(self) -> bool:
        """Whether found answers have had their time in this turn of the event loop."""
        if not self._turning:
            self._begin_turn()
        return time.perf_counter() > self._until

    async def wait(self) -> None:
        """Wait, first come first served, for a turn with time left."""
        while True:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
            if not self.used_up():
                return

    def _begin_turn(self) -> None:
        self._turning, self._until = True, time.perf_counter() + SLICE_S
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turning = False
        if self._waiting:
            self._begin_turn()
        for _ in range(min(WOKEN, len(self._waiting))):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)


class OncePerTurn:
    """Calls `act` once for all who ask within one turn of the event loop; each waits until it is done."""

    def __init__(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._act = act
        self._next: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        """Wait until what was there when this was called has been acted on."""
        if self._next is None:
            self._next = asyncio.create_task(self._run())
        await asyncio.shield(self._next)

    async def _run(self) -> None:
        self._next = None  # who comes while it acts needs another
        await self._act()
