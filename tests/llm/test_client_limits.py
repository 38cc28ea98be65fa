"""What a client never passes: caps of run, phase and episode, and an endpoint's limits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.llm.support import Log, Sleeps, make_agent, make_context, messages, scripted_pool
from trinity.errors import BudgetError, CallError, EndpointError, EpisodeCapError, LedgerError, OfflineError
from trinity.llm.budget import Budget, Cap, worst_case
from trinity.llm.client import Client, Rules
from trinity.llm.store import MemoryStore
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.runs.calls import Answer
from trinity.types import Agent, Completion, Phase, Price, Spend, Usage

AGENT = make_agent(price=Price(10.0, 40.0, "test"), sampling={"temperature": 1.0, "max_tokens": 20})
WORST = worst_case(AGENT, messages("question 000"))


class Meter:
    """A provider that counts what it is asked and what it bills, with random latencies and some failures."""

    def __init__(self, seed: int, failures: float = 0.2) -> None:
        self.rng, self.failures = random.Random(seed), failures
        self.billed = Spend()

    async def __call__(self, request: Request) -> Reply:
        """A failed attempt may be billed in full, a 429 is not billed at all."""
        self.billed = self.billed.plus(Spend(0.0, 0, 1))
        await asyncio.sleep(self.rng.uniform(0, 0.002))
        fate = self.rng.random()
        if fate < self.failures / 2:
            raise TransportError("rate_limit", "slow down", status=429)
        if fate < self.failures:
            self._bill(Usage(worst_tokens(request), 20))
            raise TransportError("timeout", "late")
        usage = Usage(self.rng.randint(1, worst_tokens(request)), self.rng.randint(1, 20))
        self._bill(usage)
        return Reply("3", "", "stop", usage)

    def _bill(self, usage: Usage) -> None:
        usd = (usage.input_tokens * 10 + usage.output_tokens * 40) / 1e6
        self.billed = self.billed.plus(Spend(usd, usage.weighted_tokens, 0))


def worst_tokens(request: Request) -> int:
    """Most input tokens of a request, as the budget counts them."""
    return sum(len(message["content"].encode()) + 64 for message in request.messages)


def make_client(script: Callable[[Request], Any], rules: Rules, *agents: Agent, **more: Any) -> tuple[Client, Log]:
    """A client over a script."""
    pool, _ = scripted_pool(script, *(agents or (AGENT,)))
    log = Log()
    return Client(pool, more.pop("store", MemoryStore()), log, rules, sleep=Sleeps(), **more), log


async def ask_all(client: Client, n: int, phase: Phase = "train") -> list[Completion | BaseException]:
    """`n` different calls at once, in order of episodes."""
    asked = []
    for number in range(n):
        context = make_context(f"item{number}", phase)
        context.order = number
        asked.append(client.complete(AGENT, messages(f"question {number:03d}"), context))
    return await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.parametrize("cap", [Cap(usd=0.05), Cap(weighted_tokens=5000), Cap(calls=100)])
@pytest.mark.parametrize("seed", range(3))
async def test_caps_hold_with_many_in_flight(cap: Cap, seed: int) -> None:
    """With 128 calls in flight, retries included, the provider never bills more than the cap, and not far less."""
    meter = Meter(seed)
    client, log = make_client(meter, Rules(Budget(cap, {}, {}), concurrency=128))
    outcomes = await ask_all(client, 400)
    refused = [outcome for outcome in outcomes if isinstance(outcome, BudgetError)]
    assert refused
    assert len(refused) + sum(isinstance(one, (Completion, CallError)) for one in outcomes) == 400
    for axis in ("usd", "weighted_tokens", "calls"):
        most = getattr(cap, axis)
        if most is not None:
            assert most - 2 * getattr(WORST, axis) < getattr(meter.billed, axis) <= most
            assert f"budget.run.{axis}=" in str(refused[0])
    assert len(log.begun) == len(log.spent) == meter.billed.calls


async def test_a_phase_cap_leaves_other_phases_alone() -> None:
    """What validation may not buy any more, the test still may."""
    client, _ = make_client(Meter(0, failures=0), Rules(Budget(Cap(), {"val": Cap(calls=3)}, {})))
    validated = await ask_all(client, 5, "val")
    assert [type(one) for one in validated] == [Completion] * 3 + [BudgetError] * 2
    assert "budget.phases.val.calls=3" in str(validated[3])
    assert all(isinstance(one, Completion) for one in await ask_all(client, 5, "test"))


async def test_stored_answers_cost_nothing() -> None:
    """With a budget of zero everything that the store has is still there, and nothing else is."""
    store = MemoryStore()
    rich, _ = make_client(Meter(0, failures=0), Rules(), store=store)
    await ask_all(rich, 3)
    poor, _ = make_client(Meter(0), Rules(Budget(Cap(calls=0), {}, {})), store=store)
    outcomes = await ask_all(poor, 4)
    assert [type(one) for one in outcomes] == [Completion] * 3 + [BudgetError]


async def test_an_attempt_is_durable_before_it_is_sent_where_a_cap_counts_it() -> None:
    """A process that is killed meanwhile finds its open attempts again; without caps nobody waits for the disk."""
    flushed_when_sent: list[int] = []

    def script(_: Request) -> Reply:
        flushed_when_sent.append(log.flushes)
        return Reply("3", "", "stop", Usage(1, 1))

    client, log = make_client(script, Rules(Budget(Cap(calls=9), {}, {})))
    await ask_all(client, 3)
    assert flushed_when_sent == [1, 1, 1]
    assert [begun[1:] for begun in log.begun] == [(1, "train", WORST)] * 3
    client, log = make_client(script, Rules())
    await ask_all(client, 3)
    assert log.flushes == 0


async def test_a_disk_that_is_full_sends_nothing() -> None:
    """Where the attempt could not be entered it is not made, and everybody hears why."""

    class Full(Log):
        async def flushed(self) -> None:
            raise OfflineError("disk full")

    pool, transport = scripted_pool(lambda _: Reply("3", "", "stop", Usage(1, 1)), AGENT)
    client = Client(pool, MemoryStore(), Full(), Rules(Budget(Cap(calls=9), {}, {})))
    outcomes = await ask_all(client, 3)
    assert [str(one) for one in outcomes] == ["disk full"] * 3
    assert transport.sent.total() == 0


@pytest.mark.parametrize("warm", [False, True])
async def test_an_episodes_own_cap_counts_alike_wherever_answers_come_from(warm: bool) -> None:
    """Three of five calls that start together fit a cap of three; bought or found in the store makes no difference."""
    store = MemoryStore()
    script = Meter(0, failures=0)
    if warm:
        await _five(make_client(script, Rules(), store=store)[0])
    for cap in (Cap(calls=3), Cap(weighted_tokens=3 * WORST.weighted_tokens)):
        client, _ = make_client(script, Rules(episode=cap), store=store)
        outcomes = await _five(client)
        assert [type(one) for one in outcomes] == [Completion] * 3 + [EpisodeCapError] * 2


async def _five(client: Client) -> list[Completion | BaseException]:
    context = make_context()
    asked = [client.complete(AGENT, messages("question 000"), context) for _ in range(5)]
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_an_empty_answer_that_is_asked_again_is_paid_twice() -> None:
    """Both attempts stand in the bill of the episode, in the ledger and in the budget."""
    replies = [Reply("", "", "stop", Usage(10, 0, 5)), Reply("3", "", "stop", Usage(10, 2))]
    seeds: list[int] = []
    budget = Budget(Cap(calls=9), {}, {})
    client, log = make_client(lambda _: replies.pop(0), Rules(budget))
    send = client.pool.transport(AGENT).send

    async def noted(request: Request, seed: int) -> Reply:
        seeds.append(seed)
        return await send(request, seed)

    client.pool.transport(AGENT).send = noted  # type: ignore[method-assign]
    (completion,) = await ask_all(client, 1)
    assert isinstance(completion, Completion)
    assert completion.usage == Usage(20, 2, 5)
    assert len(set(seeds)) == 2
    assert [attempt[1:3] for attempt in log.attempts] == [(1, "empty")]
    assert sum(spend.weighted_tokens for spend in log.spent) == completion.usage.weighted_tokens
    assert budget.spent().weighted_tokens == completion.usage.weighted_tokens


async def test_an_attempt_without_usage_settles_at_its_reserve() -> None:
    """The record gets an estimate, marked; the budget takes the worst case."""
    budget = Budget(Cap(calls=9), {}, {})
    client, _ = make_client(lambda _: Reply("3", "", "stop", None), Rules(budget), count_tokens=len)
    (completion,) = await ask_all(client, 1)
    assert isinstance(completion, Completion)
    assert completion.usage == Usage(12, 1, estimated=True)
    assert budget.spent() == WORST


async def test_a_429_narrows_the_endpoint() -> None:
    """After the first 429 fewer calls are under way, and all end well."""
    running, widths = 0, []

    async def script(_: Request) -> Reply:
        nonlocal running
        running += 1
        widths.append(running)
        await asyncio.sleep(0.001)
        running -= 1
        if len(widths) <= 20:
            raise TransportError("rate_limit", "slow down", status=429)
        return Reply("3", "", "stop", Usage(1, 1))

    client, _ = make_client(script, Rules(concurrency=20))
    outcomes = await ask_all(client, 100)
    assert all(isinstance(one, Completion) for one in outcomes)
    assert max(widths[:20]) == 20
    assert max(widths[40:60]) < 20


async def test_offline_tells_the_ledger_what_was_missing() -> None:
    """A request that nobody may be asked is noted, so that it can be explained."""

    class Offline(MemoryStore):
        async def claim(self, request_hash: str) -> None:
            raise OfflineError("not here")

    client, log = make_client(Meter(0), Rules(), store=Offline())
    outcomes = await ask_all(client, 2)
    assert [type(one) for one in outcomes] == [OfflineError] * 2
    assert len(log.misses) == 2
    assert log.begun == []


async def test_a_full_store_loses_no_paid_answer() -> None:
    """What cannot be stored is noted in the run's own ledger before the run stops, so that it is found on resume."""

    class Full(MemoryStore):
        async def put(self, answer: Answer, request: Mapping[str, Any]) -> Answer:
            raise LedgerError("disk full")

    client, log = make_client(Meter(0, failures=0), Rules(), store=Full())
    outcomes = await ask_all(client, 3)
    assert [str(one) for one in outcomes] == ["disk full"] * 3
    assert [paid for _, paid, _ in log.notes] == [True] * 3
    assert log.flushes


async def test_a_provider_that_asks_for_days_stops_the_run() -> None:
    """A wait beyond the user's patience is a line that names it, not an hour of silence and failed episodes."""
    error = TransportError("rate_limit", "quota used up", status=429, retry_after=86_400.0)
    client, _ = make_client(lambda _: error, Rules(concurrency=2))
    outcomes = await ask_all(client, 5)
    assert all(isinstance(one, EndpointError) for one in outcomes)
    assert "asks for a wait of 86400 s, longer than retry.longest_retry_after_s=300" in str(outcomes[0])
    assert client.pool.transport(AGENT).sent.total() <= 2  # type: ignore[attr-defined]


async def test_a_provider_that_breaks_its_promise_is_asked_nothing_more_under_a_cap() -> None:
    """An answer longer than `max_tokens` is kept and paid, and the run stops before the next one."""
    reply = Reply("3", "", "stop", Usage(10, 5000))
    client, _ = make_client(lambda _: reply, Rules(Budget(Cap(weighted_tokens=10**6), {}, {}), concurrency=1))
    outcomes = await ask_all(client, 3)
    assert isinstance(outcomes[0], Completion)
    assert [type(one) for one in outcomes[1:]] == [EndpointError] * 2
    assert "no budget can be kept" in str(outcomes[1])


@pytest.mark.parametrize(
    "reply",
    [
        "3",
        Reply(3, "", "stop", None),  # type: ignore[arg-type]
        Reply("3", "", "bored", None),  # type: ignore[arg-type]
        Reply("3", "", "stop", Usage(-5, 1)),
        Reply("3", "", "stop", Usage(5, 1, 0, 9)),
        Reply("3", "", "stop", Usage(5, 1.5)),  # type: ignore[arg-type]
    ],
)
async def test_replies_that_are_none_fail_their_call(reply: object) -> None:
    """Whatever somebody's transport returns, the run goes on and no nonsense reaches budget or ledger."""
    client, log = make_client(lambda _: reply, Rules(Budget(Cap(calls=9), {}, {})))
    (outcome,) = await ask_all(client, 1)
    assert isinstance(outcome, CallError)
    assert "the transport returned" in str(outcome)
    assert log.notes == []
