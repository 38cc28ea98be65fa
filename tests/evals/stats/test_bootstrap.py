"""Whole items resampled: means, ratios and strata."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evals.stats import bootstrap as module
from evals.stats.bootstrap import (
    _counted,
    bootstrap_means,
    bootstrap_ratios,
    equal_interval,
    item_draws,
    joined_strata,
    same_items,
)
from evals.stats.intervals import percentile_ends

Numbers = NDArray[np.float64]


def test_bootstrap_means_of_two_items_are_enumerated() -> None:
    """Of the items 0 and 1 resampled means are 0, .5 and 1 with probability 1/4, 1/2, 1/4."""
    means = bootstrap_means(np.array([[0.0], [1.0]]), seed=1)
    assert {float(value) for value in np.unique(means)} == {0.0, 0.5, 1.0}
    assert np.mean(means == 0.5) == pytest.approx(0.5, abs=0.02)
    assert np.mean(means == 1.0) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("kind", ["fine", "coarse"])
def test_bootstrap_means_agree_with_scipy(kind: str) -> None:
    """Both ways of drawing give the percentile interval of scipy's bootstrap, to 4 % of its width."""
    from scipy.stats import bootstrap

    generator = np.random.default_rng(2)
    values = generator.random(600) if kind == "fine" else (generator.random(600) < 0.2).astype(float)
    ours = percentile_ends(bootstrap_means(values[:, None], seed=3))[:, 0]
    rng = np.random.default_rng(5)
    theirs = bootstrap((values,), np.mean, n_resamples=9_999, method="percentile", rng=rng).confidence_interval
    width = theirs.high - theirs.low
    assert ours == pytest.approx([theirs.low, theirs.high], abs=0.04 * width)


def test_ratios_agree_with_scipy() -> None:
    """A ratio of means is resampled in pairs: its interval is that of scipy's paired bootstrap."""
    from scipy.stats import bootstrap

    generator = np.random.default_rng(6)
    cost = generator.lognormal(size=150)
    score = (generator.random(150) < 1 / (1 + cost)).astype(float)
    ours = percentile_ends(bootstrap_ratios(cost[:, None], score[:, None], seed=1))[:, 0]

    def ratio(x: Numbers, y: Numbers, axis: int) -> Numbers:
        return np.asarray(x.mean(axis=axis) / y.mean(axis=axis))

    rng = np.random.default_rng(8)
    found = bootstrap((cost, score), ratio, paired=True, method="percentile", vectorized=True, rng=rng)
    theirs = found.confidence_interval
    assert ours == pytest.approx([theirs.low, theirs.high], abs=0.05 * (theirs.high - theirs.low))


def test_ratios_without_a_denominator() -> None:
    """Resamples without a correct answer cost infinitely much; a pair that no item has is NaN."""
    ratios = bootstrap_ratios(np.array([[1.0, np.nan], [1.0, 1.0]]), np.array([[0.0, 1.0], [1.0, np.nan]]), seed=0)
    assert {float(value) for value in np.unique(ratios[:, 0])} == {1.0, 2.0, math.inf}
    assert np.isnan(ratios[:, 1]).all()


def test_strata_matter() -> None:
    """Two strata that differ by 1 and vary by nothing have no spread when each keeps its share, and one without."""
    values = np.repeat([0.0, 1.0], 40)[:, None]
    strata = np.repeat([0, 1], 40).astype(np.int32)
    assert np.unique(bootstrap_means(values, strata=strata)).tolist() == [0.5]
    assert bootstrap_means(values).std() == pytest.approx(0.5 / math.sqrt(80), rel=0.03)


@pytest.mark.parametrize("kind", ["fine", "coarse"])
def test_stratified_spread_is_that_within(kind: str) -> None:
    """The variance of a stratified mean is the sum of (n_h / n)^2 s_h^2 / n_h over the strata."""
    generator = np.random.default_rng(9)
    strata = np.repeat([-1, 0, 2], [200, 400, 1400]).astype(np.int32)
    noise = generator.random(2_000) if kind == "fine" else (generator.random(2_000) < 0.3).astype(float)
    values = noise + strata
    parts = [values[strata == label] for label in (-1, 0, 2)]
    expected = math.sqrt(sum((part.size / 2_000) ** 2 * part.var() / part.size for part in parts))
    means = bootstrap_means(values[:, None], strata=strata)[:, 0]
    assert means.std() == pytest.approx(expected, rel=0.03)
    assert means.mean() == pytest.approx(values.mean(), abs=5 * expected / 100)


def test_an_item_is_drawn_where_it_is_known() -> None:
    """A column's resamples are of its own items, and a column of none is NaN; the other columns change nothing."""
    generator = np.random.default_rng(10)
    values = generator.random((100, 3))
    values[:70, 1] = np.nan
    values[:, 2] = np.nan
    means = bootstrap_means(values)
    alone = bootstrap_means(values[70:, [1]])
    assert means[:, 1] == pytest.approx(alone[:, 0], abs=1e-12)
    assert means[:, 0].std() == pytest.approx(values[:, 0].std() / 10, rel=0.05)
    assert np.isnan(means[:, 2]).all()


def test_many_columns_share_memory() -> None:
    """9,999 resamples of 20,000 items with six costs (1.6 GB of counts at once) stay below 40 MB."""
    values = np.random.default_rng(0).random((20_000, 6))
    tracemalloc.start()
    try:
        bootstrap_means(values, resamples=300)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40e6


def joined_sizes(sizes: list[int], labels: list[int]) -> dict[int, int]:
    """Sizes by label of strata of these sizes once small ones are joined."""
    joined = joined_strata(np.repeat(labels, sizes).astype(np.int32))
    return dict(zip(*(found.tolist() for found in np.unique(joined, return_counts=True)), strict=True))


def test_small_strata_join_their_neighbour() -> None:
    """3 of the easiest join the second quarter, though the last one is smaller; of two neighbours the smaller one."""
    assert joined_sizes([3, 30, 20, 12], [0, 1, 2, 3]) == {1: 33, 2: 20, 3: 12}
    assert joined_sizes([30, 3, 20, 12], [0, 1, 2, 3]) == {0: 30, 2: 23, 3: 12}
    assert joined_sizes([8, 3, 30], [-1, 0, 1]) == {-1: 11, 1: 30}
    assert joined_sizes([30, 3, 9, 30], [2, 3, 100, 101]) == {2: 33, 101: 39}
    assert joined_strata(np.zeros(4, dtype=np.int32)).tolist() == [0, 0, 0, 0]
    assert np.unique(joined_strata(np.arange(40, dtype=np.int32) % 8)).size == 4


@settings(deadline=None)
@given(st.lists(st.integers(-1, 3), min_size=1, max_size=60))
def test_joined_strata_are_unions(labels: list[int]) -> None:
    """Joining never parts what was together, and leaves one stratum or none below the least."""
    strata = np.array(labels, dtype=np.int32)
    joined = joined_strata(strata)
    assert all(np.unique(joined[strata == label]).size == 1 for label in labels)
    sizes = np.unique(joined, return_counts=True)[1]
    assert sizes.size == 1 or sizes.min() >= 10


def test_equal_observations_by_hand() -> None:
    """Ten of .5: at least p = 10 / (10 + z^2) of all items have it, the rest anything from -1 to 1."""
    share = 10 / (10 + 1.959964**2)
    assert equal_interval(0.5, 10) == pytest.approx((share / 2 - (1 - share), share / 2 + (1 - share)), abs=1e-6)
    assert equal_interval(0.5, 0) == (-1, 1)


def test_seed_and_number_of_resamples() -> None:
    """By default 9,999 resamples from seed 0; another seed gives others, the same the same."""
    values = np.random.default_rng(1).random((30, 1))
    ones = np.ones((30, 1))
    for draw in (bootstrap_means, lambda part, **options: bootstrap_ratios(part, ones, **options)):
        made = draw(values)
        assert made.shape == (9_999, 1)
        assert (made == draw(values, seed=0, resamples=9_999)).all()
        assert (made[:9] != draw(values, seed=1, resamples=9)).any()
        assert draw(values, resamples=7).shape == (7, 1)


def test_draws_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows of five items fit into a chunk of ten numbers: of seven resamples the last stands alone."""
    monkeypatch.setattr(module, "CHUNK", 10)
    generator = np.random.default_rng(4)
    expected = [np.bincount(row, minlength=5) for n in (2, 2, 2, 1) for row in generator.integers(5, size=(n, 5))]
    found = list(item_draws(np.random.default_rng(4), 5, 7))
    assert [(chunk.start, chunk.stop) for chunk, _ in found] == [(0, 2), (2, 4), (4, 6), (6, 7)]
    assert np.vstack([counts for _, counts in found]).tolist() == np.vstack(expected).tolist()
    assert [counts.shape for _, counts in item_draws(generator, 11, 2)] == [(1, 11), (1, 11)]


def test_columns_of_the_same_items() -> None:
    """Columns are put together by what they know, in the order of their first; one that knows nothing is left out."""
    known = np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 0, 0]], dtype=np.bool_)
    found = [(columns.tolist(), kept.tolist()) for columns, kept in same_items(known)]
    assert found == [([0, 2], [0, 1]), ([1], [1, 2])]


def test_which_columns_are_counted() -> None:
    """One value, or at most one in forty distinct."""
    assert _counted(np.column_stack([np.ones(80), np.arange(80) % 2, np.arange(80) % 3])) == [0, 1]
    assert _counted(np.column_stack([np.ones(79), np.arange(79) % 2])) == [0]


def test_strata_as_large_as_asked_for_stay() -> None:
    """Three items are enough where three are asked for."""
    labels = np.repeat([0, 5], [3, 7]).astype(np.int32)
    assert joined_strata(labels, 3).tolist() == labels.tolist()
    assert np.unique(joined_strata(labels, 4)).tolist() == [5]
