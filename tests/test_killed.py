"""A run that is killed again and again, and two that share a store: nothing lost, nothing paid twice."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import command, only_run, started
from tests.served import SKILLS, counted, pool_words, server
from trinity.runs.checkpoint import load_policy
from trinity.runs.records import comparable, read_records
from trinity.types import Price

KILLS = 20
LATE_KILLS = 4
"""Those that come after the last call: in the last evaluation and while the report is written."""


def results(run: Path) -> tuple[list[dict[str, Any]], bytes]:
    """Records and theta, as far as they must be equal between runs."""
    policy = run / "checkpoint" / "coordinator" / "best.safetensors"
    records = [comparable(record) for record in read_records(run / "records.parquet")]
    return records, load_policy(policy)[0].tobytes()


def stored(folder: Path) -> set[str]:
    """Hashes of the requests that have an answer in the shared store."""
    path = folder / "outputs" / "store.sqlite"
    if not path.exists():
        return set()
    with sqlite3.connect(path) as database:
        found = database.execute("SELECT lower(hex(hash)) FROM requests JOIN calls USING (id)").fetchall()
    return {row[0] for row in found}


def killed_when(process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> bool:
    """Kill the process at that moment; False when it ended first."""
    deadline = time.monotonic() + 100
    while not reached():
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return True


@pytest.mark.timeout(900)
def test_twenty_kills_change_nothing(tmp_path: Path) -> None:
    """Resumed each time, records and theta are those of a run left alone, and no stored answer was asked for again."""
    with server(tmp_path / "calm", "--latency-ms", "2", "10") as (url, log):
        done = command("trinity.run", *pool_words(tmp_path / "calm", url), cwd=tmp_path / "calm")
        assert done.returncode == 0, done.stderr
        calls = counted(log).received
        whole = results(only_run(tmp_path / "calm"))
    rng, folder = random.Random(0), tmp_path / "killed"
    with server(folder, "--latency-ms", "2", "10") as (url, log):
        words = pool_words(folder, url)
        had: list[tuple[float, set[str]]] = []
        moments = sorted(rng.sample(range(2, calls - 2), KILLS - LATE_KILLS)) + [calls] * LATE_KILLS
        for moment in moments:
            runs = list(folder.glob("outputs/scripted/*/manifest.json"))
            process = started("trinity.run", *([f"resume={runs[0].parent}"] if runs else words), cwd=folder)
            pause = rng.uniform(0, 1.5) if moment == calls else 0.0
            if not killed_when(process, lambda: counted(log).received >= moment):  # noqa: B023 - called at once
                break
            time.sleep(pause)
            had.append((time.monotonic(), stored(folder)))
        done = command("trinity.run", f"resume={only_run(folder)}", cwd=folder)
        assert done.returncode == 0 or "this run is finished" in done.stderr, done.stderr
        counts = counted(log)
    assert len(had) >= KILLS - LATE_KILLS
    assert results(only_run(folder)) == whole
    for again in counts.asked_again:
        before = [hashes for at, hashes in had if at < again.received_at]
        assert not before or again.request_hash not in before[-1]
    # An answer that the server had written and nobody had read when the process died is all that may be asked twice.
    assert len(counts.asked_again) <= len(had)
    assert json.loads((only_run(folder) / "summary.json").read_bytes())["totals"]["paid_calls"] == calls


def test_two_processes_on_one_store_buy_each_answer_once(tmp_path: Path) -> None:
    """Two runs that begin together find the same, and the server was asked each request once."""
    with server(tmp_path, "--latency-ms", "2", "10") as (url, log):
        words = pool_words(tmp_path, url)
        store = f"store={tmp_path / 'shared.sqlite'}"
        folders = [tmp_path / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        processes = [started("trinity.run", *words, store, cwd=folder) for folder in folders]
        assert [process.wait(timeout=200) for process in processes] == [0, 0]
        counts = counted(log)
    runs = [only_run(folder) for folder in folders]
    assert results(runs[0]) == results(runs[1])
    assert counts.asked_again == []
    assert counts.received == counts.answered == len(counts.tallies)
    bought = [json.loads((run / "summary.json").read_bytes())["totals"]["paid_calls"] for run in runs]
    assert sum(bought) == counts.received


PRICES = dict.fromkeys(SKILLS, Price(1.0, 4.0, "test"))
CAPS = [("calls", 40), ("weighted_tokens", 30_000), ("usd", 0.03)]


@pytest.mark.parametrize(("axis", "cap"), CAPS)
def test_caps_hold_at_the_server(axis: str, cap: float, tmp_path: Path) -> None:
    """With 128 episodes at once and faults the provider never bills more; with more money the run ends as any other."""
    with server(tmp_path, "--latency-ms", "1", "20", "--faults", "mixed") as (url, log):
        words = (*pool_words(tmp_path, url, read_timeout_s=0.4), "concurrency=128")
        done = command("trinity.run", *words, f"budget.run.{axis}={cap}", cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert f"budget.run.{axis}={cap} is reached" in done.stderr
        spend = counted(log).spend(PRICES)
        assert 0.3 * cap < getattr(spend, axis) <= cap
        run = only_run(tmp_path)
        done = command("trinity.run", f"resume={run}", f"budget.run.{axis}={100 * cap}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    with server(tmp_path / "free", "--faults", "mixed") as (url, _):
        words = pool_words(tmp_path / "free", url, read_timeout_s=0.4)
        done = command("trinity.run", *words, cwd=tmp_path / "free")
        assert done.returncode == 0, done.stderr
    assert results(run) == results(only_run(tmp_path / "free"))
