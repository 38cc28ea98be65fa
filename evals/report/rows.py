"""The rows of the summary: accuracy, intervals, bounds, differences and costs per method, variant and task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.report.tally import SUMMED, Part, RowKey, Tallies
from evals.stats.contrasts import Contrast, contrasts
from evals.stats.intervals import accuracy_interval
from evals.stats.methods import METHODS, REFERENCE, SINGLE, TRAINED
from evals.stats.paired_tests import holm

ALL = "all"
"""The name of the row over the items of all tasks."""
SEED = 0
"""Of every bootstrap: the same records give the same intervals."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What the rows are made from."""

    tallies: Tallies
    manifest: Mapping[str, Any]

    def entries(self, name: str) -> list[Mapping[str, Any]]:
        """The manifest's list of agents or tasks."""
        return [entry for entry in self.manifest.get(name) or [] if isinstance(entry, Mapping)]

    def lacking(self, fact: str, row: RowKey) -> list[str]:
        """Agents that a row may ask and whose `fact` (price, active_params) is unknown."""
        names = [str(agent.get("name")) for agent in self.entries("agents") if agent.get(fact) is None]
        method, variant = row
        return [variant] if method == SINGLE else sorted(names)

    def chance(self, task: str) -> float | None:
        """Expected accuracy of guessing; for all tasks the mean over their items."""
        chances = {entry.get("name"): entry.get("chance") for entry in self.entries("tasks")}
        sizes = {name: _size(items) for name, items in self.tallies.items.items() if task in (ALL, name)}
        parts = [(chances.get(name), size) for name, size in sorted(sizes.items())]
        known = [chance * size for chance, size in parts if chance is not None]
        return math.fsum(known) / sum(sizes.values()) if known and len(known) == len(parts) else None


def build_rows(run: Run) -> list[Row]:
    """All rows in table order: by method and variant, the row over all tasks before its tasks."""
    tallies = run.tallies
    keys = sorted(tallies.rows, key=_order)
    places = {task: items for task, items in tallies.items.items() if len(tallies.items) > 1}
    differences = {task: _differences(tallies, keys, items) for task, items in {ALL: slice(None), **places}.items()}
    rows = []
    for key in keys:
        same = _is_reference(tallies, key)
        rows.append({**_row(run, key, ALL, tallies.rows[key].whole), **differences[ALL][key], "reference": same})
        if not places:  # the only task's row says the same
            rows += [{**rows[-1], "task": task} for task in tallies.items]
            continue
        for task, part in tallies.rows[key].tasks.items():
            rows.append({**_row(run, key, task, part), **differences[task][key], "reference": same})
    return rows


def _order(key: RowKey) -> tuple[float, str, str]:
    """Place of a row; methods that are not known stand before the last."""
    method, variant = key
    names = [known.name for known in METHODS]
    place = float(names.index(method)) if method in names else len(names) - 1.5
    return place, method, variant


def reference_means(tallies: Tallies) -> NDArray[np.float64]:
    """Item means of the best single agent; NaN when there is no such row, or more than one to choose from."""
    found = [row.whole.means for key, row in tallies.rows.items() if key[0] == REFERENCE]
    return found[0] if len(found) == 1 else np.full(sum(map(_size, tallies.items.values())), np.nan)


def _size(items: slice) -> int:
    """How many items a task has."""
    return int(items.stop - items.start)


def _is_reference(tallies: Tallies, key: RowKey) -> bool:
    """Whether a row is the best single agent, under that name or its own."""
    return key[0] == REFERENCE or (key[0] == SINGLE and (REFERENCE, key[1]) in tallies.rows)


def _row(run: Run, key: RowKey, task: str, part: Part) -> Row:
    """One row of the table, without its difference."""
    sums = part.sums
    means = {name: sums.mean(name) for name in SUMMED}
    return {
        "method": key[0],
        "variant": key[1],
        "task": task,
        "n_items": part.episodes.size,
        "n_replicates": part.replicates,
        "n_episodes": sums.statuses.total(),
        **_accuracy(part),
        **_bounds(part),
        "chance": run.chance(task),
        "n_truncated": sums.statuses["truncated"],
        "n_no_answer": sums.statuses["no_answer"],
        "n_capped": sums.capped,
        "n_estimated": sums.estimated,
        "statuses": dict(sorted(sums.statuses.items())),
        **means,
        "unknown_price": run.lacking("price", key) if sums.graded and means["cost_usd_mean"] is None else [],
        "unknown_params": run.lacking("active_params", key) if sums.graded and means["gflop_mean"] is None else [],
    }


def _accuracy(part: Part) -> Row:
    """Accuracy over graded items with its 95 % interval."""
    means = part.means[part.graded > 0]
    interval = accuracy_interval(means, max(1, part.graded_replicates), seed=SEED)
    if interval is None:
        return {"n_graded": 0, "accuracy": None, "ci_low": None, "ci_high": None}
    accuracy = math.fsum(means.tolist()) / means.size
    return {"n_graded": means.size, "accuracy": accuracy, "ci_low": interval.low, "ci_high": interval.high}


def _bounds(part: Part) -> Row:
    """Accuracy over all items if whatever is ungraded or was never asked were all wrong, or all right."""
    asked = part.episodes > 0
    if asked.all() and (part.graded == part.episodes).all():
        return {"bound_low": None, "bound_high": None}
    scores, episodes = part.scores[asked], part.episodes[asked]
    low = math.fsum((scores / episodes).tolist())
    high = math.fsum(((scores + (episodes - part.graded[asked])) / episodes).tolist()) + (asked.size - episodes.size)
    return {"bound_low": low / asked.size, "bound_high": high / asked.size}


def _differences(tallies: Tallies, keys: Sequence[RowKey], items: slice) -> dict[RowKey, Row]:
    """Differences of rows to the reference on those of some items that are graded for both.

    `p_holm` is adjusted over the coordinator's rows, of which a run says whether they are better; None for the others.
    """
    reference = reference_means(tallies)
    nothing = np.full_like(reference, np.nan)
    columns = [nothing if _is_reference(tallies, key) else tallies.rows[key].whole.means - reference for key in keys]
    found = contrasts(
        np.reshape(columns, (len(keys), reference.size)).T[items],
        difficulty=tallies.difficulty[items],
        task=_task_numbers(tallies)[items],
        seed=SEED,
    )
    rows = {key: _difference(one) for key, one in zip(keys, found, strict=True)}
    trained = [key for key in keys if key[0] == TRAINED]
    adjusted = dict(zip(trained, holm([rows[key]["p"] for key in trained]), strict=True))
    return {key: {**row, "p_holm": adjusted.get(key)} for key, row in rows.items()}


def _task_numbers(tallies: Tallies) -> NDArray[np.int32]:
    """The number of each item's task, shape (n_items,)."""
    sizes = list(map(_size, tallies.items.values()))
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def _difference(found: Contrast | None) -> Row:
    """A contrast as a row has it."""
    if found is None:
        return {"diff": None, "diff_low": None, "diff_high": None, "n_paired": 0, "p": None}
    ends = {"diff_low": found.ci_low, "diff_high": found.ci_high}
    return {"diff": found.difference, **ends, "n_paired": found.n_items, "p": found.p}
