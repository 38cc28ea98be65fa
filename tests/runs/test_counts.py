"""Counts of a ledger's decisions and the times of its calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.runs.conftest import call
from trinity.runs.calls import RequestRows
from trinity.runs.counts import CallTime, Choices, call_times, choices
from trinity.runs.ledger import Ledger
from trinity.runs.rows import DecisionKey, DecisionRow
from trinity.types import Phase, Replicate, Role


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def decide(ledger: Ledger, policy: str, phase: Phase, item: str, turn: int, agent: str, role: Role) -> None:
    """Enter a choice."""
    key = DecisionKey(policy, "sums", item, Replicate(phase, 0), turn)
    ledger.add_decision(DecisionRow(key, "0" * 64, np.zeros(4, np.float32), np.zeros(4), agent, role, 1))


def test_decisions_are_counted(ledger: Ledger) -> None:
    """By policy, phase, turn, agent and role, whatever the item, also those that are not written yet."""
    for item in ("1", "2", "3"):
        decide(ledger, "c/sampled", "test", item, 0, "big", "worker")
        decide(ledger, "c/sampled", "test", item, 1, "small" if item == "2" else "big", "verifier")
    decide(ledger, "c/g000/c01", "train", "9", 0, "\ud800", "thinker")
    assert list(choices(ledger)) == [
        Choices("c/g000/c01", "train", 0, "\ud800", "thinker", 1),
        Choices("c/sampled", "test", 0, "big", "worker", 3),
        Choices("c/sampled", "test", 1, "big", "verifier", 2),
        Choices("c/sampled", "test", 1, "small", "verifier", 1),
    ]


def test_times_of_answered_calls(ledger: Ledger) -> None:
    """Every answered call once, with the settings that it was asked at; a request without an answer is none."""
    slow, fast, other = call("a", latency_s=2.5), call("b", latency_s=0.1), call("c", latency_s=1.0)
    other[1]["model"] = "another"
    for answer, request in (slow, fast):
        ledger.note_call(answer, request, paid=True, price=None)
    ledger.note_miss("ab" * 32, other[1])
    settings = RequestRows.of(slow[0].request_hash, slow[1]).parts[0][0]
    assert list(call_times(ledger)) == [CallTime(settings, 2.5), CallTime(settings, 0.1)]


def test_an_empty_ledger_has_no_counts(ledger: Ledger) -> None:
    """Nothing is counted where there is nothing."""
    assert list(choices(ledger)) == []
    assert list(call_times(ledger)) == []
