"""Tests of paired differences by hand, by enumeration and by statsmodels."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from statsmodels.stats.multitest import multipletests

from evals.stats.paired_tests import holm, sign_flip_test, with_holm

Numbers = NDArray[np.float64]


def test_mcnemar_by_hand() -> None:
    """6 repaired and 1 broken: 2 x (C(7,0) + C(7,1)) / 2^7 = .125, whatever the other items do."""
    differences = np.array([1.0] * 6 + [-1.0] + [0.0] * 50)
    assert sign_flip_test(differences).p == pytest.approx(2 * (1 + 7) / 128)
    assert sign_flip_test(differences / 4).p == pytest.approx(0.125)


def test_nothing_differs() -> None:
    """Methods that answer alike are not told apart: p is 1."""
    assert sign_flip_test(np.zeros(9)).p == 1.0
    assert sign_flip_test(np.array([1.0, -1.0])).p == 1.0


def test_randomisation_is_enumerated_by_hand() -> None:
    """Of the 8 sign changes of 1, .5 and .25 two give a sum as far from 0 as 1.75: p = 1/4."""
    assert sign_flip_test(np.array([1.0, 0.5, 0.25])).p == pytest.approx(2 / 8)
    assert sign_flip_test(np.array([1.0, -0.5, 0.25])).p == pytest.approx(6 / 8)


def exact_p(differences: Numbers) -> float:
    """The share of all sign changes whose sum is as far from 0."""
    signs = np.array(list(itertools.product([1, -1], repeat=differences.size)))
    return float(np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9))


@pytest.mark.parametrize("distinct", [2, 18])
def test_random_sign_changes_agree_with_all(distinct: int) -> None:
    """For 18 items that differ, by two sizes or by 18, random sign changes give the exact p to their noise."""
    sizes = np.linspace(0.2, 1, distinct)[np.arange(18) % distinct]
    differences = sizes * np.where(np.arange(18) % 3 == 0, -1, 1)
    p = exact_p(differences)
    assert 0.02 < p < 0.5
    assert sign_flip_test(differences).p == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 9_999))


def test_few_sizes_of_many_items() -> None:
    """Differences of two sizes on 400 items, drawn as counts, have the p of a normal approximation."""
    from scipy.stats import norm

    differences = np.repeat([0.5, -0.5, 1.0, -1.0], [115, 85, 108, 92])
    expected = 2 * norm.sf(differences.sum() / math.sqrt(float(differences @ differences)))
    assert sign_flip_test(differences).p == pytest.approx(expected, abs=0.015)


def test_p_is_uniform_where_nothing_is_true() -> None:
    """Of 400 studies without an effect 2 to 8 % are called significant at 5 %."""
    generator = np.random.default_rng(0)
    found = [sign_flip_test(generator.normal(size=40), flips=499).p < 0.05 for _ in range(400)]
    assert 8 <= sum(found) <= 32


def test_holm_by_hand() -> None:
    """.01, .04 and .03 become 3 x .01, then 2 x .03, then no less than that; no test counts for nothing."""
    assert holm([0.01, None, 0.04, 0.03]) == [pytest.approx(0.03), None, pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([None]) == [None]
    assert holm([]) == []


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    """Any p-values, ties among them, are adjusted as statsmodels does."""
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


def test_the_test_says_how_it_was_done() -> None:
    """One amount: McNemar's; up to 13 items of several: all sign changes; more: as many random ones as were asked."""
    names = [sign_flip_test(values, flips=99).name for values in (np.ones(20), np.arange(1.0, 14), np.arange(1.0, 15))]
    assert names == ["exact McNemar", "exact sign flips", "99 sign flips"]


def test_rows_get_their_adjusted_p() -> None:
    """Rows keep what they hold; one without a test stays without."""
    assert with_holm([{"p": 0.02, "x": 1}, {"p": None}, {"p": 0.5}]) == [
        {"p": 0.02, "x": 1, "p_holm": 0.04},
        {"p": None, "p_holm": None},
        {"p": 0.5, "p_holm": 0.5},
    ]
