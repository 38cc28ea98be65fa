"""Whether an answer means the same as the right one, form by form.

Rules where conventions differ:

- Numbers are compared exactly. Where the right answer is a decimal of three digits or more, an exact answer (a
  fraction, a root) that rounds to it is right, while a decimal must be equal. For an exact right answer a decimal
  stands only where it is equal or gives ten digits of it.
- A unit may be missing on either side; two that differ are different answers, and none is converted.
- A per cent sign may be missing on either side of a number from 1 up: `50%` is `50`, and also `0.5` and `1/2`; `0.5%`
  is not `0.5`.
- The base of digits may be missing on either side; two bases that differ are different answers.
- Lists and sets agree in any order, tuples in theirs. Both roots of a plus-minus are asked for.
- `x = 5` is `5`; `x = 5` is not `y = 5`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from evals.graders.algebra.expression import Node, number, symbols
from evals.graders.algebra.forms import (
    INFINITE,
    MINUS_INFINITE,
    Form,
    Interval,
    Matrix,
    Named,
    Relation,
    Rounded,
    Several,
    Value,
    Words,
    as_interval,
    as_range,
    nameless,
)
from evals.graders.algebra.same import near, proportional, same
from evals.graders.algebra.words import UNITS

_FEW_DIGITS = 3
_MANY_DIGITS = 10
_LETTER_UNITS = frozenset("mgshlL")
SYMBOL_UNITS = frozenset("mgshlLNJWVAKCFTk")
"""Letters that are units behind a number."""


def equal(gold: Form, answer: Form, *, positive: bool = False) -> bool | None:
    """Whether both say the same; None where that can not be told.

    Args:
        gold: the right answer.
        answer: the other.
        positive: symbols stand for positive numbers.
    """
    return _Comparison(positive=positive).forms(gold, answer)


def _all(results: Iterable[bool | None]) -> bool | None:
    """False where one is, else None where one is, else True."""
    unknown = False
    for result in results:
        if result is False:
            return False
        unknown |= result is None
    return None if unknown else True


class _Comparison:
    """Compares under one assumption on symbols."""

    def __init__(self, *, positive: bool) -> None:
        self.positive = positive

    def forms(self, gold: Form, answer: Form) -> bool | None:
        for kind, compare in (
            (Rounded, self.rounded),
            (Named, self.named),
            (Words, _same_words),
            (Matrix, self.matrices),
            (Relation, self.relations),
        ):
            if isinstance(gold, kind) or isinstance(answer, kind):
                return compare(gold, answer)
        return self.plain(gold, answer)

    def plain(self, gold: Form, answer: Form) -> bool | None:
        """Values, several of them, and ranges of them."""
        if isinstance(gold, Value) and isinstance(answer, Value):
            return self.values(gold, answer)
        if isinstance(gold, Value) and isinstance(answer, Several) and answer.kind != "tuple":
            # Several spellings of one answer, as `1.5 or 3/2`.
            return _all(self.forms(gold, item) for item in answer.items)
        if isinstance(gold, Several) and isinstance(answer, Several):
            return self.several(gold, answer)
        return self.ranges(gold, answer)

    def rounded(self, gold: Form, answer: Form) -> bool | None:
        right = gold.exact if isinstance(gold, Rounded) else gold
        answers = [answer]
        if isinstance(answer, Rounded):
            answers = [answer.exact, answer.rounded] if _is_decimal(right) else [answer.exact]
        results = [self.forms(right, other) for other in answers]
        return True if True in results else None if None in results else False

    def named(self, gold: Form, answer: Form) -> bool | None:
        for one, other in ((gold, answer), (answer, gold)):
            if isinstance(one, Named) and isinstance(other, Relation):
                return self.as_relations(one, other, gold, answer)
        name = gold.name if isinstance(gold, Named) else ""
        if not all(_fits(name, other) for other in _names(answer)):
            return False
        return self.forms(nameless(gold), nameless(_unnamed(answer, name)))

    def as_relations(self, named: Named, other: Relation, gold: Form, answer: Form) -> bool | None:
        """A name with its value beside an equation, as `y = 2x` beside `2x - y = 0`."""
        if not isinstance(named.form, Value) or other.op != "=":
            return None if isinstance(named.form, Interval) else False
        if not named.name:
            return self.forms(named.form, Value(other.right)) if answer is other else None
        equation = Relation("=", Node("sym", name=named.name), named.form.node)
        return self.relations(equation if gold is named else gold, equation if answer is named else answer)

    def relations(self, gold: Form, answer: Form) -> bool | None:
        if isinstance(answer, Relation) and answer.op == "=" and not isinstance(gold, Relation):
            return self.forms(gold, Value(answer.right))
        if not isinstance(gold, Relation) or not isinstance(answer, Relation) or gold.op != answer.op:
            return False
        sides = [Node("add", (form.left, Node("neg", (form.right,)))) for form in (gold, answer)]
        return proportional(*sides, signed=gold.op not in {"=", "!="})

    def matrices(self, gold: Form, answer: Form) -> bool | None:
        one, other = _rows(gold), _rows(answer)
        if one is None or other is None:
            return False
        if isinstance(gold, Matrix) and isinstance(answer, Matrix) and len(one) != len(other):
            return False
        cells = [[cell for row in rows for cell in row] for rows in (one, other)]
        if len(cells[0]) != len(cells[1]):
            return False
        return _all(self.nodes(left, right) for left, right in zip(*cells, strict=True))

    def several(self, gold: Several, answer: Several) -> bool | None:
        kinds = {gold.kind, answer.kind}
        if "ratio" in kinds:
            return self.ratios(gold, answer)
        if kinds in ({"tuple"}, {"brackets"}):
            return self.in_order(gold.items, answer.items)
        if "tuple" in kinds:
            return self.tuple_and_list(gold, answer) if "list" in kinds else False
        items = [list(form.items) for form in (gold, answer)]
        if _ranged(gold) and _ranged(answer):
            items = [[as_interval(item) for item in part] for part in items]
        elif "set" in kinds:
            items = [self.distinct(part) for part in items]
        return self.any_order(*items)

    def ratios(self, gold: Several, answer: Several) -> bool | None:
        """`1:2:3` beside `2:4:6`."""
        sides = [[item.node for item in form.items if isinstance(item, Value)] for form in (gold, answer)]
        if gold.kind != answer.kind or len(sides[0]) != len(sides[1]) or len(sides[0]) != len(gold.items):
            return False
        firsts = (sides[0][0], sides[1][0])
        return _all(
            self.nodes(Node("mul", (one, firsts[1])), Node("mul", (other, firsts[0])))
            for one, other in zip(*sides, strict=True)
        )

    def tuple_and_list(self, gold: Several, answer: Several) -> bool | None:
        """`x = 3, y = 5` beside `(3, 5)`."""
        sides = [_by_name(form) if form.kind == "list" else list(form.items) for form in (gold, answer)]
        if all(isinstance(item, Several) for side in sides for item in side):
            return False
        return self.in_order(*sides)

    def in_order(self, gold: Sequence[Form], answer: Sequence[Form]) -> bool | None:
        if len(gold) != len(answer):
            return False
        return _all(self.forms(one, other) for one, other in zip(gold, answer, strict=True))

    def any_order(self, gold: Sequence[Form], answer: Sequence[Form]) -> bool | None:
        """Each of one side pairs with another of the other side."""
        if len(gold) != len(answer):
            return False
        left = list(answer)
        unknown = False
        for one in gold:
            results = [self.forms(one, other) for other in left]
            if True in results:
                left.pop(results.index(True))
            elif None in results:
                unknown = True
            else:
                return False
        return None if unknown else True

    def distinct(self, items: Sequence[Form]) -> list[Form]:
        kept: list[Form] = []
        for item in items:
            if not any(self.forms(other, item) for other in kept):
                kept.append(item)
        return kept

    def ranges(self, gold: Form, answer: Form) -> bool | None:
        """Intervals and unions of them, also where one is written as a pair."""
        one, other = as_range(gold), as_range(answer)
        if one is None or other is None:
            return False
        (left, left_sets), (right, right_sets) = _apart(one), _apart(other)
        if len(left) != len(right):
            return False
        if len(one) == len(other) == len(left) == 1:
            return self.intervals(left[0], right[0])
        for interval in left:
            match = next((item for item in right if self.intervals(interval, item)), None)
            if match is None:
                return False
            right.remove(match)
        return self.any_order(left_sets, right_sets)

    def intervals(self, gold: Interval, answer: Interval) -> bool | None:
        for one, other, alike in (
            (gold.low, answer.low, gold.low_closed == answer.low_closed),
            (gold.high, answer.high, gold.high_closed == answer.high_closed),
        ):
            if not alike and any(end not in (INFINITE, MINUS_INFINITE) for end in (one, other)):
                return False
        return _all((self.nodes(gold.low, answer.low), self.nodes(gold.high, answer.high)))

    def values(self, gold: Value, answer: Value) -> bool | None:
        if gold.base is not None and answer.base is not None and gold.base != answer.base:
            return False
        if gold.units and answer.units and gold.units != answer.units:
            return False
        if gold.percent or answer.percent:
            return self.percents(gold, answer)
        found = self.nodes(gold.node, answer.node)
        if found is not True and _rounds(gold, answer):
            return True
        if found is False and not symbols(gold.node):
            bare = _without_unit(answer.node, known=bool(gold.units))
            return self.nodes(gold.node, bare) if bare is not None else False
        return found

    def percents(self, gold: Value, answer: Value) -> bool | None:
        if gold.percent == answer.percent:
            return self.nodes(gold.node, answer.node)
        sign, plain = (gold, answer) if gold.percent else (answer, gold)
        whole = Node("div", (sign.node, Node("num", value=Fraction(100))))
        if self.nodes(whole, plain.node):
            return True
        value = number(plain.node)
        return self.nodes(sign.node, plain.node) if value is None or abs(value) >= 1 else False

    def nodes(self, gold: Node, answer: Node) -> bool | None:
        one, other = number(gold), number(answer)
        if one is not None and other is not None:
            return one == other
        return same(gold, answer, positive=self.positive)


def _is_decimal(form: Form) -> bool:
    form = nameless(form)
    return isinstance(form, Value) and form.decimals is not None


def _rounds(gold: Value, answer: Value) -> bool:
    """Whether one is a decimal with enough digits to which the other, an exact one, rounds."""
    for decimal, exact, enough in ((gold, answer, _FEW_DIGITS), (answer, gold, _MANY_DIGITS)):
        value = number(decimal.node)
        if decimal.decimals is None or exact.decimals is not None or value is None or symbols(exact.node):
            continue
        digits = str(abs(value.numerator * 10**decimal.decimals // value.denominator)).lstrip("0")
        whole = number(exact.node)
        if len(digits) >= enough and (whole is None or whole.denominator != 1):
            return near(decimal.node, exact.node, Fraction(1, 2 * 10**decimal.decimals))
    return False


def _without_unit(node: Node, *, known: bool) -> Node | None:
    """The number of `5 m`, `5 kg` or, where the right answer has a unit, `5 m s^{-1}`, which read as products."""
    if node.op != "mul" or node.args[0].op != "num":
        return None
    rest = node.args[1:]
    if known and all((part.args[0] if part.op == "pow" else part).name in SYMBOL_UNITS for part in rest):
        return node.args[0]
    if any(part.op != "sym" for part in rest):
        return None
    letters = "".join(part.name for part in rest)
    return node.args[0] if letters in _LETTER_UNITS or (len(letters) > 1 and letters in UNITS) else None


def _rows(form: Form) -> list[list[Node]] | None:
    """The rows of a matrix; a tuple as a column."""
    if isinstance(form, Matrix):
        return [list(row) for row in form.rows]
    if isinstance(form, Several) and form.kind in {"tuple", "brackets"}:
        cells = [item.node for item in form.items if isinstance(item, Value)]
        return [[cell] for cell in cells] if len(cells) == len(form.items) else None
    return None


def _same_words(gold: Form, answer: Form) -> bool:
    return isinstance(gold, Words) and isinstance(answer, Words) and gold.text == answer.text


def _names(form: Form) -> list[str]:
    """The names that an answer gives to what it says."""
    if isinstance(form, Named):
        return [form.name]
    return [item.name for item in form.items if isinstance(item, Named)] if isinstance(form, Several) else []


def _fits(name: str, other: str) -> bool:
    return not name or not other or name.lower() == other.lower()


def _unnamed(form: Form, name: str) -> Form:
    """Of `x = 1, x = 2` the values, where the right answer is about `x` too."""
    if not name or not isinstance(form, Several):
        return form
    return Several(form.kind, tuple(map(nameless, form.items)))


def _by_name(form: Several) -> list[Form]:
    """The values of `y = 5, x = 3` by name; of a list without names as they stand."""
    named = [item for item in form.items if isinstance(item, Named)]
    if len(named) < len(form.items):
        return list(form.items)
    return [item.form for item in sorted(named, key=lambda item: item.name)]


def _apart(parts: Iterable[Form]) -> tuple[list[Interval], list[Form]]:
    """The intervals, and the sets of single numbers."""
    intervals = [part for part in parts if isinstance(part, Interval)]
    return intervals, [part for part in parts if not isinstance(part, Interval)]


def _ranged(form: Several) -> bool:
    return form.kind == "list" and all(isinstance(as_interval(nameless(item)), Interval) for item in form.items)
