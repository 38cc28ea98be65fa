"""Who was asked when and in which role, how long calls took, and what failed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from evals.report.canvas import (
    SMALL,
    WIDTH,
    Picture,
    canvas,
    count_along,
    panel,
    picture,
    picture_text,
    pool_caption,
    room,
)
from evals.report.palette import light
from evals.report.rows import Row
from evals.report.summary import label, rows_of
from evals.report.text import number
from evals.stats.methods import SINGLE
from trinity.types import ROLES, Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TURNS = 8
"""Later turns share the last column."""
GRADES = ("correct", "wrong")
LATENCY_STEP = 1.03
"""Latencies are counted in bins that are so many times as wide as the one before: 3 %, finer than any clock needs."""
LINE = 0.3
"""Inches of a row of bars."""


class Use(NamedTuple):
    """One choice of a policy (method/variant) in a test episode; `turn` counts from 0."""

    policy: str
    agent: str
    role: str
    turn: int


# ---------------------------------------------------------------------------------------------------------- use


def use(counts: Mapping[Use, int], summary: Mapping[str, Any]) -> Picture | None:
    """Share of each agent and role among the choices of each turn, a heat map per policy; None without a choice."""
    if not counts:
        return None
    policies = sorted({entry.policy for entry in counts}, key=lambda name: ("sampled" not in name, name))
    alone = {row["variant"] for row in rows_of(summary) if row["method"] == SINGLE}
    agents = sorted({entry.agent for entry in counts} | alone)
    turns = min(max(entry.turn for entry in counts) + 1, MOST_TURNS)
    left, high = min(room(picture_text(agent, 24) for agent in agents), 2.0), 0.24 * len(agents)
    with canvas((high + 0.85) * len(policies) - 0.15, "use") as figure:
        for row, policy in enumerate(policies):
            axes = panel(figure, left, row * (high + 0.85) + 0.42, WIDTH - left - 0.1, high)
            _draw_use(axes, agents, turns, [_shares(counts, policy, role) for role in ROLES])
            axes.set_title(picture_text(policy.replace("/", " "), 40), pad=16, weight="bold")
        caption = (
            f"{pool_caption(summary['pool_kind'])}, {sum(counts.values()):,} choices in test episodes. Numbers: "
            "percent of the choices of a turn that went to this agent in this role."
        )
        return picture(figure, "use", "Who was asked", caption)


def _shares(counts: Mapping[Use, int], policy: str, role: str) -> dict[tuple[str, int], float]:
    """(agent, turn) -> share of the turn's choices."""
    totals: Counter[int] = Counter()
    found: Counter[tuple[str, int]] = Counter()
    for entry, count in counts.items():
        if entry.policy == policy:
            turn = min(entry.turn, MOST_TURNS - 1)
            totals[turn] += count
            if entry.role == role:
                found[entry.agent, turn] += count
    return {place: count / totals[place[1]] for place, count in found.items()}


def _draw_use(axes: Axes, agents: Sequence[str], turns: int, roles: Sequence[Mapping[tuple[str, int], float]]) -> None:
    """Agents by turns, a block of columns per role, the darker the larger the share."""
    step = turns + 0.5
    places = [(role * step + turn, y, turn, agent, role) for role in range(len(ROLES))
              for y, agent in enumerate(agents) for turn in range(turns)]  # fmt: skip
    found = [Cell(x, y, "blue", roles[role].get((agent, turn), 0.0)) for x, y, turn, agent, role in places]
    draw_cells(axes, found)
    for cell in found:
        if cell.depth:
            text = f"{100 * cell.depth:.0f}" if cell.depth >= 0.005 else "<1"  # noqa: PLR2004 - what rounds to 0 %
            axes.text(cell.x, cell.y, text, ha="center", va="center_baseline", fontsize=SMALL)
    for place, role in enumerate(ROLES):
        axes.text(place * step - 0.5, -0.75, role, fontsize=SMALL)
    names = [f"{turn + 1}{'+' if turn + 1 == MOST_TURNS else ''}" for turn in range(turns)]
    set_grid(
        axes, [role * step + turn for role in range(len(ROLES)) for turn in range(turns)], names * len(ROLES), agents
    )


class Cell(NamedTuple):
    """One field of a heat map; `depth` is from 0 to 1."""

    x: float
    y: float
    colour: str
    depth: float


def draw_cells(axes: Axes, cells: Sequence[Cell]) -> None:
    """The fields of a heat map; none is so deep that it hides a text on it, on light or dark paper."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    colours = [
        to_rgba(light(cell.colour if cell.depth else "panel"), 0.08 + 0.54 * cell.depth if cell.depth else 1.0)
        for cell in cells
    ]
    fields = [Rectangle((cell.x - 0.47, cell.y - 0.45), 0.94, 0.9) for cell in cells]
    axes.add_collection(PatchCollection(fields, facecolors=colours, linewidths=0))


def set_grid(axes: Axes, at: Sequence[float], columns: Sequence[str], rows: Sequence[str]) -> None:
    """Names of columns and rows of a heat map, and nothing else around it."""
    axes.set_xlim(-0.5, max(at) + 0.5)
    set_lines(axes, at, columns, [picture_text(name, 24) for name in rows])
    axes.grid(visible=False)


def set_lines(axes: Axes, at: Sequence[float], columns: Sequence[str], rows: Sequence[str]) -> None:
    """Names of places along and of lines from the top, without ticks and frame."""
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(at, columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


# ------------------------------------------------------------------------------------------------------ latency


def seconds(value: float) -> str:
    """A time in the unit that it is read in."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if value >= unit:
            return f"{number(value / unit)} {name}"
    return f"{number(value / 1e-6)} µs"


def latency_bin(latency_s: float) -> int:
    """The bin of a latency."""
    return math.floor(math.log(latency_s) / math.log(LATENCY_STEP))


def latency(found: Mapping[str, Mapping[int, int]], summary: Mapping[str, Any]) -> Picture | None:
    """How long calls to each agent took; None where no call took any time.

    Args:
        found: agent -> bin (`latency_bin`) -> calls.
        summary: for the caption.
    """
    names = sorted(found)
    if not names:
        return None
    left = min(room(picture_text(name, 24) for name in names), 2.2)
    height = LINE * len(names)
    with canvas(height + 0.75, "latency") as figure:
        axes = panel(figure, left, 0.15, WIDTH - left - 1.1, height)
        for place, name in enumerate(names):
            _draw_latency(axes, place, found[name])
        _set_seconds(axes)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), [picture_text(name, 24) for name in names])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("time per call")
        caption = (
            f"{pool_caption(summary['pool_kind'])}, {sum(sum(bins.values()) for bins in found.values()):,} calls, each "
            "timed by its last attempt alone, without retries and waits. Thin bars: 5 to 95 %, thick bars: the middle "
            "half, number: the median."
        )
        return picture(figure, "latency", "Call latency", caption)


def quantiles(bins: Mapping[int, int], shares: Sequence[float]) -> list[float]:
    """Latencies in seconds below which `shares` of the calls stay, to within a bin's width."""
    at = np.array(sorted(bins))
    ranks = np.cumsum([bins[place] for place in at])
    found = np.searchsorted(ranks, np.array(shares) * ranks[-1])
    return [float(LATENCY_STEP ** (at[min(place, len(at) - 1)] + 0.5)) for place in found]


def _draw_latency(axes: Axes, place: int, bins: Mapping[int, int]) -> None:
    """Two bars and the median of one agent."""
    ends = quantiles(bins, (0.05, 0.25, 0.5, 0.75, 0.95))
    blue = light("blue")
    axes.hlines(place, ends[0], ends[4], color=blue, linewidth=1.4)
    axes.hlines(place, ends[1], ends[3], color=blue, alpha=0.6, linewidth=7)
    axes.plot(ends[2], place, "o", color=light("paper"), markeredgecolor=blue, markersize=4.5)
    axes.annotate(
        seconds(ends[2]), (1, place), (6, 0), xycoords=axes.get_yaxis_transform(), textcoords="offset points",
        va="center_baseline", fontsize=SMALL,
    )  # fmt: skip


def _set_seconds(axes: Axes) -> None:
    """A logarithmic axis of times."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    wide = high / low > 100  # noqa: PLR2004 - two decades leave room for their powers alone
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=9))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value)))
    axes.xaxis.set_minor_locator(NullLocator())


# ----------------------------------------------------------------------------------------------------- failures


def failures(summary: Mapping[str, Any], attempts: Mapping[str, int]) -> Picture | None:
    """Episodes per row that did not end as right or wrong, and failed attempts by kind; None without any.

    Args:
        summary: of the run.
        attempts: kind of a failed attempt -> how many there were.
    """
    rows = [row for row in rows_of(summary) if any(_failed(row).values())]
    kinds = sorted(attempts, key=lambda kind: (-attempts[kind], kind))
    if not rows and not kinds:
        return None
    left = min(
        room([*(picture_text(label(row), 28) for row in rows), *(picture_text(kind, 28) for kind in kinds)]), 2.3
    )
    heights = [LINE * len(rows) + 1.0 if rows else 0.0, LINE * len(kinds) + 0.75 if kinds else 0.0]
    with canvas(sum(heights), "failures") as figure:
        if rows:
            _draw_statuses(panel(figure, left, 0.4, WIDTH - left - 0.3, LINE * len(rows)), rows)
        if kinds:
            axes = panel(figure, left, heights[0] + 0.15, WIDTH - left - 0.8, LINE * len(kinds))
            _draw_kinds(axes, [(kind, attempts[kind]) for kind in kinds])
        caption = f"{pool_caption(summary['pool_kind'])}. {_told(bool(rows), bool(kinds))}"
        return picture(figure, "failures", "Failures by kind", caption)


def _told(rows: bool, kinds: bool) -> str:  # noqa: FBT001 - which of the two panels there are
    """What the panels show."""
    parts = ["Episodes that did not end as right or wrong."] if rows else []
    return " ".join([*parts, *(["Attempts at calls that failed and were tried again or given up."] if kinds else [])])


def _failed(row: Row) -> dict[str, int]:
    """Status -> episodes of a row, without those that were right or wrong."""
    return {name: row["statuses"].get(name, 0) for name in get_args(Status) if name not in GRADES}


def _draw_statuses(axes: Axes, rows: Sequence[Row]) -> None:
    """A stacked bar per row, in percent of its episodes."""
    colours = dict(zip(_failed(rows[0]), ("orange", "purple", "sky", "vermillion", "soft"), strict=True))
    low = np.zeros(len(rows))
    for name, colour in colours.items():
        shares = np.array([100 * _failed(row)[name] / max(row["n_episodes"], 1) for row in rows])
        if shares.any():
            axes.barh(range(len(rows)), shares, 0.62, low, color=light(colour), label=name, linewidth=0)
            low += shares
    _set_bars(axes, [label(row) for row in rows])
    axes.set_xlabel("% of episodes")
    axes.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=5, borderaxespad=0.1, handlelength=0.9, columnspacing=1.2
    )


def _draw_kinds(axes: Axes, counts: Sequence[tuple[str, int]]) -> None:
    """A bar per kind of failed attempt."""
    axes.barh(range(len(counts)), [count for _, count in counts], 0.62, color=light("vermillion"), linewidth=0)
    for place, (_, count) in enumerate(counts):
        axes.annotate(
            f"{count:,}", (count, place), (4, 0), textcoords="offset points", va="center_baseline", fontsize=SMALL
        )
    _set_bars(axes, [kind for kind, _ in counts])
    axes.set_xlabel("failed attempts")
    count_along(axes)


def _set_bars(axes: Axes, names: Sequence[str]) -> None:
    """Horizontal bars from the top, with their names."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [picture_text(name, 28) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
