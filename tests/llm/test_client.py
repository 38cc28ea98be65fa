"""What the client buys, shares, stores and reports."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.llm.support import QUESTION, Log, Sleeps, make_agent, make_context, messages, scripted_pool
from trinity.context import Context
from trinity.errors import CallError, EndpointError, LedgerError
from trinity.llm.client import Client, Rules
from trinity.llm.retry import RetryPolicy
from trinity.llm.store import MemoryStore, Store
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.scripted import ScriptedTransport, reply_to
from trinity.runs.calls import Answer
from trinity.types import Agent, Completion, Message, Price, Usage

SAMPLER = make_agent()
GREEDY = make_agent("greedy", sampling={"temperature": 0}, deterministic=True)


class Bench:
    """A client over a script, with everything that it talks to in reach."""

    def __init__(self, script: Callable[[Request], object] | None = None, concurrency: int = 64) -> None:
        agents = [SAMPLER, GREEDY, make_agent("other", model="other")]
        self.pool, self.transport = scripted_pool(script or (lambda request: reply_to(request, request.hash)), *agents)
        self.store, self.log, self.sleeps = MemoryStore(), Log(), Sleeps()
        self.client = Client(self.pool, self.store, self.log, Rules(concurrency=concurrency), sleep=self.sleeps)

    async def ask(
        self, agent: Agent = SAMPLER, context: Context | None = None, content: str = "How many?"
    ) -> Completion:
        """One call."""
        return await self.client.complete(agent, messages(content), context or make_context())


class Held:
    """A script that answers only when it is told to."""

    def __init__(self, outcome: Reply | Exception | None = None) -> None:
        self.go = asyncio.Event()
        self.started = asyncio.Event()
        self.outcome = outcome

    async def __call__(self, request: Request) -> Reply | Exception:
        """Wait, then answer."""
        self.started.set()
        await self.go.wait()
        return self.outcome or reply_to(request, "3")


async def test_best_of_three_in_one_episode_is_three_calls() -> None:
    """Equal requests of one episode at temperature 1 are samples, one after the other or at once."""
    bench, context = Bench(), make_context()
    answers = [await bench.ask(context=context) for _ in range(3)]
    assert bench.transport.sent.total() == 3
    assert len({answer.call_id for answer in answers}) == 3
    together = make_context()
    at_once = await asyncio.gather(*(bench.ask(context=together) for _ in range(3)))
    assert [answer.call_id for answer in at_once] == [answer.call_id for answer in answers]
    assert bench.transport.sent.total() == 3


async def test_same_request_of_two_candidates_is_one_call() -> None:
    """Two contexts of one replicate share the call, one after the other and at once, and both are billed."""
    held = Held()
    bench, contexts = Bench(held), [make_context() for _ in range(3)]
    waiting = [asyncio.create_task(bench.ask(context=context)) for context in contexts[:2]]
    await held.started.wait()
    held.go.set()
    answers = [*await asyncio.gather(*waiting), await bench.ask(context=contexts[2])]
    assert bench.transport.sent.total() == 1
    assert answers[0] == answers[1] == answers[2]
    assert [context.calls for context in contexts] == [[answers[0]]] * 3
    counts = bench.client.counts
    assert (counts.logical, counts.paid, counts.reused, counts.shared, counts.failed) == (3, 1, 0, 2, 0)
    assert [paid for _, paid, _ in bench.log.notes] == [True]


async def test_replicates_and_phases_are_separate_calls() -> None:
    """Fresh noise means a fresh answer."""
    bench = Bench()
    for context in (make_context(index=0), make_context(index=1), make_context(phase="test")):
        await bench.ask(context=context)
    assert bench.transport.sent.total() == 3


async def test_deterministic_agent_is_asked_once() -> None:
    """A deterministic agent's answer is shared by samples, replicates and phases."""
    bench, context = Bench(), make_context()
    for one in (context, context, make_context(index=1), make_context(phase="test")):
        await bench.ask(GREEDY, one)
    assert bench.transport.sent.total() == 1
    (request,) = bench.store.requests.values()
    assert (request["replicate"], request["sample"]) == (None, None)


async def test_cancelled_waiter_does_not_cancel_the_call() -> None:
    """A call outlives the episode that started it, and its answer is kept."""
    held = Held()
    bench = Bench(held)
    first, second = asyncio.create_task(bench.ask()), asyncio.create_task(bench.ask())
    await held.started.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    held.go.set()
    assert (await second).text == "3"
    assert bench.transport.sent.total() == 1


async def test_close_waits_for_calls_without_waiters() -> None:
    """What was paid is stored even when nobody waits for it any more."""
    held = Held()
    bench = Bench(held)
    only = asyncio.create_task(bench.ask())
    await held.started.wait()
    only.cancel()
    closing = asyncio.create_task(bench.client.close())
    await asyncio.sleep(0)
    assert not closing.done()
    held.go.set()
    await closing
    assert len(bench.store.rows) == 1


async def test_close_sends_nothing_more() -> None:
    """A run that ends waits for what is on the wire; what waits for its turn or for a retry is given up unsent."""
    held = Held()
    bench = Bench(held, concurrency=2)
    waiting = [asyncio.create_task(bench.ask(context=make_context(index=index))) for index in range(20)]
    await held.started.wait()
    await asyncio.sleep(0.01)
    for waiter in waiting:
        waiter.cancel()
    closing = asyncio.create_task(bench.client.close())
    await asyncio.sleep(0.01)
    held.go.set()
    await closing
    assert bench.transport.sent.total() == len(bench.store.rows) == 2


async def test_close_does_not_wait_for_ever() -> None:
    """A call that does not end in time is cancelled when the client is closed, and nothing of it is kept."""
    held = Held()
    bench = Bench(held)
    only = asyncio.create_task(bench.ask())
    await held.started.wait()
    await bench.client.close(grace_s=0.01)
    with pytest.raises(asyncio.CancelledError):
        await only
    assert bench.store.rows == {}


async def test_failure_reaches_all_waiters_and_is_not_kept() -> None:
    """Every waiter hears of the failure; the next call tries anew."""
    held = Held(TransportError("bad_request", "no such thing"))
    bench = Bench(held)
    waiting = [asyncio.create_task(bench.ask()) for _ in range(3)]
    await held.started.wait()
    held.go.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["agent a: no such thing"] * 3
    assert all(isinstance(outcome, CallError) for outcome in outcomes)
    held.outcome = None
    assert (await bench.ask()).text == "3"
    assert bench.transport.sent.total() == 2
    assert bench.client.counts.failed == 1


async def test_failure_without_waiters_makes_no_noise() -> None:
    """Asyncio has nothing to complain about when a call fails after its waiter was cancelled."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    held = Held(TransportError("bad_request", "no"))
    bench = Bench(held)
    only = asyncio.create_task(bench.ask())
    await held.started.wait()
    only.cancel()
    await asyncio.sleep(0)
    held.go.set()
    await bench.client.close()
    del only
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_earlier_runs_answers_are_reused(tmp_path: Path) -> None:
    """A second run over the same store buys nothing and notes the answer as reused, once."""
    store = Store.open(tmp_path / "store.sqlite")
    first = Bench()
    first.log.uid = "they"
    bought = await Client(first.pool, store, first.log).complete(SAMPLER, QUESTION, make_context())
    second = Bench()
    client = Client(second.pool, store, second.log)
    reused = [await client.complete(SAMPLER, QUESTION, make_context()) for _ in range(2)]
    assert reused == [bought, bought]
    assert second.transport.sent.total() == 0
    assert [(paid, price) for _, paid, price in second.log.notes] == [(False, None)]
    store.close()


async def test_a_store_that_cannot_be_written_is_heard_of() -> None:
    """A full disk ends the call with the store's own line."""

    class Full(MemoryStore):
        async def put(self, answer: Answer, request: Mapping[str, Any]) -> Answer:
            raise LedgerError("disk full")

    bench = Bench()
    client = Client(bench.pool, Full(), bench.log)
    with pytest.raises(LedgerError, match="disk full"):
        await client.complete(SAMPLER, QUESTION, make_context())


async def test_concurrency_is_capped() -> None:
    """No more attempts run at one time than the cap says, and all end."""
    running, most = 0, 0

    async def script(request: Request) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return reply_to(request, "3")

    bench = Bench(script, concurrency=4)
    await asyncio.gather(*(bench.ask(context=make_context(index=index)) for index in range(30)))
    assert most == 4
    assert bench.client.counts.paid == 30


async def test_waiting_for_a_retry_holds_no_place() -> None:
    """While one call waits for its next attempt, another may be made under a cap of one."""
    release = asyncio.Event()

    def script(request: Request) -> object:
        first = request.model == "m" and not bench.log.attempts
        return TransportError("server", "down") if first else reply_to(request, "3")

    async def sleep(_: float) -> None:
        await release.wait()

    bench = Bench(script)
    client = Client(bench.pool, bench.store, bench.log, Rules(concurrency=1), sleep=sleep)
    slow = asyncio.create_task(client.complete(SAMPLER, QUESTION, make_context()))
    await asyncio.sleep(0)
    quick = await client.complete(bench.pool.agent("other"), QUESTION, make_context())
    assert quick.text == "3"
    assert not slow.done()
    release.set()
    assert (await slow).text == "3"


async def test_order_of_answers_changes_nothing() -> None:
    """Whatever order latencies bring, each context holds its calls in the order in which they were asked."""

    async def play(seed: int) -> list[list[str]]:
        rng = random.Random(seed)
        bench = Bench()
        bench.transport._latency = lambda: rng.uniform(0, 0.003)
        contexts = [make_context(f"item{number % 3}", index=number % 2) for number in range(8)]
        calls = [
            bench.ask(agent, context, content)
            for context in contexts
            for agent in bench.pool.agents
            for content in ("x", "y", "x")
        ]
        await asyncio.gather(*calls)
        return [[call.call_id for call in context.calls] for context in contexts]

    first, second, third = await play(1), await play(2), await play(3)
    assert first == second == third
    assert all(len(calls) == 9 for calls in first)


async def test_completion_carries_cost_and_compute() -> None:
    """USD by the agent's price, GFLOP by its parameters, the call id from the hash; the price goes to the ledger."""
    price = Price(1.0, 2.0, "test")
    agent = make_agent(price=price, active_params=1e9)
    usage = Usage(1_000_000, 500_000, 500_000, 10)
    pool, transport = scripted_pool(lambda _: Reply("3", "hm", "length", usage), agent)
    log = Log()
    completion = await Client(pool, MemoryStore(), log).complete(agent, QUESTION, make_context())
    assert (completion.text, completion.reasoning, completion.finish_reason) == ("3", "hm", "length")
    assert (completion.usage, completion.cost_usd, completion.gflop) == (usage, 3.0, 4e6)
    assert [completion.call_id] == [request_hash[:16] for request_hash in transport.sent]
    assert log.notes == [(*transport.sent, True, price)]


async def test_unreported_usage_is_estimated_and_marked() -> None:
    """The injected counter counts what the provider did not, and the store says so too."""
    pool, _ = scripted_pool(lambda _: Reply("abc", "de", "stop", None))
    store = MemoryStore()
    completion = await Client(pool, store, None, count_tokens=len).complete(SAMPLER, QUESTION, make_context())
    assert completion.usage == Usage(9, 3, 2, 0, estimated=True)
    assert completion.cost_usd is None
    assert [row.usage for row in store.rows.values()] == [completion.usage]


async def test_attempts_are_kept_apart_from_answers() -> None:
    """A failed attempt goes to the ledger; the stored answer knows how many it took."""
    outcomes: list[object] = [TransportError("server", "down", status=503), TransportError("timeout", "late")]
    bench = Bench(lambda request: outcomes.pop(0) if outcomes else reply_to(request, "3"))
    await bench.ask()
    (row,) = bench.store.rows.values()
    assert row.attempts == 3
    assert bench.log.attempts == [
        (row.request_hash, 1, "server", 503, "down"),
        (row.request_hash, 2, "timeout", None, "late"),
    ]


async def test_latency_is_that_of_the_answered_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five seconds of a failed attempt and a minute's wait before the next are no part of the two of the answer."""
    clock, took = [0.0], [5.0, 2.0]

    def answer(request: Request) -> object:
        clock[0] += took.pop(0)
        return TransportError("server", "down", status=503) if took else reply_to(request, "3")

    async def wait(_: float) -> None:
        clock[0] += 60.0

    monkeypatch.setattr("trinity.llm.client.time.perf_counter", lambda: clock[0])
    pool, _ = scripted_pool(answer)
    completion = await Client(pool, MemoryStore(), Log(), sleep=wait).complete(
        SAMPLER, messages("How many?"), make_context()
    )
    assert (completion.latency_s, clock[0]) == (2.0, 67.0)


async def test_retries_end_in_a_call_error() -> None:
    """A server that stays down fails the call, names the agent, and is tried again by the next call."""
    bench = Bench(lambda _: TransportError("server", "HTTP 500: down", status=500))
    for total in (5, 10):
        with pytest.raises(CallError, match="agent a: HTTP 500: down"):
            await bench.ask()
        assert bench.transport.sent.total() == total
    assert bench.store.rows == {}


async def test_fatal_failure_stops_the_endpoint() -> None:
    """After wrong credentials no further request is sent, whoever asks."""
    bench = Bench(lambda _: TransportError("fatal", "HTTP 401: set KEY", status=401), concurrency=1)
    calls = [bench.ask(context=make_context(index=index)) for index in range(5)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {EndpointError}
    assert {str(outcome) for outcome in outcomes} == {"agent a: HTTP 401: set KEY"}
    with pytest.raises(EndpointError, match="set KEY"):
        await bench.ask(bench.pool.agent("other"))
    assert bench.transport.sent.total() == 1


async def test_nobody_listening_stops_the_run() -> None:
    """Refused connections of an endpoint that never answered are an error of the set-up, after the retries."""
    bench = Bench(lambda _: TransportError("connection", "http://h:1/v1: refused", refused=True))
    with pytest.raises(EndpointError, match="http://h:1/v1: refused; it cannot be reached; start the server"):
        await bench.ask()
    assert bench.transport.sent.total() == 5


@pytest.mark.parametrize("earlier", [Reply("3", "", "stop", None), TransportError("server", "busy", status=503)])
async def test_refused_connections_of_a_server_that_was_there_fail_the_call(earlier: Reply | TransportError) -> None:
    """A server that answered before, if only to say that it is busy, may come back."""
    outcomes: list[object] = [earlier]
    refused = TransportError("connection", "refused", refused=True)
    bench = Bench(lambda _: outcomes.pop(0) if outcomes else refused)
    if isinstance(earlier, Reply):
        await bench.ask()
    with pytest.raises(CallError, match="refused"):
        await bench.ask(content="again")


async def test_first_three_bad_requests_stop_the_run() -> None:
    """An agent whose first three requests are all refused is set up wrongly."""
    bench = Bench(lambda _: TransportError("bad_request", "HTTP 400: unknown field", status=400))
    for content in "ab":
        with pytest.raises(CallError, match="unknown field"):
            await bench.ask(content=content)
    with pytest.raises(EndpointError, match="first 3 requests were refused; check model, sampling"):
        await bench.ask(content="c")


async def test_bad_requests_after_a_good_one_only_fail_their_calls() -> None:
    """One agent's bad requests count neither after an answer nor against another agent."""

    def script(request: Request) -> object:
        bad = "bad" in request.messages[0]["content"]
        return TransportError("bad_request", "no", status=400) if bad else reply_to(request, "3")

    bench = Bench(script)
    other = bench.pool.agent("other")
    for number, agent in enumerate([SAMPLER, SAMPLER, other, other]):
        with pytest.raises(CallError):
            await bench.ask(agent, content=f"bad {number}")
    await bench.ask()
    for number in range(4):
        with pytest.raises(CallError):
            await bench.ask(content=f"bad again {number}")


async def test_bad_requests_of_an_agent_that_the_store_knows_only_fail_their_calls() -> None:
    """A second run over answered items is not stopped by the few that were refused in the first one, too."""

    def script(request: Request) -> object:
        bad = "bad" in request.messages[0]["content"]
        return TransportError("bad_request", "no", status=400) if bad else reply_to(request, "3")

    first, second = Bench(script), Bench(script)
    second.client._store = first.store
    for bench in (first, second):
        await bench.ask()
        for number in range(4):
            with pytest.raises(CallError):
                await bench.ask(content=f"bad {number}")
    assert second.client.counts.reused == 1


async def test_callers_may_change_their_messages_afterwards() -> None:
    """What is sent and stored is what was asked, not what became of the caller's list."""
    held = Held()
    bench = Bench(held)
    asked: list[Message] = [{"role": "user", "content": "before"}]
    task = asyncio.create_task(bench.client.complete(SAMPLER, asked, make_context()))
    await held.started.wait()
    asked[0]["content"] = "after"
    held.go.set()
    await task
    (request,) = bench.store.requests.values()
    assert request["messages"] == [{"role": "user", "content": "before"}]


async def test_memory_of_recent_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers beyond the bound are found in the store again."""
    monkeypatch.setattr("trinity.llm.client.RECENT_CALLS", 2)
    bench = Bench()
    for index in (0, 1, 2, 0):
        await bench.ask(context=make_context(index=index))
    assert len(bench.client._recent) == 2
    assert bench.transport.sent.total() == 3


def test_retry_policy_is_the_callers() -> None:
    """The number of attempts is configurable."""

    async def play() -> int:
        transport = ScriptedTransport(lambda _: TransportError("server", "down"))
        pool, _ = scripted_pool(lambda _: None)
        pool._endpoints["e"] = transport
        client = Client(pool, MemoryStore(), None, Rules(retries=RetryPolicy(attempts=2)), sleep=Sleeps())
        with pytest.raises(CallError):
            await client.complete(SAMPLER, QUESTION, make_context())
        return transport.sent.total()

    assert asyncio.run(play()) == 2
