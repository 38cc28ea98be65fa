"""Which methods are worth their price, and what the same money buys from mixtures of simpler ones."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evals.stats.contrasts import Row, contrast_row, contrasts
from evals.stats.cost import Key, Priced
from evals.stats.paired_tests import with_holm

Point = tuple[float, float]
"""Cost and accuracy."""
_NameT = TypeVar("_NameT", bound=Hashable)


def frontier(points: Mapping[_NameT, Point]) -> set[_NameT]:
    """The points that no other one dominates, that is: as cheap, as good, and better in one of both."""

    def dominated(point: Point) -> bool:
        return any(cost <= point[0] and best >= point[1] and (cost, best) != point for cost, best in points.values())

    return {name for name, point in points.items() if not dominated(point)}


def frontier_area(points: Collection[Point], low: float, high: float, *, log: bool) -> float | None:
    """Mean, over budgets between two bounds, of the accuracy of the best method that a budget affords.

    It is the area under the frontier's steps divided by their width: the hypervolume of cost and accuracy (Zitzler and
    Thiele 1998) with reference point (high, 0), scaled to [0, 1]. A budget below the cheapest method buys nothing and
    counts 0. Unlike in RouterBench's AIQ (Hu et al. 2024), nothing is interpolated between methods.

    Args:
        points: cost and accuracy of each method; costs are positive with `log`.
        low: smallest budget; the same bounds for all areas that are to be compared.
        high: largest budget.
        log: budgets spread evenly over the logarithm of cost, not over cost.

    Returns:
        The area; None where the bounds leave no room.
    """
    if not low < high:
        return None
    inside = sorted((max(cost, low), accuracy) for cost, accuracy in points if cost <= high)
    at = np.array([*(cost for cost, _ in inside), high])
    place = np.log(at / low) / math.log(high / low) if log else (at - low) / (high - low)
    best = np.maximum.accumulate(np.array([accuracy for _, accuracy in inside], dtype=np.float64))
    return float(best @ np.diff(place))


def areas(points: Mapping[Key, Point], controls: Collection[Key]) -> dict[str, Any]:
    """The areas of all rows and of the controls, between the cheapest and the dearest of all rows.

    Budgets are spread over the logarithm of cost, since prices differ by factors; over cost itself (`scale` linear)
    where something costs nothing.
    """
    costs = [cost for cost, _ in points.values()]
    low, high, log = min(costs), max(costs), min(costs) > 0
    those = [points[key] for key in controls]
    return {
        "scale": "log" if log else "linear",
        "low": low,
        "high": high,
        "area": frontier_area(points.values(), low, high, log=log),
        "area_controls": frontier_area(those, low, high, log=log) if those else None,
    }


def best_mixture(points: Mapping[_NameT, Point], budget: float) -> dict[_NameT, float]:
    """Shares of the one or two methods that together are most accurate at a mean cost of at most `budget`.

    Sending the share s of items, drawn at random, to one method and the others to a second has the mean cost and
    accuracy of the point between theirs; more than two never lie higher (the upper hull of a plane set has edges).
    Empty where nothing is affordable; of equal accuracies the cheaper, and one method rather than two.
    """
    cheap = {name: point for name, point in points.items() if point[0] <= budget}
    if not cheap:
        return {}
    alone = max(cheap, key=lambda name: (cheap[name][1], -cheap[name][0]))
    mixtures: list[dict[_NameT, float]] = [{alone: 1.0}]
    for name, other in product(cheap, points.keys() - cheap.keys()):
        share = (points[other][0] - budget) / (points[other][0] - points[name][0])
        mixtures.append({name: share, other: 1 - share})
    return max(mixtures, key=lambda mixture: sum(share * points[name][1] for name, share in mixture.items()))


def matched_rows(
    rows: Mapping[Key, Priced], controls: Collection[Key], *, difficulty: NDArray[np.float64], seed: int = 0
) -> list[Row]:
    """Accuracy of each other row minus that of the best mixture of controls that costs no more.

    The mixture is chosen on the items shown, which favours the controls; interval and test take it as given, and
    p is adjusted over the rows. Rows cheaper than every control have no mixture and no numbers.

    Args:
        rows: of known cost.
        controls: those of which mixtures are made.
        difficulty: shape (n_items,), NaN where unknown.
        seed: of resampling and test.
    """
    points = {key: (rows[key].mean or 0.0, rows[key].accuracy) for key in rows}
    base = {key: points[key] for key in controls}
    mixtures = {key: best_mixture(base, points[key][0]) for key in rows if key not in base}
    columns = [rows[key].score - _mixed(rows, mixture) for key, mixture in mixtures.items()]
    found = contrasts(np.column_stack(columns), difficulty=difficulty, seed=seed) if columns else []
    table = []
    for (key, mixture), contrast in zip(mixtures.items(), found, strict=True):
        numbers = contrast_row(contrast)
        kept = {name: numbers[name] for name in ("n_items", "difference", "ci_low", "ci_high", "p")}
        parts = [{"method": name[0], "backbone": name[1], "share": share} for name, share in mixture.items()]
        cost = {"mean": points[key][0], "mixture_mean": sum(share * base[name][0] for name, share in mixture.items())}
        names = {"method": key[0], "backbone": key[1], "mixture": parts}
        table.append({**names, **(cost if mixture else {**cost, "mixture_mean": None}), **kept})
    return with_holm(table)


def _mixed(rows: Mapping[Key, Priced], mixture: Mapping[Key, float]) -> NDArray[np.float64]:
    """Expected score of each item under a mixture; NaN for an empty one."""
    parts = [share * rows[name].score for name, share in mixture.items()]
    n_items = len(next(iter(rows.values())).score)
    return np.sum(parts, axis=0) if parts else np.full(n_items, np.nan)
