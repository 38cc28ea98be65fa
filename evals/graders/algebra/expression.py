"""Parses the tokens of a formula, all of them or none, into a tree that has a value wherever its symbols have one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from evals.graders.algebra.lexer import Kind, Token, UnreadableError
from evals.graders.algebra.words import TRIGONOMETRIC

CONSTANTS = frozenset(("pi", "e", "i", "inf"))
"""Symbols that have a value of their own."""
_MAX_DEPTH = 40
_MAX_DIGITS = 400
_OPENERS = {"(": "(", "[": "[", "{": "{", "floor": "floor", "ceil": "ceil"}
_FUNCTION_LETTERS = {"f", "g", "h", "F", "G", "H"}
_ENDS_ARGUMENT = {*TRIGONOMETRIC, "log", "ln", "exp"}
_MIXED = (
    ("num", "frac", "num"),
    ("num", "frac", "num", "num"),
    ("num", "frac", "{", "num", "{", "{", "num", "{"),
    ("num", "frac", "{", "num", "{", "num"),
    ("num", "frac", "num", "{", "num", "{"),
    ("num", "num", "/", "num"),
)
"""Token texts of a whole number before a fraction; a brace that closes has the text of one that opens."""


@dataclass(frozen=True, slots=True)
class Node:
    """A formula: `op` with its arguments, or a leaf.

    Ops: num (value), sym (name), add, mul, div, pow, neg, fact, root (degree, radicand), log (base, argument), abs,
    floor, ceil, binom, max, min, gcd, lcm, apply (a function without a formula, name), and the names of functions.
    """

    op: str
    args: tuple[Node, ...] = ()
    name: str = ""
    value: Fraction = Fraction(0)


def parse(found: Sequence[Token]) -> Node:
    """The formula that the tokens spell.

    Raises:
        UnreadableError: they spell none, or something stands before or behind it.
    """
    parser = _Parser(list(found))
    node = parser.sum()
    if parser.next is not None:
        raise UnreadableError(f"{parser.next.text!r} behind a formula")
    return node


def number(node: Node) -> Fraction | None:
    """The value of a formula of whole numbers, fractions and decimals joined by nothing but signs and one bar."""
    if node.op == "num":
        return node.value
    if node.op == "neg":
        inner = number(node.args[0])
        return None if inner is None else -inner
    if node.op == "div":
        top, bottom = map(number, node.args)
        return top / bottom if top is not None and bottom else None
    return None


def symbols(node: Node) -> set[str]:
    """Names of the symbols that have no value of their own."""
    own = {node.name} if node.op == "sym" and node.name not in CONSTANTS else set()
    return own.union(*map(symbols, node.args))


def contains(node: Node, *ops: str) -> bool:
    """Whether one of the ops, or a constant of such a name, stands in the formula."""
    return node.op in ops or (node.op == "sym" and node.name in ops) or any(contains(arg, *ops) for arg in node.args)


def renamed(node: Node, names: dict[str, str]) -> Node:
    """The formula with other names for its symbols."""
    name = names.get(node.name, node.name) if node.op == "sym" else node.name
    return replace(node, name=name, args=tuple(renamed(arg, names) for arg in node.args))


def without_symbols(node: Node) -> Node:
    """The formula with 1 for each of its symbols, which leaves the number of `5 m/s`."""
    if node.op == "sym" and node.name not in CONSTANTS:
        return Node("num", value=Fraction(1))
    return replace(node, args=tuple(map(without_symbols, node.args)))


def text(node: Node) -> str:
    """The formula in one spelling, in which the order of summands and factors does not matter."""
    if node.op == "num":
        return str(node.value)
    if node.op == "sym":
        return node.name
    parts = [text(arg) for arg in node.args]
    return f"{node.op}{node.name}({','.join(sorted(parts) if node.op in {'add', 'mul'} else parts)})"


def read_value(digits: str) -> Fraction:
    """The exact value of a number as the lexer spells it (`1,234.5`, `0.1(6)`, `2e-3`).

    Raises:
        UnreadableError: it is too long.
    """
    plain = digits.replace(",", "")
    if len(plain) > _MAX_DIGITS:
        raise UnreadableError("a number of hundreds of digits")
    repeating = re.fullmatch(r"([0-9]*)\.([0-9]*)\(([0-9]+)\)", plain)
    if repeating is None:
        return Fraction(plain)
    whole, start, period = repeating.groups()
    shift = 10 ** len(start)
    head = Fraction(int(f"{whole}{start}" or 0), shift)
    return head + Fraction(int(period), shift * (10 ** len(period) - 1))


def _flat(op: str, args: Sequence[Node]) -> Node:
    if len(args) == 1:
        return args[0]
    return Node(op, tuple(part for arg in args for part in (arg.args if arg.op == op else (arg,))))


class _Parser:
    """Recursive descent; `bars` counts absolute values that are open."""

    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.position = 0
        self.depth = 0
        self.bars = 0

    @property
    def next(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self) -> Token:
        token = self.next
        if token is None:
            raise UnreadableError("an unfinished formula")
        self.position += 1
        return token

    def at(self, kind: Kind, *texts: str) -> bool:
        token = self.next
        return token is not None and token.kind == kind and token.text in texts

    def skip(self, kind: Kind, text: str) -> bool:
        """Whether this token is the next, which is then taken."""
        found = self.at(kind, text)
        self.position += found
        return found

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnreadableError("a formula nested too deeply")
        parts = [self.signed()]
        while self.at("op", "+", "-"):
            parts.append(self.signed())
        self.depth -= 1
        return _flat("add", parts)

    def signed(self) -> Node:
        negative = False
        while self.at("op", "+", "-"):
            negative ^= self.take().text == "-"
        node = self.product()
        if not negative:
            return node
        return Node("num", value=-node.value) if node.op == "num" else Node("neg", (node,))

    def product(self) -> Node:
        node = self.factor()
        while True:
            if self.at("op", "*", "/", ":"):
                operator = self.take().text
                right = self.behind_signs(self.factor)
                node = _flat("mul", (node, right)) if operator == "*" else Node("div", (node, right))
            elif self.starts_factor():
                node = _flat("mul", (node, self.factor()))
            else:
                return node

    def behind_signs(self, read: Callable[[], Node]) -> Node:
        if not self.at("op", "-", "+"):
            return read()
        negative = self.take().text == "-"
        node = self.behind_signs(read)
        return Node("neg", (node,)) if negative else node

    def starts_factor(self) -> bool:
        token = self.next
        if token is None:
            return False
        if token.kind == "num":
            # Two numbers side by side are no product.
            return self.position == 0 or self.tokens[self.position - 1].kind != "num"
        if token.kind == "open":
            return token.text in _OPENERS
        return token.kind in {"sym", "cmd"} or (token.text == "|" and token.kind == "op" and not self.bars)

    def factor(self) -> Node:
        mixed = self.mixed()
        if mixed is not None:
            return mixed
        node = self.atom()
        while True:
            if self.skip("op", "^"):
                node = Node("pow", (node, self.behind_signs(self.atom)))
            elif self.skip("op", "!"):
                if self.at("op", "!"):
                    raise UnreadableError("a double factorial", foreign=True)
                node = Node("fact", (node,))
            elif self.skip("unit", "deg"):
                node = Node("mul", (node, Node("div", (Node("sym", name="pi"), Node("num", value=Fraction(180))))))
            else:
                return node

    def mixed(self) -> Node | None:
        r"""A whole number before a true fraction of numbers: `3\frac12`, `3 1/2`."""
        window = self.tokens[self.position : self.position + 8]
        if not (window and window[0].kind == "num" and window[0].text.isdigit()):
            return None
        for shape in _MIXED:
            parts = window[: len(shape)]
            if len(parts) == len(shape) and all(
                token.kind == "num" and token.text.isdigit() if name == "num" else token.text == name
                for token, name in zip(parts, shape, strict=True)
            ):
                digits = [token.text for token in parts[1:] if token.kind == "num"]
                digits = list(digits[0]) if len(digits) == 1 else digits
                if len(digits) != 2:  # noqa: PLR2004 - above and below the bar
                    return None
                return self.mixed_value(len(shape), window[0].text, digits)
        return None

    def mixed_value(self, length: int, whole: str, digits: list[str]) -> Node | None:
        top, bottom = map(read_value, digits)
        if not 0 < top < bottom:
            return None
        self.position += length
        return Node("num", value=read_value(whole) + top / bottom)

    def argument(self) -> Node:
        """What a command takes: a group, or one piece; of `12` behind a fraction's name the 1 alone."""
        token = self.next
        if token is not None and token.kind == "num" and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.position] = Token("num", token.text[1:])
            return Node("num", value=Fraction(int(token.text[0])))
        return self.atom()

    def atom(self) -> Node:
        token = self.take()
        if token.kind == "num":
            return Node("num", value=read_value(token.text))
        if token.kind == "sym":
            return self.symbol(token)
        if token.kind == "cmd":
            return self.command(token.text)
        if token.kind == "open" and token.text in _OPENERS:
            return self.group(token.text)
        if token.text == "|" and token.kind == "op":
            return self.absolute()
        raise UnreadableError(f"{token.text!r} in a formula", foreign=token.kind == "open")

    def group(self, opener: str) -> Node:
        bars, self.bars = self.bars, 0
        node = self.sum()
        self.close(opener)
        self.bars = bars
        return Node(opener, (node,)) if opener in {"floor", "ceil"} else node

    def close(self, opener: str) -> None:
        token = self.take()
        if token.kind != "close" or token.text != opener:
            raise UnreadableError(f"{token.text!r} where {opener!r} should close")

    def absolute(self) -> Node:
        self.bars += 1
        node = self.sum()
        if not self.skip("op", "|"):
            raise UnreadableError("a bar that does not close")
        self.bars -= 1
        return Node("abs", (node,))

    def symbol(self, token: Token) -> Node:
        name = token.text + self.subscript()
        if token.text in _FUNCTION_LETTERS and self.skip("open", "("):
            return Node("apply", (self.group("("),), name=name)
        return Node("sym", name=name)

    def subscript(self) -> str:
        if not self.skip("op", "_"):
            return ""
        if not self.skip("open", "{"):
            return f"_{self.take().text}"
        inside = ""
        while not self.skip("close", "{"):
            inside += self.take().text
        return f"_{inside}"

    def command(self, name: str) -> Node:
        if name in {"frac", "binom"}:
            return Node("div" if name == "frac" else name, (self.argument(), self.argument()))
        if name == "sqrt":
            return self.root()
        if name in {"max", "min", "gcd", "lcm"}:
            return self.several(name)
        return self.function(name)

    def root(self) -> Node:
        degree = self.group("[") if self.skip("open", "[") else Node("num", value=Fraction(2))
        return Node("root", (degree, self.atom()))

    def several(self, name: str) -> Node:
        opener = self.take()
        if opener.kind != "open":
            raise UnreadableError(f"{name} without arguments")
        args = [self.sum()]
        while self.skip("sep", ","):
            args.append(self.sum())
        self.close(opener.text)
        return Node(name, tuple(args))

    def function(self, name: str) -> Node:
        power: Node | None = None
        base: Node | None = None
        while self.at("op", "^", "_"):
            if self.take().text == "^":
                power = self.behind_signs(self.atom)
            else:
                base = self.argument()
        argument = self.function_argument()
        if name == "cbrt":
            node = Node("root", (Node("num", value=Fraction(3)), argument))
        elif name == "log":
            node = Node("log", (base or Node("num", value=Fraction(10)), argument))
        else:
            name, power = _inverse(name, power)
            node = Node(name, (argument,))
        return node if power is None else Node("pow", (node, power))

    def function_argument(self) -> Node:
        token = self.next
        if token is not None and token.kind == "open" and token.text in _OPENERS:
            return self.factor()
        parts = [self.factor()]
        while self.starts_factor() and not (self.next and self.next.text in _ENDS_ARGUMENT):
            if self.next and self.next.kind == "open":
                break
            parts.append(self.factor())
        return _flat("mul", parts)


def _inverse(name: str, power: Node | None) -> tuple[str, Node | None]:
    if power is not None and number(power) == -1 and name in TRIGONOMETRIC:
        return f"arc{name}", None
    return name, power
