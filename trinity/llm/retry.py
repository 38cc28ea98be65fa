"""Which failed attempts are tried again, and after what wait."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from trinity.llm.transports.base import ErrorKind, Reply, Request, Transport, TransportError

Sleep = Callable[[float], Awaitable[object]]

FIRST_WAIT_S: dict[ErrorKind, float] = {
    "rate_limit": 2.0,
    "server": 1.0,
    "timeout": 1.0,
    "connection": 0.5,
    "malformed": 0.5,
}
"""Seconds before the second attempt, doubled each time; a kind that is not here is never tried again."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently; `attempts` counts the first one. Waits are in seconds."""

    attempts: int = 5
    longest_backoff_s: float = 60.0
    longest_retry_after_s: float = 300.0

    def again(self, error: TransportError, attempt: int) -> bool:
        """Whether there is another attempt after the `attempt`-th (from 1) failed."""
        too_long = (error.retry_after or 0.0) > self.longest_retry_after_s
        return error.kind in FIRST_WAIT_S and attempt < self.attempts and not too_long

    def wait(self, error: TransportError, request_hash: str, attempt: int) -> float:
        """Seconds to wait after the `attempt`-th failure: exponential with jitter, never under Retry-After.

        The jitter is in [0.5, 1) and a function of request and attempt, so that a rerun waits alike.
        """
        backoff = min(FIRST_WAIT_S[error.kind] * 2.0 ** (attempt - 1), self.longest_backoff_s)
        return max(backoff * _jitter(request_hash, attempt), error.retry_after or 0.0)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that gave no answer: its number from 1, what failed, and the HTTP status where there was one."""

    number: int
    kind: str
    status: int | None
    detail: str


def _jitter(request_hash: str, attempt: int) -> float:
    drawn = hashlib.blake2b(f"{request_hash}:{attempt}".encode(), digest_size=4).digest()
    return 0.5 + int.from_bytes(drawn, "big") / 2.0**33


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply, the number of attempts that it took, and the seconds that the last one took."""

    reply: Reply
    attempts: int
    latency_s: float


async def send_with_retries(
    transport: Transport,
    request: Request,
    policy: RetryPolicy,
    turn: Callable[[], AbstractAsyncContextManager[object]],
    failed: Callable[[Attempt], None],
    sleep: Sleep,
) -> Answered:
    """The reply to `request`; `failed` hears of every attempt that gave none.

    `turn` is held during an attempt and let go during a wait, so that waiting calls block no others. Empty text with
    finish `stop` is asked for once more and then returned as it is.

    Raises:
        TransportError: the last attempt's, when there is no further one.
    """
    attempt, emptied = 1, False
    while True:
        try:
            async with turn():
                start = time.perf_counter()
                reply = await transport.send(request, request.seed)
        except TransportError as error:
            failed(Attempt(attempt, error.kind, error.status, str(error)))
            if not policy.again(error, attempt):
                raise
            await sleep(policy.wait(error, request.hash, attempt))
        else:
            empty = reply.finish_reason == "stop" and not reply.text.strip()
            if not empty or emptied:
                return Answered(reply, attempt, time.perf_counter() - start)
            emptied = True
            failed(Attempt(attempt, "empty", None, "empty text with finish reason stop"))
        attempt += 1
