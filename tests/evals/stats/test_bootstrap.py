"""Paired differences: which items count, what the interval means, and what equal differences allow to say."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from evals.stats.bootstrap import PairedDifference, paired_difference


def test_only_items_graded_for_both_count() -> None:
    """Items of one method alone are left out: (1 - 0 + 0 - 0)/2 = .5 on two items."""
    result = paired_difference({"a": 1.0, "b": 0.0, "only": 0.0}, {"b": 0.0, "a": 0.0, "other": 1.0}, seed=0)
    assert result is not None
    assert result == PairedDifference(0.5, 0.0, 1.0, 2)


def test_pairing_removes_what_items_share() -> None:
    """Two methods .1 +- .01 apart on items of very different difficulty are told apart by a narrow interval."""
    generator = np.random.default_rng(0)
    easy = dict(enumerate(generator.random(100) * 0.8))
    better = {item: score + 0.1 + 0.01 * generator.standard_normal() for item, score in easy.items()}
    result = paired_difference(better, easy, seed=0)
    assert result is not None
    assert 0.095 < result.ci_low < result.difference < result.ci_high < 0.105


def test_order_of_items_does_not_matter() -> None:
    """Mappings in another order give the same result to the last bit."""
    generator = np.random.default_rng(1)
    a, b = (dict(enumerate(generator.random(200))) for _ in range(2))
    shuffled = list(a.items())
    random.Random(0).shuffle(shuffled)
    assert paired_difference(dict(shuffled), b, 3, 500) == paired_difference(a, b, 3, 500)
    assert paired_difference(a, b, 4, 500) != paired_difference(a, b, 3, 500)


def test_covers() -> None:
    """The 95 % interval of 80 differences contains the true one in 92 to 98 % of 400 samples."""
    generator = np.random.default_rng(7)
    hits = 0
    for number in range(400):
        a = dict(enumerate((generator.random(80) < 0.7).astype(float)))
        b = dict(enumerate((generator.random(80) < 0.5).astype(float)))
        result = paired_difference(a, b, number, 600)
        assert result is not None
        hits += result.ci_low <= 0.2 <= result.ci_high
    assert 368 <= hits <= 392


def test_nothing_in_common() -> None:
    """No item graded for both: None."""
    assert paired_difference({"a": 1.0}, {"b": 1.0}, seed=0) is None
    assert paired_difference({}, {}, seed=0) is None


def test_one_item_decides_nothing() -> None:
    """One item that one method alone solves leaves the sign open: p = 1/(1 + z^2), from p - (1 - p) to 1."""
    result = paired_difference({"a": 1.0}, {"a": 0.0}, seed=0)
    share = 1 / (1 + 1.959964**2)
    assert result == pytest.approx((1.0, 2 * share - 1, 1.0, 1), abs=1e-6)
    assert result is not None
    assert result.ci_low < 0


def test_equal_methods() -> None:
    """50 items without any difference bound it by z^2/(50 + z^2) either way: about the rule of three's 3/50."""
    scores = {item: float(item % 2) for item in range(50)}
    result = paired_difference(scores, dict(scores), seed=0)
    edge = 1.959964**2 / (50 + 1.959964**2)
    assert result == pytest.approx((0.0, -edge, edge, 50), abs=1e-6)


def test_costs_have_no_bound() -> None:
    """Differences of costs may be of any size, and equal ones are then a single point."""
    a, b = {"x": 900.0, "y": 400.0}, {"x": 500.0, "y": 0.0}
    assert paired_difference(a, b, seed=0, bound=None) == (400.0, 400.0, 400.0, 2)
    with pytest.raises(ValueError, match=r"difference of 400\.0 exceeds 1\.0: pass bound=None"):
        paired_difference(a, b, seed=0)


def test_ungraded_scores_are_refused() -> None:
    """A NaN among the scores is an error, not a silent NaN in a table."""
    with pytest.raises(ValueError, match="leave ungraded items out"):
        paired_difference({"a": math.nan}, {"a": 1.0}, seed=0)
