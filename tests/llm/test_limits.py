"""What one endpoint is asked to bear: never more at a time, never faster, and again as much once it can."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.llm.virtual_time import TICK_S, run_virtual
from trinity.errors import ConfigError
from trinity.llm.limits import COOLDOWN_S, LONGEST_PAUSE_S, Limit, Limiter

JITTER_S = 1000 * TICK_S


def make_limiter(concurrency: int, rpm: float | None = None, tpm: float | None = None) -> Limiter:
    """A limiter in virtual time."""
    return Limiter(Limit(concurrency, rpm, tpm), clock=asyncio.get_running_loop().time)


def now() -> float:
    """Virtual seconds."""
    return asyncio.get_running_loop().time()


@dataclass
class Endpoint:
    """Counts what begins and what is under way; a call takes `call_s` seconds."""

    limiter: Limiter
    call_s: float = 1.0
    begun: list[tuple[float, int]] = field(default_factory=list)
    under_way: int = 0
    most: int = 0

    async def call(self, name: int = 0, tokens: int = 1, call_s: float | None = None) -> None:
        """One call, which must find room when it begins."""
        async with self.limiter.turn(tokens):
            self.begun.append((now(), name))
            assert self.under_way < self.limiter.width
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                await asyncio.sleep(self.call_s if call_s is None else call_s)
            finally:
                self.under_way -= 1

    @property
    def times(self) -> list[float]:
        """When calls began."""
        return [time for time, _ in self.begun]


def test_calls_begin_in_order_and_never_exceed_the_width() -> None:
    """A thousand waiters go in the order in which they came, as many at a time as are allowed, and no slot idles."""

    async def main() -> None:
        endpoint = Endpoint(make_limiter(8))
        await asyncio.gather(*(endpoint.call(name) for name in range(1024)))
        assert [name for _, name in endpoint.begun] == list(range(1024))
        assert endpoint.most == 8
        assert now() == pytest.approx(1024 / 8, abs=JITTER_S * 128)

    run_virtual(main())


def test_a_freed_slot_wakes_one_waiter() -> None:
    """With a thousand calls waiting, the end of one costs a few turns of the loop and not a thousand."""

    async def main() -> None:
        endpoint = Endpoint(make_limiter(1))
        calls = [asyncio.create_task(endpoint.call(name)) for name in range(1024)]
        await asyncio.sleep(0.5)
        before = now()
        await asyncio.sleep(100)
        # The virtual clock moves by a tick with every turn of the loop, so turns can be counted.
        turns = (now() - before - 100) / TICK_S
        assert len(endpoint.begun) == 101
        assert turns < 100 * 12
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    run_virtual(main())


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 4),
    calls=st.lists(
        st.tuples(st.floats(0, 5), st.floats(0, 3), st.none() | st.floats(0, 8)),
        min_size=1,
        max_size=24,
    ),
    bad=st.lists(st.tuples(st.floats(0, 8), st.none() | st.floats(0, 5)), max_size=4),
    rpm=st.none() | st.integers(5, 600),
)
def test_cancelled_calls_leave_no_trace(
    width: int,
    calls: list[tuple[float, float, float | None]],
    bad: list[tuple[float, float | None]],
    rpm: int | None,
) -> None:
    """Whatever is cancelled whenever, amid pauses and rates: the rest end, and in the end every slot is free."""

    async def main() -> None:
        limiter = make_limiter(width, rpm)
        endpoint = Endpoint(limiter)

        async def one(name: int, start: float, call_s: float, cancel_after: float | None) -> None:
            await asyncio.sleep(start)
            task = asyncio.create_task(endpoint.call(name, call_s=call_s))
            if cancel_after is not None:
                await asyncio.sleep(cancel_after)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled() or task.exception() is None

        async def throttle(after: float, retry_after: float | None) -> None:
            await asyncio.sleep(after)
            limiter.throttled(retry_after)

        await asyncio.gather(
            *(one(name, *call) for name, call in enumerate(calls)), *(throttle(*event) for event in bad)
        )
        await asyncio.sleep(60)
        assert limiter._queued == 0
        before, free = now(), limiter.width
        await asyncio.gather(*(endpoint.call() for _ in range(free)))
        assert endpoint.times[-free] >= before
        assert rpm is not None or endpoint.times[-1] == pytest.approx(before, abs=JITTER_S)

    run_virtual(main())


def test_a_slot_given_to_a_call_that_is_cancelled_goes_to_the_next() -> None:
    """The slot is freed and its waiter cancelled in one tick: the call behind it begins in its place."""

    async def main() -> None:
        limiter = make_limiter(1)
        turn = limiter.turn(1)
        await turn.__aenter__()
        endpoint = Endpoint(limiter)
        first, second = (asyncio.create_task(endpoint.call(name)) for name in (1, 2))
        await asyncio.sleep(0.1)
        await turn.__aexit__(None, None, None)
        first.cancel()
        await second
        assert [name for _, name in endpoint.begun] == [2]
        assert first.cancelled()

    run_virtual(main())


def test_a_newcomer_does_not_take_the_slot_of_one_that_waits() -> None:
    """A call that comes in the very tick in which a slot is freed stands behind those that were there."""

    async def main() -> None:
        limiter = make_limiter(1)
        turn = limiter.turn(1)
        await turn.__aenter__()
        endpoint = Endpoint(limiter)
        waiting = asyncio.create_task(endpoint.call(1))
        await asyncio.sleep(0.1)
        await turn.__aexit__(None, None, None)
        await endpoint.call(2)
        await waiting
        assert [name for _, name in endpoint.begun] == [1, 2]

    run_virtual(main())


@settings(max_examples=20, deadline=None)
@given(rpm=st.integers(1, 20) | st.integers(61, 300), gaps=st.lists(st.floats(0, 200), max_size=2))
def test_requests_per_minute_hold_in_every_minute(rpm: int, gaps: list[float]) -> None:
    """No window of 60 s sees more than `rpm` calls begin, after quiet times either, and under load about as many do."""

    async def main() -> None:
        endpoint = Endpoint(make_limiter(10_000, rpm), call_s=0.0)
        for gap in [0.0, *gaps]:
            await asyncio.sleep(gap)
            await asyncio.gather(*(endpoint.call() for _ in range(2 * rpm + 1)))
        times = endpoint.times
        for first, beyond in zip(times, times[rpm:], strict=False):
            assert beyond - first >= 60 - JITTER_S
        assert times[2 * rpm] <= 2 * 60 * 1.03 + JITTER_S * len(times)

    run_virtual(main())


def test_tokens_per_minute_hold_and_large_calls_still_go() -> None:
    """A minute's worth may begin at once, then as fast as it refills; a call beyond the bucket waits for all of it."""

    async def main() -> None:
        endpoint = Endpoint(make_limiter(100, tpm=6000), call_s=0.0)
        await asyncio.gather(*(endpoint.call(tokens=1000) for _ in range(12)))
        expected = [0.0] * 6 + [10.0 * step for step in range(1, 7)]
        assert endpoint.times == pytest.approx(expected, abs=JITTER_S)
        await endpoint.call(tokens=1_000_000)
        assert now() == pytest.approx(120, abs=JITTER_S)

    run_virtual(main())


def test_small_calls_do_not_overtake_a_large_one() -> None:
    """A call that waits for its tokens is not passed by later ones that would need fewer."""

    async def main() -> None:
        endpoint = Endpoint(make_limiter(100, tpm=60), call_s=0.0)
        calls = [(0, 60), (1, 50), *((name, 1) for name in range(2, 20))]
        await asyncio.gather(*(endpoint.call(name, tokens) for name, tokens in calls))
        assert [name for _, name in endpoint.begun] == list(range(20))

    run_virtual(main())


def test_retry_after_pauses_every_call_of_the_endpoint() -> None:
    """Nothing begins before it has passed, later 429s only lengthen it, and calls under way go on."""

    async def main() -> None:
        endpoint = Endpoint(make_limiter(10))
        running = asyncio.create_task(endpoint.call())
        await asyncio.sleep(0.5)
        endpoint.limiter.throttled(30.0)
        endpoint.limiter.throttled(3.0)
        waiting = [asyncio.create_task(endpoint.call()) for _ in range(3)]
        await running
        assert now() == pytest.approx(1.0, abs=JITTER_S)
        await asyncio.sleep(20)
        endpoint.limiter.throttled(40.0)
        await asyncio.gather(*waiting)
        assert endpoint.times[1:] == pytest.approx([61.0] * 3, abs=JITTER_S)

    run_virtual(main())


def test_a_pause_reaches_a_call_that_waits_for_its_rate() -> None:
    """A 429 that comes while the next call waits for its second holds that call back, too."""

    async def main() -> None:
        endpoint = Endpoint(make_limiter(10, rpm=6))
        calls = [asyncio.create_task(endpoint.call()) for _ in range(2)]
        await asyncio.sleep(5)
        endpoint.limiter.throttled(30.0)
        await asyncio.gather(*calls)
        assert endpoint.times == pytest.approx([0.0, 35.0], abs=JITTER_S)

    run_virtual(main())


def test_no_pause_is_for_ever() -> None:
    """An endpoint that says "tomorrow" is tried again after the longest pause."""

    async def main() -> None:
        limiter = make_limiter(1)
        limiter.throttled(86_400.0)
        await Endpoint(limiter).call()
        assert now() == pytest.approx(LONGEST_PAUSE_S + 1, abs=JITTER_S)

    run_virtual(main())


def test_a_burst_of_429s_shrinks_the_width_once() -> None:
    """All 429s of one cooldown are one event, and the width never falls below one call at a time."""

    async def main() -> None:
        limiter = make_limiter(100)
        for _ in range(50):
            limiter.throttled(None)
        assert limiter.width == 80
        await asyncio.sleep(COOLDOWN_S - 1)
        limiter.throttled(None)
        assert limiter.width == 80
        await asyncio.sleep(1)
        limiter.throttled(None)
        assert limiter.width == 64
        for _ in range(40):
            await asyncio.sleep(COOLDOWN_S)
            limiter.throttled(None)
        assert limiter.width == 1
        await Endpoint(limiter).call()

    run_virtual(main())


def test_a_pause_is_a_cooldown() -> None:
    """429s that arrive while the endpoint is left alone belong to the burst that caused the pause."""

    async def main() -> None:
        limiter = make_limiter(100)
        limiter.throttled(120.0)
        await asyncio.sleep(100)
        limiter.throttled(None)
        assert limiter.width == 80
        await asyncio.sleep(20)
        limiter.throttled(None)
        assert limiter.width == 64

    run_virtual(main())


def test_the_width_recovers_by_answers_alone() -> None:
    """Each clean window of answers gives 5 % of the limit back, a 429 begins the window anew, the limit is the end."""

    async def main() -> None:
        limiter = make_limiter(100)
        limiter.throttled(None)
        for _ in range(79):
            limiter.answered()
        limiter.throttled(None)
        for _ in range(79):
            limiter.answered()
        assert limiter.width == 80
        limiter.answered()
        assert limiter.width == 85
        for _ in range(85 + 90 + 95):
            limiter.answered()
        assert limiter.width == 100
        for _ in range(1000):
            limiter.answered()
        assert limiter.width == 100

    run_virtual(main())


def test_a_recovered_slot_is_used_at_once() -> None:
    """A call that waits for a slot begins when the width grows, without another call having to end."""

    async def main() -> None:
        limiter = make_limiter(2)
        limiter.throttled(None)
        assert limiter.width == 1
        endpoint = Endpoint(limiter, call_s=1000.0)
        calls = [asyncio.create_task(endpoint.call()) for _ in range(2)]
        await asyncio.sleep(1)
        assert len(endpoint.begun) == 1
        for _ in itertools.takewhile(lambda _: limiter.width == 1, range(100)):
            limiter.answered()
        await asyncio.gather(*calls)
        assert endpoint.times[1] == pytest.approx(1.0, abs=JITTER_S)

    run_virtual(main())


def test_a_shrunken_endpoint_drains_before_it_takes_more() -> None:
    """Calls beyond the new width end in peace, and nothing begins until there are fewer than it allows."""

    async def main() -> None:
        limiter = make_limiter(10)
        endpoint = Endpoint(limiter)
        slow = [asyncio.create_task(endpoint.call(call_s=float(second))) for second in range(1, 11)]
        await asyncio.sleep(0.5)
        limiter.throttled(None)
        late = asyncio.create_task(endpoint.call())
        await asyncio.gather(*slow, late)
        assert limiter.width == 8
        assert endpoint.times[-1] == pytest.approx(3.0, abs=JITTER_S)

    run_virtual(main())


def test_pauses_use_the_clock_and_the_sleep_that_were_given() -> None:
    """A limiter of another clock asks that clock, and sleeps exactly what is left of a pause."""
    time, slept = [100.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        time[0] += seconds

    async def main() -> None:
        limiter = Limiter(Limit(1), clock=lambda: time[0], sleep=sleep)
        limiter.throttled(7.0)
        time[0] += 2.0
        async with limiter.turn(1):
            assert slept == [5.0]

    run_virtual(main())


def test_limits_are_read_from_a_configuration() -> None:
    """What is named holds; what is left out or null is the run's own concurrency, or no limit."""
    assert Limit.from_config("limits.e", None, 16) == Limit(16, None, None)
    assert Limit.from_config("limits.e", {"concurrency": None, "rpm": 60}, 16) == Limit(16, 60, None)
    assert Limit.from_config("limits.e", {"concurrency": 4, "tpm": 1e5}, 16) == Limit(4, None, 1e5)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"rpn": 60}, "there is no key 'limits.e.rpn'; did you mean 'rpm'?"),
        ({"rpm": 0}, "limits.e.rpm=0: must be a number above 0, or null for no limit"),
        ({"tpm": "many"}, "limits.e.tpm=many: must be a number above 0, or null for no limit"),
        ({"tpm": float("inf")}, "limits.e.tpm=inf: must be a number above 0, or null for no limit"),
        ({"concurrency": 0}, "limits.e.concurrency=0: must be a whole number of at least 1"),
        ({"concurrency": True}, "limits.e.concurrency=True: must be a whole number of at least 1"),
    ],
)
def test_a_wrong_limit_is_named(wrong: dict[str, Any], line: str) -> None:
    """An unknown key or an impossible number is one line with its place and what it may be."""
    with pytest.raises(ConfigError) as error:
        Limit.from_config("limits.e", wrong, 16)
    assert str(error.value) == line
