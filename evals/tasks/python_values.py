"""What a small Python expression gives: expressions built from our own parts, each with its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from evals.graders.number import VERSION, read_number
from evals.tasks.base import GeneratedTask, item_id
from trinity.types import Item

_WORDS = (
    "banana", "pepper", "kettle", "lantern", "mirror", "button", "carrot", "tomato", "puzzle", "summer",
    "hammer", "balloon", "rabbit", "cotton", "lesson", "pillow", "ribbon", "saddle", "tunnel", "violin",
)  # fmt: skip
_LIMIT = 2000
_MISSING_SHARE = 0.3
"""Share of dictionary look-ups that ask for a name that is not there."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Expr(Generic[T]):
    """Source text and the value it has, built side by side; nothing is ever evaluated.

    `atom` says that the source needs no parentheses as an operand.
    """

    source: str
    value: T
    atom: bool = True

    @property
    def operand(self) -> str:
        """Source that is safe beside an operator or a dot."""
        return self.source if self.atom else f"({self.source})"


class PythonValues(GeneratedTask):
    """Expressions whose value is a whole number; difficulty = operations in it (1 to 4, in turn), domain = its kind."""

    name = "python_values"
    grader = VERSION
    contract = "End with a line `Answer: <number>`."

    def draw(self, rng: Random, index: int) -> Item:
        """An expression of `index % 4 + 1` operations."""
        size = index % 4 + 1
        domain, make = rng.choice(_KINDS)
        expr = make(rng, size)
        while not -_LIMIT < expr.value < _LIMIT:
            expr = make(rng, size)
        prompt = f"What does this Python expression give?\n{expr.source}"
        meta = {"expression": expr.source}
        return Item(
            item_id(self.name, prompt), self.name, prompt, str(expr.value), domain, float(size), "constructed", meta
        )

    def key(self, item: Item, text: str) -> str | None:
        """The number as a reduced fraction."""
        return read_number(text)


def _integer(rng: Random, size: int) -> Expr[int]:
    """A whole number of any kind, of `size` operations."""
    if size == 0:
        value = rng.randint(2, 19)
        return Expr(str(value), value)
    return rng.choice(_KINDS)[1](rng, size)


def _arithmetic(rng: Random, size: int) -> Expr[int]:
    left_size = rng.randint(0, size - 1)
    left, right = _integer(rng, left_size), _integer(rng, size - 1 - left_size)
    symbols = "+-*" + ("" if right.value == 0 else "%/")
    symbol = rng.choice(symbols)
    results: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "%": lambda a, b: a % b,
        "/": lambda a, b: a // b,
    }
    sign = "//" if symbol == "/" else symbol
    return Expr(f"{left.operand} {sign} {right.operand}", results[symbol](left.value, right.value), atom=False)


def _of_string(rng: Random, size: int) -> Expr[int]:
    text = _string(rng, size - 1)
    kind = rng.choice(("len", "count", "find"))
    if kind == "len":
        return Expr(f"len({text.source})", len(text.value))
    letter = rng.choice(text.value or "e")
    value = text.value.count(letter) if kind == "count" else text.value.find(letter)
    return Expr(f'{text.operand}.{kind}("{letter}")', value)


def _of_list(rng: Random, size: int) -> Expr[int]:
    numbers = _filled(rng, size - 1)
    kind = rng.choice(("sum", "max", "min", "len", "at", "index", "count"))
    chosen = rng.choice(numbers.value)
    place = rng.randrange(-len(numbers.value), len(numbers.value))
    choices: dict[str, tuple[str, int]] = {
        "sum": (f"sum({numbers.source})", sum(numbers.value)),
        "max": (f"max({numbers.source})", max(numbers.value)),
        "min": (f"min({numbers.source})", min(numbers.value)),
        "len": (f"len({numbers.source})", len(numbers.value)),
        "at": (f"{numbers.operand}[{place}]", numbers.value[place]),
        "index": (f"{numbers.operand}.index({chosen})", numbers.value.index(chosen)),
        "count": (f"{numbers.operand}.count({chosen})", numbers.value.count(chosen)),
    }
    return Expr(*choices[kind])


def _of_dict(rng: Random, size: int) -> Expr[int]:
    names = rng.sample("abcxyz", 3)
    values = [_integer(rng, 0), _integer(rng, size - 1), _integer(rng, 0)]
    rng.shuffle(values)
    pairs = ", ".join(f'"{name}": {value.source}' for name, value in zip(names, values, strict=True))
    if rng.random() < _MISSING_SHARE:
        missing = rng.choice([name for name in "abcxyz" if name not in names])
        default = rng.randint(2, 30)
        return Expr(f'{{{pairs}}}.get("{missing}", {default})', default)
    chosen = rng.randrange(3)
    return Expr(f'{{{pairs}}}["{names[chosen]}"]', values[chosen].value)


def _conditional(rng: Random, size: int) -> Expr[int]:
    tested, bound = _integer(rng, size - 1), rng.randint(2, 19)
    yes, no = rng.randint(2, 40), rng.randint(2, 40)
    symbol, holds = rng.choice(
        ((">", tested.value > bound), ("<", tested.value < bound), ("==", tested.value == bound))
    )
    return Expr(f"{yes} if {tested.operand} {symbol} {bound} else {no}", yes if holds else no, atom=False)


def _string(rng: Random, size: int) -> Expr[str]:
    """A text of `size` operations."""
    if size == 0:
        word = rng.choice(_WORDS)
        return Expr(f'"{word}"', word)
    inner = _string(rng, size - 1)
    low, high = rng.randint(0, 2), rng.randint(3, 6)
    old, new = rng.choice(inner.value or "e"), rng.choice("aeo")
    times = rng.randint(2, 3)
    return rng.choice(
        (
            Expr(f"{inner.operand}[{low}:{high}]", inner.value[low:high]),
            Expr(f"{inner.operand}[::2]", inner.value[::2]),
            Expr(f"{inner.operand}[::-1]", inner.value[::-1]),
            Expr(f"{inner.operand} * {times}", inner.value * times, atom=False),
            Expr(f'{inner.operand}.replace("{old}", "{new}")', inner.value.replace(old, new)),
            Expr(f'{inner.operand} + "{new * times}"', inner.value + new * times, atom=False),
        )
    )


def _list(rng: Random, size: int) -> Expr[list[int]]:
    """A list of whole numbers of `size` operations."""
    if size == 0:
        values = [rng.randint(1, 19) for _ in range(rng.randint(4, 6))]
        return Expr(str(values), values)
    inner = _list(rng, size - 1)
    low, factor, bound = rng.randint(1, 2), rng.randint(2, 4), rng.randint(4, 12)
    more = rng.randint(1, 19)
    start, stop, step = rng.randint(0, 5), rng.randint(9, 20), rng.randint(2, 4)
    return rng.choice(
        (
            Expr(f"{inner.operand}[{low}:]", inner.value[low:]),
            Expr(f"{inner.operand}[:-{low}]", inner.value[:-low]),
            Expr(f"sorted({inner.source})", sorted(inner.value)),
            Expr(f"[x * {factor} for x in {inner.source}]", [x * factor for x in inner.value]),
            Expr(f"[x for x in {inner.source} if x > {bound}]", [x for x in inner.value if x > bound]),
            Expr(f"[x for x in {inner.source} if x % 2 == 0]", [x for x in inner.value if x % 2 == 0]),
            Expr(f"{inner.operand} + [{more}]", [*inner.value, more], atom=False),
            *((Expr(f"list(range({start}, {stop}, {step}))", list(range(start, stop, step))),) if size == 1 else ()),
        )
    )


def _filled(rng: Random, size: int) -> Expr[list[int]]:
    """A list with at least one number."""
    while True:
        numbers = _list(rng, size)
        if numbers.value:
            return numbers


_KINDS: tuple[tuple[str, Callable[[Random, int], Expr[int]]], ...] = (
    ("arithmetic", _arithmetic),
    ("string", _of_string),
    ("list", _of_list),
    ("dict", _of_dict),
    ("conditional", _conditional),
)
