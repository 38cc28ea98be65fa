"""The table of `docs/tasks.md` has every benchmark that there is, and says of each what its class says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evals.check import composed, sized
from trinity.config import group_options

DOCUMENT = Path(__file__).parents[3] / "docs" / "tasks.md"
OWN = {"everyday", "python_values", "word_problems", "scripted", "study"}
LEAVES = {"all": "yes", "ids": "ids-only", "nothing but scores": "never"}
TABLE = {
    cells[0].strip("`"): cells
    for line in DOCUMENT.read_text("utf-8").partition("## Checked how")[0].splitlines()
    if re.match(r"\| `", line) and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 8
}


def test_every_benchmark_has_a_row() -> None:
    """What `task=` offers besides our own tasks stands in the table, and nothing else does."""
    assert TABLE.keys() == set(group_options("task")) - OWN


@pytest.mark.parametrize("name", TABLE)
def test_a_row_says_what_the_task_says(name: str) -> None:
    """Where its rows are and what of them may leave a run's folder is told as the code has it."""
    words = [f"task={name}", *(["tasks.aime.year=2024"] if name == "aime" else [])]
    task = sized(composed(words), name, words)
    assert LEAVES[TABLE[name][7]] == task.redistribute
    repo = getattr(task, "repo", None) or task.source.repo  # type: ignore[attr-defined]  # not of every task
    earlier = " ".join(cells[1] for cells in TABLE.values())
    assert repo.removeprefix("https://") in (earlier if TABLE[name][1].startswith("the same") else TABLE[name][1])
