"""`analysis.json`: what the test episodes of a run say about difficulty, differences, cost and verdicts, per task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.report.summary import plain
from evals.stats.contrasts import (
    Gains,
    cells,
    gains,
    holm,
    interaction_rows,
    leave_one_out_rows,
    pooled_rows,
)
from evals.stats.cost import Key, Priced, cost_rows, pooled, priced, ratio_rows
from evals.stats.difficulty import gain_rows, item_accuracy, quartile_rows, spearman
from evals.stats.frontier import areas, frontier, matched_rows
from evals.stats.mixed import try_difficulty_models
from evals.stats.power import items_needed, minimum_detectable_difference
from evals.stats.sensitivity import truncation_rows
from evals.stats.study import Study
from evals.stats.verifier import VerifierRow, verifier_rates
from trinity.errors import LedgerError

FORMAT = 1
AXES: Mapping[str, str] = {"usd": "cost_usd", "weighted_tokens": "weighted_tokens", "gflop": "gflop"}
"""Name of a cost axis -> the study's column."""
CONTROLS = ("single", "random", "best_single", "lookup", "vote")
"""What a method has to beat at its own cost; with the reference, and with their variants."""
ORACLE = "oracle"
"""It picks by the outcome: a bound (the summary's headroom), not a method that could be compared or paid for."""
SAME_ANSWERS = ("best_single", "single")
"""The first is one agent's row of the second, under a name of its own."""
EFFECTS = (0.01, 0.02, 0.05)
"""Differences for which the number of items needed is told."""
FEWEST = 2
"""Items that have a spread."""

Json = dict[str, Any]


def build_analysis(
    studies: Iterable[Study],
    *,
    reference: str,
    verifier: Iterable[VerifierRow] = (),
    models: bool = True,
    controls: Collection[str] = CONTROLS,
) -> Json:
    """The content of `analysis.json`: JSON's types only, unknown is None, the same for records in any order.

    What cannot be told is named in one sentence each under a task's `not_identified`.

    Args:
        studies: one a task, as `evals.stats.study.studies` makes them.
        reference: the method that differences are taken to.
        verifier: verdicts of live runs.
        models: whether to fit the mixed models, which may take a minute a task.
        controls: methods of which mixtures are what the same cost buys otherwise; the reference is always one.

    Raises:
        LedgerError: the studies are of several kinds of pool.
    """
    found = list(studies)
    kinds = sorted({study.pool_kind for study in found})
    if len(kinds) > 1:
        raise LedgerError(f"kinds of pool {', '.join(kinds)} do not go into one analysis; report each run by itself")
    verdicts = list(verifier)
    among = (reference, *controls)
    tasks = {
        study.task: _task(study, reference, among, [row for row in verdicts if row.task == study.task], models=models)
        for study in found
    }
    _adjust([task["difficulty"]["spearman"] for task in tasks.values()])
    whole = {"format": FORMAT, "pool_kind": kinds[0] if kinds else None, "reference": reference, "tasks": tasks}
    return {key: plain(value) for key, value in whole.items()}


def _adjust(correlations: Sequence[Json | None]) -> None:
    """Enter p adjusted over the tasks."""
    known = [row for row in correlations if row is not None]
    for row, p in zip(known, holm([row["p"] for row in known]), strict=True):
        row["p_holm"] = p


def _task(
    study: Study, reference: str, controls: Collection[str], verdicts: Sequence[VerifierRow], *, models: bool
) -> Json:
    """The analysis of one task."""
    real = study.subset(~_rows_of(study, ORACLE))
    compared = real.subset(~_same_answers(real, reference))
    gain = gains(compared, reference)
    fitted, why_not = try_difficulty_models(real, reference=reference) if models else (None, None)
    difficulty = _difficulty(real, gain)
    rows = {axis: priced(real, column) for axis, column in AXES.items()}
    notes = [
        *_difficulty_notes(study, difficulty),
        *_reference_notes(gain),
        *(note for axis, every in rows.items() for note in _cost_notes(axis, every, controls)),
        *([f"No mixed models: {why_not}"] if why_not else []),
        *(fitted.not_identified if fitted else ()),
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
        "cost": {axis: _cost(real, every, reference, controls) for axis, every in rows.items() if _known(every)},
        "models": fitted.to_json() if fitted else None,
        "verifier": verifier_rates(verdicts),
        "not_identified": list(dict.fromkeys(notes)),
    }


def _rows_of(study: Study, method: str) -> NDArray[np.bool_]:
    """Episodes of a method, shape (n,)."""
    place = study.methods.index(method) if method in study.methods else -1
    same: NDArray[np.bool_] = study.method == place
    return same


def _same_answers(study: Study, reference: str) -> NDArray[np.bool_]:
    """Episodes that are the reference's own answers under another name, shape (n,): no difference to be tested."""
    one, other = SAME_ANSWERS
    if reference != one:
        return np.zeros(study.method.size, dtype=np.bool_)
    backbones = np.unique(study.backbone[_rows_of(study, one)])
    return _rows_of(study, other) & np.isin(study.backbone, backbones)


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


def _detectable(gain: Gains) -> list[Json]:
    """The smallest difference that each comparison could find, and the items that given ones need (power .8)."""
    rows = []
    for method in gain.compared():
        values = gain.pooled(gain.cells_of(method))
        values = values[np.isfinite(values)]
        sd = float(np.std(values, ddof=1)) if values.size >= FEWEST else 0.0
        needed = {str(effect): items_needed(effect, sd=sd) for effect in EFFECTS}
        least = minimum_detectable_difference(values.size, sd=sd)
        rows.append({"method": method, "n_items": values.size, "difference": least, "items_needed": needed})
    return rows


def _known(every: Mapping[Key, Priced]) -> dict[Key, Priced]:
    """The rows of known cost."""
    return {key: row for key, row in every.items() if row.mean is not None}


def _cost(study: Study, every: Mapping[Key, Priced], reference: str, controls: Collection[str]) -> Json:
    """The tables of one cost axis, on which a row's cost is known."""
    known = _known(every)
    points = {key: (row.mean or 0.0, row.accuracy) for key, row in known.items()}
    best = frontier(points)
    those = [key for key in known if _is_control(key[0], controls)]
    named = zip(every, cost_rows(every), strict=True)
    return {
        "rows": [{**row, "on_frontier": key in best if key in known else None} for key, row in named],
        "pooled": cost_rows(pooled(every)),
        "ratios": ratio_rows(study, every, reference),
        **areas(points, those),
        "matched": matched_rows(known, those, strata=study.quartile),
    }


def _is_control(method: str, controls: Collection[str]) -> bool:
    """Whether a method, with or without a variant in its name, is a control."""
    return method in controls or method.startswith(tuple(f"{name} " for name in controls))


def _cost_notes(axis: str, every: Mapping[Key, Priced], controls: Collection[str]) -> list[str]:
    """Which costs are unknown, and where nothing can be matched."""
    known = _known(every)
    if not known:
        return [f"The cost in {axis} is unknown for every row."]
    unknown = [f"{method} on {backbone}" for method, backbone in every if (method, backbone) not in known]
    notes = [f"The cost in {axis} is unknown for: {', '.join(unknown)}."] if unknown else []
    if not any(_is_control(method, controls) for method, _ in known):
        notes.append(f"No control has a known cost in {axis}: there is nothing to match.")
    return notes
