"""Episodes against a server that fails: each ends as foretold, none is lost, none is billed twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from baselines.single import SingleAgent
from trinity.context import Context
from trinity.coordinator.protocol import Choice, Coordinator, alone
from trinity.episodes import Play, Player, Stamp
from trinity.errors import CallError, EndpointError
from trinity.llm.client import Client, Rules
from trinity.llm.pool import Pool
from trinity.llm.pricing import cost_usd
from trinity.llm.retry import RetryPolicy
from trinity.llm.store import Store
from trinity.llm.transports.base import Request
from trinity.llm.transports.openai_http import OpenAIHTTP
from trinity.runs.ledger import Ledger
from trinity.testing import PRESETS, Expected, Fault, Faults, FaultServer, SkillTask, SkippingLoop, expected
from trinity.testing.faults import REFUSALS
from trinity.testing.server import skill_script
from trinity.types import ROLES, Agent, Completion, Item, Message, Method, Price, Record, Replicate, Status, Usage

T = TypeVar("T")

SEEDS = range(20)
ATTEMPTS = 3
TEST = Replicate("test", 0)
PRICE = Price(1.0, 4.0, "test")
AGENTS = [
    Agent(name, "faulty", name, {"temperature": 1.0, "max_tokens": 64}, price=PRICE) for name in ("ann", "bob", "cat")
]
ANN = AGENTS[0]
SCRIPT = skill_script({"ann": {"sums": 0.7}, "bob": {"sums": 0.3}, "cat": {}})

KINDS: dict[Fault, str] = {
    Fault.RATE_LIMIT: "rate_limit",
    Fault.RATE_LIMIT_AFTER: "rate_limit",
    Fault.SERVER_ERROR: "server",
    Fault.HANG: "timeout",
    Fault.CLOSED: "connection",
    Fault.CUT: "connection",
    Fault.HALF_JSON: "malformed",
    Fault.HTML: "malformed",
    Fault.WRONG_SHAPE: "malformed",
    Fault.EMPTY: "empty",
}
"""What the ledger calls an attempt that gave no answer."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on a loop on which hangs and waits take no time and nothing times out because the machine is slow."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(main)


async def at_once(_: float) -> None:
    """A wait between attempts that takes no time."""
    await asyncio.sleep(0)


@dataclass
class Bench:
    """A run's real parts over a faulty server."""

    server: FaultServer
    store: Store
    ledger: Ledger
    client: Client
    player: Player

    async def play(self, plays: Sequence[Play]) -> dict[str, Record]:
        """Records by item."""
        records: dict[str, Record] = {}
        await self.player.play_all(plays, lambda play, record: records.update({play.item.item_id: record}))
        return records


def stamp(seed: int = 0) -> Stamp:
    """Of every record."""
    return Stamp("run", "faults", "faulty", "live", seed)


@asynccontextmanager
async def bench(
    folder: Path, server: FaultServer, *, ledger: str = "ledger.sqlite", concurrency: int = 128
) -> AsyncIterator[Bench]:
    """Client, store and ledger in `folder`, asking `server`; only the wait between attempts is left out."""
    transport = OpenAIHTTP(server.url, endpoint_id="faulty", read_timeout_s=60, total_timeout_s=600)
    with Ledger.create(folder / ledger) as book:
        store = Store.open(folder / "store.sqlite", buyer=book.uid)
        rules = Rules(retries=RetryPolicy(attempts=ATTEMPTS), concurrency=concurrency)
        client = Client(Pool("faulty", AGENTS, {"faulty": transport}), store, book, rules, sleep=at_once)
        player = Player(client, book, stamp(), {"test": 0}, concurrency)
        try:
            yield Bench(server, store, book, client, player)
        finally:
            await client.close()
            store.close()


def plays(method: Method, n: int) -> list[Play]:
    """`method` once on each of `n` items."""
    task = SkillTask("sums", n_test=n)
    return [Play(method, task, item, TEST) for item in task.items("test")]


def request_of(agent: Agent, messages: Sequence[Message], context: Context) -> Request:
    """What the client must send, built from the design alone."""
    content = tuple(Message(role=one["role"], content=one["content"]) for one in messages)
    request = Request("faulty", agent.model, content, agent.sampling, agent.extra_body, context.replicate)
    return replace(request, sample=context.next_sample(request.hash))


def asked(play: Play, agent: Agent) -> Request:
    """The single request of a one-call episode."""
    return request_of(agent, alone(agent, play.task.open(play.item)), Context(play.task, play.item, TEST, 0))


def status_of(foretold: Expected, item: Item) -> Status:
    """Status of the one-call episode."""
    if foretold.outcome == "answered":
        assert foretold.reply is not None
        return "correct" if foretold.reply.text == f"Answer: {item.target}" else "wrong"
    assert foretold.outcome != "stopped"
    return foretold.outcome


def usage_of(record: Record) -> Usage:
    """The usage that a record bills."""
    return Usage(
        record.input_tokens,
        record.output_tokens,
        record.reasoning_tokens,
        record.cached_tokens,
        record.usage_estimated,
    )


@dataclass
class Oracle:
    """A client that asks nobody: it knows what must come of every request (implements `trinity.types.Client`)."""

    faults: Faults

    def __post_init__(self) -> None:
        self.foretold: dict[str, Expected] = {}

    async def complete(self, agent: Agent, messages: Sequence[Message], context: Context) -> Completion:
        """What the client must return or raise."""
        request = request_of(agent, messages, context)
        place = context.reserve()
        result = self.foretold[request.hash] = expected(request, SCRIPT, self.faults, ATTEMPTS)
        if result.reply is None:
            raise CallError(result.outcome)
        reply, usage = result.reply, result.reply.usage or Usage()
        cost = cost_usd(agent.price, usage)
        completion = Completion(
            reply.text, reply.reasoning, reply.finish_reason, usage, cost, None, 0.0, request.call_id
        )
        context.enter(place, completion)
        return completion


def check_bills(one: Bench, foretold: Mapping[str, Expected]) -> None:
    """Server and ledger agree on every attempt, answer and token; nothing was asked after its answer.

    What the ledger holds for spent is never less than what the provider may bill.
    """
    counts = one.server.counts
    received = {key: tally.received for key, tally in counts.tallies.items()}
    assert received == {key: result.attempts for key, result in foretold.items()}
    assert {key: tally.usage for key, tally in counts.tallies.items()} == {
        key: result.billed for key, result in foretold.items()
    }
    assert counts.asked_again == []
    failed: dict[str, list[str]] = {}
    for attempt in one.ledger.attempts():
        failed.setdefault(attempt.request_hash, []).append(attempt.kind)
    assert failed == {
        key: kinds
        for key, result in foretold.items()
        if (kinds := [KINDS[fault] for fault in result.faults if fault in KINDS])
    }
    answered = {answer.request_hash: answer for answer in one.ledger.calls}
    kept = {key: result.reply for key, result in foretold.items() if result.reply is not None}
    assert {key: (answer.usage, answer.attempts) for key, answer in answered.items()} == {
        key: (reply.usage, foretold[key].attempts) for key, reply in kept.items()
    }
    totals = one.ledger.totals()
    assert (totals.paid_calls, totals.reused_calls) == (len(kept), 0)
    ours, theirs = one.ledger.spent()["test"], counts.spend(dict.fromkeys(counts.billed, PRICE))
    assert ours.calls == theirs.calls == counts.received
    assert ours.weighted_tokens >= theirs.weighted_tokens > 0
    assert (ours.usd or 0) >= (theirs.usd or 0) > 0


def foretell(todo: Sequence[Play], faults: Faults) -> dict[str, Expected]:
    """What must come of each one-call episode of the first agent, by item."""
    return {play.item.item_id: expected(asked(play, ANN), SCRIPT, faults, ATTEMPTS) for play in todo}


@pytest.mark.parametrize("seed", SEEDS)
def test_three_hundred_episodes_end_as_foretold(seed: int, tmp_path: Path) -> None:
    """Under mixed faults every one-call episode has the status, attempts, answer and bill that the table gives."""
    faults = Faults(PRESETS["mixed"], seed)
    todo = plays(SingleAgent(ANN), 300)
    foretold = foretell(todo, faults)

    async def main() -> None:
        async with FaultServer(faults, SCRIPT) as server, bench(tmp_path, server) as one:
            records = await one.play(todo)
            check_bills(one, {asked(play, ANN).hash: foretold[play.item.item_id] for play in todo})
        for play in todo:
            record, result = records[play.item.item_id], foretold[play.item.item_id]
            assert record.status == status_of(result, play.item)
            assert usage_of(record) == (Usage() if result.reply is None else result.reply.usage)

    run(main())
    assert len(foretold) == 300


def test_a_second_run_pays_for_nothing_twice(tmp_path: Path) -> None:
    """On the first run's store every answered episode is the same again, at the same bill, and nobody is asked."""
    faults = Faults(PRESETS["mixed"])
    todo = plays(SingleAgent(ANN), 300)
    foretold = foretell(todo, faults)
    answered = [play for play in todo if foretold[play.item.item_id].reply is not None]

    async def main() -> None:
        async with FaultServer(faults, SCRIPT) as server:
            async with bench(tmp_path, server) as one:
                first = await one.play(todo)
            received = server.counts.received
            async with bench(tmp_path, server, ledger="again.sqlite") as two:
                again = await two.play(answered)
                totals = two.ledger.totals()
            assert (totals.paid_calls, totals.reused_calls) == (0, len(answered))
            assert server.counts.received == received
        assert again == {play.item.item_id: first[play.item.item_id] for play in answered}

    run(main())


@dataclass(frozen=True)
class Dice:
    """A policy that draws agent and role from the context's noise."""

    name: str = "dice"

    async def choose(self, chunks: tuple[str, ...], turn: int, context: Context) -> Choice:
        """Any agent in any role."""
        return Choice(int(3 * context.uniform(turn, "agent")), ROLES[int(3 * context.uniform(turn, "role"))], 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_episodes_of_several_turns_end_as_foretold(seed: int, tmp_path: Path) -> None:
    """A coordinator's records are those of the same loop over a client that only knows the fault function."""
    faults = Faults(PRESETS["mixed"], seed)
    todo = plays(Coordinator(Dice(), AGENTS, max_turns=5), 60)

    async def main() -> None:
        oracle = Oracle(faults)
        with Ledger.create(tmp_path / "foretold.sqlite") as book:
            player = Player(oracle, book, stamp(), {"test": 0}, 1)
            told = [await player.play(play) for play in todo]
        async with FaultServer(faults, SCRIPT) as server, bench(tmp_path, server) as one:
            records = await one.play(todo)
            check_bills(one, oracle.foretold)
        for record in told:
            assert replace(records[record.item_id], latency_s=0.0) == record
        assert max(record.n_turns for record in told) > 2
        assert len({record.status for record in told}) > 2

    run(main())


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (Fault.UNAUTHORIZED, "agent ann: .*HTTP 401: Incorrect API key provided.*set api_key_env"),
        (Fault.PAYMENT_REQUIRED, "agent ann: .*HTTP 402: Insufficient balance.*top up the account"),
        (Fault.FORBIDDEN, "agent ann: .*HTTP 403: Your country is not supported.*set api_key_env"),
        (Fault.NOT_FOUND, "agent ann: .*HTTP 404: The model does not exist.*check base_url .* model name"),
    ],
)
def test_what_nobody_can_retry_stops_the_run(fault: Fault, line: str, tmp_path: Path) -> None:
    """Credentials, account and names: one line that says what to set; answers before it are kept, nothing follows."""
    faults = Faults(scripted=lambda request, _: fault if "sums-test-5 " in request.messages[-1]["content"] else None)

    async def main() -> None:
        async with FaultServer(faults, SCRIPT) as server, bench(tmp_path, server, concurrency=1) as one:
            with pytest.raises(EndpointError, match=line):
                await one.play(plays(SingleAgent(ANN), 20))
            assert len(list(one.ledger.records())) == 5
            assert (server.counts.answered, server.counts.received) == (5, 6)

    run(main())


@pytest.mark.parametrize("fault", [Fault.BAD_REQUEST, Fault.UNPROCESSABLE])
def test_an_agent_whose_every_request_is_refused_stops_the_run(fault: Fault, tmp_path: Path) -> None:
    """After three refusals in a row from the start no fourth is asked for, and the line names what to check."""

    async def main() -> None:
        async with FaultServer(Faults({fault: 1.0})) as server, bench(tmp_path, server, concurrency=1) as one:
            with pytest.raises(EndpointError, match=r"agent ann: .*first 3 requests were refused; check model, samp"):
                await one.play(plays(SingleAgent(ANN), 20))
            assert server.counts.received == 3
            assert [record.status for record in one.ledger.records()] == ["error", "error"]

    run(main())


def test_one_refused_request_ends_its_own_episode_only(tmp_path: Path) -> None:
    """Too long, too large, filtered, wrong: one attempt each; 408 and 409 are asked again; the others never notice."""
    statuses: dict[Fault, Status] = {
        Fault.TOO_LONG: "truncated",
        Fault.TOO_LARGE: "truncated",
        Fault.FILTERED_REQUEST: "refused",
        Fault.FILTERED: "refused",
        Fault.BAD_REQUEST: "error",
        Fault.UNPROCESSABLE: "error",
        Fault.REQUEST_TIMEOUT: "correct",
        Fault.CONFLICT: "correct",
    }
    places = {f"sums-test-{3 + number}": fault for number, fault in enumerate(statuses)}

    def scripted(request: Request, attempt: int) -> Fault | None:
        fault = places.get(request.messages[-1]["content"].partition(" ")[0])
        return fault if attempt == 0 or fault not in (Fault.REQUEST_TIMEOUT, Fault.CONFLICT) else None

    async def main() -> None:
        right = skill_script({"ann": {"sums": 1.0}})
        async with (
            FaultServer(Faults(scripted=scripted), right) as server,
            bench(tmp_path, server, concurrency=1) as one,
        ):
            records = await one.play(plays(SingleAgent(ANN), 20))
            assert {key: record.status for key, record in records.items()} == {
                key: statuses[places[key]] if key in places else "correct" for key in records
            }
            assert server.counts.received == 20 + 2
            free = [records[key] for key, fault in places.items() if fault in REFUSALS and statuses[fault] != "correct"]
            assert all(record.weighted_tokens == 0 for record in free)

    run(main())
