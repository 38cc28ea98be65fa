"""Fixed effects of the mixed models as a design matrix: which can be estimated, and whether they separate outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.stats.mixed_rows import Rows, listed, one_sided

Model = Literal["M0", "M1", "M2", "M3"]
Kind = Literal["base", "method", "slope", "cell"]
Matrix = NDArray[np.float64]

_TOLERANCE = 1e-8


class Column(NamedTuple):
    """One fixed effect: of which kind, and of which method and backbone where it is theirs."""

    name: str
    kind: Kind = "base"
    method: str = ""
    backbone: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """A design matrix of full rank.

    Attributes:
        columns: the p columns that are kept, none of which follows from those before it.
        matrix: shape (n, p).
        estimable: for each kept column, whether its coefficient means the same whichever columns had been kept.
        lost: the effects of the model that are not estimable, kept columns among them.
    """

    columns: tuple[Column, ...]
    matrix: Matrix
    estimable: tuple[bool, ...]
    lost: tuple[Column, ...]


def design(rows: Rows, model: Model) -> Design:
    """The design matrix of a model, without the columns that follow from others.

    A coefficient is estimable where its unit vector lies in the row space of the whole matrix (Searle 1971, Linear
    Models, section 5.4). Rows and rank are looked at on `corners`, which span the same space.
    """
    from scipy.linalg import null_space

    columns = _columns(rows, model)
    small = _filled(rows.take(corners(rows)), columns)
    kept = _independent(small)
    free = np.linalg.norm(null_space(small), axis=1)
    estimable = [bool(length < _TOLERANCE) for length in free]
    lost = tuple(column for column, good in zip(columns, estimable, strict=True) if not good)
    chosen = tuple(columns[place] for place in kept)
    return Design(chosen, _filled(rows, chosen), tuple(estimable[place] for place in kept), lost)


def corners(rows: Rows) -> NDArray[np.intp]:
    """Per method, backbone and outcome the rows of smallest and largest difficulty.

    Within one method and backbone a row of any design here is an affine function of difficulty, so that a sign
    condition that holds at both ends holds between them, and both ends span all rows.
    """
    kind = 2 * rows.cell + rows.correct
    z = np.zeros(kind.size) if rows.z is None else rows.z
    order = np.lexsort((z, kind))
    edge = np.flatnonzero(np.diff(kind[order])) + 1
    return np.unique(np.concatenate([order[np.append(0, edge)], order[np.append(edge, order.size) - 1]]))


def obstacle(rows: Rows, made: Design) -> str | None:
    """Why a model of `made` has no maximum of likelihood or too few rows, as the end of a sentence; None if nothing."""
    fewest = min(int(rows.correct.sum()), int((~rows.correct).sum()))
    if fewest < len(made.columns):
        return f"{fewest} answers of the rarer outcome are too few for {len(made.columns)} coefficients"
    if any(column.kind == "cell" for column in made.columns):
        cells = [divmod(cell, len(rows.backbones)) for cell in one_sided(rows.cell, rows.correct).tolist()]
        if cells:
            names = listed([f"{rows.methods[method]} on {rows.backbones[backbone]}" for method, backbone in cells])
            return f"all answers are right or all are wrong for {names}"
    edges = corners(rows)
    if separates(made.matrix[edges], rows.correct[edges]):
        return "a combination of its effects separates right from wrong answers, so that they have no finite estimates"
    return None


def separates(matrix: Matrix, correct: NDArray[np.bool_]) -> bool:
    """Whether some combination of the columns is >= 0 for all right and <= 0 for all wrong answers, and not always 0.

    Then the likelihood has no maximum: complete or quasi-complete separation (Albert and Anderson 1984, Biometrika 71,
    1), found by linear programming (Konis 2007, thesis, University of Oxford, chapter 4). `matrix` has full rank.
    """
    from scipy.optimize import linprog

    signed = np.where(correct, 1.0, -1.0)[:, np.newaxis] * matrix
    # At 0 as the start, so that it is feasible; the box keeps the optimum finite.
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=(-1, 1), method="highs")
    return bool(found.status != 0 or -found.fun > _TOLERANCE * len(signed))


def _columns(rows: Rows, model: Model) -> list[Column]:
    """All fixed effects of a model, those of the smaller models first."""
    columns = [Column("intercept")]
    if rows.z is not None:
        columns.append(Column("difficulty"))
    columns += [Column(f"LLM[{name}]", backbone=name) for name in rows.backbones[1:]]
    others = rows.methods[1:]
    if model in ("M1", "M2"):
        columns += [Column(f"method[{name}]", "method", name) for name in others]
    if model == "M2":
        columns += [Column(f"method[{name}]:difficulty", "slope", name) for name in others]
    if model == "M3":
        columns += [Column(f"method[{a}]:LLM[{b}]", "cell", a, b) for b in rows.backbones for a in others]
    return columns


def _filled(rows: Rows, columns: Sequence[Column]) -> Matrix:
    """The values of some columns, shape (n, p)."""
    return np.column_stack([_values(rows, column) for column in columns])


def _values(rows: Rows, column: Column) -> NDArray[np.float64]:
    """One column, shape (n,): the product of what it is of."""
    values = np.ones(rows.correct.size)
    if column.method:
        values *= rows.method == rows.methods.index(column.method)
    if column.backbone:
        values *= rows.backbone == rows.backbones.index(column.backbone)
    if rows.z is not None and (column.kind == "slope" or column.name == "difficulty"):
        values *= rows.z
    return values


def _independent(matrix: Matrix) -> list[int]:
    """The columns that do not follow from those before them, by Gram-Schmidt with one repetition."""
    kept: list[int] = []
    basis = np.zeros((len(matrix), 0))
    for place, column in enumerate(matrix.T):
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)
        length = float(np.linalg.norm(rest))
        if length > _TOLERANCE * max(1.0, float(np.linalg.norm(column))):
            kept.append(place)
            basis = np.column_stack([basis, rest / length])
    return kept
