"""PlanBench as a task: its rows, what of them is asked, and how answers are graded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.tasks.planbench import EXECUTION, GENERATION, VERIFICATION, PlanBench
from tests.evals.tasks.rows import write
from tests.evals.tasks.rows_puzzles import (
    FREIGHT,
    FREIGHT_PLAN,
    SMALL,
    SMALL_PLAN,
    blocks_query,
    planbench,
    planbench_row,
    sentence,
)
from trinity.errors import ConfigError, DataError
from trinity.splits import check_disjoint
from trinity.types import Episode, Grade, Item

SHARED = Path(__file__).parents[4] / "shared" / "data" / "items" / "planbench.jsonl"
STEPS = [sentence(tuple(step.split())) for step in SMALL_PLAN]
EXAMPLE = SMALL.partition("[STATEMENT]")[2].replace("blue", "gold") + "\n" + "\n".join(STEPS) + "\n[PLAN END]\n\n"


def make(path: Path, **changed: Any) -> PlanBench:
    """The task on rows of ours, all of them test items."""
    return PlanBench(**{"data_seed": 0, "n_train": 0, "n_val": 0, "n_test": None, "path": path, **changed})


def one(tmp_path: Path, row: dict[str, Any], **changed: Any) -> tuple[PlanBench, Item]:
    """The task on one row, and its item."""
    task = make(write(tmp_path / "rows.jsonl", [row]), task=row["task"], **changed)
    [item] = task.items("test")
    return task, item


async def score(task: PlanBench, item: Item, reply: str) -> float:
    """The score of a reply."""
    return (await task.grade(item, Episode(reply), None)).score


def shown(text: str, steps: list[str], task: str, **changed: Any) -> dict[str, Any]:
    """A row that shows a plan and asks for what is to be said of it."""
    marks, ask = ("[PLAN]", "[VERIFICATION]") if task == VERIFICATION else ("[ACTION SEQUENCE]", "[RESULTING STATE]")
    before = text.removesuffix("[PLAN]") + "\n".join((marks, *steps, marks.replace("]", " END]"), "", ask, ""))
    return planbench_row(before, [], "blocksworld", task=task, ground_truth_plan="as the data says", **changed)


async def test_the_rows_own_plans_are_right(tmp_path: Path) -> None:
    """In all worlds the row's plan is graded right, its length is the difficulty, and its key is the target."""
    task = make(write(tmp_path / "rows.jsonl", planbench(20)))
    items = list(task.items("test"))
    assert Counter(item.domain for item in items).keys() >= {
        "blocksworld",
        "mystery_blocksworld",
        "logistics",
        "depots",
    }
    for item in items:
        grade = await task.grade(item, Episode(task.solution(item)), None)
        assert grade == Grade(1.0, item.target)
        assert item.difficulty == len(item.target.splitlines())
        assert item.difficulty_kind == "constructed"
        assert item.target not in item.prompt


def test_one_file_is_cut_into_disjoint_splits(tmp_path: Path) -> None:
    """The one split there is cut into three that share nothing; the same problem with another example is one item."""
    rows = planbench(40)
    again = [
        {**row, "query": row["query"].replace("[STATEMENT]", f"[STATEMENT]{EXAMPLE}[STATEMENT]")} for row in rows[:9]
    ]
    task = make(write(tmp_path / "rows.jsonl", [*rows, *again]), n_train=15, n_val=5, n_test=20)
    check_disjoint((split, item) for split in ("train", "val", "test") for item in task.items(split))
    assert sum(len(list(task.items(split))) for split in ("train", "val", "test")) == 40


async def test_any_plan_that_works_is_right(tmp_path: Path) -> None:
    """A detour reaches the goal and is right with a key of its own; where time counts only the shortest is."""
    detour = ["(unstack red blue)", "(stack red blue)", *(f"({step})" for step in SMALL_PLAN)]
    reply = "\n".join(["[PLAN]", *detour, "[PLAN END]"])
    task, item = one(tmp_path, planbench_row(SMALL, SMALL_PLAN, "blocksworld"))
    assert await task.grade(item, Episode(reply), None) == Grade(1.0, "\n".join(detour))
    row = planbench_row(SMALL, SMALL_PLAN, "blocksworld", task="task_2_plan_optimality")
    task, item = one(tmp_path, row)
    assert await score(task, item, reply) == 0.0
    assert await score(task, item, task.solution(item)) == 1.0


async def test_plans_that_fail_are_wrong(tmp_path: Path) -> None:
    """A plan cut short, one out of order and one with an unreadable line are wrong; no plan is no answer."""
    task, item = one(tmp_path, planbench_row(SMALL, SMALL_PLAN, "blocksworld"))
    for steps in (STEPS[:-1], STEPS[::-1], [*STEPS, "be happy"], ["(pick-up green)", *STEPS]):
        grade = await task.grade(item, Episode("\n".join(["[PLAN]", *steps, "[PLAN END]"])), None)
        assert grade.score == 0.0
        assert grade.answer is not None
    for reply in ("No plan exists.", "", "[PLAN]\nno plan exists\n[PLAN END]"):
        assert await task.grade(item, Episode(reply), None) == Grade(0.0, None)
    assert await task.grade(item, Episode(None), None) == Grade(0.0, None)


async def test_a_repeated_question_is_no_answer(tmp_path: Path) -> None:
    """The plans of a question's examples are not taken for the answer of a text that repeats it."""
    text = SMALL.replace("[STATEMENT]", f"[STATEMENT]{EXAMPLE}[STATEMENT]")
    task, item = one(tmp_path, planbench_row(text, SMALL_PLAN, "blocksworld"))
    assert "\n".join(STEPS) in item.prompt
    assert await task.grade(item, Episode(task.open(item)[0]["content"]), None) == Grade(0.0, None)
    assert await score(task, item, f"{item.prompt}\n{task.solution(item)}") == 1.0


def test_questions_end_where_the_answer_is_to_stand(tmp_path: Path) -> None:
    """The prompt has the query without its last `[PLAN]`, with the example or without it."""
    row = planbench_row(SMALL.replace("[STATEMENT]", f"[STATEMENT]{EXAMPLE}[STATEMENT]"), SMALL_PLAN, "blocksworld")
    _, item = one(tmp_path, row)
    assert item.prompt.endswith("the blue block is on top of the red block.")
    assert "gold" in item.prompt
    task, bare = one(tmp_path, row, example=False)
    assert "gold" not in bare.prompt
    assert bare.prompt.count("[STATEMENT]") == 1
    message = task.open(bare)[0]["content"]
    assert bare.prompt in message
    assert message.endswith("nothing else between these marks.")


@pytest.mark.parametrize(
    ("steps", "target"),
    [
        (STEPS, "valid"),
        (STEPS[:2], "invalid, goal: on blue red"),
        ([STEPS[0], STEPS[2]], "invalid, step 2: handempty"),
        ([STEPS[2]], "invalid, step 1: clear blue"),
    ],
)
async def test_verdicts_are_graded_by_execution(tmp_path: Path, steps: list[str], target: str) -> None:
    """The plan that a query shows is executed, and only what comes of it is right."""
    task, item = one(tmp_path, shown(SMALL, steps, VERIFICATION))
    assert item.target == target
    assert await task.grade(item, Episode(task.solution(item)), None) == Grade(1.0, item.target)
    wrong = (
        "The above plan is invalid: unmet goal: the hand is empty" if target == "valid" else "The above plan is valid."
    )
    assert await score(task, item, wrong) == 0.0
    assert await task.grade(item, Episode("Who knows?"), None) == Grade(0.0, None)


async def test_states_are_graded_by_execution(tmp_path: Path) -> None:
    """The actions that a query shows are executed, and the state is right in the query's words too."""
    text = SMALL.replace("My goal is to have that the blue block is on top of the red block.", "I have done this:")
    task, item = one(tmp_path, shown(text, STEPS[:1], EXECUTION))
    assert item.target == "clear blue; holding red; ontable blue"
    assert await task.grade(item, Episode(task.solution(item)), None) == Grade(1.0, item.target)
    said = "the blue block is clear, the hand is currently holding red block and the blue block is on the table"
    assert await score(task, item, f"[RESULTING STATE]\n{said}") == 1.0
    assert await score(task, item, "[RESULTING STATE]\nthe blue block is clear") == 0.0
    assert await task.grade(item, Episode("I lost track."), None) == Grade(0.0, None)


def test_rows_that_are_not_asked_are_counted(tmp_path: Path) -> None:
    """Rows of other tasks, domains and worlds, and those whose own plan fails, are left out and counted."""
    rows = [
        planbench_row(SMALL, SMALL_PLAN, "blocksworld"),
        planbench_row(SMALL, SMALL_PLAN, "blocksworld", task=VERIFICATION),
        planbench_row(FREIGHT, FREIGHT_PLAN, "logistics"),
        planbench_row(SMALL.replace("set of blocks", "deck of cards"), SMALL_PLAN, "blocksworld"),
        planbench_row(blocks_query([("clear", "red")], [("on", "red", "blue")]), SMALL_PLAN, "blocksworld"),
    ]
    task = make(write(tmp_path / "rows.jsonl", rows), domains=["blocksworld"])
    assert len(list(task.items("test"))) == 1
    assert task.facts()["left_out"] == {
        "train": {
            "of another task": 1,
            "of a domain that was not asked for": 1,
            "of an unknown world": 1,
            "own plan does not reach the goal": 1,
        }
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"query": SMALL.replace("is clear", "is glad")}, "query is .* not a problem in the words of a known world"),
        ({"ground_truth_plan": "(unstack red blue)\nthen rest"}, "a plan that is not understood: then rest"),
        ({"ground_truth_plan": "none"}, "a plan that is not understood: there is none"),
    ],
)
def test_broken_rows_are_told(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    """A sentence or a plan that is not understood stops the loading with its place."""
    with pytest.raises(DataError, match=rf"rows\.jsonl: row 1: {words}"):
        one(tmp_path, planbench_row(SMALL, SMALL_PLAN, "blocksworld", **changed))


def test_settings_are_checked(tmp_path: Path) -> None:
    """An unknown task, and a domain that is no list, are refused with what to give."""
    with pytest.raises(ConfigError, match="task is 'task_9'; give one of task_1_plan_generation, "):
        make(tmp_path, task="task_9")
    with pytest.raises(ConfigError, match=r"domains is 'depots'; give a list, as \[blocksworld,logistics\]"):
        make(tmp_path, domains="depots")
    assert make(tmp_path, task=VERIFICATION).chance > 0.5
    assert make(tmp_path).config == GENERATION[0]


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.exists(), reason=f"no {SHARED}")
@pytest.mark.parametrize("name", [GENERATION[0], VERIFICATION])
async def test_the_data_agree_with_execution(name: str) -> None:
    """All 120 plans of the real rows are valid, and all 120 verdicts are those that execution gives."""
    task = make(SHARED, task=name)
    items = list(task.items("test"))
    assert len(items) == 120
    assert [await score(task, item, task.solution(item)) for item in items] == [1.0] * 120
    if name == VERIFICATION:
        rows = {row.text("query"): row.text("ground_truth_plan") for row in task.source.rows("train", task.columns)}
        for item in items:
            assert await score(task, item, rows[item.meta["query"]]) == 1.0
