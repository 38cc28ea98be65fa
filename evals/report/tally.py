"""One pass over records into small sums per table row and item, whatever order the records come in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trinity.errors import LedgerError
from trinity.types import UNGRADED, Record

SUMMED: Mapping[str, str] = {
    "weighted_tokens_mean": "weighted_tokens",
    "cost_usd_mean": "cost_usd",
    "gflop_mean": "gflop",
    "calls_mean": "n_calls",
    "turns_mean": "n_turns",
    "encoder_tokens_mean": "encoder_tokens",
}
"""Key of a summary row -> the record's column that it is the mean of."""

ItemKey = tuple[str, str]
"""Task and item id."""


@dataclass(slots=True)
class ExactSum:
    """A sum of floats that does not depend on their order (Shewchuk 1997, section 2); None makes it unknown."""

    _parts: list[float] = field(default_factory=list)
    _known: bool = True

    def add(self, value: float | None) -> None:
        """Add one number; None stands for an unknown one."""
        if value is None:
            self._known = False
            return
        x, kept = float(value), []
        for part in self._parts:
            large, small = (x, part) if abs(x) >= abs(part) else (part, x)
            x = large + small
            rest = small - (x - large)
            if rest:
                kept.append(rest)
        self._parts = [*kept, x]

    def merge(self, other: ExactSum) -> None:
        """Add another sum."""
        self._known &= other._known
        for part in other._parts:
            self.add(part)

    @property
    def total(self) -> float | None:
        """The correctly rounded sum; None when one of its numbers was unknown."""
        return math.fsum(self._parts) if self._known else None


@dataclass(slots=True)
class Cell:
    """What one row knows of one item: its replicates, graded or not. `seen` has one bit per replicate index."""

    score: ExactSum = field(default_factory=ExactSum)
    episodes: int = 0
    graded: int = 0
    seen: int = 0

    def add(self, record: Record) -> None:
        """Enter one replicate."""
        bit = 1 << record.replicate.index
        if self.seen & bit:
            raise LedgerError(f"{_place(record)} is recorded twice; rebuild the run's records from its ledger")
        self.seen |= bit
        self.episodes += 1
        if record.status not in UNGRADED:
            self.graded += 1
            self.score.add(_score(record))

    @property
    def mean(self) -> float:
        """Mean score of the graded replicates (at least one)."""
        return (self.score.total or 0.0) / self.graded

    def bound(self, ungraded: float) -> float:
        """Mean score if every ungraded replicate had scored `ungraded`."""
        return ((self.score.total or 0.0) + ungraded * (self.episodes - self.graded)) / self.episodes


@dataclass(slots=True)
class Tally:
    """What one row knows: a cell per item, sums over graded episodes, counts over all episodes."""

    cells: dict[ItemKey, Cell] = field(default_factory=dict)
    sums: dict[str, ExactSum] = field(default_factory=lambda: {key: ExactSum() for key in SUMMED})
    statuses: Counter[str] = field(default_factory=Counter)
    graded: int = 0
    capped: int = 0
    estimated: int = 0

    def add(self, record: Record) -> None:
        """Enter one episode."""
        self.cells.setdefault((record.task, record.item_id), Cell()).add(record)
        self.statuses[record.status] += 1
        self.capped += record.capped
        self.estimated += record.usage_estimated
        if record.status not in UNGRADED:
            self.graded += 1
            for key, column in SUMMED.items():
                self.sums[key].add(getattr(record, column))

    def merge(self, other: Tally) -> None:
        """Enter everything of a tally over other items; the cells are shared, not copied."""
        self.cells.update(other.cells)
        self.statuses.update(other.statuses)
        self.graded += other.graded
        self.capped += other.capped
        self.estimated += other.estimated
        for key, total in other.sums.items():
            self.sums[key].merge(total)

    def item_means(self) -> dict[ItemKey, float]:
        """Mean score per graded item, in the order of their ids."""
        return {key: cell.mean for key, cell in sorted(self.cells.items()) if cell.graded}

    def mean(self, key: str) -> float | None:
        """Mean over graded episodes of a summed column; None when unknown for one of them, or without any."""
        total = self.sums[key].total
        return total / self.graded if self.graded and total is not None else None

    @property
    def replicates(self) -> int:
        """The largest number of replicates of an item."""
        return max((cell.episodes for cell in self.cells.values()), default=0)


RowKey = tuple[str, str]
"""Method and variant."""


@dataclass(slots=True)
class Tallies:
    """Tallies per row and task, and what all records have in common."""

    rows: dict[RowKey, dict[str, Tally]] = field(default_factory=dict)
    items: dict[str, set[str]] = field(default_factory=dict)
    common: dict[str, str] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Enter one episode of the test split."""
        for name in ("run_id", "pool_kind", "pool", "experiment"):
            value = getattr(record, name)
            if self.common.setdefault(name, value) != value:
                raise LedgerError(
                    f"{_place(record)} has {name} {value!r}, other records {self.common[name]!r}; "
                    "records of different runs or kinds of pool do not go into one table"
                )
        self.items.setdefault(record.task, set()).add(record.item_id)
        tasks = self.rows.setdefault((record.method, record.variant), {})
        tasks.setdefault(record.task, Tally()).add(record)


def tally(records: Iterable[Record]) -> Tallies:
    """Sums over the records of the test split.

    Raises:
        LedgerError: a record is there twice, is graded without a score in [0, 1], or belongs to another run.
    """
    tallies = Tallies()
    for record in records:
        if record.split == "test":
            tallies.add(record)
    return tallies


def _score(record: Record) -> float:
    """The score of a graded record, checked."""
    score = record.score
    if score is None or not 0.0 <= score <= 1.0:
        raise LedgerError(f"{_place(record)} is {record.status} with score {score}; grade the run again")
    return score


def _place(record: Record) -> str:
    """Where a record stands."""
    return f"record of {record.method}/{record.variant} on {record.item_id} replicate {record.replicate.index}"
