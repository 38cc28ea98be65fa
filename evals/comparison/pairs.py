"""The numbers of one comparison: two rows, item by item. Swapping them turns signs and ratios and nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.comparison.runs import ALL, AXES, ItemKey, Played, RowKey, Run, named
from evals.stats.bootstrap import bootstrap_ratios, paired_difference
from evals.stats.contrasts import EXACT, sign_flip_p
from evals.stats.intervals import RESAMPLES, percentile_ends
from evals.stats.power import minimum_detectable_difference

SEED = 0
"""Of every resampling: the same records give the same numbers, those of a run's own table included."""
LEVEL = 0.95
POWER = 0.8

_DIGITS = 12
"""Decimals to which scores are compared: equal scores may have been added in another order."""
_FEWEST = 2
"""Items of which a spread can be seen."""

Numbers = dict[str, Any]

_RATIO = ("mean", "mean_reference", "ratio", "ci_low", "ci_high")
_NOTHING: Numbers = {
    **dict.fromkeys(("accuracy", "accuracy_reference", "difference", "ci_low", "ci_high")),
    **dict.fromkeys(("wins", "ties", "losses"), 0),
    **dict.fromkeys(("test", "p", "detectable")),
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
    """A side on the n items that were graded for both: replicates and mean score (n,), costs (n, n_axes)."""

    graded: NDArray[np.int64]
    score: NDArray[np.float64]
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
    return counts | _numbers(a, b)


def _of_task(row: Played, task: str) -> dict[ItemKey, int]:
    """Place of each item of a task."""
    return {item: place for place, item in enumerate(row.items) if task in (ALL, item[0])}


def _row(row: Played, places: Sequence[int]) -> _Row:
    """What a row did on these items."""
    costs = np.stack([row.costs[axis][places] for axis in AXES], axis=1)
    return _Row(row.graded[places], row.score[places], costs)


def _numbers(a: _Row, b: _Row) -> Numbers:
    """The numbers of a - b on at least one item."""
    differences = a.score - b.score
    differences[np.round(differences, _DIGITS) == 0] = 0.0
    found = paired_difference(dict(enumerate(differences)), dict.fromkeys(range(differences.size), 0.0), SEED)
    if found is None:
        raise ValueError("there is no item to compare on")
    return {
        "accuracy": math.fsum(a.score) / a.score.size,
        "accuracy_reference": math.fsum(b.score) / b.score.size,
        "difference": found.difference + 0.0,  # no minus before a zero
        "ci_low": found.ci_low + 0.0,
        "ci_high": found.ci_high + 0.0,
        "wins": int((differences > 0).sum()),
        "ties": int((differences == 0).sum()),
        "losses": int((differences < 0).sum()),
        **_test(a, b, differences),
        "detectable": _detectable(differences),
        "ratios": _ratios(a.costs, b.costs),
    }


def _test(a: _Row, b: _Row, differences: NDArray[np.float64]) -> Numbers:
    """Two-sided p that the two rows do not differ, and how it was found: see `sign_flip_p`.

    With one 0/1 score an item on both sides this is McNemar's exact test. Sign flips are exact where few items differ,
    or all that do by the same amount.
    """
    steps = np.round(differences, _DIGITS)  # a third is a third, from whichever means it came
    differing = np.abs(steps[steps != 0])
    once = all((row.graded == 1).all() and np.isin(row.score, (0, 1)).all() for row in (a, b))
    counted = differing.size <= EXACT or np.unique(differing).size == 1
    name = "exact McNemar" if once else "exact sign flips" if counted else f"{RESAMPLES:,} sign flips"
    return {"test": name, "p": sign_flip_p(steps, seed=SEED)}


def _detectable(differences: NDArray[np.float64]) -> float | None:
    """The smallest true difference that a comparison with these items' spread finds with 80 % power."""
    if differences.size < _FEWEST:
        return None
    return minimum_detectable_difference(differences.size, sd=float(np.std(differences, ddof=1)), power=POWER)


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
