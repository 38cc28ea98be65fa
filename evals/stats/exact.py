"""Names with numbers, and sums that depend neither on the order of what is added nor on how it is cut into batches."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_NameT = TypeVar("_NameT", bound=Hashable)
_LIMB = 32
"""Bits of a share that are summed together: an int64 holds the sum of 2**31 of them."""


class Names(dict[_NameT, int]):
    """Names numbered in the order in which they are met."""

    def __missing__(self, name: _NameT) -> int:
        """Number a new name."""
        self[name] = place = len(self)
        return place

    def codes(self, names: Iterable[_NameT]) -> NDArray[np.intp]:
        """The number of each name, shape (n,)."""
        return np.fromiter(map(self.__getitem__, names), np.intp)


def means_of(sums: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """Means from sums and counts of one shape; NaN where nothing was counted."""
    means = np.full(sums.shape, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


@dataclass(slots=True)
class ExactSum:
    """A sum of floats; an unknown one makes it unknown.

    It is kept as floats whose exact sum it is: its rounded value, the rounded value of what that leaves out, and so
    on. `math.fsum` rounds correctly whatever the order (Shewchuk 1997, section 3), so these are always the same.
    """

    _parts: list[float] = field(default_factory=list)
    _known: bool = True

    def add(self, values: NDArray[Any]) -> None:
        """Add numbers, shape (n,); NaN stands for an unknown one."""
        self._known &= bool(np.isfinite(values).all())
        self._add(values.astype(np.float64).tolist())

    def merge(self, other: ExactSum) -> None:
        """Add another sum."""
        self._known &= other._known
        self._add(other._parts)

    def _add(self, values: list[float]) -> None:
        rest, self._parts = [*self._parts, *values], []
        while self._known and (part := math.fsum(rest)):
            self._parts.append(part)
            rest.append(-part)

    @property
    def total(self) -> float | None:
        """The correctly rounded sum; None when one of its numbers was unknown."""
        return sum(self._parts[:1]) if self._known else None


class Grid:
    """A whole number per row and column, 0 until something is added; it grows with the names of both."""

    def __init__(self, rows: Names[Any], columns: Names[Any], kind: type[np.integer[Any]]) -> None:
        """An empty grid over names that others go on numbering."""
        self._names = (rows, columns)
        self._cells: NDArray[Any] = np.zeros((0, 0), kind)

    def add(self, row: NDArray[np.intp], column: NDArray[np.intp], values: NDArray[Any]) -> None:
        """Add values at cells, which may repeat; all of shape (n,)."""
        cells = self._fitted()
        np.add.at(cells.reshape(-1), row * cells.shape[1] + column, values.astype(cells.dtype))

    def at(self, row: NDArray[np.intp] | int, column: NDArray[np.intp]) -> NDArray[Any]:
        """The numbers of cells, shape (n,)."""
        values: NDArray[Any] = self._fitted()[row, column]
        return values

    def _fitted(self) -> NDArray[Any]:
        """The cells, with room for every name: twice what is needed, so that few names make it grow."""
        had = self._cells.shape
        needed = [len(names) for names in self._names]
        if needed[0] > had[0] or needed[1] > had[1]:
            larger = np.zeros(
                [2 * n if n > size else size for n, size in zip(needed, had, strict=True)], self._cells.dtype
            )
            larger[: had[0], : had[1]] = self._cells
            self._cells = larger
        return self._cells


class ShareGrid:
    """An exact sum of numbers in [0, 1] per row and column.

    A share is cut into whole numbers of 32 bits, the first of 2**-32, the next of 2**-64, and so on to its last bit.
    Whole numbers add without rounding. Scores of 0 and 1 take one grid, thirds two.
    """

    def __init__(self, rows: Names[Any], columns: Names[Any]) -> None:
        """Nothing is added yet."""
        self._names = (rows, columns)
        self._limbs: list[Grid] = []

    def add(self, row: NDArray[np.intp], column: NDArray[np.intp], shares: NDArray[np.float64]) -> None:
        """Add shares at cells, which may repeat; all of shape (n,)."""
        level, rest = 0, shares
        while rest.any():
            if level == len(self._limbs):
                self._limbs.append(Grid(*self._names, np.int64))
            rest, whole = np.modf(np.ldexp(rest, _LIMB))
            self._limbs[level].add(row, column, whole)
            level += 1

    def at(self, row: NDArray[np.intp] | int, column: NDArray[np.intp]) -> NDArray[np.float64]:
        """The correctly rounded sums of cells, shape (n,)."""
        if len(self._limbs) <= 1:
            return sum((np.ldexp(limb.at(row, column), -_LIMB) for limb in self._limbs), np.zeros(column.shape))
        total = np.zeros(column.shape, dtype=object)
        for limb in self._limbs:
            total = (total << _LIMB) + limb.at(row, column)
        return (total / (1 << _LIMB * len(self._limbs))).astype(np.float64)  # Python's ratio of integers is exact
