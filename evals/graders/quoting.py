"""Shows untrusted text to a judge so that none of it can pass for words of ours or for the judge's own verdict."""

from __future__ import annotations

import re

MARK = "| "
"""Starts every line of shown text; no line of our own starts with it."""

MAX_CHARS = 40_000
"""Characters of a text that are shown; of a longer one its beginning and its end."""

_TAIL = 10_000
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ud800-\udfff\U000e0000-\U000e01ef]"
)
"""Control, direction and filler characters, tags that hide text, and surrogates, which no request can carry."""
_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_TEMPLATE = re.compile(r"<(?=[|/\uff5c]?[A-Za-z_\uff5c|])|\[(?=/?(?:INST|SYS|TOOL|AVAILABLE_TOOLS)\w*\])")
_VERDICT = re.compile(r"\[(?=\[[^\[\]\n]{1,40}\]\])")


def shown(text: str) -> str:
    """`text` as a judge gets it: each line marked, whatever could be taken for a turn or a verdict broken by a space.

    Every kind of line break becomes a marked new line, invisible characters are dropped, `<|im_end|>` becomes
    `< |im_end|>` and `[[10]]` becomes `[ [10]]`: who repeats the text word by word repeats no verdict. A text of more
    than `MAX_CHARS` characters is shown without its middle, and a line of ours says how much that is.
    """
    if len(text) <= MAX_CHARS:
        return _marked(text)
    head, tail = text[: MAX_CHARS - _TAIL], text[-_TAIL:]
    note = f"({len(text) - MAX_CHARS:,} characters of this text are left out here, it is too long to be shown.)"
    return f"{_marked(head)}\n{note}\n{_marked(tail)}"


def _marked(text: str) -> str:
    lines = _INVISIBLE.sub("", _BREAKS.sub("\n", text)).strip("\n")
    harmless = _VERDICT.sub("[ ", _TEMPLATE.sub(lambda found: f"{found[0]} ", lines))
    return "\n".join(MARK + line for line in harmless.split("\n"))
