"""Detectable differences: against the closed form and against simulated t-tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from evals.stats.power import detectable, items_needed, minimum_detectable_difference


def test_large_samples_have_the_closed_form() -> None:
    """For 10,000 items it is (1.960 + 0.842) sd / sqrt(n)."""
    result = minimum_detectable_difference(10_000, sd=0.5)
    assert result == pytest.approx((1.959964 + 0.841621) * 0.5 / 100, rel=1e-3)


@pytest.mark.parametrize("power", [0.06, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("n", [2, 3, 4, 24, 500, 100_000])
def test_the_power_is_reached_exactly(n: int, power: float) -> None:
    """At the result scipy's noncentral t has that power, tails beyond both edges counted, to twelve digits."""
    from scipy.stats import nct, t

    result = minimum_detectable_difference(n, sd=0.5, power=power)
    assert result is not None
    edge, centre = t.isf(0.025, n - 1), result / 0.5 * math.sqrt(n)
    tails = nct.sf(edge, n - 1, centre), nct.cdf(-edge, n - 1, centre)
    assert np.nansum(tails) == pytest.approx(power, abs=1e-12)


@pytest.mark.parametrize("n", [2, 12, 24, 100, 400])
def test_statsmodels_agrees(n: int) -> None:
    """Statsmodels' solver, which stops at five digits, finds the same."""
    from statsmodels.stats.power import TTestPower

    found = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8)
    assert minimum_detectable_difference(n, sd=1.0) == pytest.approx(found, abs=1e-5 * max(1, found))


def test_simulated_power() -> None:
    """A true difference of that size is found by a paired t-test of 24 items in 77 to 83 % of 4,000 samples."""
    from scipy.stats import ttest_1samp

    result = minimum_detectable_difference(24, sd=0.6)
    assert result is not None
    samples = np.random.default_rng(0).normal(result, 0.6, size=(4_000, 24))
    assert np.mean(ttest_1samp(samples, 0, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.03)


def test_monotone() -> None:
    """More items, less power or a laxer level make smaller differences detectable; spread scales it."""
    base = minimum_detectable_difference(24, sd=0.5)
    assert base is not None
    for smaller in (
        minimum_detectable_difference(25, sd=0.5),
        minimum_detectable_difference(24, sd=0.5, power=0.7),
        minimum_detectable_difference(24, sd=0.5, alpha=0.1),
    ):
        assert smaller is not None
        assert smaller < base
    assert minimum_detectable_difference(24, sd=1.0) == pytest.approx(2 * base)


def test_discordance_is_a_spread() -> None:
    """Methods that differ on a quarter of the items have differences of standard deviation at most .5."""
    assert minimum_detectable_difference(40, discordance=0.25) == minimum_detectable_difference(40, sd=0.5)
    assert minimum_detectable_difference(40, discordance=1.0) == minimum_detectable_difference(40, sd=1.0)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_tiny_samples(n: int) -> None:
    """A handful of items detects no difference between scores: the result exceeds 1."""
    result = minimum_detectable_difference(n, discordance=0.5)
    assert result is not None
    assert math.isfinite(result)
    assert result > 1


def test_nothing_to_compute_from() -> None:
    """Fewer than two items, or items that never differed, give None, not 0."""
    assert minimum_detectable_difference(0, sd=0.5) is None
    assert minimum_detectable_difference(1, discordance=0.5) is None
    assert minimum_detectable_difference(50, sd=0.0) is None
    assert minimum_detectable_difference(50, discordance=0.0) is None


def test_bad_arguments() -> None:
    """Both or neither spread, NaN, a share above 1 and a power not above alpha are refused."""
    either = "^give either sd or discordance$"
    with pytest.raises(ValueError, match=either):
        minimum_detectable_difference(10)
    with pytest.raises(ValueError, match=either):
        minimum_detectable_difference(10, sd=0.5, discordance=0.5)
    for sd in (math.nan, math.inf, -0.5):
        with pytest.raises(ValueError, match=f"^sd is {sd}, expected a number >= 0$"):
            minimum_detectable_difference(10, sd=sd)
    for share in (1.5, -0.5):
        with pytest.raises(ValueError, match=f"^discordance is {share}, expected a share between 0 and 1$"):
            minimum_detectable_difference(10, discordance=share)
    for alpha, power in ((0.05, 0.05), (0.0, 0.8), (0.05, 1.0)):
        told = f"^alpha is {alpha} and power {power}, expected 0 < alpha < power < 1$"
        with pytest.raises(ValueError, match=told):
            minimum_detectable_difference(10, sd=0.5, power=power, alpha=alpha)
        with pytest.raises(ValueError, match=told):
            items_needed(0.1, sd=0.5, power=power, alpha=alpha)


@pytest.mark.parametrize("difference", [0.01, 0.02, 0.05, 0.13, 0.19, 0.35, 0.5, 3.0])
def test_items_needed_are_the_fewest(difference: float) -> None:
    """With that many items the difference can be found, with one fewer it cannot."""
    n = items_needed(difference, sd=0.45)
    assert n is not None
    least = minimum_detectable_difference(n, sd=0.45)
    assert least is not None
    assert least <= difference
    fewer = minimum_detectable_difference(n - 1, sd=0.45)
    assert fewer is None or fewer > difference


def test_items_needed_by_statsmodels() -> None:
    """Statsmodels asks for as many, rounded up: .02 at a standard deviation of .4 needs about (2.8 x 20)^2 = 3,140."""
    from statsmodels.stats.power import TTestPower

    found = TTestPower().solve_power(effect_size=0.05, alpha=0.05, power=0.8)
    assert items_needed(0.02, sd=0.4) == math.ceil(found) == 3142
    assert items_needed(0.02, discordance=0.16) == 3142


def test_items_needed_of_nothing() -> None:
    """Items that never differed say nothing about how many are needed, and a difference of 0 is none."""
    assert items_needed(0.02, sd=0.0) is None
    for difference in (0, -0.1, math.inf):
        with pytest.raises(ValueError, match=f"^difference is {difference}, expected a number > 0$"):
            items_needed(difference, sd=0.5)


def test_items_needed_for_another_power_and_level() -> None:
    """Half a standard deviation is found with .9 at 1 % by as many items as statsmodels asks for, rounded up."""
    found = TTestPower().solve_power(effect_size=0.5, alpha=0.01, power=0.9)
    assert items_needed(0.5, sd=1.0, power=0.9, alpha=0.01) == math.ceil(found)


def test_what_a_comparison_detects() -> None:
    """40 items, one repaired in four: sd sqrt(3/16 x 40/39), and statsmodels' power of a t-test for it."""
    found = detectable(np.where(np.arange(42) < 40, np.arange(42) % 4 == 0, np.nan))
    sd = math.sqrt(3 / 16 * 40 / 39)
    effect = TTestPower().solve_power(nobs=40, alpha=0.05, power=0.8)
    assert (found.n_items, found.reason) == (40, None)
    assert found.difference == pytest.approx(effect * sd, rel=1e-4)
    assert list(found.items_needed) == ["0.01", "0.02", "0.05"]
    for size, needed in found.items_needed.items():
        items = TTestPower().solve_power(effect_size=float(size) / sd, alpha=0.05, power=0.8)
        assert needed == math.ceil(items)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([0.5], "fewer than two items are graded for both"),
        ([0.3, 0.1 + 0.2], "they differ by the same on every item"),
    ],
)
def test_nothing_is_detected_without_a_spread(values: list[float], reason: str) -> None:
    """One item, and items that rounding alone parts, say nothing of the spread to expect: the reason is given."""
    nothing = {"0.01": None, "0.02": None, "0.05": None}
    assert detectable(np.array(values)) == (len(values), None, reason, nothing)
