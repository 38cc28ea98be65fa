"""What the benchmarks of multiple-choice questions share: options, their letters, and a check of their texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean
from string import ascii_uppercase
from typing import Any, NotRequired, Unpack

from evals.graders.letter import VERSION, read_letter
from evals.tasks.base import item_id
from evals.tasks.benchmark import Benchmark, BenchmarkSettings
from evals.tasks.hub import Row
from trinity.canonical import folded
from trinity.errors import ConfigError
from trinity.types import Item, Split

_NOT_ASCII = re.compile(r"[^\x00-\x7f]{2,}")
_REFERS = re.compile(r"\b(?:[Aa]bove|[Bb]elow|[Bb]oth|[Nn]either|(?:[Aa]ll|[Nn]one) of|[A-J],? (?:and|or|&) [A-J])\b")


class ChoiceSettings(BenchmarkSettings):
    """Settings of every multiple-choice task.

    Attributes:
        shuffle_options: see `ChoiceTask`.
    """

    shuffle_options: NotRequired[bool]


class ChoiceTask(Benchmark):
    """A task on questions with options, of which one is right; the answer is its letter.

    Two rows are the same question when their texts and, in any order, their options are; it is one item then. `chance`
    is the mean of one over the number of options, over the test items, once they were loaded. Texts that look as if
    UTF-8 had been read as Latin-1 are asked as they are. `facts` counts both.

    Args:
        shuffle_options: in an order that `data_seed` and the question give, instead of the data's; options that speak
            of others (`all of the above`, `both A and B`) keep their question's in the data's order.
        settings: see `BenchmarkSettings`.

    Attributes:
        question_column: what is asked.
        options_column: the list of options.
        data_order: the data's own order of options means nothing about which is right.
    """

    grader = VERSION
    chance = 0.25
    prompt_file = "choice"
    question_column: str = "question"
    options_column: str = "choices"
    data_order: bool = True

    def __init__(self, *, shuffle_options: bool = False, **settings: Unpack[BenchmarkSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        if not isinstance(shuffle_options, bool):
            raise ConfigError(f"tasks.{self.name}.shuffle_options is {shuffle_options!r}; give true or false")
        self.shuffle_options = shuffle_options
        self._misread: set[str] = set()

    def question(self, row: Row) -> str:
        """What is asked, without the options."""
        return row.text(self.question_column)

    def options(self, row: Row) -> list[str]:
        """The options in the data's order."""
        return listed_options(row, self.options_column)

    def identity(self, row: Row) -> str:
        """The folded question and options."""
        return "\n".join((folded(self.question(row)), *sorted(map(folded, self.options(row)))))

    def load(self, split: Split) -> tuple[Item, ...]:
        """The split's items; those of the test split say how often a guess is right."""
        items = super().load(split)
        options = [len(item.meta["options"]) for item in items if "options" in item.meta]
        if split == "test" and options:
            self.chance = fmean(1 / count for count in options)
        return items

    def facts(self) -> dict[str, Any]:
        """Also how many items have a misread text."""
        return {**super().facts(), "misread_texts": len(self._misread)}

    def key(self, item: Item, text: str) -> str | None:
        """The letter of the chosen option."""
        return read_letter(text, item.meta["options"])

    def choice_item(
        self, row: Row, right: int, domain: str, meta: Mapping[str, Any], size: float | None = None
    ) -> Item:
        """The row as an item whose `right`-th option, counted from 0, is right; `size` is a constructed difficulty."""
        question, options = self.question(row), self.options(row)
        plain = rendered(question, options)
        order = self._order(plain, options)
        shown = [options[place] for place in order]
        identifier = item_id(self.name, plain)
        if is_misread(plain):
            self._misread.add(identifier)
        return Item(
            identifier, self.name, rendered(question, shown), ascii_uppercase[order.index(right)], domain, size,
            None if size is None else "constructed", {**meta, "options": shown},
        )  # fmt: skip

    def _order(self, plain: str, options: Sequence[str]) -> list[int]:
        places = list(range(len(options)))
        if not self.shuffle_options or (self.data_order and any(map(_REFERS.search, options))):
            return places
        # The seed holds the question, so that the right letters of two questions have nothing to do with each other.
        Random(f"{self.name}/{self.data_seed}/options/{folded(plain)}").shuffle(places)
        return places


def rendered(question: str, options: Sequence[str]) -> str:
    """The question, and each option on a line with its letter."""
    lines = (f"{letter}) {option}" for letter, option in zip(ascii_uppercase, options, strict=False))
    return "\n".join((question, "", *lines))


def listed_options(row: Row, column: str) -> list[str]:
    """The options that a column lists; in a CSV file as a JSON list.

    Raises:
        DataError: it holds no list of 2 to 26 texts.
    """
    value = row.values.get(column)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    texts = isinstance(value, list) and all(isinstance(option, (str, int, float)) for option in value)
    if not isinstance(value, list) or not texts or not 2 <= len(value) <= len(ascii_uppercase):  # noqa: PLR2004
        raise row.wrong(column, "a list of 2 to 26 options")
    return [str(option).strip() for option in value]


def place_of(value: object, count: int) -> int | None:
    """The place from 0 that an index (`2`, `2.0`) or a letter (`C`) names among `count` options; None = none."""
    text = str(value).strip().removesuffix(".0")
    if re.fullmatch(r"[A-Za-z]", text):
        place = ascii_uppercase.index(text.upper())
    elif re.fullmatch(r"[0-9]{1,3}", text):
        place = int(text)
    else:
        return None
    return place if place < count else None


def right_place(row: Row, column: str, options: Sequence[str]) -> int:
    """The place of the right option.

    Raises:
        DataError: the column names none of the options.
    """
    place = place_of(row.values.get(column), len(options))
    if place is None:
        raise row.wrong(column, f"the index or letter of one of {len(options)} options")
    return place


def is_misread(text: str) -> bool:
    """Whether a part of `text` looks like UTF-8 that was read as Latin-1 or Windows-1252 (`donâ€™t`)."""
    return any(_decodes(part[0]) for part in _NOT_ASCII.finditer(text))


def _decodes(part: str) -> bool:
    try:
        # Windows-1252 leaves five bytes undefined, which readers keep as they are in Latin-1.
        raw = b"".join(char.encode("latin-1" if ord(char) < 256 else "cp1252") for char in part)  # noqa: PLR2004
        raw.decode("utf-8")
    except UnicodeError:
        return False
    return True
