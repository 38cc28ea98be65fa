"""Colours and shapes of rows in the plane of accuracy and cost, and the key that tells them where rows are many."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

from evals.report.canvas import WIDTH, panel, picture_text
from evals.report.palette import SERIES, light
from evals.report.rows import Row
from evals.stats.methods import BEST_SINGLE, SINGLE, is_trained, place_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class Mark(NamedTuple):
    """How a row is drawn."""

    shape: str
    colour: str
    size: float


ALONE, REFERENCE = Mark("o", "blue", 5.5), Mark("s", "green", 6)
COORDINATOR, OTHER = Mark("*", "vermillion", 12), Mark("D", "orange", 5)
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "p", "h", "<", ">", "d")
"""Of methods in the order of tables; those after the last begin anew."""
LINE, LETTER, LETTERS = 0.17, 0.07, 28
"""Inches of a line of the key and of a letter in it, and letters of a name."""


def weight(row: Row) -> int:
    """What is drawn last, over the others."""
    if is_trained(row["method"]):
        return 3
    return 2 if _is_reference(row) else 0 if row["method"] == SINGLE else 1


def _is_reference(row: Row) -> bool:
    """Whether a row is of the method that differences are taken to, under its own name."""
    return bool(row["method"] == (row.get("reference_method") or BEST_SINGLE))


def backbone_of(row: Row) -> str:
    """The agent behind a row; of runs that an earlier version made its variant."""
    return str(row.get("backbone") or row["variant"])


class Key(NamedTuple):
    """Backbones with a colour and methods with a shape, in the order of tables; both empty where names tell all."""

    colours: Mapping[str, str]
    shapes: Mapping[str, str]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Key:
        """A colour for each backbone of several methods (one for all after the sixth), a shape for each method."""
        there: dict[str, set[str]] = {}
        for row in rows:
            there.setdefault(backbone_of(row), set()).add(row["method"])
        shared = sorted(name for name, methods in there.items() if len(methods) > 1)
        methods = sorted(set().union(*(there[name] for name in shared)), key=lambda name: (place_of(name), name))
        shapes = {name: SHAPES[number % len(SHAPES)] for number, name in enumerate(methods)}
        return cls(dict(zip(shared, chain(SERIES, repeat("soft")), strict=False)), shapes)

    @property
    def height(self) -> float:
        """Inches of the key."""
        return sum(_lines(names) * LINE + 0.1 for names in (self.shapes, self.colours) if names)

    def tells(self, row: Row) -> bool:
        """Whether colour and shape tell a row."""
        return backbone_of(row) in self.colours and not is_trained(row["method"])

    def mark(self, row: Row) -> Mark:
        """How a row is drawn."""
        if is_trained(row["method"]):
            return COORDINATOR
        if self.tells(row):
            return Mark(self.shapes[row["method"]], self.colours[backbone_of(row)], 6)
        return REFERENCE if _is_reference(row) else ALONE if row["method"] == SINGLE else OTHER


def draw_paths(axes: Axes, points: Sequence[tuple[float, Row]], key: Key) -> None:
    """A thin line through the points of each backbone, in the order of their cost."""
    for backbone, colour in key.colours.items():
        own = sorted((cost, row["accuracy"]) for cost, row in points if key.tells(row) and backbone_of(row) == backbone)
        costs, heights = [cost for cost, _ in own], [100 * accuracy for _, accuracy in own]
        axes.plot(costs, heights, color=light(colour), alpha=0.35, linewidth=0.9, zorder=1.5)


def draw_key(figure: Figure, key: Key, top: float) -> None:
    """Shapes with their methods, below them colours with their backbones, from `top` inches on."""
    from matplotlib.lines import Line2D

    shapes = [Line2D([], [], marker=shape, color=light("ink"), linewidth=0) for shape in key.shapes.values()]
    colours = [Line2D([], [], marker="s", color=light(colour), linewidth=0) for colour in key.colours.values()]
    for names, marks in ((key.shapes, shapes), (key.colours, colours)):
        if names:
            _draw_names(figure, list(names), marks, top)
            top += _lines(names) * LINE + 0.1


def _draw_names(figure: Figure, names: Sequence[str], marks: Sequence[Line2D], top: float) -> None:
    """Marks with their names, in columns."""
    axes = panel(figure, 0.5, top, WIDTH - 0.6, _lines(names) * LINE)
    axes.set_axis_off()
    axes.legend(
        marks, [picture_text(name, LETTERS) for name in names], loc="upper left", ncols=_columns(names),
        borderaxespad=0, borderpad=0, handlelength=1, handletextpad=0.5, columnspacing=1.4, labelspacing=0.3,
    )  # fmt: skip


def _columns(names: Collection[str]) -> int:
    """How many names stand side by side."""
    longest = max(len(picture_text(name, LETTERS)) for name in names)
    return max(1, min(len(names), int((WIDTH - 0.6) / (longest * LETTER + 0.35))))


def _lines(names: Collection[str]) -> int:
    """How many lines names take."""
    return math.ceil(len(names) / _columns(names)) if names else 0
