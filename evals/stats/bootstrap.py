"""Paired comparison of two methods on the items that were graded for both."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from evals.stats.intervals import Interval, bootstrap_interval, finite, wilson

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
    resamples: int = 10_000,
    *,
    level: float = 0.95,
    bound: float | None = 1.0,
) -> PairedDifference | None:
    """Difference of means, a - b, with a percentile bootstrap interval over the items' differences.

    Where all differences are equal (one item included) the bootstrap is a single point and would call anything
    certain. Then the interval is what n equal observations allow: at least the share p of all items differs by that
    much, p the lower end of Wilson's interval for n of n, and the rest by anything up to `bound` either way.

    Args:
        a: item id to its mean score over replicates, for one method.
        b: the same for the other; items of only one of them are left out.
        seed: of the resampling; the order of items does not matter.
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
    interval = bootstrap_interval(differences, seed=seed, resamples=resamples, level=level)
    if interval is None:
        return None
    if bound is not None and differences[0] == differences[-1]:
        interval = _of_equal(float(differences[0]), differences.size, bound, level)
    return PairedDifference(float(differences.mean()), *interval, differences.size)


def _of_equal(value: float, n: int, bound: float, level: float) -> Interval:
    """Interval of a mean within [-bound, bound] after `n` observations that all equal `value`."""
    seen = wilson(n, n, level)
    share = seen.low if seen else 0.0
    return Interval(share * value - (1 - share) * bound, share * value + (1 - share) * bound)
