"""Whole runs with a tracker: what it keeps equals what the run keeps, and the run never depends on it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ROOT, TINY, only_run
from tests.inprocess import played
from tests.test_secrets import KEYS, leaks
from tests.tracking import forget_account, silent
from tests.wandb_file import segments
from trinity.config import SHAPELESS, within
from trinity.runs.ledger import Ledger
from trinity.runs.trackers.jsonl import FILE

BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
KEY = "0123456789canary9876543210canary01234567"
ONE_METHOD = ("+experiment=scripted", "method=[single]", "data.n_train=1", "data.n_val=1", "data.n_test=2")


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No account of whoever runs the tests."""
    forget_account(monkeypatch, tmp_path / "netrc")


def generations(run: Path) -> dict[int, dict[str, Any]]:
    """What the coordinator's training left in the ledger."""
    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        return dict(ledger.generations("coordinator"))


def test_wandb_without_a_network(tmp_path: Path) -> None:
    """Offline files hold all of summary.json and the ledger's generations, and no key; a replay tracks nothing."""
    with silent() as url:
        secret = {**KEYS, "WANDB_API_KEY": KEY, "WANDB_BASE_URL": url}
        done = played("trinity.run", *TINY, "tracker=wandb", "tracker.finish_s=60", cwd=tmp_path, **secret)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("W&B: ") == 1
    assert f"W&B: offline, for {url} does not answer; send it later: wandb sync" in done.stderr
    run = only_run(tmp_path)
    (found,) = segments(run)
    summary = json.loads((run / "summary.json").read_bytes())
    expected = {
        f"{row['method']}/{row['variant'] or '-'}/{row['task']}/{name}": value
        for row in summary["rows"]
        for name, value in row.items()
        if name not in ("method", "variant", "task", "statuses")
    }
    assert len(expected) > 100
    assert {name: found.summary[name] for name in expected} == expected
    trained = generations(run)
    assert [row["coordinator/sigma"] for row in found.history[:-1]] == [trained[0]["sigma"], trained[1]["sigma"]]
    assert [row["coordinator/fitness/best"] for row in found.history[:-1]] == [
        max(trained[n]["fitness"]) for n in (0, 1)
    ]
    assert sum(found.history[0][f"coordinator/roles/{role}"] for role in ("thinker", "worker", "verifier")) > 12
    pictures = {f"figures/{picture.stem}" for picture in (run / "report_images").iterdir()}
    assert {name for name in found.history[-1] if name.startswith("figures/")} == pictures
    assert ("report" in found.history[-1]) == (run / "report.html").exists()
    assert found.config["seed"] == 0
    assert found.name == found.config["run"]["run_id"]
    before = sorted((run / "wandb").rglob("*"))
    assert played("trinity.replay", str(run), cwd=tmp_path).returncode == 0
    assert not (run / "replay" / "wandb").exists()
    assert sorted((run / "wandb").rglob("*")) == before
    assert leaks(tmp_path, done) == []
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]
    assert KEY not in done.stderr + done.stdout


def test_a_run_that_stops_and_goes_on(tmp_path: Path) -> None:
    """The file says how the run stopped and went on, and each generation stands in it once; trackers may change."""
    done = played("trinity.run", *TINY, "tracker=jsonl", "budget.run.calls=200", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    run = only_run(tmp_path)
    words = (f"resume={run}", "tracker=wandb", "tracker.mode=offline", "tracker.finish_s=60", "budget.run.calls=210")
    done = played("trinity.run", *words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    done = played("trinity.run", f"resume={run}", "tracker=jsonl", "budget.run.calls=null", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (run / FILE).read_text("utf-8").splitlines()]
    events = [line["event"] for line in lines]
    assert [event for event in events if event != "generation"] == ["start", "abandon", "resume", "finish"]
    assert lines[events.index("abandon")]["why"] == "BudgetError"
    (segment,) = segments(run)
    told = [line["number"] for line in lines if line["event"] == "generation"]
    told += [row["coordinator/generation"] for row in segment.history]
    assert sorted(told) == [0, 1]
    assert segment.exit_code == 1
    assert lines[-1]["summary"] == json.loads((run / "summary.json").read_bytes())


def test_a_sweep_is_one_group(tmp_path: Path) -> None:
    """Jobs are runs of W&B of their own, called by their folders, in one group; a tracker makes no other jobs."""
    words = (*ONE_METHOD, "eval.seed=0,1", "tracker=wandb", "tracker.mode=offline", "tracker.finish_s=60")
    done = played("trinity.run", "-m", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (sweep,) = (tmp_path / "outputs" / "scripted").iterdir()
    jobs = {path.parent.name: segments(path.parent) for path in sweep.glob("*/manifest.json")}
    assert len(jobs) == 2
    found = [(segment.group, segment.name) for parts in jobs.values() for segment in parts]
    assert found == [(sweep.name, name) for name in jobs]
    assert len({segment.run_id for parts in jobs.values() for segment in parts}) == 2
    assert within("tracker.mode", SHAPELESS)


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Words that use the document's own tracker, written down as it stands."""
    files = dict(BLOCK.findall((ROOT / "docs" / "trackers.md").read_text("utf-8")))
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return ("--config-dir", str(tmp_path / "conf"), "tracker=status")


def test_the_documents_tracker(status: tuple[str, ...], tmp_path: Path) -> None:
    """One class and one YAML file are a tracker: it hears of a run to its end."""
    done = played("trinity.run", *ONE_METHOD, *status, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    rows = json.loads((run / "summary.json").read_bytes())["rows"]
    best = max(row["accuracy"] for row in rows if row["task"] == "all")
    assert (run / "status.txt").read_text("utf-8") == f"finished: single reaches {best:.1%}\n"


def test_a_tracker_that_fails(status: tuple[str, ...], tmp_path: Path) -> None:
    """It costs the run a line and no result."""
    done = played("trinity.run", *ONE_METHOD, *status, "tracker.name=no/such/folder.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("StatusPage failed at start, the run goes on without it: FileNotFoundError") == 1
    assert (only_run(tmp_path) / "summary.json").exists()


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("tracker=wandbb", "error: tracker=wandbb: there is no such option; did you mean 'wandb'?"),
        ("~tracker", "error: tracker is empty; choose with tracker=NAME from: jsonl, none, wandb"),
        ("+tracker.colour=red", "error: tracker.colour: NoTracker"),
    ],
)
def test_a_wrong_tracker_is_refused(word: str, told: str, tmp_path: Path) -> None:
    """A mistake in the choice or its keys ends the run before anything is asked."""
    done = played("trinity.run", *ONE_METHOD, word, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(told)
    assert not (tmp_path / "outputs").exists() or not list((tmp_path / "outputs").rglob("manifest.json"))
