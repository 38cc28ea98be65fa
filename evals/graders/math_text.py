"""Reads the result that a text gives to a problem of mathematics: a number where it is one, else LaTeX text."""

from __future__ import annotations

import re

from evals.graders.answer_line import declared
from evals.graders.number import read_number

VERSION = "math_text/1"

_WINDOW = 1000
"""Characters that are read of a declared answer from its start, and of any other text from its end."""
_SIGNS = str.maketrans({"\u2212": "-", "\u2013": "-", "π": r"\pi ", "·": r"\cdot ", "×": r"\times ", "∞": r"\infty "})
_SAME = (
    (re.compile(r"\\\$|\\[()\[\]!,;:]|\\(?:left|right|displaystyle|quad|limits)(?![a-zA-Z])|\\[ ]|[$~`]|\*\*"), " "),
    (re.compile(r"\\(?:boxed|text|textbf|mathrm|mathbf|mbox)[ ]?\{([^{}]{0,100})\}"), r" \1 "),
    (re.compile(r"\\[dt]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\frac[ ]?([0-9])[ ]?([0-9])"), r"\\frac{\1}{\2}"),
    (re.compile(r"(?:\\sqrt[ ]?|√[ ]?)([0-9a-z])"), r"\\sqrt{\1}"),
    (re.compile(r"\^[ ]?(?:\\circ(?![a-zA-Z])|\{[ ]?\\circ[ ]?\})|\\degree(?![a-zA-Z])|°"), " "),
    (re.compile(r"(?<= )(?:mm|cm|m|km|in|ft|units?)[ ]{0,2}\^[ ]?\{?[23]\}?"), " "),
)
_NOT_PLAIN = re.compile(
    r"\\(?!frac\{[0-9]{1,20}\}\{[0-9]{1,20}\})[a-zA-Z]"  # any command but a fraction of numbers
    r"|[0-9][ ]?\\frac"  # a mixed number, or a product
    r"|[\^√∛]|[0-9]_[{0-9]|[0-9][ ]?\*[ ]?[0-9]"
    r"|[0-9][a-zA-Z](?![a-zA-Z])"  # 2x
    r"|(?<![a-zA-Z])(?:pi|sqrt|cbrt|root|log|ln|sin|cos|tan|exp|choose|infinity)(?![a-zA-Z])",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z]{2}")


def read_result(text: str) -> str | None:
    r"""The result in `text`: a number as a reduced fraction (see `number.read_number`), else its LaTeX; None = none.

    The declared answer counts (see `answer_line.declared`); where none is declared, the last filled line, if it holds
    a number or nothing but a formula. LaTeX is compared as text: without white space, dollar signs, fonts, sizes and
    degree signs, `\dfrac` as `\frac`, `\frac12` as `\frac{1}{2}`, of an equation what stands behind the last `=`.
    No algebra is done, so `\sqrt{8}` is not `2\sqrt{2}`. A formula with a root, a power, a constant or a variable is
    never read as the number in it.
    """
    answer = declared(text)
    if answer is not None:
        return normal_form(answer[:_WINDOW])
    line = next((line for line in reversed(text[-_WINDOW:].rsplit("\n", 8)) if line.strip(" \t\r*_.$")), "")
    form = normal_form(line)
    return None if form is None or _WORD.search(form) else form


def normal_form(answer: str) -> str | None:
    """An answer in the form in which two that say the same are equal; None = it says nothing."""
    tex = answer.translate(_SIGNS)
    for pattern, plain in _SAME:
        tex = pattern.sub(plain, tex)
    number = None if _NOT_PLAIN.search(tex) else read_number(f"Answer: {tex}")
    text = "".join(tex.rpartition("=")[2].split()).strip("*_").rstrip(".,;:")
    return number or text or None
