"""Chooses items evenly over difficulty and its uncertainty, as the study of orchestration methods did."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Unpack

from evals.tasks.benchmark import Benchmark, BenchmarkSettings
from evals.tasks.hub import Row, shuffled
from trinity.canonical import sha256
from trinity.errors import ConfigError
from trinity.types import Split

COLUMNS = ("rating", "rating_std", "rating_quantile")
"""What Easy2Hard-Bench says of a row's difficulty: the rating, its standard deviation, its quantile in [0, 1]."""

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


class StratifiedTask(Benchmark):
    """A configuration of Easy2Hard-Bench: test items of its split `eval`, the others of its split `train`.

    Each of the three splits is chosen as in `choose`: test items first, then validation and training items among the
    other rows, so that test items stay where they are when the other sizes change.

    Args:
        settings: see `BenchmarkSettings`; `n_test` must be a number.

    Raises:
        ConfigError: `n_test` is None.
    """

    repo = "furonghuang-lab/Easy2Hard-Bench"
    hub_splits: Mapping[Split, str] = {"train": "train", "val": "train", "test": "eval"}
    citation = (
        "Ding et al. 2024, Easy2Hard-Bench: Standardized Difficulty Labels for Profiling LLM Performance and "
        "Generalization, arXiv 2409.18433"
    )

    def __init__(self, **settings: Unpack[BenchmarkSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        if settings["n_test"] is None:
            raise ConfigError(f"task {self.name}: n_test is None; give a whole number, to choose in proportion")

    def _drawn(self, split: Split, taken: set[str]) -> list[Row]:
        rows = map(self.kept, self._usable(self.hub_splits[split], taken))
        try:
            return choose(rows, self.sizes[split], f"{self.name}/{self.data_seed}/{split}", self.identity)
        except ConfigError as error:
            raise ConfigError(f"task {self.name}: {split}: {error}; lower n_{split}") from error
