"""The numbers of one comparison: two rows, item by item. Swapping them turns signs and ratios and nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.comparison.runs import AXES, Played, Run
from evals.report.rows import ALL, SEED
from evals.report.tally import ItemKey, RowKey, named
from evals.stats.bootstrap import bootstrap_ratios
from evals.stats.contrasts import contrasts
from evals.stats.intervals import percentile_ends
from evals.stats.power import detectable

LEVEL = 0.95
_FEWEST = 2
"""Items of which a spread can be seen."""

Numbers = dict[str, Any]

_RATIO = ("mean", "mean_reference", "ratio", "ci_low", "ci_high")
_CONTRAST = ("difference", "ci_low", "ci_high", "wins", "ties", "losses", "test", "p")
_NOTHING: Numbers = {
    **dict.fromkeys(("accuracy", "accuracy_reference", *_CONTRAST, "detectable")),
    **dict.fromkeys(("wins", "ties", "losses"), 0),
    "ratios": {axis: dict.fromkeys(_RATIO) for axis in AXES},
}
"""What is known without a paired item."""


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A row of a run."""

    run: Run
    key: RowKey
    played: Played

    @property
    def name(self) -> str:
        """How it is called: run, method, variant."""
        return f"{self.run.label} {named(self.key)}"


Pair = tuple[Side, Side]
"""A row and what it is compared with."""


class _Row(NamedTuple):
    """A side on the n items that were graded for both: mean score and difficulty (n,), costs (n, n_axes)."""

    score: NDArray[np.float64]
    difficulty: NDArray[np.float64]
    costs: NDArray[np.float64]


def pair_numbers(side: Side, reference: Side, task: str = ALL) -> Numbers:
    """Everything that is said of `side` - `reference` on the items of a task, or of all.

    Items are those with the same task and id that were graded for both. Keys: `n_items`, `n_items_reference` (asked),
    `n_common` (asked of both), `n_paired` (graded for both), `accuracy`, `accuracy_reference` (on the paired items),
    `difference, ci_low, ci_high`, `wins, ties, losses` (items), `test, p`, `detectable` and `ratios` by axis. Without
    a paired item all of these are None.
    """
    ours, theirs = (_of_task(one.played, task) for one in (side, reference))
    common = sorted(ours.keys() & theirs.keys())
    paired = [item for item in common if side.played.graded[ours[item]] and reference.played.graded[theirs[item]]]
    counts = {"n_items": len(ours), "n_items_reference": len(theirs), "n_common": len(common), "n_paired": len(paired)}
    if not paired:
        return counts | _NOTHING
    a, b = (_row(one.played, [place[item] for item in paired]) for one, place in ((side, ours), (reference, theirs)))
    return counts | _numbers(a, b, [task for task, _ in paired])


def _of_task(row: Played, task: str) -> dict[ItemKey, int]:
    """Place of each item of a task."""
    return {item: place for place, item in enumerate(row.items) if task in (ALL, item[0])}


def _row(row: Played, places: Sequence[int]) -> _Row:
    """What a row did on these items."""
    costs = np.stack([row.costs[axis][places] for axis in AXES], axis=1)
    return _Row(row.score[places], np.array([row.about[place][1] for place in places]), costs)


def _numbers(a: _Row, b: _Row, tasks: Sequence[str]) -> Numbers:
    """The numbers of a - b on at least one item of these tasks; a difficulty counts where both runs tell the same."""
    differences = a.score - b.score
    difficulty = np.where(a.difficulty == b.difficulty, a.difficulty, np.nan)
    task = np.unique(tasks, return_inverse=True)[1].astype(np.int32)
    (found,) = contrasts(differences[:, None], difficulty=difficulty, task=task, seed=SEED)
    if found is None:
        raise ValueError("there is no item to compare on")
    return {
        "accuracy": math.fsum(a.score) / a.score.size,
        "accuracy_reference": math.fsum(b.score) / b.score.size,
        **{name: getattr(found, name) for name in _CONTRAST},
        "detectable": detectable(differences).difference,
        "ratios": _ratios(a.costs, b.costs),
    }


def _ratios(a: NDArray[np.float64], b: NDArray[np.float64]) -> dict[str, Numbers]:
    """Mean cost of a over mean cost of b by axis, percentile bootstrap over whole items.

    A cost is unknown where it is so for one episode. A ratio wants costs above 0 on both sides.
    """
    ends = percentile_ends(bootstrap_ratios(a, b, seed=SEED), LEVEL)
    return {axis: _ratio(a[:, place], b[:, place], ends[:, place]) for place, axis in enumerate(AXES)}


def _ratio(a: NDArray[np.float64], b: NDArray[np.float64], ends: NDArray[np.float64]) -> Numbers:
    """One axis; None where the costs are unknown, or 0 on one side."""
    means = [None if np.isnan(costs).any() else math.fsum(costs) / costs.size for costs in (a, b)]
    found: Numbers = dict.fromkeys(_RATIO) | dict(zip(_RATIO, means, strict=False))
    if not means[0] or not means[1]:
        return found
    found["ratio"] = means[0] / means[1]
    if a.size >= _FEWEST and np.isfinite(ends).all() and ends[0] > 0:
        found["ci_low"], found["ci_high"] = map(float, ends)
    return found
