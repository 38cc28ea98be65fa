"""Caps are never passed, the earlier episode goes first, nobody waits for ever, and a rerun decides alike."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from omegaconf import OmegaConf

from tests.llm.support import make_agent
from tests.llm.virtual_time import run_virtual
from trinity.errors import BudgetError, ConfigError
from trinity.llm import budget as module
from trinity.llm.budget import (
    MESSAGE_TOKENS,
    Budget,
    Cap,
    Caps,
    Shortfall,
    actual,
    bounded,
    failed_spend,
    fits_episode,
    output_limit,
    worst_case,
    worst_usage,
)
from trinity.llm.transports.base import ErrorKind, TransportError
from trinity.types import BILLS, Bill, Message, Phase, Price, Spend, Usage

NOTHING = Spend()
PRICE = Price(1.0, 2.0, "a list")
HELLO: list[Message] = [{"role": "user", "content": "hello"}]

Triple = tuple[int, int, int]
"""USD in cents, weighted tokens, calls."""

Limits = tuple[int | None, int | None, int | None]
"""Likewise; None = no cap."""

amounts = st.tuples(st.integers(0, 6), st.integers(0, 6), st.just(1))
caps = st.tuples(*[st.none() | st.integers(0, 12)] * 3)


def spend_of(amount: Triple) -> Spend:
    """A spend from whole numbers."""
    return Spend(amount[0] / 100, amount[1], amount[2])


def cap_of(limits: Limits) -> Cap:
    """A cap from whole numbers."""
    cents, tokens, calls = limits
    return Cap(None if cents is None else cents / 100, tokens, calls)


@dataclass(eq=False)
class Case:
    """One attempt: what it may cost, what it will cost (None: nobody says), and how far it has come."""

    key: tuple[int, int]
    phase: Phase
    worst: Triple
    end: asyncio.Event = field(default_factory=asyncio.Event)
    cost: Triple | None = None
    state: str = "waiting"
    task: asyncio.Task[None] | None = None
    line: str = ""

    async def run(self, budget: Budget) -> None:
        """Attempt, wait for the end, settle."""
        try:
            async with budget.attempt(spend_of(self.worst), self.phase, self.key[0]) as charge:
                self.state = "open"
                await self.end.wait()
                if self.cost is not None:
                    charge.settle(spend_of(self.cost))
        except BudgetError as error:
            self.state, self.line = "refused", str(error)
        else:
            self.state = "settled"

    @property
    def refused_by(self) -> str:
        """The cap that its error names: `run` or `phases.NAME`."""
        return self.line.partition("=")[0].removeprefix("budget.").rpartition(".")[0]

    @property
    def counts(self) -> Triple:
        """What it has taken of the caps."""
        return self.worst if self.state == "open" or self.cost is None else self.cost


class Accounts(RuleBasedStateMachine):
    """Attempts come, end, fail to say their cost and are cancelled in any order; plain sums say what must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.cases: list[Case] = []
        self.exhausted: set[str] = set()

    @initialize(run=caps, train=caps, val=caps)
    def start(self, run: Limits, train: Limits, val: Limits) -> None:
        """A budget with some caps, some of them zero."""
        self.limits = {"run": run, "phases.train": train, "phases.val": val}
        self.budget = Budget(cap_of(run), {"train": cap_of(train), "val": cap_of(val)}, {})

    @rule(order=st.integers(0, 9), phase=st.sampled_from(["train", "val"]), worst=amounts)
    def arrive(self, order: int, phase: Phase, worst: Triple) -> None:
        """An attempt is begun."""
        case = Case((order, len(self.cases)), phase, worst)
        self.cases.append(case)
        case.task = self.loop.create_task(case.run(self.budget))
        self.step()

    @precondition(lambda self: self.in_state("open"))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """An attempt ends, at its cost or without saying it; a waiting one may be cancelled in the same tick."""
        case = data.draw(st.sampled_from(self.in_state("open")))
        case.cost = data.draw(st.none() | st.tuples(*(st.integers(0, most) for most in case.worst)))
        case.end.set()
        waiting = self.in_state("waiting")
        self.step(data.draw(st.none() | st.sampled_from(waiting)) if waiting else None)

    @precondition(lambda self: self.in_state("waiting") + self.in_state("open"))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """An attempt is cancelled while it waits or while it is made."""
        self.stop(data.draw(st.sampled_from(self.in_state("waiting") + self.in_state("open"))))
        self.step()

    def stop(self, case: Case) -> None:
        """What waits has cost nothing; what was asked counts in full."""
        assert case.task is not None
        if case.task.cancel():
            case.cost = (0, 0, 0) if case.state == "waiting" else case.worst
            case.state = "cancelled"

    def step(self, stopped: Case | None = None) -> None:
        """Let everybody go on as far as they can; see who was let in and who was sent away."""
        waiting = self.in_state("waiting")
        for turn in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))
            if stopped and turn == 0:
                self.stop(stopped)
        for case in self.cases:
            assert case.task is not None
            assert not case.task.done() or case.task.cancelled() or case.task.exception() is None
        entered = [case.key for case in waiting if case.state in {"open", "settled"}]
        assert not entered or all(case.key > max(entered) for case in self.in_state("waiting"))
        self.judge([case for case in waiting if case.state == "refused"])

    def judge(self, refused: list[Case]) -> None:
        """Nobody is sent away without need: nothing was open that could have made room for the first of them."""
        assert all(case in self.of(case.refused_by) for case in refused)
        for place in {case.refused_by for case in refused} - self.exhausted:
            self.exhausted.add(place)
            assert not [case for case in self.of(place) if case.state == "open"]
            assert any(not self.fits(place, case.worst) for case in refused)

    def in_state(self, state: str) -> list[Case]:
        """All attempts that have come so far."""
        return [case for case in self.cases if case.state == state]

    def of(self, place: str) -> list[Case]:
        """Attempts that draw on a cap."""
        return [case for case in self.cases if place in {"run", f"phases.{case.phase}"}]

    def taken(self, place: str) -> list[int]:
        """What is open or settled."""
        counted = [case.counts for case in self.of(place) if case.state in {"open", "settled", "cancelled"}]
        return [sum(axis) for axis in zip((0, 0, 0), *counted, strict=True)]

    def fits(self, place: str, more: Triple = (0, 0, 0)) -> bool:
        """Whether that much more is within the cap."""
        axes = zip(self.taken(place), more, self.limits[place], strict=True)
        return not any(limit is not None and gone + plus > limit for gone, plus, limit in axes)

    @invariant()
    def no_cap_is_passed(self) -> None:
        """Open reserves and settled spends are within every cap, and the budget's own sums are these."""
        for place in self.limits:
            phase = place.removeprefix("phases.") if place != "run" else None
            assert self.fits(place)
            cents, tokens, calls = self.taken(place)
            spent = self.budget.spent(phase)  # type: ignore[arg-type]  # one of two phases or None
            assert spent == Spend(cents / 100, tokens, calls)

    @invariant()
    def whoever_waits_has_hope(self) -> None:
        """The first that waits does not fit, and wherever it does not, something is open."""
        waiting = sorted(self.in_state("waiting"), key=lambda case: case.key)
        for case in waiting:
            assert not {"run", f"phases.{case.phase}"} & self.exhausted
        for case in waiting[:1]:
            short = [place for place in ("run", f"phases.{case.phase}") if not self.fits(place, case.worst)]
            assert short
            for place in short:
                assert [other for other in self.of(place) if other.state == "open"]

    def teardown(self) -> None:
        """When everything that was begun has ended, nobody is left."""
        while still := self.in_state("open"):
            still[0].end.set()
            self.step()
        assert not self.in_state("waiting")
        assert not self.cases or not self.budget._waiting
        self.loop.close()


TestAccounts = Accounts.TestCase
TestAccounts.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


async def buy(budget: Budget, worst: Spend, cost: Spend | None = None, phase: Bill = "test", order: int = 0) -> None:
    """One attempt that settles at `cost`; None: nobody says."""
    async with budget.attempt(worst, phase, order) as charge:
        await asyncio.sleep(0)
        if cost is not None:
            charge.settle(cost)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 4), st.floats(0.1, 2)), min_size=1, max_size=30))
def test_an_earlier_episode_is_never_overtaken_while_it_waits(attempts: list[tuple[int, float, float]]) -> None:
    """Where one attempt fits at a time, the next is the earliest of those that wait, the first of its equals."""

    async def main() -> None:
        budget = Budget(Cap(weighted_tokens=100), {}, {})
        waiting: set[tuple[int, int]] = set()
        arrivals = itertools.count()

        async def one(order: int, start: float, length: float) -> None:
            await asyncio.sleep(start)
            key = (order, next(arrivals))
            waiting.add(key)
            async with budget.attempt(Spend(0.0, 100, 1), "train", order) as charge:
                assert key == min(waiting)
                waiting.remove(key)
                await asyncio.sleep(length)
                charge.settle(Spend(0.0, 0, 1))

        await asyncio.gather(*(one(*attempt) for attempt in attempts))
        assert budget.spent("train") == Spend(0.0, 0, len(attempts))

    run_virtual(main())


@settings(max_examples=100, deadline=None)
@given(micro_usd=st.integers(1, 10**7), n=st.integers(1, 60), before=st.integers(0, 60))
def test_rounding_neither_passes_a_cap_nor_refuses_an_exact_fit(micro_usd: int, n: int, before: int) -> None:
    """As many attempts as the cap divides into are made, also after a resume with a sum of floats, and not one more."""

    async def main() -> None:
        price = micro_usd / 1e6
        cap = (n + before) * micro_usd / 1e6
        budget = Budget(Cap(usd=cap), {}, {"val": Spend(sum([price] * before), 0, before)})
        for _ in range(n):
            await buy(budget, Spend(price, 1, 1), Spend(price, 1, 1))
        with pytest.raises(BudgetError):
            await buy(budget, Spend(1e-6, 1, 1))
        assert budget.spent().usd == pytest.approx(cap, abs=1e-11)

    run_virtual(main())


async def test_the_line_says_what_was_spent_and_how_to_go_on() -> None:
    """Key, value, what is gone, what the next attempt could cost, the command, and the least cap that helps."""
    budget = Budget(Cap(usd=1.5), {}, {"train": Spend(1.25, 10, 3)})
    with pytest.raises(BudgetError) as error:
        await buy(budget, Spend(0.25005, 10, 1))
    line = (
        "budget.run.usd=1.5 is reached: 1.25 USD spent, the next attempt could cost 0.25005; "
        "go on with resume=RUN budget.run.usd=MORE (at least 1.5001)"
    )
    assert str(error.value) == line
    assert budget.shortfall is not None
    assert budget.shortfall.line("outputs/x") == line.replace("RUN", "outputs/x")
    larger = Budget(Cap(usd=budget.shortfall.least), {}, {"train": Spend(1.25, 10, 3)})
    await buy(larger, Spend(0.25005, 10, 1))


async def test_the_line_of_a_count_is_in_whole_numbers() -> None:
    """Tokens and calls are written in full."""
    budget = Budget(Cap(), {"train": Cap(weighted_tokens=12_345_678)}, {"train": Spend(None, 12_345_670, 9)})
    with pytest.raises(BudgetError) as error:
        await buy(budget, Spend(None, 9, 1), phase="train")
    assert str(error.value) == (
        "budget.phases.train.weighted_tokens=12345678 is reached: 12345670 weighted tokens spent, the next attempt "
        "could cost 9; go on with resume=RUN budget.phases.train.weighted_tokens=MORE (at least 12345679)"
    )


async def test_an_exhausted_phase_stops_itself_and_an_exhausted_run_stops_all() -> None:
    """A phase's cap refuses that phase alone, small attempts too; the run's cap refuses every phase."""
    budget = Budget(Cap(calls=4), {"train": Cap(weighted_tokens=10)}, {})
    with pytest.raises(BudgetError, match=r"budget\.phases\.train\.weighted_tokens=10"):
        await buy(budget, Spend(0.0, 11, 1), phase="train")
    with pytest.raises(BudgetError, match=r"budget\.phases\.train\.weighted_tokens=10"):
        await buy(budget, Spend(0.0, 1, 1), phase="train")
    assert budget.shortfall is not None
    assert budget.shortfall.key == "budget.phases.train.weighted_tokens"
    for _ in range(4):
        await buy(budget, Spend(0.0, 11, 1), phase="val")
    for phase in BILLS[1:]:
        with pytest.raises(BudgetError, match=r"budget\.run\.calls=4"):
            await buy(budget, NOTHING._replace(calls=1), phase=phase)


async def test_an_exhausted_phase_leaves_the_waiters_of_others() -> None:
    """Whoever draws on another cap goes on waiting, and gets its turn."""
    budget = Budget(Cap(calls=10), {"val": Cap(calls=2)}, {"val": Spend(0.0, 0, 1)})
    async with budget.attempt(Spend(0.0, 0, 8), "test", 0) as large:
        later = asyncio.create_task(buy(budget, Spend(0.0, 0, 2), order=2))
        await asyncio.sleep(0)
        with pytest.raises(BudgetError, match=r"budget\.phases\.val\.calls=2"):
            await buy(budget, Spend(0.0, 0, 2), phase="val", order=1)
        assert not later.done()
        large.settle(Spend(0.0, 0, 7))
    await later
    assert budget.spent() == Spend(0.0, 0, 10)


async def test_a_cap_of_zero_buys_nothing() -> None:
    """Zero is a cap and not the lack of one."""
    for cap in (Cap(usd=0.0), Cap(weighted_tokens=0), Cap(calls=0)):
        budget = Budget(cap, {}, {})
        assert budget.capped
        with pytest.raises(BudgetError, match="=0 is reached"):
            await buy(budget, Spend(0.001, 1, 1))
    assert not Budget(Cap(), {"train": Cap()}, {}).capped


async def test_an_attempt_that_settles_nothing_counts_in_full() -> None:
    """Its reserve stays, whether it ended quietly or by an error, and so does that of USD that nobody knows."""
    budget = Budget(Cap(usd=10.0), {}, {})
    await buy(budget, Spend(1.0, 5, 1))
    with pytest.raises(RuntimeError):
        async with budget.attempt(Spend(2.0, 5, 1), "test", 0):
            raise RuntimeError
    await buy(budget, Spend(4.0, 5, 1), Spend(None, 2, 1))
    assert budget.spent() == Spend(7.0, 12, 3)


async def test_usd_that_are_not_known_never_become_zero() -> None:
    """Without a cap in USD they are None in the sum; with one nothing of unknown price is bought or resumed."""
    free = Budget(Cap(calls=9), {}, {})
    await buy(free, Spend(1.0, 5, 1))
    await buy(free, Spend(None, 5, 1))
    assert free.spent() == Spend(None, 10, 2)
    await buy(free, Spend(1.0, 5, 1), phase="val")
    assert [free.spent(), free.spent("test"), free.spent("val")] == [
        *(Spend(None, 15, 3), Spend(None, 10, 2)),
        Spend(1.0, 5, 1),
    ]
    taken_up = Budget(Cap(), {}, {"train": Spend(None, 1, 1), "val": Spend(0.25, 2, 1)})
    assert [taken_up.spent(), taken_up.spent("train"), taken_up.spent("val"), taken_up.spent("test")] == [
        *(Spend(None, 3, 2), Spend(None, 1, 1)),
        *(Spend(0.25, 2, 1), NOTHING),
    ]
    line = (
        "budget.phases.test.usd cannot hold what was or would be spent: its price is not known; "
        "give every agent a `price`, or cap weighted_tokens instead"
    )
    with pytest.raises(ConfigError) as refused:
        await buy(Budget(Cap(), {"test": Cap(usd=1.0)}, {}), Spend(None, 1, 1))
    assert str(refused.value) == line
    with pytest.raises(ConfigError) as refused:
        Budget(Cap(usd=1.0), {}, {"train": Spend(None, 1, 1)})
    assert str(refused.value) == line.replace("phases.test", "run")


def test_a_sum_of_floats_is_taken_up_to_a_billionth() -> None:
    """Less is dust of adding; more would be money."""
    assert Budget(Cap(), {}, {"val": Spend(0.12345678949, 1, 1)}).spent() == Spend(0.123456789, 1, 1)


def test_the_line_rounds_what_is_gone_and_not_what_to_set() -> None:
    """Six digits of what was spent, twelve of the cap; the least cap is rounded up, and an exact one stays."""
    short = Shortfall("budget.run.usd", "USD", 123456.78901234, 123456.7891, 0.0009)
    assert short.line() == (
        "budget.run.usd=123456.789012 is reached: 123457 USD spent, the next attempt could cost 0.0009; "
        "go on with resume=RUN budget.run.usd=MORE (at least 123456.79)"
    )
    assert Shortfall("k", "USD", 0.0, 1.25, 0.25).least == 1.5
    assert Shortfall("k", "USD", 0.0, 0.0, 1e-6).least == 0.0001


async def test_a_waiter_served_and_cancelled_in_one_tick_gives_all_back() -> None:
    """Room that it was given goes to the next, and nothing of it is counted."""
    budget = Budget(Cap(calls=2), {}, {})
    first = budget.attempt(Spend(0.0, 0, 2), "test", 0)
    charge = await first.__aenter__()
    second, third = (asyncio.create_task(buy(budget, Spend(0.0, 0, 2), NOTHING, order=order)) for order in (1, 2))
    await asyncio.sleep(0)
    charge.settle(NOTHING)
    await first.__aexit__(None, None, None)
    second.cancel()
    await third
    assert second.cancelled()
    assert budget.spent() == NOTHING


async def test_work_grows_with_the_attempts_and_not_with_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands waiting an attempt is weighed a few times, however many stand behind it."""
    weighed, weigh = [0], module._short

    def count(need: Any) -> Any:
        weighed[0] += 1
        return weigh(need)

    monkeypatch.setattr(module, "_short", count)
    budget, n = Budget(Cap(weighted_tokens=10), {}, {}), 4000
    worst, cost = Spend(0.0, 3, 1), Spend(0.0, 0, 1)
    await asyncio.gather(*(buy(budget, worst, cost, order=n - number) for number in range(n)))
    assert budget.spent().calls == n
    assert weighed[0] < 4 * n


@pytest.mark.parametrize(
    ("sampling", "extra_body", "limit"),
    [
        ({"max_tokens": 100}, {}, 100),
        ({"max_completion_tokens": 70}, {}, 70),
        ({"max_tokens": 100, "max_completion_tokens": 300}, {}, 300),
        ({"max_tokens": 100}, {"max_tokens": 500}, 500),
        ({}, {}, None),
        ({"max_tokens": 0}, {}, None),
        ({"max_tokens": "100"}, {}, None),
        ({"max_tokens": True}, {}, None),
        ({"max_tokens": 4096, "reasoning_effort": "high"}, {}, 4096),
        ({"max_tokens": 4096}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, 4096),
        ({"max_tokens": 4096}, {"thinking": {"type": "enabled", "budget_tokens": 4096}}, 8192),
        ({"max_tokens": 4096}, {"thinking": {"type": "disabled"}}, 4096),
        ({"max_tokens": 4096}, {"reasoning": {"max_tokens": 2000}}, 4096),
        ({"max_tokens": 1000}, {"reasoning": {"max_tokens": 2000}}, 3000),
        ({"max_tokens": 1000}, {"thinking_budget": 500}, 1500),
        ({"max_tokens": 1000, "thinking_budget": 500}, {"enable_thinking": True}, 1500),
        ({"max_tokens": 1000}, {"enable_thinking": True}, None),
        ({"max_tokens": 1000}, {"enable_thinking": False}, 1000),
        ({"max_tokens": 1000}, {"chat_template_kwargs": {"enable_thinking": True}}, 1000),
        ({"max_tokens": 1000, "enable_thinking": False}, {"enable_thinking": True}, None),
        ({"max_tokens": 1000, "thinking_budget": 5}, {"thinking_budget": 500}, 1500),
        ({"max_tokens": 1000, "thinking_budget": 500}, {"enable_thinking": True, "thinking_budget": None}, None),
        ({"max_tokens": 1}, {}, 1),
        ({"max_tokens": 99.5}, {}, 100),
        ({"max_tokens": float("inf")}, {}, None),
        ({"max_tokens": -5, "max_completion_tokens": 7}, {}, 7),
        ({"max_tokens": 10}, {"thinking": "enabled"}, 10),
        ({"max_tokens": 10}, {"thinking": {"budget_tokens": 20}, "reasoning": {"max_tokens": 30}}, 30),
    ],
)
def test_the_output_of_an_attempt_is_bounded(
    sampling: dict[str, Any], extra_body: dict[str, Any], limit: int | None
) -> None:
    """By the cap on the wire, and by a thinking budget where that is not held by the cap."""
    assert output_limit(make_agent(sampling=sampling, extra_body=extra_body)) == limit


def test_the_worst_case_counts_bytes_messages_and_the_whole_output() -> None:
    """One token a UTF-8 byte, a margin a message, and every output token that the cap allows; priced accordingly."""
    agent = make_agent(sampling={"max_tokens": 1000}, price=PRICE)
    messages: list[Message] = [{"role": "system", "content": "né"}, {"role": "user", "content": "\ud800x"}]
    tokens = 3 + 4 + 2 * MESSAGE_TOKENS
    assert worst_usage(agent, messages) == Usage(tokens, 1000)
    assert worst_case(agent, messages) == Spend((tokens + 2000) / 1e6, tokens + 4000, 1)
    assert worst_case(make_agent(sampling={"max_tokens": 1000}), messages) == Spend(None, tokens + 4000, 1)
    assert worst_case(make_agent(price=PRICE), messages) == Spend(None, tokens, 1)
    assert worst_usage(make_agent(), []) == Usage(0, 0)


@pytest.mark.parametrize(("cached_usd", "usd"), [(None, 36.0), (0.0, 36.0), (0.5, 36.0), (1.0, 72.0), (4.0, 288.0)])
def test_the_worst_case_takes_the_dearer_price_of_input(cached_usd: float | None, usd: float) -> None:
    """72 bytes and tokens of input, at 0.5 USD or at what cached ones cost where that is more; no output is free."""
    agent = make_agent(sampling={"max_tokens": 1}, price=Price(0.5, 0.0, "a list", cached_usd))
    worst = worst_case(agent, [{"role": "user", "content": "12345678"}])
    assert worst.usd == pytest.approx(usd / 1e6)
    assert worst[1:] == (72 + 4, 1)


@given(st.text(max_size=200), *[st.integers(0, 500)] * 3, st.floats(0, 1), st.sampled_from([None, 0.1, 5.0]))
def test_no_usage_within_the_bounds_costs_more_than_the_worst_case(
    text: str, seen: int, hid: int, read: int, cached: float, cached_usd: float | None
) -> None:
    """On every axis, whatever part of the input was cached, at whatever price, and of the output hidden."""
    agent = make_agent(sampling={"max_tokens": 1000}, price=replace(PRICE, cached_usd=cached_usd))
    messages: list[Message] = [{"role": "user", "content": text}]
    read = min(read, worst_usage(agent, messages).input_tokens)
    cost, worst = actual(agent, Usage(read, seen, hid, int(cached * read))), worst_case(agent, messages)
    assert cost.usd is not None
    assert worst.usd is not None
    assert cost.usd <= worst.usd + 1e-12
    assert cost[1:] <= worst[1:]


REFUSED_AT_ONCE = [
    ("rate_limit", 429, False),
    ("rate_limit", None, False),
    ("bad_request", 400, False),
    ("bad_request", 422, False),
    ("fatal", 401, False),
    ("connection", None, True),
    ("malformed", 418, False),
]
NOBODY_KNOWS = [
    ("timeout", None, False),
    ("timeout", 408, False),
    ("timeout", 409, False),
    ("server", 500, False),
    ("server", 529, False),
    ("connection", None, False),
    ("malformed", 200, False),
]


@pytest.mark.parametrize(("kind", "status", "refused"), REFUSED_AT_ONCE + NOBODY_KNOWS)
def test_a_failed_attempt_costs_what_it_may_have_cost(kind: ErrorKind, status: int | None, refused: bool) -> None:
    """Nothing but the call where the provider did no work; the worst case wherever nobody knows."""
    worst = Spend(0.5, 5000, 1)
    free = (kind, status, refused) in REFUSED_AT_ONCE
    error = TransportError(kind, "failed", status=status, refused=refused)
    assert failed_spend(error, worst) == (Spend(0.0, 0, 1) if free else worst)


def test_an_episode_may_use_exactly_its_cap() -> None:
    """On every axis, without float dust; USD that are not known do not fit a cap in USD."""
    assert fits_episode(Cap(usd=0.3), Spend(0.1, 9, 9), Spend(0.2, 9, 9))
    assert not fits_episode(Cap(usd=0.3), Spend(0.1, 9, 9), Spend(0.200001, 9, 9))
    assert fits_episode(Cap(weighted_tokens=10, calls=3), Spend(None, 4, 2), Spend(None, 6, 1))
    assert not fits_episode(Cap(weighted_tokens=10), NOTHING, Spend(0.0, 11, 1))
    assert not fits_episode(Cap(calls=2), Spend(0.0, 0, 2), Spend(0.0, 0, 1))
    assert fits_episode(Cap(usd=0.3), NOTHING, Spend(0.3, 9, 9))
    assert fits_episode(Cap(usd=0.0, calls=1), NOTHING, Spend(0.0, 9, 1))
    assert not fits_episode(Cap(usd=0.3), Spend(0.3, 9, 9), Spend(1e-12, 9, 9))
    assert not fits_episode(Cap(weighted_tokens=10), Spend(0.0, 10, 1), Spend(0.0, 1, 1))
    assert not fits_episode(Cap(usd=9.0), NOTHING, Spend(None, 1, 1))
    assert not fits_episode(Cap(usd=9.0), Spend(None, 1, 1), Spend(0.0, 1, 1))
    assert not fits_episode(Cap(usd=0.0), NOTHING, Spend(1e-6, 1, 1))
    assert fits_episode(Cap(), Spend(None, 10**12, 10**9), Spend(None, 1, 1))


def refusal(act: Callable[[], object]) -> str:
    """The one line of a ConfigError."""
    with pytest.raises(ConfigError) as error:
        act()
    return str(error.value)


def test_a_cap_that_could_not_be_kept_refuses_to_start() -> None:
    """Agent, key and what to set are named; caps on calls alone ask nothing of an agent."""
    good = make_agent("good", sampling={"max_tokens": 9}, price=PRICE)
    endless = make_agent("endless", price=PRICE)
    unpriced = make_agent("unpriced", sampling={"max_tokens": 9})
    thinking = make_agent("thinking", sampling={"max_tokens": 9}, extra_body={"enable_thinking": True}, price=PRICE)
    every = [good, endless, unpriced, thinking]
    bounded(every, Caps())
    bounded(every, Caps(run=Cap(calls=5), confirm_usd=1.0))
    bounded([good], Caps(run=Cap(usd=1.0), episode=Cap(usd=0.1)))
    bounded([good, unpriced], Caps(phases={"train": Cap(weighted_tokens=5)}))
    tokens, usd = Caps(phases={"train": Cap(weighted_tokens=5)}), Caps(episode=Cap(usd=0.1))
    assert refusal(lambda: bounded([good, endless], tokens)) == (
        "agent endless: its output has no bound, so budget.phases.train.weighted_tokens=5 could be passed; "
        "set `max_tokens`"
    )
    assert refusal(lambda: bounded([thinking], tokens)) == (
        "agent thinking: its output has no bound, so budget.phases.train.weighted_tokens=5 could be passed; "
        "set `thinking_budget`"
    )
    both = Caps(run=Cap(weighted_tokens=5, calls=2), episode=Cap(usd=0.1))
    assert "so budget.run.weighted_tokens=5 could be passed" in refusal(lambda: bounded([endless], both))
    assert "so budget.episode.usd=0.1 could be passed" in refusal(lambda: bounded([unpriced], both))
    assert refusal(lambda: bounded([good, unpriced], usd)) == (
        "agent unpriced: its `price` is not known, so budget.episode.usd=0.1 could be passed; "
        "give it a `price`, or cap weighted_tokens instead"
    )


def test_the_shipped_group_caps_nothing_and_asks_above_ten_usd() -> None:
    """Every key of `conf/budget/default.yaml` is known, and each phase has a place in it."""
    path = Path(__file__).resolve().parents[2] / "conf" / "budget" / "default.yaml"
    assert path.read_text(encoding="utf-8").startswith("# @package budget\n")
    content = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(content, dict)
    read = Caps.from_config({str(key): value for key, value in content.items()})
    assert read == Caps(phases=dict.fromkeys(BILLS, Cap()), confirm_usd=10.0)
    assert not list(read.entries())


def test_caps_are_read_from_a_configuration() -> None:
    """Numbers are taken as they are meant, and parts may be left out."""
    read = Caps.from_config(
        {"run": {"usd": 2, "calls": 1e6}, "phases": {"val": {"weighted_tokens": 7}}, "episode": None}
    )
    assert read.run == Cap(2.0, None, 1_000_000)
    assert read.phases["val"] == Cap(weighted_tokens=7)
    assert list(read.entries()) == [
        ("budget.run.usd", "usd", 2.0),
        ("budget.run.calls", "calls", 1_000_000),
        ("budget.phases.val.weighted_tokens", "weighted_tokens", 7),
    ]
    assert str(read.run) == "usd=2.0, calls=1000000"
    assert (str(Cap()), Cap().given, read.episode, read.confirm_usd) == ("none", False, Cap(), None)
    assert [Cap(usd=0.0).given, Cap(weighted_tokens=0).given, Cap(calls=0).given] == [True] * 3
    most = Caps.from_config({"run": {"usd": 1e15, "weighted_tokens": 0}, "episode": {"usd": 0.5}, "confirm_usd": 0})
    assert (most.run, most.episode, most.confirm_usd) == (Cap(1e15, 0, None), Cap(usd=0.5), 0.0)
    assert [type(value) for value in (most.run.usd, most.run.weighted_tokens, most.confirm_usd)] == [float, int, float]
    assert list(most.entries())[-1] == ("budget.episode.usd", "usd", 0.5)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"runs": {}}, "there is no key 'budget.runs'; did you mean 'run'?"),
        ({"run": {"dollars": 1}}, "there is no key 'budget.run.dollars'; did you mean 'calls'?"),
        ({"phases": {"trian": {}}}, "there is no key 'budget.phases.trian'; did you mean 'train'?"),
        ({"run": {"usd": -1}}, "budget.run.usd=-1: must be a number of at least 0, or null for none"),
        ({"run": {"usd": float("nan")}}, "budget.run.usd=nan: must be a number of at least 0, or null for none"),
        ({"run": {"usd": True}}, "budget.run.usd=True: must be a number of at least 0, or null for none"),
        (
            {"episode": {"calls": 1.5}},
            "budget.episode.calls=1.5: must be a whole number of at least 0, or null for none",
        ),
        ({"confirm_usd": "ten"}, "budget.confirm_usd=ten: must be a number of at least 0, or null for none"),
        ({"episode": 3}, "budget.episode=3: must be a mapping"),
        ({"run": [1]}, "budget.run=[1]: must be a mapping"),
        ({"phases": 3}, "budget.phases=3: must be a mapping"),
        ({"phases": {"val": "x"}}, "budget.phases.val='x': must be a mapping"),
        (
            {"phases": {"val": {"calls": -1}}},
            "budget.phases.val.calls=-1: must be a whole number of at least 0, or null for none",
        ),
        (
            {"run": {"weighted_tokens": float("inf")}},
            "budget.run.weighted_tokens=inf: must be a whole number of at least 0, or null for none",
        ),
        ({"run": {"usd": float("inf")}}, "budget.run.usd=inf: must be at most 1e+15, or null for none"),
        ({"run": {"calls": 10**15 + 1}}, f"budget.run.calls={10**15 + 1}: must be at most 1e+15, or null for none"),
        ({"episode": {"calls": 0}}, "budget.episode.calls=0: no episode could make a call; null for no cap"),
        ({"episode": {"usd": 0}}, "budget.episode.usd=0: no episode could make a call; null for no cap"),
    ],
)
def test_a_wrong_cap_is_named(wrong: dict[str, Any], line: str) -> None:
    """An unknown key or an impossible amount is one line with its key and what it may be."""
    assert refusal(lambda: Caps.from_config(wrong)) == line
