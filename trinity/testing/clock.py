"""An event loop in which waiting takes no time, for tests of timeouts, retries and limits."""

from __future__ import annotations

import asyncio
import selectors

PATIENCE_S = 0.01
"""Real seconds without any event before the clock jumps; loopback sockets and short threads answer sooner."""


class _SkippingSelector(selectors.DefaultSelector):
    """A selector that pretends to have waited; `skipped` are the seconds that it did not."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Events that come within `PATIENCE_S`; without any, the whole timeout counts as passed."""
        if timeout is None or timeout <= PATIENCE_S:
            return super().select(timeout)
        events = super().select(PATIENCE_S)
        if not events:
            self.skipped += timeout - PATIENCE_S
        return events


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer when nothing happens: `with asyncio.Runner(loop_factory=...)`.

    Order and lengths of waits are those of a real loop, so a read timeout of a minute costs `PATIENCE_S` and does not
    fire because the machine is slow. Everything that is waited for must be on this loop, in a thread that ends soon
    or behind a loopback socket that this process serves.
    """

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Seconds of the monotonic clock plus all that were skipped."""
        return super().time() + self._skipping.skipped
