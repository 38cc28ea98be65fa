"""Rank correlation of difficulty and accuracy with its interval, and accuracy and gain by quarter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evals.stats.contrasts import gains
from evals.stats.difficulty import _resampled_rho, gain_rows, item_accuracy, quartile_rows, spearman
from tests.evals.stats.making import make_study
from tests.evals.stats.published import benchmark


def test_rho_and_interval_agree_with_scipy() -> None:
    """Counting resampled ranks gives the interval that scipy gets by ranking each resample, ties and all."""
    from scipy.stats import bootstrap, spearmanr

    generator = np.random.default_rng(0)
    x = generator.integers(0, 30, 120).astype(float)
    y = np.round(generator.random(120) - x / 60, 1)
    found = spearman(x, y, seed=1)
    assert found is not None
    assert found["rho"] == pytest.approx(spearmanr(x, y).statistic)
    assert found["p"] == pytest.approx(spearmanr(x, y).pvalue)
    rng = np.random.default_rng(2)
    options = {"paired": True, "vectorized": False, "n_resamples": 1_500, "method": "percentile", "rng": rng}
    theirs = bootstrap((x, y), lambda a, b: spearmanr(a, b).statistic, **options).confidence_interval
    width = theirs.high - theirs.low
    assert [found["ci_low"], found["ci_high"]] == pytest.approx([theirs.low, theirs.high], abs=0.1 * width)


def test_each_resample_is_ranked() -> None:
    """Drawn with the same counts, scipy's correlation of the repeated items is the same number."""
    from scipy.stats import spearmanr

    x, y = np.array([3.0, 1.0, 1.0, 2.0, 5.0]), np.array([0.5, 0.0, 1.0, 0.5, 0.25])
    ours = _resampled_rho(x, y, np.random.default_rng(7), 50)
    drawn = np.random.default_rng(7).integers(5, size=(50, 5))
    for rho, rows in zip(ours, drawn, strict=True):
        varied = np.ptp(x[rows]) > 0 and np.ptp(y[rows]) > 0
        expected = spearmanr(x[rows], y[rows]).statistic if varied else math.nan
        assert rho == pytest.approx(expected, nan_ok=True)


def test_unknown_difficulties_are_left_out() -> None:
    """Items without difficulty or without an episode are no pairs."""
    found = spearman(np.array([1, 2, 3, math.nan, 4]), np.array([1, 0.5, 0, 1, math.nan]))
    assert found is not None
    assert found["rho"] == pytest.approx(-1)
    assert found["n_items"] == 3


@pytest.mark.parametrize(
    ("difficulty", "accuracy"),
    [([1, 2], [0, 1]), ([1, 1, 1], [0, 1, 0]), ([1, 2, 3], [1, 1, 1]), ([math.nan] * 4, [0] * 4)],
)
def test_no_correlation(difficulty: list[float], accuracy: list[float]) -> None:
    """Two items, or numbers that do not vary, have none: None, never NaN."""
    assert spearman(np.array(difficulty), np.array(accuracy)) is None


def test_item_accuracy_is_over_what_was_graded() -> None:
    """Each item's mean over the rows that answered it."""
    study = make_study({("cot", "a"): [1, 0, math.nan], ("vote", "a"): [1, 1, 0.5], ("vote", "b"): [0, 0, math.nan]})
    assert item_accuracy(study) == pytest.approx([2 / 3, 1 / 3, 0.5])


def test_quartiles_by_hand() -> None:
    """Eight items in four pairs: accuracy and mean difficulty of each pair, Wilson's interval for two items."""
    study = make_study({("cot", "a"): [1, 1, 1, 0, 0, 1, 0, 0]}, [1, 2, 3, 4, 5, 6, 7, 8])
    rows = quartile_rows(study)
    assert [(row["quartile"], row["n_items"], row["accuracy"], row["difficulty_mean"]) for row in rows] == [
        (0, 2, 1.0, 1.5),
        (1, 2, 0.5, 3.5),
        (2, 2, 0.5, 5.5),
        (3, 2, 0.0, 7.5),
    ]
    assert rows[0]["ci_low"] == pytest.approx(2 / (2 + 1.959964**2), abs=1e-6)


def test_gains_by_quartile_by_hand() -> None:
    """The second method repairs both hard items and breaks an easy one."""
    study = make_study(
        {("cot", "a"): [1, 1, 1, 1, 1, 0, 0, 0], ("vote", "a"): [1, 0, 1, 1, 1, 0, 1, 1]}, [1, 2, 3, 4, 5, 6, 7, 8]
    )
    rows = gain_rows(gains(study, "cot"))
    assert [(row["method"], row["quartile"], row["n_items"], row["difference"]) for row in rows] == [
        ("vote", 0, 2, -0.5),
        ("vote", 1, 2, 0.0),
        ("vote", 2, 2, 0.0),
        ("vote", 3, 2, 1.0),
    ]
    assert all(row["ci_low"] <= row["difference"] <= row["ci_high"] for row in rows)


def test_without_difficulty_there_are_no_quarters() -> None:
    """Unknown difficulties give no rows."""
    study = make_study({("cot", "a"): [1, 0], ("vote", "a"): [0, 1]})
    assert quartile_rows(study) == []
    assert gain_rows(gains(study, "cot")) == []


def test_quarters_add_up() -> None:
    """On 200 published items the four gains of a method have its whole gain as their mean."""
    gain = gains(benchmark("AMC"), "CoT")
    rows = [row for row in gain_rows(gain) if row["method"] == "Best-of-N"]
    assert [row["n_items"] for row in rows] == [50] * 4
    whole = gain.pooled(gain.cells_of("Best-of-N")).mean()
    assert np.mean([row["difference"] for row in rows]) == pytest.approx(whole)


@pytest.mark.parametrize(("accuracy", "p"), [([0.1, 0.2, 0.3], 1 / 3), ([0.4, 0.3, 0.2, 0.1], 1 / 12)])
def test_few_items_prove_little(accuracy: list[float], p: float) -> None:
    """A perfect order of three items comes up in 2 of 6 pairings, of four in 2 of 24; no sample shows another one."""
    found = spearman(np.arange(len(accuracy), dtype=float), np.array(accuracy))
    assert found is not None
    assert found["p"] == pytest.approx(p)
    assert (found["ci_low"], found["ci_high"]) == (None, None)


def test_few_items_in_another_order() -> None:
    """Of six items 6 pairings are as ordered as one exchange leaves them, or their reverse: 12 of 720."""
    found = spearman(np.arange(6.0), np.array([1.0, 2, 3, 4, 6, 5]) / 6)
    assert found is not None
    assert found["p"] == pytest.approx(12 / 720)


def test_rows_by_hand() -> None:
    """Every column of the two tables for a gain on the harder half of eight items."""
    from evals.stats.bootstrap import equal_interval
    from evals.stats.intervals import wilson

    study = make_study({("cot", "a"): [0] * 8, ("vote", "a"): [0] * 4 + [1] * 4}, [1, 2, 3, 4, 5, 6, 7, 8])
    accuracies = {"cot": [0.0] * 4, "vote": [0.0, 0.0, 1.0, 1.0]}
    keys = ("method", "backbone", "quartile", "difficulty_mean", "n_items", "accuracy", "ci_low", "ci_high")
    expected = [
        (method, "a", place, 1.5 + 2 * place, 2, value, *(wilson(2 * value, 2) or ()))
        for method, values in accuracies.items()
        for place, value in enumerate(values)
    ]
    assert [tuple(row.items()) for row in quartile_rows(study)] == [
        tuple(zip(keys, row, strict=True)) for row in expected
    ]
    names = ("method", "quartile", "n_items", "difference", "ci_low", "ci_high")
    gained = [("vote", place, 2, value, *equal_interval(value, 2)) for place, value in enumerate(accuracies["vote"])]
    assert [tuple(row.items()) for row in gain_rows(gains(study, "cot"))] == [
        tuple(zip(names, row, strict=True)) for row in gained
    ]


def test_seeds_of_difficulty() -> None:
    """Seed 0 by default; another seed moves the intervals."""
    generator = np.random.default_rng(3)
    difficulty, score = generator.random(160), (generator.random(160) < 0.5).astype(float)
    assert spearman(difficulty, score) == spearman(difficulty, score, seed=0) != spearman(difficulty, score, seed=1)
    study = make_study({("cot", "a"): [0.0] * 160, ("vote", "a"): generator.random(160).tolist()}, difficulty.tolist())
    assert quartile_rows(study) == quartile_rows(study, seed=0) != quartile_rows(study, seed=1)
    gain = gains(study, "cot")
    assert gain_rows(gain) == gain_rows(gain, seed=0) != gain_rows(gain, seed=1)


def test_from_eight_items_on_p_is_an_approximation() -> None:
    """Of seven items 2 of 5,040 pairings are as ordered; of eight Student's t has p = 0."""
    for n, p in ((7, 2 / 5_040), (8, 0.0)):
        found = spearman(np.arange(float(n)), np.arange(float(n)) / n)
        assert found is not None
        assert found["p"] == pytest.approx(p, abs=1e-12)
        assert found["n_items"] == n
