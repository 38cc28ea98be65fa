"""Which rows of which runs are compared, and with what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from evals.comparison.runs import Run
from evals.report.tally import RowKey, named
from evals.stats.methods import TRAINED, is_trained, known
from evals.stats.settings import settings_of
from trinity.errors import ConfigError

Place = tuple[Run, RowKey]
"""A row of a run."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be compared.

    Attributes:
        methods: rows, `METHOD` or `METHOD/VARIANT`; none: each run's coordinator rows (without any, those of its
            other methods) and those of its reference.
        reference: a run (its letter or folder), a method or row of the first run, or `LETTER:ROW`; None: the first
            run, and where there is one run its reference. Of a method's several rows that on the same backbone.
        all_pairs: every two runs instead of each against one; of a single run every two of its rows.
        require_equal_effort: refuse efforts that differ.
        allow_differences: say that graders differ instead of refusing.
        overall: over all tasks only, not task by task too; there are fewer tests to adjust for.
    """

    methods: tuple[str, ...] = ()
    reference: str | None = None
    all_pairs: bool = False
    require_equal_effort: bool = False
    allow_differences: bool = False
    overall: bool = False


def letters(number: int) -> str:
    """The label of a run by its place from 0: A to Z, then AA, as the columns of a spreadsheet."""
    text = ""
    while number >= 0:
        text = chr(ord("A") + number % 26) + text
        number = number // 26 - 1
    return text


def chosen_pairs(runs: Sequence[Run], request: Request) -> tuple[list[tuple[Place, Place]], list[str]]:
    """Pairs (row, what it is compared with) in the order of the runs, and a sentence on each row without a partner.

    Raises:
        ConfigError: a name fits no row or several, or nothing is left to compare.
    """
    if request.all_pairs and request.reference is not None:
        raise ConfigError("all pairs have no reference; leave --all-pairs or --reference out")
    rows = {run.label: _rows(run, request) for run in runs}
    lonely: list[str] = []
    if request.all_pairs:
        pairs = list(_all_pairs(runs, rows, lonely))
    else:
        pairs = list(_against_one(runs, rows, request, lonely))
    if not pairs:
        raise ConfigError(
            "there are no two rows to compare; " + (" ".join(lonely) or "give two runs, or a row by --reference")
        )
    return pairs, lonely


def _rows(run: Run, request: Request) -> list[RowKey]:
    """The rows of a run that are compared, in table order."""
    if request.methods:
        wanted = {key for name in request.methods for key in _found(run, name)}
        return [key for key in run.keys if key in wanted]
    reference = settings_of(run.manifest).reference
    others = [key for key in run.keys if known(key[0]).role == "method" and key[0] != reference]
    told = [key for key in others if is_trained(key[0])] or others
    if not told:
        raise ConfigError(f"{run.folder} has no {TRAINED} row; choose rows by --method from: {_choices(run)}")
    return [key for key in run.keys if key in told or key[0] == reference]


def _found(run: Run, name: str) -> list[RowKey]:
    """The rows that a name means: all of a method, or one variant of it.

    Raises:
        ConfigError: there is none.
    """
    found = [(method, variant) for method, variant in run.keys if name in (method, f"{method}/{variant}")]
    if not found:
        raise ConfigError(f"{run.folder} has no row {name}; choose from: {_choices(run)}")
    return found


def _choices(run: Run) -> str:
    """The names of all rows."""
    return ", ".join(f"{method}/{variant}" if variant else method for method, variant in run.keys)


def _partner(key: RowKey, own: Run, other: Run) -> RowKey | None:
    """The row of the same name; where each run has one row of the method, its variant (a chosen agent) may differ."""
    if key in other.keys:
        return key
    mine, theirs = ([one for one in run.keys if one[0] == key[0]] for run in (own, other))
    return theirs[0] if len(mine) == len(theirs) == 1 else None


def _all_pairs(runs: Sequence[Run], rows: dict[str, list[RowKey]], lonely: list[str]) -> Iterator[tuple[Place, Place]]:
    """The later one of every two runs against the earlier one, row by row."""
    if len(runs) == 1:
        yield from (((runs[0], b), (runs[0], a)) for a, b in combinations(rows[runs[0].label], 2))
    for earlier, later in combinations(runs, 2):
        yield from _same_rows(later, rows[later.label], earlier, lonely)


def _same_rows(run: Run, keys: Sequence[RowKey], reference: Run, lonely: list[str]) -> Iterator[tuple[Place, Place]]:
    """The rows of one run against those of the same name in another."""
    for key in keys:
        partner = _partner(key, run, reference)
        if partner is None:
            lonely.append(f"{run.label} {named(key)} has no row of that name in {reference.label}.")
        else:
            yield (run, key), (reference, partner)


def _against_one(
    runs: Sequence[Run], rows: dict[str, list[RowKey]], request: Request, lonely: list[str]
) -> Iterator[tuple[Place, Place]]:
    """Every run against one run, or every row against one row or against a method's rows on the same backbones."""
    reference, bases = _reference(runs, request.reference)
    for run in runs:
        if bases:
            yield from _on_backbones(run, rows[run.label], reference, bases, lonely)
        elif run is not reference:
            yield from _same_rows(run, rows[run.label], reference, lonely)


def _on_backbones(
    run: Run, keys: Sequence[RowKey], reference: Run, bases: Sequence[RowKey], lonely: list[str]
) -> Iterator[tuple[Place, Place]]:
    """Rows of a run against those of a method: the one on the same backbone, else the only one."""
    on = {_backbone(reference, base): base for base in bases}
    for key in keys:
        base = bases[0] if len(bases) == 1 else on.get(_backbone(run, key))
        if run is reference and key in bases:
            continue
        if base is None:
            lonely.append(f"{run.label} {named(key)} has no row of {bases[0][0]} on its backbone in {reference.label}.")
        else:
            yield (run, key), (reference, base)


def _backbone(run: Run, key: RowKey) -> str:
    """The backbone of a row; runs of an earlier version tell it by the variant alone."""
    return str((run.row(key) or {}).get("backbone") or key[1])


def _reference(runs: Sequence[Run], word: str | None) -> tuple[Run, list[RowKey]]:
    """The run that a word means, and the rows of one method where it means those.

    Raises:
        ConfigError: it means nothing.
    """
    if word is None:
        return runs[0], _own(runs[0]) if len(runs) == 1 else []
    for run in runs:
        if word == run.label or Path(word).resolve() == run.folder.resolve():
            return run, _own(run) if len(runs) == 1 else []
    label, colon, name = word.partition(":")
    for run in runs:
        if colon and label == run.label:
            return run, _found(run, name)
    return runs[0], _found(runs[0], word)


def _own(run: Run) -> list[RowKey]:
    """The rows of a run's own reference.

    Raises:
        ConfigError: it has none.
    """
    return _found(run, settings_of(run.manifest).reference)
