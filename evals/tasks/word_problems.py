"""Grade-school word problems of one to four arithmetic steps, drawn from our own stories."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

from evals.graders.number import VERSION, read_number
from evals.tasks.base import GeneratedTask, item_id
from trinity.types import Item


@dataclass(frozen=True, slots=True)
class Story:
    """A kind of problem: its text, the range of each number in it, and the formula of its answer."""

    domain: str
    text: str
    formula: str
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Operations in the formula."""
        return sum(isinstance(node, ast.BinOp) for node in ast.walk(ast.parse(self.formula)))


def _story(domain: str, text: str, formula: str, **ranges: tuple[int, int]) -> Story:
    return Story(domain, text, formula, ranges)


_NAMES = (
    "Amara", "Bruno", "Chen", "Dalia", "Emil", "Farah", "Goran", "Hana", "Ines", "Jonas", "Kira", "Luca",
    "Mina", "Nils", "Olga", "Pavel", "Rosa", "Samir", "Tessa", "Umar", "Vera", "Wanda", "Yusuf", "Zoe",
)  # fmt: skip

STORIES: tuple[Story, ...] = (
    # one step
    _story(
        "shopping",
        "{who} had {a} coins and spent {b} of them on a kite. How many coins are left?",
        "a - b",
        a=(31, 96),
        b=(12, 58),
    ),
    _story(
        "farm",
        "A hen house holds {a} rows of nests with {b} nests in each row. How many nests is that?",
        "a * b",
        a=(4, 12),
        b=(4, 12),
    ),
    _story(
        "school",
        "{a} pupils are split into {b} teams of equal size. How many pupils are on each team?",
        "a / b",
        a=(24, 96),
        b=(3, 9),
    ),
    _story(
        "travel",
        "A bus has gone {a} km of its {b} km route. How many km remain?",
        "b - a",
        a=(14, 48),
        b=(52, 95),
    ),
    _story(
        "kitchen",
        "One batch of dough makes {a} rolls. How many rolls do {b} batches make?",
        "a * b",
        a=(6, 15),
        b=(3, 9),
    ),
    _story(
        "sport",
        "{who} scored {a} points in the first game and {b} in the second. What is the total?",
        "a + b",
        a=(18, 67),
        b=(16, 65),
    ),
    _story(
        "library",
        "A library puts {a} books evenly on {b} shelves. How many books stand on one shelf?",
        "a / b",
        a=(30, 99),
        b=(3, 9),
    ),
    _story(
        "garden",
        "{who} picked {a} plums, {b} more than {friend}. How many did {friend} pick?",
        "a - b",
        a=(35, 90),
        b=(8, 30),
    ),
    # two steps
    _story(
        "shopping",
        "{who} buys {a} pens at {b} coins each and pays with {c} coins. How many coins come back?",
        "c - a * b",
        a=(3, 8),
        b=(4, 9),
        c=(50, 100),
    ),
    _story(
        "farm",
        "A farm has {a} goats. It sells {b} and then {c} kids are born. How many goats are there now?",
        "a - b + c",
        a=(35, 80),
        b=(9, 30),
        c=(6, 25),
    ),
    _story(
        "school",
        "Each of {a} classes has {b} pupils, and {c} more pupils join the school. How many pupils are there?",
        "a * b + c",
        a=(3, 9),
        b=(10, 20),
        c=(4, 25),
    ),
    _story(
        "travel",
        "{who} rides {a} km an hour for {b} hours and then walks {c} km. How many km is the whole way?",
        "a * b + c",
        a=(11, 25),
        b=(2, 6),
        c=(3, 14),
    ),
    _story(
        "kitchen",
        "A cook has {a} eggs, uses {b}, and packs the rest in boxes of {c}. How many boxes does the cook fill?",
        "(a - b) / c",
        a=(36, 90),
        b=(6, 30),
        c=(4, 10),
    ),
    _story(
        "sport",
        "{who} runs {a} laps of {b} hundred metres. {friend} runs {c} hundred metres. How many hundred metres"
        " more does {who} run?",
        "a * b - c",
        a=(5, 12),
        b=(3, 8),
        c=(9, 30),
    ),
    _story(
        "library",
        "{who} reads {a} pages a day for {b} days of a {c}-page book. How many pages are left?",
        "c - a * b",
        a=(6, 15),
        b=(3, 7),
        c=(80, 150),
    ),
    _story(
        "garden",
        "{a} tulips and {b} roses are tied into bunches of {c} flowers. How many bunches is that?",
        "(a + b) / c",
        a=(14, 50),
        b=(13, 48),
        c=(4, 10),
    ),
    _story(
        "work",
        "A printer makes {a} posters in {b} minutes. How many posters does it make in {c} minutes?",
        "a / b * c",
        a=(8, 60),
        b=(2, 8),
        c=(9, 20),
    ),
    # three steps
    _story(
        "shopping",
        "{who} buys {a} mugs at {b} coins each and {c} bowls at {d} coins each. What is the bill?",
        "a * b + c * d",
        a=(3, 9),
        b=(4, 11),
        c=(2, 8),
        d=(5, 12),
    ),
    _story(
        "farm",
        "{a} cows give {b} litres each a day. The farm keeps {c} litres and fills the rest in cans of {d} "
        "litres. How many cans are filled?",
        "(a * b - c) / d",
        a=(4, 12),
        b=(8, 15),
        c=(10, 40),
        d=(4, 10),
    ),
    _story(
        "school",
        "A school orders {a} boxes of {b} pencils. {c} pencils are broken, and the good ones are shared by "
        "{d} classes. How many does each class get?",
        "(a * b - c) / d",
        a=(5, 12),
        b=(8, 12),
        c=(4, 30),
        d=(3, 8),
    ),
    _story(
        "travel",
        "A boat goes {a} km an hour for {b} hours, then {c} km an hour for {d} hours. How far does it go in km?",
        "a * b + c * d",
        a=(8, 20),
        b=(2, 6),
        c=(6, 15),
        d=(2, 5),
    ),
    _story(
        "kitchen",
        "{who} bakes {a} trays of {b} buns, burns {c} and eats {d}. How many good buns are left?",
        "a * b - c - d",
        a=(4, 9),
        b=(8, 12),
        c=(5, 17),
        d=(2, 6),
    ),
    _story(
        "sport",
        "In each of {a} games {who} gets {b} baskets worth {c} points. {friend} gets {d} points in all. How "
        "many more points has {who}?",
        "a * b * c - d",
        a=(3, 6),
        b=(4, 9),
        c=(2, 3),
        d=(11, 40),
    ),
    _story(
        "library",
        "A library has {a} shelves of {b} books. {c} books are lent out and {d} new ones arrive. How many "
        "books are in the library?",
        "a * b - c + d",
        a=(5, 12),
        b=(9, 20),
        c=(8, 40),
        d=(6, 25),
    ),
    _story(
        "garden",
        "{who} plants {a} rows of {b} beans; {c} plants die. Each other plant gives {d} pods. How many pods are there?",
        "(a * b - c) * d",
        a=(3, 8),
        b=(4, 9),
        c=(3, 12),
        d=(3, 6),
    ),
    _story(
        "work",
        "{who} earns {a} coins an hour and works {b} hours a day for {c} days, then pays {d} coins rent. How "
        "many coins are left?",
        "a * b * c - d",
        a=(5, 10),
        b=(3, 8),
        c=(2, 6),
        d=(20, 70),
    ),
    # four steps
    _story(
        "shopping",
        "{who} buys {a} chairs at {b} coins and {c} lamps at {d} coins and has a voucher for {e} coins. What "
        "does {who} pay?",
        "a * b + c * d - e",
        a=(2, 6),
        b=(8, 20),
        c=(2, 6),
        d=(5, 15),
        e=(7, 30),
    ),
    _story(
        "farm",
        "{a} trees bear {b} apples each and {c} trees bear {d} apples each. All are packed in crates of {e}. "
        "How many crates are filled?",
        "(a * b + c * d) / e",
        a=(3, 9),
        b=(8, 20),
        c=(3, 9),
        d=(6, 15),
        e=(5, 10),
    ),
    _story(
        "school",
        "{a} buses carry {b} pupils each. {c} pupils go back home and {d} teachers come along. They sit at "
        "tables of {e}. How many tables do they fill?",
        "(a * b - c + d) / e",
        a=(2, 6),
        b=(15, 30),
        c=(3, 12),
        d=(4, 14),
        e=(4, 8),
    ),
    _story(
        "travel",
        "{who} cycles {a} km on each of {b} days and {c} km on each of {d} days of a {e} km tour. How many km"
        " are left?",
        "e - a * b - c * d",
        a=(12, 30),
        b=(2, 5),
        c=(11, 25),
        d=(2, 4),
        e=(150, 300),
    ),
    _story(
        "kitchen",
        "A cafe sells {a} teas at {b} coins and {c} cakes at {d} coins. The goods cost {e} coins. What is the gain?",
        "a * b + c * d - e",
        a=(8, 20),
        b=(2, 4),
        c=(5, 15),
        d=(3, 6),
        e=(15, 60),
    ),
    _story(
        "sport",
        "{a} teams of {b} players each pay {c} coins a player. The cup costs {d} coins; the rest is shared by"
        " {e} clubs. How many coins does each club get?",
        "(a * b * c - d) / e",
        a=(3, 8),
        b=(5, 9),
        c=(2, 5),
        d=(12, 40),
        e=(2, 6),
    ),
    _story(
        "library",
        "{who} reads {a} pages on each of {b} workdays and {c} pages on each of {d} free days. {friend} reads"
        " {e} pages more than that. How many pages does {friend} read?",
        "a * b + c * d + e",
        a=(8, 18),
        b=(3, 5),
        c=(14, 30),
        d=(2, 4),
        e=(6, 30),
    ),
    _story(
        "garden",
        "{who} has {a} bags of {b} bulbs, gives {c} bulbs to each of {d} friends and finds {e} more bulbs. "
        "How many bulbs has {who} now?",
        "a * b - c * d + e",
        a=(3, 8),
        b=(9, 16),
        c=(3, 7),
        d=(2, 5),
        e=(5, 20),
    ),
    _story(
        "work",
        "{a} painters paint {b} m of fence a day each. After {c} days they stop, and {d} m stay unpainted. "
        "Paint for the whole fence is bought in tins for {e} m. How many tins is that?",
        "(a * b * c + d) / e",
        a=(2, 5),
        b=(6, 15),
        c=(2, 6),
        d=(8, 40),
        e=(4, 10),
    ),
)

_BY_STEPS = tuple(tuple(story for story in STORIES if story.steps == steps) for steps in (1, 2, 3, 4))


class WordProblems(GeneratedTask):
    """Arithmetic stories with whole-number answers; difficulty = steps (1 to 4, in turn), domain = kind of story."""

    name = "word_problems"
    grader = VERSION
    contract = "End with a line `Answer: <number>`."

    def draw(self, rng: Random, index: int) -> Item:
        """A story of `index % 4 + 1` steps with names and numbers."""
        story = rng.choice(_BY_STEPS[index % len(_BY_STEPS)])
        numbers, answer = _numbers(rng, story)
        who, friend = rng.sample(_NAMES, 2)
        prompt = story.text.format(who=who, friend=friend, **numbers)
        return Item(
            item_id(self.name, prompt), self.name, prompt, str(answer), story.domain, float(story.steps), "constructed"
        )

    def key(self, item: Item, text: str) -> str | None:
        """The number as a reduced fraction."""
        return read_number(text)


def _numbers(rng: Random, story: Story) -> tuple[dict[str, int], int]:
    """Numbers with which every step of the story comes out whole and positive, and the answer."""
    formula = ast.parse(story.formula, mode="eval").body
    while True:
        numbers = {name: rng.randint(low, high) for name, (low, high) in story.ranges.items()}
        answer = value_of(formula, numbers)
        if answer is not None:
            return numbers, answer


def value_of(node: ast.expr, numbers: Mapping[str, int]) -> int | None:
    """Value of a formula of names and `+ - * /`; None where a step is not a whole number above 0."""
    if isinstance(node, ast.Name):
        return numbers[node.id]
    if not isinstance(node, ast.BinOp):
        raise TypeError(f"a formula holds names and + - * / only, not {ast.unparse(node)}")
    left, right = value_of(node.left, numbers), value_of(node.right, numbers)
    if left is None or right is None:
        return None
    result = _apply(node.op, left, right)
    return int(result) if result.denominator == 1 and result > 0 else None


def _apply(operator: ast.operator, left: int, right: int) -> Fraction:
    if isinstance(operator, ast.Add):
        return Fraction(left + right)
    if isinstance(operator, ast.Sub):
        return Fraction(left - right)
    if isinstance(operator, ast.Mult):
        return Fraction(left * right)
    return Fraction(left, right)
