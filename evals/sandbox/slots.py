"""How many programs run at once, whatever event loops and threads they are started from."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Slots:
    """A semaphore that belongs to no event loop; those who wait are served in order.

    Args:
        count: how many may be taken at once.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Waiter] = deque()
        self._lock = threading.Lock()

    async def take(self) -> None:
        """Wait for a slot and take it."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            self._waiting.append((loop, future))
        try:
            await future
        except asyncio.CancelledError:
            self._withdraw((loop, future))
            raise

    def give(self) -> None:
        """Give a slot back."""
        with self._lock:
            while self._waiting:
                loop, future = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(self._grant, future)
                except RuntimeError:  # its loop has ended
                    continue
                return
            self._free += 1

    def _grant(self, future: asyncio.Future[None]) -> None:
        """Hand a slot to one who waits, or on to the next if it no longer does."""
        if future.done():
            self.give()
        else:
            future.set_result(None)

    def _withdraw(self, waiter: Waiter) -> None:
        """Wait no longer; a slot that has been granted by now goes on, one that is on its way is handed on there."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                return
        if not waiter[1].cancelled():
            self.give()
