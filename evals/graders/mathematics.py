r"""Tells whether a reply's answer to a problem of mathematics means the same as the right one.

What is compared and by which rules stands in `algebra.equal`. Words and rational numbers are compared at once; all else
in processes of its own (`algebra.pool`), where formulas have values at points (`algebra.same`) and Math-Verify is asked
about what is not read here (`algebra.second`). An answer that makes its process hang or grow is wrong.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from evals.graders.algebra.answer import final_answer
from evals.graders.algebra.equal import SYMBOL_UNITS, equal
from evals.graders.algebra.expression import number, symbols, without_symbols
from evals.graders.algebra.forms import Form, Rounded, Value, Words, canonical, nameless
from evals.graders.algebra.lexer import MAX_CHARS, UnreadableError
from evals.graders.algebra.pool import Checkers, Verdict, checkers
from evals.graders.algebra.reading import read
from evals.graders.algebra.same import constant
from trinity.errors import GraderError

VERSION = "mathematics/2"

_POSITIVE = re.compile(r"\b(?:positive|non-?negative)\b|(?:>|\\gt|\\geq?)[ ]?0(?!\.?[0-9])", re.IGNORECASE)
_DECIMAL = re.compile(r"10[ ]?\^|[0-9][eE][-+]?[0-9]|[0-9]\.[0-9]")
_SPACE = re.compile(r"\s+(?!\w)|(?<!\w)\s+")
"""All white space but that between two letters or digits: `2 3/4` is not `23/4`."""
_SHOWN = 200

read_answer = final_answer


def answer_key(text: str) -> str | None:
    """The answer of a reply in a form in which answers that mean the same most often are equal; None = no answer.

    Numbers are reduced, sets and sums sorted, units dropped; no algebra is done. It takes well under a millisecond.
    """
    answer = final_answer(text)
    if answer is None:
        return None
    form = _read(answer)
    return "".join(answer.split())[:_SHOWN] if form is None else canonical(form)[:_SHOWN] or None


class Measured(NamedTuple):
    """A number with its units; `decimal` says that it is written with a point or as a power of ten."""

    value: Fraction
    units: frozenset[str]
    decimal: bool


def as_number(answer: str) -> Measured | None:
    """The rational number that an answer is, letters such as the `m/s` of `5 m/s` taken for units; else None."""
    found = _read(answer)
    form = None if found is None else nameless(found)
    form = form.exact if isinstance(form, Rounded) else form
    if not isinstance(form, Value):
        return None
    letters = symbols(form.node)
    if not letters <= SYMBOL_UNITS or (letters and form.node.op not in {"mul", "div"}):
        return None
    value = constant(without_symbols(form.node))
    if not isinstance(value, Fraction):
        return None
    decimal = form.decimals is not None or bool(_DECIMAL.search(answer))
    return Measured(value / 100 if form.percent else value, form.units | letters, decimal)


async def check(gold: str, answer: str | None, *, question: str = "", by: Checkers | None = None) -> Verdict:
    """Whether `answer` is right.

    Args:
        gold: the right answer, LaTeX or plain.
        answer: what `read_answer` found; None = nothing.
        question: the problem; where it says that something is positive, symbols are.
        by: the processes that compare; None = those that all share.

    Raises:
        GraderError: there is no right answer, it can not be compared, or a process failed.
    """
    if not gold.strip():
        raise GraderError("the reference answer is empty")
    if answer is None or not answer.strip():
        return Verdict(right=False, reason="no answer")
    if _squeezed(gold) == _squeezed(answer):
        return Verdict(right=True, reason="the same text")
    if len(answer) > MAX_CHARS:
        return Verdict(right=False, reason="longer than an answer")
    quick = _quick(gold, answer)
    if quick is not None:
        return Verdict(quick, "compared")
    return await (by or checkers()).check(gold, answer, positive=bool(_POSITIVE.search(question)))


def _quick(gold: str, answer: str) -> bool | None:
    """What words and rational numbers tell without a process; None where it takes one."""
    right, given = _read(gold), _read(answer)
    if right is None or given is None:
        return None
    wordy = isinstance(right, Words) or isinstance(given, Words)
    return equal(right, given) if wordy or (_rational(right) and _rational(given)) else None


def _rational(form: Form) -> bool:
    value = nameless(form)
    return isinstance(value, Value) and number(value.node) is not None


def _read(answer: str) -> Form | None:
    try:
        return read(answer)
    except (UnreadableError, RecursionError):
        return None


def _squeezed(text: str) -> str:
    return _SPACE.sub("", text).strip("$.")
