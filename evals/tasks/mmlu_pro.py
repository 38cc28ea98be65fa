"""MMLU-Pro: harder questions of 14 fields, with up to ten options."""

from __future__ import annotations

from typing import Unpack

from evals.tasks.choice import ChoiceSettings, ChoiceTask, listed_options, right_place
from evals.tasks.hub import Row
from evals.tasks.options import one_of
from trinity.types import Item

_PADDING = "N/A"


class MMLUPro(ChoiceTask):
    """MMLU-Pro (Wang et al., arXiv 2406.01574): three to ten options; the domain is the category.

    The hub has `test` (12,032 rows) and `validation` (70 rows, the worked examples of the benchmark's own prompts). So
    validation and training items are by default cut from `test`, without overlap; with `train_split=validation` they
    come from those 70. `chance` is the mean over the test items, about 0.11: a question has 9.5 options on average.

    Args:
        train_split: where training and validation items come from: test or validation.
        settings: see `ChoiceSettings`; `n_test` None leaves no row of `test` for the other splits.

    Raises:
        ConfigError: an option has a value that there is not.
    """

    name = "mmlu_pro"
    repo = "TIGER-Lab/MMLU-Pro"
    columns = ("question", "options", "answer", "category")
    optional = ("answer_index", "question_id", "src")
    licence = "MIT"
    chance = 0.1
    citation = "Wang et al., MMLU-Pro: A More Robust and Challenging Benchmark, NeurIPS 2024, arXiv 2406.01574"

    def __init__(self, *, train_split: str = "test", **settings: Unpack[ChoiceSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        other = one_of(self.name, "train_split", train_split, ("test", "validation"))
        self.hub_splits = {"train": other, "val": other, "test": "test"}

    def options(self, row: Row) -> list[str]:
        """The options; copies of an early version fill them up to ten with `N/A`."""
        options = listed_options(row, "options")
        while options[-1] == _PADDING and len(options) > right_place(row, "answer", options) + 1:
            options.pop()
        return options

    def item(self, row: Row) -> Item:
        """A question of its category.

        Raises:
            DataError: letter and index of the right answer differ, or another column is broken.
        """
        options = self.options(row)
        right = right_place(row, "answer", options)
        if row.values.get("answer_index") is not None and right_place(row, "answer_index", options) != right:
            raise row.error(f"answer is {row.text('answer')}, but answer_index is {row.text('answer_index')}")
        meta = {column: row.text(column, "") for column in ("question_id", "src")}
        return self.choice_item(row, right, row.text("category"), meta)
