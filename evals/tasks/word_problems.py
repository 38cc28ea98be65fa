"""Grade-school word problems of one to four arithmetic steps, drawn from our own stories."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

from evals.graders.number import VERSION, read_number
from evals.tasks.base import GeneratedTask, item_id
from trinity.types import Item


@dataclass(frozen=True, slots=True)
class Story:
    """A line of the data file: a problem's text, the formula of its answer, and the least and most of each number."""

    domain: str
    text: str
    formula: str
    ranges: Mapping[str, Sequence[int]]

    @property
    def steps(self) -> int:
        """Operations in the formula."""
        return sum(isinstance(node, ast.BinOp) for node in ast.walk(ast.parse(self.formula)))


_NAMES = (
    "Amara", "Bruno", "Chen", "Dalia", "Emil", "Farah", "Goran", "Hana", "Ines", "Jonas", "Kira", "Luca",
    "Mina", "Nils", "Olga", "Pavel", "Rosa", "Samir", "Tessa", "Umar", "Vera", "Wanda", "Yusuf", "Zoe",
)  # fmt: skip

_DATA = Path(__file__).parent / "data" / "word_problems.jsonl"
STORIES = tuple(Story(**json.loads(line)) for line in _DATA.read_text("utf-8").splitlines())
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
