"""A public benchmark as a task: its rows, cut into splits, each row an item, its prompt a file."""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NotRequired, TypedDict, Unpack

from evals.tasks.base import SplitTask
from evals.tasks.hub import Row, Source, shuffled
from trinity.canonical import folded
from trinity.errors import ConfigError
from trinity.types import Item, Message, Split

REPEATED = "another row asks the same"
"""Why a row is left out whose question is an item already."""

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

    A row that `unusable` gives a reason for becomes no item; `left_out` counts them by the split there and the reason.
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
        """What makes two rows the same question: the folded text of the first column, unless a task says otherwise."""
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
        return {"citation": self.citation, "repo": self.repo, "revision": self.revision, "left_out": left_out}

    async def close(self) -> None:
        """Nothing is held; a task that holds a sandbox ends it here."""

    def open(self, item: Item) -> list[Message]:
        """One user message: the prompt file with the question in it."""
        text = filled(prompt_text(self.prompt_file or self.name, type(self)), question=item.prompt)
        return [{"role": "user", "content": text}]

    def load(self, split: Split) -> tuple[Item, ...]:
        """The split's items.

        Raises:
            DataError: the rows can not be read, or one of them is broken.
            ConfigError: there are fewer usable rows than asked for.
        """
        if not self._rows:
            self._rows = self._cut()
        return tuple(row.made(self.item) for row in self._rows[split])

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
                f"task {self.name}: {limit} {split} items asked for, {len(rows)} rows are left for them; lower "
                f"n_{split}{_BEFORE[split]}"
            )
        return rows

    def _usable(self, there: str, taken: set[str]) -> Iterator[Row]:
        """Rows that can be items and are none yet, repeated ones too: which of them counts is not a matter of order."""
        reasons: Counter[str] = Counter()
        seen: set[str] = set()
        for row in self.source_of(there).rows(there, self.columns, self.optional):
            if reason := row.made(self.unusable):
                reasons[reason] += 1
            elif (identity := row.made(self.identity)) not in taken:
                reasons[REPEATED] += identity in seen
                seen.add(identity)
                yield row
        # The first reading is the one that knows of all: later ones pass over what was drawn.
        self.left_out.setdefault(there, dict(+reasons))
