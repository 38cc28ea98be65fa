"""The experiments on equal cost and on the weight of cost, as a user runs them on the scripted pool, and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.inprocess import played

POOL = ("pool=team", "encoder=hashed", "task=[scripted]")
SMALL = ("data.n_train=6", "data.n_val=3", "data.n_test=4", "trainer.optimiser.popsize=4", "eval.replicates=1")


def run(cwd: Path, *words: str) -> dict[str, Any]:
    """The summary of a run that a replay gives again."""
    folder = cwd / "run"
    done = played("trinity.run", *POOL, *SMALL, f"hydra.run.dir={folder}", *words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    again = played("trinity.replay", str(folder), cwd=cwd)
    assert again.returncode == 0, again.stderr
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))
    return summary


@pytest.mark.parametrize(("words", "axis"), [((), "gflop"), (("cost_axis=weighted_tokens",), "weighted_tokens")])
def test_matched_compute(words: tuple[str, ...], axis: str, tmp_path: Path) -> None:
    """On either axis every baseline is sized per task and none costs more than the coordinator unless it says so."""
    summary = run(tmp_path, "+experiment=matched_compute", *words)
    assert summary["cost_axis"] == axis
    assert [row["method"] for row in summary["rows"] if row["task"] == "sums"] == [
        *["single"] * 3,
        *("random", "best_single", "vote", "matched_best_of_n", "matched_self_consistency", "matched_self_refine"),
        *["coordinator"] * 2,
        "oracle",
    ]
    for name in ("matched_self_consistency", "matched_best_of_n", "matched_self_refine"):
        choice = summary["choices"][name]
        assert choice["axis"] == axis
        assert choice["tasks"].keys() == {"sums", "words", "plans"}
        for task, told in choice["tasks"].items():
            assert told["matched_cost_val"] == summary["choices"]["coordinator"]["cost_val"][task]
            assert told["dearer"] == (told["cost_val"] > told["matched_cost_val"] * (1 + 1e-9))
        assert summary["effort"][name]["episodes"] > 0


def test_cost_tradeoff(tmp_path: Path) -> None:
    """Every weight has its rows, effort, policy and training curve, and the picture joins them."""
    summary = run(tmp_path, "+experiment=cost_tradeoff", "methods.tradeoff.weights=[0,0.5,3]")
    names = ["coordinator_w0", "coordinator_w0.5", "coordinator_w3"]
    rows = [row["method"] for row in summary["rows"] if row["task"] == "all"]
    assert [name for name in rows if name.startswith("coordinator")] == [name for name in names for _ in range(2)]
    assert [summary["choices"][name]["weight"] for name in names] == [0, 0.5, 3]
    assert summary["effort"].keys() >= {*names}
    assert {path.parent.name for path in (tmp_path / "run").glob("checkpoint/*/best.safetensors")} == {*names}
    report = (tmp_path / "run" / "report.md").read_text("utf-8")
    assert report.count("calls before the test.") == 3
    assert "lines join its rows in the order of w" in report


def test_weight_of_one_coordinator(tmp_path: Path) -> None:
    """A coordinator by itself takes the trainer's own weight, a trade-off refuses to have two."""
    summary = run(
        tmp_path, "+experiment=cost_tradeoff", "method=[single,random,coordinator]", "trainer.cost_weight=0.01"
    )
    assert "weight" not in summary["choices"]["coordinator"]
    done = played("trinity.run", *POOL, "+experiment=cost_tradeoff", "trainer.cost_weight=0.01", cwd=tmp_path)
    assert done.returncode == 2
    assert "trainer.cost_weight=0.01: coordinator is trained for weights of its own" in done.stderr
