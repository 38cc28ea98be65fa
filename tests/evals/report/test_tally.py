"""The tally against a slow one over record objects, and its parts against Python's own exact arithmetic."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evals.report.summary import build_summary
from evals.report.tally import COLUMNS, SUMMED, tally
from evals.stats.exact import ExactSum, Names, ShareGrid
from trinity.errors import LedgerError
from trinity.runs.records import Columns, columns_of
from trinity.types import UNGRADED, Record

MakeRecord = Callable[..., Record]
SHARES = st.sampled_from([0.0, 1.0, 1 / 3, 0.1, 0.7, 5e-324, 1 - 2**-53]) | st.floats(0, 1)
COSTS = st.none() | st.floats(0, 1e18)
PLACE = ("method", "variant", "task", "item_id", "replicate", "seed")
EPISODES = st.lists(
    st.fixed_dictionaries(
        {
            "method": st.sampled_from(["single", "best_single", "coordinator"]),
            "variant": st.sampled_from(["a", "b"]),
            "task": st.sampled_from(["sums", "choice"]),
            "item_id": st.sampled_from(["1", "2", "10"]),
            "replicate": st.integers(0, 2) | st.integers(62, 65),
            "seed": st.integers(0, 1),
            "score": st.none() | SHARES,
            "cost_usd": COSTS,
            "gflop": COSTS,
            "weighted_tokens": st.integers(0, 2**53),
            "capped": st.booleans(),
            "usage_estimated": st.booleans(),
        }
    ),
    max_size=25,
    unique_by=lambda changes: tuple(changes[name] for name in PLACE),
)


def cut(records: Sequence[Record], places: Sequence[int]) -> Iterator[Columns]:
    """`records` in batches that end at these places."""
    for batch in columns_of(records, COLUMNS):
        ends = sorted({min(place, len(records)) for place in places} | {0, len(records)})
        for start, end in pairwise(ends):
            yield {name: column[start:end] for name, column in batch.items()}


def fields(row: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Some entries of a row."""
    return {key: row[key] for key in keys}


def slow_row(records: Sequence[Record], n_items: int) -> dict[str, Any]:
    """What the summary says of the records of one row, by the words of its docstring."""
    items: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for one in records:
        items[one.task, one.item_id].append(one)
    graded = [one for one in records if one.status not in UNGRADED]
    scores = {key: [one.score or 0.0 for one in rows if one in graded] for key, rows in items.items()}
    means = [math.fsum(found) / len(found) for found in scores.values() if found]
    whole = len(graded) == len(records) and len(items) == n_items
    low = [math.fsum(scores[key]) / len(rows) for key, rows in items.items()]
    high = [(math.fsum(scores[key]) + (len(rows) - len(scores[key]))) / len(rows) for key, rows in items.items()]
    return {
        "n_items": n_items,
        "n_replicates": max(map(len, items.values())),
        "n_episodes": len(records),
        "n_graded": len(means),
        "accuracy": math.fsum(means) / len(means) if means else None,
        "bound_low": None if whole else math.fsum(low) / n_items,
        "bound_high": None if whole else (math.fsum(high) + (n_items - len(items))) / n_items,
        "n_capped": sum(one.capped for one in records),
        "n_estimated": sum(one.usage_estimated for one in records),
        "statuses": dict(Counter(one.status for one in records)),
        **{key: slow_mean([getattr(one, column) for one in graded]) for key, column in SUMMED.items()},
    }


def slow_mean(values: Sequence[float | None]) -> float | None:
    """The mean; None when unknown for one, or of none."""
    known = [float(value) for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def slow_rows(records: Sequence[Record]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """All rows by method, variant and task."""
    rows: defaultdict[tuple[str, str, str], list[Record]] = defaultdict(list)
    items: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for one in records:
        for task in ("all", one.task):
            rows[one.method, one.variant, task].append(one)
            items[task].add((one.task, one.item_id))
    return {key: slow_row(found, len(items[key[2]])) for key, found in rows.items()}


@settings(deadline=None, max_examples=50)
@given(EPISODES, st.randoms(use_true_random=False), st.lists(st.integers(0, 25), max_size=4))
def test_rows_equal_those_of_a_slow_tally(
    make_record: MakeRecord, changes: list[dict[str, Any]], chance: Any, places: list[int]
) -> None:
    """Every count, mean and bound is, to the last bit, that of sums over record objects, however they are batched."""
    records = [make_record(**change) for change in changes]
    parts: dict[str, Any] = {"manifest": {}, "choices": {}, "effort": {}, "totals": {}}
    found = build_summary(cut(records, places), **parts)
    rows = {(row["method"], row["variant"], row["task"]): row for row in found["rows"]}
    expected = slow_rows(records)
    assert {key: fields(row, list(expected[key])) for key, row in rows.items()} == expected
    assert build_summary(cut(chance.sample(records, len(records)), []), **parts) == found


@given(st.lists(st.lists(st.floats(-1e200, 1e200), max_size=5), max_size=5), st.randoms(use_true_random=False))
@example([[1e16, 1.0], [-1e16]], None)
def test_exact_sum_is_the_rounded_true_sum(groups: list[list[float]], chance: Any) -> None:
    """A sum over groups is the fraction that the numbers add up to, rounded once, in every order and grouping."""
    total, other, merged = ExactSum(), ExactSum(), ExactSum()
    for group in groups:
        total.add(np.array(group))
    values = [value for group in groups for value in group]
    other.add(np.array(chance.sample(values, len(values)) if chance else values[::-1]))
    merged.merge(other)
    assert total.total == other.total == merged.total == float(sum(map(Fraction, values), Fraction(0)))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_unknown_number_makes_a_sum_unknown(value: float) -> None:
    """After one number that is none the sum stays unknown, also merged into another."""
    total, merged = ExactSum(), ExactSum()
    total.add(np.array([1.0, value]))
    total.add(np.array([1.0]))
    merged.merge(total)
    assert total.total is merged.total is None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), SHARES), max_size=30))
def test_shares_are_summed_exactly(entries: list[tuple[int, int, float]]) -> None:
    """Per cell the sum is that of `math.fsum`, with cells that repeat within a batch and grids that grow."""
    rows: Names[int] = Names()
    columns: Names[int] = Names()
    grid = ShareGrid(rows, columns)
    expected: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for group in (entries[:10], entries[10:]):
        row, column = rows.codes(entry[0] for entry in group), columns.codes(entry[1] for entry in group)
        grid.add(row, column, np.array([entry[2] for entry in group]))
        for one, other, share in group:
            expected[rows[one], columns[other]].append(share)
    for (one, other), shares in expected.items():
        assert grid.at(one, np.array([other])).tolist() == [math.fsum(shares)]


@pytest.mark.parametrize("replicate", [0, 63, 64, 1000])
@pytest.mark.parametrize("place", [1, 2, 3])
def test_doubles_are_found_across_batches(make_record: MakeRecord, replicate: int, place: int) -> None:
    """The same replicate and seed of an item is refused, in one batch or another, and named."""
    records = [make_record(1.0, replicate), make_record(1.0, replicate + 1), make_record(0.0, replicate)]
    with pytest.raises(LedgerError, match=f"single/small on sums-0 replicate {replicate} is recorded twice"):
        tally(cut(records, [place]))


def test_what_differs_is_no_double(make_record: MakeRecord) -> None:
    """Another seed, item, task, variant, method or replicate is another episode."""
    others: list[dict[str, Any]] = [
        {"seed": 1},
        {"item_id": "x"},
        {"task": "x"},
        {"variant": "x"},
        {"method": "x"},
        {"replicate": 1},
    ]
    records = [make_record(1.0), *(make_record(score=1.0, **change) for change in others)]
    assert sum(row.whole.episodes.sum() for row in tally(cut(records, [])).rows.values()) == 7


def test_another_run_in_a_later_batch_is_named(make_record: MakeRecord) -> None:
    """The record that does not belong there is named with both values."""
    records = [make_record(item_id="a"), make_record(item_id="b"), make_record(item_id="c", pool="other")]
    with pytest.raises(LedgerError, match=r"on c replicate 0 has pool 'other', other records 'local'"):
        tally(cut(records, [2]))


def test_items_are_ordered_by_task_and_id(make_record: MakeRecord) -> None:
    """Arrays of a row go by task and id, whatever came first, and a task is a slice of them."""
    scores = {("t", "b"): 0.25, ("s", "z"): 0.5, ("t", "a"): 0.75}
    records = [make_record(score, task=task, item_id=item) for (task, item), score in scores.items()]
    found = tally(cut(records, [1]))
    row = found.rows["single", "small"]
    assert row.whole.scores.tolist() == [0.5, 0.75, 0.25]
    assert found.items == {"s": slice(0, 1), "t": slice(1, 3)}
    assert row.tasks["t"].means.tolist() == [0.75, 0.25]


@pytest.mark.parametrize("place", [1, 3])
def test_difficulty_is_told_once(make_record: MakeRecord, place: int) -> None:
    """An item has the difficulty that any of its records tells, NaN where none does; two of them are refused."""
    told = [("b", None), ("a", 2.0), ("b", None), ("a", None)]
    records = [make_record(1.0, n, item_id=item, difficulty=value) for n, (item, value) in enumerate(told)]
    np.testing.assert_array_equal(tally(cut(records, [place])).difficulty, [2.0, np.nan])
    with pytest.raises(LedgerError, match=r"on a replicate \d has difficulty [23]\.0, another record of this item"):
        tally(cut([*records, make_record(1.0, 9, item_id="a", difficulty=3.0)], [place]))
