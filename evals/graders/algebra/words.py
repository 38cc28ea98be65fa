"""Words, units and names that stand in answers."""

from __future__ import annotations

import re
from typing import Literal

CURRENCIES = {"€": "euro", "£": "pound sterling", "¥": "yen", "₹": "rupee", "¢": "cent"}
TRIGONOMETRIC = ("sin", "cos", "tan", "cot", "sec", "csc")
HYPERBOLIC = ("sinh", "cosh", "tanh")
FUNCTIONS = {
    **{name: name for name in (*TRIGONOMETRIC, *HYPERBOLIC, "log", "ln", "exp")},
    **{f"arc{name}": f"arc{name}" for name in (*TRIGONOMETRIC, *HYPERBOLIC)},
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan")},
    **{name: name for name in ("max", "min", "gcd", "lcm", "floor", "ceil", "abs", "sqrt", "cbrt")},
    "lg": "log",
    "log10": "log",
}
"""Spelling -> name of a function."""
SPELLED: dict[str, tuple[Literal["sym", "sep", "rel", "op", "word"], str]] = {
    "pi": ("sym", "pi"),
    "infinity": ("sym", "inf"),
    "inf": ("sym", "inf"),
    **{name: ("sym", name) for name in ("alpha", "beta", "gamma", "delta", "theta", "lambda", "sigma", "phi", "omega")},
    "and": ("sep", ","),
    "or": ("sep", "or"),
    "union": ("op", "cup"),
}
_ALIASES: dict[str, tuple[str, ...]] = {
    "mm": ("millimeter", "millimetre"),
    "cm": ("centimeter", "centimetre"),
    "m": ("meter", "metre"),
    "km": ("kilometer", "kilometre"),
    # Not `in`, which is a word.
    "inch": ("inche",),
    "ft": ("foot", "feet"),
    "yd": ("yard",),
    "mi": ("mile",),
    "mg": ("milligram",),
    "g": ("gram",),
    "kg": ("kilogram",),
    "lb": ("pound",),
    "oz": ("ounce",),
    "ml": ("milliliter", "millilitre"),
    "l": ("liter", "litre"),
    "gal": ("gallon",),
    "s": ("sec", "second"),
    "min": ("minute",),
    "h": ("hr", "hour"),
    "day": (),
    "week": (),
    "month": (),
    "year": ("yr",),
    "mph": ("miles per hour",),
    "km/h": ("kmh", "kph"),
    "m/s": ("mps",),
    "deg": ("degree",),
    "rad": ("radian",),
    "dollar": ("usd", "buck"),
    "cent": (),
    "euro": ("eur",),
    "%": ("percent", "pct", "percentage", "per cent"),
}
_NEUTRAL = ("unit", "sq", "square", "cubic", "sq.", "square unit", "cubic unit", "sq unit")
"""Say of what kind a number is, and agree with every unit."""
UNITS: dict[str, str] = {
    **{
        spelling: unit for unit, names in _ALIASES.items() for name in (unit, *names) for spelling in (name, f"{name}s")
    },
    **{spelling: "" for name in _NEUTRAL for spelling in (name, f"{name}s")},
}
"""Spelling -> unit; the empty one agrees with every other."""
_SHORT = re.compile("be|by|do|he|if|in|is|it|my|no|of|on|so|to|up|us|we")
BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
         "twelve": 12, "sixteen": 16}  # fmt: skip
CHANGING = frozenset(
    (
        *("minus", "plus", "negative", "not", "half", "halves", "third", "thirds", "quarter", "quarters", "fourths"),
        *("fifth", "fifths", "tenths", "hundredths", "dozen", "dozens", "hundred", "hundreds", "thousand", "thousands"),
        *("million", "millions", "billion", "billions", "trillion", "times", "over", "divided", "multiplied"),
        *("squared", "cubed", "factorial", "choose", "less", "more", "least", "most", "than", "under", "without"),
        *("except", "never", "between", "twice", "double", "root", "power", "modulo", "mod", "base", "two", "three"),
        *("four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "above", "below", "undefined"),
        *("unknown", "cannot"),
    )
)
"""Words beside a number that make it another, or none."""
SYNONYMS = {
    **dict.fromkeys(("no solution", "no solutions", "no real solution", "no real solutions"), "empty set"),
    **dict.fromkeys(("there is no solution", "there are no solutions", "empty"), "empty set"),
    **dict.fromkeys(("\\emptyset", "\\varnothing"), "empty set"),
    **dict.fromkeys(("does not exist", "dne", "not defined", "is undefined"), "undefined"),
}
"""Phrases that mean the same."""
ARTICLES = frozenset(("a", "an", "the"))


def is_word(letters: str) -> bool:
    """Whether letters are a word, and not a product of variables or the names of points."""
    small = letters.lower()
    if _SHORT.fullmatch(small):
        return True
    return len(small) > 2 and bool(re.search("[aeiouy]", small) and re.search("[^abcdxyzn]", small))  # noqa: PLR2004
