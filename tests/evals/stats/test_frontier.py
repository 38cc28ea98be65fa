"""The frontier of accuracy and cost, its area, and what mixtures of controls do for the same money."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.stats.bootstrap import equal_interval
from evals.stats.cost import Key, priced
from evals.stats.frontier import Point, areas, best_mixture, frontier, frontier_area, matched_rows
from tests.evals.stats.making import make_study, with_costs

UNSTRATIFIED = np.full(4, np.nan)
POINTS = st.dictionaries(st.integers(0, 9), st.tuples(st.floats(0.01, 100), st.floats(0, 1)), min_size=1)


def test_frontier_by_hand() -> None:
    """Dearer and no better is dominated, and so is as dear and worse; two equal points both stay."""
    points = {"a": (1.0, 0.5), "b": (2.0, 0.5), "c": (2.0, 0.7), "d": (2.0, 0.6), "e": (2.0, 0.7), "f": (3.0, 0.9)}
    assert frontier(points) == {"a", "c", "e", "f"}
    assert frontier({"a": (0.0, 0.0)}) == {"a"}


def test_area_by_hand() -> None:
    """.5 from 1 to 10 and .8 from 10 to 100: over log cost (.5 + .8) / 2, over cost (.5 x 9 + .8 x 90) / 99."""
    points = [(1.0, 0.5), (10.0, 0.8), (50.0, 0.1)]
    assert frontier_area(points, 1, 100, log=True) == pytest.approx(0.65)
    assert frontier_area(points, 1, 100, log=False) == pytest.approx((4.5 + 72) / 99)


def test_area_outside_the_points() -> None:
    """A budget below the cheapest method buys nothing; a method beyond the largest budget adds nothing."""
    assert frontier_area([(10.0, 0.8)], 1, 100, log=True) == pytest.approx(0.4)
    assert frontier_area([(0.1, 0.8), (1000.0, 1.0)], 1, 100, log=True) == pytest.approx(0.8)
    assert frontier_area([(1000.0, 1.0)], 1, 100, log=True) == 0.0
    assert frontier_area([(1.0, 0.5)], 1, 1, log=True) is None


@settings(deadline=None)
@given(POINTS)
def test_area_is_that_of_the_frontier(points: dict[int, Point]) -> None:
    """Dominated methods add nothing, and more methods never make the area smaller."""
    best = [points[name] for name in frontier(points)]
    whole = frontier_area(points.values(), 0.01, 100, log=True)
    assert whole is not None
    assert whole == pytest.approx(frontier_area(best, 0.01, 100, log=True))
    part = frontier_area(best[:-1], 0.01, 100, log=True)
    assert part is not None
    assert 0 <= part <= whole + 1e-12 <= 1 + 2e-12


def test_areas_of_controls_and_all() -> None:
    """Bounds are those of all rows; something that is free makes the scale linear."""
    points: dict[Key, Point] = {("a", "x"): (1.0, 0.5), ("b", "x"): (100.0, 0.9), ("c", "x"): (10.0, 0.8)}
    found = areas(points, [("a", "x")])
    half = {"area": pytest.approx(0.65), "area_controls": pytest.approx(0.5)}
    assert found == {"scale": "log", "low": 1.0, "high": 100.0, **half}
    free = areas({("a", "x"): (0.0, 0.5), ("b", "x"): (2.0, 1.0)}, [])
    assert free == {"scale": "linear", "low": 0.0, "high": 2.0, "area": 0.5, "area_controls": None}


def test_mixture_by_hand() -> None:
    """At cost 4 between (1, .5) and (10, .8), two thirds go to the cheaper: .5 x 2/3 + .8 / 3 = .6 beats (3, .55)."""
    points = {"low": (1.0, 0.5), "mid": (3.0, 0.55), "high": (10.0, 0.8)}
    assert best_mixture(points, 4.0) == {"low": pytest.approx(2 / 3), "high": pytest.approx(1 / 3)}
    assert best_mixture(points, 10.0) == {"high": 1.0}
    assert best_mixture(points, 99.0) == {"high": 1.0}
    assert best_mixture(points, 0.5) == {}
    assert best_mixture({"good": (1.0, 0.9), "bad": (5.0, 0.2)}, 3.0) == {"good": 1.0}
    assert best_mixture({"dear": (2.0, 0.9), "cheap": (1.0, 0.9)}, 3.0) == {"cheap": 1.0}


@settings(deadline=None)
@given(POINTS, st.floats(0.01, 120))
def test_no_mixture_of_two_is_better(points: dict[int, Point], budget: float) -> None:
    """A linear programme over the shares of all points finds no higher accuracy at that mean cost."""
    from scipy.optimize import linprog

    costs, accuracies = np.array(list(points.values())).T
    found = linprog(-accuracies, A_ub=costs[None, :], b_ub=[budget], A_eq=np.ones((1, costs.size)), b_eq=[1])
    mixture = best_mixture(points, budget)
    assert bool(mixture) == bool(costs.min() <= budget)
    if mixture and found.status == 0:
        assert sum(share * points[name][1] for name, share in mixture.items()) == pytest.approx(-found.fun, abs=1e-6)
        assert sum(share * points[name][0] for name, share in mixture.items()) <= budget * (1 + 1e-9)
        assert sum(mixture.values()) == pytest.approx(1)


def test_matched_cost_by_hand() -> None:
    """A method of accuracy .75 at cost 2, against half .5 at cost 1 and half .5 at cost 3: single alone, +.25."""
    study = make_study({("single", "a"): [1, 1, 0, 0], ("single", "b"): [1, 0, 0, 1], ("team", "p"): [1, 1, 1, 0]})
    study = with_costs(study, {("single", "a"): [1] * 4, ("single", "b"): [3] * 4, ("team", "p"): [2] * 4})
    rows = priced(study, "cost_usd")
    (row,) = matched_rows(rows, [("single", "a"), ("single", "b")], difficulty=UNSTRATIFIED)
    assert row["mixture"] == [{"method": "single", "backbone": "a", "share": 1.0}]
    assert (row["mean"], row["mixture_mean"], row["difference"], row["n_items"]) == (2.0, 1.0, 0.25, 4)
    assert row["p"] == row["p_holm"] == 1.0


def test_a_mixture_is_met_item_by_item() -> None:
    """Half of a good dear agent and half of a bad cheap one at the same cost leave +.25 on items of .5 each."""
    study = make_study({("single", "a"): [0, 0, 0, 0], ("single", "b"): [1, 1, 0, 0], ("team", "p"): [1, 1, 0, 0]})
    study = with_costs(study, {("single", "a"): [1] * 4, ("single", "b"): [3] * 4, ("team", "p"): [2] * 4})
    (row,) = matched_rows(priced(study, "cost_usd"), [("single", "a"), ("single", "b")], difficulty=UNSTRATIFIED)
    assert {part["backbone"]: part["share"] for part in row["mixture"]} == {"a": 0.5, "b": 0.5}
    assert row["mixture_mean"] == 2.0
    assert row["difference"] == 0.25
    assert row["p"] == pytest.approx(0.5)


def test_cheaper_than_every_control() -> None:
    """What no control can do for the money has nothing to be matched with."""
    study = make_study({("single", "a"): [1, 1, 0, 0], ("team", "p"): [1, 1, 1, 0]})
    study = with_costs(study, {("single", "a"): [3] * 4, ("team", "p"): [2] * 4})
    (row,) = matched_rows(priced(study, "cost_usd"), [("single", "a")], difficulty=UNSTRATIFIED)
    assert (row["mixture"], row["mixture_mean"], row["difference"], row["p"]) == ([], None, None, None)
    assert row["mean"] == 2.0
    assert matched_rows(priced(study, "cost_usd"), [("single", "a"), ("team", "p")], difficulty=UNSTRATIFIED) == []
    assert math.isfinite(row["mean"])


def test_rows_by_hand() -> None:
    """Every column, for a row that is matched by a mixture and for one that nothing matches."""
    scores = {("single", "a"): [0] * 4, ("single", "b"): [1] * 4, ("team", "p"): [1] * 4, ("team", "q"): [1] * 4}
    costs = {("single", "a"): [1.0] * 4, ("single", "b"): [3.0] * 4, ("team", "p"): [2.0] * 4, ("team", "q"): [0.5] * 4}
    rows = priced(with_costs(make_study(scores), costs), "cost_usd")
    found = matched_rows(rows, [("single", "a"), ("single", "b")], difficulty=UNSTRATIFIED)
    low, high = equal_interval(0.5, 4)
    mixture = [{"method": "single", "backbone": name, "share": 0.5} for name in "ab"]
    numbers = {"n_items": 4, "difference": 0.5, "ci_low": low, "ci_high": high, "p": 0.125, "p_holm": 0.125}
    nothing = {"n_items": 0, **dict.fromkeys(("difference", "ci_low", "ci_high", "p", "p_holm"))}
    assert found == [
        {"method": "team", "backbone": "p", "mixture": mixture, "mean": 2.0, "mixture_mean": 2.0, **numbers},
        {"method": "team", "backbone": "q", "mixture": [], "mean": 0.5, "mixture_mean": None, **nothing},
    ]


def test_seed_of_matched_rows() -> None:
    """Seed 0 by default, and another one moves an interval."""
    generator = np.random.default_rng(2)
    scores: dict[tuple[str, str], list[float]] = {
        ("single", "a"): [0.0] * 40,
        ("team", "p"): generator.random(40).tolist(),
    }
    rows = priced(with_costs(make_study(scores), {key: [1.0] * 40 for key in scores}), "cost_usd")

    def ends(seed: int) -> tuple[float, float]:
        (row,) = matched_rows(rows, [("single", "a")], difficulty=np.full(40, np.nan), seed=seed)
        return row["ci_low"], row["ci_high"]

    (plain,) = matched_rows(rows, [("single", "a")], difficulty=np.full(40, np.nan))
    assert (plain["ci_low"], plain["ci_high"]) == ends(0) != ends(1)
