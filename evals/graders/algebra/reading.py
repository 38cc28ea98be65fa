"""Reads an answer as what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from evals.graders.algebra.expression import CONSTANTS, Node, number, parse, symbols
from evals.graders.algebra.forms import (
    INFINITE,
    MINUS_INFINITE,
    REALS,
    Form,
    Interval,
    Matrix,
    Named,
    Relation,
    Rounded,
    Several,
    Union,
    Value,
    Words,
)
from evals.graders.algebra.lexer import Token, UnreadableError, tokens
from evals.graders.algebra.words import ARTICLES, BASES, CHANGING, SYNONYMS

_MAX_ITEMS = 60
_MAX_SIGNS = 4
"""Plus-minus signs of one formula, each of which doubles what it stands for."""
_MATRICES = {"matrix", "pmatrix", "bmatrix", "Bmatrix", "array", "smallmatrix"}
_FLIPPED = {">": "<", ">=": "<="}
_INEQUALITIES = {"<", "<=", ">", ">="}
_STOPS = {".", ",", ";", ":", "cr"}


def read(answer: str) -> Form:
    """An answer as a form.

    Raises:
        UnreadableError: it is none that is known here.
    """
    found = _trimmed(tokens(answer))
    if not found:
        raise UnreadableError("nothing")
    if _wordy(found):
        return Words(words(answer))
    return _whole(_led(found))


def words(answer: str) -> str:
    """An answer in small letters, without fonts, marks and articles, for a comparison of texts."""
    plain = re.sub(r"\\(?:text|mathrm|textbf|textit|mbox|mathbf|operatorname)(?![a-z])", " ", answer[:2000])
    plain = re.sub(r"\\(?:left|right|[!,;: ])", " ", plain)
    found = re.findall(r"[^\W_]+|[-+]?[0-9.]*[0-9]|\\[a-z]+", plain.replace("'", "").casefold())
    phrase = " ".join(word for word in found if word not in ARTICLES) or " ".join(found)
    return SYNONYMS.get(phrase, phrase)


def _wordy(found: Sequence[Token]) -> bool:
    """Whether an answer is a word or phrase: no formula stands in it but single letters, as in `triangle ABC`."""
    kinds = {token.kind for token in found if token.text != "-"}
    return "word" in kinds and not kinds & {"num", "cmd", "rel", "op"}


def _trimmed(found: Sequence[Token]) -> list[Token]:
    """Without periods and separators at the ends, and braces around all."""
    kept = list(found)
    while kept and (kept[-1].text in _STOPS or (kept[-1].text == "-" and len(kept) > 1)):
        kept.pop()
    while kept and kept[0].text in _STOPS:
        kept.pop(0)
    if len(kept) > 2 and kept[0].text == "{" and _closing(kept, 0) == len(kept) - 1:  # noqa: PLR2004 - two braces
        return _trimmed(kept[1:-1])
    return kept


def _led(found: list[Token]) -> list[Token]:
    """Without the words that lead to the answer, up to an `is` or the like."""
    linking = [at for at, token in enumerate(found) if token.kind == "word" and token.text in {"is", "are", "equals"}]
    if linking and all(token.kind in {"word", "sym", "unit", "sep"} for token in found[: linking[-1]]):
        rest = found[linking[-1] + 1 :]
        return rest or found
    return found


def _closing(found: Sequence[Token], start: int) -> int:
    """Where the bracket that opens at `start` closes; -1 where it does not.

    Round and square ones close each other, as those of half-open intervals do.
    """
    level = 0
    for at in range(start, len(found)):
        level += {"open": 1, "close": -1}.get(found[at].kind, 0)
        if level == 0:
            return at
    return -1


def _split(found: Sequence[Token], kinds: set[str], *texts: str) -> tuple[list[list[Token]], list[str]]:
    """The parts between tokens of these kinds (and texts) that stand in no bracket, and those tokens' texts."""
    parts: list[list[Token]] = [[]]
    between: list[str] = []
    level = 0
    for token in found:
        level += {"open": 1, "close": -1}.get(token.kind, 0)
        if level == 0 and token.kind in kinds and (not texts or token.text in texts):
            parts.append([])
            between.append(token.text)
        else:
            parts[-1].append(token)
    return parts, between


def _whole(found: list[Token]) -> Form:
    """One answer, or a list of several."""
    parts, _ = _split(found, {"sep", "op"}, ",", ";", "or", "cr")
    parts = [part for part in map(_trimmed, parts) if part]
    if len(parts) > _MAX_ITEMS:
        raise UnreadableError("a list of many")
    while len(parts) > 1 and all(token.kind == "word" and token.text not in CHANGING for token in parts[-1]):
        parts.pop()
    if len(parts) == 1:
        return _part(parts[0])
    items = [_part(part) for part in parts]
    if isinstance(items[0], Named) and not any(isinstance(item, (Named, Relation)) for item in items[1:]):
        return Named(items[0].name, _list([items[0].form, *items[1:]]))
    return _list(items)


def _list(items: Sequence[Form]) -> Form:
    flat: list[Form] = []
    for item in items:
        flat.extend(item.items if isinstance(item, Several) and item.kind == "list" else [item])
    if len(flat) > _MAX_ITEMS:
        raise UnreadableError("a list of many")
    return Several("list", tuple(flat))


def _part(found: list[Token]) -> Form:
    """One answer: a relation, a union, something in brackets, or a value."""
    found = _trimmed(found)
    relations, signs = _split(found, {"rel"})
    if signs:
        return _relation(relations, signs)
    parts, _ = _split(found, {"op"}, "cup")
    if len(parts) > 1:
        return Union(tuple(map(_part, parts)))
    parts, _ = _split(found, {"op"}, "minus")
    if len(parts) == 2:  # noqa: PLR2004 - what is left and what is taken away
        return _without(_trimmed(parts[0]), parts[1])
    parts, _ = _split(found, {"op"}, ":")
    if len(parts) > 2:  # noqa: PLR2004 - 1:2:3
        return Several("ratio", tuple(map(_part, parts)))
    if not found:
        raise UnreadableError("nothing")
    if found[0].kind == "open" and _closing(found, 0) == len(found) - 1:
        bracketed = _bracketed(found[0].text, found[-1].text, found[1:-1])
        if bracketed is not None:
            return bracketed
    french = _french(found)
    return french if french is not None else _signed(found)


def _bracketed(opener: str, closer: str, inside: list[Token]) -> Form | None:
    """What brackets hold; None where they only group a formula."""
    if opener in _MATRICES:
        return _matrix(inside)
    if opener == "set" and not inside:
        return Words("empty set")
    if opener == "set" and (condition := _condition(inside)):
        return _whole(condition)
    parts, _ = _split(_ungrouped(inside), {"sep"})
    if opener == "set":
        return Several("set", _flattened(parts))
    if len(parts) == 1 or opener not in {"(", "[", "angle"}:
        return None
    return _tuple(opener, closer, parts)


def _tuple(opener: str, closer: str, parts: list[list[Token]]) -> Form:
    if any(token.text in {"pm", "mp"} for part in parts for token in part):
        variants = _expanded([token for part in parts for token in (*part, Token("sep", ","))][:-1])
        return _list([_tuple(opener, closer, _split(variant, {"sep"})[0]) for variant in variants])
    items = tuple(map(_part, parts))
    if opener not in {closer, "angle"}:
        low, high = _ends(items)
        return Interval(low, high, opener == "[", closer == "[")
    return Several("brackets" if opener == "[" else "tuple", items)


def _ends(items: tuple[Form, ...]) -> tuple[Node, Node]:
    if len(items) == 2:  # noqa: PLR2004 - the ends of an interval
        low, high = items
        if isinstance(low, Value) and isinstance(high, Value):
            return low.node, high.node
    raise UnreadableError("an interval without two ends")


def _flattened(parts: list[list[Token]]) -> tuple[Form, ...]:
    """The members of a set, plus-minus written out."""
    listed = _list([_part(part) for part in parts if _trimmed(part)])
    return listed.items if isinstance(listed, Several) else (listed,)


def _ungrouped(inside: list[Token]) -> list[Token]:
    """In brackets a plain comma parts numbers: (1,234) is a pair."""
    out: list[Token] = []
    for token in inside:
        if token.kind != "num" or "," not in token.text:
            out.append(token)
            continue
        for index, piece in enumerate(token.text.split(",")):
            out.extend([Token("sep", ",")] * (index > 0) + [Token("num", piece)])
    return out


def _condition(inside: list[Token]) -> list[Token]:
    """What is said of the members of a set: `x > 0` of `x | x > 0`."""
    parts, _ = _split(inside, {"op"}, "|", ":")
    conditional = len(parts) == 2 and any(token.kind == "rel" for token in parts[1])  # noqa: PLR2004 - name and condition
    named = bool(parts[0]) and parts[0][0].kind == "sym" and (len(parts[0]) == 1 or parts[0][1].text == "in")
    return parts[1] if conditional and named else []


def _matrix(inside: list[Token]) -> Form:
    rows, _ = _split(inside, {"op"}, "cr")
    rows = [row for row in rows if row]
    cells = tuple(tuple(parse(cell) for cell in _split(row, {"op"}, "&")[0]) for row in rows)
    if not cells or len({len(row) for row in cells}) != 1:
        raise UnreadableError("a matrix of unequal rows")
    return Matrix(cells)


def _without(left: list[Token], right: list[Token]) -> Form:
    r"""All real numbers but some: `\mathbb{R} \setminus \{2\}`."""
    taken = _part(right)
    if len(left) != 1 or left[0].text != REALS or not isinstance(taken, Several):
        raise UnreadableError("a difference of sets", foreign=True)
    return _but([item.node for item in taken.items if isinstance(item, Value)])


def _but(holes: list[Node]) -> Form:
    """All real numbers but these, as a union of intervals; their order has to be known."""
    known = [(number(node), node) for node in holes]
    if not known or (len(known) > 1 and any(value is None for value, _ in known)):
        raise UnreadableError("holes in no known order", foreign=True)
    ordered = [node for _, node in sorted(known, key=lambda pair: pair[0] or Fraction(0))]
    ends = pairwise([MINUS_INFINITE, *ordered, INFINITE])
    return Union(tuple(Interval(low, high, low_closed=False, high_closed=False) for low, high in ends))


def _french(found: list[Token]) -> Form | None:
    """`]0, 1[`: brackets that look away from the numbers leave them out."""
    if len(found) < 5 or found[0].text not in {"[", "("} or found[-1].text not in {"[", "("}:  # noqa: PLR2004
        return None
    outward = (found[0].kind == "close", found[-1].kind == "open")
    if not any(outward):
        return None
    parts, _ = _split(found[1:-1], {"sep"})
    low, high = _ends(tuple(map(_part, parts)))
    return Interval(low, high, not outward[0] and found[0].text == "[", not outward[1] and found[-1].text == "[")


def _relation(parts: list[list[Token]], signs: list[str]) -> Form:
    """What a chain of relations says."""
    if "~" in signs:
        at = signs.index("~")
        exact = _part_of(parts[: at + 1], signs[:at])
        rounded = _part(parts[at + 1])
        return Named(exact, rounded) if isinstance(exact, str) else Rounded(exact, rounded)
    if any(not part for part in parts):
        raise UnreadableError("a relation with an empty side")
    if set(signs) == {"="}:
        return _equation(parts)
    if signs == ["in"]:
        return Named(_name(parts[0]) or "", _part(parts[1]))
    if signs == ["!="]:
        name, node = _name(parts[0]), parse(parts[1])
        return Relation("!=", parse(parts[0]), node) if not name or symbols(node) else Named(name, _but([node]))
    if set(signs) <= _INEQUALITIES and len(signs) <= 2:  # noqa: PLR2004 - a < x < b
        return _inequality(parts, signs)
    raise UnreadableError("a chain of relations", foreign=True)


def _part_of(parts: list[list[Token]], signs: list[str]) -> Form | str:
    """What stands before an approximation: a name alone, or a form."""
    if signs:
        return _relation(parts, signs)
    name = _name(parts[0])
    return name if name is not None else _part(parts[0])


def _equation(parts: list[list[Token]]) -> Form:
    """Of `x = ... = 5` the name and the last value; else the equation."""
    name = _name(parts[0])
    if name is not None:
        return Named(name, _part(parts[-1]))
    if (last := _name(parts[-1])) and len(parts) == 2:  # noqa: PLR2004 - 5 = x
        return Named(last, _part(parts[0]))
    return Relation("=", parse(parts[-2]), _signed_node(parts[-1]))


def _signed_node(part: list[Token]) -> Node:
    form = _part(part)
    if isinstance(form, Value):
        return form.node
    raise UnreadableError("an equation of what is no formula", foreign=True)


def _inequality(parts: list[list[Token]], signs: list[str]) -> Form:
    """An interval where one symbol stands against numbers, else the inequality with the smaller side to the left."""
    if all(sign in _FLIPPED for sign in signs):
        parts, signs = parts[::-1], [_FLIPPED[sign] for sign in reversed(signs)]
    if any(sign in _FLIPPED for sign in signs):
        raise UnreadableError("bounds that point both ways")
    nodes = [_signed_node(part) for part in parts]
    names = [_name(part) if len(part) == 1 else None for part in parts]
    closed = [sign == "<=" for sign in signs]
    if len(nodes) == 3 and names[1]:  # noqa: PLR2004 - a < x < b
        return Named(names[1], Interval(nodes[0], nodes[2], *closed))
    if len(nodes) != 2:  # noqa: PLR2004 - a < b
        raise UnreadableError("a chain of bounds", foreign=True)
    if names[0] and names[0] not in symbols(nodes[1]):
        return Named(names[0], Interval(MINUS_INFINITE, nodes[1], low_closed=False, high_closed=closed[0]))
    if names[1] and names[1] not in symbols(nodes[0]):
        return Named(names[1], Interval(nodes[0], INFINITE, closed[0], high_closed=False))
    return Relation(signs[0], *nodes)


def _name(part: Sequence[Token]) -> str | None:
    """The name that a side of an equation is; empty where it is one that does not tell; None where it is a formula."""
    part = [token for token in part if token.text != "{"]
    if not part:
        return None
    if part[0].kind == "sym" and part[0].text not in CONSTANTS and not part[0].text.startswith("set"):
        name = _symbol_name(part[0].text, part[1:])
        if name is not None:
            return name
    kinds = {token.kind for token in part}
    point = part[0].text == "(" and _closing(part, 0) == len(part) - 1
    if point and "sep" in kinds and kinds <= {"sym", "sep", "open", "close"}:
        return ""
    return "" if "word" in kinds and "num" not in kinds else None


def _symbol_name(symbol: str, rest: list[Token]) -> str | None:
    """The name that begins with a symbol: `x`, `x_{12}`, `f(x)`, `f^{-1}(x)`, `AB`."""
    if not rest:
        return symbol
    if rest[0].text == "_" and all(token.kind in {"num", "sym", "word", "op"} for token in rest):
        return symbol + "".join(token.text for token in rest) if len(rest) < 5 else ""  # noqa: PLR2004 - x_{12}
    if rest[0].text == "(" and _closing(rest, 0) == len(rest) - 1:
        return symbol if len(rest) == 3 and rest[1].kind == "sym" else ""  # noqa: PLR2004 - f(x)
    if rest[0].text == "^" and rest[-1].text == "(" and symbol in "fgh":
        return f"{symbol}^-1"
    points = (symbol, *(token.text for token in rest))
    return "" if all(len(letter) == 1 and letter.isupper() for letter in points) else None


def _signed(found: list[Token]) -> Form:
    """A value, or the values that plus-minus stands for."""
    if not any(token.text in {"pm", "mp"} for token in found):
        return _value(found)
    return _list([_value(variant) for variant in _expanded(found)])


def _expanded(found: list[Token]) -> list[list[Token]]:
    """A formula with each sign that plus-minus may be; together where minus-plus stands by it, else each by itself."""
    places = [at for at, token in enumerate(found) if token.text in {"pm", "mp"} and token.kind == "op"]
    if len(places) > _MAX_SIGNS:
        raise UnreadableError("many plus-minus signs")
    joint = any(found[at].text == "mp" for at in places)
    out = []
    for choice in range(2 if joint else 2 ** len(places)):
        variant = list(found)
        for index, at in enumerate(places):
            upper = choice == 0 if joint else not choice >> index & 1
            variant[at] = Token("op", "+" if upper == (found[at].text == "pm") else "-")
        out.append(variant)
    return out


def _value(found: list[Token]) -> Form:
    """A formula with what stands around it: currency, unit, per cent, the base of its digits, words."""
    kept, base = _based(found)
    units: set[str] = set()
    kept = _before(kept, units)
    kept = _behind(kept, units)
    if not kept:
        raise UnreadableError("words without a value")
    percent = "%" in units
    node = parse(_plain_degrees(kept))
    return Value(node, frozenset(_parted(units - {"", "%"})), percent, base, _decimals(kept))


def _parted(units: set[str]) -> Iterator[str]:
    joint = {"mph": ("mi", "h"), "km/h": ("km", "h"), "m/s": ("m", "s")}
    for unit in units:
        yield from joint.get(unit, (unit,))


def _plain_degrees(kept: list[Token]) -> list[Token]:
    """Degrees within a formula count only in the argument of a function."""
    if any(map(_is_function, kept)):
        return kept
    return [token for token in kept if token.kind != "unit" or token.text != "deg"]


def _decimals(kept: list[Token]) -> int | None:
    digits = [token for token in kept if token.kind == "num"]
    lone = len(digits) == 1 and all(token.kind == "num" or token.text in {"-", "+"} for token in kept)
    _, point, behind = digits[0].text.partition(".") if lone else ("", "", "")
    return len(behind) if point and behind.isdigit() else None


def _based(found: list[Token]) -> tuple[list[Token], int | None]:
    """The digits and the base that is written below or behind them."""
    if len(found) > 4 and [token.text for token in found[:4:2]] == ["(", "("] and found[3].text == "_":  # noqa: PLR2004
        found = [found[1], *found[3:]]
    sign = 1 if found[0].text in {"-", "+"} else 0
    if len(found) >= 3 + sign and found[sign].kind == "num" and any(token.text == "_" for token in found):
        at = next(index for index, token in enumerate(found) if token.text == "_")
        below = [token for token in found[at + 1 :] if token.text not in {"{", "("} and token.text != "base"]
        if all(token.kind in {"num", "sym"} for token in found[sign:at]) and len(below) == 1:
            return found[:at], _base(below[0])
    for at, token in enumerate(found):
        if token.text == "base" and at:
            number_token = [token for token in found[at + 1 :] if token.kind in {"num", "word"}]
            before = [token for token in found[:at] if token.text not in {"(", "in"}]
            if len(number_token) == 1:
                return before, _base(number_token[0])
    return found, None


def _base(token: Token) -> int:
    if token.kind == "num" and token.text.isdigit() and len(token.text) < 3:  # noqa: PLR2004 - at most 36
        return int(token.text)
    if (base := BASES.get(token.text)) is not None:
        return base
    raise UnreadableError("a base that is no number", foreign=True)


def _before(kept: list[Token], units: set[str]) -> list[Token]:
    """Without currency and words before a value."""
    sign = kept[:1] if len(kept) > 1 and kept[0].text in {"-", "+"} and kept[1].kind == "unit" else []
    kept = kept[len(sign) :]
    while kept and kept[0].kind in {"unit", "word"}:
        token = kept.pop(0)
        if token.kind == "unit":
            units.add(token.text)
        elif token.text in CHANGING:
            raise UnreadableError(f"{token.text} before a value")
    return sign + kept


def _behind(kept: list[Token], units: set[str]) -> list[Token]:
    """Without units and words behind a value, and remarks in brackets among them."""
    first = next((at for at, token in enumerate(kept) if _starts_tail(kept, at)), len(kept))
    for token in kept[first:]:
        if token.kind == "unit":
            units.add(token.text)
        elif token.text in CHANGING:
            raise UnreadableError(f"{token.text} behind a value")
    if any(token.kind == "num" and kept[first + at - 1].text != "^" for at, token in enumerate(kept[first:])):
        raise UnreadableError("a number among the words behind a value")
    return kept[:first]


def _starts_tail(kept: list[Token], at: int) -> bool:
    token = kept[at]
    if token.kind == "word" or (token.kind == "unit" and token.text != "deg"):
        return True
    if token.text == "deg":
        return all(later.kind in {"unit", "word"} for later in kept[at:]) and not _ends_argument(kept[:at])
    remark = token.kind == "open" and _closing(kept, at) == len(kept) - 1
    return remark and at > 0 and any(later.kind == "word" for later in kept[at:])


def _ends_argument(kept: list[Token]) -> bool:
    r"""Whether tokens end with a function of a number or symbol in no brackets, as in `\sin 30`."""
    others = [token for token in kept if token.kind not in {"num", "sym"} and token.text != "^"]
    return bool(others) and _is_function(others[-1])


def _is_function(token: Token) -> bool:
    return token.kind == "cmd" and token.text not in {"frac", "sqrt", "binom"}
