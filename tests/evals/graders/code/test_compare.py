"""When an output or a value is taken for the right one."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.graders.code.compare import Match, same_text, same_value
from evals.graders.code.inside.wire import MAX_DEPTH, Opaque, TooLargeError, decode, encode

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 2**53, 2**70, -(2**70), 10**5000, 1.5, -0.0, math.inf, -math.inf, "", "a\ud800\0\n"),
    *(
        [],
        [1, [2, "3"]],
        (),
        (1, (2,)),
        {},
        {1: 2, (1, 2): [3], None: 4},
        {1, 2},
        frozenset("ab"),
        b"\0x",
        bytearray(b"y"),
    ),
    *(frozenset("ab"), b"\0x", bytearray(b"y"), int, range(1, 9, 2)),
    *(1j, Decimal("1.10"), Fraction(1, 3), datetime(2020, 1, 2, 3, tzinfo=UTC), date(2020, 1, 1), clock(1, 2)),
    *(
        timedelta(1, 2, 3),
        deque([1, 2], 3),
        Counter("aab"),
        OrderedDict(a=1),
        defaultdict(int, a=1),
        range(1, 9, 2),
        int,
    ),
]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("5\n", "5"),
        ("5", "5\n"),
        ("1 2 \n3\n\n", "1 2\n3"),
        ("1  2", "1 2"),
        ("\n1\n\n2", "1\n2\n"),
        ("1\r\n2\r\n", "1\n2\n"),
        ("1\t2", "1 2"),
        ("1.414213562", "1.4142135623730951"),
        ("0.333333", "0.333333333333"),
        ("3.0", "3"),
        ("3", "3.0"),
        ("1e3", "1000.0"),
        ("-0.0", "0.0"),
        (".5", "0.5"),
        ("123456789.1", "123456789.0"),
        ("YES", "Yes"),
        ("no\nYes", "NO\nYES"),
        ("9" * 5000, "9" * 5000),
        ("", "\n"),
        ("nan", "nan"),
    ],
)
def test_same_output(printed: str, expected: str) -> None:
    """White space is free, and decimal numbers need to agree to 1e-6."""
    assert same_text(printed.encode(), expected)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("5", "6"),
        ("", "5"),
        ("1 2", "1\n2"),
        ("12", "1 2"),
        ("1.41422", "1.4142135623730951"),
        ("1000000000000000001", "1000000000000000000"),
        ("007", "7"),
        ("0101", "101"),
        ("+5", "5"),
        ("abc", "Abc"),
        ("YES 1", "Yes 1"),
        ("Y", "Yes"),
        ("1e999", "2e999"),
        ("inf", "1e9999"),
        ("nan", "1.0"),
        ("\u0661", "1"),
        ("1\u00a02", "1 2"),
        ("1_0", "10"),
        ("0x10", "16"),
        ("9" * 500 + ".0", "9" * 500),
        ("1\x00", "1"),
    ],
)
def test_other_output(printed: str, expected: str) -> None:
    """Lines count, whole numbers and words are exact, and what is no decimal number is a word."""
    assert not same_text(printed.encode(), expected)


def test_output_that_is_no_text() -> None:
    """Bytes that are no UTF-8 equal nothing."""
    assert not same_text(b"\xff", "\ufffd")
    assert not same_text("5".encode("utf-16"), "5")


@pytest.mark.parametrize(
    ("printed", "expected", "match", "same"),
    [
        ("1\n2 3", "1 2\n3", "tokens", True),
        ("2 1", "1 2", "tokens", False),
        ("6 3 2 1", "1 2 3 6", "any_order", True),
        ("6 3\n2 1", "1 2 3 6", "any_order", True),
        ("6 3 2 2", "1 2 3 6", "any_order", False),
        ("1 1 2", "1 2 2", "any_order", False),
        ("2.0000001 b 1", "b 1.0 2", "any_order", True),
        ("b a\n2", "2\nb a", "any_order_of_lines", True),
        ("a b\n2", "2\nb a", "any_order_of_lines", False),
        ("2\n9 5000\n1\n7", "2\n5000 9\n1\n7", "any_order_in_lines", True),
        ("1\n7\n2\n9 5000", "2\n5000 9\n1\n7", "any_order_in_lines", False),
    ],
)
def test_orders(printed: str, expected: str, match: Match, same: bool) -> None:
    """Words may be spread over lines, or words and lines come in any order, where the problem lets them."""
    assert same_text(printed.encode(), expected, match) is same


def test_case() -> None:
    """Case means nothing only where that is asked for."""
    assert same_text(b"ABC d", "abc D", fold_case=True)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_pass(value: Any) -> None:
    """Every plain value comes out of JSON as itself, and is the same as itself."""
    sent = json.loads(json.dumps(encode(value)))
    assert decode(sent) == value
    assert type(decode(sent)) is type(value)
    assert same_value(sent, value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text() | st.floats(), st.lists))
def test_any_value_passes(value: Any) -> None:
    """Whatever JSON can hold is the same as itself, numbers that are none included."""
    assert same_value(json.loads(json.dumps(encode(value))), value)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        ([0.1 * 3, [0.1 * 3]], [0.3, [0.3]]),
        (1, True),
        (False, 0),
        (2, 2.0),
        (2.0, 2),
        (10**400, 10**400),
        ({1: 0.30000000000000004, "b": 2}, {"1": 0.3, "b": 2}),
        ({2.0: 1, None: 2, True: 3}, {"2": 1, "null": 2, "true": 3}),
        (OrderedDict(a=1), {"a": 1}),
        (math.nan, math.nan),
    ],
)
def test_same_value(given_value: Any, expected: Any) -> None:
    """Tuples are lists, numbers of one value are alike, floats agree to 1e-6, and keys are what JSON makes of them."""
    assert same_value(encode(given_value), expected)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        (1, 2),
        ("1", 1),
        (1, "1"),
        (None, 0),
        (0, None),
        ("", None),
        ([1], [1, 2]),
        ([1, 2], [2, 1]),
        ({1, 2}, [1, 2]),
        ("ab", ["a", "b"]),
        (b"a", "a"),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {}),
        ([], {}),
        (0.30001, 0.3),
        (10**400, 1e300),
        (10**18 + 1, 10**18),
        (math.inf, 1e308),
        (math.nan, 1.0),
        (object(), None),
        (iter([1]), [1]),
        ("a ", "a"),
        ([[]], [None]),
        ({1, 2}, {1, 3}),
    ],
)
def test_other_value(given_value: Any, expected: Any) -> None:
    """Texts, kinds, lengths and order are exact."""
    assert not same_value(encode(given_value), expected)


@pytest.mark.parametrize(
    "frame",
    [
        *({}, {"int": "zz"}, {"int": 5}, {"int": None}, {"float": []}, {"float": "x"}, {"dict": 5}, {"dict": [[1]]}),
        *({"dict": [[1, 2], 3]}, {"set": 5}, {"tuple": {}}, {"opaque": ["x", True]}, {"a": 1, "b": 2}, {"tuple": "ab"}),
        *({"iterator": [1]}, {"dict": {"a": 1}}, {"set": [{}, []]}, {"bytes": 1}, {"nothing": 1}, [{}], [[[{}]]]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("expected", [1, 1.5, "a", None, True, [1], {"a": 1}, {1}, b"a", 1j], ids=repr)
def test_hostile_frames(frame: Any, expected: Any) -> None:
    """What no encoder of ours writes equals nothing and breaks nothing."""
    assert not same_value(frame, expected)


def test_keys_that_collide() -> None:
    """Keys and items whose hashes are all alike cost no more than others."""
    numbers = [number * (2**61 - 1) for number in range(20_000)]
    assert same_value({"dict": [[encode(number), 0] for number in numbers]}, dict.fromkeys(range(20_000), 0)) is False
    assert not same_value({"set": [encode(number) for number in numbers]}, {1})


class Flag(int):
    """A number that says it is any other."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize("make", [Flag, lambda _: object(), lambda _: Opaque("x", true=True), lambda _: lambda: 1])
def test_objects_do_not_pass(make: Callable[[int], object]) -> None:
    """What compares itself comes out as the plain value that it is, or as what equals nothing."""
    passed = decode(json.loads(json.dumps(encode(make(7)))))
    assert passed != 8
    assert isinstance(passed, Opaque) or type(passed) is int


def test_what_an_opaque_value_keeps() -> None:
    """A value that can not pass keeps whether it is true, and is not even itself."""
    opaque = decode(encode(object()))
    assert opaque
    assert opaque != opaque  # noqa: PLR0124 - the fact
    assert repr(opaque) == "<object>"
    assert not decode({"opaque": ["Match", False]})


def test_iterators_pass_as_iterators() -> None:
    """A generator comes out as an iterator over its items, and an endless one over the first of them."""
    assert list(decode(encode(number for number in range(3)))) == [0, 1, 2]
    assert len(list(decode(encode(iter(int, 1))))) == 100_000


def test_numpy_values_pass_as_plain_ones() -> None:
    """Arrays and numbers of numpy are lists and numbers."""
    numpy = pytest.importorskip("numpy")
    assert encode(numpy.array([[1, 2]])) == [[1, 2]]
    assert encode({"a": numpy.float64(0.5), "b": numpy.bool_(True)}) == {"dict": [["a", 0.5], ["b", True]]}


def test_bounds_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are too deep, in a circle or of too many parts do not pass."""
    deep: list[Any] = []
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    circle: list[Any] = []
    circle.append(circle)
    monkeypatch.setattr("evals.graders.code.inside.wire.MAX_NODES", 1000)
    many: list[Any] = []
    for _ in range(30):
        many = [many, many]
    for value in (deep, circle, many, {0: many}, [0] * 1001):
        with pytest.raises(TooLargeError):
            encode(value)
    with pytest.raises(TooLargeError):
        decode(json.loads("[" * 500 + "]" * 500))


@pytest.mark.parametrize(
    ("printed", "expected", "match", "same"),
    [
        ("yes", "YES", "lines", True),
        ("yes no", "YES NO", "lines", False),
        ("a\nb", "b\na", "any_order_of_lines", True),
        ("a\nb\nb", "b\na", "any_order_of_lines", False),
        ("a b c", "a b", "any_order_of_lines", False),
        ("", "", "any_order_of_lines", True),
        ("1\n2\n3", "1\n2", "lines", False),
        ("1\n2", "1\n2\n3", "lines", False),
        ("1 2 3", "1 2", "tokens", False),
        ("1.0 x", "x 1", "any_order", True),
        ("1.1 x", "x 1", "any_order", False),
        ("x 2.0 1.0", "1 2 x", "any_order", True),
        ("0" * 399 + "1.0"[1:], "0", "lines", False),
        ("1" + "0" * 397 + ".0", "1" + "0" * 397, "lines", False),
        ("1." + "0" * 398, "1", "lines", True),
        ("1." + "0" * 399, "1", "lines", False),
    ],
)
def test_ways_to_compare_by_hand(printed: str, expected: str, match: Match, same: bool) -> None:
    """No word, line or number more or less than expected; a number has 400 characters at most."""
    assert same_text(printed.encode(), expected, match) is same
