"""Which failures are tried again."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from tests.llm.support import Sleeps, make_request
from trinity.llm.retry import FIRST_WAIT_S, Answered, RetryPolicy, send_with_retries
from trinity.llm.transports.base import ErrorKind, Reply, TransportError
from trinity.types import FinishReason, Usage

GOOD = Reply("3", "", "stop", Usage(1, 1))
RETRIED: list[ErrorKind] = ["rate_limit", "server", "timeout", "connection", "malformed"]


class Trial:
    """One request against a list of outcomes; keeps sleeps and the numbers and seeds of attempts."""

    def __init__(self, *outcomes: Reply | TransportError) -> None:
        self.sleeps = Sleeps()
        self.numbers: list[int] = []
        self.seeds: list[int] = []
        self.left = list(outcomes)

    async def send(self, number: int, seed: int) -> Answered:
        """The next outcome."""
        self.numbers.append(number)
        self.seeds.append(seed)
        outcome = self.left.pop(0)
        if isinstance(outcome, TransportError):
            raise outcome
        return Answered(outcome, number, 0.0)

    async def run(self, policy: RetryPolicy | None = None) -> Answered:
        """Send with retries."""
        return await send_with_retries(make_request(), self.send, policy or RetryPolicy(), self.sleeps)


@pytest.mark.parametrize("kind", RETRIED)
async def test_passing_failures_are_retried(kind: ErrorKind) -> None:
    """After a failure that may pass, the next attempt's answer counts, with the same seed."""
    trial = Trial(TransportError(kind, "no", status=500), GOOD)
    answered = await trial.run()
    assert (answered.reply, answered.attempts) == (GOOD, 2)
    assert trial.seeds == [make_request().seed] * 2
    assert len(trial.sleeps) == 1


@pytest.mark.parametrize("kind", sorted(set(get_args(ErrorKind)) - set(RETRIED)))
async def test_lasting_failures_are_not_retried(kind: ErrorKind) -> None:
    """A bad request or wrong credentials are sent once."""
    trial = Trial(TransportError(kind, "no"), GOOD)
    with pytest.raises(TransportError, match="no"):
        await trial.run()
    assert trial.numbers == [1]


async def test_attempts_end() -> None:
    """The configured number of attempts is the last word."""
    trial = Trial(*[TransportError("server", f"down {number}") for number in range(9)])
    with pytest.raises(TransportError, match="down 2"):
        await trial.run(RetryPolicy(attempts=3))
    assert trial.numbers == [1, 2, 3]
    assert len(trial.sleeps) == 2


async def test_retry_after_is_honoured() -> None:
    """No attempt starts before the time that the provider named, and a time out of reach ends the call."""
    trial = Trial(TransportError("rate_limit", "slow", retry_after=42.0), GOOD)
    await trial.run()
    assert trial.sleeps == [42.0]
    far = Trial(TransportError("rate_limit", "tomorrow", retry_after=86400.0), GOOD)
    with pytest.raises(TransportError, match="tomorrow"):
        await far.run()
    assert far.sleeps == []


def test_waits_double_with_a_jitter_that_belongs_to_the_request() -> None:
    """Wait n is between a half and the whole of first x 2^(n-1), capped, and the same in a rerun."""
    policy, error = RetryPolicy(longest_backoff_s=6.0), TransportError("server", "down")
    for attempt, whole in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 6.0), (9, 6.0)):
        assert whole / 2 <= policy.wait(error, "abc", attempt) < whole
    assert policy.wait(error, "abc", 1) == policy.wait(error, "abc", 1)
    assert policy.wait(error, "abc", 1) != policy.wait(error, "abd", 1)


def test_rate_limits_wait_longest() -> None:
    """A provider that says "slow down" is given more time than a broken line."""
    assert max(FIRST_WAIT_S, key=lambda kind: FIRST_WAIT_S[kind]) == "rate_limit"


@pytest.mark.parametrize("empty", ["", " \n"])
async def test_empty_text_is_asked_for_once_more(empty: str) -> None:
    """The second answer, drawn with another seed, counts whatever it is; both are billed."""
    nothing = Reply(empty, "hm", "stop", Usage(1, 0, 5))
    recovered = Trial(nothing, GOOD)
    assert (await recovered.run()).reply == replace(GOOD, usage=Usage(2, 1, 5))
    assert len(set(recovered.seeds)) == 2
    hopeless = Trial(nothing, nothing, GOOD)
    assert (await hopeless.run()).reply == replace(nothing, usage=Usage(2, 0, 10))
    assert hopeless.numbers == [1, 2]


@pytest.mark.parametrize("finish", ["length", "context", "content_filter"])
async def test_other_finish_reasons_are_never_retried(finish: FinishReason) -> None:
    """Text cut at its cap, a prompt that does not fit and a refusal are answers, also when they are empty."""
    trial = Trial(Reply("", "", finish, None), GOOD)
    assert (await trial.run()).reply.finish_reason == finish
    assert trial.numbers == [1]
