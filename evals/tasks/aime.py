"""AIME: the thirty problems of a year's American Invitational Mathematics Examination, answers from 0 to 999."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Unpack

from evals.tasks.base import item_id
from evals.tasks.benchmark import BenchmarkSettings
from evals.tasks.hub import Row, Source
from evals.tasks.mathematical import MathematicalTask
from trinity.canonical import folded
from trinity.errors import ConfigError
from trinity.types import Item, Redistribute


class Copy(NamedTuple):
    """A data set on the hub with the problems of a year: its configurations and its split."""

    config: str | tuple[str, ...] | None
    split: str


COPIES: dict[int, dict[str, Copy]] = {
    2024: {"HuggingFaceH4/aime_2024": Copy(None, "train"), "Maxwell-Jia/AIME_2024": Copy(None, "train")},
    2025: {
        "opencompass/AIME2025": Copy(("AIME2025-I", "AIME2025-II"), "test"),
        "math-ai/aime25": Copy(None, "test"),
        "yentinglin/aime_2025": Copy(None, "train"),
    },
}
"""Year -> data sets; the first is read unless another is named."""
_PROBLEM = ("problem", "question", "Problem")
_ANSWER = ("answer", "Answer")
_SOLUTION = ("solution", "Solution")
_IDS = ("ID", "id", "url")
_MOST = 999
_PENTAGON = ("convex pentagon", ("14", "7", "24", "13", "26", "60"))
"""Problem 14 of paper I of 2025, whose lengths and angles got lost in some copies."""


class AIME(MathematicalTask):
    """AIME 2024 or 2025; difficulty is the problem's number (1 to 15) where the copy tells it.

    A paper's problems grow harder with their number, by its makers' judgement. Copies on the hub spell their columns
    in different ways and all are read: the problem as problem, question or Problem, the answer as answer or Answer.
    The texts belong to the MAA, so they stay in the run's folder. A problem whose text is known to be damaged in some
    copies is looked at, and `facts` names it where it is; it stays an item.

    Args:
        year: 2024 or 2025.
        repo: another copy on the hub, one of `COPIES[year]`; None = the first.
        settings: see `BenchmarkSettings`.

    Raises:
        ConfigError: there is no such year or copy.
    """

    name = "aime"
    repo = "HuggingFaceH4/aime_2024"
    columns = ()
    optional = (*_PROBLEM, *_ANSWER, *_SOLUTION, *_IDS)
    licence = "problem texts are the MAA's"
    redistribute: Redistribute = "ids-only"
    citation = "Mathematical Association of America, American Invitational Mathematics Examination 2024 and 2025"

    def __init__(self, *, year: int = 2025, repo: str | None = None, **settings: Unpack[BenchmarkSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        if year not in COPIES:
            raise ConfigError(f"tasks.aime.year is {str(year)[:40]!r}; give {' or '.join(map(str, COPIES))}")
        chosen = next(iter(COPIES[year])) if repo is None else repo
        if chosen not in COPIES[year]:
            raise ConfigError(f"tasks.aime.repo is {str(repo)[:100]!r}; of {year} there are {', '.join(COPIES[year])}")
        self.year, self.chosen = year, chosen
        split = COPIES[year][chosen].split
        self.hub_splits = {"train": split, "val": split, "test": split}
        self.damaged: set[str] = set()

    @property
    def source(self) -> Source:
        """The chosen copy."""
        config = COPIES[self.year][self.chosen].config
        return Source(self.name, self.chosen, config, self.revision, self.path)

    def identity(self, row: Row) -> str:
        """The problem's text."""
        return folded(_text(row, _PROBLEM))

    def item(self, row: Row) -> Item:
        """A problem; its domain is the year."""
        prompt, answer = _text(row, _PROBLEM), _text(row, _ANSWER)
        digits = re.fullmatch(r"0{0,2}([0-9]{1,3})(?:\.0)?", answer)
        if digits is None or int(digits[1]) > _MOST:
            raise row.error(f"the answer is {answer[:40]!r}, not a whole number from 0 to {_MOST}")
        made = item_id(self.name, prompt)
        if _is_damaged(prompt):
            self.damaged.add(made)
        number = _number(row, from_place=self.path is None and isinstance(self.source.config, tuple))
        return Item(
            made, self.name, prompt, str(int(digits[1])), f"aime {self.year}", number,
            None if number is None else "constructed", {"year": self.year},
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """Where items come from, and which of them have a damaged text."""
        return {**super().facts(), "repo": self.chosen, "damaged_texts": sorted(self.damaged)}


def _text(row: Row, names: tuple[str, ...]) -> str:
    for name in names:
        if name in row.values:
            return row.text(name)
    found = ", ".join(row.values) or "none of the columns of AIME"
    raise row.error(f"has no column {names[0]} (or {', '.join(names[1:])}); found {found}")


def _number(row: Row, *, from_place: bool) -> float | None:
    """The problem's number in its paper, from an id as `2024-II-4`, an address, or its place in the paper's file."""
    for column in _IDS:
        found = re.search(r"(?:Problem_|-I{1,2}-)([0-9]{1,2})$", row.text(column, ""))
        if found:
            return float(found[1])
    return float(row.index) if from_place else None


def _is_damaged(prompt: str) -> bool:
    phrase, numbers = _PENTAGON
    found = set(re.findall("[0-9]+", prompt))
    return phrase in folded(prompt) and not found.issuperset(numbers)
