"""One difference has one interval, whichever table of whichever report it stands in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.comparison.choice import Request
from evals.comparison.compare import compare
from evals.report.analysis import build_analysis
from evals.stats.study import COLUMNS, studies
from tests.evals.comparison.comparing import Scores, episodes, write_run
from tests.evals.report.support import summarise
from trinity.runs.records import columns_of
from trinity.types import Record

TASKS = {"sums": 60, "words": 33}


def hardness(item: str) -> float | None:
    """Difficulty of an item by its number; every eleventh has none."""
    number = int(item[1:])
    return None if number % 11 == 0 else float(number * 7 % 60)


def drawn(task: str, seed: int, replicates: int, *, partial: bool) -> Scores:
    """Scores of some replicates of each item of a task, harder ones lower; a tenth was not graded."""
    generator = np.random.default_rng(seed)
    scores = {}
    for number in range(TASKS[task]):
        draws = generator.random(replicates) + (0.3 if number < 20 else 0.0)
        known = generator.random() > 0.1
        scores[f"i{number}"] = [
            (min(1.0, float(draw)) if partial else float(draw > 0.5)) if known else None for draw in draws
        ]
    return scores


def played(*, partial: bool) -> list[Record]:
    """A coordinator with three replicates, the best single agent, another agent, and an oracle that is always right."""
    rows = []
    for place, task in enumerate(TASKS):
        facts: dict[str, Any] = {"task": task, "difficulty": hardness, "difficulty_kind": "human"}
        best = drawn(task, place, 1, partial=partial)
        rows += episodes(drawn(task, 10 + place, 3, partial=partial), **facts)
        rows += episodes(best, "best_single", "small", **facts) + episodes(best, "single", "small", **facts)
        rows += episodes(drawn(task, 20 + place, 1, partial=partial), "single", "large", **facts)
        rows += episodes({item: [1.0] for item in best}, "oracle", "", **facts)
    return rows


@pytest.mark.parametrize("partial", [False, True])
def test_a_difference_has_one_interval(tmp_path: Path, partial: bool) -> None:
    """Table, analysis and comparison of one run agree on every task, with ungraded items and unknown difficulties."""
    records = played(partial=partial)
    own = {(row["method"], row["task"]): row for row in summarise(records)["rows"] if row["method"] == "coordinator"}
    (study, *others) = studies(columns_of(records, COLUMNS), {"small": "s", "large": "l"})
    tasks = build_analysis([study, *others], reference="best_single", models=False)["tasks"]
    found = compare([write_run(tmp_path / "A", records)], Request())["comparisons"]
    assert [row["task"] for row in found] == ["all", "sums", "words"]
    for row in found:
        table = own["coordinator", row["task"]]
        ours = [row[key] for key in ("difference", "ci_low", "ci_high", "p", "n_paired")]
        assert ours[1] < ours[0] < ours[2]
        assert [table[key] for key in ("diff", "diff_low", "diff_high", "p", "n_paired")] == pytest.approx(
            ours, abs=1e-13
        )
        if row["task"] != "all":
            (cell,) = [one for one in tasks[row["task"]]["interaction"] if one["method"].startswith("coordinator")]
            theirs = [cell[key] for key in ("difference", "ci_low", "ci_high", "p", "n_items")]
            assert theirs == pytest.approx(ours, abs=1e-13)
            assert (cell["wins"], cell["losses"], cell["test"]) == (row["wins"], row["losses"], row["test"])


def test_the_row_over_all_tasks_keeps_their_sizes(tmp_path: Path) -> None:
    """A gain on one task alone is no more uncertain for lying beside a task without one: tasks are strata."""
    rows = []
    for task, size in TASKS.items():
        gained: Scores = {f"i{number}": [float(task == "sums" and number % 6 > 0)] for number in range(size)}
        rows += episodes(gained, task=task) + episodes(
            {item: [0.0] for item in gained}, "best_single", "small", task=task
        )
    (row, *_) = compare([write_run(tmp_path / "A", rows)], Request())["comparisons"]
    assert row["difference"] == pytest.approx(50 / 93)
    # 60 items of which 50 gain, 33 that never do.
    half = 1.96 * np.sqrt(60 * (5 / 6) * (1 / 6)) / 93
    assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * half, rel=0.1)
