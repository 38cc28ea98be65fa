"""Whole items resampled with all that was measured on them: means and ratios."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from evals.stats.intervals import CHUNK, DRAW_COST, RESAMPLES, Interval, wilson

LEAST = 10
"""A stratum of fewer items joins another: resampled alone, one of n items keeps only (n - 1) / n of its variance."""


def equal_interval(value: float, n: int) -> Interval:
    """95 % interval of a mean within [-1, 1] after `n` observations that all equal `value`.

    The bootstrap of equal numbers is a single point and would call anything certain. This is what n equal observations
    allow: at least the share p of all items has that value, p the lower end of Wilson's interval for n of n, and the
    rest anything up to 1 either way.
    """
    seen = wilson(n, n)
    share = seen.low if seen else 0.0
    return Interval(share * value - (1 - share), share * value + (1 - share))


def bootstrap_means(
    values: NDArray[np.float64],
    *,
    strata: NDArray[np.int32] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> NDArray[np.float64]:
    """Means of resampled items for k quantities at once, shape (resamples, k).

    A quantity is resampled over the items for which it is known, within strata of which each keeps its number of items
    (Efron and Tibshirani 1993, chapter 13; Davison and Hinkley 1997, section 3.2). An item is drawn as a whole: what
    was measured on it stays together in its row. Columns of few distinct values are drawn as counts of these, which
    has the same distribution and takes no longer for 100,000 items than for 1,000; so only numbers within one column
    belong together, not those of two columns.

    Args:
        values: shape (n_items, k), NaN where unknown. Sorted by item, results do not depend on the records' order.
        strata: shape (n_items,), a label each; those of fewer than `LEAST` items join a neighbour. None: one.
        seed: of the resampling.
        resamples: number of resampled means.

    Returns:
        The means, with the sign of `values`; NaN for a quantity that no item has.
    """
    means = np.full((resamples, values.shape[1]), np.nan)
    for columns, kept in same_items(np.isfinite(values)):
        part = _resampled_sums(values[np.ix_(kept, columns)], _labels(strata, kept), seed, resamples)
        means[:, columns] = part / kept.size
    return means


def bootstrap_ratios(
    numerators: NDArray[np.float64],
    denominators: NDArray[np.float64],
    *,
    strata: NDArray[np.int32] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> NDArray[np.float64]:
    """Ratios of two means over the same resampled items for k pairs at once, shape (resamples, k).

    Args:
        numerators: shape (n_items, k), NaN where unknown.
        denominators: the same; an item counts for a pair where both are known.
        strata: as for `bootstrap_means`.
        seed: of the resampling.
        resamples: number of resampled ratios.

    Returns:
        The ratios; infinite where a denominator is 0, NaN for a pair without items.
    """
    ratios = np.full((resamples, numerators.shape[1]), np.nan)
    for columns, kept in same_items(np.isfinite(numerators) & np.isfinite(denominators)):
        both = np.hstack([part[np.ix_(kept, columns)] for part in (numerators, denominators)])
        distinct, place = np.unique(both, axis=1, return_inverse=True)
        sums = _resampled_sums(distinct, _labels(strata, kept), seed, resamples, together=True)
        above, below = np.split(sums[:, place], 2, axis=1)
        ratio = np.full(above.shape, np.inf)
        np.divide(above, below, out=ratio, where=below != 0)
        ratios[:, columns] = ratio
    return ratios


def joined_strata(labels: NDArray[np.int32], least: int = LEAST) -> NDArray[np.int32]:
    """`labels`, the smallest stratum joined to its neighbour until each has `least` items or one is left.

    The neighbour is the nearest label; of two as near that of fewer items, of those the lower.
    """
    joined = labels.copy()
    while True:
        names, sizes = np.unique(joined, return_counts=True)
        if names.size <= 1 or sizes.min() >= least:
            return joined
        smallest = names[np.argmin(sizes)]
        gaps = np.abs(names.astype(np.int64) - smallest)
        joined[joined == smallest] = names[np.lexsort((names, sizes, gaps))[1]]  # the first is itself


def item_draws(generator: np.random.Generator, n: int, resamples: int) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """How often each of n items is drawn, shape (some resamples, n), chunk by chunk: memory does not grow with n."""
    rows = max(1, CHUNK // n)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = generator.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n)
        yield slice(start, start + size), counts.reshape(size, n).astype(np.float64)


def same_items(known: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Columns that are known for the same items, and these items; columns of no item are left out."""
    groups: dict[bytes, list[int]] = {}
    for column in range(known.shape[1]):
        groups.setdefault(np.packbits(known[:, column]).tobytes(), []).append(column)
    for columns in groups.values():
        kept = np.flatnonzero(known[:, columns[0]])
        if kept.size:
            yield np.array(columns), kept


def _labels(strata: NDArray[np.int32] | None, kept: NDArray[np.int64]) -> NDArray[np.int32]:
    """The stratum of each item that is kept."""
    return np.zeros(kept.size, dtype=np.int32) if strata is None else joined_strata(strata[kept])


def _resampled_sums(
    values: NDArray[np.float64], strata: NDArray[np.int32], seed: int, resamples: int, *, together: bool = False
) -> NDArray[np.float64]:
    """Sums of columns over resampled rows, strata apart; `together`: of the same rows for all columns."""
    sums = np.zeros((resamples, values.shape[1]))
    for number, label in enumerate(np.unique(strata)):
        part = values[strata == label]
        seeds = [seed, number]
        counted = [] if together else _counted(part)
        for column in counted:
            sums[:, column] += _counted_sums(part[:, column], np.random.default_rng(seeds), resamples)
        rest = np.setdiff1d(np.arange(part.shape[1]), counted)
        if rest.size:
            for chunk, counts in item_draws(np.random.default_rng(seeds), len(part), resamples):
                sums[chunk, rest] += counts @ part[:, rest]
    return sums


def _counted(values: NDArray[np.float64]) -> list[int]:
    """Columns, shape (n, k), whose distinct values are cheaper to count than their rows to draw; or there is one.

    Each is judged by itself, so that it has the same resamples whatever stands beside it.
    """
    sizes = [np.unique(column).size for column in values.T]
    return [column for column, size in enumerate(sizes) if size == 1 or size * DRAW_COST <= len(values)]


def _counted_sums(values: NDArray[np.float64], generator: np.random.Generator, resamples: int) -> NDArray[np.float64]:
    """Sums of resampled values, drawn as counts of the distinct ones.

    Those are ordered by their first place, which a change of sign does not move.
    """
    distinct, first, counts = np.unique(values, return_index=True, return_counts=True)
    order = np.argsort(first)
    drawn = generator.multinomial(values.size, counts[order] / values.size, size=resamples)
    return drawn @ distinct[order]
