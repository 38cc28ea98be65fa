"""Compares what a program printed or returned with what it should have, outside of the sandbox and as judges do."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, Literal

from evals.graders.code.inside.wire import close, encode

Match = Literal["lines", "tokens", "any_order", "any_order_of_lines", "any_order_in_lines"]
"""How two outputs are compared (see `same_text`)."""

_MAX_NUMBER = 400
"""Characters of a number that is compared as one; longer ones must be the same text."""
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_LINE = re.compile(r"[^\r\n]+")
_WORD = re.compile(r"[^ \t\v\f\r\n]+")
_Same = Callable[[Sequence[str], Sequence[str]], bool]
_WHOLE = re.compile(r"[-+]?[0-9]+")


def same_text(printed: bytes, expected: str, match: Match = "lines", *, fold_case: bool = False) -> bool:
    """Whether a program printed what it should have.

    White space at the ends of lines, how much of it stands between words, and empty lines mean nothing. Words are
    compared as they stand; only two decimal numbers of which one has a point or an exponent need to agree to 1e-6,
    absolute or relative. A line that is `yes` or `no` may be written in any case, as contests have it.

    Args:
        printed: what the program wrote; bytes that are no UTF-8 equal nothing.
        expected: what it should have written.
        match: `lines` (each line has its words), `tokens` (the words, however they are spread over lines),
            `any_order` (the words in any order), `any_order_of_lines` (the lines in any order), `any_order_in_lines`
            (each line has its words in any order).
        fold_case: case means nothing at all.
    """
    text = printed.decode("utf-8", "surrogateescape")
    given, wanted = (text.casefold(), expected.casefold()) if fold_case else (text, expected)
    if match in ("tokens", "any_order"):
        return _same_words(given, wanted, _same_line if match == "tokens" else _any_order)
    if match == "any_order_of_lines":
        return _same_lines_in_any_order(given, wanted)
    same = _any_order if match == "any_order_in_lines" else _same_line
    pairs = zip_longest(_lines(given), _lines(wanted))
    return all(one is not None and other is not None and _same_words(one, other, same) for one, other in pairs)


def _lines(text: str) -> Iterator[str]:
    """The lines that hold a word; split where judges split, not at every sign that Unicode calls white."""
    return (found[0] for found in _LINE.finditer(text) if _WORD.search(found[0]))


def _words(text: str, most: int | None = None) -> list[str]:
    """The first words of a text: what a program prints is never taken apart further than needed."""
    return [found[0] for found in islice(_WORD.finditer(text), most)]


def _same_words(given: str, wanted: str, same: _Same) -> bool:
    words = _words(wanted)
    return same(_words(given, len(words) + 1), words)


def _same_lines_in_any_order(given: str, wanted: str) -> bool:
    lines = [_words(line) for line in _lines(wanted)]
    most = max(map(len, lines), default=0) + 1
    printed = [" ".join(_words(line, most)) for line in islice(_lines(given), len(lines) + 1)]
    return _any_order(printed, [" ".join(words) for words in lines])


def _same_line(given: Sequence[str], wanted: Sequence[str]) -> bool:
    if len(given) != len(wanted):
        return False
    if len(wanted) == 1 and wanted[0].casefold() in {"yes", "no"}:
        return given[0].casefold() == wanted[0].casefold()
    return all(map(_same_word, given, wanted))


def _same_word(given: str, wanted: str) -> bool:
    if given == wanted:
        return True
    one, other = _number(given), _number(wanted)
    if one is None or other is None or (_WHOLE.fullmatch(given) and _WHOLE.fullmatch(wanted)):
        return False
    return close(one, other)


def _number(word: str) -> float | None:
    if len(word) > _MAX_NUMBER or not _NUMBER.fullmatch(word):
        return None
    value = float(word)
    return value if math.isfinite(value) else None


def _any_order(given: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether both have the same words; numbers that are not written alike are paired in their order."""
    if len(given) != len(wanted):
        return False
    one, other = Counter(given), Counter(wanted)
    left, right = (sorted(rest.elements(), key=_rank) for rest in (one - other, other - one))
    return all(_same_word(*pair) for pair in zip(left, right, strict=True))


def _rank(word: str) -> tuple[float, str]:
    value = _number(word)
    return (math.inf, word) if value is None else (value, "")


def same_value(given: Any, expected: object) -> bool:
    """Whether a function returned what it should have.

    Lists and tuples are alike, since JSON knows lists only. So are numbers of one value (`1`, `1.0` and `True`), as
    they are in LiveCodeBench, which compares with `==`; where one is a float, they need to agree to 1e-6, absolute or
    relative. Texts, bytes and None are compared exactly. A key that is no text may be asked for as JSON writes it.

    Args:
        given: the value as `wire.encode` writes it; anything else equals nothing.
        expected: the value itself.
    """
    if expected is None or isinstance(expected, str):
        return type(given) is type(expected) and given == expected
    if isinstance(expected, int | float):
        return _same_number(given, expected)
    if isinstance(expected, list | tuple):
        items = given if isinstance(given, list) else _body(given, "tuple")
        return isinstance(items, list) and len(items) == len(expected) and all(map(same_value, items, expected))
    if isinstance(expected, dict):
        return _same_mapping(_body(given, "dict", "OrderedDict", "Counter", "defaultdict"), expected)
    if isinstance(expected, set | frozenset):
        items = _body(given, "set", "frozenset")
        return isinstance(items, list) and _texts(items) == _texts(map(encode, expected))
    return _text(given) == _text(encode(expected))


def _same_number(given: Any, expected: int | float) -> bool:  # noqa: PYI041 - they are told apart
    value = _plain_number(given)
    if value is None:
        return False
    if isinstance(value, float) or isinstance(expected, float):
        return close(value, expected) or (value != value and expected != expected)  # noqa: PLR0124 - both are no number
    return value == expected


def _plain_number(given: Any) -> int | float | None:
    if isinstance(given, int | float):
        return given
    try:
        if isinstance(text := _body(given, "int"), str):
            return int(text, 16)
        return float(text) if isinstance(text := _body(given, "float"), str) else None
    except ValueError:
        return None


def _body(given: Any, *names: str) -> Any:
    """What an object of one of these kinds holds; None = it is of no such kind."""
    return next((given[name] for name in names if name in given), None) if isinstance(given, dict) else None


def _same_mapping(pairs: Any, expected: Mapping[Any, Any]) -> bool:
    if not isinstance(pairs, list) or len(pairs) != len(expected):
        return False
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):  # noqa: PLR2004 - a pair
        return False
    # Texts as keys: their hashes are seeded, so that nobody can choose keys that collide.
    values = {_key(key): value for key, value in pairs}
    return all(
        _key(encode(key)) in values and same_value(values[_key(encode(key))], item) for key, item in expected.items()
    )


def _key(given: Any) -> str:
    """A key as JSON writes it."""
    if isinstance(given, str):
        return given
    if isinstance(given, float) and given.is_integer() and abs(given) < 2**53:
        return str(int(given))
    return _text(given)


def _texts(items: Iterable[Any]) -> list[str]:
    return sorted(_text(item) for item in items)


def _text(given: Any) -> str:
    try:
        return json.dumps(given, sort_keys=True)
    except RecursionError:
        return "too deep"
