"""MATH-500: competition problems with answers in LaTeX."""

from __future__ import annotations

import re
from typing import Any, Unpack

from evals.graders.algebra.answer import boxes
from evals.tasks.base import item_id
from evals.tasks.benchmark import BenchmarkSettings
from evals.tasks.hub import Row, Source
from evals.tasks.mathematical import MathematicalTask
from trinity.errors import ConfigError
from trinity.types import Item

TRAIN_REPOS: dict[str, tuple[str, ...] | None] = {
    "DigitalLearningGmbH/MATH-lighteval": None,
    "EleutherAI/hendrycks_math": (
        *("algebra", "counting_and_probability", "geometry", "intermediate_algebra", "number_theory", "prealgebra"),
        "precalculus",
    ),
}
"""Data sets with the 7,500 training problems of MATH -> their configurations."""


class Math500(MathematicalTask):
    """MATH-500 (Lightman et al., arXiv 2305.20050): 500 problems of MATH (Hendrycks et al., arXiv 2103.03874).

    Difficulty is the level from 1 to 5 that AoPS's editors gave, the domain is the subject. The hub has one split of
    500 rows; all three splits are cut from it by `data_seed` unless `train_repo` names a data set of MATH's own
    training problems for training and validation items.

    Args:
        train_repo: one of `TRAIN_REPOS`; None = the 500.
        settings: see `BenchmarkSettings`; with `train_repo`, `path` is a folder with `train.*` and `test.*`.

    Raises:
        ConfigError: `train_repo` is none that is known.
    """

    name = "math500"
    repo = "HuggingFaceH4/MATH-500"
    columns = ("problem", "solution")
    optional = ("answer", "subject", "level", "type", "unique_id")
    licence = "MIT"
    citation = "Lightman et al. 2023, Let's Verify Step by Step, arXiv 2305.20050; Hendrycks et al. 2021, Measuring \
Mathematical Problem Solving With the MATH Dataset, arXiv 2103.03874"

    def __init__(self, *, train_repo: str | None = None, **settings: Unpack[BenchmarkSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        if train_repo is not None and train_repo not in TRAIN_REPOS:
            raise ConfigError(
                f"tasks.math500.train_repo is {str(train_repo)[:100]!r}; give one of {', '.join(TRAIN_REPOS)}, or null"
            )
        self.train_repo = train_repo
        if train_repo is not None:
            self.hub_splits = {"train": "train", "val": "train", "test": "test"}

    def source_of(self, there: str) -> Source:
        """MATH-500 for `test`, the training problems for `train`."""
        if self.train_repo is None or there == "test":
            return self.source
        return Source(self.name, self.train_repo, TRAIN_REPOS[self.train_repo], None, self.path)

    def item(self, row: Row) -> Item:
        """A problem; the answer is the row's, else what its solution puts into a box."""
        prompt, solution = row.text("problem"), row.text("solution")
        target = row.text("answer", "") or _boxed(solution)
        if not target:
            raise row.wrong("solution", r"a solution with an answer in \boxed{}")
        level = re.search("[0-9]", row.text("level", ""))
        meta: dict[str, Any] = {"solution": solution, "unique_id": row.text("unique_id", "")}
        return Item(
            item_id(self.name, prompt), self.name, prompt, target, row.text("subject", row.text("type", "mathematics")),
            float(level[0]) if level else None, "human" if level else None, meta,
        )  # fmt: skip

    def solution(self, item: Item) -> str | None:
        """The worked solution of the data."""
        return str(item.meta["solution"])


def _boxed(solution: str) -> str:
    found = boxes(solution)
    return found[-1][2].strip() if found else ""
