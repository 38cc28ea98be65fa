"""CRUXEval's answers: values that are read and never run, and calls that may hold nothing but values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.tasks.cruxeval import CRUXEval
from evals.tasks.literals import canonical_value, read_arguments, read_value
from tests.evals.tasks.rows import write
from tests.evals.tasks.rows_code import cruxeval
from tests.sandboxes import TRUSTED
from trinity.errors import DataError
from trinity.types import Episode, Item

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


def make(path: Path, row: dict[str, Any] | None = None, **changed: Any) -> tuple[CRUXEval, Item]:
    """The task and its one item."""
    data = [{**cruxeval(1)[0], **(row or {})}]
    settings = {"data_seed": 0, "n_train": 0, "n_val": 0, "n_test": 1, "sandbox": TRUSTED, **changed}
    made = CRUXEval(path=write(path / "rows.jsonl", data), **settings)
    (item,) = made.items("test")
    return made, item


@given(VALUES)
def test_a_value_is_read_as_it_is_written(value: Any) -> None:
    """Reading what Python writes gives the value, and its canonical form is that of the value."""
    assert read_value(repr(value)) == value
    assert canonical_value(read_value(repr(value))) == canonical_value(value)


@given(VALUES, VALUES)
def test_equal_values_have_one_form_and_others_have_another(one: Any, other: Any) -> None:
    """The canonical form tells values apart exactly as `==` does."""
    assert (canonical_value(one) == canonical_value(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1.0"), ("True", "1"), ("{1: 2, 3: 4}", "{3: 4, 1: 2.0}"), ("{1, 2}", "{2, 1}")]
)
def test_values_that_are_written_otherwise_are_equal(one: str, other: str) -> None:
    """Order of sets and dictionaries and the kind of a whole number say nothing."""
    assert canonical_value(read_value(one)) == canonical_value(read_value(other))


@pytest.mark.parametrize(
    "text",
    [
        *("__import__('os').system('x')", "open('x')", "x", "[i for i in 'ab']", "lambda: 1", "f'{1}'", "", "1 +"),
        *("[" * 200 + "]" * 200, "(" * 70 + ",)" * 70, "-" * 19_000 + "1", "1" * 19_000, "'" + "a" * 20_000 + "'"),
        *("1 == 2 == 3", "'a' * 3"),
    ],
)
def test_what_is_no_literal_or_too_large_is_no_value(text: str) -> None:
    """Nothing is run, and neither depth nor length costs more than their bounds."""
    with pytest.raises(ValueError, match=r"."):
        read_value(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(1, 'a')", "1, 'a'"),
        ("1,   'a'", "1, 'a'"),
        ("f()", ""),
        ("", ""),
        ("f([1], b={'x': (2,)})", "[1], b={'x': (2,)}"),
        ("f(-1) == 3", "-1"),
        ("f(''.join(['A'] * 20), known[:], set())", "''.join(['A'] * 20), known[:], set()"),
    ],
)
def test_arguments_are_plain_values(text: str, expected: str) -> None:
    """A call or what stands in it, with sums, products and slices of values."""
    assert read_arguments(text, "f", frozenset(["known"])) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("f(__import__('os'))", "f(open('x').read())", "f(unknown)", "f(lambda: 1)", "f((f := 1))", "g(1)", "f(...)"),
        *("f(**{'a': 1})", "f(*[1])", "f([x for x in 'a'])", "f('a'.format(1))", "f(f(1))", "f(1)(2)", "f(2 ** 99)"),
        *("f('a'.join.__self__)", "f(''.join)(1)", "f(1); f(2)", "f(1) or f(2)", "f(list(x=1))"),
    ],
)
def test_arguments_that_reach_for_more_are_refused(text: str) -> None:
    """Names, calls and attributes beside those allowed, which could change what `f` does, are no arguments."""
    with pytest.raises(ValueError, match=r"."):
        read_arguments(text, "f", frozenset(["known"]))


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("[]", "Answer: []"),
        ("[]", "**Answer:** `[]`"),
        ("''", "Final answer: ''"),
        ("'a*'", "Answer: 'a*'"),
        ("'Answer: 3'", "So it is.\nAnswer: 'Answer: 3'"),
        ("[1, 2]", "Answer: [3]\nNo.\nAnswer:\n```python\n[1, 2]\n```"),
        ("[1, 2]", "The answer is [1, 2]."),
        ("{'a': None}", "answer = {'a': None}\r"),
        ("3", "Answer: f([1]) == 3"),
    ],
)
async def test_the_declared_value_is_read(tmp_path: Path, output: str, answer: str) -> None:
    """What follows the last marker counts, also where it holds no letter or stands in the next line."""
    made, item = make(tmp_path, {"output": output})
    assert (await made.grade(item, Episode(answer), None)).score == 1.0


@pytest.mark.parametrize("answer", ["[1, 2]", "Answer: <result>", "Answer: [0, 7", "Answer: {[]: 1}", "Answer:", ""])
async def test_what_is_no_value_is_no_answer(tmp_path: Path, answer: str) -> None:
    """Without a marker, or with something else behind it, there is no answer."""
    made, item = make(tmp_path)
    grade = await made.grade(item, Episode(answer), None)
    assert (grade.score, grade.answer) == (0.0, None)


async def test_any_arguments_that_give_the_value_are_right(tmp_path: Path) -> None:
    """Asked for the input, other arguments than the row's own are right where the function returns the same."""
    row = {"code": "base = [2]\ndef f(x, y=0):\n    return x + y", "input": "1, 2", "output": "3"}
    made, item = make(tmp_path, row, direction="input")
    await made.ready()
    scores = {}
    for call in ("f(1, 2)", "f(3)", "f(1, y=2)", "0, 3", "f(base[0], 1)", "f(1, 3)", "f('3')", "f(base, 1)"):
        grade = await made.grade(item, Episode(f"Answer: `{call}`"), None)
        scores[call] = grade.score
    assert list(scores.values()) == [1.0] * 5 + [0.0] * 3
    assert made.key(item, "Answer: f( 1,2 )") == "f(1, 2)"
    await made.close()


async def test_a_large_answer_is_no_trouble(tmp_path: Path) -> None:
    """Ten megabytes that look like answers are read and refused."""
    made, item = make(tmp_path)
    for text in (
        "Answer: " * 1_200_000,
        "Answer: [" + "1," * 5_000_000,
        "answer" + " " * 10_000_000,
        "```\n" * 2_500_000,
    ):
        assert made.key(item, text) is None


def test_a_row_that_returns_no_value_is_named(tmp_path: Path) -> None:
    """An output that is no literal is a DataError with file and row."""
    with pytest.raises(DataError, match=r"rows\.jsonl: row 1: output is 'open\(\)', not a Python value"):
        make(tmp_path, {"output": "open()"})
