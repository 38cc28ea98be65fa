"""Numbered names, and sums that are the same in any order and in any batches."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evals.stats.exact import ExactSum, Grid, Names, ShareGrid, means_of


def test_names_are_numbered_as_they_are_met() -> None:
    """A new name gets the next number, a known one keeps its own."""
    names: Names[str] = Names()
    assert names.codes(["b", "a", "b", "c"]).tolist() == [0, 1, 0, 2]
    assert names["a"] == 1
    assert dict(names) == {"b": 0, "a": 1, "c": 2}


def test_a_mean_of_nothing_is_unknown() -> None:
    """Where nothing was counted there is no mean, not 0 and no warning."""
    found = means_of(np.array([3.0, 0.0, 2.0]), np.array([2, 0, 1]))
    np.testing.assert_array_equal(found, [1.5, np.nan, 2.0])


def test_a_sum_by_hand() -> None:
    """1e100 + 1 - 1e100 is 1; nothing sums to 0; an unknown part makes the whole unknown, also when merged."""
    one = ExactSum()
    assert one.total == 0
    one.add(np.array([1e100, 1.0]))
    one.add(np.array([-1e100]))
    assert one.total == 1.0
    other = ExactSum()
    other.add(np.array([2, 3]))
    other.merge(one)
    assert (other.total, one.total) == (6.0, 1.0)
    unknown = ExactSum()
    unknown.add(np.array([1.0, np.nan]))
    assert unknown.total is None
    unknown.add(np.array([1.0]))
    assert unknown.total is None
    other.merge(unknown)
    assert other.total is None


@given(st.lists(st.floats(-1e9, 1e9), max_size=12), st.integers(0, 12), st.randoms())
def test_order_and_batches_do_not_matter(values: list[float], cut: int, random: object) -> None:
    """However numbers are shuffled and cut, their sum is the exact one, rounded once."""
    shuffled = sorted(values, key=lambda _: random.random())  # type: ignore[attr-defined]
    one, other = ExactSum(), ExactSum()
    one.add(np.array(shuffled[:cut]))
    other.add(np.array(shuffled[cut:]))
    one.merge(other)
    assert one.total == math.fsum(values)


def test_a_grid_grows_with_its_names() -> None:
    """Numbers stay where they are when names are added; cells that repeat add up, and untouched ones are 0."""
    rows, columns = Names[str](), Names[str]()
    grid = Grid(rows, columns, np.int64)
    grid.add(rows.codes("aa"), columns.codes("xy"), np.array([1, 2]))
    grid.add(rows.codes("aab"), columns.codes("xxy"), np.array([3, 4, 5]))
    columns.codes("zvwu")
    rows.codes("c")
    place = columns.codes("xyz")
    assert grid.at(rows["a"], place).tolist() == [8, 2, 0]
    assert grid.at(rows["b"], place).tolist() == [0, 5, 0]
    assert grid.at(np.array([0, 1, 2]), np.array([0, 1, 2])).tolist() == [8, 5, 0]
    assert grid.at(0, place).dtype == np.int64


def test_a_grid_has_room_for_twice_its_names() -> None:
    """It grows for the first name too many alone, on the side that needs it."""
    rows, columns = Names[int](), Names[int]()
    grid = Grid(rows, columns, np.int32)
    rows.codes([1])
    columns.codes([1, 2, 3])
    grid.add(np.array([0]), np.array([2]), np.array([7]))
    assert grid._fitted().shape == (2, 6)
    columns.codes(range(6))
    assert grid._fitted().shape == (2, 6)
    columns.codes([99])
    assert grid._fitted().shape == (2, 2 * len(columns))
    rows.codes([2, 3])
    assert grid._fitted().shape == (6, 2 * len(columns))
    assert grid.at(0, np.array([2])).tolist() == [7]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(0, 1)), max_size=30))
def test_shares_add_exactly(cells: list[tuple[int, int, float]]) -> None:
    """Each cell is the exact sum of its shares, rounded once, whatever their last bits."""
    rows, columns = Names[int](), Names[int]()
    rows.codes(range(3))
    columns.codes(range(4))
    grid = ShareGrid(rows, columns)
    for row, column, share in cells:
        grid.add(np.array([row]), np.array([column]), np.array([share]))
    for row in range(3):
        found = grid.at(row, np.arange(4)).tolist()
        parts = [[Fraction(share) for r, c, share in cells if (r, c) == (row, column)] for column in range(4)]
        assert found == [float(sum(some, Fraction(0))) for some in parts]


def test_shares_by_hand() -> None:
    """Halves and ones take one grid of whole numbers, thirds two; three thirds are 1."""
    rows, columns = Names[str](), Names[str]()
    row, column = rows.codes("aaa"), columns.codes("xxx")
    grid = ShareGrid(rows, columns)
    assert grid.at(0, np.array([0])).tolist() == [0.0]
    grid.add(row, column, np.array([1.0, 0.5, 0.0]))
    assert len(grid._limbs) == 1
    assert grid.at(0, np.array([0])).tolist() == [1.5]
    grid.add(row, column, np.full(3, 1 / 3))
    assert len(grid._limbs) == 2
    assert grid.at(0, np.array([0])).tolist() == [2.5]
