"""What was spent on each compared method before its test, side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from evals.comparison.differences import Difference
from evals.comparison.pairs import Numbers, Pair, Side
from evals.comparison.runs import Run
from evals.report.summary import EFFORT
from evals.stats.methods import SINGLE, known
from trinity.errors import LedgerError

TOLERANCE = 0.05
"""Efforts are equal where they differ by at most this share of the larger one."""
COMPARED = ("episodes", "weighted_tokens")
"""What must be equal in equal efforts."""


def effort_of(run: Run, method: str) -> dict[str, int]:
    """Sums of `EFFORT` over everything that was played before the test so that a method could be tested.

    Raises:
        LedgerError: the summary's effort is damaged.
    """
    entries = [run.summary["effort"][name] for name in effort_names(run, method)]
    try:
        return {key: sum(int(entry[key]) for entry in entries) for key in EFFORT}
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"{run.folder / 'summary.json'} is damaged: effort of {method} lacks {error}") from error


def effort_names(run: Run, method: str) -> list[str]:
    """The entries of the summary's effort that belong to a method.

    Its own, those whose names begin with it (`vote_sample`), and for methods that take the agents that were best on
    validation the validation of all agents.
    """
    about = known(method)
    if not about.prepared:
        return []
    others = {other for other, _ in run.keys} - {method}
    chosen = {SINGLE} if about.chosen else set()
    return [
        name
        for name in run.summary["effort"]
        if name in chosen or name == method or (name.startswith(f"{method}_") and name not in others)
    ]


def efforts(sides: Collection[Side]) -> list[Numbers]:
    """Effort of every compared method, run by run."""
    methods = dict.fromkeys((side.run.label, side.key[0]) for side in sides)
    runs = {side.run.label: side.run for side in sides}
    return [
        {"run": label, "method": method, "counted": effort_names(runs[label], method), **effort_of(runs[label], method)}
        for label, method in methods
    ]


def effort_differences(pairs: Sequence[Pair]) -> list[Difference]:
    """A sentence on each two methods whose efforts are not equal."""
    found = {}
    for side, reference in pairs:
        ours, theirs = (effort_of(one.run, one.key[0]) for one in (side, reference))
        for key in COMPARED:
            if abs(ours[key] - theirs[key]) > TOLERANCE * max(ours[key], theirs[key]):
                who = [f"{one.run.label} {one.key[0]}" for one in (reference, side)]
                what = key.replace("_", " ")
                found[*who, key] = (
                    f"Effort before the test: {theirs[key]:,} {what} for {who[0]}, {ours[key]:,} for {who[1]}, "
                    f"which is more than {100 * TOLERANCE:.0f} % apart."
                )
    return [{"kind": "effort", "sentence": sentence} for sentence in found.values()]
