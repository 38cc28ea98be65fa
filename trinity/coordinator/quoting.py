"""Putting untrusted model text into a prompt so that it cannot pass for a prompt of ours."""

from __future__ import annotations

import re

MARK = "| "
"""Starts every quoted line; no line of our own starts with it."""

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
_BREAKS = re.compile(r"\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_SPECIAL = re.compile(r"<(?=[|/\uff5c]?[A-Za-z_\uff5c|])|\[(?=/?(?:INST|SYS|TOOL|AVAILABLE_TOOLS)\w*\])")


def quote(text: str) -> str:
    """`text` with each line marked, and chat-template tokens (`<|im_end|>`, `</s>`, `[INST]`, ...) broken by a space.

    Every kind of line break becomes a marked new line, control and direction characters are dropped: what a model
    wrote can then neither open a turn, nor speak for another role, nor hide text from a reader.
    """
    unbroken = _BREAKS.sub("\n", text)
    harmless = _SPECIAL.sub(lambda match: match.group() + " ", _CONTROL.sub("", unbroken))
    return "\n".join(MARK + line for line in harmless.strip("\n").split("\n"))
