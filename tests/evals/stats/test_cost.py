"""Cost per correct answer, cost ratios, and that an unknown cost is never a number."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from evals.stats.cost import cost_rows, pooled, priced, ratio_rows
from evals.stats.study import Study
from tests.evals.stats.making import make_study, with_costs

NAN = math.nan


def of(study: Study, method: str, backbone: str | None = "a") -> dict[str, object]:
    """The cost row of a method."""
    table = priced(study, "cost_usd")
    rows = cost_rows(table if backbone else pooled(table))
    return next(row for row in rows if (row["method"], row["backbone"]) == (method, backbone))


def test_wrong_answers_are_paid_for() -> None:
    """Costs 1, 2, 3 and 6 for two right answers of four: mean 3, and 6 a correct one."""
    row = of(with_costs(make_study({("cot", "a"): [1, 0, 0, 1]}), {("cot", "a"): [1, 2, 3, 6]}), "cot")
    assert (row["mean"], row["accuracy"], row["per_correct"], row["n_items"]) == (3.0, 0.5, 6.0, 4)


def test_nothing_correct_has_no_price() -> None:
    """Without a correct answer the cost per correct answer is unknown, not infinite and not 0; the mean stays."""
    row = of(with_costs(make_study({("cot", "a"): [0, 0]}), {("cot", "a"): [1, 2]}), "cot")
    assert (row["mean"], row["per_correct"], row["ci_low"], row["ci_high"]) == (1.5, None, None, None)


def test_a_resample_without_a_correct_answer_opens_the_interval() -> None:
    """One right answer of four is missing from 32 % of resamples, so that no upper end is known."""
    row = of(with_costs(make_study({("cot", "a"): [1, 0, 0, 0]}), {("cot", "a"): [1, 1, 1, 1]}), "cot")
    assert row["per_correct"] == 4.0
    assert row["ci_low"] is not None
    assert row["ci_high"] is None


def test_interval_of_a_ratio_is_that_of_the_delta_method() -> None:
    """For 2,000 items the interval is the ratio plus or minus 1.96 of the delta method's standard errors."""
    generator = np.random.default_rng(0)
    cost = generator.lognormal(size=2_000)
    score = (generator.random(2_000) < 0.3).astype(float)
    ratio = cost.mean() / score.mean()
    error = float(np.std(cost - ratio * score)) / score.mean() / math.sqrt(2_000)
    row = of(with_costs(make_study({("cot", "a"): score.tolist()}), {("cot", "a"): cost.tolist()}), "cot")
    assert row["ci_low"] == pytest.approx(ratio - 1.96 * error, abs=0.25 * error)
    assert row["ci_high"] == pytest.approx(ratio + 1.96 * error, abs=0.25 * error)


def test_one_unknown_price_makes_a_row_unknown() -> None:
    """A mean of the known prices would be too low: row and pool have no cost, the other rows keep theirs."""
    study = make_study({("cot", "a"): [1, 1], ("cot", "b"): [1, 0], ("vote", "b"): [1, 1]})
    study = with_costs(study, {("cot", "a"): [1, NAN], ("cot", "b"): [2, 2], ("vote", "b"): [4, 4]})
    assert (of(study, "cot")["mean"], of(study, "cot")["mean_low"], of(study, "cot")["per_correct"]) == (None,) * 3
    assert of(study, "cot")["accuracy"] == 1.0
    assert of(study, "cot", "b")["mean"] == 2.0
    assert of(study, "cot", None)["mean"] is None
    assert of(study, "cot", None)["accuracy"] == 0.75
    assert of(study, "vote", None)["mean"] == 4.0
    ratios = ratio_rows(study, priced(study, "cost_usd"), "cot")
    assert [(row["method"], row["backbone"], row["ratio"]) for row in ratios] == [
        ("vote", "b", 2.0),
        ("vote", None, 2.0),
    ]


def test_accuracy_has_the_interval_of_every_other_table() -> None:
    """Four right of four have Wilson's interval, as in the summary, not a point."""
    row = of(with_costs(make_study({("cot", "a"): [1] * 4}), {("cot", "a"): [1] * 4}), "cot")
    assert row["accuracy_low"] == pytest.approx(4 / (4 + 1.959964**2), abs=1e-6)
    assert row["accuracy_high"] == 1.0


def test_ratios_are_of_the_same_items() -> None:
    """An item that only one of both was graded on counts for neither: (3 + 5) / (1 + 3) = 2."""
    study = make_study({("cot", "a"): [1, 0, 1], ("vote", "a"): [1, 1, NAN]})
    study = with_costs(study, {("cot", "a"): [1, 3, 90], ("vote", "a"): [3, 5, NAN]})
    row = ratio_rows(study, priced(study, "cost_usd"), "cot")[0]
    assert (row["ratio"], row["n_items"]) == (2.0, 2)
    assert row["ci_low"] == pytest.approx(5 / 3)
    assert row["ci_high"] == pytest.approx(3)


def test_ratio_to_what_costs_nothing() -> None:
    """A reference that is free has no multiples."""
    study = make_study({("cot", "a"): [1, 0], ("vote", "a"): [1, 1]})
    study = with_costs(study, {("cot", "a"): [0, 0], ("vote", "a"): [3, 5]})
    assert ratio_rows(study, priced(study, "cost_usd"), "cot") == []
    assert ratio_rows(study, priced(study, "cost_usd"), "absent") == []


def test_pool_is_the_mean_over_backbones() -> None:
    """Over a cheap and a dear backbone the ratio is that of the mean costs, (2 + 30) / (1 + 10), not of ratios."""
    study = make_study({(method, backbone): [1, 1] for method in ("cot", "vote") for backbone in ("a", "b")})
    costs = {("cot", "a"): [1, 1], ("cot", "b"): [10, 10], ("vote", "a"): [2, 2], ("vote", "b"): [30, 30]}
    study = with_costs(study, costs)
    rows = {row["backbone"]: row["ratio"] for row in ratio_rows(study, priced(study, "cost_usd"), "cot")}
    assert rows == {"a": 2.0, "b": 3.0, None: pytest.approx(32 / 11)}
    assert of(study, "vote", None)["mean"] == 16.0


def test_rows_by_hand() -> None:
    """Every column, where all items are alike: intervals of costs are points, that of the accuracy is Wilson's."""
    study = make_study({("cot", "a"): [1, 1], ("vote", "a"): [1, 1]})
    study = with_costs(study, {("cot", "a"): [2, 2], ("vote", "a"): [6, 6]})
    rows = priced(study, "cost_usd")
    low = 2 / (2 + 1.959964**2)
    accuracy = {"accuracy": 1.0, "accuracy_low": pytest.approx(low, abs=1e-6), "accuracy_high": 1.0}
    assert cost_rows(rows) == [
        {
            "method": method,
            "backbone": "a",
            "n_items": 2,
            **accuracy,
            "mean": cost,
            "mean_low": cost,
            "mean_high": cost,
            "per_correct": cost,
            "ci_low": cost,
            "ci_high": cost,
        }
        for method, cost in (("cot", 2.0), ("vote", 6.0))
    ]
    ratio = {"to": "cot", "n_items": 2, "ratio": 3.0, "ci_low": 3.0, "ci_high": 3.0}
    assert ratio_rows(study, rows, "cot") == [
        {"method": "vote", "backbone": "a", **ratio},
        {"method": "vote", "backbone": None, **ratio},
    ]


def test_replicates_of_a_row_and_of_a_pool() -> None:
    """The most episodes behind a score; a pool has those of its rows together."""
    study = make_study({("cot", "a"): [1, 0, 1], ("cot", "b"): [1, 0, 1]})
    study = replace(with_costs(study, {("cot", "a"): [1] * 3, ("cot", "b"): [1] * 3}), items=("0", "1"))
    study = replace(study, item=np.array([0, 0, 1] * 2, dtype=np.int32), difficulty=np.full(2, NAN))
    rows = priced(study, "cost_usd")
    assert [row.n_replicates for row in rows.values()] == [2, 2]
    assert [(key, row.n_replicates) for key, row in pooled(rows).items()] == [(("cot", None), 4)]


def test_seeds_of_costs() -> None:
    """Seed 0 by default; another seed moves the intervals of accuracy, cost and ratio."""
    generator = np.random.default_rng(5)
    score = (generator.random(50) < 0.5).astype(float).tolist()
    cost = generator.random((2, 50)).tolist()
    study = make_study({("cot", "a"): score, ("vote", "a"): score[::-1]})
    study = with_costs(study, {("cot", "a"): cost[0], ("vote", "a"): cost[1]})
    rows = priced(study, "cost_usd")
    one, other = (cost_rows(rows, seed=seed)[0] for seed in (0, 1))
    assert cost_rows(rows)[0] == one
    assert all(one[name] != other[name] for name in ("mean_low", "mean_high", "ci_low", "ci_high"))
    assert ratio_rows(study, rows, "cot") == ratio_rows(study, rows, "cot", seed=0)
    assert ratio_rows(study, rows, "cot") != ratio_rows(study, rows, "cot", seed=1)
