"""`python -m evals.regrade RUN`: grade a finished run's stored episodes with today's graders, and show what changes.

Nobody is asked: answers come from the run's ledger, a judge's replies too.
Exit code 0: nothing changes; 1: a grade does, or cannot be made again; 2: there is nothing that can be graded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from trinity.cli import LineParser, main_guard, own_words, print_text, readable
from trinity.errors import GraderError, UngradedError

if TYPE_CHECKING:
    from evals.regrading import Change, Found
    from trinity.types import Record

SHOWN = 40
"""Changes that are printed where not all are asked for; the rest is counted."""


def main() -> int:
    """The command; its exit code."""
    return main_guard(command)


def command() -> int:
    """Grade the run that the command line names again.

    Raises:
        TrinityError: it cannot be.
    """
    parser = LineParser(prog="python -m evals.regrade", description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="a finished run's folder")
    parser.add_argument("--write", action="store_true", help="let the new grades take the place of the run's own")
    parser.add_argument("--all", action="store_true", help=f"print every change, not only the first {SHOWN}")
    given = parser.parse_args(own_words())
    from evals.regrading import regrade

    try:
        with readable(given.run):
            found = regrade(given.run, write=given.write)
    except UngradedError as error:
        # How to go on with a run, which the error ends with, is not how to grade one again.
        raise GraderError(f"{given.run}: {str(error).rpartition(';')[0]}; mend that and grade again") from error
    for line in _told(found, max(len(found.changes), len(found.kept)) if given.all else SHOWN):
        print_text(line)
    return int(bool(found.changes or found.kept))


def _told(found: Found, most: int) -> Iterator[str]:
    """What the command prints; answers are not told, they may be restricted."""
    for task, (was, now) in sorted(found.graders.items()):
        yield f"grader of {task}: {was} -> {now}"
    for (task, method, split), tally in sorted(found.tally.items()):
        if tally.changed:
            counts = f"{tally.changed} of {tally.records} change"
            yield f"{task}, {method}, {split}: {counts}, mean score {_mean(tally.was)} -> {_mean(tally.now)}"
    yield from _first([_step(change) for change in found.changes], most)
    yield from _first([f"not graded again: {kept.line}" for kept in found.kept], most)
    aside = f", {len(found.kept)} could not be graded again" if found.kept else ""
    yield f"{len(found.changes)} of {found.records} records change{aside}"
    if found.kept_as is not None:
        yield f"written; the old records are in {found.kept_as}"


def _first(lines: Sequence[str], most: int) -> Iterator[str]:
    """The first lines, indented, and how many more there are."""
    yield from (f"  {line}" for line in lines[:most])
    if len(lines) > most:
        yield f"  ... and {len(lines) - most} more (--all)"


def _mean(scores: Sequence[float]) -> str:
    return f"{fmean(scores):.3f}" if scores else "unknown"


def _step(change: Change) -> str:
    """Which episode it is, and from which grade to which."""
    from evals.report.tally import named

    (old, new), (phase, index) = change, change.old.replicate
    where = f"{named((old.method, old.variant))}, item {old.item_id}, {phase} replicate {index}"
    if (old.status, old.score, old.raw_score) == (new.status, new.score, new.raw_score):
        return f"{where}: {old.status}, another answer is read"
    return f"{where}: {_with_score(old)} -> {_with_score(new)}"


def _with_score(record: Record) -> str:
    if record.score is None:
        return record.status
    raw = "" if record.raw_score in (None, record.score) else f" (raw {record.raw_score:g})"
    return f"{record.status} {record.score:g}{raw}"


if __name__ == "__main__":
    sys.exit(main())
