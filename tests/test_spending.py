"""Budgets and plans of whole runs, as a user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands import TINY, command, only_run
from tests.inprocess import played
from trinity.runs.checkpoint import load_policy
from trinity.runs.ledger import Ledger
from trinity.runs.records import comparable, read_records

LATE = "pool.endpoints.script.latency_ms=[0,5]"


def rows(run: Path) -> list[dict[str, Any]]:
    """What of a run's records must be equal between runs."""
    return [comparable(record) for record in read_records(run / "records.parquet")]


def theta(run: Path) -> bytes:
    """The trained parameters."""
    return load_policy(run / "checkpoint" / "coordinator" / "best.safetensors")[0].tobytes()


@pytest.fixture(scope="module")
def uncapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one finished run without caps."""
    folder = tmp_path_factory.mktemp("uncapped")
    done = played("trinity.run", *TINY, cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "told").write_text(done.stderr)
    return only_run(folder)


def generations(told: str) -> list[str]:
    """What a run's progress says of its generations, without the time that is left."""
    return re.findall(r"^(coordinator, generation .*) · [^·]* min left$", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("cap", "more"),
    [
        ("budget.run.calls=90", "budget.run.calls=null"),
        ("budget.phases.test.weighted_tokens=3000", "budget.phases.test.weighted_tokens=9000000"),
    ],
)
def test_a_stopped_run_goes_on_with_more_and_equals_an_uncapped_one(
    cap: str, more: str, uncapped: Path, tmp_path: Path
) -> None:
    """It stops with exit 2 and a line that says where and how to go on; resumed, records and theta are the same."""
    done = command("trinity.run", *TINY, LATE, cap, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    run = only_run(tmp_path)
    last = done.stderr.splitlines()[-1]
    key = cap.partition("=")[0]
    assert last.startswith("error: stopped at "), last
    assert f"{key}={cap.partition('=')[2]} is reached" in last
    assert f"python -m trinity.run resume={run.relative_to(tmp_path)} {key}=MORE" in last
    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        assert ledger.count_ungraded() > 0
        spent = ledger.spent()
        if key == "budget.run.calls":
            assert sum(spend.calls for spend in spent.values()) <= int(cap.partition("=")[2])
    done = played("trinity.run", f"resume={run}", more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert rows(run) == rows(uncapped)
    assert theta(run) == theta(uncapped)
    held = [] if more.endswith("null") else [more]
    assert generations(done.stderr) == generations((uncapped.parents[2] / "told").read_text())
    assert len(generations(done.stderr)) == 2
    assert f"resumed, with {', '.join(held) or 'no caps'}" in done.stderr
    assert more in json.loads((run / "manifest.json").read_bytes())["changes"][-1]["note"]


def test_an_episode_cap_replays(tmp_path: Path) -> None:
    """Episodes end at their own cap, are graded and marked, and a replay finds the same."""
    done = played("trinity.run", *TINY, LATE, "budget.episode.calls=2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    found = rows(run)
    assert max(row["n_calls"] for row in found) == 2
    assert any(row["capped"] for row in found)
    assert not {row["status"] for row in found} & {"over_budget", "error"}
    done = played("trinity.replay", str(run), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_plan_asks_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    """`plan=true` names every method with its worst case and writes no file."""
    done = played("trinity.run", *TINY, "plan=true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for method in ("single", "random", "best_single", "lookup", "coordinator", "vote", "oracle", "together"):
        assert method in done.stdout
    assert "unknown" in done.stdout
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_cap_that_cannot_be_kept_starts_nothing(tmp_path: Path) -> None:
    """USD without a price, an unknown key and a value that is no amount are one line each, and no folder is left."""
    for word, said in (
        ("budget.run.usd=1", "agent reckoner: its `price` is not known, so budget.run.usd=1"),
        ("+budget.run.dollars=1", "there is no key 'budget.run.dollars'"),
        ("budget.run.calls=-1", "budget.run.calls=-1: must be a whole number of at least 0"),
    ):
        done = played("trinity.run", *TINY, word, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert said in done.stderr
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]
