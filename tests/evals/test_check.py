"""`python -m evals.check`: canonical solutions graded, what is not right named, and one line for mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.check import Trial, exchanged
from evals.tasks.hub import Row
from evals.tasks.lichess import LichessPuzzles
from evals.tasks.mt_bench import MTBench
from evals.tasks.word_problems import WordProblems
from tests.commands import command
from tests.evals.tasks.rows import lichess, write
from tests.evals.tasks.rows_judge import mt_bench
from tests.inprocess import played
from trinity.errors import GraderError
from trinity.types import Grade, Item

FEW = ("task=word_problems", "data.n_test=4")


def check(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    done = played("evals.check", *words, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def puzzles(folder: Path, *, wrong: int = 0) -> str:
    """A word that names a file of 20 puzzles, `wrong` of them with a broken solution."""
    rows = lichess(20)
    for row in rows[:wrong]:
        row["Moves"] = row["Moves"].split()[0] + " a1a1"
    return f"tasks.lichess_puzzles.path={write(folder / 'rows.jsonl', rows)}"


def test_every_solution_is_right(tmp_path: Path) -> None:
    """All test items of a task are graded by their own solution, and no other ones; exit code 0."""
    assert check(tmp_path, *FEW) == (0, "word_problems: 4/4 right\n", "")


def test_several_tasks_and_other_splits(tmp_path: Path) -> None:
    """Each task has a line; words of a run choose the items, also those of other splits."""
    code, told, _ = check(tmp_path, "task=[word_problems,python_values]", "data.n_test=3", "data.n_val=2")
    assert (code, told) == (0, "word_problems: 5/5 right\npython_values: 5/5 right\n")


def test_local_rows_and_wrong_answers(tmp_path: Path) -> None:
    """With `--wrong` each item also gets the solution of another one, which must not be taken."""
    words = ("task=lichess_puzzles", puzzles(tmp_path), "data.n_test=20", "--wrong")
    assert check(tmp_path, *words) == (
        0,
        "lichess_puzzles: 20/20 right\nlichess_puzzles: 20/20 answers of other items wrong\n",
        "",
    )


def test_a_solution_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generated one may be dear: each item is asked for its own a single time, the wrong answers included."""
    asked, own = [], WordProblems.solution

    def solution(task: WordProblems, item: Item) -> str | None:
        asked.append(item.item_id)
        return own(task, item)

    monkeypatch.setattr(WordProblems, "solution", solution)
    assert check(tmp_path, *FEW, "--wrong")[0] == 0
    assert len(asked) == len(set(asked)) == 4


def test_a_solution_that_is_graded_wrong_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its item stands below the sum, and the exit code is 1; other items are checked all the same."""
    own = WordProblems.solution

    def solution(task: WordProblems, item: Item) -> str | None:
        return "Answer: -7" if item == next(task.items("test")) else own(task, item)

    monkeypatch.setattr(WordProblems, "solution", solution)
    code, told, _ = check(tmp_path, *FEW)
    sums, trouble = told.splitlines()
    assert (code, sums) == (1, "word_problems: 3/4 right")
    assert trouble.startswith("  word_problems-")
    assert trouble.endswith(": graded wrong")


def test_a_grader_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that could not be graded is not right, and the reason is told."""

    def key(*_: object) -> str | None:
        raise GraderError("the grader is out of order")

    monkeypatch.setattr(WordProblems, "key", key)
    code, told, _ = check(tmp_path, *FEW)
    assert (code, told.count(": the grader failed: the grader is out of order")) == (1, 4)
    assert "word_problems: 0/4 right" in told


def test_a_grader_that_takes_everything_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Solutions alone cannot tell it from a good one; other items' solutions do."""
    monkeypatch.setattr(WordProblems, "key", lambda _, item, *__: item.target)
    assert check(tmp_path, *FEW)[0] == 0
    code, told, _ = check(tmp_path, *FEW, "--wrong")
    assert (code, told.count("is graded correct")) == (1, 4)
    assert "word_problems: 0/4 answers of other items wrong" in told


def test_items_without_a_solution_are_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are neither right nor wrong; where no item has one, nothing is checked and the exit code is 2."""
    monkeypatch.setattr(
        LichessPuzzles, "solution", lambda _, item: None if item.difficulty < 1100 else f"Answer: {item.target}"
    )
    words = ("task=lichess_puzzles", puzzles(tmp_path), "data.n_test=20")
    assert check(tmp_path, *words)[:2] == (0, "lichess_puzzles: 10/10 right; 10 without a solution\n")
    monkeypatch.setattr(LichessPuzzles, "solution", lambda *_: None)
    code, told, error = check(tmp_path, *words)
    assert (code, told) == (2, "")
    assert "none of its 20 items has a solution, so nothing can be checked" in error


def trial(number: int, text: str, target: str) -> Trial:
    """An item with its solution."""
    return Trial(Item(f"i{number}", "t", "?", target, "d"), text)


def test_another_answer_has_another_target() -> None:
    """The next item's in order, round the end; one with an equal target or text is passed over."""
    solved = [trial(0, "a", "1"), trial(1, "b", "1"), trial(2, "c", "2")]
    assert [(one.item.item_id, one.text) for one in exchanged(solved)] == [("i0", "c"), ("i1", "c"), ("i2", "a")]
    assert list(exchanged(solved[:2])) == []
    assert [one.text for one in exchanged([trial(0, "a", ""), trial(1, "b", "")])] == ["b", "a"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no task is named; write task=NAME with one of: "),
        (["task=word_problms"], "there is no such option; did you mean 'word_problems'?"),
        (["task=word_problems", "data.n_tset=3"], "there is no key 'data.n_tset'; did you mean 'data.n_test'?"),
        (["task=word_problems", "--rong"], "--rong"),
        (["task=word_problems", "-m"], "-m: a check knows --wrong, --config-dir and words KEY=VALUE"),
        (["task=lichess_puzzles", "tasks.lichess_puzzles.path=gone.jsonl"], "there is no such file or folder"),
        (["task=word_problems", "tasks.word_problems.n_test=many"], "tasks.word_problems.n_test=many: must be a"),
        (
            ["task=mt_bench"],
            "task mt_bench is graded by a judge, and a check asks nobody; leave it out",
        ),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: list[str], told: str) -> None:
    """What is wrong and what to do, exit code 2, before anything is graded."""
    code, shown, error = check(tmp_path, *words)
    assert (code, shown, error.count("\n")) == (2, "", 1)
    assert told in error


def test_a_task_that_can_not_be_checked_does_not_stop_the_others(tmp_path: Path) -> None:
    """It is named with the reason, and the others are checked."""
    code, shown, _ = check(tmp_path, "task=[mt_bench,everyday]", "data.n_test=3")
    assert (code, shown.splitlines()[-1]) == (0, "everyday: 3/3 right")
    assert shown.startswith("not checked: task mt_bench is graded by a judge")


def test_rows_that_are_left_out_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark's rows that became no items stand behind the sum, with the reason."""

    def reason(_: MTBench, row: Row) -> str | None:
        return "about writing" if row.text("category") == "writing" else None

    async def grade(*_: object) -> Grade:
        return Grade(1.0, "fine")

    for name, value in (("unusable", reason), ("grade", grade), ("judged", False), ("solution", lambda *_: "fine")):
        monkeypatch.setattr(MTBench, name, value)
    path = write(tmp_path / "rows.jsonl", mt_bench(8))
    told = check(tmp_path, "task=mt_bench", f"tasks.mt_bench.path={path}")[1]
    assert told == "mt_bench: 6/6 right; 2 rows of train left out: about writing\n"


def test_the_command_by_itself(tmp_path: Path) -> None:
    """As a process: help names the option and the words, and no folder is left behind."""
    done = command("evals.check", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("--wrong", "task=NAME", "tasks.NAME.KEY=VALUE"))
    done = command("evals.check", "task=word_problems", "data.n_test=2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "word_problems: 2/2 right\n")
    assert list(tmp_path.iterdir()) == []
