"""Finished runs as a comparison reads them: manifest, summary, and per row what each test item scored and cost."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.report.rows import ALL
from evals.report.tally import ItemKey, RowKey, named
from evals.stats import axes as costs
from evals.stats.exact import means_of
from trinity.errors import ConfigError, LedgerError
from trinity.runs.files import read_json
from trinity.runs.manifest import check_finished, read_manifest, resuming
from trinity.runs.records import Columns, read_columns
from trinity.runs.sweep import collected
from trinity.types import UNGRADED

AXES = (*(axis.column for axis in costs.AXES), "n_calls", "latency_s")
"""Columns of which a comparison gives the ratio."""

EXACT = 1e-9
"""Two means of the same scores differ by rounding alone."""

_NAMES = ("run_id", "pool_kind", "method", "variant", "task", "split", "item_id", "domain", "difficulty")
_READ = (*_NAMES, "replicate_index", "status", "score", *AXES)
_MANIFEST: Mapping[str, type] = {
    **dict.fromkeys(("run_id", "experiment", "pool", "pool_kind"), str),
    **dict.fromkeys(("config", "seeds", "graders", "data", "prompts", "endpoints", "git", "packages", "machine"), dict),
    "agents": list,
    "finished": bool,
}
_SUMMARY: Mapping[str, type] = {"run_id": str, "pool_kind": str, "rows": list, "effort": dict}
_ROW = ("method", "variant", "task", "n_items", "n_graded", "n_replicates", "accuracy", "statuses")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One finished run; `label` is its letter in the comparison."""

    label: str
    folder: Path
    manifest: Mapping[str, Any]
    summary: Mapping[str, Any]

    @property
    def keys(self) -> list[RowKey]:
        """Its rows in table order."""
        return [(row["method"], row["variant"]) for row in self.summary["rows"] if row["task"] == ALL]

    def grader(self, task: str) -> str | None:
        """What graded a task: its grader, and the judge's model behind that of a judged one; None where it has none."""
        grader, judge = self.manifest["graders"].get(task), (self.manifest.get("judge") or {}).get("agent") or {}
        judged = any(one.get("judged") for one in self.manifest.get("tasks") or () if one.get("name") == task)
        return f"{grader} with judge {judge.get('model')}" if grader and judged and judge else grader

    def row(self, key: RowKey, task: str = ALL) -> Mapping[str, Any] | None:
        """A row of its summary."""
        rows = (row for row in self.summary["rows"] if (row["method"], row["variant"], row["task"]) == (*key, task))
        return next(rows, None)


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What one row did on the test items that it was asked, sorted by task and id; replicates are averaged.

    `graded` counts replicates; `score` and `costs` (by axis) are NaN where none was graded, costs also where one is
    unknown; `about` is the domain and difficulty of each item. All have one entry an item.
    """

    items: tuple[ItemKey, ...]
    graded: NDArray[np.int64]
    score: NDArray[np.float64]
    costs: Mapping[str, NDArray[np.float64]]
    about: tuple[tuple[Any, float], ...]

    @property
    def known(self) -> set[ItemKey]:
        """Items of which a replicate was graded."""
        return {item for item, graded in zip(self.items, self.graded, strict=True) if graded}


class Found(NamedTuple):
    """The run folders that words on a command line mean, and sentences on what was left out."""

    folders: list[Path]
    notes: list[str]


def found_runs(paths: Iterable[Path]) -> Found:
    """Run folders as they are, and the finished jobs of sweep folders in the order of their sweep.

    Raises:
        LedgerError: a folder is missing, is neither, or is a sweep without a finished job.
        ConfigError: a run is given twice.
    """
    found = Found([], [])
    for path in paths:
        if not path.is_dir():
            raise LedgerError(f"{path}: there is no such folder; give run folders such as outputs/NAME/TIME")
        if (path / "sweep.json").exists():
            _add_jobs(path, found)
        elif (path / "manifest.json").exists():
            found.folders.append(path)
        else:
            raise LedgerError(f"{path} is neither a run nor a sweep: it has no manifest.json and no sweep.json")
    seen: set[Path] = set()
    for folder in found.folders:
        if folder.resolve() in seen:
            raise ConfigError(f"{folder} is given twice; a run does not differ from itself")
        seen.add(folder.resolve())
    return found


def _add_jobs(sweep: Path, found: Found) -> None:
    """Enter the jobs of one sweep."""
    jobs = collected(sweep)["jobs"]
    finished = [job["job"] for job in jobs if job["state"] == "finished"]
    if not finished:
        raise LedgerError(f"{sweep}: no job of this sweep is finished; go on with: {resuming(sweep, sweep=True)}")
    found.folders.extend(sweep / job for job in finished)
    others = (job for job in jobs if job["state"] != "finished")
    found.notes.extend(f"Job {job['job']} of {sweep} is {job['state']} and left out." for job in others)


def read_run(folder: Path, label: str) -> Run:
    """Manifest and summary of a finished run, checked.

    Raises:
        LedgerError: a file is missing, damaged or of another run, or the run is not finished.
    """
    manifest = read_manifest(folder / "manifest.json")
    _check_shape(folder / "manifest.json", manifest, _MANIFEST)
    check_finished(folder, manifest)
    summary = read_json(folder / "summary.json")
    _check_shape(folder / "summary.json", summary, _SUMMARY)
    for row in summary["rows"]:
        _check_shape(folder / "summary.json", row, dict.fromkeys(_ROW, object))
    for name in ("run_id", "pool_kind"):
        if summary[name] != manifest[name]:
            raise LedgerError(
                f"{folder}: summary.json has {name} {summary[name]!r}, manifest.json {manifest[name]!r}; "
                "take both from one run"
            )
    return Run(label, folder, manifest, summary)


def _check_shape(path: Path, content: Any, shape: Mapping[str, type]) -> None:
    """LedgerError unless `content` is an object with these keys of these types."""
    if not isinstance(content, dict):
        raise LedgerError(f"{path} is damaged: it holds no JSON object")
    for key, kind in shape.items():
        if key not in content or not isinstance(content[key], kind):
            raise LedgerError(f"{path} is damaged or of another version: {key} is no {kind.__name__} there")


def played(run: Run, keys: Collection[RowKey]) -> dict[RowKey, Played]:
    """What these rows of a run did on its test items, from its records.

    Raises:
        LedgerError: the records are missing, damaged, of another run, or not those that its summary was made of.
    """
    path = run.folder / "records.parquet"
    parts: dict[RowKey, list[Columns]] = {key: [] for key in keys}
    for batch in read_columns(path, _READ):
        _check_origin(path, run, batch)
        tested = batch["split"] == "test"
        for (method, variant), kept in parts.items():
            rows = tested & (batch["method"] == method) & (batch["variant"] == variant)
            if rows.any():
                kept.append({name: column[rows] for name, column in batch.items()})
    rows_played = {key: _played(path, key, kept) for key, kept in parts.items()}
    for key, row in rows_played.items():
        _check_summary(run, key, row)
    return rows_played


def _check_origin(path: Path, run: Run, batch: Columns) -> None:
    """LedgerError for records of another run or kind of pool."""
    for name in ("run_id", "pool_kind"):
        others = batch[name][batch[name] != run.manifest[name]]
        if others.size:
            raise LedgerError(f"{path} holds records with {name} {others[0]!r}, the manifest {run.manifest[name]!r}")


def _played(path: Path, key: RowKey, parts: Sequence[Columns]) -> Played:
    """Records of one row, averaged within each item."""
    if not parts:
        return Played((), np.zeros(0, np.int64), np.zeros(0), dict.fromkeys(AXES, np.zeros(0)), ())
    columns = {name: np.concatenate([part[name] for part in parts]) for name in _READ}
    names = list(zip(columns["task"], columns["item_id"], strict=True))
    items = sorted(set(names))
    codes = {name: code for code, name in enumerate(items)}
    code = np.array([codes[name] for name in names])
    if np.unique(np.stack([code, columns["replicate_index"]]), axis=1).shape[1] < code.size:
        raise LedgerError(f"{path}: an episode of {named(key)} is recorded twice; rebuild the records from the ledger")
    graded = np.array([status not in UNGRADED for status in columns["status"]])
    counts = np.bincount(code[graded], minlength=len(items))
    score = columns["score"][graded]
    if not ((score >= 0) & (score <= 1)).all():
        raise LedgerError(f"{path}: an episode of {named(key)} has no score in [0, 1]; grade the run again")
    means = {name: _means(code[graded], columns[name][graded], counts) for name in ("score", *AXES)}
    first = np.unique(code, return_index=True)[1]
    about = tuple(zip(columns["domain"][first], columns["difficulty"][first].tolist(), strict=True))
    return Played(tuple(items), counts, means.pop("score"), means, about)


def _means(code: NDArray[np.int64], values: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean per item, shape (n_items,), NaN where nothing was graded or a value is unknown."""
    return means_of(np.bincount(code, weights=values.astype(np.float64), minlength=counts.size), counts)


def _check_summary(run: Run, key: RowKey, row: Played) -> None:
    """LedgerError unless the summary's accuracy is that of the records."""
    told = run.row(key)
    known = row.score[row.graded > 0]
    accuracy = math.fsum(known) / known.size if known.size else None
    if told is not None and told["n_graded"] == known.size:
        said = told["accuracy"]
        if accuracy == said or (accuracy is not None and said is not None and abs(accuracy - said) < EXACT):
            return
    raise LedgerError(
        f"{run.folder}: summary.json and records.parquet disagree on {named(key)}; "
        f"rebuild them: python -m trinity.replay {shlex.quote(str(run.folder))}"
    )
