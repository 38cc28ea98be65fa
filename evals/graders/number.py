"""Reads the number that a text gives as its answer."""

from __future__ import annotations

import re
from fractions import Fraction

from evals.graders.answer_line import declared

VERSION = "number/3"

_MAX_CHARS = 40
_WINDOW = 1000
"""Characters that are read of a declared answer from its start, and of any other text from its end."""
_MINUS = str.maketrans({"\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-", "\u2044": "/", "\ufe63": "-"})
_LATEX_FRACTION = re.compile(r"\\[dt]?frac[ ]?\{([0-9]{1,20})\}[ ]?\{([0-9]{1,20})\}")
_LATEX_COMMA = re.compile(r"(?<=[0-9])(?:\{,\}|\\,|[\u00a0\u202f\u2009])(?=[0-9]{3}(?![0-9]))")
_DECORATION = re.compile(r"\\[$(){}\[\]%]|[$€£¥`]|\*\*|\\(?:text|mathrm|boxed)\b")
_NUMBER = re.compile(
    r"(?<![\w.])(?:(?<![)\]])[-+])?"
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+|(?=\.[0-9]))(?:\.[0-9]+)?"
    r"(?:[eE][-+]?[0-9]{1,2}(?!\w))?(?:/[0-9]+(?![\w/]))?"
)
_HOUR = re.compile(r"(?<![0-9:])([0-9]{1,2}):00(?![0-9:])")
_REMARK = re.compile(r"\([^()\n]{0,200}\)")


def read_number(text: str) -> str | None:
    """The answer in `text` as a reduced fraction (`12`, `-3/4`); None = no answer.

    The declared answer counts (see `answer_line.declared`); where none is declared, the last number of the text. In a
    declared answer what stands behind its last `=` counts, and remarks in parentheses do not where a number stands
    outside them. Two different numbers there are no answer: which one was meant would be the grader's guess. Units,
    currency and per cent signs are dropped, so `50 %` is 50; `2:00 pm` is 2. A number of more than 40 characters is no
    answer.
    """
    answer = declared(text)
    if answer is None:
        tokens = _tokens(text[-_WINDOW:])
        return _canonical(tokens[-1]) if tokens else None
    values = {_canonical(token) for token in _answer_tokens(answer)}
    return values.pop() if len(values) == 1 else None


def _answer_tokens(answer: str) -> list[str]:
    result = answer.rpartition("=")[2][:_WINDOW]
    return _tokens(_REMARK.sub(" ", result)) or _tokens(result)


def _tokens(text: str) -> list[str]:
    plain = _HOUR.sub(r"\1", _LATEX_FRACTION.sub(r"\1/\2", text.translate(_MINUS)))
    return _NUMBER.findall(_DECORATION.sub("", _LATEX_COMMA.sub(",", plain)))


def _canonical(token: str) -> str | None:
    if len(token) > _MAX_CHARS:
        return None
    mantissa, _, denominator = token.replace(",", "").partition("/")
    bottom = Fraction(denominator) if denominator else Fraction(1)
    return str(Fraction(mantissa) / bottom) if bottom else None
