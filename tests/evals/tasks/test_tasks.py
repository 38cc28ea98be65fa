"""What holds for each of our own tasks: splits, fingerprints, prompts and grading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evals.tasks.base import SplitTask
from evals.tasks.everyday import Everyday
from evals.tasks.python_values import PythonValues
from evals.tasks.word_problems import WordProblems
from trinity.canonical import folded
from trinity.errors import ConfigError
from trinity.types import SPLITS, Episode, Item, Task

Make = Callable[..., SplitTask]
TASKS: list[Make] = [WordProblems, PythonValues, Everyday]


def make(task: Make, **changed: Any) -> SplitTask:
    """A task of 24 training, 16 validation and 40 test items."""
    return task(**{"data_seed": 0, "n_train": 24, "n_val": 16, "n_test": 40, **changed})


def everything(task: SplitTask) -> list[Item]:
    """Items of all splits."""
    return [item for split in SPLITS for item in task.items(split)]


@pytest.mark.parametrize("task", TASKS)
def test_is_a_task_with_the_sizes_asked_for(task: Make) -> None:
    """Each split has its size, and a second pass gives the same items."""
    made: Task = make(task)
    assert [len(list(made.items(split))) for split in SPLITS] == [24, 16, 40]
    assert list(made.items("test")) == list(made.items("test"))


@pytest.mark.parametrize("task", TASKS)
def test_no_two_items_are_the_same(task: Make) -> None:
    """Ids and folded texts are unique over all splits."""
    items = everything(make(task))
    assert len({item.item_id for item in items}) == len({folded(item.prompt) for item in items}) == len(items) == 80


@pytest.mark.parametrize("task", TASKS)
def test_equal_settings_give_equal_items_and_another_seed_others(task: Make) -> None:
    """The fingerprint is a function of the settings and moves with `data_seed`."""
    assert make(task).fingerprint() == make(task).fingerprint() != make(task, data_seed=1).fingerprint()


@pytest.mark.parametrize("task", TASKS)
def test_test_items_do_not_move_with_the_other_sizes(task: Make) -> None:
    """Another training size leaves test items alone, and a smaller test split is the beginning of a larger one."""
    tests = list(make(task).items("test"))
    assert list(make(task, n_train=3, n_val=1).items("test")) == tests
    assert list(make(task, n_test=8).items("test")) == tests[:8]


@pytest.mark.parametrize("task", TASKS)
def test_difficulties_are_mixed_evenly(task: Make) -> None:
    """In every split no difficulty has more than two items above another, and all are constructed."""
    for split in SPLITS:
        levels = [item.difficulty for item in make(task).items(split)]
        counts = [levels.count(level) for level in set(levels)]
        assert len(counts) >= 3
        assert max(counts) - min(counts) <= 2
    assert {item.difficulty_kind for item in everything(make(task))} == {"constructed"}


@pytest.mark.parametrize("task", TASKS)
def test_opens_with_one_short_message(task: Make) -> None:
    """The first message holds the question and the contract and stays short."""
    made = make(task)
    for item in everything(made):
        (message,) = made.open(item)
        assert message == {"role": "user", "content": f"{item.prompt}\n{made.contract}"}
        assert len(message["content"]) < 420
    assert made.reply(item, Episode("Answer: 1")) is None


@pytest.mark.parametrize("task", TASKS)
async def test_the_target_is_right_and_nothing_else(task: Make) -> None:
    """An item's own target scores 1 with the target as answer; another item's wrong target, or none, scores 0."""
    made = make(task)
    items = list(made.items("test"))
    for item in items:
        grade = await made.grade(item, Episode(f"So.\nAnswer: {item.target}"), None)
        assert (grade.score, grade.answer) == (made.threshold, item.target)
        other = next(other.target for other in items if other.target != item.target)
        assert (await made.grade(item, Episode(f"Answer: {other}"), None)).score == 0
    nothing = await made.grade(items[0], Episode(None), None)
    assert (nothing.score, nothing.answer) == (0, None)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("size", [-1, "8", 1.5])
def test_a_bad_size_is_refused(task: Make, size: Any) -> None:
    """A size that is no whole number of at least 0 is a ConfigError that names it."""
    with pytest.raises(ConfigError, match="n_val"):
        make(task, n_val=size)


def test_tasks_share_no_question() -> None:
    """No folded text occurs in two tasks."""
    texts = [folded(item.prompt) for task in TASKS for item in everything(make(task))]
    assert len(set(texts)) == len(texts)
