r"""Finds what a reply gives as its answer: the last `\boxed{}` or `Answer:`, a field of JSON, else its last formula."""

from __future__ import annotations

import json
import re
from itertools import pairwise

from evals.graders.algebra.lexer import closing_brace
from evals.graders.answer_line import labels, rest_of_line

_MAX_REPLY = 200_000
"""Characters of a reply that are read, from its end; no model says more."""
_WINDOW = 4000
"""Characters that are read of an answer from its marker on, and of a text without one from its end."""
_MAX_BOXES = 30
_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])[ ]{0,4}")
_BARE = re.compile(r"\\(?:[a-zA-Z]{1,20}(?:[ ]?\{[^{}]{0,80}\}){0,2}|.)|[^\s$\\.,;:!?]{1,80}")
_BETWEEN = re.compile(
    r"(?:[\s$,;&.]|\\[()\[\], ;!]|\\q?quad|\\(?:text|mbox)[ ]?\{[ ]?(?:and|or)[ ]?\}|and|or|\*{1,2}"
    r"|[a-zA-Z](?:_\{?[0-9a-zA-Z]\}?)?[ ]?=){0,16}"
)
_FIELD = re.compile(r'"(?:final[_ ]?)?answer"\s{0,4}:\s{0,4}', re.IGNORECASE)
_SCALAR = re.compile(r'[^,}\]\n"]{1,200}')
_SPAN = re.compile(r"\$\$?([^$\n]{1,1000})\$\$?|\\\(([^\n]{1,1000}?)\\\)|\\\[([^\n]{1,1000}?)\\\]")
_LEAD = re.compile(r"^[\s*_:]{0,9}(?:thus|so|hence|therefore|finally)?,?\s{0,3}(?:the|my|our)?\s?(?:final |correct )?"
                   r"answer\s{1,3}is:?\s", re.IGNORECASE)  # fmt: skip
_HOPE = re.compile(r"[.\s]{0,4}I hope (?:it|this) is correct.{0,40}$", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?(?:answer|final_answer|b|i|strong|think|p|br|s|sub|sup)\s?/?>|<\|[a-z_]{1,20}\|>", re.IGNORECASE)
_LINKED = re.compile(r"(?:\b(?:is|are|equals?|be|becomes)|[:=])[\s*]{0,4}$")
_PROSE = re.compile(r"[A-Za-z]{3,}")
_MATRIX_END = re.compile(r"\\end\{[a-z]{1,12}\}")
_STRING_END = re.compile(r'(?<!\\)(?:\\\\){0,20}"')
_JOINS = re.compile(r"^[\s,;.]{0,4}(?:(?:and|or)[\s,]{0,4})?$")


def final_answer(text: str) -> str | None:
    """What `text` gives as its answer, without what surrounds it; None = nothing.

    A text that is JSON (bare or fenced) gives its field `answer` or `final_answer`. In any other the last marker
    counts, be it a box or an `Answer:`; boxes that stand side by side are one answer. Where there is no marker, the
    answer is the last formula of the last line, or that line.
    """
    read = text[-_MAX_REPLY:]
    inner = _json_answer(read)
    if inner is not None:
        return _marked(inner) or _bare(inner)
    return _marked(read) or _unmarked(read)


def boxes(text: str) -> list[tuple[int, int, str]]:
    r"""Start, end and content of the last `\boxed{}` of a text, also of one without braces; an open one is none."""
    found: list[tuple[int, int, str]] = []
    for match in reversed(list(_BOX.finditer(text))[-_MAX_BOXES:]):
        content = _content(text, match.end())
        if content is not None and content[1].strip(" .\u2026"):
            found.append((match.start(), *content))
    return found[::-1]


def _content(text: str, start: int) -> tuple[int, str] | None:
    if text[start : start + 1] != "{":
        bare = _BARE.match(text, start)
        return (bare.end(), bare[0]) if bare else None
    closing = closing_brace(text, start, start + _WINDOW)
    return None if closing is None else (closing + 1, text[start + 1 : closing])


def _marked(text: str) -> str | None:
    """The answer behind the last marker."""
    own, strong, weak = labels(text)
    found = boxes(own)
    boxed = _last_boxes(own, found) if found else None
    if strong is not None and (not found or strong > found[-1][0]):
        said = _bare(_line(own, strong))
        if said and (boxed is None or not _is_prose(said)):
            return said
    if boxed is not None or weak is None:
        return boxed
    return _bare(_line(own, weak))


def _last_boxes(text: str, found: list[tuple[int, int, str]]) -> str:
    """The last box, with those before it from which only a separator parts it."""
    parts = [found[-1]]
    for box in reversed(found[:-1]):
        between = text[box[1] : parts[0][0]]
        if len(between) > 60 or not between.strip() or not _BETWEEN.fullmatch(between):  # noqa: PLR2004 - one line
            break
        if "\n\n" in between or box[2] == parts[0][2]:
            break
        parts.insert(0, box)
    return " , ".join(content for _, _, content in parts)


def _line(text: str, start: int) -> str:
    """The rest of the line, or the next that holds a letter or digit; a matrix that opens there to its end."""
    window = text[start : start + _WINDOW]
    line = rest_of_line(window, 0)
    if "\\begin" in line and "\\end" not in line:
        at = window.index(line)
        closing = _MATRIX_END.search(window, at + len(line))
        return window[at : closing.end()] if closing else line
    return line


def _bare(said: str) -> str | None:
    """An answer without tags, marks, and the words around it."""
    plain = _HOPE.sub("", _LEAD.sub("", _TAG.sub(" ", said[:_WINDOW])))
    plain = re.sub(r"^[\s*_`\"']{1,9}|[\s*_`\"']{1,9}$", "", plain)
    if found := boxes(plain):
        return _last_boxes(plain, found)
    plain = _span(plain).strip()
    plain = re.sub(r"[\s.*]{1,9}$", "", plain)
    return plain if any(char.isalnum() for char in plain) or "\\" in plain else None


def _span(said: str) -> str:
    """The formula of a sentence: its only one, or the one that stands behind `is`."""
    spans = list(_SPAN.finditer(said))
    if not spans:
        return said
    before, behind = said[: spans[0].start()], said[spans[-1].end() :]
    if all(_JOINS.match(said[one.end() : other.start()]) for one, other in pairwise(spans)):
        if _PROSE.search(before) and not _PROSE.search(behind):
            return said[spans[0].start() :]
        if _LINKED.search(before):
            return said[spans[0].start() : spans[-1].end()]
        return said
    linked = [span for span in spans if _LINKED.search(said[: span.start()])]
    return _inside(linked[-1]) if linked else said


def _inside(span: re.Match[str]) -> str:
    return next(group for group in span.groups() if group)


def _is_prose(said: str) -> bool:
    return len(_PROSE.findall(said)) > 3 and not re.search("[0-9]", said)  # noqa: PLR2004 - a name may have three words


def _unmarked(text: str) -> str | None:
    lines = [line for line in text[-_WINDOW:].rsplit("\n", 12)[-12:] if any(char.isalnum() for char in line)]
    if not lines:
        return None
    spans = list(_SPAN.finditer(lines[-1]))
    if spans:
        return _inside(spans[-1]).strip() or None
    return _bare(lines[-1].rpartition("=")[2])


def _json_answer(text: str) -> str | None:
    """The field `answer` of a reply in JSON; LaTeX in it may be escaped or, against the rules, not."""
    stripped = text.strip()
    if not re.search(r"\}\s{0,9}(?:```)?$", stripped) or not re.match(r"(?:[^{}]{0,200})\{", stripped):
        return None
    fields = list(_FIELD.finditer(stripped))
    if not fields:
        return None
    rest = stripped[fields[-1].end() :]
    if not rest.startswith('"'):
        scalar = _SCALAR.match(rest)
        return scalar[0].strip() if scalar else None
    closing = _STRING_END.search(rest, 1)
    return _unescaped(rest[1 : closing.end() - 1]) if closing else None


def _unescaped(literal: str) -> str:
    if not re.search(r"(?<!\\)\\(?:[^\\\"/bfnrtu]|[bfnrt][a-zA-Z])", literal):
        try:
            return str(json.loads(f'"{literal}"'))
        except ValueError:
            pass
    return literal.replace("\\\\", "\\").replace('\\"', '"')
