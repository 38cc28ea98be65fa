"""The analysis that a run leaves, and how a replay holds another one against it."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baselines.chosen import BestSingle
from baselines.single import Single
from tests.ground import make_arena
from trinity.analysis import analysed, analysis_differences
from trinity.arena import Arena
from trinity.pipeline import contest

FOUND: dict[str, Any] = {
    "reference": "best_single",
    "tasks": {"sums": {"pooled": [{"p": 0.25, "wins": 3}], "models": {"fits": [{"aic": 100.0}]}, "not_identified": []}},
}


def changed(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """`FOUND` with another value at a place."""
    other = copy.deepcopy(FOUND)
    node: Any = other
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    return other


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        (("reference",), "vote", "/reference"),
        (("tasks", "sums", "pooled", 0, "p"), 0.2500001, "/tasks/sums/pooled/0/p"),
        (("tasks", "sums", "pooled", 0, "p"), None, "/tasks/sums/pooled/0/p"),
        (("tasks", "sums", "pooled", 0, "wins"), 4, "/tasks/sums/pooled/0/wins"),
        (("tasks", "sums", "pooled"), [], "/tasks/sums/pooled"),
        (("tasks", "words"), {}, "/tasks/words"),
        (("tasks", "sums", "not_identified"), ["All is well."], "/tasks/sums/not_identified"),
        (("tasks", "sums", "models"), None, "/tasks/sums/models"),
        (("tasks", "sums", "models", "fits", 0, "aic"), 101.0, "/tasks/sums/models/fits/0/aic"),
    ],
)
def test_what_differs_is_named_by_its_place(place: tuple[Any, ...], value: Any, named: str) -> None:
    """Any value that is another one is named, whichever of the two is the older."""
    assert list(analysis_differences(FOUND, changed(place, value))) == [named]
    assert list(analysis_differences(changed(place, value), FOUND)) == [named]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tasks", "sums", "pooled", 0, "p"), 0.25 + 1e-12),
        (("tasks", "sums", "models", "fits", 0, "aic"), 100.01),
        (("tasks", "sums"), {**FOUND["tasks"]["sums"], "models": None, "not_identified": ["No mixed models: why."]}),
    ],
)
def test_rounding_and_a_missing_engine_are_no_difference(place: tuple[Any, ...], value: Any) -> None:
    """Another processor's last bits, an optimiser's tolerance and an environment without gpboost change nothing."""
    assert not list(analysis_differences(FOUND, changed(place, value)))


async def ground(folder: Path) -> tuple[Arena, dict[str, Any]]:
    """A played contest of single agents, and as much of its manifest as an analysis reads."""
    arena = make_arena(folder)
    await contest(arena, {"single": Single(), "best_single": BestSingle()}, lambda _: None)
    return arena, {
        "agents": [{"name": agent.name, "model": agent.model} for agent in arena.agents],
        "seeds": {"seed": arena.seed},
    }


async def test_an_analysis_holds_every_task_and_nothing_that_was_not_played(tmp_path: Path) -> None:
    """The test episodes of the ledger alone: per task the agents as backbones, the reference, no verdicts."""
    arena, manifest = await ground(tmp_path)
    ledger = arena.player.ledger
    found = await analysed(ledger, ledger, arena.tasks, manifest)
    assert list(found["tasks"]) == sorted(arena.tasks)
    for task in found["tasks"].values():
        assert task["backbones"] == ["ann", "bob", "cat"]
        assert task["n_items"] == 10
        assert task["verifier"] == []


async def test_the_manifest_says_what_differences_are_taken_to(tmp_path: Path) -> None:
    """Reference, methods without models and further methods for costs come from the run's own configuration."""
    arena, manifest = await ground(tmp_path)
    analysis = {"reference": "single", "models_without": ["best_single"], "ratios_to": ["best_single"]}
    ledger = arena.player.ledger
    found = await analysed(ledger, ledger, arena.tasks, {**manifest, "config": {"analysis": analysis}})
    assert {key: found[key] for key in analysis} == analysis
    for task in found["tasks"].values():
        assert {row["method"] for row in task["pooled"]} == {"best_single"}
        assert {row["to"] for row in task["cost"]["weighted_tokens"]["ratios"]} == {"single", "best_single"}


async def test_models_wait_to_be_asked_for_where_a_task_is_large(tmp_path: Path) -> None:
    """Some tasks within the given number of episodes and one beyond: that alone has no models, and says so."""
    arena, manifest = await ground(tmp_path)
    ledger = arena.player.ledger
    *small, large = sorted(arena.tasks)
    for record in list(ledger.records(split="test")):
        if record.task == large:
            ledger.add_record(replace(record, method="again"))
    found = await analysed(ledger, ledger, arena.tasks, manifest, most=40)
    assert found["tasks"][large]["models"] is None
    assert small
    assert all(found["tasks"][name]["models"] is not None for name in small)
    notes = [task["not_identified"][-1] for task in found["tasks"].values()]
    assert ["No mixed models of more than 40 episodes" in note for note in notes] == [False] * len(small) + [True]
