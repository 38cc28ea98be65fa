"""Tests of paired differences: McNemar's, Fisher's sign flips, and Holm's adjustment for being many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.stats.intervals import CHUNK, DRAW_COST, RESAMPLES

EXACT = 13
"""Up to this many items that differ all sign changes are counted: 2^13 of them, no more than are otherwise drawn."""


class Tested(NamedTuple):
    """A two-sided p and how it was found."""

    p: float
    name: str


def sign_flip_test(differences: NDArray[np.float64], *, seed: int = 0, flips: int = RESAMPLES) -> Tested:
    """Test of the hypothesis that on each item the two methods are exchangeable.

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
        return Tested(_mcnemar(int(np.sum(differing > 0)), int(np.sum(differing < 0))), "exact McNemar")
    edge = abs(float(np.sum(differing))) - 1e-9 * float(sizes @ counts)
    if differing.size <= EXACT:
        return Tested(float(np.mean(np.abs(_all_flips(np.repeat(sizes, counts))) >= edge)), "exact sign flips")
    far = np.abs(_random_flips(sizes, counts, np.random.default_rng(seed), flips)) >= edge
    return Tested(float((1 + np.sum(far)) / (1 + flips)), f"{flips:,} sign flips")


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


def with_holm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with `p_holm`, their p adjusted over all of them."""
    return [{**row, "p_holm": p} for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True)]
