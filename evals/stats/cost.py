"""What a correct answer costs, and how many times what another method costs, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from evals.stats.bootstrap import bootstrap_ratios
from evals.stats.contrasts import Row, reference_cells
from evals.stats.intervals import accuracy_interval, percentile_ends
from evals.stats.study import Study, cells, mean_over

Key = tuple[str, str | None]
"""Method and backbone; None stands for all its backbones together."""
Ends = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """Item means of score and cost of one row, shape (n_items,) each, NaN where nothing was graded.

    `cost` is NaN everywhere when one episode of the row has an unknown cost: a sum of the others would be too low.
    `n_replicates` is the largest number of episodes behind one score.
    """

    score: NDArray[np.float64]
    cost: NDArray[np.float64]
    n_replicates: int = 1

    @property
    def accuracy(self) -> float:
        """Mean score of an item."""
        return float(np.mean(self.score[np.isfinite(self.score)]))

    @property
    def mean(self) -> float | None:
        """Mean cost of an item."""
        known = self.cost[np.isfinite(self.cost)]
        return float(np.mean(known)) if known.size else None


def priced(study: Study, column: str) -> dict[Key, Priced]:
    """Score and cost of every method and backbone; `column` is a key of the study's `costs`."""
    scores, costs, replicates = study.cube(study.score), study.cube(study.costs[column]), study.replicates
    rows: dict[Key, Priced] = {}
    for cell in cells(study):
        known = np.isfinite(costs[cell][replicates[cell] > 0]).all()
        cost = costs[cell] if known else np.full(len(study.items), np.nan)
        key = study.methods[cell[0]], study.backbones[cell[1]]
        rows[key] = Priced(scores[cell], cost, int(replicates[cell].max()))
    return rows


def pooled(rows: Mapping[Key, Priced]) -> dict[Key, Priced]:
    """Each method over all its backbones, which count the same on every item."""
    return {(method, None): _merged(rows[key] for key in keys) for method, keys in _by_method(rows)}


def _by_method(rows: Iterable[Key]) -> list[tuple[str, list[Key]]]:
    """Each method with its keys."""
    keys = list(rows)
    return [(name, [key for key in keys if key[0] == name]) for name in dict.fromkeys(method for method, _ in keys)]


def _merged(rows: Iterable[Priced]) -> Priced:
    """The mean of some rows, item by item; its cost unknown where one of theirs is."""
    parts = list(rows)
    score = mean_over(np.column_stack([part.score for part in parts]))
    cost = mean_over(np.column_stack([part.cost for part in parts]))
    if any(part.mean is None for part in parts):
        cost = np.full(cost.size, np.nan)
    return Priced(score, cost, sum(part.n_replicates for part in parts))


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table to be made of the intervals of ratios: of which means, and how they become its rows."""

    above: Sequence[NDArray[np.float64]]
    below: Sequence[NDArray[np.float64]]
    rows: Callable[[Sequence[Ends]], list[Row]]


def tabled(tables: Sequence[Table], *, seed: int = 0) -> list[list[Row]]:
    """The rows of some tables, from the same resampled items: to draw them takes longer than all the rest."""
    above = [column for table in tables for column in table.above]
    below = [column for table in tables for column in table.below]
    ends = iter(_ends(above, below, seed) if above else [])
    return [table.rows(list(islice(ends, len(table.above)))) for table in tables]


def accuracy_ends(rows: Mapping[Key, Priced], *, seed: int = 0) -> dict[Key, Ends]:
    """Ends of the interval of each row's accuracy, the same on every axis."""
    known = {key: row.score[np.isfinite(row.score)] for key, row in rows.items()}
    return {
        key: accuracy_interval(known[key], row.n_replicates, seed=seed) or (None, None) for key, row in rows.items()
    }


def cost_rows(rows: Mapping[Key, Priced], *, seed: int = 0) -> list[Row]:
    """`cost_table`, made by itself."""
    return tabled([cost_table(rows, accuracy_ends(rows, seed=seed))], seed=seed)[0]


def cost_table(rows: Mapping[Key, Priced], accuracies: Mapping[Key, Ends]) -> Table:
    """Accuracy, mean cost and cost per correct answer of each row; `ci_low` and `ci_high` are those of the last.

    The cost per correct answer is the ratio of mean cost to mean score, so that wrong answers are paid for as well; it
    is resampled as a ratio, whole items without strata. It is None where nothing was correct or a cost is unknown, and
    so is an end of its interval where that happens in the resamples.
    """
    scores, costs = [row.score for row in rows.values()], [row.cost for row in rows.values()]

    def told(ends: Sequence[Ends]) -> list[Row]:
        pairs = zip(rows.items(), ends, ends[len(rows) :], strict=False)
        return [
            {"method": key[0], "backbone": key[1], **_cost_row(row, accuracies[key], mean, each)}
            for (key, row), mean, each in pairs
        ]

    return Table([*costs, *costs], [*(np.ones(score.size) for score in scores), *scores], told)


def _cost_row(row: Priced, accuracy: Ends, mean: Ends, each: Ends) -> Row:
    """The numbers of one row and their intervals."""
    per_correct = row.mean / row.accuracy if row.mean is not None and row.accuracy > 0 else None
    low, high = each if per_correct is not None else (None, None)
    return {
        "n_items": int(np.isfinite(row.score).sum()),
        **_with_ends("accuracy", row.accuracy, accuracy),
        **_with_ends("mean", row.mean, mean),
        "per_correct": per_correct,
        "ci_low": low,
        "ci_high": high,
    }


def _with_ends(name: str, value: float | None, ends: Ends) -> Row:
    """A number and the ends of its interval."""
    return {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}


def ratio_rows(study: Study, rows: Mapping[Key, Priced], reference: str, *, seed: int = 0) -> list[Row]:
    """`ratio_table`, made by itself."""
    return tabled([ratio_table(study, rows, reference)], seed=seed)[0]


def ratio_table(study: Study, rows: Mapping[Key, Priced], reference: str) -> Table:
    """Cost of each method as a multiple of the reference's on the same items, per backbone and (None) over all.

    The reference's row is that of the accuracies (`reference_cells`). Left out are rows without one, of unknown cost,
    and where the reference costs nothing.
    """
    pairs = {
        (study.methods[cell[0]], study.backbones[cell[1]]): (study.methods[base[0]], study.backbones[base[1]])
        for cell, base in reference_cells(study, reference).items()
        if base is not None
    }
    both: dict[Key, tuple[Priced, Priced]] = {key: (rows[key], rows[base]) for key, base in pairs.items()}
    for method, keys in _by_method(list(both)):
        above, below = (_merged(both[key][side] for key in keys) for side in (0, 1))
        both[method, None] = above, below
    costs = {key: (above.cost, below.cost) for key, (above, below) in both.items()}
    common = {key: np.isfinite(above) & np.isfinite(below) for key, (above, below) in costs.items()}
    kept = {key: pair for key, pair in costs.items() if np.sum(pair[1][common[key]]) > 0}

    def told(ends: Sequence[Ends]) -> list[Row]:
        return [
            {**_to(key, reference), **_ratio_row(above[common[key]], below[common[key]], low_high)}
            for (key, (above, below)), low_high in zip(kept.items(), ends, strict=True)
        ]

    return Table([above for above, _ in kept.values()], [below for _, below in kept.values()], told)


def _to(key: Key, reference: str) -> Row:
    """Of which row a ratio is, and to what."""
    return {"method": key[0], "backbone": key[1], "to": reference}


def _ratio_row(above: NDArray[np.float64], below: NDArray[np.float64], ends: Ends) -> Row:
    """One ratio of costs on the same items, with its interval."""
    ratio = float(np.sum(above) / np.sum(below))
    return {"n_items": above.size, "ratio": ratio, "ci_low": ends[0], "ci_high": ends[1]}


def _ends(above: Sequence[NDArray[np.float64]], below: Sequence[NDArray[np.float64]], seed: int) -> list[Ends]:
    """Ends of the intervals of some ratios; None where infinite or unknown."""
    samples = bootstrap_ratios(np.column_stack(above), np.column_stack(below), seed=seed)
    pairs = percentile_ends(samples).T.tolist()
    return [(low if math.isfinite(low) else None, high if math.isfinite(high) else None) for low, high in pairs]
