"""Which failures are tried again."""

from __future__ import annotations

import contextlib
from typing import get_args

import pytest

from tests.llm.support import Sleeps, make_request
from trinity.llm.retry import FIRST_WAIT_S, Answered, Attempt, RetryPolicy, send_with_retries
from trinity.llm.transports.base import ErrorKind, Reply, TransportError
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.types import FinishReason, Usage

GOOD = Reply("3", "", "stop", Usage(1, 1))
RETRIED: list[ErrorKind] = ["rate_limit", "server", "timeout", "connection", "malformed"]


class Trial:
    """One request against a list of outcomes; keeps sleeps and failed attempts."""

    def __init__(self, *outcomes: Reply | TransportError) -> None:
        self.sleeps = Sleeps()
        self.failed: list[Attempt] = []
        self.left = list(outcomes)
        self.transport = ScriptedTransport(lambda _: self.left.pop(0))

    async def run(self, policy: RetryPolicy | None = None) -> Answered:
        """Send with retries."""
        return await send_with_retries(
            self.transport,
            make_request(),
            policy or RetryPolicy(),
            contextlib.nullcontext,
            self.failed.append,
            self.sleeps,
        )


@pytest.mark.parametrize("kind", RETRIED)
async def test_passing_failures_are_retried(kind: ErrorKind) -> None:
    """After a failure that may pass, the next attempt's answer counts, and the attempt is told."""
    trial = Trial(TransportError(kind, "no", status=500), GOOD)
    answered = await trial.run()
    assert (answered.reply, answered.attempts) == (GOOD, 2)
    assert trial.failed == [Attempt(1, kind, 500, "no")]
    assert len(trial.sleeps) == 1


@pytest.mark.parametrize("kind", sorted(set(get_args(ErrorKind)) - set(RETRIED)))
async def test_lasting_failures_are_not_retried(kind: ErrorKind) -> None:
    """A bad request or wrong credentials are sent once."""
    trial = Trial(TransportError(kind, "no"), GOOD)
    with pytest.raises(TransportError, match="no"):
        await trial.run()
    assert trial.transport.sent.total() == 1


async def test_attempts_end() -> None:
    """The configured number of attempts is the last word."""
    trial = Trial(*[TransportError("server", f"down {number}") for number in range(9)])
    with pytest.raises(TransportError, match="down 2"):
        await trial.run(RetryPolicy(attempts=3))
    assert [attempt.number for attempt in trial.failed] == [1, 2, 3]
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
    """The second answer counts whatever it is: a text, or nothing again."""
    nothing = Reply(empty, "hm", "stop", None)
    recovered = Trial(nothing, GOOD)
    assert (await recovered.run()).reply == GOOD
    assert recovered.failed == [Attempt(1, "empty", None, "empty text with finish reason stop")]
    hopeless = Trial(nothing, nothing, GOOD)
    assert (await hopeless.run()).reply == nothing
    assert hopeless.transport.sent.total() == 2


@pytest.mark.parametrize("finish", ["length", "context", "content_filter"])
async def test_other_finish_reasons_are_never_retried(finish: FinishReason) -> None:
    """Text cut at its cap, a prompt that does not fit and a refusal are answers, also when they are empty."""
    trial = Trial(Reply("", "", finish, None), GOOD)
    assert (await trial.run()).reply.finish_reason == finish
    assert trial.failed == []
