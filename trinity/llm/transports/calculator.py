"""A calculator as an agent: it reads the arithmetic in a question and works it out without ever running it."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

from trinity.types import Message

_LONGEST = 200
"""Characters of an expression; nobody writes a longer one by hand."""

_LARGEST_BITS = 4096
"""Of a result: `9**9**9` must not fill the memory."""

_DIGITS = 12
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
# Hostile text must cost no more time than its length: what is matched is never given back.
_RUN = re.compile(r"(?<![\w.])[\d. ()+*/%-]++")
_LEAD = re.compile(r"(?:[ )*/%]|\.(?!\d))*+")
_TAIL = " .(+-*/%"
_OPERATION = re.compile(r"[\d)] *+[-+*/%]")
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def calculate(messages: Sequence[Message]) -> str:
    """The value of the last message's longest piece of arithmetic, on a line `Answer: <number>`.

    Where there is none, or none that can be worked out, it says so without a number: that is an answer too.
    """
    text = _THOUSANDS.sub("", messages[-1]["content"].translate(_SIGNS)).replace("^", "**")
    pieces = [_LEAD.sub("", run, count=1).rstrip(_TAIL) for run in _RUN.findall(text)]
    found = [piece for piece in pieces if _OPERATION.search(piece)]
    if not found:
        return "I see no arithmetic here."
    expression = max(found, key=len)
    try:
        value = written(evaluate(expression))
    except ValueError:
        return "I cannot work this out."
    return f"{expression} = {value}\nAnswer: {value}"


def evaluate(expression: str) -> Fraction:
    """The exact value of an arithmetic expression of numbers, + - * / // % ** and parentheses; nothing is run.

    Raises:
        ValueError: it is none, too long or too large, or divides by zero.
    """
    if len(expression) > _LONGEST:
        raise ValueError(f"an expression of more than {_LONGEST} characters")
    try:
        return _value(ast.parse(expression, mode="eval").body)
    except SyntaxError:
        raise ValueError(f"{expression!r} is no arithmetic") from None
    except ZeroDivisionError:
        raise ValueError(f"{expression!r} divides by zero") from None


def written(value: Fraction) -> str:
    """A number as people write it: whole, or with up to 12 digits."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{Decimal(value.numerator) / Decimal(value.denominator):.{_DIGITS}g}"


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return Fraction(str(number))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return Fraction(_OPERATORS[type(op)](_value(left), _value(right)))
    raise ValueError(f"{ast.unparse(node)!r} is no arithmetic")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    bits = max(abs(base.numerator), base.denominator).bit_length()
    if exponent.denominator != 1 or bits * abs(exponent) > _LARGEST_BITS:
        raise ValueError("a power that is no whole number, or too large")
    return Fraction(base ** int(exponent))
