"""Intervals of a mean over items: hand-computed cases, coverage, and where the bootstrap has nothing to say."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from evals.stats.intervals import (
    Interval,
    accuracy_interval,
    bootstrap_interval,
    percentile_ends,
    resampled_means,
    uses_wilson,
    wilson,
)


def test_ends_are_order_statistics() -> None:
    """Of 9,999 resamples the 250th and the 9,750th, of 999 at 90 % the 50th and the 950th, of 9 the first and last."""
    samples = np.random.default_rng(0).permutation(np.arange(1.0, 10_000))
    assert percentile_ends(samples).tolist() == [250, 9_750]
    assert percentile_ends(np.stack([samples, -samples], axis=1)).tolist() == [[250, -9_750], [9_750, -250]]
    assert percentile_ends(np.arange(1.0, 1_000), 0.9).tolist() == [50, 950]
    assert percentile_ends(np.arange(1.0, 10)).tolist() == [1, 9]


def test_bootstrap_of_two_items_is_known_exactly() -> None:
    """Of the items 0 and 1 a resample has mean 0, .5 or 1 with probability 1/4, 1/2, 1/4, so quantiles are known."""
    scores = np.array([1.0, 0.0])
    assert bootstrap_interval(scores, seed=0, level=0.95) == Interval(0.0, 1.0)
    assert bootstrap_interval(scores, seed=0, level=0.4) == Interval(0.5, 0.5)


def test_bootstrap_agrees_with_the_normal_interval_for_many_items() -> None:
    """With 4,000 distinct scores the interval is mean plus or minus 1.96 standard errors to within 5 %."""
    scores = np.random.default_rng(0).random(4_000)
    interval = bootstrap_interval(scores, seed=1, resamples=4_000)
    half = 1.96 * scores.std() / math.sqrt(scores.size)
    assert interval is not None
    assert interval.low == pytest.approx(scores.mean() - half, abs=0.05 * half)
    assert interval.high == pytest.approx(scores.mean() + half, abs=0.05 * half)


def test_drawing_counts_equals_drawing_items() -> None:
    """Both ways of resampling have mean p and variance p(1 - p)/n: 200 zeros and ones, against nearly equal values."""
    generator = np.random.Generator(np.random.PCG64(0))
    coarse = np.repeat([0.0, 1.0], [140, 60])
    fine = coarse + 1e-9 * np.arange(200)
    for values in (coarse, fine):
        means = resampled_means(values, generator, 20_000)
        assert means.mean() == pytest.approx(0.3, abs=0.001)
        assert means.std() == pytest.approx(math.sqrt(0.3 * 0.7 / 200), rel=0.02)
        assert means.min() < 0.2
        assert means.max() > 0.4


@pytest.mark.parametrize("kind", ["binary", "distinct"])
def test_order_of_items_does_not_matter(kind: str) -> None:
    """Shuffled items give the same interval to the last bit; another seed gives another one."""
    generator = np.random.default_rng(3)
    scores = generator.random(300) if kind == "distinct" else (generator.random(300) < 0.4).astype(float)
    interval = bootstrap_interval(scores, seed=5, resamples=999)
    assert bootstrap_interval(generator.permutation(scores), seed=5, resamples=999) == interval
    assert bootstrap_interval(scores, seed=6, resamples=999) != interval


@pytest.mark.parametrize("distinct", [2, 100_000])
def test_memory_does_not_grow_with_items(distinct: int) -> None:
    """100,000 items and 200 resamples (20 million draws, 160 MB at once) stay below 120 MB."""
    scores = np.arange(100_000) % distinct / distinct
    tracemalloc.start()
    try:
        interval = bootstrap_interval(scores, seed=0, resamples=200)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert interval is not None
    assert interval.low < scores.mean() < interval.high
    assert peak < 120e6


def test_bootstrap_covers() -> None:
    """The 90 % interval of 60 partial scores contains the true mean in 85 to 94 % of 400 samples."""
    generator = np.random.default_rng(11)
    hits = 0
    for number in range(400):
        interval = bootstrap_interval(generator.beta(0.6, 0.4, size=60), seed=number, resamples=600, level=0.9)
        assert interval is not None
        hits += interval.low <= 0.6 <= interval.high
    assert 340 <= hits <= 376


def test_wilson_by_hand() -> None:
    """8 of 10 and 0 of 10 give the interval of Wilson's formula, worked out here."""
    z2 = 1.959964**2
    centre, half = (8 + z2 / 2) / (10 + z2), math.sqrt(z2 * (8 * 2 / 10 + z2 / 4)) / (10 + z2)
    assert wilson(8, 10) == pytest.approx((centre - half, centre + half), abs=1e-6)
    assert wilson(0, 10) == pytest.approx((0, z2 / (10 + z2)), abs=1e-6)
    narrow, wide = wilson(8, 10, level=0.5), wilson(8, 10, level=0.99)
    assert narrow is not None
    assert wide is not None
    assert wide.low < narrow.low < 0.8 < narrow.high < wide.high


@given(st.integers(1, 10**9).flatmap(lambda n: st.tuples(st.floats(0, 1).map(lambda share: share * n), st.just(n))))
def test_wilson_is_that_of_statsmodels(seen: tuple[float, int]) -> None:
    """The closed form equals statsmodels' to the last bit, for whole and partial successes."""
    for level in (0.5, 0.95):
        assert wilson(*seen, level) == pytest.approx(proportion_confint(*seen, 1 - level, "wilson"), abs=0, rel=0)


def test_wilson_covers_small_samples() -> None:
    """With 12 items and one replicate the 95 % interval contains .85 with probability >= .93; a bootstrap would not."""
    weights = [math.comb(12, k) * 0.85**k * 0.15 ** (12 - k) for k in range(13)]
    items = [np.repeat([1.0, 0.0], [k, 12 - k]) for k in range(13)]
    ours = [accuracy_interval(scores, 1) for scores in items]
    naive = [bootstrap_interval(scores, seed=0) for scores in items]
    covered = [
        sum(weight for weight, ends in zip(weights, kind, strict=True) if ends and ends.low <= 0.85 <= ends.high)
        for kind in (ours, naive)
    ]
    assert covered[0] >= 0.93
    assert covered[1] < 0.90


@pytest.mark.parametrize(
    ("scores", "n_replicates", "expected"),
    [
        ([1, 0] * 15, 1, True),
        ([1, 0] * 16, 1, False),
        ([1] * 40, 1, True),
        ([0] * 40, 1, True),
        ([1, 0] * 15, 3, False),
        ([1] * 40, 3, True),
        ([0] * 5, 3, True),
        ([0.5] * 40, 2, True),
        ([0.7], 3, True),
    ],
)
def test_rule_for_the_kind_of_interval(scores: list[float], n_replicates: int, *, expected: bool) -> None:
    """One replicate: Wilson up to 30 items or at accuracy 0 or 1. Several: only where the bootstrap has no spread."""
    means = np.array(scores, dtype=float)
    assert uses_wilson(means, n_replicates) is expected
    other = wilson(means.sum(), means.size) if expected else bootstrap_interval(means, seed=0)
    assert accuracy_interval(means, n_replicates) == other
    assert other is not None
    assert other.low < other.high


def test_replicates_are_not_items() -> None:
    """20 items, all right in 3 replicates each, are no surer than 20 of 20: the interval is not that of 60 of 60."""
    assert accuracy_interval(np.ones(20), 3) == wilson(20, 20)


def test_sum_of_thirds_stays_a_proportion() -> None:
    """Scores whose floating-point sum exceeds n are still an accuracy of 1 at most."""
    interval = accuracy_interval(np.full(7, np.nextafter(1, 0)), 3)
    assert interval is not None
    assert 0 <= interval.low < interval.high <= 1


def test_no_items_have_no_interval() -> None:
    """Nothing graded: None, never NaN."""
    nothing = np.array([])
    assert bootstrap_interval(nothing, seed=0) is None
    assert accuracy_interval(nothing, 1) is None
    assert accuracy_interval(nothing, 4) is None
    assert wilson(0, 0) is None


def test_bootstrap_of_equal_scores_is_a_point() -> None:
    """One item, or equal ones, give a point from the plain bootstrap: the reason for the accuracy rule."""
    assert bootstrap_interval(np.array([0.25]), seed=0) == (0.25, 0.25)
    assert bootstrap_interval(np.full(50, 1.0), seed=0) == (1.0, 1.0)


def test_bad_arguments() -> None:
    """NaN, a table instead of a list, scores outside [0, 1] and impossible numbers are refused with a reason."""
    good = np.array([0.0, 1.0])
    with pytest.raises(ValueError, match=r"^score 1 is nan: leave ungraded items out$"):
        bootstrap_interval(np.array([0.0, np.nan, np.nan]), seed=0)
    with pytest.raises(ValueError, match=r"^scores have shape \(1, 2\), expected one mean per item: \(n,\)$"):
        bootstrap_interval(good[None], seed=0)
    for wrong in ([0.0, 1.5], [-0.5, 1.0]):
        with pytest.raises(ValueError, match=rf"^item means lie in \[{wrong[0]}, {wrong[1]}\], expected \[0, 1\]$"):
            accuracy_interval(np.array(wrong), 1)
    with pytest.raises(ValueError, match=r"^n_replicates is 0, expected at least 1$"):
        accuracy_interval(good, 0)
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match=f"^level is {level}, expected a number between 0 and 1$"):
            bootstrap_interval(good, seed=0, level=level)
        with pytest.raises(ValueError, match=f"^level is {level}, expected a number between 0 and 1$"):
            wilson(1, 2, level=level)
    with pytest.raises(ValueError, match=r"^resamples is 0, expected at least 1$"):
        bootstrap_interval(good, seed=0, resamples=0)
    for successes in (11, -1):
        with pytest.raises(ValueError, match=f"^{successes} successes of 10: expected a number between 0 and 10$"):
            wilson(successes, 10)
