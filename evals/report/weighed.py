"""Coordinators that were trained for several weights of cost: their names in a picture, and lines through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evals.report.marks import COORDINATOR
from evals.report.palette import light
from evals.report.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("-", (0, (3, 2)), (0, (1, 1.5)))
"""Lines of a trade-off's variants, in the order of tables."""
READING = "w: weight of cost in a coordinator's fitness; lines join its rows in the order of w."


def weights_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """Method -> the weight of cost that it was trained for, in rising order; empty unless one trade-off has several."""
    told = {name: entry.get("weight") for name, entry in summary["choices"].items() if isinstance(entry, Mapping)}
    found = {name: float(weight) for name, weight in told.items() if isinstance(weight, int | float)}
    families = {name.rpartition("_w")[0] for name in found}
    return dict(sorted(found.items(), key=lambda each: each[1])) if len(families) == 1 < len(found) else {}


def weighed(row: Row, weights: Mapping[str, float]) -> str:
    """The name of a row by its weight."""
    return f"w {weights[row['method']]:g} {row['variant']}".rstrip()


def draw_weights(axes: Axes, points: Sequence[tuple[float, Row]], weights: Mapping[str, float]) -> None:
    """A line for each variant through its points, from the smallest weight to the largest."""
    variants = dict.fromkeys(row["variant"] for _, row in points if row["method"] in weights)
    for variant, dashes in zip(variants, DASHES, strict=False):
        own = {row["method"]: (cost, row["accuracy"]) for cost, row in points if row["variant"] == variant}
        path = [own[name] for name in weights if name in own]
        costs, heights = [cost for cost, _ in path], [100 * accuracy for _, accuracy in path]
        axes.plot(costs, heights, linestyle=dashes, color=light(COORDINATOR.colour), alpha=0.6, linewidth=1.2, zorder=2)
