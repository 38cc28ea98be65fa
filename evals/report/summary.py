"""`summary.json`: one object a table row, and what a reader needs to judge the rows.

Accuracy is the mean score over items, replicates averaged within an item first, without `error` and `over_budget`; an
item is graded when one of its replicates is. The items of a task are those that any row was asked. `*_mean` costs are
means over graded episodes of their logical usage: every call, paid for or not. Differences are taken to `reference`: to
its row on the same backbone, else to its only one (`reference_variant` says which), else they are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from evals.report.rows import ALL, Row, Run, build_rows, differences_of
from evals.report.tally import RowKey, Tallies, named, tally
from evals.stats.axes import AXES
from evals.stats.methods import BEST_SINGLE, BOUND, SINGLE, is_trained, known, place_of
from evals.stats.power import POWER, detectable
from trinity.errors import LedgerError
from trinity.runs.records import Columns

SMALL_RUN = 100
"""Below this many test items a run shows the path, not a finding."""
EFFORT = ("episodes", "logical_calls", "weighted_tokens", "encoder_tokens")
"""What `effort` counts of each method."""
COST_AXES: Mapping[str, str] = {axis.name: f"{axis.column}_mean" for axis in AXES}
"""Cost axis -> the row's key, in the order in which they are preferred."""


def build_summary(
    batches: Iterable[Columns],
    *,
    manifest: Mapping[str, Any],
    choices: Mapping[str, Any],
    effort: Mapping[str, Any],
    totals: Mapping[str, Any],
) -> dict[str, Any]:
    """The summary of a run: JSON-able, without NaN (unknown is None), the same for records in any order.

    Args:
        batches: records with the columns of `evals.report.tally.COLUMNS`; only the test split counts. Read once.
        manifest: of the run; read here: `run_id, experiment, pool, pool_kind, seeds, notes`, `agents` (objects with
            `name, model, price, active_params`), `missing_agents` (name to reason), `tasks` (objects with `name,
            chance`) and `config.analysis`. Each may be missing.
        choices: how each control was chosen; a list of sentences under `notes` joins the summary's notes.
        effort: what training cost.
        totals: paid, reused and logical calls and tokens of the whole run.

    Raises:
        LedgerError: a record is there twice, is graded without a score, or is of another run or kind of pool.
    """
    tallies = tally(batches)
    run = Run(tallies, manifest)
    rows = build_rows(run)
    summary = {
        **_identity(tallies, manifest),
        "seeds": manifest.get("seeds"),
        "reference": run.against.reference,
        "cost_axis": (manifest.get("config") or {}).get("cost_axis") or _cost_axis(rows),
        "rows": rows,
        "mdd": _detectable(run),
        "headroom": _headroom(rows),
        "totals": totals,
        "effort": effort,
        "choices": choices,
        "notes": _notes(rows, manifest, choices),
    }
    return {key: plain(value) for key, value in summary.items()}


def _identity(tallies: Tallies, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the records have in common; without records, what the manifest says."""
    if ALL in tallies.items:
        raise LedgerError(f"a task is named {ALL!r}, which is the row over all tasks; rename the task")
    names = ("run_id", "experiment", "pool", "pool_kind")
    return {name: tallies.common.get(name, manifest.get(name)) for name in names}


def plain(value: Any) -> Any:
    """`value` in JSON's types: NaN and infinity become None, dataclasses objects, tuples and arrays lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain({entry.name: getattr(value, entry.name) for entry in fields(value)})
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def rows_of(summary: Mapping[str, Any], task: str = ALL) -> list[Row]:
    """The rows of one task, in table order."""
    return [row for row in summary["rows"] if row["task"] == task]


def tasks_of(summary: Mapping[str, Any]) -> list[str]:
    """The names of the tasks, without the row over all of them."""
    return sorted({row["task"] for row in summary["rows"]} - {ALL})


def _cost_axis(rows: Sequence[Row]) -> str:
    """The first axis that is known for every row; USD counts only if something costs anything (local models do not)."""
    whole = [row for row in rows if row["task"] == ALL and row["n_graded"]]
    for axis, key in COST_AXES.items():
        costs = [row[key] for row in whole]
        if costs and None not in costs and any(costs):
            return axis
    return "weighted_tokens"


def _detectable(run: Run) -> dict[str, Any]:
    """The smallest difference to the reference that this run could find, told of one of its methods."""
    base = {key: run.against.row(key) for key in run.tallies.rows if not run.against.holds(key)}
    compared = [key for key, row in base.items() if row and known(key[0]).role == "method"]
    if not compared:
        methods = any(known(key[0]).role == "method" for key in base)
        alone = f"no method has a row of {run.against.reference} to be compared to"
        reason = alone if methods else "no method is there besides controls and bounds"
        return {"difference": None, "n_items": 0, "reason": reason, "power": POWER, "comparison": None}
    key = min(compared, key=_told_first)
    found = detectable(differences_of(run, key))
    numbers = {"difference": found.difference, "n_items": found.n_items, "reason": found.reason}
    return {**numbers, "power": POWER, "comparison": f"{named(key)} and {_reference_name(base[key] or key)}"}


def _told_first(key: RowKey) -> tuple[bool, bool, float, RowKey]:
    """Of which row a run speaks first: of the coordinator that samples, as it was trained."""
    return not is_trained(key[0]), key[1] != "sampled", place_of(key[0]), key


def _reference_name(row: RowKey) -> str:
    """How the row that another is compared to is called in a sentence."""
    return "best single agent" if row[0] == BEST_SINGLE else named(row)


def _find(rows: Sequence[Row], method: str, task: str) -> Row | None:
    """The only row of a method on a task."""
    found = [row for row in rows if row["method"] == method and row["task"] == task]
    return found[0] if len(found) == 1 else None


def _headroom(rows: Sequence[Row]) -> dict[str, Any]:
    """What choosing perfectly per item would add to the best single agent, over all tasks and per task."""
    names = sorted({row["task"] for row in rows} - {ALL})
    return {**_headroom_on(rows, ALL), "tasks": {name: _headroom_on(rows, name) for name in names}}


def _headroom_on(rows: Sequence[Row], task: str) -> dict[str, Any]:
    """Headroom on one task. The best agents on test describe the pool; nothing is chosen by them."""
    oracle, best = (row["accuracy"] if (row := _find(rows, name, task)) else None for name in (BOUND, BEST_SINGLE))
    alone = {
        row["variant"]: row["accuracy"]
        for row in rows
        if row["method"] == SINGLE and row["task"] == task and row["accuracy"] is not None
    }
    top = max(alone.values(), default=None)
    return {
        "oracle": oracle,
        "best_single": best,
        "gap": oracle - best if oracle is not None and best is not None else None,
        "best_agents": [name for name, accuracy in alone.items() if accuracy == top],
        "best_agents_accuracy": top,
    }


def _notes(rows: Sequence[Row], manifest: Mapping[str, Any], choices: Mapping[str, Any]) -> list[str]:
    """What a reader of the table has to know, each sentence once."""
    whole = [row for row in rows if row["task"] == ALL]
    missing = manifest.get("missing_agents") or {}
    notes = [*(manifest.get("notes") or ()), *(choices.get("notes") or ())]
    notes += [f"The run went on without agent {name}: {reason}." for name, reason in sorted(missing.items())]
    if len(manifest.get("agents") or ()) == 1:
        notes.append("The pool has one agent: there is nothing to coordinate.")
    notes += [_ungraded(row) for row in whole if row["n_graded"] < row["n_items"]]
    notes += _unknown(whole)
    if whole and whole[0]["n_items"] < SMALL_RUN:
        notes.append(f"A run of {whole[0]['n_items']} test items shows the path, not a finding.")
    return list(dict.fromkeys(notes))


def _ungraded(row: Row) -> str:
    """One sentence on a row that lacks items."""
    return f"{label(row)} was graded on {row['n_graded']} of {row['n_items']} items."


def _unknown(rows: Sequence[Row]) -> list[str]:
    """Sentences that name the agents whose price or size is unknown."""
    facts = (("unknown_price", "price"), ("unknown_params", "number of active parameters"))
    found = [(what, sorted({name for row in rows for name in row[key]})) for key, what in facts]
    return [f"The {what} is unknown for: {', '.join(names)}." for what, names in found if names]


def label(row: Mapping[str, Any]) -> str:
    """How a row is called: its method, and its variant where it has one."""
    return named((row["method"], row["variant"]))
