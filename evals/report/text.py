"""Names from outside (agents, tasks, notes) made safe for terminals, Markdown and plots; numbers made readable."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_MARKS = re.compile(r"[\\`*_{}\[\]|#~$!]")
_LINKS = re.compile(r"(?i)(://|www\.|@)")
_BLOCK_START = re.compile(r"^(?:[-+](?=[\s-]|$)|=|\d+(?=[.)](?:\s|$)))")


def clean(value: Any, limit: int = 200) -> str:
    """One line of printable text: no control, direction or surrogate characters, at most `limit` long."""
    text = printable(" ".join(str(value).split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """`text` with a replacement character for each that is not shown, or shown as something else."""
    return "".join("\ufffd" if unicodedata.category(char) in _HIDDEN else char for char in text)


def markdown(value: Any, limit: int = 400) -> str:
    """`value` as one line of Markdown that shows its characters and means nothing: no markup, HTML, table or link."""
    text = clean(value, limit)
    text = "".join(_ENTITIES.get(char, char) for char in text)
    text = _MARKS.sub(lambda mark: "\\" + mark.group(), text)
    text = _LINKS.sub(lambda link: link.group()[:-1] + f"&#{ord(link.group()[-1])};", text)
    return _BLOCK_START.sub(lambda start: f"&#{ord(start.group()[0])};" + start.group()[1:], text)


def fenced(value: str) -> str:
    """`value` as a code block whose fence is longer than any run of backticks in it."""
    text = printable(value)
    fence = "`" * max([2, *(len(run) for run in re.findall("`+", text))]) + "`"
    return f"{fence}\n{text}\n{fence}"


def percent(value: float | None, *, signed: bool = False) -> str:
    """A share as percent (or points, signed) with one decimal."""
    if value is None:
        return "n/a"
    text = f"{100 * value:+.1f}" if signed else f"{100 * value:.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


NO_DIFFERENCE = "no item differs"
"""Beside a difference that is 0 on every item; its interval says how large a one so many equal items may hide."""


def interval(value: float | None, low: float | None, high: float | None, *, signed: bool = False) -> str:
    """A share and, on a line of its own, its interval."""
    if value is None:
        return "n/a"
    ends = " to ".join(percent(end, signed=signed) for end in (low, high))
    return f"{percent(value, signed=signed)}\n({ends})"


def p_value(p: float | None) -> str:
    """Three decimals; n/a where nothing was tested."""
    if p is None:
        return "n/a"
    return "<0.001" if p < 0.001 else f"{p:.3f}"  # noqa: PLR2004 - by custom


def detectable_points(difference: float | None) -> str:
    """A smallest detectable difference in points; more than 100 there cannot be."""
    return "none" if difference is not None and difference > 1 else percent(difference)


def number(value: float | None) -> str:
    """Three significant digits; thousands with separators."""
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"  # noqa: PLR2004 - three digits
