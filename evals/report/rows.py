"""The rows of the summary: accuracy, intervals, bounds, differences and costs per method, variant and task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.report.tally import SUMMED, Part, RowKey, Tallies
from evals.stats.contrasts import Contrast, contrasts
from evals.stats.intervals import accuracy_interval
from evals.stats.methods import SINGLE, known, place_of
from evals.stats.paired_tests import holm
from evals.stats.settings import settings_of
from evals.stats.study import row_names

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

    @cached_property
    def against(self) -> Against:
        """What the rows are compared to."""
        agents = {str(agent.get("name")): str(agent.get("model")) for agent in self.entries("agents")}
        agents = agents or {variant: variant for _, variant in self.tallies.rows if variant}
        cells = {key: row_names(*key, row.backbone or key[1], agents) for key, row in self.tallies.rows.items()}
        return Against(settings_of(self.manifest).reference, cells)

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


@dataclass(frozen=True)
class Against:
    """Which rows are the reference's, and which of them each row is compared to; the same as in an analysis.

    Attributes:
        reference: the method that differences are taken to.
        cells: method and backbone of each row, as `evals.stats.study.row_names` tells them.
    """

    reference: str
    cells: Mapping[RowKey, tuple[str, str]]

    @cached_property
    def rows(self) -> dict[str, RowKey]:
        """The reference's own rows by their backbones."""
        return {backbone: key for key, (method, backbone) in sorted(self.cells.items()) if method == self.reference}

    def row(self, key: RowKey) -> RowKey | None:
        """The reference's row on the backbone of a row, else its only one; None where neither is."""
        only = next(iter(self.rows.values())) if len(self.rows) == 1 else None
        return self.rows.get(self.cells[key][1], only)

    def holds(self, key: RowKey) -> bool:
        """Whether a row is the reference's, under its name or under that of a method whose answers it gives again."""
        method, backbone = self.cells[key]
        return method == self.reference or (method in known(self.reference).copies and backbone in self.rows)


def build_rows(run: Run) -> list[Row]:
    """All rows in table order: by method and variant, the row over all tasks before its tasks."""
    tallies = run.tallies
    keys = sorted(tallies.rows, key=lambda key: (place_of(key[0]), *key))
    places = {task: items for task, items in tallies.items.items() if len(tallies.items) > 1}
    differences = {task: _differences(run, keys, items) for task, items in {ALL: slice(None), **places}.items()}
    rows = []
    for key in keys:
        same = _compared(run.against, key)
        rows.append({**_row(run, key, ALL, tallies.rows[key].whole), **differences[ALL][key], **same})
        if not places:  # the only task's row says the same
            rows += [{**rows[-1], "task": task} for task in tallies.items]
            continue
        for task, part in tallies.rows[key].tasks.items():
            rows.append({**_row(run, key, task, part), **differences[task][key], **same})
    return rows


def _compared(against: Against, key: RowKey) -> Row:
    """What a row is compared to."""
    base = None if against.holds(key) else against.row(key)
    return {
        "backbone": against.cells[key][1],
        "reference": against.holds(key),
        "reference_method": against.reference,
        "reference_variant": base and base[1],
    }


def differences_of(run: Run, key: RowKey) -> NDArray[np.float64]:
    """Item means of a row less those of the reference's, shape (n_items,); NaN where there is nothing to compare."""
    means, base = run.tallies.rows[key].whole.means, run.against.row(key)
    if base is None or run.against.holds(key):
        return np.full_like(means, np.nan)
    return means - run.tallies.rows[base].whole.means


def _size(items: slice) -> int:
    """How many items a task has."""
    return int(items.stop - items.start)


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


def _differences(run: Run, keys: Sequence[RowKey], items: slice) -> dict[RowKey, Row]:
    """Differences of rows to the reference on those of some items that are graded for both.

    `p_holm` is adjusted over the rows that are neither controls nor bounds, of which a run says whether they are
    better; None for the others.
    """
    tallies = run.tallies
    columns = np.reshape([differences_of(run, key) for key in keys], (len(keys), tallies.difficulty.size))
    found = contrasts(
        columns.T[items], difficulty=tallies.difficulty[items], task=_task_numbers(tallies)[items], seed=SEED
    )
    rows = {key: _difference(one) for key, one in zip(keys, found, strict=True)}
    tested = [key for key in keys if known(key[0]).role == "method"]
    adjusted = dict(zip(tested, holm([rows[key]["p"] for key in tested]), strict=True))
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
