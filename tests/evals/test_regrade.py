"""`python -m evals.regrade`: a finished run's episodes graded again, shown, and written on demand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evals.report.tally import named
from tests.commands import TINY, command, only_run
from tests.evals.tasks.rows import write
from tests.evals.tasks.rows_judge import mt_bench
from tests.inprocess import played
from trinity.errors import GraderError
from trinity.llm.transports.base import Reply, Request
from trinity.llm.transports.scripted import reply_to
from trinity.runs.ledger import Ledger
from trinity.runs.records import read_records
from trinity.testing.skill import SkillTask, TeamScript
from trinity.types import Episode, Grade, Item, Record

SMALL = (*TINY, "data.n_test=2")
PLAIN = tuple(word for word in SMALL if "vote" not in word)
FIRST, LAST = "sums-test-0", "sums-test-1"
Grading = Callable[[Item, Episode, Grade], Grade]


@pytest.fixture(scope="module")
def played_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the tiny experiment was run."""
    folder = tmp_path_factory.mktemp("work")
    done = played("trinity.run", *SMALL, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(played_once: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, `run` in the test's folder."""
    return Path(shutil.copytree(only_run(played_once), tmp_path / "run"))


def regrade(run: Path, *words: str) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout and stderr of the command."""
    done = played("evals.regrade", run.name, *words, cwd=run.parent)
    return done.returncode, done.stdout.splitlines(), done.stderr


def records(run: Path, name: str = "records") -> dict[tuple[Any, ...], Record]:
    """The records of a run's file by what they are of."""
    found = read_records(run / f"{name}.parquet")
    return {(named((row.method, row.variant)), row.task, row.item_id, row.replicate): row for row in found}


def grading(monkeypatch: pytest.MonkeyPatch, changed: Grading, version: str = "skill/2") -> None:
    """From here on the scripted tasks are graded by `changed`, which gets the grade that was."""
    own = SkillTask.grade

    async def grade(task: SkillTask, item: Item, episode: Episode, judge: Any) -> Grade:
        return changed(item, episode, await own(task, item, episode, judge))

    monkeypatch.setattr(SkillTask, "grade", grade)
    monkeypatch.setattr(SkillTask, "grader", version)


def all_right(item_id: str) -> Grading:
    """A grader that finds every answer to one item right."""
    return lambda item, _, grade: Grade(1.0, grade.answer or "read anew") if item.item_id == item_id else grade


def files(run: Path) -> Mapping[str, bytes]:
    """Content of a run's files but its lock and its ledger's, whose bytes may move while it is read."""
    found = [file for file in run.iterdir() if file.is_file() and not file.name.startswith(("lock", "ledger"))]
    return {file.name: file.read_bytes() for file in found}


def test_the_same_graders_change_nothing(run: Path) -> None:
    """Every record is found again, test and training, of methods that train, vote and derive; exit code 0."""
    before = files(run)
    code, told, error = regrade(run, "--write")
    assert (code, told, error) == (0, [f"0 of {len(records(run))} records change"], "")
    assert files(run) == before


def test_what_changes_is_told_and_not_written(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Grader versions, sums by task and method, and each episode with its old and new grade; exit code 1."""
    was = records(run)
    wrong = {key: row for key, row in was.items() if row.item_id == FIRST and row.status == "wrong"}
    grading(monkeypatch, all_right(FIRST))
    before = files(run)
    code, told, _ = regrade(run, "--all")
    assert code == 1
    assert told[:3] == [f"grader of {task}: skill/1 -> skill/2" for task in ("plans", "sums", "words")]
    assert told[-1].startswith(f"{len(wrong)} of {len(was)} records change")
    lines = [line for line in told if line.startswith("  ")]
    assert len(lines) == len(wrong)
    assert all(f"item {FIRST}, test replicate" in line and line.endswith("wrong 0 -> correct 1") for line in lines)
    assert any(line.startswith("sums, single linguist, test: ") and "mean score" in line for line in told)
    assert files(run) == before


def test_new_grades_take_the_place_of_the_old(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, ledger, summary, reports and manifest follow, what derives from records too; the old ones are kept."""
    grading(monkeypatch, all_right(FIRST))
    was, summary = records(run), json.loads((run / "summary.json").read_text())
    code, told, _ = regrade(run, "--write")
    assert (code, told[-1]) == (1, "written; the old records are in run/records.before-1.parquet")
    now = records(run)
    assert records(run, "records.before-1") == was
    changed = {key for key in was if was[key] != now[key]}
    assert changed == {key for key, row in was.items() if row.item_id == FIRST and row.status == "wrong"}
    assert {row.status for row in now.values() if row.item_id == FIRST} == {"correct", "no_answer"}
    assert all(row.status == "correct" for row in now.values() if row.item_id == FIRST and row.method == "oracle")
    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        assert list(ledger.records()) == list(now.values())
    means = [
        {(row["method"], row["variant"]): row["accuracy"] for row in one["rows"] if row["task"] == "sums"}
        for one in (summary, json.loads((run / "summary.json").read_text()))
    ]
    assert means[1]["single", "linguist"] == means[0]["single", "linguist"] + 0.5
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["graders"] == {"sums": "skill/2", "words": "skill/2", "plans": "skill/2"}
    assert manifest["changes"][-1]["note"].startswith("graded again (plans: skill/1 -> skill/2, sums: ")
    assert "Graded again (plans: " in (run / "report.md").read_text()
    assert regrade(run)[:2] == (0, [f"0 of {len(now)} records change"])
    assert played("trinity.replay", "run", cwd=run.parent).returncode == 0


def test_choices_and_training_stay(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graders that judge training and validation anew change those records, and not what was chosen by them."""
    choices = json.loads((run / "summary.json").read_text())["choices"]
    grading(monkeypatch, lambda _, __, grade: Grade(1.0 - grade.score, grade.answer))
    was = records(run)
    code, told, error = regrade(run, "--write")
    assert (code, error) == (1, "")
    now = records(run)
    assert now.keys() == was.keys()
    for key, row in was.items():
        if row.method != "oracle":
            assert now[key].score == (1.0 - (row.score or 0.0) if row.answer is not None else 0.0)
    assert {row.split for row in was.values()} == {"train", "val", "test"}
    assert json.loads((run / "summary.json").read_text())["choices"] == choices
    assert any(line.startswith("  ... and ") and line.endswith("more (--all)") for line in told)


def test_a_second_grading_keeps_both(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each grading that changes something leaves the records before it in a file of its own."""
    was = records(run)
    grading(monkeypatch, all_right(FIRST))
    assert regrade(run, "--write")[0] == 1
    between = records(run)
    grading(monkeypatch, all_right("words-test-0"), "skill/3")
    assert regrade(run, "--write")[0] == 1
    assert [records(run, f"records.before-{number}") for number in (1, 2)] == [was, between]
    assert len(json.loads((run / "manifest.json").read_text())["changes"]) == 2


def test_another_version_alone_is_noted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no grade changes the manifest learns that today's graders agree, and nothing else is touched."""
    grading(monkeypatch, lambda _, __, grade: grade)
    before = files(run)
    code, told, _ = regrade(run, "--write")
    assert (code, told[0]) == (0, "grader of plans: skill/1 -> skill/2")
    after = files(run)
    assert {name for name in after if after[name] != before.get(name)} == {"manifest.json"}
    manifest = json.loads((run / "manifest.json").read_text())
    versions = "plans: skill/1 -> skill/2, sums: skill/1 -> skill/2, words: skill/1 -> skill/2"
    note = f"graded again ({versions}): 0 of {len(records(run))} records changed"
    assert manifest["changes"][-1]["note"] == note
    assert manifest["graders"]["sums"] == "skill/2"


def test_a_grader_that_fails_takes_no_grade_away(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The episode keeps what it had, is told with the reason, and the exit code is 1."""

    def failing(item: Item, _: Episode, grade: Grade) -> Grade:
        if item.item_id == LAST:
            raise GraderError("out of order")
        return grade

    grading(monkeypatch, failing)
    was = records(run)
    code, told, error = regrade(run, "--write")
    kept = sum(row.item_id == LAST and row.answer is not None and row.method != "oracle" for row in was.values())
    assert (code, told[-1]) == (1, f"0 of {len(was)} records change, {kept} could not be graded again")
    assert sum(line.endswith("today's grader fails on it") for line in told) == kept
    assert "out of order" in error
    assert records(run) == was
    versions = json.loads((run / "manifest.json").read_text())["graders"]
    assert versions == {"sums": "skill/1", "words": "skill/2", "plans": "skill/2"}


def test_a_grader_that_does_not_work_at_all_stops(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line instead of a list of every episode; it has the grader's own advice whole, semicolons included."""

    def failing(*_: object) -> Grade:
        raise GraderError("out of order; call the fitter")

    grading(monkeypatch, failing)
    code, told, error = regrade(run)
    assert (code, told) == (2, [])
    assert error.splitlines()[-1].startswith("error: run: task ")
    assert error.rstrip().endswith("out of order; call the fitter); mend that and grade again")


def test_what_a_grader_failed_on_is_graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes that were errors because their grader failed get a grade from one that does not."""

    def failing(item: Item, _: Episode, grade: Grade) -> Grade:
        if item.item_id == LAST:
            raise GraderError("out of order")
        return grade

    with monkeypatch.context() as broken:
        grading(broken, failing, "skill/1")
        done = played("trinity.run", *PLAIN, "method=[single]", "store=fresh.sqlite", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    run = only_run(tmp_path).rename(tmp_path / "run")
    assert {row.status for row in records(run).values() if row.item_id == LAST} == {"error"}
    code, told, _ = regrade(run, "--write")
    assert code == 1
    assert sum(": error -> " in line for line in told) == sum(row.item_id == LAST for row in records(run).values())
    assert {row.status for row in records(run).values() if row.item_id == LAST} == {"correct", "wrong"}


def test_other_prompts_are_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where today's task asks in other words, no answer is found for it: nobody is asked and every grade is kept."""
    monkeypatch.setattr(SkillTask, "open", lambda _, item: [{"role": "user", "content": f"Now: {item.prompt}"}])
    was = records(run)
    code, told, _ = regrade(run, "--all")
    assert code == 1
    kept = [line for line in told if line.startswith("  not graded again: ")]
    assert told[-1] == f"0 of {len(was)} records change, {len(kept)} could not be graded again"
    assert len(kept) > len(was) // 2
    assert all("is not in the ledger" in line or "made on another transcript" in line for line in kept)


class Talkative(TeamScript):
    """A team that answers anything, and rates in its own words where it is asked to judge."""

    rating = 7

    def __call__(self, request: Request) -> Reply:
        """A rating for a judge's prompt, else a few words."""
        judging = "Rating: [[N]]" in request.messages[-1]["content"]
        return reply_to(request, f"Fair.\nRating: [[{self.rating}]]" if judging else "A few words.")


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run of two-turn questions that a model of the pool rated."""
    monkeypatch.setattr("trinity.testing.skill.TeamScript", Talkative)
    path = write(tmp_path / "rows.jsonl", mt_bench(8))
    words = ("task=mt_bench", f"tasks.mt_bench.path={path}", "judge=pool", "judge.agent=linguist")
    sizes = ("data.n_train=2", "data.n_val=2", "data.n_test=4")
    done = played("trinity.run", *PLAIN, *words, *sizes, "method=[single]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return only_run(tmp_path).rename(tmp_path / "run")


def test_judged_episodes_of_two_rounds(judged: Path) -> None:
    """Both turns and the judge's replies come from the ledger, and give the grades that they gave."""
    was = records(judged)
    assert {row.answer for row in was.values()} == {"ratings 7, 7"}
    assert regrade(judged) == (0, [f"0 of {len(was)} records change"], "")


def test_a_judge_is_not_asked_again(judged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other words for the judge its replies are not in the ledger: each episode keeps its grade and says why."""
    from evals.graders import judge

    own = judge._prompt  # what a changed prompt file would change
    monkeypatch.setattr(judge, "_prompt", lambda name: f"{own(name)} Be strict.")
    was = records(judged)
    code, told, _ = regrade(judged)
    assert code == 1
    assert told[-1] == f"0 of {len(was)} records change, {len(was)} could not be graded again"
    assert all("is not in the ledger" in line for line in told if line.startswith("  not graded again: "))


def test_mistakes_are_one_line(run: Path) -> None:
    """No run, an unfinished one, a damaged ledger, an unknown option: what is wrong, exit code 2."""
    for name in ("unfinished", "torn"):
        shutil.copytree(run, run.with_name(name))
    manifest = json.loads((run / "manifest.json").read_text())
    (run.with_name("unfinished") / "manifest.json").write_text(json.dumps({**manifest, "finished": False}))
    (run.with_name("torn") / "ledger.sqlite").write_bytes(b"no ledger")
    for name, words, told in (
        ("nowhere", [], "nowhere is no run: it has no manifest.json"),
        ("unfinished", [], "this run is not finished; go on with"),
        ("torn", [], "ledger.sqlite"),
        ("run", ["--rite"], "unrecognized arguments: --rite"),
    ):
        code, shown, error = regrade(run.with_name(name), *words)
        assert (code, shown, error.count("\n")) == (2, [], 1)
        assert told in error


def test_the_command_by_itself(tmp_path: Path) -> None:
    """As a process: help names every option."""
    done = command("evals.regrade", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("RUN", "--write", "--all"))
