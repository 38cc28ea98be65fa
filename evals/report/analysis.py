"""`analysis.json`: what the test episodes of a run say about difficulty, differences, cost and verdicts, per task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.report.summary import plain
from evals.stats.axes import AXES
from evals.stats.contrasts import Gains, gains, interaction_rows, leave_one_out_rows, pooled_rows, reference_cells
from evals.stats.cost import Key, Priced, accuracy_ends, cost_table, pooled, priced, ratio_table, tabled
from evals.stats.difficulty import gain_rows, item_accuracy, quartile_rows, spearman
from evals.stats.frontier import areas, frontier, matched_rows
from evals.stats.methods import BOUND, CONTROLS, is_one_of, known
from evals.stats.mixed import try_difficulty_models
from evals.stats.paired_tests import holm
from evals.stats.power import detectable
from evals.stats.sensitivity import truncation_rows
from evals.stats.study import Study, cells
from evals.stats.verifier import VerifierRow, verifier_rates
from trinity.errors import LedgerError

FORMAT = 1

Json = dict[str, Any]


def build_analysis(
    studies: Iterable[Study],
    *,
    reference: str,
    verifier: Iterable[VerifierRow] = (),
    models: Callable[[Study], bool] | bool = True,
    models_without: Collection[str] = (),
    ratios_to: Sequence[str] = (),
    controls: Collection[str] = CONTROLS,
) -> Json:
    """The content of `analysis.json`: JSON's types only, unknown is None, the same for records in any order.

    What cannot be told is named in one sentence each under a task's `not_identified`.

    Args:
        studies: one a task, as `evals.stats.study.studies` makes them.
        reference: the method that differences are taken to.
        verifier: verdicts of live runs.
        models: whether to fit the mixed models, which may take a minute a task; or of which tasks.
        models_without: methods that the mixed models leave out.
        ratios_to: methods that costs are told by besides the reference.
        controls: methods of which mixtures are what the same cost buys otherwise; the reference is always one.

    Raises:
        LedgerError: the studies are of several kinds of pool.
    """
    found, verdicts = list(studies), list(verifier)
    kind = _pool_kind(found)
    among = (reference, *controls)
    bases = list(dict.fromkeys((reference, *ratios_to)))
    tasks = {}
    for study in found:
        fit = models if isinstance(models, bool) else models(study)
        judged = [row for row in verdicts if row.task == study.task]
        fitted = _models(study, reference, models_without) if fit else (None, [])
        tasks[study.task] = _task(study, bases, among, judged, fitted)
    _adjust([task["difficulty"]["spearman"] for task in tasks.values()])
    named = {"reference": reference, "models_without": sorted(models_without), "ratios_to": bases[1:]}
    whole = {"format": FORMAT, "pool_kind": kind, **named, "tasks": tasks}
    return {key: plain(value) for key, value in whole.items()}


def _pool_kind(studies: Sequence[Study]) -> str | None:
    """The kind of pool of all studies.

    Raises:
        LedgerError: there are several.
    """
    kinds = sorted({study.pool_kind for study in studies})
    if len(kinds) > 1:
        raise LedgerError(f"kinds of pool {', '.join(kinds)} do not go into one analysis; report each run by itself")
    return kinds[0] if kinds else None


def _adjust(correlations: Sequence[Json | None]) -> None:
    """Enter p adjusted over the tasks."""
    known = [row for row in correlations if row is not None]
    for row, p in zip(known, holm([row["p"] for row in known]), strict=True):
        row["p_holm"] = p


def _models(study: Study, reference: str, without: Collection[str]) -> tuple[Json | None, list[str]]:
    """The mixed models of a task, None where there are none, and sentences on what they leave out."""
    left_out = [name for name in study.methods if name != BOUND and is_one_of(name, without)]
    notes = [f"{', '.join(left_out)}: left out of the mixed models, as the run was told."] if left_out else []
    unknown = [name for name in without if not any(is_one_of(method, [name]) for method in study.methods)]
    if unknown:
        notes.append(f"{', '.join(unknown)}: not among the methods, so that the mixed models need not leave it out.")
    fitted, why_not = try_difficulty_models(study.subset(~_rows_of(study, [BOUND, *left_out])), reference=reference)
    if fitted is None:
        return None, [f"No mixed models: {why_not}"]
    return fitted.to_json(), [*notes, *fitted.not_identified]


def _task(
    study: Study,
    bases: Sequence[str],
    controls: Collection[str],
    verdicts: Sequence[VerifierRow],
    fitted: tuple[Json | None, list[str]],
) -> Json:
    """The analysis of one task; the first of `bases` is the reference."""
    reference = bases[0]
    real = study.subset(~_rows_of(study, [BOUND]))
    compared = real.subset(~_same_answers(real, reference))
    gain = gains(compared, reference)
    difficulty = _difficulty(real, gain)
    rows = {axis.name: priced(real, axis.column) for axis in AXES}
    notes = [
        *_difficulty_notes(study, difficulty),
        *_reference_notes(gain),
        *(note for base in bases[1:] for note in _ratio_notes(real, base)),
        *(note for axis, every in rows.items() for note in _cost_notes(axis, every, controls)),
        *fitted[1],
    ]
    return {
        "n_items": len(study.items),
        "methods": sorted({real.methods[method] for method, _ in cells(real)}),
        "backbones": sorted({real.backbones[backbone] for _, backbone in cells(real)}),
        "difficulty": difficulty,
        "pooled": pooled_rows(gain),
        "interaction": interaction_rows(gain),
        "leave_one_out": leave_one_out_rows(gain),
        "truncation": truncation_rows(compared, reference),
        "detectable": _detectable(gain),
        "cost": _costs(real, {axis: every for axis, every in rows.items() if _known(every)}, bases, controls),
        "models": fitted[0],
        "verifier": verifier_rates(verdicts),
        "not_identified": list(dict.fromkeys(notes)),
    }


def _rows_of(study: Study, methods: Collection[str]) -> NDArray[np.bool_]:
    """Episodes of some methods, shape (n,)."""
    return np.isin(study.method, [place for place, name in enumerate(study.methods) if name in methods])


def _same_answers(study: Study, reference: str) -> NDArray[np.bool_]:
    """Episodes that are the reference's own answers under another name, shape (n,): no difference to be tested."""
    backbones = np.unique(study.backbone[_rows_of(study, [reference])])
    return _rows_of(study, known(reference).copies) & np.isin(study.backbone, backbones)


def _difficulty(study: Study, gain: Gains) -> Json:
    """Whether difficulty predicts accuracy, and where methods gain."""
    return {
        "kind": study.difficulty_kind,
        "n_known": int(np.isfinite(study.difficulty).sum()),
        "spearman": spearman(study.difficulty, item_accuracy(study)),
        "quartiles": quartile_rows(study),
        "gains": gain_rows(gain),
    }


def _difficulty_notes(study: Study, found: Json) -> list[str]:
    """What difficulty does not tell."""
    n_items, n_known = len(study.items), found["n_known"]
    if not n_known:
        return ["The difficulty of no item is known: no correlation with accuracy and no quarters."]
    notes = []
    if n_known < n_items:
        notes.append(f"The difficulty of {n_items - n_known} of {n_items} items is unknown: they are in no quarter.")
    if found["spearman"] is None:
        notes.append("Difficulty and accuracy have no rank correlation: fewer than three items, or one does not vary.")
    return notes


def _reference_notes(gain: Gains) -> list[str]:
    """Which rows are compared to nothing, and which have one backbone."""
    keys = zip(gain.methods, gain.backbones, gain.references, strict=True)
    alone = [f"{method} on {backbone}" for method, backbone, base in keys if base is None]
    if alone and len(alone) == len(gain.methods):
        return [f"There is no {gain.reference} that anything could be compared to."]
    notes = [f"Several rows of {gain.reference}, none on the same backbone, for: {', '.join(alone)}."] if alone else []
    single = [method for method in gain.compared() if len(gain.cells_of(method)) == 1]
    if single:
        notes.append(f"One backbone, so that none can be left out: {', '.join(single)}.")
    return notes


def _ratio_notes(study: Study, base: str) -> list[str]:
    """Which rows have no ratio of their cost to that of a further method."""
    pairs = reference_cells(study, base)
    alone = [f"{study.methods[cell[0]]} on {study.backbones[cell[1]]}" for cell, row in pairs.items() if row is None]
    if not alone:
        return []
    if len(alone) == len(pairs):
        return [f"There is no {base} whose cost anything could be told by."]
    return [f"Several rows of {base}, none on the same backbone, so no ratio of costs, for: {', '.join(alone)}."]


def _detectable(gain: Gains) -> list[Json]:
    """What each comparison could find."""
    found = [(method, detectable(gain.pooled(gain.cells_of(method)))) for method in gain.compared()]
    return [
        {"method": method, "n_items": one.n_items, "difference": one.difference, "items_needed": one.items_needed}
        for method, one in found
    ]


def _known(every: Mapping[Key, Priced]) -> dict[Key, Priced]:
    """The rows of known cost."""
    return {key: row for key, row in every.items() if row.mean is not None}


def _costs(
    study: Study, rows: Mapping[str, Mapping[Key, Priced]], bases: Sequence[str], controls: Collection[str]
) -> Json:
    """The tables of each axis on which a row's cost is known."""
    tables = []
    accuracies = accuracy_ends({key: row for every in rows.values() for key, row in {**every, **pooled(every)}.items()})
    for every in rows.values():
        tables += [
            cost_table(every, accuracies),
            cost_table(pooled(every), accuracies),
            *(ratio_table(study, every, base) for base in bases),
        ]
    found = iter(tabled(tables))
    told = {}
    for axis, every in rows.items():
        names = {"rows": next(found), "pooled": next(found), "ratios": list(chain(*islice(found, len(bases))))}
        told[axis] = _cost(study, every, names, controls)
    return told


def _cost(
    study: Study, every: Mapping[Key, Priced], tables: Mapping[str, list[Json]], controls: Collection[str]
) -> Json:
    """What one axis says."""
    known = _known(every)
    points = {key: (row.mean or 0.0, row.accuracy) for key, row in known.items()}
    best = frontier(points)
    those = [key for key in known if is_one_of(key[0], controls)]
    named = zip(every, tables["rows"], strict=True)
    return {
        **tables,
        "rows": [{**row, "on_frontier": key in best if key in known else None} for key, row in named],
        **areas(points, those),
        "matched": matched_rows(known, those, difficulty=study.difficulty),
    }


def _cost_notes(axis: str, every: Mapping[Key, Priced], controls: Collection[str]) -> list[str]:
    """Which costs are unknown, and where nothing can be matched."""
    known = _known(every)
    if not known:
        return [f"The cost in {axis} is unknown for every row."]
    unknown = [f"{method} on {backbone}" for method, backbone in every if (method, backbone) not in known]
    notes = [f"The cost in {axis} is unknown for: {', '.join(unknown)}."] if unknown else []
    if not any(is_one_of(method, controls) for method, _ in known):
        notes.append(f"No control has a known cost in {axis}: there is nothing to match.")
    return notes
