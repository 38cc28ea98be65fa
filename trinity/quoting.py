"""Putting untrusted model text into a prompt so that it cannot pass for a prompt of ours."""

from __future__ import annotations

import re

MARK = "| "
"""Starts every quoted line; no line of our own starts with it."""

HIDDEN = (
    r"\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad"
    r"\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f"
)
"""Control and direction characters and tags that hide text, as a regular expression's set of characters."""

_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_TEMPLATE = r"<(?=[|/\uff5c]?[A-Za-z_\uff5c|])|\[(?=/?(?:INST|SYS|TOOL|AVAILABLE_TOOLS)\w*\])"


def quote(text: str, *, hidden: str = HIDDEN, opening: str = "") -> str:
    """`text` with each line marked, and chat-template tokens (`<|im_end|>`, `</s>`, `[INST]`, ...) broken by a space.

    Every kind of line break becomes a marked new line, `hidden` characters are dropped: what a model wrote can then
    neither open a turn, nor speak for another role, nor hide text from a reader. `opening`, an expression too, is what
    else a space is put behind.
    """
    seen = re.sub(f"[{hidden}]", "", _BREAKS.sub("\n", text))
    harmless = re.sub(f"{_TEMPLATE}|{opening}" if opening else _TEMPLATE, lambda found: f"{found[0]} ", seen)
    return "\n".join(MARK + line for line in harmless.strip("\n").split("\n"))
