"""The rows of a study that mixed models can use, and in plain sentences what had to be left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals.stats.methods import METHODS, SINGLE
from evals.stats.study import Study

MIN_GROUPS = 10
"""Fewest groups with several rows from which a variance between groups is estimated."""

_MOST_NAMES = 8

Mask = NDArray[np.bool_]
Codes = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """n answers; the codes index the names, and the first method is the reference.

    Attributes:
        methods: names, the reference first.
        backbones: names.
        method: shape (n,).
        backbone: shape (n,).
        item: shape (n,), 0 to n_items - 1.
        z: shape (n,), standardised difficulty of the row's item; None where it cannot be used.
        correct: shape (n,).
    """

    methods: tuple[str, ...]
    backbones: tuple[str, ...]
    method: Codes
    backbone: Codes
    item: Codes
    z: NDArray[np.float64] | None
    correct: Mask

    def take(self, rows: Codes) -> Rows:
        """Some of the rows; names and codes stay as they are."""
        z = None if self.z is None else self.z[rows]
        method, backbone, item = self.method[rows], self.backbone[rows], self.item[rows]
        return Rows(self.methods, self.backbones, method, backbone, item, z, self.correct[rows])

    @property
    def cell(self) -> Codes:
        """Shape (n,): the number of the row's method and backbone."""
        return self.method * len(self.backbones) + self.backbone

    @property
    def pair(self) -> Codes:
        """Shape (n,): the number of the row's item and backbone."""
        return self.item * len(self.backbones) + self.backbone


def rows_of(study: Study, reference: str | None, notes: list[str]) -> Rows | None:
    """The usable rows; adds to `notes` one sentence for whatever is left out. None where no model has an estimate."""
    hopeless = _hopeless(study)
    if hopeless:
        notes.append(hopeless)
        return None
    kept, use_difficulty = _known_difficulty(study, _without_copies(study, notes), notes)
    kept = _without_separated_levels(study, kept, notes)
    if not kept.any():
        notes.append("No method or LLM with both right and wrong answers is left: no model is fitted.")
        return None
    return _coded(study, kept, use_difficulty=use_difficulty, reference=reference, notes=notes)


def _hopeless(study: Study) -> str | None:
    """Why no part of a study can be fitted, where one sentence says it all."""
    n, right = study.correct.size, int(study.correct.sum())
    if not n:
        return "There are no graded answers: no model is fitted."
    if right in (0, n):
        return f"All {n} answers are {'right' if right else 'wrong'}: no model has a finite estimate."
    counts = np.bincount(study.item)
    if (counts > 1).sum() < MIN_GROUPS:
        several = f"{(counts > 1).sum()} of {(counts > 0).sum()} items have several answers"
        return f"{several}, {MIN_GROUPS} are needed for (1 | item): no model is fitted."
    return None


def listed(names: Collection[str]) -> str:
    """Names for a sentence: the first few and how many more."""
    shown = ", ".join(list(names)[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _without_copies(study: Study, notes: list[str]) -> Mask:
    """All rows except those that give another method's answers again: an answer counted twice narrows intervals."""
    there = _present(study.methods, study.method)
    kept = np.ones(study.method.size, dtype=np.bool_)
    dropped: dict[str, list[str]] = {}
    for known in METHODS:
        originals = [name for name in known.copies if name in there]
        if known.name not in there or not originals:
            continue
        own = _rows_of(study, [known.name])
        same = np.isin(study.backbone, study.backbone[_rows_of(study, originals)])
        again = own if known.any_agent and SINGLE in originals else own & same
        names = [known.name] if again.sum() == own.sum() else _cells(study, known.name, again)
        dropped.setdefault(originals[0], []).extend(names if again.any() else [])
        kept &= ~again
    notes += [
        f"{listed(names)}: left out of the models, since their answers are those of {first} again."
        for first, names in dropped.items()
        if names
    ]
    return kept


def _rows_of(study: Study, methods: Collection[str]) -> Mask:
    """The rows of some methods."""
    return np.isin(study.method, [place for place, name in enumerate(study.methods) if name in methods])


def _cells(study: Study, method: str, rows: Mask) -> list[str]:
    """A method on each of the backbones of some rows."""
    return [f"{method} on {name}" for name in _present(study.backbones, study.backbone[rows])]


def _known_difficulty(study: Study, kept: Mask, notes: list[str]) -> tuple[Mask, bool]:
    """The rows to use and whether difficulty can be a term; items without it go where most items have it."""
    items = np.unique(study.item[kept])
    known = np.isfinite(study.difficulty)
    n_known = int(known[items].sum())
    if n_known * 2 <= items.size:
        notes.append(
            f"Difficulty is known for {n_known} of {items.size} items: the models have no difficulty term, "
            "and M2 is not fitted."
        )
        return kept, False
    if n_known < items.size:
        notes.append(f"{items.size - n_known} items without a known difficulty are left out of the models.")
        kept = kept & known[study.item]
    values = study.difficulty[np.unique(study.item[kept])]
    if values.min() == values.max():
        notes.append("All items are equally difficult: the models have no difficulty term, and M2 is not fitted.")
        return kept, False
    return kept, True


def _without_separated_levels(study: Study, kept: Mask, notes: list[str]) -> Mask:
    """Leave out methods and LLMs with no right or no wrong answer, until there are none.

    Their coefficients are infinite, and at infinity their rows have likelihood 1: without them all other estimates
    are what they would be with them.
    """
    found = True
    while found:
        found = False
        for what, codes, names in (("method", study.method, study.methods), ("LLM", study.backbone, study.backbones)):
            for level in one_sided(codes[kept], study.correct[kept]):
                rows = kept & (codes == level)
                outcome = "right" if study.correct[rows][0] else "wrong"
                notes.append(
                    f"The {what} {names[level]} is left out of the models: all its {rows.sum()} answers are {outcome}, "
                    "which has no finite log-odds."
                )
                kept, found = kept & ~rows, True
    return kept


def one_sided(codes: NDArray[np.integer], correct: Mask) -> Codes:
    """Levels that occur with one outcome only."""
    counts, right = np.bincount(codes), np.bincount(codes, weights=correct)
    return np.flatnonzero((counts > 0) & ((right == 0) | (right == counts)))


def _coded(study: Study, kept: Mask, *, use_difficulty: bool, reference: str | None, notes: list[str]) -> Rows:
    """The kept rows, coded by the levels that are left."""
    methods = _present(study.methods, study.method[kept])
    first = _reference(study, kept, methods, reference, notes)
    methods = [first, *(name for name in methods if name != first)]
    backbones = _present(study.backbones, study.backbone[kept])
    return Rows(
        tuple(methods),
        tuple(backbones),
        _recoded(study.method[kept], study.methods, methods),
        _recoded(study.backbone[kept], study.backbones, backbones),
        np.unique(study.item[kept], return_inverse=True)[1],
        study.z[study.item[kept]] if use_difficulty else None,
        study.correct[kept],
    )


def _reference(study: Study, kept: Mask, methods: Sequence[str], wanted: str | None, notes: list[str]) -> str:
    """The method that others are compared with: the wanted one, else that of most LLMs, the earlier of equals."""
    if wanted in methods:
        return str(wanted)
    reach = {
        name: np.unique(study.backbone[kept & (study.method == study.methods.index(name))]).size for name in methods
    }
    chosen = max(methods, key=lambda name: reach[name])
    if wanted is not None:
        notes.append(f"The reference {wanted} is not among the methods of the models: {chosen} stands in its place.")
    return chosen


def _present(names: Sequence[str], codes: NDArray[np.integer]) -> list[str]:
    """The names that occur, in their order."""
    return [names[code] for code in np.unique(codes)]


def _recoded(codes: NDArray[np.integer], names: Sequence[str], wanted: Sequence[str]) -> Codes:
    """Codes into `wanted` instead of into `names`."""
    table = np.array([wanted.index(name) if name in wanted else -1 for name in names], dtype=np.intp)
    return np.asarray(table[codes], dtype=np.intp)


def random_terms(rows: Rows, notes: list[str]) -> dict[str, Codes] | None:
    """Grouping factors of the models, term to codes of shape (n,); None where the answers identify no item effect."""
    trouble = _trouble(rows.item, rows.correct)
    if trouble:
        notes.append(f"(1 | item) is not identified, and no model is fitted: {trouble}.")
        return None
    if len(rows.backbones) == 1:
        notes.append(f"There is one LLM ({rows.backbones[0]}): no LLM effect, no (1 | item:LLM), and M3 is not fitted.")
        return {"item": rows.item}
    counts = np.bincount(rows.pair)
    repeated = int((counts > 1).sum())
    if repeated < MIN_GROUPS:
        notes.append(
            f"(1 | item:LLM) is left out: {repeated} pairs of item and LLM have several answers, "
            f"{MIN_GROUPS} are needed."
        )
        return {"item": rows.item}
    if np.count_nonzero(counts) == np.unique(rows.item).size:
        notes.append("(1 | item:LLM) is left out: each item has one LLM, so that it is the same as (1 | item).")
        return {"item": rows.item}
    trouble = _trouble(rows.pair, rows.correct)
    if trouble:
        notes.append(f"(1 | item:LLM) is not identified, and no model is fitted: {trouble}.")
        return None
    return {"item": rows.item, "item:LLM": rows.pair}


def _trouble(groups: Codes, correct: Mask) -> str | None:
    """Why a variance between groups has no estimate, or None."""
    counts, right = np.bincount(groups), np.bincount(groups, weights=correct)
    repeated = int((counts > 1).sum())
    if repeated < MIN_GROUPS:
        return f"{repeated} of {np.count_nonzero(counts)} have several answers, {MIN_GROUPS} are needed"
    if not ((right > 0) & (right < counts)).any():
        return "each has only right or only wrong answers, so that the variance between them is infinite"
    return None
