"""Every method against a reference on the same items: differences, their tests, and which answers changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.stats.bootstrap import bootstrap_means, equal_interval, same_items
from evals.stats.intervals import RESAMPLES, percentile_ends
from evals.stats.paired_tests import sign_flip_test, with_holm
from evals.stats.study import Study, cells, mean_over, quarters

DIGITS = 12
"""Decimals to which differences are compared: equal scores may have been added in another order."""
APART = 100
"""Between the strata of two tasks, so that a small one is nearer to those of its own."""

Row = dict[str, Any]


class Contrast(NamedTuple):
    """Mean difference of two methods over `n_items` items, and how its p was found.

    `ci_*` is the interval for items like these, `within_*` the one that takes the mix of their difficulties as given.
    `wins` are the items (of 0/1 scores: the answers) that the first repairs, `losses` those that it breaks.
    """

    n_items: int
    difference: float
    ci_low: float
    ci_high: float
    within_low: float
    within_high: float
    p: float
    wins: int
    losses: int
    ties: int
    test: str


def contrasts(
    differences: NDArray[np.float64],
    *,
    difficulty: NDArray[np.float64] | None = None,
    task: NDArray[np.int32] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> list[Contrast | None]:
    """Mean, whole-item bootstrap intervals (95 %) and test of k differences at once, the same for each as alone.

    Items are resampled within each task, of which a run asks a fixed number. A second interval resamples within the
    quarters of difficulty of each task, as the orchestration study does (section B4): it says what items of this very
    mix would give. Where a method gains on hard items only, that leaves out what the mix itself may be, and of
    simulated studies with items drawn at random it held the true difference in as few as half (.49 of .95), so it
    decides nothing here. Quarters are cut anew for the items of each difference, so that it has the same intervals in
    whichever table it stands. Where nothing differs within strata they would claim certainty, and it is resampled
    without; where nothing differs at all it gets `equal_interval`. Differences of the other sign give results of the
    other sign, to the last bit.

    Args:
        differences: shape (n_items, k), in [-1, 1], NaN where one of the two was not graded; sorted by task and item.
        difficulty: shape (n_items,), NaN where unknown; None: unknown.
        task: shape (n_items,), a number for each; None: one task.
        seed: of resampling and test.
        resamples: of both.

    Returns:
        One a column; None where no item was graded for both.
    """
    values = settled(differences)
    known = np.full(len(values), np.nan) if difficulty is None else difficulty
    tasks = np.zeros(len(values), dtype=np.int32) if task is None else task
    found: list[Contrast | None] = [None] * values.shape[1]
    for columns, kept in same_items(np.isfinite(values)):
        part = values[np.ix_(kept, columns)]
        strata = tasks[kept], _quarters(known[kept], tasks[kept])
        ends = np.vstack([_ends(part, labels, seed, resamples) for labels in strata])
        for column, own, low_high in zip(columns, part.T, ends.T, strict=True):
            found[column] = _contrast(own, low_high, seed, resamples)
    return found


def settled(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """The differences, of which those that rounding parts are equal: 0, or up to their sign the first of them."""
    same = np.full(differences.shape, np.nan)
    for column, values in zip(same.T, differences.T, strict=True):
        known = np.isfinite(values)
        size = np.abs(values[known])
        rounded, first, group = np.unique(np.round(size, DIGITS), return_index=True, return_inverse=True)
        one = np.where(rounded == 0, 0.0, size[first])
        column[known] = np.sign(values[known]) * one[group] + 0.0  # no minus before a zero
    return same


def _quarters(difficulty: NDArray[np.float64], task: NDArray[np.int32]) -> NDArray[np.int32]:
    """Quarters of difficulty within each task, shape (n_items,)."""
    labels = np.zeros(task.size, dtype=np.int32)
    for number, name in enumerate(np.unique(task)):
        inside = task == name
        labels[inside] = quarters(difficulty[inside]) + APART * number
    return labels


def _ends(values: NDArray[np.float64], strata: NDArray[np.int32], seed: int, resamples: int) -> NDArray[np.float64]:
    """Ends of the intervals of columns that are known throughout, shape (2, k)."""
    ends = percentile_ends(bootstrap_means(values, strata=strata, seed=seed, resamples=resamples))
    flat = (ends[0] == ends[1]) & (np.ptp(values, axis=0) > 0)
    if flat.any():
        ends[:, flat] = percentile_ends(bootstrap_means(values[:, flat], seed=seed, resamples=resamples))
    return ends


def _contrast(values: NDArray[np.float64], ends: NDArray[np.float64], seed: int, resamples: int) -> Contrast:
    """One contrast, from the differences of its items, at least one, and the ends of its two intervals."""
    mean = float(np.mean(values))
    same = equal_interval(mean, values.size)
    low, high, within_low, within_high = (*same, *same) if np.ptp(values) == 0 else (float(end) + 0.0 for end in ends)
    wins, losses = int(np.sum(values > 0)), int(np.sum(values < 0))
    p, test = sign_flip_test(values, seed=seed, flips=resamples)
    ties = values.size - wins - losses
    return Contrast(values.size, mean, low, high, within_low, within_high, p, wins, losses, ties, test)


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """Score differences to the reference, item by item, of each method and backbone that was graded.

    Attributes:
        methods: name per cell, k of them.
        backbones: name per cell.
        accuracies: mean score per cell, over the items graded for it.
        references: the backbone of the reference's row that a cell is compared to, None where there is none.
        differences: shape (n_items, k), NaN where one of the two was not graded.
        difficulty: shape (n_items,), NaN where unknown.
        reference: the method compared to; its own cells are not among these.
    """

    methods: tuple[str, ...]
    backbones: tuple[str, ...]
    accuracies: tuple[float, ...]
    references: tuple[str | None, ...]
    differences: NDArray[np.float64]
    difficulty: NDArray[np.float64]
    reference: str

    def cells_of(self, method: str) -> list[int]:
        """Places of a method's cells that have a reference."""
        cells = zip(self.methods, self.references, strict=True)
        return [place for place, (name, base) in enumerate(cells) if name == method and base is not None]

    def compared(self) -> list[str]:
        """Methods with a cell that has a reference."""
        return [method for method in dict.fromkeys(self.methods) if self.cells_of(method)]

    def pooled(self, cells: Sequence[int]) -> NDArray[np.float64]:
        """Mean difference of each item over cells, shape (n_items,): each counts the same, ungraded ones not at all."""
        return mean_over(self.differences[:, list(cells)])


def reference_cells(study: Study, reference: str) -> dict[tuple[int, int], tuple[int, int] | None]:
    """The cell of the method `reference` to which each cell of the other methods is compared.

    On the same backbone where the reference was run there, else the reference's only row (one agent against which
    everything is held); None where there is none, or several and none of them on this backbone.
    """
    every = cells(study)
    rows = {backbone: (method, backbone) for method, backbone in every if study.methods[method] == reference}
    only = next(iter(rows.values())) if len(rows) == 1 else None
    return {cell: rows.get(cell[1], only) for cell in every if study.methods[cell[0]] != reference}


def gains(study: Study, reference: str) -> Gains:
    """Differences of every method and backbone to the reference."""
    scores, pairs = study.cube(study.score), reference_cells(study, reference)
    differences = np.full((len(study.items), len(pairs)), np.nan)
    for column, (cell, base) in enumerate(pairs.items()):
        if base is not None:
            differences[:, column] = scores[cell] - scores[base]
    return Gains(
        methods=tuple(study.methods[method] for method, _ in pairs),
        backbones=tuple(study.backbones[backbone] for _, backbone in pairs),
        accuracies=tuple(float(np.mean(scores[cell][np.isfinite(scores[cell])])) for cell in pairs),
        references=tuple(None if base is None else study.backbones[base[1]] for base in pairs.values()),
        differences=settled(differences),
        difficulty=study.difficulty,
        reference=reference,
    )


def pooled_rows(gain: Gains, *, seed: int = 0) -> list[Row]:
    """Each method against the reference over all its backbones; p adjusted over the methods.

    `wins` and `losses` count answers, that is items times backbones; the test is over items.
    """
    names = gain.compared()
    columns = [gain.pooled(gain.cells_of(name)) for name in names]
    rows = []
    for name, found in zip(names, _tested(gain, columns, seed), strict=True):
        each = gain.differences[:, gain.cells_of(name)]
        changed = {"wins": int(np.sum(each > 0)), "losses": int(np.sum(each < 0)), "ties": int(np.sum(each == 0))}
        rows.append({"method": name, "n_backbones": each.shape[1], **contrast_row(found), **changed})
    return with_holm(rows)


def interaction_rows(gain: Gains, *, seed: int = 0) -> list[Row]:
    """Each method and backbone against the reference; p adjusted over all of them."""
    found = _tested(gain, list(gain.differences.T), seed)
    columns = zip(gain.methods, gain.backbones, gain.references, gain.accuracies, strict=True)
    names = ("method", "backbone", "reference_backbone", "accuracy")
    rows = [dict(zip(names, cell, strict=True)) for cell in columns]
    return with_holm([{**row, **contrast_row(contrast)} for row, contrast in zip(rows, found, strict=True)])


def leave_one_out_rows(gain: Gains, *, seed: int = 0) -> list[Row]:
    """The pooled difference of each method without one backbone after the other, where two or more have been run."""
    left = list(_without_one(gain))
    columns = [gain.pooled(kept) for _, _, kept in left]
    rows = []
    for (method, without, _), found in zip(left, _tested(gain, columns, seed), strict=True):
        row = contrast_row(found)
        kept = {name: row[name] for name in ("n_items", "difference", "ci_low", "ci_high")}
        rows.append({"method": method, "without": without, **kept})
    return rows


def _without_one(gain: Gains) -> Iterator[tuple[str, str, list[int]]]:
    """Method, the backbone left out, and the cells that stay."""
    for method in gain.compared():
        places = gain.cells_of(method)
        if len(places) > 1:
            yield from ((method, gain.backbones[out], [place for place in places if place != out]) for out in places)


def _tested(gain: Gains, columns: Sequence[NDArray[np.float64]], seed: int) -> list[Contrast | None]:
    """Contrasts of some columns."""
    return contrasts(np.column_stack(columns), difficulty=gain.difficulty, seed=seed) if columns else []


def contrast_row(found: Contrast | None) -> Row:
    """A contrast as a row of a table; everything unknown where there is none."""
    return found._asdict() if found else {**dict.fromkeys(Contrast._fields), "n_items": 0}
