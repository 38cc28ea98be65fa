"""How a policy was trained: fitness, validation and sigma, and what it chose, generation by generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evals.report.canvas import SMALL, WIDTH, Picture, canvas, count_along, panel, picture, picture_text, pool_caption
from evals.report.palette import SERIES, light
from trinity.types import ROLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS = 60
"""So many generations are drawn as bars, more as areas."""
OTHERS = "others"
ROLE_COLOURS = ("purple", "sky", "vermillion")

Shares = Mapping[int, Mapping[str, int]]
"""Generation (from 0) -> agent or role -> how often it was chosen."""


@dataclass(frozen=True)
class Training:
    """What a trainer left of its generations.

    `generations` are objects with `index` (from 0; drawn from 1, as the console counts), `fitness` (list), `sigma`,
    `val` (number or None), `episodes` and `logical_calls`, the counts being of that generation alone. `agents` and
    `roles` count the choices of its candidates.
    """

    generations: Sequence[Mapping[str, Any]]
    agents: Shares = field(default_factory=dict)
    roles: Shares = field(default_factory=dict)


def training(name: str, found: Training, pool_kind: str) -> Picture | None:
    """Fitness of each generation's candidates, validation of its favourite, and sigma; None without a generation."""
    kept = sorted(found.generations, key=lambda payload: payload["index"])
    if not kept:
        return None
    from matplotlib.ticker import FuncFormatter

    with canvas(4.22, f"training {name}") as figure:
        top = panel(figure, 0.6, 0.35, WIDTH - 0.75, 2.35)
        bottom = panel(figure, 0.6, 2.9, WIDTH - 0.75, 0.85)
        bottom.sharex(top)
        _draw_fitness(top, kept)
        bottom.plot(
            _numbers(kept), [payload["sigma"] for payload in kept], _line(kept), color=light("soft"), markersize=3
        )
        bottom.set_ylim(0, 1.15 * max(payload["sigma"] for payload in kept))
        bottom.yaxis.set_major_formatter(FuncFormatter(lambda sigma, _: f"{sigma:.3g}"))
        bottom.set_ylabel("σ")
        bottom.set_xlim(kept[0]["index"] + 0.5, kept[-1]["index"] + 1.5)
        bottom.set_xlabel("generation")
        count_along(bottom)
        top.tick_params(labelbottom=False)
        episodes, calls = (sum(payload.get(key) or 0 for payload in kept) for key in ("episodes", "logical_calls"))
        begins = f"{pool_caption(pool_kind)}, {picture_text(name)}"
        caption = f"{begins}: {episodes:,} episodes and {calls:,} calls before the test."
        return picture(figure, "training", "Training", caption)


def _line(generations: Sequence[Mapping[str, Any]]) -> str:
    """A line, with a point for each generation where they are few."""
    return "o-" if len(generations) <= BARS else "-"


def _numbers(generations: Sequence[Mapping[str, Any]]) -> list[int]:
    """The generations' numbers, the first one 1."""
    return [payload["index"] + 1 for payload in generations]


def _draw_fitness(axes: Axes, generations: Sequence[Mapping[str, Any]]) -> None:
    """Bands from least to most and over the middle half, the mean, and the validation points."""
    at, blue = _numbers(generations), light("blue")
    spread = np.array([np.quantile(payload["fitness"], (0, 0.25, 0.75, 1)) for payload in generations])
    if len(at) <= BARS:
        axes.vlines(at, spread[:, 0], spread[:, 3], color=blue, alpha=0.35, linewidth=1.4, label="all candidates")
        axes.vlines(at, spread[:, 1], spread[:, 2], color=blue, alpha=0.45, linewidth=5, label="their middle half")
    else:
        axes.fill_between(at, spread[:, 0], spread[:, 3], color=blue, alpha=0.18, linewidth=0, label="all candidates")
        axes.fill_between(at, spread[:, 1], spread[:, 2], color=blue, alpha=0.3, linewidth=0, label="their middle half")
    means = [float(np.mean(payload["fitness"])) for payload in generations]
    axes.plot(at, means, _line(generations), color=blue, markersize=3.5, label="mean")
    checked = [payload for payload in generations if payload.get("val") is not None]
    if checked:
        found = [payload["val"] for payload in checked]
        axes.plot(_numbers(checked), found, "D", color=light("vermillion"), label="favourite, validation")
    axes.set_ylabel("fitness")
    axes.margins(y=0.08)
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.1, handlelength=1.4, columnspacing=1.2
    )


def choices(name: str, found: Training, pool_kind: str) -> Picture | None:
    """Shares of agents and of roles among the choices of each generation; None without a choice."""
    if not found.agents:
        return None
    with canvas(4.2, f"choices {name}") as figure:
        for top, title, shares, names, colours in (
            (0.1, "agents", found.agents, _by_use(found.agents), SERIES),
            (2.1, "roles", found.roles, ROLES, ROLE_COLOURS),
        ):
            axes = panel(figure, 0.6, top, WIDTH - 2.05, 1.6)
            _draw_shares(axes, shares, names, colours)
            axes.set_ylabel(f"{title}, % of choices")
        axes.set_xlabel("generation")
        begins = f"{pool_caption(pool_kind)}, {picture_text(name)}"
        caption = f"{begins}: whom and in which role the candidates of each generation chose."
        return picture(figure, "choices", "Choices in training", caption)


def _by_use(shares: Shares) -> list[str]:
    """The names that are chosen most, as many as there are colours."""
    total: dict[str, int] = {}
    for counts in shares.values():
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return sorted(total, key=lambda name: (-total[name], name))[: len(SERIES)]


def _draw_shares(axes: Axes, shares: Shares, names: Sequence[str], colours: Sequence[str]) -> None:
    """Stacked shares of each generation, in percent; names without a colour are one grey part."""
    at = np.array(sorted(shares))
    totals = np.array([sum(shares[number].values()) for number in at])
    parts = {name: np.array([shares[number].get(name, 0) for number in at]) for name in names}
    parts[OTHERS] = totals - sum(parts.values())
    low = np.zeros(len(at))
    for (name, counts), colour in zip(parts.items(), [*colours[: len(names)], "soft"], strict=True):
        if counts.any():
            high = low + 100 * counts / totals
            _draw_part(axes, at + 1, low, high, light(colour), picture_text(name, 15))
            low = high
    axes.set_xlim(at[0] + 0.4, at[-1] + 1.6)
    axes.set_ylim(0, 100)
    axes.grid(visible=False)
    count_along(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1.03), fontsize=SMALL, handlelength=0.9, reverse=True)


def _draw_part(axes: Axes, at: Any, low: Any, high: Any, colour: str, name: str) -> None:
    """One name's part of the stack."""
    if len(at) <= BARS:
        paper = light("paper")
        axes.bar(at, high - low, 0.86, low, color=colour, alpha=0.85, label=name, edgecolor=paper, linewidth=0.5)
    else:
        axes.fill_between(at, low, high, color=colour, alpha=0.85, linewidth=0, label=name)
