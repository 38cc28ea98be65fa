"""What an answer may be: a value with its unit, words, a list, set, tuple, interval, union, matrix or relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evals.graders.algebra.expression import Node, number, text

INFINITE = Node("sym", name="inf")
MINUS_INFINITE = Node("neg", (INFINITE,))
REALS = "setR"


@dataclass(frozen=True, slots=True)
class Value:
    """A formula. `decimals` counts digits behind the point where it is one decimal number, else it is None."""

    node: Node
    units: frozenset[str] = frozenset()
    percent: bool = False
    base: int | None = None
    decimals: int | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """A name or a word, in small letters without articles and marks."""

    text: str


@dataclass(frozen=True, slots=True)
class Several:
    """A `list` without brackets, a `set`, a `tuple`, several in square `brackets`, or a `ratio` of three or more."""

    kind: Literal["list", "set", "tuple", "brackets", "ratio"]
    items: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers between two, which belong to it where it is closed."""

    low: Node
    high: Node
    low_closed: bool
    high_closed: bool


@dataclass(frozen=True, slots=True)
class Union:
    """Intervals and sets together."""

    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of formulas."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """An equation or inequality: `left op right`, `op` one of `= != < <=`."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Named:
    """`name` is, or lies in, what follows; an empty name is one that does not tell (`Area`, `f(3)`)."""

    name: str
    form: Form


@dataclass(frozen=True, slots=True)
class Rounded:
    r"""An exact value and its approximation: `5\sqrt2 \approx 7.07`."""

    exact: Form
    rounded: Form


Form = Value | Words | Several | Interval | Union | Matrix | Relation | Named | Rounded


def as_interval(form: Form) -> Form:
    """Two numbers in brackets as the interval that they may mean; any other form as it is."""
    if isinstance(form, Several) and form.kind in {"tuple", "brackets"} and len(form.items) == 2:  # noqa: PLR2004
        low, high = form.items
        if isinstance(low, Value) and isinstance(high, Value):
            closed = form.kind == "brackets"
            return Interval(low.node, high.node, closed, closed)
    return form


def nameless(form: Form) -> Form:
    """What a form says, without the name that it gives to it."""
    return form.form if isinstance(form, Named) else form


def as_range(form: Form) -> list[Form] | None:
    """The parts of what is a set of numbers: intervals, and sets of single ones; None where it is none."""
    form = as_interval(nameless(form))
    if isinstance(form, Interval):
        return [form]
    if isinstance(form, Value) and form.node.name == REALS:
        return [Interval(MINUS_INFINITE, INFINITE, low_closed=False, high_closed=False)]
    if isinstance(form, Several) and form.kind == "set":
        return [form]
    if isinstance(form, Union) or (isinstance(form, Several) and form.kind == "list"):
        parts = [as_range(part) for part in (form.parts if isinstance(form, Union) else form.items)]
        return None if any(part is None for part in parts) else [item for part in parts if part for item in part]
    return None


def canonical(form: Form) -> str:
    """A form as text in which forms that say the same most often are equal."""
    if isinstance(form, Value):
        return _canonical_value(form)
    if isinstance(form, Words):
        return form.text
    if isinstance(form, (Named, Rounded)):
        return canonical(form.form if isinstance(form, Named) else form.exact)
    return _canonical_sides(form) if isinstance(form, (Interval, Relation, Matrix)) else _canonical_many(form)


def _canonical_sides(form: Interval | Relation | Matrix) -> str:
    if isinstance(form, Interval):
        low, high = text(form.low), text(form.high)
        return f"{'[' if form.low_closed else '('}{low},{high}{']' if form.high_closed else ')'}"
    if isinstance(form, Relation):
        sides = [text(form.left), text(form.right)]
        return form.op.join(sorted(sides) if form.op in {"=", "!="} else sides)
    return ";".join(",".join(map(text, row)) for row in form.rows)


def _canonical_value(form: Value) -> str:
    exact = number(form.node)
    base = "" if form.base is None else f"_{form.base}"
    return f"{text(form.node) if exact is None else exact}{base}"


def _canonical_many(form: Several | Union) -> str:
    if isinstance(form, Union):
        return "|".join(sorted(canonical(as_interval(part)) for part in form.parts))
    parts = [canonical(item) for item in form.items]
    if form.kind in {"list", "set"}:
        return ", ".join(sorted(set(parts)))
    inside = ",".join(parts)
    return f"[{inside}]" if form.kind == "brackets" else f"({inside})"
