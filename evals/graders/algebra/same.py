"""Whether two formulas are equal, told from their values: exactly where they are rational, else at points to 60 digits.

A formula with symbols is computed at fixed points that nobody would guess; two that agree at all of them are equal but
for a chance of nil (Schwartz, J. ACM 27(4), 1980). Points where a formula has no real value say nothing unless the
other has one there: so sqrt(1/n) equals 1/sqrt(n), and sqrt(x^2) does not equal x.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from evals.graders.algebra.expression import Node, contains, renamed, symbols
from evals.graders.algebra.value import Evaluator, TooLargeError, UndefinedError, Value
from evals.graders.algebra.words import TRIGONOMETRIC
from trinity.canonical import sha256

_POINTS = 10
_ENOUGH = 3
_CLOSE = 30
"""Decimal digits to which two values agree that count as equal."""
_MAX_DENOMINATOR = 10**15
"""A fraction with a larger denominator only approximates an irrational value."""
_MAX_SYMBOLS = 20
_CANCELLING = ("add", *TRIGONOMETRIC, "ln", "log")
_WHOLE = frozenset("nkmNKM")
"""Symbols that most often stand for whole numbers."""


def same(gold: Node, answer: Node, *, positive: bool = False) -> bool | None:
    """Whether both are equal; None where that can not be told.

    Args:
        gold: the right formula.
        answer: the other.
        positive: symbols stand for positive numbers.
    """
    names = sorted(symbols(gold) | symbols(answer))
    if len(names) > _MAX_SYMBOLS:
        return None
    if symbols(gold) != symbols(answer):
        folded = _folded(gold, answer)
        if folded is not None:
            return same(*folded, positive=positive)
    found = _seen(gold, answer, names, positive=positive, whole=False)
    if found is True or not set(names) <= _WHOLE or not (_has_power(gold) or _has_power(answer)):
        return found
    # (-1)^n is cos(n pi) for whole numbers only.
    return _seen(gold, answer, names, positive=positive, whole=True)


def _has_power(node: Node) -> bool:
    """Whether a symbol stands in an exponent."""
    here = node.op == "pow" and bool(symbols(node.args[1]))
    return here or any(_has_power(arg) for arg in node.args)


def proportional(gold: Node, answer: Node, *, signed: bool = False) -> bool | None:
    """Whether one is a constant times the other, so that both are 0 together; `signed`: a positive one."""
    names = sorted(symbols(gold) | symbols(answer))
    if not names or len(names) > _MAX_SYMBOLS:
        return None
    ratio: Value | None = None
    compared = 0
    for point in _points(names, positive=False, whole=False):
        evaluator = Evaluator(point)
        try:
            left, right = (evaluator.real(evaluator.value(node)) for node in (gold, answer))
        except (UndefinedError, TooLargeError):
            continue
        if not left or not right:
            return False
        here = right / left
        ratio = here if ratio is None else ratio
        if not _near(evaluator, ratio, here) or (signed and evaluator.mp.re(here) <= 0):
            return False
        compared += 1
    return True if compared >= _ENOUGH else None


def constant(node: Node) -> Value | None:
    """The value of a formula without symbols; None where it has symbols or no value."""
    if symbols(node):
        return None
    try:
        return Evaluator({}).value(node)
    except (UndefinedError, TooLargeError):
        return None


def near(gold: Node, answer: Node, margin: Fraction) -> bool:
    """Whether two constants differ by `margin` at most."""
    one, other = constant(gold), constant(answer)
    if one is None or other is None:
        return False
    evaluator = Evaluator({})
    return bool(abs(evaluator.real(one) - evaluator.real(other)) <= evaluator.real(margin) * (1 + Fraction(1, 10**9)))


def _folded(gold: Node, answer: Node) -> tuple[Node, Node] | None:
    """Both with small letters for their symbols, where that makes them agree and merges none within either."""
    ours, theirs = symbols(gold), symbols(answer)
    small = {name: name.lower() for name in ours | theirs}
    folded = [{small[name] for name in names} for names in (ours, theirs)]
    if folded[0] != folded[1] or len(folded[0]) != len(ours) or len(ours) != len(theirs):
        return None
    return renamed(gold, small), renamed(answer, small)


def _seen(gold: Node, answer: Node, names: list[str], *, positive: bool, whole: bool) -> bool | None:
    """Whether both agree at all points; None where too few of them tell."""
    complex_too = not names or contains(gold, "i") or contains(answer, "i")
    compared = 0
    points = _points(names, positive=positive, whole=whole) if names else iter([{}])
    for point in points:
        found = _at(gold, answer, point, complex_too=complex_too)
        if found is False:
            return False
        compared += found is True
    return True if compared >= (_ENOUGH if names else 1) else None


def _at(gold: Node, answer: Node, point: dict[str, Value], *, complex_too: bool) -> bool | None:
    """Whether both agree at a point; None where neither has a value that counts."""
    evaluator = Evaluator(point)
    try:
        values = [_or_none(evaluator, node) for node in (gold, answer)]
    except TooLargeError:
        return None
    if not complex_too:
        values = [value if value is None or _is_real(evaluator, value) else None for value in values]
    one, other = values
    if one is None and other is None:
        return None
    rest = contains(gold, *_CANCELLING) or contains(answer, *_CANCELLING)
    return one is not None and other is not None and _near(evaluator, one, other, rest=rest)


def _or_none(evaluator: Evaluator, node: Node) -> Value | None:
    try:
        return evaluator.value(node)
    except UndefinedError:
        return None


def _is_real(evaluator: Evaluator, value: Value) -> bool:
    return isinstance(value, Fraction) or abs(evaluator.mp.im(value)) <= abs(value) * Fraction(1, 10**_CLOSE)


def _near(evaluator: Evaluator, one: Value, other: Value, *, rest: bool = False) -> bool:
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one == other
    for value in (one, other):
        if isinstance(value, Fraction) and value.denominator > _MAX_DENOMINATOR and not evaluator.symbols:
            return False
    left, right = evaluator.real(one), evaluator.real(other)
    if evaluator.mp.isinf(left) or evaluator.mp.isinf(right):
        return bool(left == right)
    size = max(abs(left), abs(right))
    if abs(left - right) <= size * evaluator.mp.mpf(10) ** -_CLOSE:
        return True
    # What should be 0 is computed as the rest of a subtraction, or as the sine of pi.
    return bool(rest and size < evaluator.mp.mpf(10) ** -45)


def _points(names: list[str], *, positive: bool, whole: bool) -> Iterator[dict[str, Value]]:
    """Values for the symbols: positive at the first points, of both signs at the others."""
    for index in range(_POINTS):
        point: dict[str, Value] = {}
        for name in names:
            drawn = int(sha256(f"{name}/{index}")[:12], 16)
            value = Fraction(1 + drawn % 19) if whole else Fraction(drawn, 2**47) + Fraction(drawn % 97, 41)
            negative = index >= _POINTS // 2 and drawn % 2 and not positive and not whole
            point[name] = -value if negative else value
        yield point
