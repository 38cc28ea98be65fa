"""Accuracy by difficulty, and where a method helps which model: pictures of `analysis.json`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from evals.report.canvas import SMALL, WIDTH, Picture, canvas, panel, picture, picture_text, pool_caption, room
from evals.report.palette import light
from evals.report.plots_use import Cell, draw_cells, set_grid, set_lines
from evals.report.text import percent
from evals.stats.methods import BEST_SINGLE, SINGLE, is_trained, place_of, spoken, without_setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE, AROUND = 0.22, 0.85
"""Inches of a row, and of what stands over and below the rows of a task."""
QUARTILES = ("easiest", "2nd quarter", "3rd quarter", "hardest")

NAME = 36
"""Letters of a row's name."""
SPAN = 130
"""From the beginning of one quarter's axis to that of the next, in percent."""

Entry = Mapping[str, Any]


def difficulty(analysis: Mapping[str, Any]) -> Picture | None:
    """Accuracy by difficulty quartile, a line per row and a panel per quartile; None where none is known."""
    tasks = {
        name: entries
        for name, task in (analysis.get("tasks") or {}).items()
        if (entries := (task.get("difficulty") or {}).get("quartiles"))
    }
    if not tasks:
        return None
    rows = {name: sorted(dict.fromkeys(map(_row, entries)), key=_place) for name, entries in tasks.items()}
    heights = {name: LINE * len(names) + AROUND for name, names in rows.items()}
    left = min(room(picture_text(_name(row), NAME) for names in rows.values() for row in names), 2.5)
    with canvas(sum(heights.values()) + 0.1, "difficulty") as figure:
        for task, axes in _panels(figure, left, heights):
            _draw_quartiles(axes, tasks[task], rows[task], str(analysis.get("reference") or BEST_SINGLE))
        caption = (
            f"{pool_caption(analysis.get('pool_kind'))}. Accuracy (%) with 95 % intervals; items are cut into quarters "
            "by their difficulty within a task."
        )
        return picture(figure, "difficulty", "Difficulty", caption)


def _panels(figure: Figure, left: float, heights: Mapping[str, float]) -> Iterator[tuple[str, Axes]]:
    """A panel a task, one below the other, under the task's name; `heights` in inches, with what stands around."""
    top = 0.0
    for task, height in heights.items():
        axes = panel(figure, left, top + 0.45, WIDTH - left - 0.15, height - AROUND)
        axes.set_title(picture_text(task, 40), pad=16, weight="bold")
        yield task, axes
        top += height


def _row(entry: Entry) -> tuple[str, str]:
    """What stands on one line."""
    return str(entry["method"]), str(entry["backbone"])


def _place(row: tuple[str, str]) -> float:
    """Where a method stands in pictures, as in tables."""
    return place_of(without_setting(row[0]))


def _name(row: tuple[str, str]) -> str:
    """A method and the model or pool behind it."""
    return row[1] if row[0] == SINGLE else " · ".join(part for part in row if part)


def _draw_quartiles(axes: Axes, entries: Sequence[Entry], rows: Sequence[tuple[str, str]], reference: str) -> None:
    """Points with intervals, rows from the top, the quarters side by side on one axis that begins anew for each."""
    for colour in ("blue", "green", "vermillion"):
        points = [entry for entry in entries if entry["accuracy"] is not None and _colour(entry, reference) == colour]
        heights = [rows.index(_row(entry)) for entry in points]
        at, low, high = (
            [
                SPAN * entry["quartile"] + 100 * (entry["accuracy"] if entry[key] is None else entry[key])
                for entry in points
            ]
            for key in ("accuracy", "ci_low", "ci_high")
        )
        axes.hlines(heights, low, high, color=light(colour), alpha=0.55, linewidth=1.6)
        axes.plot(at, heights, "o", color=light(colour), markersize=4.2, markeredgecolor=light("paper"))
    for place, name in enumerate(QUARTILES):
        axes.text(SPAN * place, -0.85, name, fontsize=SMALL)
    ends = [SPAN * place + share for place in range(len(QUARTILES)) for share in (0, 50, 100)]
    axes.set_xlim(-5, SPAN * len(QUARTILES) - 24)
    set_lines(axes, ends, ["0", "50", "100"] * len(QUARTILES), [picture_text(_name(row), NAME) for row in rows])


def _colour(entry: Entry, reference: str) -> str:
    """Coordinators and the reference have colours of their own."""
    method = str(entry["method"])
    return "vermillion" if is_trained(without_setting(method)) else "green" if method == reference else "blue"


def _methods(entries: Sequence[Entry]) -> list[str]:
    """The methods of some entries in the order of tables."""
    return sorted(dict.fromkeys(entry["method"] for entry in entries), key=lambda name: place_of(without_setting(name)))


def gains(analysis: Mapping[str, Any]) -> Picture | None:
    """Difference to the reference by quarter of difficulty, a line per method; None where none is known."""
    every = {name: (task.get("difficulty") or {}).get("gains") for name, task in (analysis.get("tasks") or {}).items()}
    tasks = {name: entries for name, entries in every.items() if entries}
    if not tasks:
        return None
    methods = {name: _methods(entries) for name, entries in tasks.items()}
    left = min(room(picture_text(method, 24) for names in methods.values() for method in names), 2.0)
    heights = {name: LINE * len(names) + AROUND for name, names in methods.items()}
    ends = [abs(entry[key] or 0.0) for entries in tasks.values() for entry in entries for key in ("ci_low", "ci_high")]
    most = max(math.ceil(20 * max(ends)) * 5, 5)
    with canvas(sum(heights.values()) + 0.1, "gains") as figure:
        for task, axes in _panels(figure, left, heights):
            _draw_gains(axes, tasks[task], methods[task], most)
        caption = (
            f"{pool_caption(analysis.get('pool_kind'))}. Accuracy minus that of {against(analysis)} in points with 95 "
            "% intervals, over all backbones, by quarter of difficulty within a task."
        )
        return picture(figure, "gains", "Gain by difficulty", caption)


def _draw_gains(axes: Axes, entries: Sequence[Entry], methods: Sequence[str], most: int) -> None:
    """Points with intervals, the quarters side by side, each on its own axis from -most to most points."""
    step = 2.9 * most
    for entry in entries:
        middle, height = step * entry["quartile"], methods.index(entry["method"])
        at, low, high = (
            middle + 100 * (entry["difference"] if entry[key] is None else entry[key])
            for key in ("difference", "ci_low", "ci_high")
        )
        colour = light("vermillion" if is_trained(without_setting(entry["method"])) else "blue")
        axes.plot((low, high), (height, height), color=colour, alpha=0.55, linewidth=1.6)
        axes.plot(at, height, "o", color=colour, markersize=4.2, markeredgecolor=light("paper"))
    for number, name in enumerate(QUARTILES):
        axes.axvline(step * number, color=light("soft"), linewidth=0.9, zorder=1)
        axes.text(step * number - most, -0.85, name, fontsize=SMALL)
    ends = [step * number + end for number in range(len(QUARTILES)) for end in (-most, 0, most)]
    axes.set_xlim(-1.05 * most, step * (len(QUARTILES) - 1) + 1.05 * most)
    marks = [f"\N{MINUS SIGN}{most}", "0", f"+{most}"] * len(QUARTILES)
    set_lines(axes, ends, marks, [picture_text(name, 24) for name in methods])


def interacts(entries: Sequence[Entry]) -> bool:
    """Whether a method (agents alone are none) was tried on two backbones, so that they can be told apart."""
    pairs = {(entry["method"], entry["backbone"]) for entry in entries if entry["method"] != SINGLE}
    return len(pairs) > len({method for method, _ in pairs})


def against(analysis: Entry) -> str:
    """How a sentence calls what differences are taken to."""
    return spoken(str(analysis.get("reference") or BEST_SINGLE))


def interaction(analysis: Mapping[str, Any]) -> Picture | None:
    """Difference to the reference per method and backbone; None where no method was tried on two of them."""
    found = {name: task.get("interaction") or [] for name, task in (analysis.get("tasks") or {}).items()}
    tasks = {name: rows for name, rows in found.items() if interacts(rows)}
    if not tasks:
        return None
    methods = {name: _methods(entries) for name, entries in tasks.items()}
    left = min(room(picture_text(method, 24) for names in methods.values() for method in names), 2.0)
    heights = {name: 0.34 * len(names) + 0.88 for name, names in methods.items()}
    most = max((abs(entry["difference"] or 0.0) for entries in tasks.values() for entry in entries), default=0.0) or 1.0
    with canvas(sum(heights.values()) + 0.05, "interaction") as figure:
        top = 0.0
        for task, entries in tasks.items():
            axes = panel(figure, left, top + 0.35, WIDTH - left - 0.1, 0.34 * len(methods[task]))
            _draw_heat(axes, entries, methods[task], most)
            axes.set_title(picture_text(task, 40), fontsize=SMALL + 0.5)
            top += heights[task]
        caption = (
            f"{pool_caption(analysis.get('pool_kind'))}. Accuracy minus that of {against(analysis)} in points, per "
            "method and backbone; bold: the 95 % interval leaves out 0."
        )
        return picture(figure, "interaction", "Method and backbone", caption)


def _draw_heat(axes: Axes, entries: Sequence[Entry], methods: Sequence[str], most: float) -> None:
    """A field per method and backbone with its number: blue is better, orange worse."""
    backbones = list(dict.fromkeys(entry["backbone"] for entry in entries))
    at = [(backbones.index(entry["backbone"]), methods.index(entry["method"]), entry) for entry in entries]
    values = [entry["difference"] or 0.0 for entry in entries]
    draw_cells(
        axes,
        [
            Cell(x, y, "blue" if value >= 0 else "orange", abs(value) / most)
            for (x, y, _), value in zip(at, values, strict=True)
        ],
    )
    for x, y, entry in at:
        low, high = entry["ci_low"], entry["ci_high"]
        sure = low is not None and high is not None and (low > 0 or high < 0)
        text = "n/a" if entry["difference"] is None else percent(entry["difference"], signed=True)
        weight = "bold" if sure else "normal"
        axes.text(x, y, text, ha="center", va="center_baseline", fontsize=SMALL, weight=weight)
    width = max(int(62 / len(backbones)), 6)
    set_grid(
        axes, range(len(backbones)), ["\n".join(wrap(picture_text(name), width)[:2]) for name in backbones], methods
    )
