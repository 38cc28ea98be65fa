"""Confidence intervals for a mean over items."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 9_999
"""Of every bootstrap: (9,999 + 1) x 2.5 % is a whole number, so that the ends of an interval are resamples."""

SMALL_N = 30
"""Up to this many items a percentile bootstrap is too narrow and Wilson's interval is used."""

CHUNK = 1 << 18
"""Numbers drawn at a time: 2 MiB, which stay in the cache, or one resample of more items than that."""

DRAW_COST = 40
"""Drawing one count of a multinomial costs about as much as drawing this many items one by one."""


class Interval(NamedTuple):
    """Both ends of a confidence interval."""

    low: float
    high: float


def bootstrap_interval(
    scores_by_item: NDArray[np.float64], *, seed: int, resamples: int = RESAMPLES, level: float = 0.95
) -> Interval | None:
    """Percentile bootstrap of the mean, items resampled with replacement (Efron and Tibshirani 1993, chapter 13).

    Args:
        scores_by_item: shape (n,), one mean per item: replicates of an item belong together and are averaged first.
        seed: of the resampling; equal scores in any order give equal intervals.
        resamples: number of resampled means.
        level: coverage, in (0, 1).

    Returns:
        The interval; None for no items. Of equal scores (one item included) it is a single point.

    Raises:
        ValueError: a score is not finite, or an argument is out of range.
    """
    scores = finite(scores_by_item)
    _check(level, resamples)
    if not scores.size:
        return None
    means = resampled_means(scores, np.random.Generator(np.random.PCG64(seed)), resamples)
    low, high = percentile_ends(means, level)
    return Interval(float(low), float(high))


def percentile_ends(samples: NDArray[np.float64], level: float = 0.95) -> NDArray[np.float64]:
    """Ends of percentile intervals from `samples` of shape (resamples, ...): shape (2, ...).

    The k-th smallest and the k-th largest with k = (resamples + 1) x (1 - level) / 2, rounded down, at least 1 (Davison
    and Hinkley 1997, section 5.3): no interpolation, so that the interval of -x is exactly that of x turned round.
    """
    place = max(1, int((len(samples) + 1) * (1 - level) / 2 + 1e-9)) - 1
    ordered = np.partition(samples, [place, len(samples) - 1 - place], axis=0)
    return ordered[[place, len(samples) - 1 - place]]


def wilson(successes: float, n: int, level: float = 0.95) -> Interval | None:
    """Wilson's score interval of a proportion (Wilson 1927, Journal of the American Statistical Association 22, 209).

    The proportions p whose distance to the one seen is at most z standard errors sqrt(p (1 - p) / n): the roots of a
    quadratic equation. None for n = 0.

    `successes` may be a sum of partial scores in [0, 1]: their variance is at most that of 0/1 scores of the same
    mean, so the interval errs on the wide side.

    Raises:
        ValueError: `successes` is outside [0, n], or `level` outside (0, 1).
    """
    _check(level)
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: expected a number between 0 and {n}")
    if n == 0:
        return None
    from scipy.special import ndtri

    z, share = -float(ndtri((1 - level) / 2)), successes / n
    scale = 1 + z**2 / n
    centre = (share + z**2 / (2 * n)) / scale
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / scale
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def accuracy_interval(
    item_means: NDArray[np.float64],
    n_replicates: int,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Interval | None:
    """Interval of an accuracy by the suite's rule: bootstrap over items, Wilson where that would mislead.

    Wilson's interval is used with one replicate where n <= 30 or the accuracy is 0 or 1, and the bootstrap elsewhere:
    the mean of several replicates is no binomial count.

    With several replicates an accuracy of 0 or 1 leaves the bootstrap without spread, as do item means that are all
    equal: its interval would be one point, a certainty that no data gives. Wilson is used there too, over the n items
    and not over items x replicates, since replicates of one item are not independent; this is the wider choice.

    Args:
        item_means: shape (n,), mean score of each graded item, in [0, 1].
        n_replicates: largest number of replicates averaged in an item, >= 1.
        seed: of the bootstrap.
        resamples: of the bootstrap.
        level: coverage, in (0, 1).

    Returns:
        The interval, within [0, 1]; None for no items.

    Raises:
        ValueError: a mean is not in [0, 1], or an argument is out of range.
    """
    means = finite(item_means)
    if n_replicates < 1:
        raise ValueError(f"n_replicates is {n_replicates}, expected at least 1")
    if means.size and not (means.min() >= 0 and means.max() <= 1):
        raise ValueError(f"item means lie in [{means.min()}, {means.max()}], expected [0, 1]")
    if uses_wilson(means, n_replicates):
        return wilson(min(float(np.sum(np.sort(means))), means.size), means.size, level)
    return bootstrap_interval(means, seed=seed, resamples=resamples, level=level)


def uses_wilson(item_means: NDArray[np.float64], n_replicates: int) -> bool:
    """Whether `accuracy_interval` takes Wilson's interval, for captions."""
    small = n_replicates == 1 and item_means.size <= SMALL_N
    return small or np.unique(item_means).size <= 1


def resampled_means(values: NDArray[np.float64], generator: np.random.Generator, resamples: int) -> NDArray[np.float64]:
    """Means of `resamples` samples of n values drawn with replacement, shape (resamples,); memory does not grow with n.

    Values are sorted first, so their order does not matter. Few distinct values (0/1 scores) are drawn as counts, which
    has the same distribution and takes no longer for 100,000 items than for 100.
    """
    distinct, counts = np.unique(values, return_counts=True)
    by_count = distinct.size * DRAW_COST <= values.size
    ordered = np.repeat(distinct, counts)
    rows = max(1, CHUNK // (distinct.size if by_count else values.size))
    means = np.empty(resamples)
    for start in range(0, resamples, rows):
        part = means[start : start + rows]
        if by_count:
            part[:] = generator.multinomial(values.size, counts / values.size, size=part.size) @ distinct / values.size
        else:
            part[:] = ordered[generator.integers(values.size, size=(part.size, values.size))].mean(axis=1)
    return means


def finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """`values` as float64 of shape (n,).

    Raises:
        ValueError: another shape, or a value that is not finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"scores have shape {array.shape}, expected one mean per item: (n,)")
    if not np.isfinite(array).all():
        place = np.flatnonzero(~np.isfinite(array))[0]
        raise ValueError(f"score {place} is {array[place]}: leave ungraded items out")
    return array


def _check(level: float, resamples: int = 1) -> None:
    """ValueError for a level or a number of resamples that cannot work."""
    if not 0 < level < 1:
        raise ValueError(f"level is {level}, expected a number between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}, expected at least 1")
