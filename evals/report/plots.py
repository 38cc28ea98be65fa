"""The report's pictures as PNG bytes: accuracy against cost, training, and who was asked in which role."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from evals.report.labels import Box, Point, distance, place, strays
from evals.report.rows import REFERENCE, Row
from evals.report.summary import COST_AXES, label, rows_of
from evals.report.text import clean, number, percent
from trinity.types import ROLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with every common colour blindness.
BLUE, ORANGE, GREEN, VERMILLION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#595959"
MARKS: Mapping[str, tuple[str, str, float]] = {
    "single": ("o", BLUE, 6),
    "best_single": ("s", GREEN, 7),
    "coordinator": ("*", VERMILLION, 15),
}
"""Method -> marker, colour, size; the other methods are controls."""
CONTROL = ("D", ORANGE, 6)
AXIS_TITLES = {"usd": "USD per episode", "gflop": "GFLOP per episode", "weighted_tokens": "weighted tokens per episode"}
STYLE: Any = {
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
}
LOG_FROM = 10
"""Costs that differ by more than this factor are drawn on a logarithmic axis."""
LEADER_FROM = 14
"""A label farther than this (pixels) from its point gets a line to it."""

Use = tuple[str, str, str]
"""Variant of the policy, agent, role: one choice in a test episode."""


@contextmanager
def _canvas(width: float, height: float) -> Iterator[Figure]:
    """A figure of its own, with our style whatever the user's, and no trace in matplotlib's global state."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield Figure(figsize=(width, height), layout="constrained")


def _png(figure: Figure) -> bytes:
    """The figure as PNG, without the version of the library in it, so that equal figures are equal bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    buffer = io.BytesIO()
    # `savefig` would draw everything once more beforehand, for a layout that the one draw makes as well.
    canvas: Any = FigureCanvasAgg(figure)  # its printing is published without annotations
    canvas.print_png(buffer, metadata={"Software": None})
    return buffer.getvalue()


def shown(value: Any, limit: int = 40) -> str:
    """Text for a plot: formulas switched off, characters that the font lacks replaced."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont("DejaVu Sans"))
    text = "".join(char if font.get_char_index(ord(char)) else "\ufffd" for char in clean(value, limit))
    return text.replace("$", r"\$")


def _caption(figure: Figure, summary: Mapping[str, Any], text: str) -> None:
    """One grey line under the figure that starts with the kind of pool."""
    kind, experiment = shown(summary["pool_kind"]), shown(summary["experiment"])
    figure.supxlabel(f"{kind} pool · {experiment} · {text}", fontsize=9, color=GREY)


# ---------------------------------------------------------------------------------------------- accuracy and cost


class _Dot(NamedTuple):
    """One point: rows with the same cost and accuracy share it and its label."""

    cost: float
    row: Row
    label: str


def accuracy_cost_png(summary: Mapping[str, Any]) -> bytes | None:
    """Accuracy over all tasks against mean cost on the summary's cost axis; None without a graded row."""
    dots = _dots(summary)
    if not dots:
        return None
    with _canvas(9, 5.8) as figure:
        axes = figure.add_subplot()
        axes.set_title("Accuracy and cost", weight="bold")
        axes.set_xlabel(AXIS_TITLES[summary["cost_axis"]])
        axes.set_ylabel("accuracy, %")
        _caption(figure, summary, f"{dots[0].row['n_items']} test items · bars: 95 % intervals")
        for dot in dots:
            _draw_dot(axes, dot)
        _set_limits(axes, dots)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # labels are in no layout: a second one would find the same and take as long
        oracle = _draw_oracle(axes, summary)
        _label(axes, dots, oracle)
        return _png(figure)


def _dots(summary: Mapping[str, Any]) -> list[_Dot]:
    """The points, crowded ones next to each other; the oracle is a line, not a point."""
    key = COST_AXES[summary["cost_axis"]]
    groups: dict[tuple[float, float], list[Row]] = {}
    for row in rows_of(summary):
        if row["method"] != "oracle" and row["accuracy"] is not None and row[key] is not None:
            groups.setdefault((row[key], row["accuracy"]), []).append(row)
    dots = [
        _Dot(cost, max(rows, key=_weight), "\n= ".join(shown(_short(row), 30) for row in rows))
        for (cost, _), rows in groups.items()
    ]
    return sorted(dots, key=lambda dot: (_weight(dot.row), dot.cost))


def _weight(row: Row) -> int:
    """What is drawn last, over the others."""
    return {"coordinator": 3, "best_single": 2, "single": 0}.get(row["method"], 1)


def _short(row: Row) -> str:
    """An agent alone by its name, the best one (which has its point there too) by its method, others by both."""
    if row["method"] == "single":
        return str(row["variant"])
    return "best single" if row["method"] == REFERENCE else label(row)


def _draw_dot(axes: Axes, dot: _Dot) -> None:
    """Marker and interval."""
    marker, colour, size = MARKS.get(dot.row["method"], CONTROL)
    accuracy = 100 * dot.row["accuracy"]
    ends = [[accuracy - 100 * dot.row["ci_low"]], [100 * dot.row["ci_high"] - accuracy]]
    over = 3 + _weight(dot.row)
    axes.errorbar(dot.cost, accuracy, [[max(end[0], 0.0)] for end in ends], ecolor=colour, alpha=0.45, capsize=2)
    axes.plot(dot.cost, accuracy, marker, color=colour, markersize=size, markeredgecolor="white", zorder=over)


def _set_limits(axes: Axes, dots: Sequence[_Dot]) -> None:
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
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0) if ratio < LOG_FROM**2 else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda cost, _: number(cost)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_oracle(axes: Axes, summary: Mapping[str, Any]) -> list[Box]:
    """A dashed line at the oracle's accuracy with its name at the right end; what it covers, in axes pixels."""
    rows = [row for row in rows_of(summary) if row["method"] == "oracle" and row["accuracy"] is not None]
    if not rows:
        return []
    height = 100 * rows[0]["accuracy"]
    axes.axhline(height, color=GREY, linestyle="--", linewidth=1.2, zorder=1)
    text = axes.annotate(
        f"oracle {percent(rows[0]['accuracy'])} %", (1, height), (-2, 2), xycoords=axes.get_yaxis_transform(),
        textcoords="offset pixels", ha="right", va="bottom", color=GREY, in_layout=False,
    )  # fmt: skip
    ends = text.get_window_extent()
    return [Box(ends.x0, ends.y0, ends.x1, ends.y1)]


def _label(axes: Axes, dots: Sequence[_Dot], taken: Sequence[Box]) -> None:
    """A name beside every point, none over another."""
    from matplotlib.patheffects import withStroke

    texts = [
        axes.annotate(dot.label, (0, 0), xycoords="figure pixels", fontsize=9, in_layout=False, zorder=8,
                      weight="bold" if dot.row["method"] == "coordinator" else "normal")
        for dot in dots
    ]  # fmt: skip
    sizes = [text.get_window_extent() for text in texts]
    marks = [axes.transData.transform((dot.cost, 100 * dot.row["accuracy"])) for dot in dots]
    points = [Point(x, y, size.width, size.height) for (x, y), size in zip(marks, sizes, strict=True)]
    frame = axes.get_window_extent()
    markers = [Box(point.x - 7, point.y - 7, point.x + 7, point.y + 7) for point in points]
    bars = [_bar(axes, dot) for dot in dots]
    boxes = place(points, Box(frame.x0, frame.y0, frame.x1, frame.y1), [*taken, *markers], bars)
    for text, point, box in zip(texts, points, boxes, strict=True):
        text.set_position((box.left, box.bottom))
        text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
        others = [other for other in points if other is not point]
        if distance(box, point) > LEADER_FROM or strays(box, point, others):
            _leader(axes, point, box)


def _bar(axes: Axes, dot: _Dot) -> Box:
    """What an error bar covers."""
    x, low = axes.transData.transform((dot.cost, 100 * dot.row["ci_low"]))
    _, high = axes.transData.transform((dot.cost, 100 * dot.row["ci_high"]))
    return Box(x - 2, low, x + 2, high)


def _leader(axes: Axes, point: Point, box: Box) -> None:
    """A thin line from a label to its point, where it is not obvious."""
    end = (min(max(point.x, box.left), box.right), min(max(point.y, box.bottom), box.top))
    axes.annotate(
        "", (point.x, point.y), end, xycoords="figure pixels", textcoords="figure pixels", in_layout=False, zorder=7,
        arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 2},
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------ training


def training_png(generations: Iterable[Mapping[str, Any]], summary: Mapping[str, Any]) -> bytes | None:
    """Fitness of each generation (least, mean, most), validation of its favourite, and sigma; None without any.

    Args:
        generations: objects with `index` (from 0; drawn from 1, as the console counts), `fitness` (list), `sigma, val`
            (number or None), `episodes, logical_calls`, the counts being of that generation alone.
        summary: for the caption.
    """
    kept = sorted(generations, key=lambda payload: payload["index"])
    if not kept:
        return None
    with _canvas(9, 5.2) as figure:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        top.set_title("Training", weight="bold")
        _draw_fitness(top, kept)
        bottom.plot(_numbers(kept), [payload["sigma"] for payload in kept], "o-", color=GREY)
        bottom.set_ylabel("σ")
        bottom.set_xlabel("generation")
        bottom.xaxis.get_major_locator().set_params(integer=True)
        _caption(figure, summary, _effort(kept))
        return _png(figure)


def _effort(generations: Sequence[Mapping[str, Any]]) -> str:
    """What the generations cost together."""
    episodes, calls = (sum(payload.get(name) or 0 for payload in generations) for name in ("episodes", "logical_calls"))
    return f"{episodes:,} episodes, {calls:,} calls"


def _numbers(generations: Iterable[Mapping[str, Any]]) -> list[int]:
    """The generations' numbers, the first one 1."""
    return [payload["index"] + 1 for payload in generations]


def _draw_fitness(axes: Axes, generations: Sequence[Mapping[str, Any]]) -> None:
    """The band between least and most, the mean, and the validation points."""
    at = _numbers(generations)
    fitness = [payload["fitness"] for payload in generations]
    least, most = [min(values) for values in fitness], [max(values) for values in fitness]
    axes.fill_between(at, least, most, color=BLUE, alpha=0.15, linewidth=0)
    axes.vlines(at, least, most, color=BLUE, alpha=0.45, linewidth=1.5, label="candidates, least to most")
    axes.plot(at, [sum(values) / len(values) for values in fitness], "o-", color=BLUE, label="mean of candidates")
    checked = [payload for payload in generations if payload.get("val") is not None]
    if checked:
        found = [payload["val"] for payload in checked]
        axes.plot(_numbers(checked), found, "D", color=VERMILLION, label="favourite on validation items")
    axes.set_ylabel("fitness")
    axes.margins(y=0.08)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=9, borderaxespad=0.1)


# ---------------------------------------------------------------------------------------------------------- use


def use_png(uses: Iterable[Use], summary: Mapping[str, Any]) -> bytes | None:
    """How often each agent was asked in each role in test episodes, a panel per variant; None without a choice."""
    counts = Counter(uses)
    if not counts:
        return None
    variants = sorted({variant for variant, _, _ in counts}, key=lambda name: (name != "sampled", name))
    alone = {row["variant"] for row in rows_of(summary) if row["method"] == "single"}
    agents = sorted({agent for _, agent, _ in counts} | alone)
    with _canvas(max(1.2 + 3.6 * len(variants), 6.0), 2.0 + 0.55 * len(agents)) as figure:
        figure.suptitle("Who was asked, in which role", weight="bold", x=0.01, ha="left", fontsize=12)
        panels = figure.subplots(1, len(variants), sharey=True, squeeze=False)[0]
        for axes, variant in zip(panels, variants, strict=True):
            _draw_use(axes, variant, agents, counts)
        panels[0].set_yticks(range(len(agents)), [shown(agent, 28) for agent in agents])
        _caption(figure, summary, "choices in test episodes and their share")
        return _png(figure)


def _draw_use(axes: Axes, variant: str, agents: Sequence[str], counts: Mapping[Use, int]) -> None:
    """One heat map, each cell with its count and share."""
    total = sum(count for (name, _, _), count in counts.items() if name == variant)
    grid = [[counts.get((variant, agent, role), 0) for role in ROLES] for agent in agents]
    axes.imshow([[count / total for count in line] for line in grid], cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for y, line in enumerate(grid):
        for x, count in enumerate(line):
            share = count / total
            colour = "white" if share > 0.55 else "black"  # noqa: PLR2004 - where Blues turns dark
            axes.text(x, y, f"{count:,}\n{100 * share:.0f} %", ha="center", va="center", color=colour, fontsize=9)
    axes.set_title(f"{shown(variant) or 'policy'} ({total:,} choices)", fontsize=10)
    axes.set_xticks(range(len(ROLES)), ROLES)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
