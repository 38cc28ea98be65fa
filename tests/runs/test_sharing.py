"""What of a run may leave its folder."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from trinity.runs.sharing import open_tasks, shareable_manifest

CANARY = "Example: what is 6 x 7? 42 (canary-40c1)"
TASKS = [
    {"name": "open", "redistribute": "yes"},
    {"name": "counted", "redistribute": "ids-only"},
    {"name": "closed", "redistribute": "never"},
    {"name": "silent"},
]


def manifest(*, private: bool) -> dict[str, Any]:
    """Prompts of agents at every place in which a manifest has them."""
    agent = {"name": "a", "model": "m", "style": CANARY, "profile": CANARY}
    config = {"pool": {"agents": [{"name": "a", "style": "worked", "profile": CANARY}]}, "seed": 0}
    return {"private": private, "agents": [agent], "config": config, "recipe": copy.deepcopy(config)}


def test_which_tasks_are_open() -> None:
    """Only those that the manifest names and that say `yes`."""
    assert open_tasks({"tasks": TASKS, "pool_kind": "live"}) == {"open"}
    assert open_tasks({}) == frozenset()


def test_answers_recorded_elsewhere_stay() -> None:
    """Of a recorded pool no task is open, whatever its own licence says."""
    assert open_tasks({"tasks": TASKS, "pool_kind": "recorded"}) == frozenset()


def test_prompts_that_may_hold_items_leave_as_hashes() -> None:
    """Where a task is restricted no style or profile is left anywhere; names and other settings are."""
    shared = shareable_manifest(manifest(private=True))
    assert "canary" not in json.dumps(shared)
    assert shared["agents"][0]["profile"] == shared["recipe"]["pool"]["agents"][0]["profile"]
    assert shared["agents"][0]["profile"].startswith("sha256:")
    assert (shared["agents"][0]["model"], shared["config"]["seed"]) == ("m", 0)


@pytest.mark.parametrize("private", [False, True])
def test_the_manifest_of_the_run_itself_is_left_alone(*, private: bool) -> None:
    """What leaves is a copy; of a run without restricted tasks it says everything."""
    own = manifest(private=private)
    shared = shareable_manifest(own)
    assert own == manifest(private=private)
    assert (shared == own) is not private
