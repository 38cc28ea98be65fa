"""Finds the final answer that a text declares, by its `Answer:` line or another marker."""

from __future__ import annotations

import re

# Every gap is bounded, so that a hostile text costs time linear in its length.
_GAP = r"[ \t*_`'\"]{0,6}"
COLON = rf"(?<!\w)answer{_GAP}(?:is{_GAP})?[:=]"
"""`Answer:` as a pattern that minds no case."""
# An echo of a task's own `Answer: <number>` declares nothing.
_LINE = re.compile(rf"{COLON}(?!{_GAP}<(?:number|letter|move|result)>)", re.IGNORECASE)
_SENTENCE = re.compile(rf"(?<!\w)answer{_GAP}(?:is|would be|should be|seems to be|must be)(?!\w)", re.IGNORECASE)
_FINAL = re.compile(rf"(?<!\w)final answer{_GAP}is(?!\w|{_GAP}[:=])", re.IGNORECASE)
_LEADING = re.compile(
    r"(?:\n|[.!?:)}$])[\s*#>_`\"'<\[-]{0,8}(?:(?:so|thus|therefore|hence|finally|and)[, ]{1,2})?(?:the |my |our )?"
    r"(?:final |correct )?\Z",
    re.IGNORECASE,
)
_LEAD = 60
_HASHES = re.compile(r"^####", re.MULTILINE)
_INNER = r"\{[^{}\n]{0,40}+(?:\{[^{}\n]{0,40}+\}[^{}\n]{0,40}+){0,3}\}"
_BOXED = re.compile(rf"\\boxed[ ]?\{{([^{{}}\n]{{0,80}}+(?:{_INNER}[^{{}}\n]{{0,40}}+){{0,4}})\}}")
_NEXT_QUESTION = re.compile(r"^[ \t*#]{0,6}(?:question|q)[ ]?\d{0,3}[ *]{0,3}:", re.IGNORECASE | re.MULTILINE)


def declared(text: str) -> str | None:
    r"""What follows the marker of the final answer, one line of `text`; None = no marker.

    Markers, the first kind found counts: the last `Answer:` (the next filled line when nothing follows it), the last
    `\boxed{}`, the first `####`, the last `answer is`. A text that goes on with a next `Question:` after its
    answer is read up to there.
    """
    own = _without_run_on(text)
    if marks := list(_LINE.finditer(own)):
        return rest_of_line(own, marks[-1].end())
    if boxes := _BOXED.findall(own):
        return str(boxes[-1])
    if hashes := _HASHES.search(own):
        return rest_of_line(own, hashes.end())
    if sentences := list(_SENTENCE.finditer(own)):
        return rest_of_line(own, sentences[-1].end())
    return None


def labels(text: str) -> tuple[str, int | None, int | None]:
    """`text` up to a next question that follows its answer, and where in it the last label's answer begins.

    First of a strong label: `Answer:` at the start of a line or sentence, `final answer:` or `final answer is`. Then of
    a weak one, which a box outdoes: any `answer:`, else the first `####`, else `answer is`. None where there is none.
    """
    own = _without_run_on(text)
    lines = sorted((mark for pattern in (_LINE, _FINAL) for mark in pattern.finditer(own)), key=re.Match.end)
    strong = next((mark.end() for mark in reversed(lines) if _is_strong(own, mark)), None)
    weak = lines[-1:] or [mark for mark in [_HASHES.search(own)] if mark] or list(_SENTENCE.finditer(own))[-1:]
    return own, strong, weak[0].end() if weak else None


def _is_strong(text: str, mark: re.Match[str]) -> bool:
    return mark[0].lower().startswith("final") or bool(_LEADING.search(_before(text, mark.start())))


def _before(text: str, position: int) -> str:
    """The last characters before a place, with a line's end before the first."""
    return ("" if position > _LEAD else "\n") + text[max(0, position - _LEAD) : position]


def _without_run_on(text: str) -> str:
    """`text` up to a next question that follows an answer: small models invent and answer further ones."""
    answers = [mark.end() for pattern in (_LINE, _HASHES, _BOXED) if (mark := pattern.search(text))]
    following = _NEXT_QUESTION.search(text, min(answers)) if answers else None
    return text[: following.start()] if following else text


def rest_of_line(text: str, start: int) -> str:
    """The line's rest from `start`, or the next line that holds a letter or digit; else nothing."""
    for line in text[start:].split("\n", 8)[:8]:
        if any(char.isalnum() for char in line):
            return line
    return ""
