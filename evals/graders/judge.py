"""Asks a model to judge free answers: rates one, compares two in both orders, or holds one against a reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from evals.graders.verdict import Preference, agreed, read_match, read_preference, read_rating
from trinity.errors import GraderError
from trinity.quoting import HIDDEN, quote
from trinity.types import Message

if TYPE_CHECKING:
    from trinity.types import Judge

VERSION = "judge/1"

LOWEST, HIGHEST = 1.0, 10.0
"""Ends of the scale of `rate`."""

ATTEMPTS = 2
"""Calls that one verdict takes at most: the second reminds of the form."""

MAX_CHARS = 40_000
"""Characters of a text that a judge is shown; of a longer one its beginning and its end."""

_TAIL = 10_000
_INVISIBLE = HIDDEN + r"\u034f\u115f\u1160\u180b-\u180f\u3164\uffa0\ud800-\udfff\U000e0080-\U000e01ef"
"""Filler characters too, more tags, and surrogates, which no request can carry."""
_DOUBLE = r"\[(?=\[[^\[\]\n]{1,40}\]\])"
_SHOWN = 80

T = TypeVar("T")


class Exchange(NamedTuple):
    """A question, what was answered, and the right answer where one is known."""

    question: str
    answer: str
    reference: str | None = None


async def rate(judge: Judge, exchanges: Sequence[Exchange]) -> float:
    """How good the last answer of a conversation is, from 1 to 10 (single-answer grading: Zheng et al. 2023, 3.1).

    Of earlier exchanges question and answer are shown for context. An answer without a text gets 1 and asks nobody.

    Raises:
        GraderError: the judge gave no rating on the scale, asked twice.
    """
    if not exchanges[-1].answer.strip():
        return LOWEST
    several = len(exchanges) > 1
    parts: list[tuple[str, str | None]] = []
    for number, (question, answer, reference) in enumerate(exchanges, start=1):
        place = f" {number}" if several else ""
        known = reference if number == len(exchanges) else None
        parts += [(f"Question{place}", question), (f"Reference answer{place}", known), (f"Answer{place}", answer)]
    return await _verdict(judge, parts, "rating", _read_rating)


async def compare(judge: Judge, question: str, first: str, second: str, reference: str | None = None) -> Preference:
    """Which of two answers is better: `A` the first, `B` the second (pairwise: Zheng et al. 2023, 3.1 and 3.4).

    Both orders are asked for; a preference that does not survive the swap is a tie. An answer without a text loses to
    one with a text and asks nobody.

    Raises:
        GraderError: the judge gave no verdict in one of the orders, asked twice.
    """
    if not (first.strip() and second.strip()):
        return "A" if first.strip() else "B" if second.strip() else "tie"
    known = ("Reference answer", reference)
    straight = [("Question", question), known, ("Answer A", first), ("Answer B", second)]
    swapped = [("Question", question), known, ("Answer A", second), ("Answer B", first)]
    return agreed(
        await _verdict(judge, straight, "pair", read_preference),
        await _verdict(judge, swapped, "pair", read_preference),
    )


async def matches(judge: Judge, question: str, answer: str, reference: str) -> bool:
    """Whether `answer` gives the result of `reference`; one without a text does not and asks nobody.

    Raises:
        GraderError: the judge said neither yes nor no, asked twice.
    """
    if not answer.strip():
        return False
    parts = [("Question", question), ("Reference answer", reference), ("Answer", answer)]
    return await _verdict(judge, parts, "match", read_match)


def judge_messages(parts: Sequence[tuple[str, str | None]], kind: str, *, reminded: bool = False) -> list[Message]:
    """What a judge is told: each part (heading, text; no text: left out) with its lines marked, then what to do.

    Nothing in it is drawn or numbered, so equal judgements are equal requests. `kind` names the file
    `prompts/judge_KIND.txt`.
    """
    material = [f"{heading}:\n{shown(text)}" for heading, text in parts if text is not None]
    asked = [*material, _prompt(kind), *([_prompt("reminder")] if reminded else [])]
    return [{"role": "system", "content": _prompt("system")}, {"role": "user", "content": "\n\n".join(asked)}]


def shown(text: str) -> str:
    """`text` quoted for a judge; `[[10]]` becomes `[ [10]]`: who repeats the text word by word repeats no verdict.

    A text of more than `MAX_CHARS` characters is shown without its middle, and a line of ours says how much that is.
    """
    if len(text) <= MAX_CHARS:
        return _quoted(text)
    head, tail = text[: MAX_CHARS - _TAIL], text[-_TAIL:]
    note = f"({len(text) - MAX_CHARS:,} characters of this text are left out here, it is too long to be shown.)"
    return f"{_quoted(head)}\n{note}\n{_quoted(tail)}"


def _quoted(text: str) -> str:
    return quote(text, hidden=_INVISIBLE, opening=_DOUBLE)


async def _verdict(
    judge: Judge, parts: Sequence[tuple[str, str | None]], kind: str, read: Callable[[str, Sequence[str]], T | None]
) -> T:
    """The judge's verdict, asked for once more with a reminder where the first reply holds none.

    A reply that was cut off holds none: what it says last need not be what it would have said in the end.
    """
    said, judged = "", [shown(text) for _, text in parts if text is not None]
    for attempt in range(ATTEMPTS):
        completion = await judge.ask(judge_messages(parts, kind, reminded=attempt > 0))
        said = completion.text
        verdict = read(said, judged) if completion.finish_reason == "stop" else None
        if verdict is not None:
            return verdict
    raise GraderError(
        f"{VERSION}: no {kind} verdict in {ATTEMPTS} replies of the judge; the last ends {said[-_SHOWN:]!r}"
    )


def _read_rating(text: str, judged: Sequence[str]) -> float | None:
    return read_rating(text, LOWEST, HIGHEST, judged)


@cache
def _prompt(name: str) -> str:
    return resources.files("evals.graders").joinpath("prompts", f"judge_{name}.txt").read_text("utf-8").rstrip()
