"""Chooses items evenly over difficulty and its uncertainty, as the study of orchestration methods did."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from evals.tasks.base import SplitTask
from evals.tasks.hub import Row, Source, shuffled
from trinity.canonical import sha256
from trinity.errors import ConfigError
from trinity.types import Item, Split

COLUMNS = ("rating", "rating_std", "rating_quantile")
"""What Easy2Hard-Bench says of a row's difficulty: the rating, its standard deviation, its quantile in [0, 1]."""

_BEFORE: dict[Split, Split] = {"val": "test", "train": "val"}

Cell = tuple[int, int]
"""Decile of the difficulty quantile (0 to 9) and tercile of the rating's uncertainty (0 to 2)."""


def choose(rows: Iterable[Row], n: int, seed: str, identity: Callable[[Row], str]) -> list[Row]:
    """`n` rows in proportion to how many each cell holds, largest remainders, in an order that the seed gives.

    Which rows are chosen depends on seed and content alone, not on the order in which they come or on the machine.
    The study (Leins et al., arXiv 2608.00685, section on data) took 200 items in this way: decile of the difficulty
    quantile times tercile of the rating's uncertainty. Terciles are those of all `rows`; equal uncertainties are never
    parted. A smaller `n` need not be a part of a larger one.

    Args:
        rows: all rows of the split.
        n: how many to choose.
        seed: any text.
        identity: what makes two rows the same; the second of such two is left out.

    Raises:
        ConfigError: there are fewer different rows than `n`.
        DataError: a row lacks a finite uncertainty or a quantile in [0, 1].
    """
    ordered = shuffled(iter(rows), seed, identity)
    if n > len(ordered):
        raise ConfigError(f"{n} items asked for, there are {len(ordered)} different ones")
    cells = _cells(ordered)
    left = _shares(Counter(cells), n, seed)
    chosen = []
    for row, cell in zip(ordered, cells, strict=True):
        if left[cell]:
            left[cell] -= 1
            chosen.append(row)
    return chosen


def _cells(rows: Sequence[Row]) -> list[Cell]:
    """The cell of each row."""
    spreads = [row.number("rating_std") for row in rows]
    cuts = [sorted(spreads)[len(rows) * third // 3] for third in (1, 2)] if rows else []
    terciles = [sum(spread >= cut for cut in cuts) for spread in spreads]
    return [(_decile(row), tercile) for row, tercile in zip(rows, terciles, strict=True)]


def _decile(row: Row) -> int:
    quantile = row.number("rating_quantile")
    if not 0 <= quantile <= 1:
        raise row.wrong("rating_quantile", "a quantile from 0 to 1")
    return min(int(quantile * 10), 9)


def _shares(sizes: Counter[Cell], n: int, seed: str) -> defaultdict[Cell, int]:
    """How many of `n` each cell gets: its exact share rounded down, and one more for the largest remainders."""
    total = sizes.total()
    shares = defaultdict(int, {cell: n * size // total for cell, size in sizes.items()})
    # Equal remainders are told apart by the seed: by number, the easiest cells would always win.
    by_remainder = sorted(sizes, key=lambda cell: (-(n * sizes[cell] % total), sha256(f"{seed}/{cell}")))
    for cell in by_remainder[: n - sum(shares.values())]:
        shares[cell] += 1
    return shares


class StratifiedTask(SplitTask):
    """A task on a benchmark with a split `eval` for the test items and a split `train` for the others.

    Each of the three splits is chosen as in `choose`: test items first, then validation and training items among the
    other rows, so that test items stay where they are when the other sizes change.

    Args:
        data_seed: chooses the items.
        n_train: items of the training split.
        n_val: items of the validation split.
        n_test: items of the test split.
        path: a local copy of the rows (see `hub.Source`); a single file is cut into all three splits.
        revision: commit or tag on the hub; None = the newest.
    """

    repo = "furonghuang-lab/Easy2Hard-Bench"
    config: str
    columns: Sequence[str]
    optional: Sequence[str] = ()

    def __init__(
        self,
        *,
        data_seed: int,
        n_train: int,
        n_val: int,
        n_test: int,
        path: str | Path | None = None,
        revision: str | None = None,
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(data_seed=data_seed, n_train=n_train, n_val=n_val, n_test=n_test)
        self.source = Source(self.name, self.repo, self.config, revision, path)
        self.left_out: dict[Split, dict[str, int]] = {}
        self._found: dict[Split, tuple[list[Row], frozenset[str]]] = {}

    def unusable(self, row: Row) -> str | None:
        """Why the row can be no item, in a few words; None = it can. `left_out` counts such rows by split."""
        return None

    def kept(self, row: Row) -> Row:
        """The row as it is held until it becomes an item; a task whose rows are large puts parts of them elsewhere."""
        return row

    @abstractmethod
    def identity(self, row: Row) -> str:
        """What makes two rows the same question."""

    @abstractmethod
    def item(self, row: Row) -> Item:
        """The row as an item."""

    def load(self, split: Split) -> tuple[Item, ...]:
        """The split's items, in an order that `data_seed` gives.

        Raises:
            DataError: the rows can not be read, or one of them is broken.
            ConfigError: there are fewer different rows than asked for.
        """
        return tuple(row.made(self.item) for row in self._chosen(split)[0])

    def _chosen(self, split: Split) -> tuple[list[Row], frozenset[str]]:
        """The rows of the split, and the identities of them and of those that were chosen before."""
        if split not in self._found:
            taken = self._chosen(_BEFORE[split])[1] if split in _BEFORE else frozenset[str]()
            rows = self._choose(split, taken) if self.sizes[split] else []
            self._found[split] = rows, taken | {self.identity(row) for row in rows}
        return self._found[split]

    def _choose(self, split: Split, taken: frozenset[str]) -> list[Row]:
        rows = self.source.rows("eval" if split == "test" else "train", (*COLUMNS, *self.columns), self.optional)
        free = (row for row in self._usable(split, rows) if row.made(self.identity) not in taken)
        try:
            return choose(free, self.sizes[split], f"{self.name}/{self.data_seed}/{split}", self.identity)
        except ConfigError as error:
            raise ConfigError(f"task {self.name}: {split}: {error}; lower n_{split}") from error

    def _usable(self, split: Split, rows: Iterator[Row]) -> Iterator[Row]:
        reasons: Counter[str] = Counter()
        for row in rows:
            if reason := row.made(self.unusable):
                reasons[reason] += 1
            else:
                yield self.kept(row)
        self.left_out[split] = dict(reasons)
