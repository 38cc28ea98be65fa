"""Whole runs on tasks of several rounds, with a judge, on a machine that has to be made ready: run, resume, replay."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.commands import only_run
from tests.inprocess import forked, played
from tests.talks import FACTS, Facts
from tests.test_killed import killed_when, stored
from trinity.assembly import prompt_hashes
from trinity.runs.ledger import Ledger
from trinity.runs.records import comparable, read_records
from trinity.runs.resume import changes_since

POOL = """\
_target_: trinity.llm.pool.build_pool
_recursive_: false
_convert_: all
name: talkers
endpoints:
  script: {_target_: tests.talks.speakers, latency_ms: LATENCY}
agents:
  - {name: ann, endpoint: script, model: ann, sampling: {temperature: 1, max_tokens: 12}, active_params: 1.0e+9}
  - {name: bob, endpoint: script, model: bob, sampling: {temperature: 1, max_tokens: 12}, active_params: 1.0e+9}
"""
JUDGE = """\
# @package judge
kind: own
agent: judge
pool:
  _target_: trinity.llm.pool.build_pool
  _recursive_: false
  _convert_: all
  name: bench
  endpoints: {script: {_target_: tests.talks.speakers, latency_ms: [1, 4]}}
  agents:
    - {name: judge, endpoint: script, model: gpt, sampling: {temperature: 0.5, max_tokens: 4}, price: PRICE}
"""
KINDS = {"two": "TwoTurns", "guess": "HigherLower", "judged": "Judged", "watched": "Watched"}
WORDS = (
    *("--config-dir", "conf", "pool=talkers", "encoder=hashed", "name=talks", "method=[single,coordinator]"),
    *("coordinator.max_turns=3", "trainer.generations=2", "trainer.trajectories=3", "trainer.optimiser.popsize=4"),
    *("trainer.reeval_replicates=1", "eval.replicates=2"),
)


def conf(folder: Path, latency_ms: str = "null") -> Path:
    """A folder with a pool, a judge and the tasks of `tests.talks`."""
    price = "{input_usd: 1.0, output_usd: 3.0, source: a list}"
    files = {"pool/talkers": POOL.replace("LATENCY", latency_ms), "judge/bench": JUDGE.replace("PRICE", price)}
    for name, kind in KINDS.items():
        files[f"task/{name}"] = f"# @package tasks.{name}\n_target_: tests.talks.{kind}\nname: {name}\n"
    for place, text in files.items():
        path = folder / "conf" / f"{place}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def run(folder: Path, *words: str) -> CompletedProcess[str]:
    """A run of `folder`'s configuration."""
    return played("trinity.run", *WORDS, *words, cwd=folder)


def records(folder: Path) -> list[dict[str, Any]]:
    """What must be equal between two runs."""
    return [comparable(record) for record in read_records(only_run(folder, "talks") / "records.parquet")]


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of the only run."""
    found: dict[str, Any] = json.loads((only_run(folder, "talks") / "manifest.json").read_bytes())
    return found


def replayed(folder: Path) -> CompletedProcess[str]:
    """A replay of the only run."""
    return played("trinity.replay", str(only_run(folder, "talks")), cwd=folder)


def answers(folder: Path) -> int:
    """How many answers the store has, while its run is at work."""
    with suppress(sqlite3.OperationalError):  # it is being made
        return len(stored(folder))
    return 0


@pytest.fixture(autouse=True)
def _facts() -> Iterator[None]:
    """The machine of `Watched` is as new before each test."""
    yield
    FACTS.__dict__.update(Facts().__dict__)


def test_a_run_that_was_killed_is_that_of_a_calm_one_and_replays(tmp_path: Path) -> None:
    """Rounds, judgements and training: killed in the middle and resumed, the records are the same, and so replayed."""
    tasks = ("task=[two,guess,judged]", "judge=bench")
    calm, killed = conf(tmp_path / "calm"), conf(tmp_path / "killed", "[2, 9]")
    done = run(calm, *tasks, "concurrency=32")
    assert done.returncode == 0, done.stderr
    process = forked("trinity.run", *WORDS, *tasks, "concurrency=4", cwd=killed)
    killed_when(process, lambda: answers(killed) >= 150, killed)
    assert not (only_run(killed, "talks") / "records.parquet").exists()
    done = played("trinity.run", f"resume={only_run(killed, 'talks')}", cwd=killed)
    assert done.returncode == 0, done.stderr
    assert records(killed) == records(calm)
    assert {row["status"] for row in records(calm)} == {"correct", "wrong", "no_answer"}
    for folder in (calm, killed):
        done = replayed(folder)
        assert done.returncode == 0, done.stderr


class TestJudge:
    """The judge of a run."""

    def test_a_judged_task_without_a_judge_is_refused(self, tmp_path: Path) -> None:
        """Before anything is asked, in one line that says what to set."""
        done = run(conf(tmp_path), "task=[two,judged]")
        assert done.returncode == 2
        assert done.stderr.startswith(
            "error: task judged: its answers are graded by a model, and there is no judge; set one"
        )
        assert len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "outputs" / "store.sqlite").exists()

    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (("judge=pool",), "judge=pool: it has no agent; give judge.agent=NAME, one of: ann, bob"),
            (("judge=pool", "judge.agent=an"), "unknown agent 'an'"),
            (("judge=own",), "judge=own: the judge has no model; give judge.model=PROVIDER/MODEL"),
            (("judge=poool",), "judge=poool: there is no such option"),
            (("judge=pool", "+judge.agnt=ann"), "there is no key 'judge.agnt'; did you mean 'agent'"),
        ],
    )
    def test_mistakes_are_one_line(self, words: tuple[str, ...], line: str, tmp_path: Path) -> None:
        """Each names what to write."""
        done = run(conf(tmp_path), "task=[judged]", *words)
        assert done.returncode == 2
        assert line in done.stderr
        assert len(done.stderr.splitlines()) == 1

    def test_an_agent_of_the_pool_judges(self, tmp_path: Path) -> None:
        """Its calls stand apart in the totals, in the report and in no method's effort; the manifest names it."""
        folder = conf(tmp_path)
        done = run(folder, "task=[judged]", "judge=pool", "judge.agent=bob")
        assert done.returncode == 0, done.stderr
        path = only_run(folder, "talks")
        summary = json.loads((path / "summary.json").read_bytes())
        with Ledger.open(path / "ledger.sqlite", read_only=True) as ledger:
            gradings = ledger.totals(grading=True)
            logical = sum(record.n_calls for record in ledger.records())
        assert summary["totals"]["logical_calls"] == logical
        assert summary["totals"]["grading_paid_calls"] == gradings.paid_calls > 0
        judge = manifest(folder)["judge"]
        assert (judge["agent"]["name"], judge["kind"], judge["own"]) == ("bob", "scripted", False)
        assert manifest(folder)["tasks"][0]["judged"] is True
        report = (path / "report.md").read_text("utf-8")
        assert f"Grading, which no method is billed for: {gradings.paid_calls} calls paid" in report
        assert "Judge: agent bob (bob), scripted." in report
        assert replayed(folder).returncode == 0

    def test_a_judge_of_its_own(self, tmp_path: Path) -> None:
        """It is asked through its own pool, whose endpoint and price the manifest has; caps of gradings hold it."""
        folder = conf(tmp_path)
        done = run(folder, "task=[judged]", "judge=bench", "method=[single]", "budget.phases.grading.calls=20")
        assert done.returncode == 2
        assert "budget.phases.grading.calls=20 is reached" in done.stderr
        done = played(
            "trinity.run", f"resume={only_run(folder, 'talks')}", "budget.phases.grading.calls=1000", cwd=folder
        )
        assert done.returncode == 0, done.stderr
        found = manifest(folder)
        assert found["judge"]["agent"]["price"]["source"] == "a list"
        assert found["price_table"] == "a list"
        assert list(found["judge"]["endpoints"]) == ["script"]
        assert replayed(folder).returncode == 0

    def test_any_pool_can_be_the_judges(self, tmp_path: Path) -> None:
        """`+pool@judge.pool=NAME` puts a file of `conf/pool` in the place of the judge's own."""
        folder = conf(tmp_path)
        words = ("judge=own", "+pool@judge.pool=talkers", "judge.agent=bob")
        done = run(folder, "task=[judged]", "method=[single]", *words, "budget.run.calls=1")
        assert done.returncode == 2, done.stderr
        judge = manifest(folder)["judge"]
        assert (judge["pool"], judge["agent"]["name"], judge["own"]) == ("talkers", "bob", True)

    def test_a_plan_has_a_row_for_grading(self, tmp_path: Path) -> None:
        """Six test items, two replicates, two agents, four judgements each; nothing is asked."""
        done = run(conf(tmp_path), "task=[two,judged]", "judge=bench", "method=[single]", "plan=true")
        assert done.returncode == 0, done.stderr
        (row,) = [line for line in done.stdout.splitlines() if "(grading)" in line]
        assert row.split("│")[1:4] == [" (grading) ", "        0 ", "            96 "]

    def test_a_resumed_run_keeps_its_judge(self, tmp_path: Path) -> None:
        """Whatever the file says now that named it."""
        folder = conf(tmp_path)
        words = ("task=[judged]", "judge=bench", "method=[single]", "budget.run.calls=30")
        assert run(folder, *words).returncode == 2
        path = folder / "conf" / "judge" / "bench.yaml"
        path.write_text(path.read_text("utf-8").replace("gpt", "other"), "utf-8")
        resumed = f"resume={only_run(folder, 'talks')}"
        done = played("trinity.run", "--config-dir", "conf", resumed, "budget.run.calls=900", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert manifest(folder)["judge"]["agent"]["model"] == "gpt"


class TestPrepared:
    """Tasks whose machine has to be made ready."""

    def test_a_task_is_made_ready_and_closed(self, tmp_path: Path) -> None:
        """Before the first call and after the last grading, in a run, a replay and a new analysis."""
        folder = conf(tmp_path)
        done = run(folder, "task=[watched]", "method=[single]")
        assert done.returncode == 0, done.stderr
        assert FACTS.heard == ["ready", "close"]
        assert {row["status"] for row in records(folder)} <= {"correct", "wrong"}
        assert replayed(folder).returncode == 0
        assert FACTS.heard == ["ready", "close"] * 2
        done = played("trinity.report", str(only_run(folder, "talks")), "--analyse", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert FACTS.heard == ["ready", "close"] * 3

    def test_what_was_left_out_is_told_once(self, tmp_path: Path) -> None:
        """On the console, in the manifest and in the report, as one line without markup."""
        folder = conf(tmp_path)
        done = run(folder, "task=[watched]", "method=[single]")
        line = "Task watched: rows that became no items: 3 of test (no [bold]test[/bold])."
        assert done.stderr.count(line) == 1
        (task,) = manifest(folder)["tasks"]
        assert task["facts"]["left_out"] == {"test": {"no [bold]test[/bold]": 3}, "train": {}}
        report = (only_run(folder, "talks") / "report.md").read_text("utf-8")
        assert "rows that became no items: 3 of test (no \\[bold\\]test\\[/bold\\])." in report

    def test_a_machine_that_cannot_grade_is_refused_at_once(self, tmp_path: Path) -> None:
        """Nothing is bought, nothing is left behind, what was made ready is closed."""
        FACTS.broken = "nothing can isolate here; install bubblewrap"
        done = run(conf(tmp_path), "task=[watched]", "method=[single]")
        assert (done.returncode, done.stderr) == (2, "error: nothing can isolate here; install bubblewrap\n")
        assert FACTS.heard == ["ready", "close"]
        assert not (tmp_path / "outputs").exists() or not list((tmp_path / "outputs").rglob("*.sqlite"))

    def test_it_is_closed_whatever_stops_the_run(self, tmp_path: Path) -> None:
        """A cap, say."""
        done = run(conf(tmp_path), "task=[watched]", "method=[single]", "budget.run.calls=3")
        assert done.returncode == 2
        assert FACTS.heard == ["ready", "close"]

    def test_another_machine_may_go_on_and_is_named(self, tmp_path: Path) -> None:
        """Facts of the machine are no reason to refuse; what changed is said and kept."""
        folder = conf(tmp_path)
        assert run(folder, "task=[watched]", "method=[single]", "budget.run.calls=5").returncode == 2
        FACTS.scale = 1.5
        done = played("trinity.run", f"resume={only_run(folder, 'talks')}", "budget.run.calls=null", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert "since the run began, task watched: scale was 1.0 and is 1.5" in done.stderr
        found = manifest(folder)
        assert [change["note"] for change in found["changes"]][-1] == "task watched: scale was 1.0 and is 1.5"
        assert found["tasks"][0]["facts"]["scale"] == 1.0

    def test_a_plan_needs_no_machine(self, tmp_path: Path) -> None:
        """What a run may cost is told without making anything ready."""
        assert run(conf(tmp_path), "task=[watched]", "method=[single]", "plan=true").returncode == 0
        assert FACTS.heard == []


def test_runs_of_earlier_versions_go_on_and_replay(tmp_path: Path) -> None:
    """Their manifests know neither judge nor sandbox nor facts of tasks, and not the prompt files of later ones."""
    folder = conf(tmp_path)
    assert run(folder, "task=[two]", "method=[single]", "budget.run.calls=9").returncode == 2
    path = only_run(folder, "talks") / "manifest.json"
    found = json.loads(path.read_bytes())
    for part in ("config", "recipe"):
        del found[part]["judge"], found[part]["sandbox"], found[part]["budget"]["phases"]["grading"]
    del found["judge"]
    found["prompts"] = {name: text for name, text in found["prompts"].items() if not name.startswith("evals.")}
    path.write_text(json.dumps(found), "utf-8")
    done = played("trinity.run", f"resume={only_run(folder, 'talks')}", "budget.run.calls=null", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert replayed(folder).returncode == 0


def test_every_prompt_file_is_told_by_its_hash() -> None:
    """Those of the coordinator, of baselines, of tasks and of graders."""
    packages = {name.partition("/")[0] for name in prompt_hashes()}
    assert packages == {"trinity.coordinator", "baselines", "evals.tasks", "evals.graders"}


def test_another_judge_is_no_way_to_go_on() -> None:
    """Another agent, or the same one served elsewhere, gives other grades."""
    agent = {"name": "judge", "model": "gpt"}
    known: dict[str, Any] = {part: {} for part in ("prompts", "data", "graders", "endpoints")}
    was = {**known, "agents": [], "judge": {"agent": agent, "endpoints": {"main": {"endpoint_id": "a", "threads": 2}}}}
    same = {**was, "judge": {"agent": agent, "endpoints": {"main": {"endpoint_id": "a", "threads": 4}}}}
    moved = {**was, "judge": {"agent": agent, "endpoints": {"main": {"endpoint_id": "b"}}}}
    assert list(changes_since(was, same)) == []
    for now in (moved, {**was, "judge": None}):
        assert list(changes_since(was, now)) == ["the judge is another one"]
