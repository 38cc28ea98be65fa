"""The files of a sweep: a folder per job named by its overrides, how far each job is, and the summary of all.

Jobs may run in processes that share nothing but the disk. Each writes its own `job.json`; whoever writes the summary
holds its lock and reads the jobs' files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

from trinity.config import SHAPELESS, within
from trinity.errors import LedgerError
from trinity.runs.files import held, read_json, write_json
from trinity.runs.manifest import write_manifest

State = Literal["running", "finished", "stopped", "failed"]
"""`stopped`: it reached a cap, was interrupted or was killed, and can be gone on with."""

FORMAT = 1
NAME_DIGITS = 12

_KEY = re.compile(r"[+~]*([^=@]+)")
_PATIENCE_S = 60.0


def shaping(overrides: Iterable[str]) -> list[str]:
    """The overrides that shape results, sorted."""
    return sorted(word for word in overrides if not within(key_of(word), SHAPELESS))


def job_name(overrides: Iterable[str]) -> str:
    """The name of a job's folder: the first 12 hex digits of the SHA-256 of the overrides that shape its results."""
    return hashlib.sha256("\n".join(shaping(overrides)).encode()).hexdigest()[:NAME_DIGITS]


def key_of(override: str) -> str:
    """The key that an override sets, without plus, tilde and package."""
    found = _KEY.match(override)
    return found[1] if found else override


def start_sweep(sweep: Path, overrides: Sequence[str], jobs: Mapping[str, Sequence[str]] | None) -> None:
    """Write `sweep.json`: the command's overrides, and by name the jobs' (None: the sweeper makes them up as it goes).

    Raises:
        LedgerError: it could not be written, or a secret stands in an override.
    """
    sweep.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "overrides": list(overrides), "jobs": jobs}
    write_manifest(sweep / "sweep.json", content)


def read_sweep(sweep: Path) -> dict[str, Any]:
    """What `start_sweep` wrote.

    Raises:
        LedgerError: the folder is no sweep's, or its file is damaged.
    """
    path = sweep / "sweep.json"
    if not path.exists():
        raise LedgerError(f"{sweep} is no sweep: it has no sweep.json; a single run goes on without -m")
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise LedgerError(f"{path} is of no version that is known here (format {FORMAT})")
    return content


def alone_at(job: Path) -> AbstractContextManager[None]:
    """Hold a job's folder against other processes; raises as `held`."""
    return held(job / "job.lock", f"{job}: another process plays this job; wait for it or stop it")


def note(
    job: Path, overrides: Sequence[str], number: int, state: State, *, exit_code: int | None = None, error: str = ""
) -> None:
    """Write `job.json` in one step, secrets redacted.

    Raises:
        LedgerError: it could not be written.
    """
    facts = {"overrides": list(overrides), "number": number, "state": state, "exit_code": exit_code, "error": error}
    write_manifest(job / "job.json", {"format": FORMAT, **facts})


def is_finished(job: Path) -> bool:
    """Whether nothing is left to do in a job: its run is whole and no episode waits to be asked again.

    Raises:
        LedgerError: the run's ledger is damaged.
    """
    from trinity.runs.ledger import ungraded_in

    return is_whole(job) and not ungraded_in(job)


def can_resume(job: Path) -> bool:
    """Whether a run began in the folder, so that it is gone on with instead of begun again."""
    return (job / "manifest.json").exists()


def clear(job: Path) -> None:
    """Take away what a run left that was killed before it had a manifest; it had asked nothing yet."""
    for file in [*job.glob("ledger.*"), *job.glob(".tmp-*")]:
        file.unlink(missing_ok=True)


def settle(sweep: Path) -> None:
    """Note as stopped every job that says it is running while no process plays it.

    Raises:
        LedgerError: a job's file could not be written.
    """
    for job, facts in _jobs(sweep):
        if facts["state"] == "running":
            try:
                with alone_at(job):
                    note(job, facts["overrides"], facts["number"], "stopped", error="its process was killed")
            except LedgerError:  # somebody plays it
                continue


@contextmanager
def summary_of(sweep: Path) -> Iterator[dict[str, Any]]:
    """Write the sweep's `summary.json` and hand it over; until the block ends no other process writes it.

    Raises:
        LedgerError: it could not be written, or another process holds it for too long.
    """
    refusal = f"{sweep / 'summary.json'}: another process holds it; stop that process"
    with held(sweep / "summary.lock", refusal, _PATIENCE_S):
        summary = collected(sweep)
        write_json(sweep / "summary.json", summary)
        yield summary


def collected(sweep: Path) -> dict[str, Any]:
    """What all jobs are and found.

    Returns:
        `jobs` that have begun, in the order of the sweep; `n_jobs` that it has (None: unknown); `varied`, the keys in
        which they differ; `rows`, those of the finished jobs' own summaries, with `job`, `varied` (key to value),
        `pool`, `pool_kind` and `experiment` beside each.
    """
    entries = sorted(_jobs(sweep), key=lambda entry: (entry[1]["number"], entry[0].name))
    planned = read_sweep(sweep)["jobs"]
    keys = _varied([facts["overrides"] for _, facts in entries] if planned is None else list(planned.values()))
    jobs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for job, facts in entries:
        values = _values(facts["overrides"])
        entry = {"job": job.name, **facts, "varied": {key: values.get(key) for key in keys}}
        jobs.append(entry)
        if facts["state"] == "finished":
            rows += _rows(job, entry)
    return {
        "format": FORMAT,
        "sweep": str(sweep),
        "n_jobs": None if planned is None else len(planned),
        "varied": keys,
        "jobs": jobs,
        "rows": rows,
    }


def exit_code(summary: Mapping[str, Any]) -> int:
    """1 where a job failed or its process was killed, else the worst code of a job."""
    codes = [1 if job["state"] == "failed" or job["exit_code"] is None else job["exit_code"] for job in summary["jobs"]]
    return 1 if 1 in codes else max(codes, default=0)


def _jobs(sweep: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every job that has begun, with what its `job.json` says; a run that was made whole alone counts as finished."""
    for path in sorted(sweep.glob("*/job.json")):
        facts = read_json(path)
        if facts["state"] in ("stopped", "failed") and is_whole(path.parent):
            facts |= {"state": "finished", "exit_code": 0, "error": ""}
        yield path.parent, {key: value for key, value in facts.items() if key != "format"}


def is_whole(job: Path) -> bool:
    """Whether a folder's manifest says that its run is finished.

    Raises:
        LedgerError: it cannot be read.
    """
    path = job / "manifest.json"
    if not path.exists():
        return False
    manifest = read_json(path)
    return isinstance(manifest, dict) and bool(manifest.get("finished"))


def _rows(job: Path, entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a finished job, if it made any; where they cannot be read, the job's `error` says so."""
    if not (job / "summary.json").exists():
        return []
    try:
        summary = read_json(job / "summary.json")
        own = {"job": job.name, "varied": entry["varied"]}
        own |= {key: summary[key] for key in ("experiment", "pool", "pool_kind")}
        return [{**own, **row} for row in summary["rows"]]
    except (LedgerError, KeyError, TypeError) as error:
        entry |= {"state": "failed", "error": f"error: its summary cannot be read: {error}"}
        return []


def _varied(jobs: Sequence[Sequence[str]]) -> list[str]:
    """The keys whose values are not the same in all jobs, in the order of the command line."""
    values = [_values(overrides) for overrides in jobs]
    keys = dict.fromkeys(key for one in values for key in one)
    return [key for key in keys if len({one.get(key) for one in values}) > 1]


def _values(overrides: Iterable[str]) -> dict[str, str]:
    return {key_of(word): word.partition("=")[2] for word in overrides if not within(key_of(word), SHAPELESS)}
