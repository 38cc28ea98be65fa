"""A run that is killed again and again, and two that share a store: nothing lost, nothing paid twice."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.commands import only_run
from tests.inprocess import forked, played
from tests.served import SKILLS, Tail, counted, pool_words, server
from trinity.runs.checkpoint import load_policy
from trinity.runs.records import comparable, read_records
from trinity.testing.counts import AskedAgain
from trinity.types import Price

LATE = ("records.parquet", "summary.json", "report_images/accuracy_cost.svg", "report_images/training.svg")
"""What a run writes when everything is answered: it is killed as soon as each is there."""
EARLY = 20 - len(LATE)
"""Kills before that, over training and test."""
JUST_S = 5.0
"""The server wrote an answer that was lost with its client so shortly before or after the kill."""


class Kill(NamedTuple):
    """When a process had died (`time.monotonic`), and the hashes that the shared store had answers to."""

    at: float
    stored: frozenset[str]


def results(run: Path) -> tuple[list[dict[str, Any]], bytes]:
    """Records and theta, as far as they must be equal between runs."""
    policy = run / "checkpoint" / "coordinator" / "best.safetensors"
    records = [comparable(record) for record in read_records(run / "records.parquet")]
    return records, load_policy(policy)[0].tobytes()


def stored(folder: Path) -> frozenset[str]:
    """Hashes of the requests that have an answer in the shared store."""
    path = folder / "outputs" / "store.sqlite"
    if not path.exists():
        return frozenset()
    with sqlite3.connect(path) as database:
        found = database.execute("SELECT lower(hex(hash)) FROM requests JOIN calls USING (id)").fetchall()
    return frozenset(row[0] for row in found)


def killed_when(process: ForkServerProcess, reached: Callable[[], bool], folder: Path) -> Kill:
    """Kill the process at that moment, which comes before its end."""
    deadline = time.monotonic() + 100
    while not reached():
        assert process.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.join()
    return Kill(time.monotonic(), stored(folder))


def written(path: Path) -> Callable[[], bool]:
    """Whether a file is another one than now."""

    def state() -> int | None:
        return path.stat().st_mtime_ns if path.exists() else None

    before = state()
    return lambda: state() != before


def asking(tail: Tail, more: int) -> Callable[[], bool]:
    """Whether the server has received so many requests more than now."""
    enough = tail.received() + more
    return lambda: tail.received() >= enough


def kills(folder: Path, words: tuple[str, ...], log: Path, calls: int) -> Iterator[Kill]:
    """Start, and each time resume, a run of `calls` calls, and kill it."""
    rng, tail = random.Random(0), Tail(log)
    for number in range(EARLY + len(LATE)):
        words = words if number == 0 else (f"resume={only_run(folder)}",)
        if number < EARLY:
            reached = asking(tail, rng.randint(1, max(1, (calls - tail.received()) // (EARLY - number) - 3)))
        else:
            reached = written(only_run(folder) / LATE[number - EARLY])
        yield killed_when(forked("trinity.run", *words, cwd=folder), reached, folder)


def lost_with_a_process(again: AskedAgain, had: list[Kill]) -> bool:
    """Whether a kill came right before or after the answer was written, and no store had it when it was asked again."""
    before = [kill for kill in had if kill.at < again.received_at]
    return (
        any(abs(kill.at - again.answered_at) < JUST_S for kill in before)
        and again.request_hash not in before[-1].stored
    )


@pytest.mark.timeout(600)
def test_what_failed_replays_and_alone_is_asked_again(tmp_path: Path) -> None:
    """Failed calls are kept as nobody's answer: they replay as errors, and resumed they are asked and billed on top."""
    faults = tmp_path / "faults.json"
    faults.write_text(json.dumps({"rates": {"server_error": 0.25}}))
    with server(tmp_path, "--faults", str(faults)) as (url, log):
        words = [word for word in pool_words(tmp_path, url) if not word.startswith(("trainer", "coord", "methods"))]
        done = played("trinity.run", *words, "method=[single,random,lookup]", "retry.attempts=1", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    run, before = only_run(tmp_path), counted(log)
    assert before.refused > 0
    assert bill(run) == (before.received, before.answered)
    assert "error" in statuses(run)
    done = played("trinity.replay", str(run), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with server(tmp_path, "--port", url.rpartition(":")[2].removesuffix("/v1")):
        done = played("trinity.run", f"resume={run}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    after = counted(log)
    assert bill(run) == (after.received, after.answered)
    assert after.asked_again == []
    assert after.received > before.received
    assert "error" not in statuses(run)


def bill(run: Path) -> tuple[int, int]:
    """Attempts that the run made and calls that it bought, as its summary says."""
    totals = json.loads((run / "summary.json").read_bytes())["totals"]
    return totals["attempts"], totals["paid_calls"]


def statuses(run: Path) -> set[str]:
    """How its episodes ended."""
    return {record.status for record in read_records(run / "records.parquet")}


@pytest.mark.timeout(600)
def test_twenty_kills_change_nothing(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Resumed each time, records and theta are those of a run left alone, and no stored answer was asked for again.

    All that is asked twice was in flight when a process died: the server had written the answer, no disk had it.
    """
    calm, folder, slow = tmp_path / "calm", tmp_path / "killed", ("--latency-ms", "5", "15")
    with server(calm, *slow) as (url, log):
        done = played("trinity.run", *pool_words(calm, url), cwd=calm)
        assert done.returncode == 0, done.stderr
        calls = counted(log).received
        whole = results(only_run(calm))
    with server(folder, *slow) as (url, log):
        had = list(kills(folder, (*pool_words(folder, url), "concurrency=4"), log, calls))
        done = played("trinity.run", f"resume={only_run(folder)}", cwd=folder)
        assert done.returncode == 0, done.stderr
        counts = counted(log)
    assert len(had) == EARLY + len(LATE) == 20
    assert results(only_run(folder)) == whole
    assert [again for again in counts.asked_again if not lost_with_a_process(again, had)] == []
    assert json.loads((only_run(folder) / "summary.json").read_bytes())["totals"]["paid_calls"] == calls
    record_property("lost_with_a_process", len(counts.asked_again))
    sys.stdout.write(f"{len(had)} kills, {calls} calls, {len(counts.asked_again)} answers lost with a process\n")


def test_two_processes_on_one_store_buy_each_answer_once(tmp_path: Path) -> None:
    """Two runs that begin together find the same, and the server was asked each request once."""
    # The server is slow, so that whichever process comes up later finds what is bought and catches up with the other.
    with server(tmp_path, "--latency-ms", "20", "60") as (url, log):
        words = (*pool_words(tmp_path, url), f"store={tmp_path / 'shared.sqlite'}")
        folders = [tmp_path / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        processes = [forked("trinity.run", *words, cwd=folder) for folder in folders]
        for process in processes:
            process.join(timeout=200)
        assert [process.exitcode for process in processes] == [0, 0]
        counts = counted(log)
    runs = [only_run(folder) for folder in folders]
    assert results(runs[0]) == results(runs[1])
    assert counts.asked_again == []
    assert counts.received == counts.answered == len(counts.tallies)
    bought = [json.loads((run / "summary.json").read_bytes())["totals"]["paid_calls"] for run in runs]
    assert sum(bought) == counts.received
    assert min(bought) > 0


PRICES = dict.fromkeys(SKILLS, Price(1.0, 4.0, "test"))
CAPS = [("calls", 40), ("weighted_tokens", 30_000), ("usd", 0.03)]


@pytest.fixture(scope="module")
def uncapped(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], bytes]:
    """Results of a run without a cap, on a server with the same faults."""
    folder = tmp_path_factory.mktemp("uncapped")
    with server(folder, "--faults", "mixed") as (url, _):
        done = played("trinity.run", *pool_words(folder, url, read_timeout_s=1.0), cwd=folder)
    assert done.returncode == 0, done.stderr
    return results(only_run(folder))


@pytest.mark.parametrize(("axis", "cap"), CAPS)
def test_caps_hold_at_the_server(
    axis: str, cap: float, uncapped: tuple[list[dict[str, Any]], bytes], tmp_path: Path
) -> None:
    """With 128 episodes at once and faults the provider never bills more; with more money the run ends as any other."""
    with server(tmp_path, "--latency-ms", "1", "20", "--faults", "mixed") as (url, log):
        words = (*pool_words(tmp_path, url, read_timeout_s=1.0), "concurrency=128")
        done = played("trinity.run", *words, f"budget.run.{axis}={cap}", cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert f"budget.run.{axis}={cap} is reached" in done.stderr
        spend = counted(log).spend(PRICES)
        assert 0 < getattr(spend, axis) <= cap
        run = only_run(tmp_path)
        done = played("trinity.run", f"resume={run}", f"budget.run.{axis}={100 * cap}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert results(run) == uncapped


LOCAL = """\
_target_: trinity.llm.pool.build_pool
_recursive_: false
_convert_: all
name: small
endpoints:
  engine:
    _target_: trinity.llm.transports.local.LocalServer
    weights: smollm2-135m-instruct
    store: {_target_: trinity.llm.weights.Weights}
    prompt_log: prompts
agents:
  - name: small
    endpoint: engine
    model: smollm2-135m-instruct
    sampling: {temperature: 0, max_tokens: 4}
    deterministic: true
"""


def asked(prompts: Path) -> list[str]:
    """The prompts that the engines were given, in their order; the name of each file is a time."""
    return [file.read_text("utf-8") for file in sorted(prompts.glob("*.txt"))]


@pytest.mark.weights
@pytest.mark.timeout(600)
def test_a_live_model_is_asked_nothing_twice(tmp_path: Path) -> None:
    """Killed at its fifth prompt and resumed, a run asks the engine nothing that it had an answer to, and ends."""
    pools, prompts = tmp_path / "conf" / "pool", tmp_path / "prompts"
    pools.mkdir(parents=True)
    (pools / "small.yaml").write_text(LOCAL, "utf-8")
    words = ("--config-dir", "conf", "pool=small", "task=[python_values]", "method=[single]", "name=live")
    process = forked("trinity.run", *words, "data.n_test=8", cwd=tmp_path)
    kill = killed_when(process, lambda: len(asked(prompts)) >= 5 and len(stored(tmp_path)) >= 4, tmp_path)
    before = asked(prompts)
    done = played("trinity.run", f"resume={only_run(tmp_path, 'live')}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    after = asked(prompts)[len(before) :]
    answered = before[: len(kill.stored)]  # there is one slot, so that answers come in the order of the prompts
    assert 4 <= len(answered) < 8
    assert not set(answered) & set(after)
    assert len({*answered, *after}) == len(answered) + len(after) == 8
    records = list(read_records(only_run(tmp_path, "live") / "records.parquet"))
    assert len(records) == 8
    assert not {record.status for record in records} & {"error", "over_budget"}
