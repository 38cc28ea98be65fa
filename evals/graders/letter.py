"""Reads the option letter that a text gives as its answer to a multiple-choice question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase

from evals.graders.answer_line import declared

VERSION = "letter/2"

_MARKS = " \t\r*_`'\"“”.!,;:()[]<>{}"
_HEAD = re.compile(
    r"[\s*_`'\"]{0,6}(?:option |choice )?[*_`'\"]{0,4}[(\[<{]?[*_`]{0,4}([a-z])(?![\w'’])", re.IGNORECASE
)
_MARK_AFTER = re.compile(r"[\s*_`'\"]{0,6}[).:,\]>}\-–—]")
_SECOND = re.compile(r"[\s).*_,]{0,6}(?:or|and|/|&|,)[\s(*_]{0,6}([A-Z])(?![\w'’])")
_REASON = re.compile(r"[\s*_`]{0,6}(?:because|since|as|is)\b", re.IGNORECASE)
_LABEL = re.compile(r"^\s{0,6}[^\W\d]{1,20}[ ]?:(?=.)")
_ARTICLE = re.compile(r"^(?:an?|the) ")


def read_letter(text: str, options: Sequence[str]) -> str | None:
    """The chosen letter (`A` for the first of `options`); None = no answer.

    The declared answer counts (see `answer_line.declared`); where none is declared, the last filled line, if it holds
    nothing but an option. An option is its letter (`B`, `(b)`, `**B**`, `B) text`) or its exact text. An `A` before
    further words is an article and no letter, and two letters are no answer.
    """
    answer = declared(text)
    if answer is not None:
        return _option(answer, options, bare_words=True)
    line = next((line for line in reversed(text.rsplit("\n", 8)[-8:]) if line.strip(_MARKS)), "")
    return _option(line, options) or _option(_LABEL.sub("", line), options)


def _option(answer: str, options: Sequence[str], *, bare_words: bool = False) -> str | None:
    """The letter of the option that `answer` starts with, or whose text it is."""
    return _by_text(answer, options) or _by_letter(answer.replace("\\boxed", ""), options, bare_words=bare_words)


def _by_text(answer: str, options: Sequence[str]) -> str | None:
    given = _bare(answer)
    hits = [letter for letter, option in zip(ascii_uppercase, options, strict=False) if _bare(option) == given]
    return hits[0] if len(hits) == 1 and given else None


def _by_letter(answer: str, options: Sequence[str], *, bare_words: bool) -> str | None:
    """The letter at the head of `answer`; `bare_words`: a capital letter may be followed by plain words."""
    head = _HEAD.match(answer)
    if head is None or _SECOND.match(answer, head.end()):
        return None
    letter, rest = head[1], answer[head.end() :]
    marked = _MARK_AFTER.match(rest) is not None or not rest.strip(_MARKS)
    plain = bare_words and letter.isupper() and (letter != "A" or _REASON.match(rest) is not None)
    known = letter.upper() in ascii_uppercase[: len(options)]
    return letter.upper() if known and (marked or plain) else None


def _bare(text: str) -> str:
    """`text` folded, without marks at its ends and without its article."""
    return _ARTICLE.sub("", " ".join(text[:500].strip(_MARKS).casefold().split()))
