"""Tells whether a free answer matches a reference that may be a formula, a number with its unit, or a few words.

A reference that reads as mathematics is compared as such. What is left is compared as text: case, articles, marks and
number words do not matter, nor does the order of a list. Nothing judges meaning: a paraphrase or a synonym is wrong, so
that accuracies of references in words are lower bounds.
"""

from __future__ import annotations

import re
from fractions import Fraction

from evals.graders.algebra.pool import Checkers, Verdict
from evals.graders.mathematics import as_number, check
from trinity.canonical import folded

VERSION = "free_form/2"

_TOLERANCE = Fraction(1, 100)
"""Two measured values that differ by no more count as one."""
_MAX_CHARS = 2000
_TEX = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)[ ]?(?=\{)|\\[()\[\],;! ]|[{}$*_`'\"“”\u2018’]")
_PARTS = re.compile(r"[,;\n]|(?<!\w)(?:and|or)(?!\w)|&")
_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*|[<>=+%-]")
_DROPPED = frozenset(("a", "an", "the", "is", "are", "it", "its"))
_NUMBERS = {
    word: str(value)
    for value, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}  # fmt: skip
_SAME = {"true": "yes", "false": "no", "correct": "yes", "incorrect": "no"}


async def match(reference: str, answer: str | None, *, question: str = "", by: Checkers | None = None) -> Verdict:
    """Whether `answer` says what `reference` does.

    Args:
        reference: the right answer.
        answer: what `mathematics.read_answer` found; None = nothing.
        question: the problem, for what it assumes of symbols.
        by: the processes that compare formulas; None = those that all share.

    Raises:
        GraderError: the reference is empty, or a process failed.
    """
    found = await check(reference, answer, question=question, by=by)
    if found.right or answer is None:
        return found
    if len(answer) <= _MAX_CHARS and same_words(reference, answer):
        return Verdict(right=True, reason="the same words")
    if _close(reference, answer):
        return Verdict(right=True, reason="within a hundredth")
    return found


def same_words(reference: str, answer: str) -> bool:
    """Whether two texts are made of the same words, or list the same items in any order."""
    right, given = _words(reference), _words(answer)
    if not right or not any(char.isalpha() for word in right for char in word):
        return False
    listed = _items(reference)
    return right == given or (listed is not None and listed == _items(answer))


def _words(text: str) -> list[str]:
    words = _WORD.findall(folded(_TEX.sub(" ", text)).strip(". "))
    kept = [word for word in words if word not in _DROPPED] or words
    return [_SAME.get(word, _NUMBERS.get(word, word)) for word in kept]


def _items(text: str) -> list[list[str]] | None:
    """The items of a list, sorted; None where there is only one."""
    items = sorted(words for part in _PARTS.split(text) if (words := _words(part)))
    return items if len(items) > 1 else None


def _close(reference: str, answer: str) -> bool:
    """Whether a decimal reference, which a measurement or a rounding is, and a number are nearly equal."""
    right, given = as_number(reference), as_number(answer)
    if right is None or given is None:
        return False
    if right.units and given.units and right.units != given.units:
        return False
    return right.decimal and abs(right.value - given.value) <= _TOLERANCE * abs(right.value)
