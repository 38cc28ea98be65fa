"""AutoLogi as a task: its rows, how answers are read, and its own code as the judge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from evals.tasks.autologi import AutoLogi
from tests.evals.tasks.rows import write
from tests.evals.tasks.rows_puzzles import autologi
from tests.sandboxes import ISOLATED, isolated
from trinity.errors import ConfigError, DataError
from trinity.splits import check_disjoint
from trinity.types import Episode, Grade


def make(path: Path | None, **changed: Any) -> AutoLogi:
    """The task on rows of ours, all of them test items."""
    return AutoLogi(
        **{"data_seed": 0, "n_train": 0, "n_val": 0, "n_test": None, "sandbox": ISOLATED, "path": path, **changed}
    )


@pytest.fixture
async def task(tmp_path: Path) -> AsyncIterator[AutoLogi]:
    """The task on one row, where this machine has a sandbox."""
    await isolated()
    made = make(write(tmp_path / "rows.jsonl", autologi(1)))
    await made.ready()
    yield made
    await made.close()


async def test_any_arrangement_that_the_code_accepts_is_right(task: AutoLogi) -> None:
    """Both seatings that keep the rules are right, another is wrong, and a text without one is no answer."""
    [item] = task.items("test")
    for answer, score in (("{'Cid', 'Ann'}, 'right': {'Ben'}", 1), ("{'Cid'}, 'right': {'Ann', 'Ben'}", 0)):
        reply = f"Let me see.\n```json\n{{'left': {answer}}}\n```"
        grade = await task.grade(item, Episode(reply), None)
        assert grade.score == score
        assert grade.answer == task.key(item, reply)
    assert await task.grade(item, Episode("There is none."), None) == Grade(0.0, None)
    assert await task.grade(item, Episode(None), None) == Grade(0.0, None)


async def test_the_solution_of_the_traversal_is_right(task: AutoLogi) -> None:
    """What the row's own code finds first is graded right, and its program is no part of the prompt."""
    [item] = task.items("test")
    solution = task.solution(item)
    assert solution is not None
    assert (await task.grade(item, Episode(solution), None)).score == 1.0
    assert (await task.verdict(item, solution)).passed
    assert not (await task.verdict(item, "nothing")).passed
    assert "constraint_list" not in task.open(item)[0]["content"]


async def test_an_answer_is_never_run(task: AutoLogi, tmp_path: Path) -> None:
    """Calls, names and operators are no values, whatever they would do."""
    [item] = task.items("test")
    mark = tmp_path / "mark"
    for answer in (f"open({str(mark)!r}, 'w')", "{'left': set(['Cid'] * 9)}", "{'left': [x for x in 'ab']}", "{**{}}"):
        assert await task.grade(item, Episode(f"```json\n{answer}\n```"), None) == Grade(0.0, None)
    assert not mark.exists()


def test_equal_arrangements_have_one_key(tmp_path: Path) -> None:
    """Order in sets and dictionaries, quotation marks and remarks do not matter; a list is no set."""
    task = make(write(tmp_path / "rows.jsonl", autologi(1)))
    [item] = task.items("test")
    keys = [
        task.key(item, f"```json\n{answer}\n```")
        for answer in (
            "{'left': {'Ann', 'Cid'}, 'right': {'Ben'}}",
            "inputs = {'right': {'Ben'}, 'left': {'Cid', 'Ann'},}",
            '{"left": {"Ann", "Cid"}, // both\n "right": {"Ben"}}',
            "{'left': ['Ann', 'Cid'], 'right': ['Ben']}",
        )
    ]
    assert len(set(keys)) == 2
    assert keys[0] == keys[1] == keys[2]
    assert task.key(item, "{'left': set(), 'right': {True: None}}") is not None
    assert task.key(item, "```json\n58\n```") == "58"


@pytest.mark.parametrize(
    "answer", ["[" * 20_000, "-" * 90_000 + "1", "{'a': " * 9000 + "1" + "}" * 9000, "9" * 99_000, "{'a': ...}"]
)
def test_hostile_answers_are_no_arrangement(tmp_path: Path, answer: str) -> None:
    """Deep, long and odd values are no answer."""
    task = make(write(tmp_path / "rows.jsonl", autologi(1)))
    [item] = task.items("test")
    assert task.key(item, f"```json\n{answer}\n```") is None


def test_rows_are_cut_and_counted(tmp_path: Path) -> None:
    """The one split there is cut without overlap; rows in the other language are left out and counted."""
    rows = [*autologi(9), *autologi(2, lang="cn")]
    task = make(write(tmp_path / "rows.jsonl", rows), n_train=3, n_val=2, n_test=4)
    check_disjoint((split, item) for split in ("train", "val", "test") for item in task.items(split))
    assert task.facts()["left_out"] == {"test": {"in another language": 2}}
    assert (task.redistribute, task.licence) == ("ids-only", "none stated")


def test_each_language_has_its_file_and_prompt(tmp_path: Path) -> None:
    """In a copy of the authors' folder the file of the language is read, and asked in that language."""
    folder = tmp_path / "testing-data"
    folder.mkdir()
    write(folder / "AutoLogi_en.jsonl", autologi(2))
    write(folder / "AutoLogi_cn.jsonl", autologi(1, lang="cn"))
    english, chinese = make(tmp_path), make(folder, language="cn")
    assert [len(list(task.items("test"))) for task in (english, chinese)] == [2, 1]
    [item] = chinese.items("test")
    assert "最终方案" in chinese.open(item)[0]["content"]


def test_mistakes_are_told(tmp_path: Path) -> None:
    """No path, code that lacks a part, and an unknown language are refused with what to do."""
    with pytest.raises(DataError, match=r"task autologi: its rows are on no hub; set tasks\.autologi\.path"):
        list(make(None).items("test"))
    path = write(tmp_path / "rows.jsonl", autologi(1, code={"Inputs_Check_code": "pass"}))
    with pytest.raises(DataError, match=r"row 1: code is .*, not an object with the texts Inputs_Check_code, "):
        list(make(path).items("test"))
    path = write(tmp_path / "rows.jsonl", autologi(1, code="no JSON"))
    with pytest.raises(DataError, match="row 1: code is 'no JSON'"):
        list(make(path).items("test"))
    with pytest.raises(ConfigError, match="language is 'fr'; give one of en, cn"):
        make(path, language="fr")
