"""Asks Math-Verify about what is not read here (sums, integrals, limits, products of matrices)."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache, partial
from typing import Any, NoReturn

_MAX_CHARS = 400
_MAX_DIGITS = 12
"""Of a number: Math-Verify computes powers and factorials as they stand."""
_FOREIGN = frozenset(
    (
        *("sum", "prod", "int", "iint", "oint", "lim", "partial", "nabla", "det", "operatorname", "overline", "vec"),
        *("begin", "end", "mathbb", "cap", "cup", "setminus", "subset", "subseteq", "in", "notin", "to", "infty"),
        *("frac", "dfrac", "tfrac", "sqrt", "binom", "cdot", "times", "div", "pm", "left", "right", "lfloor", "rfloor"),
        *("le", "leq", "ge", "geq", "ne", "neq", "lceil", "rceil", "min", "max", "gcd", "lcm", "mod", "pmod", "bmod"),
        "exp",
        *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln"),
        *("alpha", "beta", "gamma", "delta", "epsilon", "theta", "lambda", "mu", "pi", "rho", "sigma", "tau", "phi"),
        *("psi", "omega", "Gamma", "Delta", "Sigma", "Omega", "ldots", "cdots", "dots", "langle", "rangle", "mathrm"),
    )
)
"""Commands that are handed on; no macro, no matrix decomposition and nothing that makes text of any kind."""
_LARGE = re.compile(
    r"\^\s*\{?[^{}]{0,20}\^|\^\s*(?:\{[^{}]{0,40}\}|.)\s*\^|\)\s*\^\s*\{?[0-9]{2,}\}?\s*\)\s*\^|!\s*!"
    r"|\^\s*\{?\s*[0-9]{4,}|[0-9]{4,}\s*!"
)
"""Towers of powers, double factorials, and powers and factorials of four digits."""


class RefusedError(Exception):
    """Text was about to be made code."""


@cache
def load() -> Any:
    """Math-Verify and its parser, with their ways from text to code cut off."""
    import logging

    import math_verify
    import sympy.integrals.manualintegrate
    import sympy.integrals.meijerint  # noqa: F401 - as the one before: its classes are made before text is refused
    from latex2sympy2_extended import latex2sympy2
    from sympy.parsing import sympy_parser

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    # What turns a string into an expression does it by `eval`; nothing here has to.
    for module in (sympy_parser, latex2sympy2, math_verify.parser):
        for name in ("parse_expr", "eval_expr", "stringify_expr"):
            if hasattr(module, name):
                setattr(module, name, _refused)
    # Its numbers go that way too, and would be rounded.
    latex2sympy2._Latex2Sympy.parse_number = _exact  # noqa: SLF001 - the one place where it reads them
    latex2sympy2.convert_number = partial(_exact, None)
    return math_verify


def _exact(_: object, digits: str) -> Any:
    from sympy import Rational

    value = Fraction(digits.replace(",", "").replace(" ", ""))
    return Rational(value.numerator, value.denominator)


def _refused(*_: object, **__: object) -> NoReturn:
    raise RefusedError


def agree(gold: str, answer: str) -> bool | None:
    """Whether Math-Verify finds both equal; None where it can not read one of them to its end.

    Its own search for answers in texts is not used: it takes what it can read of a formula for the whole.
    """
    verify = load().verify
    forms = [_expression(text) for text in (gold, answer)]
    if any(form is None for form in forms):
        return None
    if gold == answer:
        return True
    right = _done(forms[0])
    try:
        return bool(verify(right, _done(forms[1]), timeout_seconds=None))
    except (MemoryError, RecursionError, RefusedError):
        raise
    except Exception:  # noqa: BLE001 - sympy raises anything over what it can not work out, and an answer may ask for it
        return None


def _done(form: Any) -> Any:
    """Sums, integrals and limits worked out, as far as that is known."""
    return form.doit() if hasattr(form, "doit") else form


def _expression(text: str) -> Any:
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy
    from latex2sympy2_extended.math_normalization import NormalizationConfig, normalize_latex

    if not _harmless(text):
        return None
    tidy = NormalizationConfig(basic_latex=True, units=False, malformed_operators=False, nits=False, boxed="none")
    plain = normalize_latex(text, tidy)
    try:
        return latex2sympy(
            plain,
            is_real=not re.search(r"(?<![a-zA-Z])i(?![a-zA-Z])", plain),
            normalization_config=None,
            conversion_config=ConversionConfig(lowercase_symbols=False),
        )
    except Exception:  # noqa: BLE001 - its parser raises bare Exceptions for what it can not read
        return None


def _harmless(text: str) -> bool:
    """Whether a text is short and holds nothing but known commands and small numbers, without large powers or words."""
    commands = re.findall(r"\\([A-Za-z]+)", text)
    digits = re.findall(r"[0-9]+", text)
    return (
        len(text) <= _MAX_CHARS
        and all(command in _FOREIGN for command in commands)
        and all(len(number) <= _MAX_DIGITS for number in digits)
        and not _LARGE.search(text)
        and not re.search(r"[A-Za-z]{3,}", re.sub(r"\\[A-Za-z]+|\{[a-z]{0,8}matrix\}", " ", text))
    )
