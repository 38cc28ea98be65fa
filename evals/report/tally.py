"""One pass over batches of records into small sums per table row and item, whatever order the records come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evals.stats.axes import AXES
from evals.stats.exact import ExactSum, Grid, Names, ShareGrid, means_of
from trinity.errors import LedgerError
from trinity.runs.records import Columns
from trinity.types import UNGRADED

SUMMED: Mapping[str, str] = {
    **{f"{axis.column}_mean": axis.column for axis in AXES},
    "calls_mean": "n_calls",
    "turns_mean": "n_turns",
    "encoder_tokens_mean": "encoder_tokens",
}
"""Key of a summary row -> the record's column that it is the mean of."""

COMMON = ("run_id", "pool_kind", "pool", "experiment")
"""Columns that are equal in all records of a table."""

COLUMNS = (
    *COMMON, "method", "variant", "backbone", "task", "split", "item_id", "difficulty", "replicate_index", "seed",
    "status", "score", "capped", "usage_estimated", *SUMMED.values(),
)  # fmt: skip
"""The columns that a batch has to have."""

RowKey = tuple[str, str]
"""Method and variant."""

ItemKey = tuple[str, str]
"""Task and item id."""

_WORD = 64
"""Replicates of a cell that one number remembers, a bit each."""


@dataclass(slots=True)
class Sums:
    """What one row knows of some episodes together: sums over the graded ones, counts over all."""

    sums: dict[str, ExactSum] = field(default_factory=lambda: {key: ExactSum() for key in SUMMED})
    statuses: Counter[str] = field(default_factory=Counter)
    graded: int = 0
    capped: int = 0
    estimated: int = 0

    def add(self, batch: Columns, places: NDArray[np.intp], graded: NDArray[np.bool_]) -> None:
        """Enter the episodes at `places` of a batch, of which some are graded."""
        self.statuses.update(batch["status"][places].tolist())
        self.capped += int(batch["capped"][places].sum())
        self.estimated += int(batch["usage_estimated"][places].sum())
        self.graded += int(graded.sum())
        for key, column in SUMMED.items():
            self.sums[key].add(batch[column][places[graded]])

    def merge(self, other: Sums) -> None:
        """Enter everything of other episodes."""
        self.statuses.update(other.statuses)
        self.graded += other.graded
        self.capped += other.capped
        self.estimated += other.estimated
        for key, total in other.sums.items():
            self.sums[key].merge(total)

    def mean(self, key: str) -> float | None:
        """Mean over graded episodes of a summed column; None when unknown for one of them, or without any."""
        total = self.sums[key].total
        return total / self.graded if self.graded and total is not None else None


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one row knows of n items.

    Attributes:
        scores: shape (n,), the sum of an item's graded scores, correctly rounded.
        graded: shape (n,), how many these are.
        episodes: shape (n,), its replicates, graded or not; 0 where the row was never asked.
        sums: of its episodes together.
    """

    scores: NDArray[np.float64]
    graded: NDArray[np.int32]
    episodes: NDArray[np.int32]
    sums: Sums

    def on(self, items: slice, sums: Sums) -> Part:
        """The same for some of the items."""
        return Part(self.scores[items], self.graded[items], self.episodes[items], sums)

    @property
    def means(self) -> NDArray[np.float64]:
        """Shape (n,), mean score of an item's graded replicates; NaN where there are none."""
        return means_of(self.scores, self.graded)

    @property
    def replicates(self) -> int:
        """The largest number of replicates of an item, graded or not."""
        return int(self.episodes.max(initial=0))

    @property
    def graded_replicates(self) -> int:
        """The largest number of graded replicates of an item."""
        return int(self.graded.max(initial=0))


@dataclass(frozen=True, slots=True)
class RowTally:
    """What one row knows of all items, and of those of each task that it was asked.

    `backbone` is what all its records call it, None where they differ.
    """

    whole: Part
    tasks: Mapping[str, Part]
    backbone: str | None


@dataclass(frozen=True, slots=True)
class Tallies:
    """The tally of each row, and what all records have in common. Items are ordered by task and id.

    Attributes:
        rows: by method and variant.
        items: task to the places of its items among all.
        difficulty: of each item, shape (n_items,), NaN where no record tells.
        common: the columns that are equal in all records, by name.
    """

    rows: Mapping[RowKey, RowTally]
    items: Mapping[str, slice]
    difficulty: NDArray[np.float64]
    common: Mapping[str, str]


class Tallying:
    """Tallies while records come in: numbers per row and item, sums per row and task."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._rows: Names[RowKey] = Names()
        self._items: Names[ItemKey] = Names()
        self._tasks: Names[str] = Names()
        self._common: dict[str, str] = {}
        self._sums: dict[tuple[int, str], Sums] = {}
        self._backbones: dict[int, set[str]] = {}
        self._episodes = Grid(self._rows, self._items, np.int32)
        self._graded = Grid(self._rows, self._items, np.int32)
        self._scores = ShareGrid(self._rows, self._items)
        self._difficulty: NDArray[np.float64] = np.empty(0)
        self._seen: dict[tuple[int, int], Grid] = {}

    def add(self, batch: Columns) -> None:
        """Enter episodes of the test split, at least one."""
        self._check_common(batch)
        row = self._rows.codes(zip(batch["method"].tolist(), batch["variant"].tolist(), strict=True))
        item = self._items.codes(zip(batch["task"].tolist(), batch["item_id"].tolist(), strict=True))
        self._check_new(batch, row, item)
        for place, backbone in set(zip(row.tolist(), batch["backbone"].tolist(), strict=True)):
            self._backbones.setdefault(place, set()).add(backbone)
        self._add_difficulty(batch, item)
        graded = _graded(batch)
        self._episodes.add(row, item, np.ones(row.shape))
        self._graded.add(row, item, graded)
        self._scores.add(row[graded], item[graded], batch["score"][graded])
        self._add_sums(batch, row, graded)

    def _check_common(self, batch: Columns) -> None:
        """LedgerError when records of a batch do not belong to those of before."""
        for name in COMMON:
            value = self._common.setdefault(name, batch[name][0])
            if (other := batch[name] != value).any():
                place = int(other.argmax())
                raise LedgerError(
                    f"{_place(batch, place)} has {name} {batch[name][place]!r}, other records {value!r}; "
                    "records of different runs or kinds of pool do not go into one table"
                )

    def _check_new(self, batch: Columns, row: NDArray[np.intp], item: NDArray[np.intp]) -> None:
        """Remember the replicates of a batch; LedgerError when one was there before."""
        seed, index = batch["seed"], batch["replicate_index"]
        word, bit = index // _WORD, np.left_shift(np.uint64(1), (index % _WORD).astype(np.uint64))
        repeated = _repeated(row, item, seed, index)
        for key in sorted(set(zip(seed.tolist(), word.tolist(), strict=True))):
            here = np.flatnonzero((seed == key[0]) & (word == key[1]))
            seen = self._seen.setdefault(key, Grid(self._rows, self._items, np.uint64))
            repeated[here] |= (seen.at(row[here], item[here]) & bit[here]) != 0
            seen.add(row[here], item[here], bit[here])
        if repeated.any():
            place = _place(batch, int(repeated.argmax()))
            raise LedgerError(f"{place} is recorded twice; rebuild the run's records from its ledger")

    def _add_difficulty(self, batch: Columns, item: NDArray[np.intp]) -> None:
        """Remember what a batch tells of its items; LedgerError where that is not what others told."""
        if (missing := len(self._items) - self._difficulty.size) > 0:
            room = np.full(missing + len(self._items), np.nan)
            self._difficulty = np.concatenate([self._difficulty, room])
        told = np.flatnonzero(np.isfinite(batch["difficulty"]))
        place, value = item[told], batch["difficulty"][told]
        before = self._difficulty[place]
        self._difficulty[place] = np.where(np.isnan(before), value, before)
        if (other := self._difficulty[place] != value).any():
            record = int(told[other.argmax()])
            raise LedgerError(
                f"{_place(batch, record)} has difficulty {batch['difficulty'][record]}, another record of this item "
                "another one; rebuild the run's records from its ledger"
            )

    def _add_sums(self, batch: Columns, row: NDArray[np.intp], graded: NDArray[np.bool_]) -> None:
        """Enter a batch in the sums of its rows and tasks."""
        task = self._tasks.codes(batch["task"].tolist())
        group = row * len(self._tasks) + task
        for first in np.unique(group, return_index=True)[1]:
            places = np.flatnonzero(group == group[first])
            self._sums.setdefault((int(row[first]), batch["task"][first]), Sums()).add(batch, places, graded[places])

    def finished(self) -> Tallies:
        """What was tallied, by names and in their order."""
        names = sorted(self._items)
        order = self._items.codes(names)
        items: dict[str, slice] = {}
        for place, (task, _) in enumerate(names):
            items[task] = slice(items[task].start if task in items else place, place + 1)
        rows = {key: self._row(place, order, items) for key, place in self._rows.items()}
        return Tallies(rows, items, self._difficulty[order], self._common)

    def _row(self, row: int, order: NDArray[np.intp], items: Mapping[str, slice]) -> RowTally:
        """The tally of one row."""
        sums = {task: self._sums[row, task] for task in items if (row, task) in self._sums}
        total = Sums()
        for part in sums.values():
            total.merge(part)
        whole = Part(self._scores.at(row, order), self._graded.at(row, order), self._episodes.at(row, order), total)
        backbones = self._backbones[row]
        tasks = {task: whole.on(items[task], part) for task, part in sums.items()}
        return RowTally(whole, tasks, next(iter(backbones)) if len(backbones) == 1 else None)


def tally(batches: Iterable[Columns]) -> Tallies:
    """Sums over the records of the test split, however they are ordered and cut into batches.

    Args:
        batches: with `COLUMNS` at least. Read once.

    Raises:
        LedgerError: a record is there twice, is graded without a score in [0, 1], or belongs to another run.
    """
    tallying = Tallying()
    for batch in batches:
        test = batch["split"] == "test"
        if test.any():
            tallying.add({name: batch[name][test] for name in COLUMNS})
    return tallying.finished()


def _repeated(*columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether all columns of a place, shape (n,), are as at an earlier one."""
    order = np.lexsort(columns)
    equal = np.all([np.diff(column[order]) == 0 for column in columns], axis=0)
    repeated = np.zeros(order.shape, np.bool_)
    repeated[order[1:][equal]] = True
    return repeated


def _graded(batch: Columns) -> NDArray[np.bool_]:
    """Which episodes count, their scores checked."""
    graded = np.array([status not in UNGRADED for status in batch["status"].tolist()])
    scores = batch["score"]
    if (bad := graded & ~((scores >= 0) & (scores <= 1))).any():
        place = int(bad.argmax())
        score = None if np.isnan(scores[place]) else scores[place]
        raise LedgerError(f"{_place(batch, place)} is {batch['status'][place]} with score {score}; grade the run again")
    return graded


def named(key: RowKey) -> str:
    """How a row is called: its method, and its variant where it has one."""
    return " ".join(part for part in key if part)


def _place(batch: Columns, place: int) -> str:
    """Where a record stands."""
    method, variant, item, index = (batch[name][place] for name in ("method", "variant", "item_id", "replicate_index"))
    return f"record of {method}/{variant} on {item} replicate {index}"
