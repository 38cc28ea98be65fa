"""Reads the verdict that a judge gives, and never one that it repeats from the text that it judges."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Preference = Literal["A", "B", "tie"]

T = TypeVar("T")

_MAX_CHARS = 50_000
"""A judge that writes more, thoughts apart, gives no verdict."""
_NEAR = 600
"""Characters before a verdict in which it may be given to somebody else."""

# Every gap is bounded, so that reading costs time linear in the text.
_BOX = re.compile(r"\[\[([^\[\]\n]{1,40})\]\]")
_LINE = re.compile(
    r"^[ \t*_#-]{0,10}(?:(?:my|the|final|overall|total)[ ]){0,3}"
    r"(?:rating|score|grade|verdict|winner|preference|decision|judge?ment)[ \t*_]{0,5}(?:[:=]|is\b)([^\n]{1,60})$",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTES = re.compile(
    r"(?<!\w)\"(?=\S)[^\"]{0,1000}?(?:(?<=\s)\"(?=\w)[^\"]{0,500}?){0,3}(?<=\S)\"(?!\w)"
    r"|(?<!\w)'(?=\S)[^\n]{0,500}?(?<=\S)'(?!\w)"
    r"|\u201c[^\u201d]{0,1000}\u201d|\u2018[^\u2019\n]{0,500}\u2019(?!\w)|\xab[^\xbb]{0,1000}\xbb"
    r"|\u201e[^\u201c\u201d]{0,1000}[\u201c\u201d]|\u300c[^\u300d]{0,1000}\u300d|`{1,2}[^`\n]{1,500}`{1,2}"
)
_CODE = re.compile(r"(`{3,}|~{3,}).*?(?:\1|\Z)", re.DOTALL)
_QUOTED_LINE = re.compile(r"[ \t]{0,8}[|>]")
_SENTENCE_END = re.compile(r"[.!?][)\]]?\s|\n")
_SAYS = re.compile(
    r"\b(?:assistant|candidate|answer|response|reply|solution|model|student|author|text|it|they|he|she)\b[^.!?\n]{0,80}?"
    r"\b(?:(?:claim|sa[iy]|end|conclud|wr[io]t|stat|ask|demand|instruct|contain|includ|output|print|insist|request"
    r"|t[eo]ll|add|put)\w{0,4}|(?:giv|gav|rat|award|assign)\w{0,3}[ ](?:itself|themselves|himself|herself))\b"
    r"(?P<rest>[^,;]{0,60})$",
    re.IGNORECASE,
)
_OWN = re.compile(r"\b(?:I|my|we|our|so|hence|thus|therefore|deserves?|earns?|merits?|gets?)\b", re.IGNORECASE)
_DECORATION = " \t\n*_`'\"[](){}.:!"
_LABEL = 40
"""Characters before a verdict on its line that may be its label."""
_WHOLE = 20
"""Characters of a reply that is the verdict and nothing else."""


@dataclass(frozen=True, slots=True)
class _Form(Generic[T]):
    """What a verdict may be: how its text is read (None = none), and the keys that it may have in JSON."""

    value: Callable[[str], T | None]
    keys: frozenset[str]


def read_rating(text: str, low: float = 1.0, high: float = 10.0, judged: Iterable[str] = ()) -> float | None:
    """The rating that ends a judgement, from `low` to `high`; None = no rating, or one outside the scale.

    Forms: `[[8]]`, `[[8.5]]` and `[[8/10]]` anywhere, `Rating: 8` on a line of its own, a JSON object at the end with
    one of the usual keys (`rating`, `score`, `total`, ...), or the number as the whole reply. The last one counts,
    also where it is outside the scale: nothing is clipped, and no earlier one is taken instead. What stands in
    quotation marks, code, quoted lines, or behind words such as `the assistant claims` is not the judge's, nor is, but
    for double brackets, what one of the `judged` texts says in the same words.
    """
    return _read(text, _Form(lambda value: _number(value, low, high), _RATING_KEYS), judged)


def read_preference(text: str, judged: Iterable[str] = ()) -> Preference | None:
    """Which answer a comparison prefers (`[[A]]`, `[[B]]`, `[[C]]` or `[[tie]]`), as `read_rating` finds it."""
    return _read(text, _Form(_preference, _PREFERENCE_KEYS), judged)


def read_match(text: str, judged: Iterable[str] = ()) -> bool | None:
    """Whether an answer matches (`[[yes]]` or `[[no]]`), as `read_rating` finds it."""
    return _read(text, _Form(_match, _MATCH_KEYS), judged)


def agreed(straight: Preference, swapped: Preference) -> Preference:
    """The verdict of both orders, `swapped` being said of B shown as A; a tie where they do not agree."""
    back: Mapping[Preference, Preference] = {"A": "B", "B": "A", "tie": "tie"}
    return straight if straight == back[swapped] else "tie"


def _read(text: str, form: _Form[T], judged: Iterable[str]) -> T | None:
    said = _after_thinking(text)
    if len(said) > _MAX_CHARS:
        return None
    found = _object(said)
    if found is not None:
        return None if _repeated(said, judged) else _of_object(found, form)
    own = _own_words(said)
    if mark := _last(_BOX, own):
        return form.value(mark[1])
    if mark := _last(_LINE, own):
        return None if _repeated(mark[0], judged) else form.value(mark[1])
    return form.value(own) if len(own.strip()) <= _WHOLE and not _repeated(own, judged) else None


def _last(pattern: re.Pattern[str], own: str) -> re.Match[str] | None:
    """The last place of `pattern` that is not told as the words of the judged text."""
    marks = reversed(list(pattern.finditer(own)))
    return next((mark for mark in marks if not _attributed(own[max(0, mark.start() - _NEAR) : mark.start()])), None)


def _repeated(said: str, judged: Iterable[str]) -> bool:
    """Whether a judged text has these words as lines of its own, whatever white space and signs stand around them."""
    words = _squeezed(said)
    return any(f"\n{words}\n" in f"\n{_squeezed(text)}\n" for text in judged)


def _squeezed(text: str) -> str:
    lines = (re.sub(r"[^\w./-]+", "", line).casefold() for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _after_thinking(text: str) -> str:
    """What follows a reasoning model's thoughts; nothing where they do not end."""
    said = text.rpartition("</think>")[2]
    return "" if "<think>" in said else said


def _own_words(text: str) -> str:
    """`text` without code, quoted lines and what stands in quotation marks."""
    lines = _CODE.sub(" ", text).splitlines()
    return _QUOTES.sub(" ", "\n".join(line for line in lines if not _QUOTED_LINE.match(line)))


def _attributed(before: str) -> bool:
    """Whether what follows `before` is told as the words of the judged text."""
    start = max((end.end() for end in _SENTENCE_END.finditer(before)), default=0)
    return _says(before[start:]) or (len(before) - start <= _LABEL and _introduces(before[:start]))


def _introduces(lead: str) -> bool:
    """Whether the last filled line of `lead` announces words of the judged text."""
    last = next((line for line in reversed(lead.splitlines()) if line.strip(" `~")), "").rstrip(" *_")
    return last.endswith(":") and _says(last[-300:])


def _says(words: str) -> bool:
    said = _SAYS.search(words)
    return said is not None and not _OWN.search(said["rest"])


def _object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that ends `text`, in a code block or not, unless the line before gives it to somebody else."""
    body = text.strip()
    if body.endswith("```"):
        lead, _, inside = body[:-3].rpartition("```")
        return None if _introduces(lead) else _parsed(re.sub(r"^\s*json\b", "", inside, flags=re.IGNORECASE))
    starts = [0] if body.startswith("{") else []
    starts += [found.start() + 1 for found in re.finditer(r"\n\{", body)]
    for start in starts[-3:]:
        found = _parsed(body[start:])
        if found is not None:
            return None if _introduces(body[:start]) else found
    return None


def _parsed(text: str) -> Mapping[str, Any] | None:
    """The object in `text`; None where it is none or names a key twice."""
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _of_object(found: Mapping[str, Any], form: _Form[T]) -> T | None:
    """The verdict in an object, or in the only object that it holds; None where its keys do not agree on one."""
    inner = next(iter(found.values())) if len(found) == 1 else None
    values = (inner if isinstance(inner, dict) else found).items()
    told = [value for key, value in values if re.sub(r"[\s-]+", "_", key.strip().casefold()) in form.keys]
    read = [form.value(str(value)) if isinstance(value, (str, int, float)) else None for value in told]
    return read[0] if len(set(read)) == 1 else None


_RATING_KEYS = frozenset(
    f"{kind}{word}" for kind in ("", "final_", "overall_", "total_") for word in ("rating", "score", "grade")
) | {"total", "overall", "points"}
_PREFERENCE_KEYS = frozenset(
    ("winner", "verdict", "preference", "preferred", "choice", "better", "decision", "judgement", "judgment")
)
_MATCH_KEYS = frozenset(
    ("match", "matches", "correct", "is_correct", "equivalent", "verdict", "decision", "judgement", "judgment", "grade")
)
_NUMBER = re.compile(
    r"(?:(?:rating|score)[ ]?[:=]?[ ]?)?(-?[0-9]{1,4}(?:\.[0-9]{1,4})?)(?:[ ]?(?:/|out of)[ ]?([0-9]{1,4}))?",
    re.IGNORECASE,
)
_NAMED = re.compile(r"[\s_]+|(?:assistant|answer|response|model|option)(?=[\s_]{0,3}[ab]$)")
_PREFERENCES: Mapping[str, Preference] = {
    **dict.fromkeys(("a", "a>b", "a>>b"), "A"),
    **dict.fromkeys(("b", "b>a", "b>>a"), "B"),
    **dict.fromkeys(("c", "tie", "a=b", "b=a"), "tie"),
}
_MATCHES = {
    **dict.fromkeys(("yes", "true", "correct", "match"), True),
    **dict.fromkeys(("no", "false", "incorrect", "wrong", "no match"), False),
}


def _number(text: str, low: float, high: float) -> float | None:
    found = _NUMBER.fullmatch(text.strip(_DECORATION))
    if found is None or (found[2] is not None and float(found[2]) != high):
        return None
    value = float(found[1])
    return value if low <= value <= high else None


def _preference(text: str) -> Preference | None:
    return _PREFERENCES.get(_NAMED.sub("", text.strip(_DECORATION).casefold()))


def _match(text: str) -> bool | None:
    return _MATCHES.get(text.strip(_DECORATION).casefold())
