"""Computes formulas: exactly where they are rational, else to 60 digits, each step with a bound on its size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from math import comb, factorial, gcd, lcm
from typing import TYPE_CHECKING, Any

from evals.graders.algebra.expression import Node
from evals.graders.algebra.words import HYPERBOLIC, TRIGONOMETRIC
from trinity.canonical import sha256

if TYPE_CHECKING:
    from mpmath.ctx_mp import MPContext

DIGITS = 60
_MAX_BITS = 20_000
_MAX_EXPONENT = 2_000_000
_MAX_FACTORIAL = 2000
_MAX_ARGUMENT = 10**6

Value = Any
"""A Fraction, or a real or complex number of mpmath."""


class UndefinedError(Exception):
    """A formula has no value here: division by zero, the logarithm of 0, infinity less infinity."""


class TooLargeError(Exception):
    """Its value is so large that it is not computed."""


class Evaluator:
    """Values of formulas for given values of their symbols."""

    def __init__(self, symbols: Mapping[str, Value]) -> None:
        """Keep the symbols' values."""
        self.mp, self.functions = _context()
        self.symbols = symbols

    def value(self, node: Node) -> Value:
        """The formula's value.

        Raises:
            UndefinedError: it has none.
            TooLargeError: it is beyond what is computed.
        """
        try:
            found = self._value(node)
        except (ZeroDivisionError, ValueError, ArithmeticError) as error:
            raise UndefinedError(type(error).__name__) from error
        if not isinstance(found, Fraction) and self.mp.isnan(found):
            raise UndefinedError("not a number")
        return found

    def real(self, value: Value) -> Value:
        """As a number of mpmath."""
        return self.mp.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value

    def _value(self, node: Node) -> Value:
        if node.op == "num":
            return node.value
        if node.op == "sym":
            return self._symbol(node.name)
        args = [self._value(arg) for arg in node.args]
        exact = getattr(self, f"_{node.op}", None)
        if exact is not None:
            return exact(*args) if node.op != "apply" else self._apply(node.name, *args)
        return self._function(node.op, args[0])

    def _function(self, name: str, value: Value) -> Value:
        argument = self.real(value)
        if name in {"exp", "sinh", "cosh", "tanh"} and abs(argument) > _MAX_ARGUMENT:
            raise TooLargeError(name)
        if name != "ln" and abs(argument) > 10**DIGITS and not self.mp.isinf(argument):
            raise TooLargeError(name)
        return self.functions[name](argument)

    def _symbol(self, name: str) -> Value:
        constants = {"pi": self.mp.pi, "e": self.mp.e, "i": self.mp.j, "inf": self.mp.inf}
        return +constants[name] if name in constants else self.symbols[name]

    def _both(self, values: tuple[Value, ...], exact: Callable[[Value, Value], Value]) -> Value:
        """Join values, exactly as long as all are exact."""
        whole = all(isinstance(value, Fraction) for value in values)
        total = values[0] if whole else self.real(values[0])
        for value in values[1:]:
            total = exact(total, value if whole else self.real(value))
            if isinstance(total, Fraction) and _bits(total) > _MAX_BITS:
                raise TooLargeError("a fraction")
        return total

    def _add(self, *values: Value) -> Value:
        return self._both(values, lambda one, other: one + other)

    def _mul(self, *values: Value) -> Value:
        return self._both(values, lambda one, other: one * other)

    def _div(self, top: Value, bottom: Value) -> Value:
        return self._both((top, bottom), lambda one, other: one / other)

    def _neg(self, value: Value) -> Value:
        return -value

    def _pow(self, base: Value, power: Value) -> Value:
        whole = isinstance(base, Fraction) and isinstance(power, Fraction) and power.denominator == 1
        if whole and _bits(base) * abs(power) <= _MAX_BITS:
            return base ** int(power)
        if isinstance(base, Fraction) and base == 0:
            if not isinstance(power, Fraction) or power <= 0:
                raise UndefinedError("0 to a power")
            return Fraction(0)
        number = self.real(base)
        # The real root of a negative number, as school has it.
        if isinstance(power, Fraction) and power.denominator % 2 and self.mp.im(number) == 0 and number < 0:
            size = self._general_power(-number, self.real(power))
            return -size if power.numerator % 2 else size
        return self._general_power(number, self.real(power))

    def _general_power(self, base: Value, power: Value) -> Value:
        finite = not (self.mp.isinf(base) or self.mp.isinf(power))
        if finite and (abs(power) > 10**DIGITS or abs(power * self.mp.ln(abs(base) or 1)) > _MAX_EXPONENT):
            raise TooLargeError("a power")
        return self.mp.power(base, power)

    def _root(self, degree: Value, radicand: Value) -> Value:
        if isinstance(degree, Fraction) and degree.denominator == 1 and degree > 0:
            exact = _exact_root(int(degree), radicand)
            if exact is not None:
                return exact
            if degree == 2:  # noqa: PLR2004 - the square root
                return self.mp.sqrt(self.real(radicand))
            return self._pow(radicand, 1 / degree)
        return self._general_power(self.real(radicand), 1 / self.real(degree))

    def _log(self, base: Value, argument: Value) -> Value:
        return self.mp.ln(self.real(argument)) / self.mp.ln(self.real(base))

    def _abs(self, value: Value) -> Value:
        return abs(value)

    def _floor(self, value: Value) -> Value:
        return Fraction(value.numerator // value.denominator) if isinstance(value, Fraction) else self.mp.floor(value)

    def _ceil(self, value: Value) -> Value:
        return -self._floor(-value)

    def _fact(self, value: Value) -> Value:
        if isinstance(value, Fraction) and value.denominator == 1 and 0 <= value <= _MAX_FACTORIAL:
            return Fraction(factorial(int(value)))
        return self.mp.gamma(self._bounded(value) + 1)

    def _binom(self, top: Value, bottom: Value) -> Value:
        whole = all(isinstance(value, Fraction) and value.denominator == 1 for value in (top, bottom))
        if whole and 0 <= bottom <= top <= _MAX_FACTORIAL:
            return Fraction(comb(int(top), int(bottom)))
        return self.mp.binomial(self._bounded(top), self._bounded(bottom))

    def _bounded(self, value: Value) -> Value:
        number = self.real(value)
        if abs(number) > _MAX_ARGUMENT:
            raise TooLargeError("a factorial")
        return number

    def _max(self, *values: Value) -> Value:
        return max(values, key=lambda value: self.mp.re(self.real(value)))

    def _min(self, *values: Value) -> Value:
        return min(values, key=lambda value: self.mp.re(self.real(value)))

    def _gcd(self, *values: Value) -> Value:
        return Fraction(gcd(*map(_whole, values)))

    def _lcm(self, *values: Value) -> Value:
        return Fraction(lcm(*map(_whole, values)))

    def _apply(self, name: str, argument: Value) -> Value:
        """A value for a function of which nothing but the name is known: the same for equal arguments."""
        seen = self.mp.nstr(self.real(argument), 25)
        return Fraction(int(sha256(f"{name}/{seen}")[:12], 16), 2**44)


@cache
def _context() -> tuple[MPContext, dict[str, Callable[..., Value]]]:
    """A context of our own precision, and its functions by our names."""
    import mpmath

    mp = mpmath.mp.clone()
    mp.dps = DIGITS
    inverted = (*TRIGONOMETRIC, *HYPERBOLIC)
    functions = {name: getattr(mp, name) for name in (*inverted, "ln", "exp")}
    return mp, functions | {f"arc{name}": getattr(mp, f"a{name}") for name in inverted}


def _whole(value: Value) -> int:
    if not isinstance(value, Fraction) or value.denominator != 1:
        raise UndefinedError("of whole numbers only")
    return int(value)


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _exact_root(degree: int, radicand: Value) -> Fraction | None:
    """The root of a perfect power."""
    if not isinstance(radicand, Fraction) or radicand < 0 or degree > 64:  # noqa: PLR2004 - higher ones are computed
        return None
    top, bottom = (_whole_root(degree, part) for part in (radicand.numerator, radicand.denominator))
    return None if top is None or bottom is None else Fraction(top, bottom)


def _whole_root(degree: int, number: int) -> int | None:
    low, high = 0, 1 << (number.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= number else (low, middle - 1)
    return low if low**degree == number else None
