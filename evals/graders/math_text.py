"""Reads the result that a text gives to a problem of mathematics: a number where it is one, else LaTeX text."""

from __future__ import annotations

import re
from fractions import Fraction

from evals.graders.answer_line import declared

VERSION = "math_text/2"

_WINDOW = 1000
"""Characters that are read of a declared answer from its start, and of any other text from its end."""
_MAX_CHARS = 40
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2010\u2011\u2013\ufe63", "-"),
        "\u2044": "/",
        "π": r"\pi ",
        "·": r"\cdot ",
        "×": r"\times ",
        "∞": r"\infty ",
        "±": r"\pm ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
    }
)
_LENGTHS = "mm|cm|dm|km|m|in|inch|inches|ft|foot|feet|yd|yards?|mi|miles?|meters?|metres?|units?"
_UNITS = (
    rf"{_LENGTHS}|mg|kg|g|grams?|lbs?|oz|ml|mL|L|ms|s|sec|secs|min|mins|h|hr|hrs|hours?|minutes?|seconds?|days?|weeks?"
    r"|months?|years?|mph|kph|degs?|degrees?|rad|radians?|dollars?|cents?|percent|pct|pts?|points?|USD|EUR|GBP"
)
_GROUP = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]{0,40}+\}){0,80}+\}){0,200}+)\}"
_FONT = re.compile(rf"\\(?:boxed|text|textbf|textit|mathrm|mathbf|mbox)[ ]?{_GROUP}")
_SAME = (
    (re.compile(r"\\\\|\\q?quad(?![a-zA-Z])"), " ; "),
    (re.compile(r"(?<=[0-9])(?:\{,\}|\{?\\,\}?|,\\!|[\u00a0\u202f\u2009])(?=[0-9]{3}(?![0-9]))"), ","),
    (re.compile(r"\\\$|\\[()\[\]!,;:]|\\(?:left|right|displaystyle|limits)(?![a-zA-Z])|\\[ ]|[$~`]"), " "),
    (re.compile(r"(?<![\w)}])\*\*|\*\*(?![\w({\\])"), " "),
    (
        re.compile(rf"(?<=[0-9)}}])([ ]{{0,4}})\\(?:text|mathrm|mbox)[ ]?\{{[ ]{{0,4}}(?:{_UNITS})[ .]{{0,4}}\}}"
                   r"(?:[ ]?\^[ ]?(?:[23]|\{[23]\}))?"),
        " ",
    ),
    (_FONT, r" \1 "),
    (_FONT, r" \1 "),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\[dt]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\frac[ ]?([0-9])"), r"\\frac{\1}"),
    (re.compile(r"(\\frac[ ]?\{[^{}]{0,80}\})[ ]?([0-9])"), r"\1{\2}"),
    (re.compile(r"(?:\\sqrt[ ]?|√[ ]?)([0-9a-z])"), r"\\sqrt{\1}"),
    (re.compile(r"(?:\^[ ]?(?:\\circ(?![a-zA-Z])|\{[ ]?\\circ[ ]?\})|\\degree(?![a-zA-Z])|°)(?:[ ]?[CF]\b)?"), " "),
    (re.compile(r"\s+"), " "),
)  # fmt: skip
_LABEL = re.compile(r"^[ ]?\(?[A-E][).:][ ](?=[^ ])")
_BULLET = re.compile(r"^[ \t]*[-+*][ \t]+")
_EQUALS = re.compile(r"(?<![<>!=:])=(?!=)")
_CLOSE = re.compile(r"(?:[,;:]|(?<!\.)\.)+$")
_BRACKETED = re.compile(r"\([^()]{0,200}\)|\[[^\[\]]{0,200}\]|\{[^{}]{0,200}\}")
_SEVERAL = re.compile(r"[,;](?![0-9]{3}(?![0-9]))|\b(?:or|and)\b")
_RELATION = re.compile(r"[<>!]|\\(?:leq?|geq?|neq?|lt|gt|approx|equiv|sim)(?![a-zA-Z])")

_TEX_FRACTION = re.compile(r"\\frac[ ]?\{[ ]?([-+]?[0-9]{1,20})[ ]?\}[ ]?\{[ ]?([0-9]{1,20})[ ]?\}")
_PARENTHESES = re.compile(r"\(([^(),;]{0,100})\)[ .]?")
_REMARK = re.compile(r"(?<= )\(([^()]{0,200})\)")
_VALUE = re.compile(
    r"(?P<sign>[-+]?)(?=\.?[0-9])(?:(?P<whole>[0-9]{1,20})[ ](?=[0-9]{1,20}[ ]?/))?"
    r"(?P<top>(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2}(?!\w))?)"
    r"(?:[ ]?/[ ]?(?P<bottom>[0-9]{1,20})(?![0-9.]))?"
)
_PROSE = r"(?:[\s,;:.?!—“”\"]++|[A-Za-z]++(?:['’/-][A-Za-z]++)*+)*+"
_BEFORE = re.compile(rf"{_PROSE}(?<![A-Za-z.,])")
_AFTER = re.compile(
    rf"(?:[ ]?%)?(?:(?:(?:[ ]|(?!\w\b))(?:{_UNITS})(?:/(?:{_UNITS}))?(?![a-zA-Z0-9^²³])"
    rf"|[ ]?(?:sq\.?[ ]|cu\.?[ ])?(?:{_LENGTHS})[ ]?(?:\^[ ]?(?:[23]|\{{[23]\}})|[²³23])(?![0-9]))"
    rf"(?P<unit>))?(?P<rest>(?![!\"a-zA-Z]|\.\.){_PROSE})"
)
_LAST_WORD = re.compile(r"([A-Za-z]+)(?:['’][a-z]{1,2})?[ :“\"]*$")
_LETTERS = re.compile(r"[A-Za-z]+")
_SHORT = re.compile("am|an|as|at|be|by|do|he|if|in|is|it|my|no|of|ok|on|so|to|up|us|we|sq|cu")
_FUNCTIONS = (
    "pi|sqrt|cbrt|roots?|log|ln|sin|cos|tan|cot|sec|csc|arc(?:sin|cos|tan)|exp|choose|infinity|mod|modulo|plus|minus"
    "|or|power|factorial|squared?|cubed?|half|twice|double|triple|negative|multiplied|divided"
)
_CHANGED = re.compile(
    rf"\b(?:{_FUNCTIONS}|and|times|over|under|above|below|not|cannot|\w+n['’]t|never|without|except|than|least|most"
    r"|between|up|close|raised|about|base)(?:[ ](?:of|by|the|to|be|equal|equals)){0,3}[ :]*$",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"\b(?:pi|sqrt|cbrt|log|ln|sin|cos|tan|exp|choose|infinity|mod|modulo|plus|minus|or|factorial|squared|cubed|half"
    r"|halves|thirds?|quarters?|fourths?|fifths?|sixths?|sevenths?|eighths?|ninths?|tenths?|hundredths?"
    r"|dozens?|hundreds?|thousands?|[bmtr]+illions?|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|over"
    r"|divided|multiplied|base|roots?|times(?=\W+[a-z]))\b",
    re.IGNORECASE,
)
_PROSE_IN_FORM = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z]{2}")


def read_result(text: str) -> str | None:
    r"""The result in `text`: a number as a reduced fraction (`12`, `-3/4`), else its LaTeX; None = none.

    The declared answer counts (see `answer_line.declared`); where none is declared, the last filled line, if it holds
    a number or nothing but a formula. An answer is a number only if it holds one number and beside it nothing but
    words, a unit, a currency or a per cent sign: `1{,}234`, `\frac{3}{4}`, `3 1/2` (7/2), `12 cm^2`, `(3)`. All else
    (roots, powers, sums, products, factorials, pairs, sets, ratios, bounds, two numbers) is compared as LaTeX text:
    without dollar signs, fonts, sizes, degree signs and white space other than that between two digits, `\dfrac` as
    `\frac`, `\frac12` as `\frac{1}{2}`. Of an equation counts what stands behind its last `=`, unless it is one of
    several. No algebra is done, so `\sqrt{8}` is not `2\sqrt{2}`.
    """
    answer = declared(text)
    if answer is not None:
        return normal_form(answer)
    line = next((line for line in reversed(text[-_WINDOW:].rsplit("\n", 8)) if line.strip(" \t\r*_.$-")), "")
    form = normal_form(_BULLET.sub("", line))
    return None if form is None or _PROSE_IN_FORM.search(form) else form


def normal_form(answer: str) -> str | None:
    """An answer in the form in which two that say the same are equal; None = it says nothing."""
    tex = answer[:_WINDOW].translate(_SIGNS)
    for pattern, plain in _SAME:
        tex = pattern.sub(plain, tex)
    result = _result(_LABEL.sub("", tex)).strip(" *_;")
    text = _CLOSE.sub("", re.sub(r"(?<![0-9]) | (?![0-9])", "", result))
    return _number(result) or text or None


def _result(tex: str) -> str:
    """What stands behind the last `=`; all where there are several results, bounds, or a bracket around it."""
    signs = list(_EQUALS.finditer(tex))
    if not signs:
        return tex
    before, behind = tex[: signs[-1].start()], tex[signs[-1].end() :]
    opened = sum(map(behind.count, "([{")) - sum(map(behind.count, ")]}"))
    outside = _BRACKETED.sub(" ", before)
    several = _SEVERAL.search(outside) and (len(signs) > 1 or re.search("[0-9]", outside))
    return tex if opened or several or _RELATION.search(before) else behind


def _number(result: str) -> str | None:
    """The one number of a result, if nothing else in it could change it."""
    plain = re.sub(r"[€£¥ ]+", " ", _TEX_FRACTION.sub(r" \1/\2 ", result)).strip()
    whole = _PARENTHESES.fullmatch(plain)
    plain = whole[1] if whole else _REMARK.sub(_without_remark, plain)
    plain = re.sub(r"^[ ]?([-+])[ ](?=[.0-9])", r"\1", plain)
    value = _VALUE.search(plain)
    if value is None or not (_says_only(plain[: value.start()]) and _follows(plain[value.end() :])):
        return None
    return _canonical(value)


def _without_remark(remark: re.Match[str]) -> str:
    operation = re.match(rf"[ ]?(?:{_FUNCTIONS}|times)\b", remark[1], re.IGNORECASE)
    words = _LETTERS.findall(remark[1])
    return " " if not operation and ("=" in remark[1] or any(map(_is_word, words))) else remark[0]


def _says_only(before: str) -> bool:
    """Whether the text before a number is prose that leaves the number as it is."""
    if not _BEFORE.fullmatch(before):
        return False
    last = _LAST_WORD.search(before)
    return not _CHANGED.search(before) and (last is None or _is_word(last[1]))


def _follows(after: str) -> bool:
    """Whether the text behind a number is a unit or prose that leaves the number as it is."""
    tail = _AFTER.fullmatch(after)
    if tail is None or _CHANGES.search(tail["rest"]):
        return False
    words = _LETTERS.findall(re.sub(r"['’][a-z]{1,2}\b", "", tail["rest"]))
    first, others = (words[:1], words[1:]) if tail["unit"] is None else ([], words)
    return all(map(_is_word, first)) and all(_is_word(word) or word in {"a", "I"} for word in others)


def _is_word(word: str) -> bool:
    """Whether letters are a word, and not a product of variables or the names of points."""
    small = word.lower()
    if _SHORT.fullmatch(small) or (len(word) > 1 and re.fullmatch(_UNITS, word)):
        return True
    return len(small) > 2 and bool(re.search("[aeiouy]", small) and re.search("[^abcdxyz]", small))  # noqa: PLR2004


def _canonical(value: re.Match[str]) -> str | None:
    """The number as a reduced fraction; None = too long, a division by 0, or a whole number before no true fraction."""
    if len(value[0]) > _MAX_CHARS:
        return None
    bottom = int(value["bottom"] or 1)
    if not bottom or (value["whole"] and (not value["top"].isdigit() or int(value["top"]) >= bottom)):
        return None
    number = int(value["whole"] or 0) + Fraction(value["top"].replace(",", "")) / bottom
    return str(-number if value["sign"] == "-" else number)
