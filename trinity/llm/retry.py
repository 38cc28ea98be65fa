"""Which failed attempts are tried again, and after what wait."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from trinity.llm.transports.base import LARGEST_SEED, ErrorKind, Reply, Request, TransportError
from trinity.types import Usage

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
        return error.kind in FIRST_WAIT_S and attempt < self.attempts and not self.is_too_long(error)

    def is_too_long(self, error: TransportError) -> bool:
        """Whether the provider asks for a longer wait than anybody will wait."""
        return (error.retry_after or 0.0) > self.longest_retry_after_s

    def wait(self, error: TransportError, request_hash: str, attempt: int) -> float:
        """Seconds to wait after the `attempt`-th failure: exponential with jitter, never under Retry-After.

        The jitter is in [0.5, 1) and a function of request and attempt, so that a rerun waits alike.
        """
        backoff = min(FIRST_WAIT_S[error.kind] * 2.0 ** (attempt - 1), self.longest_backoff_s)
        return max(backoff * _jitter(request_hash, attempt), error.retry_after or 0.0)


def _jitter(request_hash: str, attempt: int) -> float:
    drawn = hashlib.blake2b(f"{request_hash}:{attempt}".encode(), digest_size=4).digest()
    return 0.5 + int.from_bytes(drawn, "big") / 2.0**33


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply, the number of attempts that it took, and the seconds that the last one took."""

    reply: Reply
    attempts: int
    latency_s: float


Attempt = Callable[[int, int], Awaitable[Answered]]
"""One attempt at a request, given its number (from 1) and its seed; its reply's usage is known or estimated.

Raises TransportError.
"""


async def send_with_retries(request: Request, send: Attempt, policy: RetryPolicy, sleep: Sleep) -> Answered:
    """The answer to `request`.

    Empty text with finish `stop` is asked for once more, with another seed, and then returned as it is; what the
    first cost is added to the usage of the second, for both were bought.

    Raises:
        TransportError: the last attempt's, when there is no further one.
    """
    attempt, seed, emptied = 1, request.seed, None
    while True:
        try:
            answered = await send(attempt, seed)
        except TransportError as error:
            if not policy.again(error, attempt):
                raise
            await sleep(policy.wait(error, request.hash, attempt))
        else:
            if emptied is not None:
                return replace(answered, reply=_with_cost_of(emptied, answered.reply))
            if not is_empty(answered.reply):
                return answered
            emptied, seed = answered.reply, (seed + 1) & LARGEST_SEED
        attempt += 1


def is_empty(reply: Reply) -> bool:
    """Nothing was said although the model says that it finished."""
    return reply.finish_reason == "stop" and not reply.text.strip()


def _with_cost_of(empty: Reply, reply: Reply) -> Reply:
    return replace(reply, usage=(empty.usage or Usage()) + (reply.usage or Usage()))
