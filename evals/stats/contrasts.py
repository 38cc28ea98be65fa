"""Every method against a reference on the same items: differences, their tests, and which answers changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.stats.bootstrap import bootstrap_means, equal_interval
from evals.stats.intervals import CHUNK, DRAW_COST, RESAMPLES, percentile_ends
from evals.stats.study import Study

EXACT = 13
"""Up to this many items that differ all sign changes are counted: 2^13 of them, no more than are otherwise drawn."""

DIGITS = 12
"""Decimals of a difference: equal scores may have been added in another order."""

Row = dict[str, Any]


class Contrast(NamedTuple):
    """Mean difference of two methods over `n_items` items.

    `wins` are the items (of 0/1 scores: the answers) that the first repairs, `losses` those that it breaks.
    """

    n_items: int
    difference: float
    ci_low: float
    ci_high: float
    p: float
    wins: int
    losses: int
    ties: int


def contrasts(
    differences: NDArray[np.float64],
    *,
    strata: NDArray[np.int32] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    bound: float | None = 1.0,
) -> list[Contrast | None]:
    """Mean, whole-item bootstrap interval and test of k differences at once.

    Differences of the other sign give results of the other sign, to the last bit.

    Args:
        differences: shape (n_items, k), NaN where one of the two was not graded; sorted by item.
        strata: shape (n_items,), such as quartiles of difficulty; None: one stratum.
        seed: of resampling and test.
        resamples: of both.
        level: coverage, in (0, 1).
        bound: largest possible difference, of which equal ones get the interval of `equal_interval`; None: a point.

    Returns:
        One a column; None where no item was graded for both.
    """
    differences = np.round(differences, DIGITS)
    ends = percentile_ends(bootstrap_means(differences, strata=strata, seed=seed, resamples=resamples), level)
    return [
        _contrast(column[np.isfinite(column)], low_high, seed, resamples, level, bound)
        for column, low_high in zip(differences.T, ends.T, strict=True)
    ]


def _contrast(
    values: NDArray[np.float64], ends: NDArray[np.float64], seed: int, resamples: int, level: float, bound: float | None
) -> Contrast | None:
    """One contrast, from the differences of its items and the ends of its interval."""
    if not values.size:
        return None
    mean, low, high = float(np.mean(values)), float(ends[0]), float(ends[1])
    if low == high and bound is not None:
        low, high = equal_interval(mean, values.size, bound, level)
    wins, losses = int(np.sum(values > 0)), int(np.sum(values < 0))
    p = sign_flip_p(values, seed=seed, flips=resamples)
    return Contrast(values.size, mean, low, high, p, wins, losses, values.size - wins - losses)


def sign_flip_p(differences: NDArray[np.float64], *, seed: int = 0, flips: int = RESAMPLES) -> float:
    """Two-sided p of the hypothesis that on each item the two methods are exchangeable.

    Where all items that differ do so by the same amount (0/1 scores) it is McNemar's exact test (McNemar 1947). Else
    it is Fisher's randomisation test (Fisher 1935, section 21) of the mean: the share of sign changes that give one at
    least as far from 0, over all of them for up to `EXACT` items that differ, over random ones and the one seen for
    more (Phipson and Smyth 2010, equation 2), so that it is never below 1 / (flips + 1).

    Args:
        differences: shape (n,), finite. An item's replicates and backbones are averaged first: they are not
            exchangeable one by one.
        seed: of the random sign changes.
        flips: number of random sign changes.
    """
    differing = differences[differences != 0]
    sizes, counts = np.unique(np.abs(differing), return_counts=True)
    if sizes.size <= 1:
        return _mcnemar(int(np.sum(differing > 0)), int(np.sum(differing < 0)))
    edge = abs(float(np.sum(differing))) - 1e-9 * float(sizes @ counts)
    if differing.size <= EXACT:
        return float(np.mean(np.abs(_all_flips(np.repeat(sizes, counts))) >= edge))
    far = np.abs(_random_flips(sizes, counts, np.random.default_rng(seed), flips)) >= edge
    return float((1 + np.sum(far)) / (1 + flips))


def _mcnemar(wins: int, losses: int) -> float:
    """Two-sided p of McNemar's exact test."""
    from statsmodels.stats.contingency_tables import mcnemar

    return float(mcnemar([[0, wins], [losses, 0]], exact=True).pvalue) if wins + losses else 1.0


def _all_flips(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of `sizes` under every choice of signs."""
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums - size, sums + size])
    return sums


def _random_flips(
    sizes: NDArray[np.float64], counts: NDArray[np.int64], generator: np.random.Generator, flips: int
) -> NDArray[np.float64]:
    """Sums of sizes, each there `counts` times, under random signs; few distinct ones are drawn as counts."""
    n = int(np.sum(counts))
    sums = np.zeros(flips)
    if sizes.size * DRAW_COST <= n:
        for size, count in zip(sizes, counts, strict=True):
            sums += size * (2.0 * generator.binomial(count, 0.5, size=flips) - count)
        return sums
    each = np.repeat(sizes, counts)
    rows = max(1, CHUNK // n)
    for start in range(0, flips, rows):
        part = sums[start : start + rows]
        plus = generator.integers(2, size=(part.size, n), dtype=np.int8).astype(np.float64)
        part[:] = 2.0 * (plus @ each) - float(np.sum(each))
    return sums


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted for being many (Holm 1979); None is no test and counts for nothing."""
    # Four lines instead of statsmodels' multipletests, which collects the garbage of the whole process at each call.
    p = np.array([value for value in p_values if value is not None])
    order = np.argsort(p, kind="stable")
    p[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    adjusted = iter(p.tolist())
    return [None if value is None else next(adjusted) for value in p_values]


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """Score differences to the reference, item by item, of each method and backbone that was graded.

    Attributes:
        methods: name per cell, k of them.
        backbones: name per cell.
        accuracies: mean score per cell, over the items graded for it.
        references: the backbone of the reference's row that a cell is compared to, None where there is none.
        differences: shape (n_items, k), NaN where one of the two was not graded.
        strata: shape (n_items,), quartile of difficulty.
        reference: the method compared to; its own cells are not among these.
    """

    methods: tuple[str, ...]
    backbones: tuple[str, ...]
    accuracies: tuple[float, ...]
    references: tuple[str | None, ...]
    differences: NDArray[np.float64]
    strata: NDArray[np.int32]
    reference: str

    def cells_of(self, method: str) -> list[int]:
        """Places of a method's cells that have a reference."""
        cells = zip(self.methods, self.references, strict=True)
        return [place for place, (name, base) in enumerate(cells) if name == method and base is not None]

    def compared(self) -> list[str]:
        """Methods with a cell that has a reference."""
        return [method for method in dict.fromkeys(self.methods) if self.cells_of(method)]

    def pooled(self, cells: Sequence[int]) -> NDArray[np.float64]:
        """Mean difference of each item over cells, shape (n_items,): each counts the same, ungraded ones not at all."""
        return mean_over(self.differences[:, list(cells)])


def mean_over(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the known values of each row of shape (n, k), NaN where there is none."""
    known = np.isfinite(values)
    means = np.full(len(values), np.nan)
    np.divide(np.where(known, values, 0.0).sum(axis=1), known.sum(axis=1), out=means, where=known.any(axis=1))
    return means


def cells(study: Study) -> list[tuple[int, int]]:
    """Methods and backbones with a graded episode, as places of their names."""
    return [(int(method), int(backbone)) for method, backbone in np.argwhere(study.replicates.any(axis=2))]


def reference_cells(study: Study, reference: str) -> dict[tuple[int, int], tuple[int, int] | None]:
    """The cell of the method `reference` to which each cell of the other methods is compared.

    On the same backbone where the reference was run there, else the reference's only row (one agent against which
    everything is held); None where there is none, or several and none of them on this backbone.
    """
    every = cells(study)
    rows = {backbone: (method, backbone) for method, backbone in every if study.methods[method] == reference}
    only = next(iter(rows.values())) if len(rows) == 1 else None
    return {cell: rows.get(cell[1], only) for cell in every if study.methods[cell[0]] != reference}


def gains(study: Study, reference: str) -> Gains:
    """Differences of every method and backbone to the reference."""
    scores, pairs = study.cube(study.score), reference_cells(study, reference)
    differences = np.full((len(study.items), len(pairs)), np.nan)
    for column, (cell, base) in enumerate(pairs.items()):
        if base is not None:
            differences[:, column] = np.round(scores[cell] - scores[base], DIGITS)
    return Gains(
        methods=tuple(study.methods[method] for method, _ in pairs),
        backbones=tuple(study.backbones[backbone] for _, backbone in pairs),
        accuracies=tuple(float(np.mean(scores[cell][np.isfinite(scores[cell])])) for cell in pairs),
        references=tuple(None if base is None else study.backbones[base[1]] for base in pairs.values()),
        differences=differences,
        strata=study.quartile,
        reference=reference,
    )


def pooled_rows(gain: Gains, *, seed: int = 0) -> list[Row]:
    """Each method against the reference over all its backbones; p adjusted over the methods.

    `wins` and `losses` count answers, that is items times backbones; the test is over items.
    """
    names = gain.compared()
    columns = [gain.pooled(gain.cells_of(name)) for name in names]
    rows = []
    for name, found in zip(names, _tested(gain, columns, seed), strict=True):
        each = gain.differences[:, gain.cells_of(name)]
        changed = {"wins": int(np.sum(each > 0)), "losses": int(np.sum(each < 0)), "ties": int(np.sum(each == 0))}
        rows.append({"method": name, "n_backbones": each.shape[1], **contrast_row(found), **changed})
    return with_holm(rows)


def interaction_rows(gain: Gains, *, seed: int = 0) -> list[Row]:
    """Each method and backbone against the reference; p adjusted over all of them."""
    found = _tested(gain, list(gain.differences.T), seed)
    columns = zip(gain.methods, gain.backbones, gain.references, gain.accuracies, strict=True)
    names = ("method", "backbone", "reference_backbone", "accuracy")
    rows = [dict(zip(names, cell, strict=True)) for cell in columns]
    return with_holm([{**row, **contrast_row(contrast)} for row, contrast in zip(rows, found, strict=True)])


def leave_one_out_rows(gain: Gains, *, seed: int = 0) -> list[Row]:
    """The pooled difference of each method without one backbone after the other, where two or more have been run."""
    left = list(_without_one(gain))
    columns = [gain.pooled(kept) for _, _, kept in left]
    rows = []
    for (method, without, _), found in zip(left, _tested(gain, columns, seed), strict=True):
        row = contrast_row(found)
        kept = {name: row[name] for name in ("n_items", "difference", "ci_low", "ci_high")}
        rows.append({"method": method, "without": without, **kept})
    return rows


def _without_one(gain: Gains) -> Iterator[tuple[str, str, list[int]]]:
    """Method, the backbone left out, and the cells that stay."""
    for method in gain.compared():
        places = gain.cells_of(method)
        if len(places) > 1:
            yield from ((method, gain.backbones[out], [place for place in places if place != out]) for out in places)


def _tested(gain: Gains, columns: Sequence[NDArray[np.float64]], seed: int) -> list[Contrast | None]:
    """Contrasts of some columns, stratified by difficulty."""
    return contrasts(np.column_stack(columns), strata=gain.strata, seed=seed) if columns else []


def contrast_row(found: Contrast | None) -> Row:
    """A contrast as a row of a table; everything unknown where there is none."""
    return found._asdict() if found else {**dict.fromkeys(Contrast._fields), "n_items": 0}


def with_holm(rows: list[Row]) -> list[Row]:
    """The rows with `p_holm`, their p adjusted over all of them."""
    return [{**row, "p_holm": p} for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True)]
