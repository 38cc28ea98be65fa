"""Records made by hand, and one small run with every kind of row; tests only read what the session shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.evals.report.support import summarise
from trinity.types import Record, Replicate, Status

MakeRecord = Callable[..., Record]

_BASE = Record(
    run_id="run-1",
    experiment="quickstart",
    method="single",
    variant="small",
    backbone="encoder",
    pool="local",
    pool_kind="live",
    task="sums",
    split="test",
    item_id="sums-0",
    domain="arithmetic",
    difficulty=None,
    difficulty_kind=None,
    replicate=Replicate("test", 0),
    seed=0,
    status="wrong",
    score=0.0,
    raw_score=0.0,
    capped=False,
    answer="SECRET ANSWER",
    n_turns=1,
    n_calls=1,
    input_tokens=60,
    output_tokens=10,
    reasoning_tokens=0,
    cached_tokens=0,
    encoder_tokens=0,
    usage_estimated=False,
    weighted_tokens=100,
    cost_usd=0.001,
    gflop=2.0,
    latency_s=1.0,
    call_ids=(),
)

MANIFEST: dict[str, Any] = {
    "run_id": "run-1",
    "folder": "outputs/quickstart/1",
    "experiment": "quickstart",
    "seeds": {"seed": 0, "data.seed": 1},
    "agents": [
        {"name": "small", "model": "m-small", "price": None, "active_params": 5e8},
        {"name": "large", "model": "m-large", "price": {"input_usd": 1.0}, "active_params": 1.5e9},
    ],
    "tasks": [{"name": "sums", "chance": 0.0}, {"name": "choice", "chance": 0.25}],
}


def record(score: float | None = 0.0, replicate: int = 0, **changes: Any) -> Record:
    """A test record; without a status the score decides between `correct`, `wrong` and `error`."""
    status: Status = changes.pop("status", None) or ("error" if score is None else "correct" if score >= 1 else "wrong")
    place = Replicate("test", replicate)
    return replace(_BASE, score=score, raw_score=score, status=status, replicate=place, **changes)


@pytest.fixture(scope="session")
def make_record() -> MakeRecord:
    """`make_record(score, replicate, **changes)`."""
    return record


@pytest.fixture(scope="session")
def manifest() -> dict[str, Any]:
    """The manifest of a pool of two agents, one without a price."""
    return MANIFEST


def _run_records() -> Iterator[Record]:
    """Two tasks of six items; `large` is best single, the coordinator has three replicates."""
    rows = {
        ("single", "small"): 0b000111_011011,
        ("single", "large"): 0b111010_000011,
        ("best_single", "large"): 0b111010_000011,
        ("random", ""): 0b010101_001100,
        ("lookup", ""): 0b111010_011011,
        ("vote", "n=3"): 0b111010_000111,
        ("coordinator", "sampled"): 0b111011_011011,
        ("coordinator", "argmax"): 0b111010_111011,
        ("oracle", ""): 0b111111_011011,
    }
    for place, ((method, variant), right) in enumerate(rows.items()):
        for number in range(12):
            task = "choice" if number < 6 else "sums"
            for replicate in range(3 if variant == "sampled" else 1):
                score = float(right >> number & 1 and not (variant == "sampled" and replicate == number))
                cost = 100 * (1 + place % 6) + number
                yield record(
                    score, replicate, method=method, variant=variant, task=task, item_id=f"{task}-{number}",
                    weighted_tokens=cost, gflop=cost / 7, cost_usd=None,
                )  # fmt: skip


@pytest.fixture(scope="session")
def run_records() -> list[Record]:
    """The records of a small run."""
    return list(_run_records())


@pytest.fixture(scope="session")
def summary(run_records: list[Record]) -> dict[str, Any]:
    """The summary of that run."""
    return summarise(
        run_records,
        manifest=MANIFEST,
        choices={"best_single": {"agent": "large"}, "vote": {"sums": {"n": 3}}},
        effort={"episodes": 96},
        totals={"paid_calls": 311, "reused_calls": 40},
    )


@pytest.fixture(scope="session")
def generations() -> list[dict[str, Any]]:
    """Three generations, the middle one validated."""
    return [
        {"index": number, "fitness": [0.2 + 0.1 * number, 0.5, 0.75], "sigma": 0.1 * 0.9**number,
         "val": 0.5 if number == 1 else None, "episodes": 24, "logical_calls": 60}
        for number in range(3)
    ]  # fmt: skip


@pytest.fixture(scope="session")
def uses() -> list[tuple[str, str, str]]:
    """Choices of two variants of the policy."""
    return [
        *[("sampled", "large", "worker")] * 30,
        *[("sampled", "small", "thinker")] * 6,
        *[("argmax", "large", "worker")] * 12,
    ]
