"""The rows of the summary: accuracy, intervals, bounds, differences and costs per method, variant and task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from evals.report.tally import SUMMED, ItemKey, RowKey, Tallies, Tally
from evals.stats.bootstrap import paired_difference
from evals.stats.intervals import accuracy_interval

ALL = "all"
"""The name of the row over the items of all tasks."""
METHODS = ("single", "random", "best_single", "lookup", "vote", "coordinator", "oracle")
"""Order of the rows; other methods stand between `coordinator` and `oracle`."""
REFERENCE = "best_single"
"""The method that differences are taken to: the single agent that was best on validation."""
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
        return [variant] if method == "single" else sorted(names)

    def chance(self, task: str) -> float | None:
        """Expected accuracy of guessing; for all tasks the mean over their items."""
        chances = {entry.get("name"): entry.get("chance") for entry in self.entries("tasks")}
        items = self.tallies.items
        sizes = {name: len(ids) for name, ids in items.items() if task in (ALL, name)}
        parts = [(chances.get(name), size) for name, size in sorted(sizes.items())]
        known = [chance * size for chance, size in parts if chance is not None]
        return math.fsum(known) / sum(sizes.values()) if known and len(known) == len(parts) else None


def build_rows(run: Run) -> list[Row]:
    """All rows in table order: by method and variant, the row over all tasks before its tasks."""
    reference = reference_means(run.tallies)
    rows = []
    for key in sorted(run.tallies.rows, key=_order):
        tasks = run.tallies.rows[key]
        same = _is_reference(run.tallies, key)
        for task, part in chain([(ALL, merged(tasks))], sorted(tasks.items())):
            rows.append({**_row(run, key, task, part, {} if same else reference), "reference": same})
    return rows


def _order(key: RowKey) -> tuple[float, str, str]:
    """Place of a row."""
    method, variant = key
    place = float(METHODS.index(method)) if method in METHODS else len(METHODS) - 1.5
    return place, method, variant


def merged(parts: Mapping[str, Tally]) -> Tally:
    """One tally over the items of all tasks."""
    whole = Tally()
    for _, part in sorted(parts.items()):
        whole.merge(part)
    return whole


def reference_means(tallies: Tallies) -> dict[ItemKey, float]:
    """Item means of the best single agent; none when there is no such row, or more than one to choose from."""
    keys = [key for key in tallies.rows if key[0] == REFERENCE]
    return merged(tallies.rows[keys[0]]).item_means() if len(keys) == 1 else {}


def _is_reference(tallies: Tallies, key: RowKey) -> bool:
    """Whether a row is the best single agent, under that name or its own."""
    return key[0] == REFERENCE or (key[0] == "single" and (REFERENCE, key[1]) in tallies.rows)


def _row(run: Run, key: RowKey, task: str, part: Tally, reference: Mapping[ItemKey, float]) -> Row:
    """One row of the table."""
    means = {name: part.mean(name) for name in SUMMED}
    n_items = sum(len(ids) for name, ids in run.tallies.items.items() if task in (ALL, name))
    return {
        "method": key[0],
        "variant": key[1],
        "task": task,
        "n_items": n_items,
        "n_replicates": part.replicates,
        "n_episodes": sum(part.statuses.values()),
        **_accuracy(part),
        **_bounds(part, n_items),
        "chance": run.chance(task),
        **_difference(part.item_means(), reference),
        "n_truncated": part.statuses["truncated"],
        "n_no_answer": part.statuses["no_answer"],
        "n_capped": part.capped,
        "n_estimated": part.estimated,
        "statuses": dict(sorted(part.statuses.items())),
        **means,
        "unknown_price": run.lacking("price", key) if part.graded and means["cost_usd_mean"] is None else [],
        "unknown_params": run.lacking("active_params", key) if part.graded and means["gflop_mean"] is None else [],
    }


def _accuracy(part: Tally) -> Row:
    """Accuracy over graded items with its 95 % interval."""
    means = list(part.item_means().values())
    interval = accuracy_interval(np.array(means), part.replicates, seed=SEED)
    if interval is None:
        return {"n_graded": 0, "accuracy": None, "ci_low": None, "ci_high": None}
    accuracy = math.fsum(means) / len(means)
    return {"n_graded": len(means), "accuracy": accuracy, "ci_low": interval.low, "ci_high": interval.high}


def _bounds(part: Tally, n_items: int) -> Row:
    """Accuracy over all items if whatever is ungraded or was never asked were all wrong, or all right."""
    missing = n_items - len(part.cells)
    cells = [cell for _, cell in sorted(part.cells.items())]
    if not missing and all(cell.graded == cell.episodes for cell in cells):
        return {"bound_low": None, "bound_high": None}
    low = math.fsum(cell.bound(0.0) for cell in cells)
    high = math.fsum(cell.bound(1.0) for cell in cells) + missing
    return {"bound_low": low / n_items, "bound_high": high / n_items}


def _difference(means: Mapping[ItemKey, float], reference: Mapping[ItemKey, float]) -> Row:
    """Paired bootstrap difference to the reference over the items graded for both."""
    found = paired_difference(means, reference, SEED)
    if found is None:
        return {"diff": None, "diff_low": None, "diff_high": None, "n_paired": 0}
    return {"diff": found.difference, "diff_low": found.ci_low, "diff_high": found.ci_high, "n_paired": found.n}
