"""The study's choice of items: in proportion over difficulty and its uncertainty, and the same everywhere."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.tasks.hub import Row
from evals.tasks.stratified import choose
from trinity.errors import ConfigError, DataError


def rows(*cells: tuple[int, float, float]) -> list[Row]:
    """`count` rows for each (count, quantile, uncertainty)."""
    flat = [(quantile, spread) for count, quantile, spread in cells for _ in range(count)]
    values = [{"n": index, "rating_quantile": q, "rating_std": s} for index, (q, s) in enumerate(flat)]
    return [Row(value, "f", index) for index, value in enumerate(values)]


def chosen(given: list[Row], n: int, seed: str = "0") -> list[Row]:
    """`choose` with the number as what tells rows apart."""
    return choose(given, n, seed, lambda row: row.text("n"))


def counts(found: list[Row], column: str) -> dict[float, int]:
    """How many of the chosen have each value."""
    return dict(Counter(row.values[column] for row in found))


def test_shares_are_proportional_with_largest_remainders() -> None:
    """4 of cells of 5, 3 and 2 rows have exact shares 2.0, 1.2 and 0.8: 2, 1 and 1."""
    found = chosen(rows((5, 0.05, 1.0), (3, 0.15, 1.0), (2, 0.25, 1.0)), 4)
    assert counts(found, "rating_quantile") == {0.05: 2, 0.15: 1, 0.25: 1}


def test_deciles_hold_their_lower_end() -> None:
    """A quantile of 0.1 is in the second decile and 1.0 in the last."""
    found = chosen(rows((4, 0.0, 1.0), (4, 0.1, 1.0), (4, 0.95, 1.0), (4, 1.0, 1.0)), 8)
    by_quantile = counts(found, "rating_quantile")
    assert (by_quantile[0.0], by_quantile[0.1]) == (2, 2)
    assert by_quantile[0.95] + by_quantile[1.0] == 4


def test_terciles_are_those_of_all_rows() -> None:
    """Nine uncertainties fall into three terciles of three; three items take one of each."""
    found = chosen(rows(*((1, 0.5, float(spread)) for spread in range(1, 10))), 3)
    assert sorted((int(row.values["rating_std"]) - 1) // 3 for row in found) == [0, 1, 2]


def test_both_cross() -> None:
    """Two deciles with two uncertainties each, 40, 30, 20 and 10 rows: ten items are 4, 3, 2 and 1."""
    found = chosen(rows((40, 0.1, 1.0), (30, 0.1, 2.0), (20, 0.9, 1.0), (10, 0.9, 2.0)), 10)
    cells = Counter((row.values["rating_quantile"], row.values["rating_std"]) for row in found)
    assert cells == {(0.1, 1.0): 4, (0.1, 2.0): 3, (0.9, 1.0): 2, (0.9, 2.0): 1}


@given(st.randoms(), st.integers(0, 60))
def test_the_order_of_rows_does_not_matter(random: Any, n: int) -> None:
    """Rows in any order, and with repetitions, give the same items in the same order."""
    all_rows = rows((20, 0.15, 1.0), (25, 0.55, 2.0), (15, 0.95, 3.0))
    assert chosen(random.sample(all_rows, 60) + all_rows[:5], n) == chosen(all_rows, n)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.just(1.0)), min_size=1), st.data()
)
def test_no_cell_is_further_than_one_from_its_exact_share(cells: list[tuple[int, float, float]], data: Any) -> None:
    """Every cell gets its exact share rounded down or up, and together they are as many as asked for."""
    all_rows = rows(*cells)
    n = data.draw(st.integers(0, len(all_rows)))
    found = chosen(all_rows, n)
    have, sizes = counts(found, "rating_quantile"), counts(all_rows, "rating_quantile")
    assert len(found) == n
    assert all(abs(have.get(cell, 0) - n * size / len(all_rows)) < 1 for cell, size in sizes.items())


def test_the_seed_chooses_other_rows_in_the_same_proportion() -> None:
    """Another seed gives other items, as many of each decile; equal remainders do not always go to the easiest."""
    all_rows = rows(*((10, decile / 10 + 0.05, 1.0) for decile in range(10)))
    first, second = (chosen(all_rows, 20, seed) for seed in ("0", "1"))
    assert first != second
    assert counts(first, "rating_quantile") == counts(second, "rating_quantile")
    assert len({tuple(sorted(counts(chosen(all_rows, 3, str(seed)), "rating_quantile"))) for seed in range(20)}) > 5


def test_the_order_is_that_of_a_hash() -> None:
    """Of each cell the rows with the smallest SHA-256 of seed and content are chosen, in that order, for good."""
    found = chosen(rows((10, 0.05, 1.0), (10, 0.45, 2.0), (10, 0.85, 3.0)), 6, "pinned")
    ordered = sorted(range(30), key=lambda number: hashlib.sha256(f"pinned/{number}".encode()).digest())
    first_two = {number for cell in range(3) for number in [n for n in ordered if n // 10 == cell][:2]}
    assert [row.values["n"] for row in found] == [number for number in ordered if number in first_two]
    assert [row.values["n"] for row in found] == [10, 18, 23, 27, 6, 2]


def test_what_can_not_be_chosen_is_refused() -> None:
    """More items than rows, a quantile in per cent and a missing uncertainty are named."""
    with pytest.raises(ConfigError, match="4 items asked for, there are 3 different ones"):
        chosen([*rows((3, 0.5, 1.0)), *rows((3, 0.5, 1.0))], 4)
    with pytest.raises(DataError, match=r"f: row 0: rating_quantile is 50\.0, not a quantile from 0 to 1"):
        chosen(rows((1, 50.0, 1.0)), 1)
    with pytest.raises(DataError, match="rating_std is nan, not a number"):
        chosen(rows((1, 0.5, float("nan"))), 1)
