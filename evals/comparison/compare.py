"""Runs against each other: paired by item, with tests, costs and effort, and everything else in which they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.comparison.choice import Place, Request, chosen_pairs, letters
from evals.comparison.differences import item_differences, run_differences
from evals.comparison.effort import TOLERANCE, effort_differences, efforts
from evals.comparison.findings import finding, notes
from evals.comparison.pairs import LEVEL, Numbers, Pair, Side, pair_numbers
from evals.comparison.runs import Run, found_runs, played, read_run
from evals.report.rows import ALL, SEED
from evals.report.tally import RowKey
from evals.stats.intervals import RESAMPLES
from evals.stats.paired_tests import with_holm
from evals.stats.power import POWER
from trinity.errors import ConfigError

FORMAT = 1
_ROW = (
    *("n_items", "n_graded", "n_replicates", "n_episodes", "accuracy", "ci_low", "ci_high", "bound_low", "bound_high"),
    *("reference", "reference_method", "diff", "diff_low", "diff_high", "n_paired"),
    *("n_truncated", "n_no_answer", "n_capped", "n_estimated"),
    *("weighted_tokens_mean", "cost_usd_mean", "gflop_mean", "calls_mean", "encoder_tokens_mean"),
    *("statuses", "unknown_price", "unknown_params"),
)


def compare(paths: Sequence[Path], request: Request) -> dict[str, Any]:
    """The comparison of finished runs as JSON values; unknown numbers are None.

    Args:
        paths: run folders; a sweep folder stands for its finished jobs.
        request: which rows, and against what.

    Raises:
        LedgerError: a folder or file is missing, damaged or of an unfinished run.
        ConfigError: there is nothing that may be compared; says what stands against it.
    """
    found = found_runs(paths)
    runs = [read_run(folder, letters(place)) for place, folder in enumerate(found.folders)]
    _check_kinds(runs)
    places, lonely = chosen_pairs(runs, request)
    sides = _sides(runs, places)
    pairs = [(sides[a.label, key], sides[b.label, other]) for (a, key), (b, other) in places]
    _check_graders(pairs, _common_tasks(pairs), allowed=request.allow_differences)
    unequal = effort_differences(pairs)
    if request.require_equal_effort and unequal:
        raise ConfigError(f"{unequal[0]['sentence']} Leave require_equal_effort out to compare them all the same")
    told = _told(runs, sides, pairs, overall=request.overall)
    told["differences"] += unequal
    told["notes"] = [*found.notes, *lonely, *told["notes"]]
    return told


def _told(
    runs: Sequence[Run], sides: Mapping[tuple[str, RowKey], Side], pairs: Sequence[Pair], *, overall: bool
) -> dict[str, Any]:
    """What is said of pairs of rows that may be compared."""
    tasks = _common_tasks(pairs)
    used = [run for run in runs if any(run.label == label for label, _ in sides)]
    shown = [ALL] if overall or len(tasks) == 1 else [ALL, *tasks]
    comparisons = _comparisons(pairs, shown)
    return {
        "format": FORMAT,
        "pool_kind": runs[0].manifest["pool_kind"],
        "level": LEVEL,
        "resamples": RESAMPLES,
        "seed": SEED,
        "power": POWER,
        "tasks": tasks,
        "runs": [_identity(run) for run in used],
        "comparisons": comparisons,
        "findings": [finding(row) for row in comparisons if row["task"] == ALL],
        "rows": [row for side in sides.values() for row in _rows(side, shown)],
        "effort": efforts(sides.values()),
        "effort_tolerance": TOLERANCE,
        "differences": [*item_differences(pairs, tasks), *run_differences(used, tasks)],
        "notes": notes(comparisons, sides.values()),
    }


def _check_kinds(runs: Sequence[Run]) -> None:
    """ConfigError where kinds of pool would share a column."""
    kinds = {run.manifest["pool_kind"]: run for run in reversed(runs)}
    if len(kinds) > 1:
        told = ", ".join(f"{run.folder} {kind}" for kind, run in reversed(kinds.items()))
        raise ConfigError(f"runs of different kinds of pool are never compared ({told}); compare runs of one kind")


def _sides(runs: Sequence[Run], places: Sequence[tuple[Place, Place]]) -> dict[tuple[str, RowKey], Side]:
    """Every row that is compared, with its records, run by run in table order."""
    wanted = {(run.label, key) for pair in places for run, key in pair}
    sides: dict[tuple[str, RowKey], Side] = {}
    for run in runs:
        keys = [key for key in run.keys if (run.label, key) in wanted]
        rows = played(run, keys) if keys else {}
        sides |= {(run.label, key): Side(run, key, rows[key]) for key in keys}
    return sides


def _common_tasks(pairs: Sequence[Pair]) -> list[str]:
    """Tasks of which some pair has items that were graded for both.

    Raises:
        ConfigError: a pair has none at all.
    """
    tasks: set[str] = set()
    for side, reference in pairs:
        ours, theirs = (one.played.known for one in (side, reference))
        if not ours & theirs:
            raise ConfigError(
                f"{side.name} ({side.run.folder}, {len(ours)} graded test items) and {reference.name} "
                f"({reference.run.folder}, {len(theirs)}) have none in common; compare runs of the same tasks, sizes "
                "and data.seed"
            )
        tasks |= {task for task, _ in ours & theirs}
    return sorted(tasks)


def _check_graders(pairs: Sequence[Pair], tasks: Sequence[str], *, allowed: bool) -> None:
    """ConfigError where two graders would be compared, unless that is wanted."""
    for side, reference in () if allowed else pairs:
        for task in tasks:
            ours, theirs = (one.run.grader(task) for one in (side, reference))
            if None not in (ours, theirs) and ours != theirs:
                raise ConfigError(
                    f"{task} was graded by {theirs} in {reference.run.folder} and by {ours} in {side.run.folder}; "
                    "grade one of them again, or give allow_differences=true to compare them all the same"
                )


def _comparisons(pairs: Sequence[Pair], tasks: Sequence[str]) -> list[Numbers]:
    """Every pair on each of `tasks`, which may be `ALL`; p adjusted over all of them."""
    rows: list[Numbers] = [
        {**_names(side), "reference": _names(reference), "task": task, **pair_numbers(side, reference, task)}
        for side, reference in pairs
        for task in tasks
    ]
    return with_holm(rows)


def _names(side: Side) -> Numbers:
    """Which row it is."""
    return {"run": side.run.label, "method": side.key[0], "variant": side.key[1]}


def _identity(run: Run) -> Numbers:
    """Which run it is."""
    manifest = run.manifest
    told = {key: manifest.get(key) for key in ("run_id", "experiment", "pool", "pool_kind", "seeds", "started", "git")}
    return {"label": run.label, "folder": str(run.folder), **told}


def _rows(side: Side, tasks: Sequence[str]) -> Iterator[Numbers]:
    """A row as its run's own summary has it."""
    for task in tasks:
        row = side.run.row(side.key, task)
        if row is not None:
            yield {**_names(side), "task": task, **{key: row.get(key) for key in _ROW}}
