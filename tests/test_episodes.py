"""Episodes become records: statuses, scores, bills, and nothing played twice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from baselines.single import SingleAgent
from tests.ground import AGENTS, SKILLS, make_arena, skill_tasks
from trinity.arena import Arena, mean_cost, mean_score
from trinity.context import Context
from trinity.coordinator.policy import RandomPolicy
from trinity.coordinator.protocol import Coordinator
from trinity.episodes import SPLIT_OF, Play, Player
from trinity.errors import BudgetError, EndpointError, GraderError, UngradedError
from trinity.grading import graded
from trinity.llm.budget import Budget, Cap
from trinity.llm.client import Client, Rules
from trinity.llm.pool import Pool
from trinity.llm.store import MemoryStore
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.runs.ledger import Ledger
from trinity.runs.records import comparable
from trinity.testing import SkillTask, team
from trinity.types import UNGRADED, Episode, FinishReason, Grade, Item, Record, Replicate, Status, Usage
from trinity.types import Client as ClientProtocol

TASK = SkillTask("sums", n_test=2)
ITEM = next(TASK.items("test"))


def a_play(arena: Arena, index: int = 0) -> Play:
    """The first agent alone on the first test item."""
    task, item = next(arena.items("test"))
    return Play(SingleAgent(arena.agents[0]), task, item, Replicate("test", index))


class TestGraded:
    """The table of statuses."""

    @pytest.mark.parametrize(
        ("answer", "reason", "status", "score", "raw"),
        [
            ("Answer: 0", "stop", "correct", 1.0, 1.0),
            ("Answer: 7", "stop", "wrong", 0.0, 0.0),
            ("no idea", "stop", "no_answer", 0.0, 0.0),
            ("", "stop", "no_answer", 0.0, 0.0),
            (None, "stop", "no_answer", 0.0, 0.0),
            ("Answer: 0", "length", "truncated", 0.0, 1.0),
            (None, "context", "truncated", 0.0, 0.0),
            ("Answer: 0", "content_filter", "refused", 0.0, 1.0),
            ("", "content_filter", "refused", 0.0, 0.0),
        ],
    )
    async def test_status(
        self, answer: str | None, reason: FinishReason, status: Status, score: float, raw: float
    ) -> None:
        """Truncated, refused and missing answers score 0 and keep what their text would have got."""
        outcome = await graded(TASK, ITEM, Episode(answer, reason))
        assert (outcome.status, outcome.score, outcome.raw_score) == (status, score, raw)


class TestPlayer:
    """Playing."""

    async def test_failed_call_is_no_wrong_answer(self, tmp_path: Path) -> None:
        """A call that fails after its retries makes an `error` without a score; the next run of it may succeed."""
        fails = [True]

        def answer(_: Request) -> Reply | Exception:
            return TransportError("server", "down") if fails[0] else Reply("Answer: 0", "", "stop", Usage(3, 1))

        arena = make_arena(tmp_path, transport=ScriptedTransport(answer))
        with arena.player.ledger:
            failed = await arena.player.play(a_play(arena))
            assert (failed.status, failed.score, failed.answer) == ("error", None, None)
            fails[0] = False
            assert (await arena.player.play(a_play(arena))).status == "correct"

    async def test_replay_keeps_failures(self, tmp_path: Path) -> None:
        """An episode that failed then stays failed when it is replayed, though its calls were answered later."""
        down = make_arena(tmp_path / "a", transport=ScriptedTransport(lambda _: TransportError("server", "down")))
        up = make_arena(tmp_path / "b")
        with down.player.ledger as source, up.player.ledger as rebuilt:
            failed = await down.player.play(a_play(down))
            player = Player(up.player.client, rebuilt, up.player.stamp, dict.fromkeys(SPLIT_OF, 0), 1, replayed=source)
            assert await player.play(a_play(up)) == failed
            assert next(rebuilt.records()) == failed

    async def test_replay_keeps_the_choices_of_failures(self, tmp_path: Path) -> None:
        """What a policy chose before a call failed is in the rebuilt ledger as well: reports count and show it."""
        down = make_arena(tmp_path / "a", transport=ScriptedTransport(lambda _: TransportError("server", "down")))
        up = make_arena(tmp_path / "b")
        with down.player.ledger as source, up.player.ledger as rebuilt:
            policy = RandomPolicy("random", [agent.name for agent in down.agents], source)
            failed = replace(a_play(down), method=Coordinator(policy, down.agents, 3, name="random"))
            assert (await down.player.play(failed)).status == "error"
            player = Player(up.player.client, rebuilt, up.player.stamp, dict.fromkeys(SPLIT_OF, 0), 1, replayed=source)
            await player.play(failed)
            (was,), (now,) = source.decisions(), rebuilt.decisions()
            assert (was.key, was.agent, was.role, was.key.turn) == (now.key, now.agent, now.role, 0)

    async def test_graded_is_not_played_again(self, tmp_path: Path) -> None:
        """A graded record is taken from the ledger."""
        transport = ScriptedTransport(lambda _: Reply("Answer: 0", "", "stop", Usage(3, 1)))
        arena = make_arena(tmp_path, transport=transport)
        with arena.player.ledger:
            first = await arena.player.play(a_play(arena))
            assert await arena.player.play(a_play(arena)) == first
            assert arena.counts.logical == 1

    async def test_failing_grader_is_an_error(self, tmp_path: Path) -> None:
        """A grader that fails makes an `error`, which keeps its bill."""

        class Broken(SkillTask):
            async def grade(self, item: Item, episode: Episode, judge: object) -> Grade:
                raise GraderError("the grader broke")

        arena = make_arena(tmp_path, tasks={"sums": Broken("sums", n_test=1)})
        with arena.player.ledger:
            record = await arena.player.play(a_play(arena))
            assert (record.status, record.score) == ("error", None)
            assert record.n_calls == 1

    async def test_grader_mistakes_are_errors(self, tmp_path: Path) -> None:
        """Whatever a grader raises, and a score out of [0, 1], is the grader's error and not the run's end."""

        class Odd(SkillTask):
            async def grade(self, item: Item, episode: Episode, judge: object) -> Grade:
                if item.item_id.endswith("0"):
                    raise KeyError("oops")
                return Grade(2.0, "x")

        arena = make_arena(tmp_path, tasks={"sums": Odd("sums", n_test=2)})
        with arena.player.ledger:
            await arena.test(SingleAgent(AGENTS[0]))
            assert [row.status for row in arena.player.ledger.records()] == ["error", "error"]

    async def test_validation_wants_grades(self, tmp_path: Path) -> None:
        """Nothing is chosen on holes: an episode that fails twice on validation stops the run."""
        transport = ScriptedTransport(lambda _: TransportError("server", "down"))
        arena = make_arena(tmp_path, transport=transport)
        with arena.player.ledger, pytest.raises(UngradedError, match="24 of 24 episodes"):
            await arena.validate(SingleAgent(AGENTS[0]))

    async def test_bill_is_every_call(self, tmp_path: Path) -> None:
        """Tokens, GFLOP and call ids are those of the episode's calls; an unknown price is null."""
        transport = ScriptedTransport(lambda _: Reply("Answer: 0", "", "stop", Usage(30, 10, 5, 20)))
        arena = make_arena(tmp_path, transport=transport)
        with arena.player.ledger:
            record = await arena.player.play(a_play(arena))
            assert (record.input_tokens, record.output_tokens, record.reasoning_tokens) == (30, 10, 5)
            assert (record.weighted_tokens, record.cached_tokens) == (90, 20)
            assert record.gflop == pytest.approx(2 * 1e9 * 45 / 1e9)
            assert record.cost_usd is None
            assert len(record.call_ids) == record.n_calls == 1

    async def test_a_record_says_where_it_belongs(self, tmp_path: Path) -> None:
        """Run, pool, method, item and replicate are told in full, and whatever was not asked is nothing."""
        transport = ScriptedTransport(lambda _: Reply("Answer: 0", "", "stop", Usage(3, 1)))
        arena = make_arena(tmp_path, transport=transport)
        task, item = next(arena.items("test"))
        item = replace(item, domain="arithmetic", difficulty=2.5, difficulty_kind="human")
        play = Play(SingleAgent(arena.agents[0]), task, item, Replicate("reeval", 3))
        with arena.player.ledger:
            record = await arena.player.play(play)
        assert replace(record, latency_s=0.0) == Record(
            run_id="run",
            experiment="test",
            method="single",
            variant=arena.agents[0].name,
            backbone=play.method.backbone,
            pool="team",
            pool_kind="scripted",
            task=item.task,
            split="val",
            item_id=item.item_id,
            domain="arithmetic",
            difficulty=2.5,
            difficulty_kind="human",
            replicate=Replicate("reeval", 3),
            seed=arena.seed,
            status="correct",
            score=1.0,
            raw_score=1.0,
            capped=False,
            answer="0",
            n_turns=1,
            n_calls=1,
            input_tokens=3,
            output_tokens=1,
            reasoning_tokens=0,
            cached_tokens=0,
            encoder_tokens=0,
            usage_estimated=False,
            weighted_tokens=7,
            cost_usd=None,
            gflop=8.0,
            latency_s=0.0,
            call_ids=record.call_ids,
        )
        assert record.latency_s >= 0.0
        assert str(play) == f"single {arena.agents[0].name}, item {item.item_id}, reeval replicate 3"

    async def test_endpoint_error_stops_all(self, tmp_path: Path) -> None:
        """When an endpoint cannot be used the run stops with that one error, not with a group of them."""
        transport = ScriptedTransport(lambda _: TransportError("fatal", "set THE_KEY"))
        arena = make_arena(tmp_path, transport=transport)
        with arena.player.ledger, pytest.raises(EndpointError, match="set THE_KEY"):
            await arena.test(SingleAgent(AGENTS[0]))

    async def test_source_is_read_lazily(self, tmp_path: Path) -> None:
        """No more plays are taken from the source than can be in flight."""
        arena = make_arena(tmp_path, tasks=skill_tasks(n_test=100), concurrency=4)
        taken = 0
        ended = 0

        def source() -> Iterator[Play]:
            nonlocal taken
            for play in arena.plays(SingleAgent(AGENTS[0]), "test", "test", 1):
                taken += 1
                assert taken - ended <= 4
                yield play

        def each(*_: object) -> None:
            nonlocal ended
            ended += 1

        with arena.player.ledger:
            await arena.player.play_all(source(), each)
            assert ended == 300


class TestMeans:
    """Means over records."""

    async def test_unknown_is_not_zero(self, tmp_path: Path) -> None:
        """One unknown cost makes the mean unknown; an ungraded record leaves the mean score alone."""
        arena = make_arena(tmp_path)
        with arena.player.ledger:
            record = await arena.player.play(a_play(arena))
        unknown = replace(record, gflop=None, score=None, status="error")
        assert mean_cost([record, unknown], "gflop") is None
        assert mean_score([record, unknown]) == record.score
        assert mean_score([]) is None


class TestCaps:
    """Where money or patience ends."""

    async def test_a_run_cap_stops_at_an_episodes_end_and_says_where(self, tmp_path: Path) -> None:
        """What was begun is `over_budget`, nothing else is begun, earlier episodes are whole."""
        arena = make_arena(tmp_path, concurrency=4, rules=Rules(Budget(Cap(calls=7), {}, {})))
        methods = [SingleAgent(agent) for agent in arena.agents]
        with arena.player.ledger as ledger, pytest.raises(BudgetError) as stopped:
            await arena.test(*methods)
        assert re.match(
            r"stopped at single \w+, item sums-test-2, test replicate 0: budget.run.calls=7", str(stopped.value)
        )
        with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
            rows = list(ledger.records())
            assert Counter(row.status == "over_budget" for row in rows) == {False: 7, True: 4}
            assert all(
                (row.score, row.answer, row.n_calls) == (None, None, 0) for row in rows if row.status in UNGRADED
            )
            assert ledger.delete_ungraded() == 4

    async def test_an_uncapped_run_is_equal_to_one_that_was_stopped_and_taken_up_again(self, tmp_path: Path) -> None:
        """A cap moves nothing: neither noise nor answers of the episodes that come after it."""
        whole = make_arena(tmp_path / "whole")
        with whole.player.ledger as expected:
            await whole.test(*[SingleAgent(agent) for agent in whole.agents])
            arena = make_arena(tmp_path / "parts", rules=Rules(Budget(Cap(calls=11), {}, {})))
            with arena.player.ledger as ledger:
                methods = [SingleAgent(agent) for agent in arena.agents]
                with pytest.raises(BudgetError):
                    await arena.test(*methods)
                rich = Client(Pool("team", arena.agents, {"script": team(SKILLS)}), MemoryStore(), ledger)
                player = Player(rich, ledger, arena.player.stamp, dict.fromkeys(SPLIT_OF, 0), 4)
                await replace(arena, player=player).test(*methods)
                assert [comparable(row) for row in ledger.records()] == [comparable(row) for row in expected.records()]

    async def test_at_its_own_cap_a_coordinator_ends_on_its_latest_answer(self, tmp_path: Path) -> None:
        """The episode is graded, marked as capped, and its last turn was never bought."""
        arena = make_arena(tmp_path, rules=Rules(episode=Cap(calls=2)))
        policy = RandomPolicy("random", [agent.name for agent in arena.agents], arena.player.ledger)
        with arena.player.ledger:
            await arena.test(Coordinator(policy, arena.agents, 5, name="random"))
            rows = list(arena.player.ledger.records())
        assert {row.n_calls for row in rows} <= {1, 2}
        assert {row.status for row in rows} <= {"correct", "wrong", "no_answer"}
        assert all(row.capped for row in rows if row.n_calls == 2 and row.status != "correct")

    async def test_a_method_that_knows_no_caps_ends_on_the_latest_text(self, tmp_path: Path) -> None:
        """Its episode is graded on what it was last given, or has no answer where it was given nothing."""
        for calls, status in ((1, "correct"), (0, "no_answer")):
            arena = make_arena(tmp_path / str(calls), rules=Rules(episode=Cap(calls=calls)))
            task, item = next(arena.items("test"))
            with arena.player.ledger:
                record = await arena.player.play(Play(Twice(arena.agents[0]), task, item, Replicate("test", 0)))
            assert (record.status, record.capped, record.n_calls) == (status, True, calls)


@dataclass(frozen=True)
class Twice(SingleAgent):
    """Asks twice and heeds nothing."""

    async def solve(self, item: Item, client: ClientProtocol, context: Context) -> Episode:
        """The second answer."""
        await SingleAgent.solve(self, item, client, context)
        return await SingleAgent.solve(self, item, client, context)
