"""What one endpoint can take: calls at a time, requests and tokens a minute, and the pauses that it asks for."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from trinity.errors import ConfigError
from trinity.naming import check_keys

if TYPE_CHECKING:
    from aiolimiter import AsyncLimiter

SHRINK = 0.8
"""What a 429 leaves of the width."""

COOLDOWN_S = 15.0
"""All 429s within so many seconds, or within the pause that the first one asked for, are one event."""

RECOVERY = 0.05
"""Part of the limit that the width gains when as many calls as it is wide were answered in a row."""

LONGEST_PAUSE_S = 300.0
"""An endpoint that asks for more is tried again after this: nothing may hang for a day."""

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Limit:
    """Most calls at a time, requests a minute and tokens a minute of an endpoint; None = not limited.

    Raises:
        ConfigError: a number out of range.
    """

    concurrency: int
    rpm: float | None = None
    tpm: float | None = None

    def __post_init__(self) -> None:
        if type(self.concurrency) is not int or self.concurrency < 1:
            raise ConfigError(f"concurrency={self.concurrency}: must be a whole number of at least 1")
        for key, value in (("rpm", self.rpm), ("tpm", self.tpm)):
            if value is not None and not (type(value) in (int, float) and math.isfinite(value) and value > 0):
                raise ConfigError(f"{key}={value}: must be a number above 0, or null for no limit")

    @classmethod
    def from_config(cls, place: str, given: Mapping[str, Any] | None, concurrency: int) -> Limit:
        """The limits written at `place` (`limits.main`); `concurrency` holds where they name none.

        Raises:
            ConfigError: an unknown key or a number out of range; names place and key.
        """
        known = [field.name for field in fields(cls)]
        check_keys(place, given or {}, known)
        values = {key: value for key, value in (given or {}).items() if value is not None}
        try:
            return cls(**{"concurrency": concurrency, **values})
        except ConfigError as error:
            raise ConfigError(f"{place}.{error}") from error


class Limiter:
    """Lets calls of one endpoint begin, first come first served. Belongs to one event loop.

    The width, how many calls may be under way, starts at the limit. A 429 leaves `SHRINK` of it, once in a cooldown;
    every clean window of answered calls gives `RECOVERY` of the limit back. A 5xx or a timeout says nothing about the
    limit: it neither shrinks the width nor counts as answered.

    Requests per minute: never more than that begin within any 60 s, and at most a second's worth at once. Tokens per
    minute: a bucket of a minute's worth that refills steadily, as providers keep it, so that a quiet time may be
    followed by a burst of that size. A call counts with the tokens it may need at most; one that needs more than the
    bucket holds waits for the whole bucket.

    Args:
        limit: the endpoint's.
        clock: seconds that only grow, for pauses and cooldowns. Rates follow the event loop's own clock.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        limit: Limit,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._limit = limit
        self._clock = clock
        self._sleep = sleep
        self._width = float(limit.concurrency)
        self._requests = None if limit.rpm is None else _request_bucket(limit.rpm)
        self._tokens = None if limit.tpm is None else _bucket(limit.tpm, _MINUTE_S)
        self._rated = self._requests is not None or self._tokens is not None
        self._under_way = 0
        self._queued = 0
        self._clean = 0
        self._paused_until = -math.inf
        self._calm_until = -math.inf
        # The first in the queue holds the door and waits for room: whatever happens wakes one call, not a thousand.
        self._door = asyncio.Lock()
        self._room = asyncio.Event()

    @property
    def width(self) -> int:
        """How many calls may be under way now."""
        return int(self._width + 1e-9)

    @asynccontextmanager
    async def turn(self, tokens: int) -> AsyncIterator[None]:
        """The right to make one call of at most `tokens` tokens; waits until everything allows it."""
        if self._queued or self._rated or self._under_way >= self.width or self._clock() < self._paused_until:
            await self._queue(tokens)
        else:
            self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._room.set()

    def throttled(self, retry_after: float | None) -> None:
        """The endpoint answered 429: fewer calls at a time, and none at all for `retry_after` seconds."""
        now = self._clock()
        self._clean = 0
        self._paused_until = max(self._paused_until, now + min(retry_after or 0.0, LONGEST_PAUSE_S))
        if now >= self._calm_until:
            self._width = max(1.0, self._width * SHRINK)
            self._calm_until = max(now + COOLDOWN_S, self._paused_until)

    def answered(self) -> None:
        """A call was answered: after a clean window of them the width grows."""
        if self._width >= self._limit.concurrency:
            return
        self._clean += 1
        if self._clean >= self.width:
            self._clean = 0
            self._width = min(self._limit.concurrency, self._width + RECOVERY * self._limit.concurrency)
            self._room.set()

    async def _queue(self, tokens: int) -> None:
        self._queued += 1
        try:
            async with self._door:
                await self._wait_for_room()
                await self._pay(tokens)
                # While this waited for its rate, a 429 may have asked for a pause or narrowed the width.
                await self._wait_for_room()
                self._under_way += 1
        finally:
            self._queued -= 1

    async def _wait_for_room(self) -> None:
        while True:
            pause = self._paused_until - self._clock()
            if pause > 0:
                await self._sleep(pause)
            elif self._under_way >= self.width:
                self._room.clear()
                await self._room.wait()
            else:
                return

    async def _pay(self, tokens: int) -> None:
        """Wait until requests and tokens per minute allow the call."""
        if self._tokens is not None:
            await self._tokens.acquire(min(tokens, self._tokens.max_rate))
        if self._requests is not None:
            await self._requests.acquire()


def _request_bucket(rpm: float) -> AsyncLimiter:
    """A bucket of one second's worth, at least one request.

    Within 60 s it lets through its size and what leaks out meanwhile, so it leaks by that much slower than `rpm`; the
    first request of a window needs no leak, hence the + 1.
    """
    size = max(1.0, rpm / _MINUTE_S)
    return _bucket(size, _MINUTE_S * size / (rpm + 1 - size))


def _bucket(size: float, period_s: float) -> AsyncLimiter:
    from aiolimiter import AsyncLimiter

    return AsyncLimiter(size, period_s)
