"""What a generation plays: common items, replicates and noise; and what an episode is worth."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from baselines.single import SingleAgent
from tests.ground import AGENTS, make_arena, skill_tasks
from trinity.errors import ConfigError, UngradedError
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.trainers.fitness import drawn, epoch_order, play_generation, reward, train_plays
from trinity.types import Replicate, Usage


class TestDraw:
    """Which items a generation meets."""

    def test_epoch_is_a_permutation(self) -> None:
        """Every item comes once an epoch, and epochs and seeds differ."""
        tasks = ["a"] * 5 + ["b"] * 10
        orders = [epoch_order(tasks, seed, epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0))]
        assert all(sorted(order) == list(range(15)) for order in orders)
        assert len({tuple(order) for order in orders}) == 3

    def test_tasks_are_spread(self) -> None:
        """Any six neighbours of three equal tasks hold each task once at least."""
        tasks = ["a"] * 8 + ["b"] * 8 + ["c"] * 8
        order = epoch_order(tasks, 3, 0)
        for start in range(19):
            assert {tasks[index] for index in order[start : start + 6]} == {"a", "b", "c"}

    def test_slots_continue(self, tmp_path: Path) -> None:
        """Generations take consecutive slots: after an epoch every item was met equally often."""
        arena = make_arena(tmp_path, tasks=skill_tasks(n_train=4))
        with arena.player.ledger:
            items = list(arena.items("train"))
        met = Counter(item.item_id for g in range(4) for _, item in drawn(items, 0, g, 6))
        assert set(met.values()) == {2}
        assert len(met) == 12


class TestReplicates:
    """Replicate numbers of trajectories."""

    def test_fresh_and_frozen(self, tmp_path: Path) -> None:
        """Trajectory r of generation g plays replicate g·m + r when fresh, r when frozen."""
        arena = make_arena(tmp_path)
        with arena.player.ledger:
            items = list(arena.items("train"))[:4]
        method = SingleAgent(AGENTS[0])
        fresh = [play.replicate for play in train_plays(method, items, 3, "fresh")]
        frozen = [play.replicate for play in train_plays(method, items, 3, "frozen")]
        assert fresh == [Replicate("train", 12 + r) for r in range(4)]
        assert frozen == [Replicate("train", r) for r in range(4)]


class TestReward:
    """Score − w · cost."""

    async def test_cost_is_weighed(self, tmp_path: Path) -> None:
        """The weight multiplies the cost on the named axis; without a weight costs need not be known."""
        arena = make_arena(tmp_path)
        with arena.player.ledger:
            ((record, *_),) = await arena.validate(SingleAgent(AGENTS[0]))
        known = replace(record, score=1.0, gflop=40.0, cost_usd=None)
        assert reward(known, 0.01, "gflop") == pytest.approx(0.6)
        assert reward(known, 0.0, "usd") == 1.0
        with pytest.raises(ConfigError, match="cost in usd"):
            reward(known, 0.01, "usd")
        with pytest.raises(UngradedError):
            reward(replace(known, score=None), 0.0, "gflop")


class TestGeneration:
    """Playing a generation."""

    async def test_candidates_share_calls(self, tmp_path: Path) -> None:
        """Candidates that ask alike make one call; everything else about them is their own."""
        transport = ScriptedTransport(lambda _: Reply("Answer: 0", "", "stop", Usage(3, 1)))
        arena = make_arena(tmp_path, transport=transport)
        with arena.player.ledger:
            twins = [SingleAgent(AGENTS[0], name=f"twin{number}") for number in range(5)]
            records = await play_generation(arena, twins, 0, 6, "fresh", list(arena.items("train")))
        assert [len(rows) for rows in records] == [6] * 5
        assert transport.sent.total() == 6
        assert {row.method for rows in records for row in rows} == {f"twin{number}" for number in range(5)}

    async def test_failures_are_asked_once_more(self, tmp_path: Path) -> None:
        """A call that fails once costs nothing but time."""
        failed: set[str] = set()

        def answer(request: Request) -> Reply | Exception:
            if request.hash in failed:
                return Reply("Answer: 0", "", "stop", Usage(3, 1))
            failed.add(request.hash)
            return TransportError("server", "down")

        arena = make_arena(tmp_path, transport=ScriptedTransport(answer))
        with arena.player.ledger:
            train = list(arena.items("train"))
            (rows,) = await play_generation(arena, [SingleAgent(AGENTS[0])], 0, 4, "fresh", train)
        assert all(row.score is not None for row in rows)

    async def test_ungraded_stops(self, tmp_path: Path) -> None:
        """What fails again stops the training with the number of failures and what to do."""
        arena = make_arena(tmp_path, transport=ScriptedTransport(lambda _: TransportError("server", "down")))
        train = list(arena.items("train"))
        with arena.player.ledger, pytest.raises(UngradedError, match=r"generation 1: 4 of 4 .* resume=RUN"):
            await play_generation(arena, [SingleAgent(AGENTS[0])], 0, 4, "fresh", train)
