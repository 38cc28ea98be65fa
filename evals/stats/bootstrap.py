"""Whole items resampled with all that was measured on them: means, ratios and paired differences of methods."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from evals.stats.intervals import CHUNK, RESAMPLES, Interval, bootstrap_interval, finite, wilson

LEAST = 10
"""A stratum of fewer items joins another: resampled alone, one of n items keeps only (n - 1) / n of its variance."""

COUNT_NS, DRAW_NS, COLUMN_NS = 60.0, 8.0, 0.15
"""What it takes to count a distinct value, to draw an item, and to sum a column of a drawn one; the ratios matter."""

_ItemT = TypeVar("_ItemT", bound=Hashable)


class PairedDifference(NamedTuple):
    """Mean of a - b over `n` items, with the ends of its confidence interval."""

    difference: float
    ci_low: float
    ci_high: float
    n: int


def paired_difference(
    a: Mapping[_ItemT, float],
    b: Mapping[_ItemT, float],
    seed: int,
    resamples: int = RESAMPLES,
    *,
    level: float = 0.95,
    bound: float | None = 1.0,
) -> PairedDifference | None:
    """Difference of means, a - b, with a percentile bootstrap interval over the items' differences.

    Where all differences are equal (one item included) the interval is that of `equal_interval`.

    Args:
        a: item id to its mean score over replicates, for one method.
        b: the same for the other; items of only one of them are left out.
        seed: of the resampling; the order of items does not matter, and a and b exchanged only turn the signs.
        resamples: number of resampled means.
        level: coverage, in (0, 1).
        bound: largest possible difference, 1 for scores in [0, 1]; None where there is none (costs): equal differences
            then give a single point.

    Returns:
        The difference; None when no item was graded for both.

    Raises:
        ValueError: a value is not finite, a difference exceeds `bound`, or an argument is out of range.
    """
    differences = np.sort(finite(np.array([a[item] - b[item] for item in a if item in b], dtype=np.float64)))
    if bound is not None and np.any(np.abs(differences) > bound):
        raise ValueError(f"a difference of {np.abs(differences).max()} exceeds {bound}: pass bound=None for costs")
    if not differences.size:
        return None
    sign = _sign(differences)
    values = np.sort(sign * differences)
    interval = bootstrap_interval(values, seed=seed, resamples=resamples, level=level)
    if interval is None or (bound is not None and values[0] == values[-1]):
        interval = equal_interval(float(values[0]), values.size, bound or 0.0, level)
    low, high = interval if sign > 0 else (-interval.high, -interval.low)
    # Adding 0 takes the sign from a zero.
    return PairedDifference(sign * float(values.mean()) + 0.0, low + 0.0, high + 0.0, values.size)


def equal_interval(value: float, n: int, bound: float, level: float = 0.95) -> Interval:
    """Interval of a mean within [-bound, bound] after `n` observations that all equal `value`.

    The bootstrap of equal numbers is a single point and would call anything certain. This is what n equal observations
    allow: at least the share p of all items has that value, p the lower end of Wilson's interval for n of n, and the
    rest anything up to `bound` either way.
    """
    seen = wilson(n, n, level)
    share = seen.low if seen else 0.0
    return Interval(share * value - (1 - share) * bound, share * value + (1 - share) * bound)


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
        strata: shape (n_items,), a label each; those of fewer than `LEAST` items join the next smallest. None: one.
        seed: of the resampling.
        resamples: number of resampled means.

    Returns:
        The means, with the sign of `values`; NaN for a quantity that no item has.
    """
    means = np.full((resamples, values.shape[1]), np.nan)
    for columns, kept in _same_items(np.isfinite(values)):
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
    for columns, kept in _same_items(np.isfinite(numerators) & np.isfinite(denominators)):
        both = np.hstack([part[np.ix_(kept, columns)] for part in (numerators, denominators)])
        sums = _resampled_sums(both, _labels(strata, kept), seed, resamples, together=True)
        above, below = np.split(sums, 2, axis=1)
        ratio = np.full(above.shape, np.inf)
        np.divide(above, below, out=ratio, where=below != 0)
        ratios[:, columns] = ratio
    return ratios


def joined_strata(labels: NDArray[np.int32], least: int = LEAST) -> NDArray[np.int32]:
    """`labels`, the smallest stratum joined to the next smallest until each has `least` items or one is left."""
    joined = labels.copy()
    while True:
        names, sizes = np.unique(joined, return_counts=True)
        if names.size <= 1 or sizes.min() >= least:
            return joined
        smallest, next_one = names[np.lexsort((names, sizes))[:2]]
        joined[joined == smallest] = next_one


def item_draws(generator: np.random.Generator, n: int, resamples: int) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """How often each of n items is drawn, shape (some resamples, n), chunk by chunk: memory does not grow with n."""
    rows = max(1, CHUNK // n)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = generator.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n)
        yield slice(start, start + size), counts.reshape(size, n).astype(np.float64)


def _sign(differences: NDArray[np.float64]) -> float:
    """1 or -1, of which exchanged methods get the other one; 1 where exchanging them changes nothing."""
    gaps = differences + differences[::-1]
    first = gaps[np.flatnonzero(gaps)[:1]]
    return -1.0 if first.size and first[0] < 0 else 1.0


def _same_items(known: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
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
    """Columns, shape (n, k), whose distinct values are cheaper to count than their rows to draw and to sum."""
    n, k = values.shape
    sizes = [np.unique(column).size for column in values.T]
    if COUNT_NS * sum(sizes) <= n * (DRAW_NS + COLUMN_NS * k):
        return list(range(k))
    return [column for column, size in enumerate(sizes) if COUNT_NS * size <= n * COLUMN_NS]


def _counted_sums(values: NDArray[np.float64], generator: np.random.Generator, resamples: int) -> NDArray[np.float64]:
    """Sums of resampled values, drawn as counts of the distinct ones.

    Those are ordered by their first place, which a change of sign does not move.
    """
    distinct, first, counts = np.unique(values, return_index=True, return_counts=True)
    order = np.argsort(first)
    drawn = generator.multinomial(values.size, counts[order] / values.size, size=resamples)
    return drawn @ distinct[order]
