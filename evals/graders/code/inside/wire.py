"""Values as JSON: what may pass between processes that do not trust each other.

Numbers, texts, lists, None, True and False stand for themselves; every other value is an object with one key, its kind.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import fractions
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

MAX_DEPTH = 200
MAX_NODES = 4_000_000
MAX_ITEMS = 100_000
"""Items of an iterator that are taken out of it."""

PLAIN = frozenset((type(None), bool, str))
EXACT = 2**53
"""Whole numbers below survive every reader of JSON."""

TOLERANCE = 1e-6


class TooLargeError(Exception):
    """A value has too many parts, or is nested too deeply."""


class Opaque:
    """A value that can not pass; equals nothing, itself included, and keeps only whether it was true.

    Attributes:
        name: of its class.
    """

    def __init__(self, name: str, *, true: bool) -> None:
        self.name, self._true = name, true

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return self._true

    def __repr__(self) -> str:
        return f"<{self.name}>"


def close(first: float, second: float) -> bool:
    """Whether two numbers are within 1e-6 of each other, absolute or relative to the larger one."""
    try:
        return math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    except OverflowError:  # a whole number that is too large for a float
        return False


class Encoder:
    """Makes JSON values; counts their parts."""

    def __init__(self) -> None:
        self._nodes = 0

    def encode(self, value: Any, depth: int = 0) -> Any:
        """`value` as a JSON value.

        Raises:
            TooLargeError: too many parts, or nested too deeply.
        """
        kind = type(value)
        if kind in PLAIN or (kind is int and -EXACT < value < EXACT) or (kind is float and math.isfinite(value)):
            return value
        if depth > MAX_DEPTH:
            raise TooLargeError("nested too deeply")
        for known, made in MAKERS:
            if isinstance(value, known):
                return made(self, value, depth + 1)
        return self._other(value, depth)

    def each(self, values: Iterable[Any], depth: int) -> list[Any]:
        """Values as JSON values."""
        made = []
        for value in values:
            self._nodes += 1
            if self._nodes > MAX_NODES:
                raise TooLargeError("too many parts")
            made.append(self.encode(value, depth))
        return made

    def _other(self, value: Any, depth: int) -> Any:
        if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
            return self.encode(value.tolist(), depth + 1)
        if isinstance(value, type) and value.__module__ == "builtins":
            return {"type": value.__name__}
        if hasattr(value, "__next__") or isinstance(value, collections.abc.MappingView):
            return {"iterator": self.each(itertools.islice(value, MAX_ITEMS), depth + 1)}
        return {"opaque": [type(value).__name__, bool(value)]}


def encode(value: Any) -> Any:
    """`value` as a JSON value (see `Encoder.encode`)."""
    return Encoder().encode(value)


def _integer(_: Encoder, value: int, __: int) -> Any:
    plain = int.__pos__(value)
    return plain if -EXACT < plain < EXACT else {"int": hex(plain)}


def _float(_: Encoder, value: float, __: int) -> Any:
    plain = float.__pos__(value)
    return plain if math.isfinite(plain) else {"float": repr(plain)}


def _mapping(coder: Encoder, value: dict[Any, Any], depth: int) -> Any:
    name = next((name for name, kind in DICTIONARIES.items() if kind is type(value)), "dict")
    items = [[coder.encode(key, depth), coder.encode(item, depth)] for key, item in dict.items(value)]
    coder.each(range(2 * len(items)), depth)
    return {name: items}


def _sequence(name: str) -> Callable[[Encoder, Any, int], Any]:
    return lambda coder, value, depth: {name: coder.each(value, depth)}


def _written(name: str, write: Callable[[Any], Any]) -> Callable[[Encoder, Any, int], Any]:
    return lambda _, value, __: {name: write(value)}


def _delta(value: dt.timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


DICTIONARIES: dict[str, Callable[..., Any]] = {
    "dict": dict,
    "OrderedDict": collections.OrderedDict,
    "Counter": collections.Counter,
    "defaultdict": collections.defaultdict,
}
# The first that fits counts: bool before int, datetime before date.
MAKERS: tuple[tuple[type, Callable[[Encoder, Any, int], Any]], ...] = (
    (int, _integer),
    (float, _float),
    (str, lambda _, value, __: str.__str__(value)),
    (list, lambda coder, value, depth: coder.each(list.__iter__(value), depth)),
    (tuple, lambda coder, value, depth: {"tuple": coder.each(tuple.__iter__(value), depth)}),
    (dict, _mapping),
    (set, _sequence("set")),
    (frozenset, _sequence("frozenset")),
    (bytes, _written("bytes", bytes.hex)),
    (bytearray, _written("bytearray", bytearray.hex)),
    (complex, lambda coder, value, depth: {"complex": coder.each((value.real, value.imag), depth)}),
    (decimal.Decimal, _written("Decimal", str)),
    (
        fractions.Fraction,
        lambda coder, value, depth: {"Fraction": coder.each((value.numerator, value.denominator), depth)},
    ),
    (dt.datetime, _written("datetime", dt.datetime.isoformat)),
    (dt.date, _written("date", dt.date.isoformat)),
    (dt.time, _written("time", dt.time.isoformat)),
    (dt.timedelta, _written("timedelta", _delta)),
    (collections.deque, lambda coder, value, depth: {"deque": coder.each((list(value), value.maxlen), depth)}),
    (range, lambda coder, value, depth: {"range": coder.each((value.start, value.stop, value.step), depth)}),
)


TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(bool, int, float, complex, str, bytes, bytearray),
        *(list, tuple, dict, set, frozenset, range, type, object),
    )
}


def decode(given: Any, depth: int = 0) -> Any:
    """The value of a JSON value.

    Raises:
        TooLargeError: it is nested too deeply.
        Exception: it is not what `encode` makes.
    """
    if depth > MAX_DEPTH * 2:
        raise TooLargeError("nested too deeply")
    if isinstance(given, list):
        return [decode(item, depth + 1) for item in given]
    if not isinstance(given, dict):
        return given
    ((name, body),) = given.items()
    if name in DICTIONARIES:
        return _dictionary(name, [(decode(key, depth + 1), decode(item, depth + 1)) for key, item in body])
    if name in READERS:
        return READERS[name](body)
    return BUILDERS[name](decode(body, depth + 1))


def _dictionary(name: str, items: list[tuple[Any, Any]]) -> Any:
    # A Counter would count pairs, a defaultdict take them for its factory.
    made = DICTIONARIES[name]()
    made.update(dict(items))
    return made


READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda body: int(body, 16),
    "float": float,
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "Decimal": decimal.Decimal,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timedelta": lambda body: dt.timedelta(*body),
    "opaque": lambda body: Opaque(str(body[0])[:100], true=body[1] is True),
    "type": lambda body: TYPES[body],
}
BUILDERS: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "complex": lambda body: complex(*body),
    "Fraction": lambda body: fractions.Fraction(*body),
    "deque": lambda body: collections.deque(*body),
    "range": lambda body: range(*body),
    "iterator": iter,
}
