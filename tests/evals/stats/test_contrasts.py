"""Contrasts to a reference: tests by hand, exact symmetry, which row is compared to which, and what a pool is."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from statsmodels.stats.multitest import multipletests

from evals.stats.contrasts import (
    Contrast,
    contrasts,
    gains,
    holm,
    interaction_rows,
    leave_one_out_rows,
    mean_over,
    pooled_rows,
    sign_flip_p,
)
from tests.evals.stats.making import make_study

Numbers = NDArray[np.float64]


def test_mcnemar_by_hand() -> None:
    """6 repaired and 1 broken: 2 x (C(7,0) + C(7,1)) / 2^7 = .125, whatever the other items do."""
    differences = np.array([1.0] * 6 + [-1.0] + [0.0] * 50)
    assert sign_flip_p(differences) == pytest.approx(2 * (1 + 7) / 128)
    assert sign_flip_p(differences / 4) == pytest.approx(0.125)


def test_nothing_differs() -> None:
    """Methods that answer alike are not told apart: p is 1."""
    assert sign_flip_p(np.zeros(9)) == 1.0
    assert sign_flip_p(np.array([1.0, -1.0])) == 1.0


def test_randomisation_is_enumerated_by_hand() -> None:
    """Of the 8 sign changes of 1, .5 and .25 two give a sum as far from 0 as 1.75: p = 1/4."""
    assert sign_flip_p(np.array([1.0, 0.5, 0.25])) == pytest.approx(2 / 8)
    assert sign_flip_p(np.array([1.0, -0.5, 0.25])) == pytest.approx(6 / 8)


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
    assert sign_flip_p(differences) == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 9_999))


def test_few_sizes_of_many_items() -> None:
    """Differences of two sizes on 400 items, drawn as counts, have the p of a normal approximation."""
    from scipy.stats import norm

    differences = np.repeat([0.5, -0.5, 1.0, -1.0], [115, 85, 108, 92])
    expected = 2 * norm.sf(differences.sum() / math.sqrt(float(differences @ differences)))
    assert sign_flip_p(differences) == pytest.approx(expected, abs=0.015)


def test_p_is_uniform_where_nothing_is_true() -> None:
    """Of 400 studies without an effect 2 to 8 % are called significant at 5 %."""
    generator = np.random.default_rng(0)
    found = [sign_flip_p(generator.normal(size=40), flips=499) < 0.05 for _ in range(400)]
    assert 8 <= sum(found) <= 32


def test_holm_by_hand() -> None:
    """.01, .04 and .03 become 3 x .01, then 2 x .03, then no less than that; no test counts for nothing."""
    assert holm([0.01, None, 0.04, 0.03]) == [pytest.approx(0.03), None, pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([None]) == [None]
    assert holm([]) == []


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1))
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    """Any p-values, ties among them, are adjusted as statsmodels does."""
    assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 1000]), st.sampled_from([1, 7, 60, 600]))
def test_exchanged_methods_turn_the_signs(seed: int, levels: int, n: int) -> None:
    """Differences of the other sign give the mirrored interval, the same p and wins for losses, to the last bit."""
    generator = np.random.default_rng(seed)
    values = generator.integers(-levels, levels + 1, size=(n, 2)) / levels
    strata = (np.arange(n) % 4).astype(np.int32)
    for one, other in zip(
        contrasts(values, strata=strata, resamples=99), contrasts(-values, strata=strata, resamples=99), strict=True
    ):
        assert one is not None
        assert other is not None
        assert one == Contrast(
            n, -other.difference, -other.ci_high, -other.ci_low, other.p, other.losses, other.wins, other.ties
        )


def test_equal_differences_are_not_certain() -> None:
    """40 items that all stay the same bound the difference by z^2 / (40 + z^2) either way."""
    (found,) = contrasts(np.zeros((40, 1)))
    edge = 1.959964**2 / (40 + 1.959964**2)
    assert found is not None
    assert found == pytest.approx((40, 0, -edge, edge, 1, 0, 0, 40), abs=1e-6)


def test_interval_covers() -> None:
    """The stratified 95 % interval of 100 items contains the true difference in 92 to 98 % of 300 studies."""
    generator = np.random.default_rng(3)
    strata = (np.arange(100) % 4).astype(np.int32)
    gain = np.array([0.0, 0.1, 0.3, 0.2])[strata]
    after, before = generator.random((2, 100, 300))
    columns = (after < 0.5 + gain[:, None]).astype(np.float64) - (before < 0.5).astype(np.float64)
    found = contrasts(columns, strata=strata, resamples=999)
    hits = sum(row is not None and row.ci_low <= gain.mean() <= row.ci_high for row in found)
    assert 276 <= hits <= 294


def test_reference_is_on_the_same_backbone() -> None:
    """Where the reference ran on a backbone, that row is compared to; elsewhere nothing, as several could be meant."""
    study = make_study({("cot", "a"): [0, 0], ("cot", "b"): [1, 1], ("vote", "a"): [1, 0], ("vote", "c"): [1, 1]})
    gain = gains(study, "cot")
    assert list(zip(gain.methods, gain.backbones, gain.references, strict=True)) == [
        ("vote", "a", "a"),
        ("vote", "c", None),
    ]
    assert gain.differences[:, 0].tolist() == [1, 0]
    assert np.isnan(gain.differences[:, 1]).all()
    rows = interaction_rows(gain)
    assert rows[0]["difference"] == 0.5
    assert (rows[1]["difference"], rows[1]["p"], rows[1]["p_holm"], rows[1]["accuracy"]) == (None, None, None, 1.0)
    assert [row["n_backbones"] for row in pooled_rows(gain)] == [1]


def test_an_only_row_is_the_reference_of_all() -> None:
    """One best agent is what everything is held against, on whatever backbone."""
    study = make_study({("best", "a"): [1, 0, 1], ("team", "pool"): [1, 1, 1], ("single", "b"): [0, 0, 1]})
    rows = {row["method"]: row for row in interaction_rows(gains(study, "best"))}
    assert {method: row["reference_backbone"] for method, row in rows.items()} == {"team": "a", "single": "a"}
    assert rows["team"]["difference"] == pytest.approx(1 / 3)
    assert rows["single"]["difference"] == pytest.approx(-1 / 3)
    assert (rows["single"]["wins"], rows["single"]["losses"], rows["single"]["ties"]) == (0, 1, 2)


def test_no_reference() -> None:
    """Without the reference nothing is compared, and no table fails."""
    gain = gains(make_study({("vote", "a"): [1, 0]}), "cot")
    assert gain.compared() == []
    assert pooled_rows(gain) == []
    assert leave_one_out_rows(gain) == []
    assert [row["difference"] for row in interaction_rows(gain)] == [None]
    only = gains(make_study({("cot", "a"): [1, 0]}), "cot")
    assert interaction_rows(only) == []


def test_pooled_by_hand() -> None:
    """Item means over backbones are what is tested; wins and losses are the answers that changed."""
    study = make_study(
        {
            ("cot", "a"): [0, 0, 1, 1],
            ("cot", "b"): [0, 1, 1, 1],
            ("vote", "a"): [1, 1, 1, 0],
            ("vote", "b"): [1, 1, 1, 1],
        }
    )
    (row,) = pooled_rows(gains(study, "cot"))
    assert row["difference"] == pytest.approx((1 + 0.5 + 0 - 0.5) / 4)
    assert (row["wins"], row["losses"], row["ties"], row["n_items"], row["n_backbones"]) == (3, 1, 4, 4, 2)
    assert row["p"] == pytest.approx(exact_p(np.array([1, 0.5, -0.5])))
    left = {row["without"]: row["difference"] for row in leave_one_out_rows(gains(study, "cot"))}
    assert left == {"a": pytest.approx(0.25), "b": pytest.approx(0.25)}


def test_ungraded_items_are_left_out() -> None:
    """An item that one of the two did not answer is no item of theirs; with two backbones the other one decides."""
    nan = math.nan
    study = make_study(
        {
            ("cot", "a"): [0, 0, nan],
            ("cot", "b"): [0, nan, 0],
            ("vote", "a"): [1, nan, 1],
            ("vote", "b"): [0, 1, 1],
        }
    )
    rows = {row["backbone"]: row for row in interaction_rows(gains(study, "cot"))}
    assert (rows["a"]["n_items"], rows["a"]["difference"]) == (1, 1.0)
    assert (rows["b"]["n_items"], rows["b"]["difference"]) == (2, 0.5)
    (row,) = pooled_rows(gains(study, "cot"))
    assert (row["n_items"], row["difference"]) == (2, pytest.approx((0.5 + 1) / 2))


def test_rounding_is_no_difference() -> None:
    """.1 + .2 and .3 differ by 6e-17, which is no answer repaired."""
    (found,) = contrasts(np.array([[0.1 + 0.2 - 0.3], [0.0], [-1e-16]]))
    assert found is not None
    assert (found.wins, found.losses, found.ties, found.p) == (0, 0, 3, 1.0)


def test_mean_over_known_values() -> None:
    """Rows are averaged over what they know; a row that knows nothing is NaN."""
    values = np.array([[1.0, np.nan, 0.0], [np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(mean_over(values), [0.5, np.nan])


def test_strata_narrow_what_difficulty_explains() -> None:
    """A gain on hard items alone is known more closely when the four quarters keep their numbers of items."""
    quarter = np.arange(200) // 50
    scores: dict[tuple[str, str], list[float]] = {
        ("cot", "a"): [0.0] * 200,
        ("vote", "a"): (quarter >= 2).astype(float).tolist(),
    }
    widths: list[Any] = []
    for difficulty in (None, np.arange(200.0).tolist()):
        (row,) = interaction_rows(gains(make_study(scores, difficulty), "cot"))
        widths.append(row["ci_high"] - row["ci_low"])
    assert widths[0] == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(200), rel=0.05)
    # Each quarter is of equal differences: what is left is what 200 equal ones would allow.
    assert widths[1] < widths[0] / 3
