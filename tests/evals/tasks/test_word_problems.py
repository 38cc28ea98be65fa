"""Word problems: varied stories, whole answers, difficulty = steps."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from evals.tasks.word_problems import STORIES, WordProblems, value_of


def value(formula: str, **numbers: int) -> int | None:
    """Value of a formula."""
    return value_of(ast.parse(formula, mode="eval").body, numbers)


def test_stories_are_many_and_spread_over_the_steps() -> None:
    """At least 25 differently worded stories, at least eight of each number of steps from 1 to 4."""
    assert len({story.text for story in STORIES}) == len(STORIES) >= 25
    steps = Counter(story.steps for story in STORIES)
    assert set(steps) == {1, 2, 3, 4}
    assert min(steps.values()) >= 8


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.domain}-{story.steps}")
def test_a_story_tells_every_number_that_it_needs(story: object) -> None:
    """Text, formula and ranges of a story speak of the same numbers."""
    assert isinstance(story, type(STORIES[0]))
    told = set(re.findall(r"\{([a-e])\}", story.text))
    used = {node.id for node in ast.walk(ast.parse(story.formula)) if isinstance(node, ast.Name)}
    assert told == used == set(story.ranges)


def test_every_story_is_drawn_with_its_own_domain_and_steps() -> None:
    """A large draw uses all stories; answers are whole numbers above 0."""
    items = list(WordProblems(data_seed=3, n_train=600, n_val=0, n_test=0).items("train"))
    assert {(item.domain, item.difficulty) for item in items} == {(story.domain, story.steps) for story in STORIES}
    assert all(int(item.target) > 0 for item in items)


def test_the_target_follows_from_the_numbers_in_the_text() -> None:
    """For each kind of one-step story the target is the sum, difference, product or quotient of its two numbers."""
    items = WordProblems(data_seed=0, n_train=200, n_val=0, n_test=0).items("train")
    for item in (item for item in items if item.difficulty == 1):
        a, b = (int(number) for number in re.findall(r"\d+", item.prompt))
        assert int(item.target) in {a + b, abs(a - b), a * b, a // b}


def test_a_formula_is_worked_out_step_by_step() -> None:
    """Precedence and parentheses hold, and a step that is not whole or not above 0 makes the whole None."""
    assert value("a + b * c", a=2, b=3, c=4) == 14
    assert value("(a + b) * c", a=2, b=3, c=4) == 20
    assert value("a / b * c", a=6, b=3, c=5) == 10
    assert value("a / b * c", a=6, b=4, c=2) is None
    assert value("a - b + c", a=3, b=3, c=2) is None
    with pytest.raises(TypeError, match="formula"):
        value("-a", a=1)


def test_answers_are_read_as_numbers() -> None:
    """Units and decimals in an answer do not matter."""
    task = WordProblems(data_seed=0, n_train=1, n_val=0, n_test=0)
    item = next(task.items("train"))
    assert task.key(item, f"Answer: {item.target}.0 coins") == item.target
