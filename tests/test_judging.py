"""The judge: a model that graders ask, billed to `grading` and to no method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from baselines.single import Single, SingleAgent
from evals.report.table import grading_sentence
from tests.ground import make_arena
from tests.talks import Judged, Speaker, TwoTurns, speakers
from trinity.arena import Arena
from trinity.assembly import agent_from
from trinity.context import Context
from trinity.episodes import Play, Player
from trinity.errors import BudgetError, ConfigError, EndpointError, GraderError
from trinity.forecast import Ground
from trinity.judging import AgentJudge, Judges, check_judge, read_judge
from trinity.llm.budget import Budget, Cap, worst_case
from trinity.llm.client import Client, Rules
from trinity.llm.pool import Pool
from trinity.llm.store import MemoryStore
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.pipeline import summarise
from trinity.plan import GRADING_ROW, foresee, total
from trinity.runs.ledger import Ledger
from trinity.types import Agent, Price, Record, Replicate, Spend, Task

PRICE = Price(1.0, 3.0, "test")
ANN = Agent("ann", "script", "ann", {"temperature": 1.0, "max_tokens": 12}, price=PRICE, active_params=1e9)
JUDGE = Agent("judge", "script", "judge", {"temperature": 0.5, "max_tokens": 4}, price=PRICE, active_params=1e9)


def arena_of(
    folder: Path,
    script: Callable[[Request], Reply | Exception] | None = None,
    *,
    task: Task | None = None,
    rules: Rules | None = None,
    concurrency: int = 1,
) -> Arena:
    """An arena on one judged task, whose judge is an agent of the pool but of no method."""
    task = Judged("talk") if task is None else task
    transport = speakers(says=script or Speaker({"ann": 0.6}))
    agents, tasks = [ANN, JUDGE], {"talk": task}
    arena = make_arena(folder, tasks=tasks, transport=transport, agents=agents, rules=rules, concurrency=concurrency)
    arena.agents = [ANN]
    return judged_by(arena)


def judged_by(arena: Arena) -> Arena:
    """The arena with its judge."""
    player: Any = arena.player
    judges = Judges(player.client, JUDGE)
    again = Player(player.client, player.ledger, player.stamp, player._seeds, player._concurrency, judges=judges)
    return replace(arena, player=again)


async def by_ann(arena: Arena) -> list[Record]:
    """The records of the agent alone."""
    await arena.test(SingleAgent(ANN))
    return list(arena.player.ledger.records())


class TestBill:
    """What a judge costs."""

    async def test_no_episode_is_billed_for_its_grading(self, tmp_path: Path) -> None:
        """Records, counts and totals know the episode's calls alone; the ledger tells the judge's apart."""
        arena = arena_of(tmp_path)
        with arena.player.ledger as ledger:
            rows = await by_ann(arena)
            assert {row.n_calls for row in rows} == {2}
            assert {row.status for row in rows} == {"correct", "wrong"}
            episodes, gradings = ledger.totals(), ledger.totals(grading=True)
            spent = ledger.spent()
            assert arena.counts.logical == 2 * len(rows)
            assert set(spent) == {"test", "grading"}
            judged = [
                answer for answer in ledger.calls if (use := ledger.call_use(answer.request_hash)) and use.grading
            ]
        assert episodes.paid_calls == 2 * len(rows)
        assert gradings.paid_calls == spent["grading"].calls == len(judged)
        assert 4 * len(rows) >= gradings.paid_calls > 2 * len(rows)
        assert episodes.paid.weighted_tokens == sum(row.weighted_tokens for row in rows)
        assert gradings.spent == spent["grading"]
        assert episodes.spent == spent["test"]

    async def test_the_summary_has_a_line_of_its_own_for_it(self, tmp_path: Path) -> None:
        """Totals name gradings beside the episodes' calls, and a run without a judge says nothing of them."""
        arena = arena_of(tmp_path)
        with arena.player.ledger as ledger:
            await by_ann(arena)
            manifest: dict[str, Any] = {"judge": {"agent": {}}, "config": {}}
            told = summarise(arena, manifest)["totals"]
            plain = summarise(arena, {"config": {}})["totals"]
            gradings = ledger.totals(grading=True)
        assert told["grading_paid_calls"] == gradings.paid_calls
        assert told["grading_spent_usd"] == gradings.spent.usd
        assert {key: value for key, value in told.items() if not key.startswith("grading_")} == plain
        (line,) = grading_sentence(told)
        assert line.startswith("Grading, which no method is billed for: ")
        assert f"{gradings.paid_calls} calls paid, 0 reused, {gradings.paid.weighted_tokens:,} weighted tokens" in line
        assert grading_sentence(plain) == []

    async def test_found_judgements_are_reused(self, tmp_path: Path) -> None:
        """A second run on the same store buys no judgement again and counts what it reuses."""
        store, script = MemoryStore(), Speaker({"ann": 0.6})
        totals = []
        for name in ("a", "b"):
            arena = arena_of(tmp_path / name, script)
            player: Any = arena.player
            player.client._store = store
            with arena.player.ledger as ledger:
                await by_ann(arena)
                totals.append(ledger.totals(grading=True))
        assert totals[0].reused_calls == totals[1].paid_calls == 0
        assert totals[0].paid_calls == totals[1].reused_calls > 0

    async def test_the_episodes_own_cap_is_not_the_judges(self, tmp_path: Path) -> None:
        """With room for two calls an episode is answered and graded with four more."""
        arena = arena_of(tmp_path, rules=Rules(episode=Cap(calls=2)))
        with arena.player.ledger:
            rows = await by_ann(arena)
        assert {(row.n_calls, row.capped) for row in rows} == {(2, False)}

    async def test_gradings_have_a_cap_of_their_own(self, tmp_path: Path) -> None:
        """Where it is reached the run stops as at any cap, and goes on where more is given, buying nothing twice."""
        store = MemoryStore()
        rules = Rules(Budget(Cap(), {"grading": Cap(calls=9)}, {}))
        arena = arena_of(tmp_path, rules=rules)
        player: Any = arena.player
        player.client._store = store
        with arena.player.ledger as ledger:
            with pytest.raises(BudgetError, match=r"at single ann, item talk-.*budget\.phases\.grading\.calls=9"):
                await arena.test(SingleAgent(ANN))
            rows = list(ledger.records())
            assert {row.status for row in rows[:-1]} <= {"correct", "wrong"}
            assert [row.status for row in rows].count("over_budget") == 1
            assert ledger.spent()["grading"].calls == 9
            assert ledger.delete_ungraded() == 1
            pool: Pool = player.client.pool
            rich = Client(pool, store, ledger, Rules(Budget(Cap(), {}, ledger.spent())))
            more = Player(rich, ledger, player.stamp, player._seeds, 1, judges=Judges(rich, JUDGE))
            await replace(arena, player=more).test(SingleAgent(ANN))
            resumed = list(ledger.records())
        whole = arena_of(tmp_path / "whole")
        with whole.player.ledger as ledger:
            assert [(row.item_id, row.score) for row in await by_ann(whole)] == [
                (row.item_id, row.score) for row in resumed
            ]
            calls = ledger.totals(grading=True).paid_calls
        assert sum(1 for request in store.requests.values() if request["model"] == "judge") == calls


class TestFailures:
    """A judge that cannot be asked, or says nothing that can be read."""

    async def test_a_failed_judgement_is_an_error_and_no_wrong_answer(self, tmp_path: Path) -> None:
        """The record keeps its bill and is asked again; then it is graded without another answer being bought."""
        down = [True]

        def script(request: Request) -> Reply | Exception:
            if request.model == "judge" and down[0]:
                return TransportError("server", "down")
            return Speaker({"ann": 1.0})(request)

        arena = arena_of(tmp_path, script)
        task, item = next(arena.items("test"))
        play = Play(SingleAgent(ANN), task, item, Replicate("test", 0))
        with arena.player.ledger as ledger:
            failed = await arena.player.play(play)
            assert (failed.status, failed.score, failed.n_calls) == ("error", None, 2)
            paid = ledger.totals().paid_calls
            down[0] = False
            assert (await arena.player.play(play)).status == "correct"
            assert ledger.totals().paid_calls == paid == 2

    async def test_a_judge_whose_endpoint_cannot_be_used_stops_the_run(self, tmp_path: Path) -> None:
        """As for any agent: the line says what to set, and no record was made an error of it."""

        def script(request: Request) -> Reply | Exception:
            return TransportError("fatal", "set THE_KEY") if request.model == "judge" else Speaker({})(request)

        arena = arena_of(tmp_path, script)
        with arena.player.ledger as ledger:
            with pytest.raises(EndpointError, match="set THE_KEY"):
                await arena.test(SingleAgent(ANN))
            assert list(ledger.records()) == []

    async def test_a_task_asks_no_oftener_than_it_announces(self, tmp_path: Path) -> None:
        """What a plan has counted on is held: one call more is the grader's error."""
        task: Any = type("Chatty", (Judged,), {"judge_calls": 3})("talk")
        arena = arena_of(tmp_path, task=task)
        context = Context(task, next(task.items("test")), Replicate("test", 0), 0, 0, "grading")
        judge = AgentJudge(arena.player.client, JUDGE, context)
        with arena.player.ledger:
            for _ in range(3):
                await judge.ask([{"role": "user", "content": "[judge 1]"}])
            with pytest.raises(GraderError, match="asks its judge more than 3 times"):
                await judge.ask([{"role": "user", "content": "[judge 1]"}])

    async def test_equal_questions_are_as_many_samples(self, tmp_path: Path) -> None:
        """Within one grading a judge that is asked twice gives two answers; the next grading's are the same ones."""
        seen: list[Request] = []

        def script(request: Request) -> Reply | Exception:
            seen.append(request)
            return Speaker({"ann": 0.6})(request)

        arena = arena_of(tmp_path, script)
        with arena.player.ledger:
            await by_ann(arena)
        judged = [request for request in seen if request.model == "judge"]
        assert {request.sample for request in judged} == {0, 1}
        assert {request.replicate for request in judged} == {Replicate("test", index) for index in range(3)}


async def test_order_and_concurrency_change_nothing(tmp_path: Path) -> None:
    """One episode at a time and 32 give the same records, judged by the same calls."""
    found = []
    for concurrency in (1, 32):
        arena = arena_of(tmp_path / str(concurrency), concurrency=concurrency)
        with arena.player.ledger as ledger:
            rows = await by_ann(arena)
            found.append(([replace(row, latency_s=0.0) for row in rows], {one.request_hash for one in ledger.calls}))
    assert found[0] == found[1]


class TestPlan:
    """What grading may cost, before anything is asked."""

    async def test_it_is_never_less_than_what_it_costs(self, tmp_path: Path) -> None:
        """Every graded episode at the task's `judge_calls`, each call at the judge's own caps, in a row of its own."""
        arena = arena_of(tmp_path)
        forecasts = foresee({"single": Single()}, Ground([ANN], arena.tasks, 3), JUDGE)
        with arena.player.ledger as ledger:
            await by_ann(arena)
            spent = ledger.totals(grading=True).spent
        row = forecasts[GRADING_ROW]
        assert list(forecasts) == ["single", GRADING_ROW]
        assert row is not None
        assert (row.episodes, row.spend.calls) == (0, 6 * 3 * 4)
        assert row.spend.usd is not None
        assert spent.usd is not None
        assert 0 < spent.usd <= row.spend.usd
        assert spent.weighted_tokens <= row.spend.weighted_tokens
        least = worst_case(JUDGE, [{"role": "user", "content": ""}]).weighted_tokens
        assert row.spend.weighted_tokens >= row.spend.calls * least
        assert total(forecasts).spend.calls == 6 * 3 * (2 + 4)

    def test_there_is_no_row_where_nothing_is_judged(self) -> None:
        """Without a judged task, or without a judge, a plan is what it was."""
        plain = Ground([ANN], {"a": TwoTurns("a")}, 3)
        assert list(foresee({"single": Single()}, plain, JUDGE)) == ["single"]
        assert list(foresee({"single": Single()}, Ground([ANN], {"a": Judged("a")}, 3))) == ["single"]

    def test_only_judged_tasks_count(self) -> None:
        """Episodes on other tasks are not graded by a model."""
        tasks: dict[str, Task] = {"a": TwoTurns("a", n_test=50), "b": Judged("b", n_test=2)}
        row = foresee({"single": Single()}, Ground([ANN], tasks, 1), JUDGE)[GRADING_ROW]
        assert row is not None
        assert row.spend.calls == 2 * 4

    def test_an_unpriced_judge_has_unknown_costs(self) -> None:
        """They are not taken for nothing."""
        ground = Ground([ANN], {"b": Judged("b")}, 1)
        row = foresee({"single": Single()}, ground, replace(JUDGE, price=None))[GRADING_ROW]
        assert row is not None
        assert row.spend.usd is None


POOL = Pool("team", [ANN, replace(ANN, name="bob")], {"script": ScriptedTransport(Speaker({}))})
OWN = {
    "_target_": "trinity.llm.pool.build_pool",
    "name": "judge",
    "endpoints": {"main": {"_target_": "tests.talks.speakers"}},
    "agents": [{"name": "judge", "endpoint": "main", "model": "gpt"}],
}


class TestConfig:
    """The group `judge`."""

    def test_no_judge(self) -> None:
        """Without the group, as in runs of earlier versions, and with `none` there is none."""
        assert read_judge(OmegaConf.create({}), POOL) is None
        assert read_judge(OmegaConf.create({"judge": {"kind": "none", "agent": None}}), POOL) is None

    def test_an_agent_of_the_pool(self) -> None:
        """It is asked through the run's own pool."""
        seat = read_judge(OmegaConf.create({"judge": {"kind": "pool", "agent": "bob"}}), POOL)
        assert seat is not None
        assert (seat.agent.name, seat.pool, seat.own) == ("bob", POOL, False)

    def test_a_model_of_its_own(self) -> None:
        """It has a pool of its own; its facts are enough to ask its ledger without that pool."""
        seat = read_judge(OmegaConf.create({"judge": {"kind": "own", "agent": "judge", "pool": OWN}}), POOL)
        assert seat is not None
        facts = seat.facts()
        assert (facts["kind"], facts["pool"], facts["own"]) == ("scripted", "judge", True)
        assert facts["endpoints"]["main"]["endpoint_id"] == "scripted:speakers"
        assert agent_from(facts["agent"]) == seat.agent

    @pytest.mark.parametrize(
        ("given", "line"),
        [
            ({"kind": "pool"}, "judge=pool: it has no agent; give judge.agent=NAME, one of: ann, bob"),
            ({"kind": "pool", "agent": "bop"}, "pool team: unknown agent 'bop'; did you mean 'bob'"),
            ({"kind": "own", "agent": "judge"}, "judge=own: it has no pool; see conf/judge/own.yaml"),
            (
                {"kind": "own", "agent": "judge", "pool": {**OWN, "agents": [{"name": "judge", "model": None}]}},
                "judge=own: the judge has no model; give judge.model=PROVIDER/MODEL",
            ),
            ({"kind": "own", "agent": "jugde", "pool": OWN}, "pool judge: unknown agent 'jugde'; did you mean 'judge'"),
            ({"kind": "poll"}, "judge.kind: there is no 'poll'; choose from: none, pool, own"),
            ({"agnt": "ann"}, "there is no key 'judge.agnt'; did you mean 'agent'"),
        ],
    )
    def test_mistakes(self, given: dict[str, Any], line: str) -> None:
        """One line that says what to write."""
        with pytest.raises(ConfigError) as caught:
            read_judge(OmegaConf.create({"judge": given}), POOL)
        assert line in str(caught.value)

    def test_a_task_that_needs_a_judge_wants_one(self) -> None:
        """It is refused before anything is asked; other tasks are not."""
        check_judge({"a": TwoTurns("a")}, None)
        with pytest.raises(ConfigError, match=r"task b: its answers are graded by a model, .*judge=pool judge.agent"):
            check_judge({"a": TwoTurns("a"), "b": Judged("b")}, None)


def test_older_ledgers_count_nothing_as_grading(tmp_path: Path) -> None:
    """A ledger without gradings has totals of zero for them."""
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.totals(grading=True).spent == Spend()
        assert ledger.totals(grading=True).paid_calls == 0
