"""The training loop learns, resumes, and calls best only what it tried again."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baselines.chosen import Lookup
from baselines.random_choice import RandomChoice
from tests.ground import AGENTS, TASKS, make_arena, skill_tasks
from trinity.arena import Arena, Contender, mean_score
from trinity.coordinator.heads import LinearHead
from trinity.errors import ConfigError
from trinity.pipeline import contest
from trinity.runs.checkpoint import Checkpoint, load_policy
from trinity.testing import team
from trinity.trainers.sep_cma_es import SepCMAES
from trinity.trainers.train import Training, favourite
from trinity.trainers.trained import TrainedCoordinator


def training(generations: int = 12, *, popsize: int = 16, trajectories: int = 12) -> Training:
    """A short training with a step size that fits 64 dimensions."""
    optimiser = partial(SepCMAES, sigma0=0.5, popsize=popsize)
    return Training(optimiser, generations, trajectories, validate_every=6, reeval_replicates=1)


def trained(settings: Training) -> TrainedCoordinator:
    """The contender."""
    return TrainedCoordinator(LinearHead, 3, settings)


def accuracies(arena: Arena) -> dict[tuple[str, str], float | None]:
    """Mean test score by method and variant."""
    rows = defaultdict(list)
    for record in arena.player.ledger.records(split="test"):
        rows[record.method, record.variant].append(record)
    return {key: mean_score(records) for key, records in rows.items()}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.timeout(300)
async def test_training_learns(seed: int, tmp_path: Path) -> None:
    """In each of five training seeds the coordinator gets at least 90 % of what the lookup gains over random."""
    learner = Training(partial(SepCMAES, sigma0=0.5, popsize=20), 56, 12, validate_every=4, finalists=4)
    specialists = team({name: {task: 1.0} for name, task in zip(("ann", "bob", "cat"), TASKS, strict=True)})
    tasks = skill_tasks(n_train=4, n_val=12, n_test=20)
    arena = make_arena(tmp_path, tasks=tasks, transport=specialists, seed=seed)
    with arena.player.ledger:
        contenders: dict[str, Contender] = {
            "random": RandomChoice(3),
            "lookup": Lookup(),
            "coordinator": TrainedCoordinator(LinearHead, 3, learner),
        }
        await contest(arena, contenders, lambda _: None)
        reached = accuracies(arena)
    random, lookup = reached["random", ""], reached["lookup", ""]
    assert random is not None
    assert lookup == 1.0
    for variant in ("sampled", "argmax"):
        score = reached["coordinator", variant]
        assert score is not None
        assert (score - random) / (lookup - random) >= 0.9, variant


async def test_resume_equals_uninterrupted(tmp_path: Path) -> None:
    """Training that goes on from a checkpoint, its ledger lost, ends with the same theta bytes."""
    whole = make_arena(tmp_path / "whole")
    with whole.player.ledger:
        await trained(training(4, popsize=6, trajectories=3)).prepare(whole)
    first = make_arena(tmp_path / "first")
    with first.player.ledger:
        await trained(training(2, popsize=6, trajectories=3)).prepare(first)
    (tmp_path / "first" / "ledger.sqlite").unlink()
    second = make_arena(tmp_path / "first")
    with second.player.ledger:
        await trained(training(4, popsize=6, trajectories=3)).prepare(second)
        generations = [index for index, _ in second.player.ledger.generations("coordinator")]
    assert generations == [2, 3]
    thetas = [
        load_policy(tmp_path / name / "checkpoint" / "coordinator" / "best.safetensors")[0]
        for name in ("whole", "first")
    ]
    assert thetas[0].tobytes() == thetas[1].tobytes()


async def test_winner_is_tried_again(tmp_path: Path) -> None:
    """The finalists meet fresh replicates, and the choice reports what they reached there."""
    arena = make_arena(tmp_path)
    with arena.player.ledger:
        await trained(training(12, popsize=6, trajectories=3)).prepare(arena)
        again = [row for row in arena.player.ledger.records(split="val") if row.replicate.phase == "reeval"]
    chosen = arena.choices["coordinator"]
    winners = [row for row in again if row.variant == favourite(chosen["generation"])]
    assert {row.variant for row in again} == {favourite(6), favourite(12)}
    assert chosen["accuracy_val"] == pytest.approx(mean_score(winners))


async def test_one_agent_leaves_nothing_to_choose(tmp_path: Path) -> None:
    """A pool of one is not trained on, and the report will say why."""
    arena = make_arena(tmp_path, agents=AGENTS[:1])
    with arena.player.ledger:
        assert await trained(training()).prepare(arena) == ()
    assert "pool of one" in arena.notes[0]


async def test_checkpoint_is_small_and_complete(tmp_path: Path) -> None:
    """Each generation leaves mean, diagonal, paths, sigma, random state and the fitness vectors."""
    arena = make_arena(tmp_path)
    with arena.player.ledger:
        await trained(training(3, popsize=6, trajectories=3)).prepare(arena)
    saved = Checkpoint(tmp_path / "checkpoint" / "coordinator").latest()
    assert saved is not None
    index, arrays, state = saved
    assert index == 3
    assert {"mean", "diagonal", "path_sigma", "path_c", "sigma", "random_state"} <= arrays.keys()
    assert np.shape(state["fitness"]) == (3, 6)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("generations", 0),
        ("generations", 1.5),
        ("cost_weight", float("inf")),
        ("trajectories", 0),
        ("validate_every", 0),
        ("finalists", 0),
        ("reeval_replicates", 0),
        ("noise", "frsh"),
    ],
)
def test_settings_are_checked_before_anything_is_paid(key: str, value: Any) -> None:
    """A setting that makes no sense is named when the training is built."""
    settings: dict[str, Any] = {"optimiser": partial(SepCMAES), "generations": 1, "trajectories": 1, key: value}
    with pytest.raises(ConfigError, match=f"trainer.{key}={value}"):
        Training(**settings)


def test_optimiser_is_checked_too() -> None:
    """So is an argument that the optimiser does not know or take."""
    with pytest.raises(ConfigError, match=r"trainer\.optimiser.*sigma"):
        Training(partial(SepCMAES, sigma=1.0), 1, 1)  # type: ignore[call-arg]  # the mistake that is tested
    with pytest.raises(ConfigError, match="popsize is 1"):
        Training(partial(SepCMAES, popsize=1), 1, 1)


async def test_two_trained_contenders_keep_apart(tmp_path: Path) -> None:
    """A second trained contender trains for itself and leaves the first one's policy alone."""
    arena = make_arena(tmp_path)
    with arena.player.ledger:
        settings = training(2, popsize=4, trajectories=3)
        contenders = {
            name: TrainedCoordinator(LinearHead, turns, settings, name=name)
            for name, turns in (("coordinator", 3), ("short", 1))
        }
        await contest(arena, contenders, lambda _: None)
        assert [len(list(arena.player.ledger.generations(name))) for name in contenders] == [2, 2]
    assert (tmp_path / "checkpoint" / "short" / "best.safetensors").exists()
