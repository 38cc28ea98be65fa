"""The accuracy-cost plane: every row with its interval, and the frontier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from evals.report.canvas import HALO, SMALL, WIDTH, Picture, canvas, panel, picture, picture_text, pool_caption
from evals.report.labels import Box, Point, distance, place, strays
from evals.report.marks import Key, draw_key, draw_paths, weight
from evals.report.palette import light
from evals.report.rows import Row
from evals.report.summary import COST_AXES, label, rows_of
from evals.report.text import number, percent
from evals.report.weighed import READING, draw_weights, weighed, weights_of
from evals.stats.axes import AXES
from evals.stats.frontier import frontier
from evals.stats.methods import BEST_SINGLE, BOUND, SINGLE, is_trained, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXIS_TITLES = {axis.name: f"{axis.label} per episode" for axis in AXES}
LOG_FROM = 10
"""Costs that differ by more than this factor are drawn on a logarithmic axis."""
LEADER_FROM = 14
"""A label farther than this (pixels) from its point gets a line to it."""
LABEL_WIDTH = 40
"""Characters of a label's line."""
MOST_LABELS = 14
"""Points that each have their name beside them; of more, colours and shapes tell most."""


class Dot(NamedTuple):
    """One point: rows with the same cost and accuracy share it and its label."""

    cost: float
    row: Row
    label: str


def accuracy_cost(summary: Mapping[str, Any]) -> Picture | None:
    """Accuracy over all tasks against mean cost on the summary's cost axis; None without a graded row."""
    dots = _dots(summary)
    if not dots:
        return None
    key = Key.of([dot.row for dot in dots]) if len(dots) > MOST_LABELS else Key({}, {})
    with canvas(4.62 + key.height, "accuracy_cost") as figure:
        axes = panel(figure, 0.6, 0.1, WIDTH - 0.75, 4.05)
        axes.set_xlabel(AXIS_TITLES[summary["cost_axis"]])
        axes.set_ylabel("accuracy, %")
        for dot in dots:
            _draw_dot(axes, dot, key)
        draw_paths(axes, [(dot.cost, dot.row) for dot in dots], key)
        weights, cost = weights_of(summary), COST_AXES[summary["cost_axis"]]
        draw_weights(axes, [(row[cost], row) for row in _drawn(summary)], weights)
        _set_limits(axes, dots)
        if key.height:
            highest = max(row["ci_high"] for row in rows_of(summary) if row["ci_high"] is not None)
            axes.set_ylim(top=min(100 * highest + 12, 106))
        best = _draw_frontier(axes, dots)
        oracle = _draw_oracle(axes, summary)
        _label(figure, axes, dots, oracle, [key.tells(dot.row) and dot not in best for dot in dots])
        draw_key(figure, key, 4.62)
        caption = (
            f"{pool_caption(summary['pool_kind'])}, {dots[0].row['n_items']} test items. Bars: 95 % intervals. The "
            "stepped line is the frontier: no other row is as cheap and as accurate, and better in one of both."
        )
        told = " A colour is a backbone, a shape a method; the thin lines join a backbone's." if key.height else ""
        read = f" {READING}" if weights else ""
        return picture(figure, "accuracy_cost", "Accuracy and cost", caption + told + read)


def _dots(summary: Mapping[str, Any]) -> list[Dot]:
    """The points, crowded ones next to each other; the oracle is a line, not a point."""
    key, weights = COST_AXES[summary["cost_axis"]], weights_of(summary)
    groups: dict[tuple[float, float], list[Row]] = {}
    for row in _drawn(summary):
        groups.setdefault((row[key], row["accuracy"]), []).append(row)
    dots = [
        Dot(cost, max(rows, key=weight), "\n= ".join(picture_text(_short(row, weights), LABEL_WIDTH) for row in rows))
        for (cost, _), rows in groups.items()
    ]
    return sorted(dots, key=lambda dot: (weight(dot.row), dot.cost))


def _drawn(summary: Mapping[str, Any]) -> list[Row]:
    """The rows over all tasks that have a place in the plane."""
    key = COST_AXES[summary["cost_axis"]]
    return [
        row
        for row in rows_of(summary)
        if row["method"] != BOUND and row["accuracy"] is not None and row[key] is not None
    ]


def _short(row: Row, weights: Mapping[str, float]) -> str:
    """An agent alone by its name, the best one (which has its point there too) by its method, others by both."""
    if row["method"] in weights:
        return weighed(row, weights)
    if row["method"] == SINGLE:
        return str(row["variant"])
    return titled(BEST_SINGLE) if row["method"] == BEST_SINGLE else label(row)


def _draw_dot(axes: Axes, dot: Dot, key: Key) -> None:
    """Marker and interval."""
    mark = key.mark(dot.row)
    accuracy, colour = 100 * dot.row["accuracy"], light(mark.colour)
    ends = (100 * dot.row["ci_low"], 100 * dot.row["ci_high"])
    over, faint = 3 + weight(dot.row), 0.3 if key.tells(dot.row) else 0.55
    axes.plot((dot.cost, dot.cost), ends, "_-", color=colour, alpha=faint, linewidth=1.4, markersize=5)
    axes.plot(
        dot.cost, accuracy, mark.shape, color=colour, markersize=mark.size, markeredgecolor=light("paper"), zorder=over
    )


def _draw_frontier(axes: Axes, dots: Sequence[Dot]) -> list[Dot]:
    """A line of steps: what accuracy a budget buys at most; the points that it goes through."""
    points = {place: (dot.cost, dot.row["accuracy"]) for place, dot in enumerate(dots)}
    found = frontier(points)
    best = sorted(points[place] for place in found)
    costs, heights = [cost for cost, _ in best], [100 * accuracy for _, accuracy in best]
    right = axes.get_xlim()[1]
    axes.step([*costs, right], [*heights, heights[-1]], where="post", color=light("soft"), linewidth=1.1, zorder=2)
    return [dots[place] for place in found]


def _set_limits(axes: Axes, dots: Sequence[Dot]) -> None:
    """Room for labels on every side; a logarithmic axis for costs of different size."""
    costs = [dot.cost for dot in dots]
    least, most = min(costs), max(costs)
    if least > 0 and most / least > LOG_FROM:
        _set_log(axes, most / least)
        spare = (most / least) ** 0.15
        axes.set_xlim(least / spare, most * spare)
    else:
        spare = 0.15 * (most - least) or 0.5 * most or 1.0
        axes.set_xlim(max(least - spare, -0.02 * most), most + spare)
    low = min(dot.row["ci_low"] for dot in dots)
    axes.set_ylim(max(100 * low - 6, -3), 106)


def _set_log(axes: Axes, ratio: float) -> None:
    """A logarithmic cost axis with plain numbers, more of them where it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if ratio < LOG_FROM**2 else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: number(cost)))
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_oracle(axes: Axes, summary: Mapping[str, Any]) -> list[Box]:
    """A dashed line at the oracle's accuracy with its name at the right end; what the name covers, in pixels."""
    rows = [row for row in rows_of(summary) if row["method"] == BOUND and row["accuracy"] is not None]
    if not rows:
        return []
    height, grey = 100 * rows[0]["accuracy"], light("soft")
    axes.axhline(height, color=grey, linestyle="--", linewidth=1.1, zorder=1)
    text = axes.annotate(
        f"oracle {percent(rows[0]['accuracy'])} %", (1, height), (-2, 2), xycoords=axes.get_yaxis_transform(),
        textcoords="offset points", ha="right", va="bottom", color=grey, fontsize=SMALL,
    )  # fmt: skip
    ends = text.get_window_extent()
    return [Box(ends.x0, ends.y0, ends.x1, ends.y1)]


def _label(figure: Figure, axes: Axes, dots: Sequence[Dot], taken: Sequence[Box], untold: Sequence[bool]) -> None:
    """A name beside every point but the `untold`, none over another."""
    named = [dot for dot, left_out in zip(dots, untold, strict=True) if not left_out]
    texts = [
        axes.annotate(dot.label, (0, 0), xycoords="figure fraction", fontsize=SMALL, zorder=8,
                      gid=HALO, weight="bold" if is_trained(dot.row["method"]) else "normal")
        for dot in named
    ]  # fmt: skip
    sizes = [text.get_window_extent() for text in texts]
    points = [Point(*_at(axes, dot), size.width, size.height) for dot, size in zip(named, sizes, strict=True)]
    frame = axes.get_window_extent()
    markers = [Box(x - 6, y - 6, x + 6, y + 6) for x, y in (_at(axes, dot) for dot in dots)]
    bars = [_bar(axes, dot) for dot in dots]
    boxes = place(points, Box(frame.x0, frame.y0, frame.x1, frame.y1), [*taken, *markers], bars)
    for text, point, box in zip(texts, points, boxes, strict=True):
        # As a share of the figure, for pixels are of another size when the picture is written.
        text.set_position((box.left / figure.bbox.width, box.bottom / figure.bbox.height))
        others = [other for other in points if other is not point]
        if distance(box, point) > LEADER_FROM or strays(box, point, others):
            _leader(figure, axes, point, box)


def _at(axes: Axes, dot: Dot) -> tuple[float, float]:
    """Where a point is, in pixels."""
    x, y = axes.transData.transform((dot.cost, 100 * dot.row["accuracy"]))
    return float(x), float(y)


def _bar(axes: Axes, dot: Dot) -> Box:
    """What an error bar covers."""
    x, low = axes.transData.transform((dot.cost, 100 * dot.row["ci_low"]))
    _, high = axes.transData.transform((dot.cost, 100 * dot.row["ci_high"]))
    return Box(x - 2, low, x + 2, high)


def _leader(figure: Figure, axes: Axes, point: Point, box: Box) -> None:
    """A thin line from a label to its point, where it is not obvious."""
    end = (min(max(point.x, box.left), box.right), min(max(point.y, box.bottom), box.top))
    width, height = figure.bbox.width, figure.bbox.height
    start, stop = (point.x / width, point.y / height), (end[0] / width, end[1] / height)
    axes.annotate(
        "", start, stop, xycoords="figure fraction", textcoords="figure fraction", zorder=7,
        arrowprops={"arrowstyle": "-", "color": light("soft"), "linewidth": 0.8, "shrinkA": 0, "shrinkB": 2},
    )  # fmt: skip
