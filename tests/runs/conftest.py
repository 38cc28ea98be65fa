"""Rows and surroundings for the tests of `trinity.runs`."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trinity.canonical import digest
from trinity.runs.calls import Answer
from trinity.types import Record, Replicate, Usage

NOBODY = 65534

Call = tuple[Answer, dict[str, Any]]


def call(prompt: str = "What is 2 + 2?", *, sample: int = 0, **changes: Any) -> Call:
    """A call about `prompt`: the answer, changed as said, and its request."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt}]
    request: dict[str, Any] = {"endpoint_id": "e", "model": "m", "messages": messages, "sampling": {"temperature": 0.7}}
    request |= {"extra_body": {}, "replicate": ["train", 3], "sample": sample}
    values: dict[str, Any] = {
        "request_hash": digest(request),
        "text": "4",
        "reasoning": "",
        "finish_reason": "stop",
        "usage": Usage(10, 2, 1, 4),
        "latency_s": 0.25,
        "attempts": 1,
        "buyer": "us",
    }
    return Answer(**{**values, **changes}), request


def record_row(**changes: Any) -> Record:
    """A graded record."""
    values: dict[str, Any] = {
        "run_id": "r1",
        "experiment": "x",
        "method": "single",
        "variant": "big",
        "backbone": "",
        "pool": "p",
        "pool_kind": "scripted",
        "task": "sums",
        "split": "test",
        "item_id": "i1",
        "domain": "math",
        "difficulty": 1.5,
        "difficulty_kind": "constructed",
        "replicate": Replicate("test", 0),
        "seed": 0,
        "status": "correct",
        "score": 1.0,
        "raw_score": 1.0,
        "capped": False,
        "answer": "4",
        "n_turns": 1,
        "n_calls": 1,
        "input_tokens": 10,
        "output_tokens": 2,
        "reasoning_tokens": 1,
        "cached_tokens": 4,
        "encoder_tokens": 0,
        "usage_estimated": False,
        "weighted_tokens": 22,
        "cost_usd": None,
        "gflop": 0.1,
        "latency_s": 0.25,
        "call_ids": ("0123456789abcdef",),
    }
    return Record(**{**values, **changes})


@pytest.fixture(scope="session")
def make_call() -> Callable[..., Call]:
    """The factory of calls."""
    return call


@pytest.fixture(scope="session")
def make_record() -> Callable[..., Record]:
    """The factory of records."""
    return record_row


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 64 KiB: the system itself refuses the write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may reach, unlike pytest's own when root runs the tests."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def as_nobody() -> Iterator[Callable[[], None]]:
    """Calling it gives up root's right to write everywhere, until the test ends."""
    user = os.geteuid()

    def give_up() -> None:
        if user == 0:
            os.seteuid(NOBODY)

    yield give_up
    os.seteuid(user)
