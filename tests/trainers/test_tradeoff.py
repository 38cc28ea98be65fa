"""Coordinators for several weights of cost: the larger the weight, the cheaper and the less accurate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from baselines.chosen import BestSingle
from tests.ground import AGENTS, make_arena, skill_tasks
from trinity.arena import Arena, Contender, mean_cost, mean_score
from trinity.coordinator.heads import LinearHead
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.pipeline import contest
from trinity.runs.checkpoint import load_policy
from trinity.testing import SkillTask, team
from trinity.trainers.sep_cma_es import SepCMAES
from trinity.trainers.tradeoff import CostTradeoff
from trinity.trainers.train import Training
from trinity.trainers.trained import TrainedCoordinator
from trinity.types import Record, Task

PAIR = [
    replace(AGENTS[0], name="cheap", model="cheap", active_params=1e9),
    replace(AGENTS[0], name="dear", model="dear", active_params=1e10),
]
SKILLS = {"cheap": {"sums": 0.8, "words": 0.2}, "dear": {"sums": 1.0, "words": 1.0}}


def training(generations: int = 2, popsize: int = 4, trajectories: int = 3, **given: Any) -> Training:
    """A training of 64 dimensions."""
    optimiser = partial(SepCMAES, sigma0=0.5, popsize=popsize)
    return Training(optimiser, generations, trajectories, validate_every=4, reeval_replicates=1, **given)


def tradeoff(weights: Any = (0, 0.45, 2), settings: Training | None = None, **given: Any) -> CostTradeoff:
    """Coordinators of one turn."""
    return CostTradeoff(head=LinearHead, max_turns=1, training=settings or training(), weights=weights, **given)


def ground(folder: Path, **given: Any) -> Arena:
    """Two tasks, a dear agent that is always right and a cheap one that is right on most sums."""
    tasks: dict[str, Task] = {name: SkillTask(name, n_train=20, n_val=10, n_test=20) for name in ("sums", "words")}
    return make_arena(folder, **{"tasks": tasks, "transport": team(SKILLS), "agents": PAIR, **given})


def rows(arena: Arena, name: str, **where: Any) -> list[Record]:
    """Records of one method."""
    return list(arena.player.ledger.records(method=name, **where))


def worth(records: list[Record], weight: float) -> float:
    """Mean of score - weight x GFLOP."""
    return sum((row.score or 0.0) - weight * (row.gflop or 0.0) for row in records) / len(records)


async def both(arena: Arena, contender: Contender) -> None:
    """The best single agent, then the contender."""
    await contest(arena, {"best_single": BestSingle(), "tradeoff": contender}, lambda _: None)


@pytest.mark.timeout(300)
async def test_larger_weights_save_more(tmp_path: Path) -> None:
    """Each weight learns what pays at it: the dear agent everywhere, on words alone, nowhere.

    The dear agent costs 0.9 units more and gains 0.2 points on sums and 0.8 on words: at w = 0.45, 0.4 of a point pays
    for words but not for sums; at w = 2, 1.8 points pay for neither.
    """
    arena = ground(tmp_path)
    with arena.player.ledger:
        await both(arena, tradeoff(settings=training(16, 16, 12)))
        unit = arena.choices["coordinator_w0"]["unit"]
        played = [rows(arena, f"coordinator_w{w}", variant="argmax", split="test") for w in ("0", "0.45", "2")]
        alone = rows(arena, "best_single", split="test")
    accuracies = [mean_score(records) or 0.0 for records in played]
    costs = [mean_cost(records, "gflop") or 0.0 for records in played]
    assert unit == pytest.approx(mean_cost(alone, "gflop"), rel=0.02)
    for found, expected in zip(accuracies, (1.0, 0.9, 0.5), strict=True):
        assert found == pytest.approx(expected, abs=0.15)
    for found, expected in zip(costs, (1.0, 0.55, 0.1), strict=True):
        assert found / unit == pytest.approx(expected, abs=0.1)


async def test_what_is_said_and_kept(tmp_path: Path) -> None:
    """Each weight has rows, generations, a policy and a choice of its own, with its weight and the unit in GFLOP."""
    arena = ground(tmp_path)
    names = ["coordinator_w0", "coordinator_w0.45", "coordinator_w2"]
    with arena.player.ledger:
        await both(arena, tradeoff())
        assert [(method.name, method.variant) for method in arena.ready["tradeoff"]] == [
            (name, variant) for name in names for variant in ("sampled", "argmax")
        ]
        for name in names:
            assert [index for index, _ in arena.player.ledger.generations(name)] == [0, 1]
            assert load_policy(tmp_path / "checkpoint" / name / "best.safetensors")[1]["method"] == name
        single = [row for row in rows(arena, "single", split="val") if row.variant == "dear"]
    assert [arena.choices[name]["weight"] for name in names] == [0, 0.45, 2]
    assert [arena.choices[name]["unit"] for name in names] == pytest.approx([mean_cost(single, "gflop")] * 3)


async def test_fitness_is_score_less_weighted_cost(tmp_path: Path) -> None:
    """The first generation of every weight plays the same candidates, and is judged by its own weight.

    Fitness is score - w x cost / unit of the very same episodes, worked out from the records, on validation too.
    """
    arena = ground(tmp_path)
    with arena.player.ledger:
        await both(arena, tradeoff((0, 0.5)))
        unit = arena.choices["coordinator_w0"]["unit"]
        first = {
            name: [row for row in rows(arena, name, split="train") if row.variant.startswith("g000/")]
            for name in ("coordinator_w0", "coordinator_w0.5")
        }
        told = {name: next(arena.player.ledger.generations(name))[1]["fitness"] for name in first}
        validated = {
            name: (
                list(arena.player.ledger.generations(name))[-1][1]["val"],
                [row for row in rows(arena, name, variant="g002/favourite") if row.replicate.phase == "val"],
            )
            for name in first
        }
    kept = [[(row.variant, row.item_id, row.call_ids) for row in records] for records in first.values()]
    assert kept[0] == kept[1]
    for name, weight in (("coordinator_w0", 0.0), ("coordinator_w0.5", 0.5)):
        for place, fitness in enumerate(told[name]):
            own = [row for row in first[name] if row.variant == f"g000/c{place:02d}"]
            assert fitness == pytest.approx(worth(own, weight / unit))
        assert validated[name][0] == pytest.approx(worth(validated[name][1], weight / unit))


async def test_shared_calls_are_paid_once(tmp_path: Path) -> None:
    """A second weight that is all but the first one asks what that asked, at noise too, and pays for nothing."""
    agents = [replace(agent, sampling={"temperature": 1.0}, deterministic=False) for agent in PAIR]
    sent = []
    for name, weights in (("one", (1,)), ("two", (1, 1.0001))):
        transport: ScriptedTransport = team(SKILLS)
        arena = ground(tmp_path / name, agents=agents, transport=transport)
        with arena.player.ledger:
            await both(arena, tradeoff(weights))
        sent.append(transport.sent.total())
    assert sent[0] == sent[1]


async def test_weight_of_the_trainer(tmp_path: Path) -> None:
    """A coordinator by itself takes `cost_weight` as it stands and learns the same as at that weight over the unit."""
    arena = ground(tmp_path)
    with arena.player.ledger:
        await both(arena, tradeoff((2,)))
        plain = training(cost_weight=2 / arena.choices["coordinator_w2"]["unit"])
        await TrainedCoordinator(LinearHead, 1, plain).prepare(arena)
    thetas = [
        load_policy(tmp_path / "checkpoint" / name / "best.safetensors")[0]
        for name in ("coordinator_w2", "coordinator")
    ]
    assert thetas[0].tobytes() == thetas[1].tobytes()


class TestNothingToTrade:
    """Where the rows are n/a, with the reason."""

    async def test_nobody_to_refer_to(self, tmp_path: Path) -> None:
        """Without the method whose cost is the unit nothing is trained."""
        arena = ground(tmp_path)
        with arena.player.ledger:
            assert await tradeoff(relative_to="vote").prepare(arena) == ()
        assert arena.notes == ["coordinator_w*: n/a, there is no method vote before it that says what it costs"]

    async def test_free_agents(self, tmp_path: Path) -> None:
        """Where an episode costs nothing there is nothing to save."""
        arena = ground(tmp_path)
        arena.choices["best_single"] = {"cost_val": {"sums": 0.0, "words": 0.0}}
        with arena.player.ledger:
            assert await tradeoff().prepare(arena) == ()
        assert "best_single costs nothing" in arena.notes[0]

    async def test_one_agent(self, tmp_path: Path) -> None:
        """A pool of one leaves nothing to coordinate at any weight, which is said once."""
        arena = ground(tmp_path, agents=PAIR[:1])
        with arena.player.ledger:
            await both(arena, tradeoff())
        assert [note for note in arena.notes if "pool of one" in note] == arena.notes
        assert len(arena.notes) == 1


async def test_unit_weighs_tasks_by_their_items(tmp_path: Path) -> None:
    """The unit is the mean over episodes: with 30 items at 1 and 10 at 5 it is 2."""
    tasks: dict[str, Task] = {
        name: SkillTask(name, n_train=2, n_val=n, n_test=1) for name, n in (("sums", 30), ("words", 10))
    }
    arena = ground(tmp_path, tasks=tasks)
    arena.choices["best_single"] = {"cost_val": {"sums": 1.0, "words": 5.0}}
    with arena.player.ledger:
        await tradeoff((1,)).prepare(arena)
    assert arena.choices["coordinator_w1"]["unit"] == 2.0


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([], "give a list"),
        ("0.1", "give a list"),
        (0.5, "give a list"),
        ([0, -1], "-1 is no number"),
        ([float("nan")], "nan is no number"),
        ([True], "True is no number"),
        ([1, 1.0], "two are equal"),
    ],
)
def test_weights_are_checked(weights: Any, said: str) -> None:
    """What cannot be a weight is refused when the contender is built."""
    with pytest.raises(ConfigError, match=said):
        tradeoff(weights)


def test_two_weights_at_once_are_refused() -> None:
    """The trainer's own weight has no meaning beside the weights of the trade-off."""
    with pytest.raises(ConfigError, match=r"trainer\.cost_weight=0\.1"):
        tradeoff(settings=training(cost_weight=0.1))


async def test_forecast_covers_it(tmp_path: Path) -> None:
    """A plan foresees as many episodes and calls as three coordinators can need."""
    agents = [replace(agent, sampling={"max_tokens": 32}, deterministic=False) for agent in PAIR]
    arena = ground(tmp_path, agents=agents, tasks=dict(skill_tasks(n_train=4, n_val=3, n_test=4)))
    foreseen = tradeoff().forecast(Ground(agents, arena.tasks, arena.replicates))
    with arena.player.ledger:
        await both(arena, tradeoff())
        found = [row for row in arena.player.ledger.records() if row.method.startswith("coordinator_w")]
    assert len(found) <= foreseen.episodes
    assert sum(row.n_calls for row in found) <= foreseen.spend.calls
    assert sum(row.weighted_tokens for row in found) <= foreseen.spend.weighted_tokens
