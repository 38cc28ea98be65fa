"""A public benchmark as a task: its rows, cut into splits, each row an item, its prompt a file."""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NotRequired, TypedDict, Unpack

from evals.tasks.base import SplitTask
from evals.tasks.hub import Row, Source, shuffled
from trinity.canonical import folded
from trinity.errors import ConfigError
from trinity.types import Item, Message, Split

REPEATED = "another row asks the same"
"""Why a row is left out that a task's own `identity` takes for another one."""

_SHOWN_ROWS = 3

_ORDER: tuple[Split, ...] = ("test", "val", "train")
"""Test items are chosen first, so that they stay where they are when the other sizes change."""

_BEFORE: Mapping[Split, str] = {
    "test": "",
    "val": ", or n_test, which is drawn before",
    "train": ", or n_test and n_val, which are drawn before",
}


@cache
def prompt_text(name: str, kind: type | None = None) -> str:
    """Text of the file `prompts/NAME.txt`, without trailing white space.

    The folder is the one beside the module of `kind`, a task of whatever package, or of one that it derives from, the
    nearest first; without a kind, the one beside this module.

    Raises:
        ConfigError: there is no such file.
    """
    modules = [sys.modules[other.__module__] for other in (kind.__mro__ if kind else (Benchmark,))]
    places = [
        Path(file).parent / "prompts" / f"{name}.txt"
        for module in modules
        if (file := getattr(module, "__file__", None))
    ]
    for place in places:
        if place.is_file():
            return place.read_text("utf-8").rstrip()
    raise ConfigError(f"there is no prompt {places[0]}; write one, with {{question}} where the question is to stand")


def filled(prompt: str, **parts: str) -> str:
    """The prompt with each `{name}` replaced by its part; a part's own braces stay what they are."""
    if missing := [name for name in parts if f"{{{name}}}" not in prompt]:
        raise ConfigError(f"the prompt has no {{{missing[0]}}}: {prompt[:60]!r}")
    return re.sub(r"\{(\w+)\}", lambda found: parts.get(found[1], found[0]), prompt)


class BenchmarkSettings(TypedDict):
    """Settings of every benchmark.

    Attributes:
        data_seed: chooses the items and cuts the splits.
        n_train: items of the training split.
        n_val: items of the validation split.
        n_test: items of the test split; None = all that there are.
        path: a local copy of the rows (see `hub.Source`).
        revision: commit or tag on the hub; None = the newest.
    """

    data_seed: int
    n_train: int
    n_val: int
    n_test: int | None
    path: NotRequired[str | Path | None]
    revision: NotRequired[str | None]


class Benchmark(SplitTask):
    """A task on the rows of a public benchmark.

    A split's items are drawn from the rows that `hub_splits` names for it, in an order that `data_seed` and the rows'
    content alone give: test first, then validation, then training, none twice. Where all three name the same rows,
    they are cut from them without overlap.

    A row that `unusable` gives a reason for becomes no item, nor does the second of two that `identity` takes for the
    same; `left_out` counts them by the split there and the reason, `left_out_rows` says where the first of them stand.
    The prompt is the file `prompts/NAME.txt` beside the task's module, in which `{question}` stands for the item's
    prompt.

    Args:
        settings: see `BenchmarkSettings`.

    Attributes:
        repo: `owner/name` on the hub, or a URL where the rows are on no hub.
        config: configuration there (see `hub.Source`).
        files: split there -> files there (see `hub.Source`).
        hub_splits: split -> the split there that its items are drawn from.
        columns: what a row must have.
        optional: what is read besides where it is there.
        citation: of the benchmark.
        judged: grading asks a model.
    """

    repo: ClassVar[str]
    config: str | tuple[str, ...] | None = None
    files: Mapping[str, tuple[str, ...]] = {}
    hub_splits: Mapping[Split, str] = {"train": "test", "val": "test", "test": "test"}
    columns: tuple[str, ...]
    optional: tuple[str, ...] = ()
    citation: ClassVar[str]
    prompt_file: str | None = None

    def __init__(self, **settings: Unpack[BenchmarkSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        n_test = settings["n_test"]
        super().__init__(
            data_seed=settings["data_seed"],
            n_train=settings["n_train"],
            n_val=settings["n_val"],
            n_test=0 if n_test is None else n_test,
        )
        self._all = n_test is None
        self.path, self.revision = settings.get("path"), settings.get("revision")
        self.left_out: dict[str, dict[str, int]] = {}
        self.left_out_rows: dict[str, dict[str, str]] = {}
        self._n_read: dict[str, int] = {}
        self._origins: dict[str, Row] = {}
        self._rows: dict[Split, list[Row]] = {}

    @property
    def source(self) -> Source:
        """Where the rows are; a property, so that a task's own settings may shape it."""
        return Source(self.name, self.repo, self.config, self.revision, self.path, self.files)

    def source_of(self, there: str) -> Source:
        """Where the rows of a split there are; a task whose training rows are in another data set names it here."""
        return self.source

    @abstractmethod
    def item(self, row: Row) -> Item:
        """The row as an item.

        Raises:
            DataError: it is broken; names the place.
        """

    def identity(self, row: Row) -> str:
        """What makes two rows the same question: the folded text of the first column, unless a task says otherwise.

        Where the first column is a number or a name, two questions under one name would count as one.
        """
        return folded(row.text(self.columns[0]))

    def unusable(self, row: Row) -> str | None:
        """Why the row can be no item, in a few words; None = it can."""
        return None

    def kept(self, row: Row) -> Row:
        """The row as it is held until it becomes an item; a task whose rows are large puts parts of them elsewhere."""
        return row

    async def ready(self) -> None:
        """Nothing has to be prepared before items are graded; a task that grades in a sandbox prepares it here."""

    def facts(self) -> dict[str, Any]:
        """What the manifest keeps of where the items come from; known once items were loaded."""
        left_out = {there: reasons for there, reasons in self.left_out.items() if reasons}
        told = {"left_out": left_out, "left_out_rows": self.left_out_rows}
        return {"citation": self.citation, "repo": self.repo, "revision": self.revision, **told}

    async def close(self) -> None:
        """Nothing is held; a task that holds a sandbox ends it here."""

    def open(self, item: Item) -> list[Message]:
        """One user message: the prompt file with the question in it."""
        text = filled(prompt_text(self.prompt_file or self.name, type(self)), question=item.prompt)
        return [{"role": "user", "content": text}]

    def load(self, split: Split) -> tuple[Item, ...]:
        """The split's items.

        Raises:
            DataError: the rows can not be read, one of them is broken, or two become the same item.
            ConfigError: there are fewer usable rows than asked for.
        """
        if not self._rows:
            self._rows = self._cut()
        return tuple(map(self._made, self._rows[split]))

    def _made(self, row: Row) -> Item:
        item = row.made(self.item)
        other = self._origins.setdefault(item.item_id, row)
        if other is not row:
            raise row.error(
                f"becomes the item {item.item_id}, as row {other.index} does, though {self._decider or 'identity()'} "
                "tells them apart; take one of them out"
            )
        return item

    def _cut(self) -> dict[Split, list[Row]]:
        """The rows of each split."""
        taken: set[str] = set()
        cut: dict[Split, list[Row]] = {}
        for split in _ORDER:
            cut[split] = self._drawn(split, taken) if self.sizes[split] or (split == "test" and self._all) else []
            taken |= {self.identity(row) for row in cut[split]}
        return cut

    def _drawn(self, split: Split, taken: set[str]) -> list[Row]:
        limit = None if split == "test" and self._all else self.sizes[split]
        there = self.hub_splits[split]
        # One order for all splits of the same rows, and another for other rows.
        seed = f"{self.name}/{self.data_seed}/{there}"
        rows = shuffled(self._usable(there, taken), seed, self.identity, limit, self.kept)
        if limit is not None and len(rows) < limit:
            raise ConfigError(
                f"task {self.name}: {limit} {split} items asked for, {len(rows)} rows are left for them "
                f"{self._of_all(there)}; lower n_{split}{_BEFORE[split]}"
            )
        return rows

    def _of_all(self, there: str) -> str:
        """How many rows were read, and how many of them became no items and why."""
        where = self.left_out_rows[there]
        told = [f"{self._n_read[there]} read"]
        for reason, number in self.left_out[there].items():
            told.append(f"{number} left out ({reason}{f': {where[reason]}' if reason in where else ''})")
        return f"of {', '.join(told)}"

    def _usable(self, there: str, taken: set[str]) -> Iterator[Row]:
        """Rows that can be items and are none yet, repeated ones too: which of them counts is not a matter of order."""
        left_out = _LeftOut()
        seen: dict[str, int] = {}
        number = 0
        for number, row in enumerate(self.source_of(there).rows(there, self.columns, self.optional), start=1):
            if reason := row.made(self.unusable):
                left_out.add(reason, str(number))
            elif (identity := row.made(self.identity)) not in taken:
                first = seen.setdefault(identity, number)
                if first != number:
                    left_out.add(self._repeated, f"{first} and {number}")
                yield row
        # The first reading is the one that knows of all: later ones pass over what was drawn.
        if there not in self.left_out:
            self._n_read[there], self.left_out[there] = number, dict(left_out.counts)
            self.left_out_rows[there] = left_out.where()

    @property
    def _repeated(self) -> str:
        """Why the second of two rows is left out."""
        return REPEATED if self._decider is None else f"another row has the same {self._decider}"

    @property
    def _decider(self) -> str | None:
        """The column that says whether two rows are the same question; None where the task has an own `identity`."""
        return self.columns[0] if type(self).identity is Benchmark.identity else None


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """How many rows were left out for each reason, and the first places of such rows, counted from 1."""

    counts: Counter[str] = field(default_factory=Counter)
    places: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, reason: str, place: str) -> None:
        """Enter one row."""
        self.counts[reason] += 1
        if self.counts[reason] <= _SHOWN_ROWS:
            self.places[reason].append(place)

    def where(self) -> dict[str, str]:
        """For each reason, where its first rows stand."""
        told = {}
        for reason, places in self.places.items():
            row = "row" if places[0].isdecimal() and len(places) == 1 else "rows"
            told[reason] = f"{row} {', '.join(places)}{', ...' if self.counts[reason] > _SHOWN_ROWS else ''}"
        return told
