"""The commands end to end on scripted agents: run, replay, kill and resume."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from evals.report.analysis import build_analysis
from tests.commands import TINY, command, only_run
from tests.inprocess import forked, played
from trinity.errors import ConfigError
from trinity.progress import ConsoleProgress
from trinity.runs.checkpoint import load_policy
from trinity.runs.records import comparable, read_records

LATE = "pool.endpoints.script.latency_ms=[0,15]"


def rows(run: Path) -> list[dict[str, Any]]:
    """What of a run's records must be equal between runs."""
    return [comparable(record) for record in read_records(run / "records.parquet")]


def theta(run: Path) -> bytes:
    """The trained parameters."""
    return load_policy(run / "checkpoint" / "coordinator" / "best.safetensors")[0].tobytes()


def paid(run: Path) -> int:
    """Calls that the run bought."""
    totals = json.loads((run / "summary.json").read_bytes())["totals"]
    assert isinstance(totals["paid_calls"], int)
    return totals["paid_calls"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one finished run, agents answering after random times."""
    folder = tmp_path_factory.mktemp("finished")
    done = command("trinity.run", *TINY, LATE, cwd=folder)
    assert done.returncode == 0, done.stderr
    return only_run(folder)


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run that may be broken."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


class TestRun:
    """What a run leaves."""

    def test_files(self, finished: Path) -> None:
        """Manifest, ledger, records, summary, reports with pictures, policy."""
        expected = {"manifest.json", "ledger.sqlite", "records.parquet", "summary.json", "report.md", "report_images"}
        expected |= {"report.html"}
        assert expected <= {path.name for path in finished.iterdir()}
        assert json.loads((finished / "manifest.json").read_bytes())["finished"] is True

    def test_every_control_is_a_row(self, finished: Path) -> None:
        """Each agent, random, best single, lookup, coordinator twice, vote and oracle stand in the summary."""
        summary = json.loads((finished / "summary.json").read_bytes())
        methods = {(row["method"], row["variant"]) for row in summary["rows"] if row["task"] == "all"}
        assert {("single", name) for name in ("reckoner", "linguist", "planner")} <= methods
        assert {name for name, _ in methods} == {
            "single",
            "random",
            "best_single",
            "lookup",
            "coordinator",
            "vote",
            "oracle",
        }
        assert {("coordinator", "sampled"), ("coordinator", "argmax")} <= methods

    def test_phases_never_share_a_replicate(self, finished: Path) -> None:
        """Train, validation, re-evaluation and test carry their own replicates."""
        phases = {(row["split"], row["replicate"]["phase"]) for row in rows(finished)}
        assert phases == {("train", "train"), ("val", "val"), ("val", "reeval"), ("test", "test")}

    def test_second_run_pays_nothing(self, finished: Path, tmp_path: Path) -> None:
        """The same run with the first one's store buys no call and finds the same, in another order of answers."""
        store = finished.parents[1] / "store.sqlite"
        done = played("trinity.run", *TINY, LATE, f"store={store}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        again = only_run(tmp_path)
        assert rows(again) == rows(finished)
        assert theta(again) == theta(finished)
        assert paid(again) == 0

    def test_independent_run_is_equal(self, finished: Path, tmp_path: Path) -> None:
        """A run with its own store and one episode at a time gives equal records and theta."""
        done = played("trinity.run", *TINY, "concurrency=1", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert rows(only_run(tmp_path)) == rows(finished)
        assert theta(only_run(tmp_path)) == theta(finished)


class TestResume:
    """Going on after the process was killed."""

    @pytest.mark.parametrize("records", [5, 60, 130])
    def test_sigkill(self, records: int, finished: Path, tmp_path: Path) -> None:
        """Killed after some records and resumed, a run ends as if nothing had happened, and asks nothing twice."""
        process = forked("trinity.run", *TINY, LATE, cwd=tmp_path)
        run = _when(tmp_path, records)
        process.kill()
        process.join()
        done = played("trinity.run", f"resume={run}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert rows(run) == rows(finished)
        assert theta(run) == theta(finished)
        assert paid(run) == paid(finished)
        manifest = json.loads((run / "manifest.json").read_bytes())
        assert "resumed" in manifest["changes"][0]["note"]

    def test_store_is_gone(self, finished: Path, tmp_path: Path) -> None:
        """A run goes on with its own answers when the shared store is lost: no answered call is bought again."""
        process = forked("trinity.run", *TINY, LATE, cwd=tmp_path)
        run = _when(tmp_path, 60)
        process.kill()
        process.join()
        for file in (tmp_path / "outputs").glob("store.sqlite*"):
            file.unlink()
        done = played("trinity.run", f"resume={run}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (rows(run), paid(run)) == (rows(finished), paid(finished))

    def test_interrupted_at_its_end(self, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C while the results are put together stops the run before it says that it is whole; it can go on."""

        def interrupted(*given: Any, **more: Any) -> dict[str, Any]:
            os.kill(os.getpid(), signal.SIGINT)
            return build_analysis(*given, **more)

        with monkeypatch.context() as patch:
            patch.setattr("trinity.analysis.build_analysis", interrupted)
            done = played("trinity.run", *TINY, cwd=tmp_path)
        assert done.returncode == 130
        run = only_run(tmp_path)
        assert f"go on with: python -m trinity.run resume={run.relative_to(tmp_path)}" in done.stderr
        (run / ".tmp-1-left").touch()
        assert played("trinity.run", f"resume={run}", cwd=tmp_path).returncode == 0
        assert rows(run) == rows(finished)
        assert not (run / ".tmp-1-left").exists()

    def test_an_analysis_that_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever goes wrong in the analysis, the run is published and says how to make it later; replay agrees."""

        def broken(*_: Any, **__: Any) -> dict[str, Any]:
            raise OSError("libgomp.so.1: cannot open shared object file")

        with monkeypatch.context() as patch:
            patch.setattr("trinity.analysis.build_analysis", broken)
            done = played("trinity.run", *TINY, cwd=tmp_path)
        run = only_run(tmp_path)
        assert done.returncode == 0
        assert "no analysis (OSError: libgomp.so.1: cannot open" in done.stderr
        assert json.loads((run / "manifest.json").read_bytes())["finished"] is True
        assert (run / "report.html").exists()
        assert not (run / "analysis.json").exists()
        assert played("trinity.replay", str(run), cwd=tmp_path).returncode == 0
        assert played("trinity.report", str(run), "--analyse", cwd=tmp_path).returncode == 0
        assert (run / "analysis.json").exists()

    def test_changed_surroundings(self, copy: Path, tmp_path: Path) -> None:
        """A run whose prompts, data, graders or agents are others today is not mixed with today's."""
        manifest = json.loads((copy / "manifest.json").read_bytes())
        manifest["prompts"]["trinity.coordinator/worker.txt"] = "0" * 64
        (copy / "manifest.json").write_text(json.dumps({**manifest, "finished": False}))
        done = played("trinity.run", f"resume={copy}", cwd=tmp_path)
        assert done.returncode == 2
        assert "prompt file trinity.coordinator/worker.txt has changed" in done.stderr

    def test_saved_config_rules(self, copy: Path, tmp_path: Path) -> None:
        """A resumed run takes its own configuration; another one on the command line is refused, naming the key."""
        manifest = json.loads((copy / "manifest.json").read_bytes())
        (copy / "manifest.json").write_text(json.dumps({**manifest, "finished": False}))
        done = played("trinity.run", *TINY, LATE, "seed=3", f"resume={copy}", cwd=tmp_path)
        assert done.returncode == 2
        assert "seed was 0 and cannot become 3" in done.stderr
        done = played("trinity.run", "concurrency=2", f"resume={copy}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "concurrency=2" in json.loads((copy / "manifest.json").read_bytes())["changes"][-1]["note"]

    def test_one_process_at_a_time(self, tmp_path: Path) -> None:
        """A run that another process works in is not taken up."""
        process = forked("trinity.run", *TINY, LATE, cwd=tmp_path)
        run = _when(tmp_path, 5)
        os.kill(process.pid or 0, signal.SIGSTOP)
        done = played("trinity.run", f"resume={run}", cwd=tmp_path)
        process.kill()
        process.join()
        assert done.returncode == 2
        assert "another process works in this run" in done.stderr

    def test_finished_run(self, copy: Path, tmp_path: Path) -> None:
        """There is nothing to resume in a finished run, and one line says so."""
        done = played("trinity.run", f"resume={copy}", cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)

    def test_a_new_run_in_its_folder(self, copy: Path, tmp_path: Path) -> None:
        """A folder that holds a run is refused to another one, and what the first had paid for stays as it was."""
        before = {path.name: path.read_bytes() for path in copy.iterdir() if path.suffix in (".json", ".sqlite")}
        done = played("trinity.run", *TINY, "seed=1", f"hydra.run.dir={copy}", cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "copy holds a run already; go on with: python -m trinity.run resume=copy, or give" in done.stderr
        assert {name: (copy / name).read_bytes() for name in before} == before


async def test_a_stage_speaks_while_no_episode_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all episodes of a stage end together, its line still comes now and then, with the calls so far."""
    monkeypatch.setattr("trinity.progress.QUIET_S", 0.0)
    calls = iter((3, 7))
    with ConsoleProgress() as progress:
        watch = asyncio.create_task(progress.watch(lambda: next(calls)))
        for _ in range(3):
            await asyncio.sleep(0)
        progress.stage("coordinator, generation 2", 18)
        for _ in range(2):
            await asyncio.sleep(0)
        watch.cancel()
    line = "  coordinator, generation 2: 0 of 18 episodes, {} calls"
    assert capsys.readouterr().err.splitlines() == [line.format(3), line.format(7)]


class TestReplay:
    """Rebuilding a run from its ledger."""

    def test_equal(self, copy: Path, tmp_path: Path) -> None:
        """A finished run replays to equal records, summary and parameters, twice."""
        for replay in (command, played):
            done = replay("trinity.replay", str(copy), cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines()[-1].startswith("equal: records, summary, report, trained parameters")
        assert (copy / "replay" / "report.md").read_bytes() == (copy / "report.md").read_bytes()

    def test_needs_only_manifest_and_ledger(self, copy: Path, tmp_path: Path) -> None:
        """With everything else gone the rebuilt files are the originals."""
        before = {name: (copy / name).read_bytes() for name in ("summary.json", "records.parquet")}
        kept = tmp_path / "kept"
        kept.mkdir()
        for name in ("manifest.json", "ledger.sqlite"):
            shutil.copy(copy / name, kept / name)
        played("trinity.replay", str(kept), cwd=tmp_path)
        assert (kept / "replay" / "summary.json").read_bytes() == before["summary.json"]
        assert (kept / "replay" / "records.parquet").read_bytes() == before["records.parquet"]

    def test_recompute(self, copy: Path, tmp_path: Path) -> None:
        """Encoder and head of today give the stored logits and choices."""
        done = played("trinity.replay", str(copy), "--recompute", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "largest logit difference 0, 0 choices" in done.stdout

    def test_changed_completion(self, copy: Path, tmp_path: Path) -> None:
        """One byte of one stored completion changed: exit 1, naming the call and its record."""
        call_id = next(row["call_ids"][0] for row in rows(copy) if row["method"] == "lookup")
        with sqlite3.connect(copy / "ledger.sqlite") as database:
            changed = database.execute(
                "UPDATE calls SET text = CAST(substr(text, 1, length(text) - 1) || '#' AS BLOB) "
                "WHERE id = (SELECT id FROM requests WHERE lower(hex(hash)) LIKE ?)",
                (f"{call_id}%",),
            ).rowcount
        assert changed == 1
        done = played("trinity.replay", str(copy), cwd=tmp_path)
        assert done.returncode == 1
        assert "equal" not in done.stdout
        assert f"call {call_id}" in done.stderr
        assert "record" in done.stderr
        assert "test#0" in done.stderr

    def test_changed_record(self, copy: Path, tmp_path: Path) -> None:
        """A summary that was touched up is found out."""
        summary = json.loads((copy / "summary.json").read_bytes())
        summary["rows"][0]["accuracy"] = 0.99
        (copy / "summary.json").write_text(json.dumps(summary))
        done = played("trinity.replay", str(copy), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (1, "summary.json: rows differs\n")

    def test_changed_report(self, copy: Path, tmp_path: Path) -> None:
        """A report that was touched up is found out."""
        (copy / "report.md").write_text((copy / "report.md").read_text().replace("report", "rapport", 1))
        done = played("trinity.replay", str(copy), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (1, "report.md differs\n")

    def test_missing_policy(self, copy: Path, tmp_path: Path) -> None:
        """Trained parameters that were taken away are missed."""
        (copy / "checkpoint" / "coordinator" / "best.safetensors").unlink()
        done = played("trinity.replay", str(copy), cwd=tmp_path)
        assert done.returncode == 1
        assert "parameters are missing" in done.stderr

    def test_leaves_strangers_files_alone(self, copy: Path, tmp_path: Path) -> None:
        """A folder with files that no replay made is refused and kept."""
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "ledger.sqlite").write_text("mine")
        done = played("trinity.replay", str(copy), "--out", str(tmp_path / "mine"), cwd=tmp_path)
        assert done.returncode == 2
        assert (tmp_path / "mine" / "ledger.sqlite").read_text() == "mine"

    @pytest.mark.parametrize("change", [{"agents": None}, {"recipe": "x"}, {"encoder": {"d": "x"}}])
    def test_damaged_manifest(self, change: dict[str, Any], copy: Path, tmp_path: Path) -> None:
        """A manifest that makes no sense is one line, not a traceback."""
        manifest = json.loads((copy / "manifest.json").read_bytes())
        (copy / "manifest.json").write_text(json.dumps({**manifest, **change}))
        done = played("trinity.replay", str(copy), cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith("error: ")

    def test_replay_without_the_engine_of_the_models(
        self, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where gpboost is missing today a run that had it replays equal, reports included."""

        def missing() -> None:
            raise ConfigError("gpboost is missing")

        monkeypatch.setattr("evals.stats.mixed.require_gpboost", missing)
        done = played("trinity.replay", str(copy), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")

    def test_a_changed_analysis(self, copy: Path, tmp_path: Path) -> None:
        """A number of the analysis that is not what the records give is named by its place."""
        path = copy / "analysis.json"
        analysis = json.loads(path.read_bytes())
        analysis["tasks"]["sums"]["pooled"][0]["wins"] += 1
        path.write_text(json.dumps(analysis))
        done = played("trinity.replay", str(copy), cwd=tmp_path)
        assert done.returncode == 1
        assert "analysis.json: /tasks/sums/pooled/0/wins differs" in done.stderr

    def test_unfinished(self, copy: Path, tmp_path: Path) -> None:
        """An unfinished run is not replayed; the line says how to go on with it."""
        manifest = json.loads((copy / "manifest.json").read_bytes())
        (copy / "manifest.json").write_text(json.dumps({**manifest, "finished": False}))
        done = played("trinity.replay", str(copy), cwd=tmp_path)
        assert done.returncode == 2
        assert f"resume={copy}" in done.stderr


def _when(folder: Path, records: int) -> Path:
    """The run folder, once its ledger holds so many records."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        ledgers = list(folder.glob("outputs/scripted/*/ledger.sqlite"))
        if ledgers and _count(ledgers[0]) >= records:
            return ledgers[0].parent
        time.sleep(0.02)
    pytest.fail(f"no {records} records in time")


def _count(ledger: Path) -> int:
    try:
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM records").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
