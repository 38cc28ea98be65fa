"""Contrasts to a reference: exact symmetry, strata, which row is compared to which, and what a pool is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evals.stats.contrasts import (
    Contrast,
    _quarters,
    contrast_row,
    contrasts,
    gains,
    interaction_rows,
    leave_one_out_rows,
    pooled_rows,
    settled,
)
from evals.stats.study import mean_over
from tests.evals.stats.making import make_study

Numbers = NDArray[np.float64]


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 1000]), st.sampled_from([1, 7, 60, 600]))
def test_exchanged_methods_turn_the_signs(seed: int, levels: int, n: int) -> None:
    """Differences of the other sign give the mirrored interval, the same p and wins for losses, to the last bit."""
    generator = np.random.default_rng(seed)
    values = generator.integers(-levels, levels + 1, size=(n, 2)) / levels
    known = (np.arange(n) % 4).astype(np.float64)
    both = (contrasts(sign * values, difficulty=known, resamples=99) for sign in (1, -1))
    for one, other in zip(*both, strict=True):
        assert one is not None
        assert other is not None
        assert one == Contrast(
            *(n, -other.difference, -other.ci_high, -other.ci_low, -other.within_high, -other.within_low, other.p),
            *(other.losses, other.wins, other.ties, other.test),
        )


def test_equal_differences_are_not_certain() -> None:
    """40 items that all stay the same bound the difference by z^2 / (40 + z^2) either way."""
    (found,) = contrasts(np.zeros((40, 1)))
    edge = 1.959964**2 / (40 + 1.959964**2)
    assert found is not None
    assert found[:-1] == pytest.approx((40, 0, -edge, edge, -edge, edge, 1, 0, 0, 40), abs=1e-6)


def test_one_item_decides_nothing() -> None:
    """One item that one method alone solves leaves the sign open: p = 1 / (1 + z^2), from p - (1 - p) to 1."""
    (found,) = contrasts(np.ones((1, 1)))
    assert found is not None
    assert (found.ci_low, found.ci_high) == pytest.approx((2 / (1 + 1.959964**2) - 1, 1), abs=1e-6)
    assert contrasts(np.full((3, 1), np.nan)) == [None]


def test_constant_quarters_are_not_certain() -> None:
    """Quarters that gain all or nothing have no spread within: the interval is that of the unstratified bootstrap."""
    values = (np.arange(200) >= 100).astype(np.float64)[:, None]
    (flat,), (plain,) = contrasts(values, difficulty=np.arange(200.0)), contrasts(values)
    assert flat == plain
    assert flat is not None
    assert (flat.within_low, flat.within_high) == (flat.ci_low, flat.ci_high)
    assert flat.ci_high - flat.ci_low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(200), rel=0.05)


@pytest.mark.parametrize("values", [1 / 3, 0.1 + 0.2])
def test_a_mean_keeps_its_digits(values: float) -> None:
    """A half of ones and a half of thirds have the mean of these numbers, not of their first 12 decimals."""
    column = np.repeat([1.0, values], 8)
    (found,) = contrasts(column[:, None])
    assert found is not None
    assert found.difference == pytest.approx((1 + values) / 2, abs=1e-15)
    assert any(found.ci_low == pytest.approx((8 - k + (8 + k) * values) / 16, abs=1e-15) for k in range(9))


def test_a_difference_is_the_same_in_every_table() -> None:
    """Alone, beside others, or without the items that it has not: quarters and draws are its own."""
    generator = np.random.default_rng(5)
    coarse, fine = generator.integers(-1, 2, 90) / 1.0, generator.random(90) - generator.random(90)
    short = np.where(np.arange(90) < 60, coarse, np.nan)
    known = generator.permutation(np.arange(90.0))
    together = contrasts(np.column_stack([coarse, fine, short, coarse[::-1]]), difficulty=known, resamples=199)
    for column, found in zip((coarse, fine, short), together, strict=False):
        (alone,) = contrasts(column[:, None], difficulty=known, resamples=199)
        assert found is not None
        assert alone is not None
        assert found[:-1] == pytest.approx(alone[:-1], abs=1e-13)
    (cut,) = contrasts(coarse[:60, None], difficulty=known[:60], resamples=199)
    assert together[2] == cut


def test_tasks_are_strata() -> None:
    """Two tasks of 50 items, one that always gains and one that never does, are resampled each with its own size."""
    values = np.repeat([1.0, 0.0], 50)
    values[::10] = 0.5
    task = np.repeat([0, 1], 50).astype(np.int32)
    (apart,), (mixed,) = contrasts(values[:, None], task=task), contrasts(values[:, None])
    assert apart is not None
    assert mixed is not None
    within = math.sqrt(0.1 * 0.9 * 0.25 / 100)  # of each task a tenth is .5 away from the rest
    assert apart.ci_high - apart.ci_low == pytest.approx(2 * 1.96 * within, rel=0.07)
    assert mixed.ci_high - mixed.ci_low > 2 * (apart.ci_high - apart.ci_low)


def test_interval_covers() -> None:
    """The stratified 95 % interval of 100 items contains the true difference in 92 to 98 % of 300 studies."""
    generator = np.random.default_rng(3)
    strata = (np.arange(100) % 4).astype(np.int32)
    gain = np.array([0.0, 0.1, 0.3, 0.2])[strata]
    after, before = generator.random((2, 100, 300))
    columns = (after < 0.5 + gain[:, None]).astype(np.float64) - (before < 0.5).astype(np.float64)
    found = contrasts(columns, difficulty=strata.astype(np.float64), resamples=999)
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
    assert row["p"] == pytest.approx(6 / 8)  # of 8 sign changes only 1 - .5 - .5 and its mirror are nearer to 0
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


def test_quarters_narrow_the_interval_that_takes_their_mix_as_given() -> None:
    """Where nearly all hard items gain, quarters leave the exceptions' spread alone; for items like these half gain."""
    gained = np.arange(200) >= 100
    gained[::20] ^= True
    scores = {("cot", "a"): [0.0] * 200, ("vote", "a"): gained.astype(float).tolist()}
    (row,) = interaction_rows(gains(make_study(scores, np.arange(200.0).tolist()), "cot"))
    assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(200), rel=0.05)
    # Of 50 items of a quarter 2 or 3 are exceptions.
    spread = math.sqrt(2 * (0.04 * 0.96 + 0.06 * 0.94) / 4 / 200)
    assert row["within_high"] - row["within_low"] == pytest.approx(2 * 1.96 * spread, rel=0.07)


def test_quarters_of_tasks_lie_apart() -> None:
    """Each task has four quarters of its own, a hundred behind those of the one before."""
    found = _quarters(np.array([1.0, 2, 3, 4, 40, 30, 20, 10]), np.repeat([3, 7], 4).astype(np.int32))
    assert found.tolist() == [0, 1, 2, 3, 103, 102, 101, 100]


def test_settled_differences() -> None:
    """Twelve decimals make differences equal to the first of their size, with their own sign; 0 has none."""
    third = 1 / 3
    values = np.array([[third], [-third - 1e-16], [1e-13], [-0.0], [np.nan], [third + 1e-11]])
    found = settled(values)[:, 0]
    np.testing.assert_array_equal(found, [third, -third, 0.0, 0.0, np.nan, third + 1e-11])
    assert not np.signbit(found[2:4]).any()


def test_rows_of_tables_by_hand() -> None:
    """Every column of the three tables, for a gain on one item of two on each of two backbones."""
    scores = {("cot", "a"): [0, 0], ("cot", "b"): [1, 0], ("vote", "a"): [1, 0], ("vote", "b"): [1, 1]}
    gain = gains(make_study(scores), "cot")
    (each,) = contrasts(np.array([[1.0], [0.0]]))
    (other,) = contrasts(np.array([[0.0], [1.0]]))
    (both,) = contrasts(np.array([[0.5], [0.5]]))
    assert each is not None
    assert other is not None
    assert both is not None
    names = ("method", "backbone", "reference_backbone", "accuracy")
    assert interaction_rows(gain) == [
        {**dict(zip(names, ("vote", "a", "a", 0.5), strict=True)), **each._asdict(), "p_holm": 1.0},
        {**dict(zip(names, ("vote", "b", "b", 1.0), strict=True)), **other._asdict(), "p_holm": 1.0},
    ]
    changed = {"wins": 2, "losses": 0, "ties": 2}
    assert pooled_rows(gain) == [
        {"method": "vote", "n_backbones": 2, **both._asdict(), **changed, "p_holm": both.p},
    ]
    kept = ("n_items", "difference", "ci_low", "ci_high")
    assert leave_one_out_rows(gain) == [
        {"method": "vote", "without": "a", **{name: getattr(other, name) for name in kept}},
        {"method": "vote", "without": "b", **{name: getattr(each, name) for name in kept}},
    ]
    assert contrast_row(None) == {**dict.fromkeys(Contrast._fields), "n_items": 0}


def test_seeds_of_contrasts() -> None:
    """Seed 0 by default, in every table; another seed moves an interval."""
    values = np.random.default_rng(8).random((40, 1))
    assert contrasts(values) == contrasts(values, seed=0) != contrasts(values, seed=1)
    study = make_study({("cot", "a"): [0.0] * 40, ("vote", "a"): values[:, 0].tolist()})
    gain = gains(study, "cot")
    for table in (pooled_rows, interaction_rows):
        assert table(gain) == table(gain, seed=0) != table(gain, seed=1)
    two = make_study({**{("cot", b): [0.0] * 40 for b in "ab"}, **{("vote", b): values[:, 0].tolist() for b in "ab"}})
    pair = gains(two, "cot")
    assert leave_one_out_rows(pair) == leave_one_out_rows(pair, seed=0) != leave_one_out_rows(pair, seed=1)
