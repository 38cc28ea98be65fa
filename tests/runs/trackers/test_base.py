"""A tracker's failure stays its own, and what a generation tells is counted from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runs.conftest import call
from tests.tracking import METRICS, PAYLOAD, started
from trinity.runs.ledger import Ledger
from trinity.runs.rows import DecisionKey, DecisionRow
from trinity.runs.trackers.base import Follower, NoTracker, RunStart, generation_metrics
from trinity.types import Replicate, Role


class Fragile:
    """Notes what it hears and raises at the events that `breaks` names."""

    def __init__(self, *breaks: str) -> None:
        self.breaks = breaks
        self.heard: list[str] = []

    def _hear(self, what: str) -> None:
        self.heard.append(what)
        if what.partition(" ")[0] in self.breaks:
            raise ValueError(f"no\n{what}")

    def start(self, run: RunStart) -> None:
        """Hear."""
        self._hear("start")

    def generation(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Hear."""
        self._hear(f"generation {number}")

    def finish(self, summary: Mapping[str, Any], folder: Path) -> None:
        """Hear."""
        self._hear("finish")

    def abandon(self, why: str) -> None:
        """Hear."""
        self._hear(f"abandon {why}")


def follow(tracker: Fragile | NoTracker, folder: Path) -> list[str]:
    """The lines that a whole run with this tracker prints."""
    said: list[str] = []
    with Follower(tracker, said.append) as follower:
        follower.start(started(folder))
        follower.generation(0, lambda: METRICS)
        follower.generation(1, lambda: METRICS)
        follower.finish({}, folder)
    return said


def test_a_tracker_hears_everything_in_order(tmp_path: Path) -> None:
    """Start, generations, finish; nothing is said and nothing abandoned."""
    tracker = Fragile()
    assert follow(tracker, tmp_path) == []
    assert tracker.heard == ["start", "generation 0", "generation 1", "finish"]


@pytest.mark.parametrize("event", ["start", "generation", "finish"])
def test_a_failure_is_one_line_and_the_run_goes_on(event: str, tmp_path: Path) -> None:
    """Whatever it raises, the tracker is abandoned, hears nothing more, and the user reads one line."""
    tracker = Fragile(event, "abandon")
    (line,) = follow(tracker, tmp_path)
    assert line.startswith(f"Fragile failed at {event}, the run goes on without it: ValueError: no {event}")
    assert tracker.heard[-1] == "abandon ValueError"
    assert [what.partition(" ")[0] for what in tracker.heard].count(event) == 1


def test_metrics_that_cannot_be_had_are_a_failure_too() -> None:
    """A ledger that cannot be read while a generation is measured does not stop the run."""
    tracker, said = Fragile(), list[str]()

    def broken() -> dict[str, Any]:
        raise OSError("gone")

    with Follower(tracker, said.append) as follower:
        follower.generation(0, broken)
    assert tracker.heard == ["abandon OSError"]
    assert said == ["Fragile failed at generation, the run goes on without it: OSError: gone"]


def test_an_error_of_the_run_abandons() -> None:
    """Where the run ends with an error, or is interrupted, the tracker hears its class, and the error goes on."""
    for error in (RuntimeError, KeyboardInterrupt):
        tracker = Fragile("abandon")
        said: list[str] = []
        with pytest.raises(error), Follower(tracker, said.append):
            raise error("secret text")
        assert tracker.heard == [f"abandon {error.__name__}"]
        assert said == [
            f"Fragile failed at abandon, the run goes on without it: ValueError: no abandon {error.__name__}"
        ]


def test_nobody_counts_for_no_tracker() -> None:
    """Where nothing is tracked, a generation is not even measured."""

    def costly() -> dict[str, Any]:
        raise AssertionError

    with Follower(NoTracker(), list[str]().append) as follower:
        follower.generation(0, costly)


def decide(ledger: Ledger, policy: str, agent: str, role: Role, turn: int) -> None:
    """Note a choice."""
    key = DecisionKey(policy, "sums", "i", Replicate("train", 0), turn)
    ledger.add_decision(DecisionRow(key, "h", np.zeros(5, np.float32), np.zeros(5), agent, role, 0))


def test_a_generation_counts_its_own_choices(tmp_path: Path) -> None:
    """Choices of that generation's candidates alone, quantiles by hand, bought calls of the whole run."""
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        for turn, (agent, role) in enumerate([("big", "worker"), ("big", "verifier"), ("small", "worker")]):
            decide(ledger, f"coordinator/g001/c0{turn}", agent, role, turn)  # type: ignore[arg-type]  # roles by name
        for other in ("coordinator/g000/c00", "coordinator/g001/favourite", "coordinator/g0010/c00", "short/g001/c00"):
            decide(ledger, other, "big", "thinker", 0)
        for sample, paid in enumerate((True, True, False)):
            answer, request = call(sample=sample)
            ledger.note_call(answer, request, paid=paid, price=None)
        ledger.flush()
        found = generation_metrics("coordinator", PAYLOAD, ledger.path, ["small", "big", "idle"], 1)
    assert found["agents"] == {"small": 1, "big": 2, "idle": 0}
    assert found["roles"] == {"thinker": 0, "worker": 2, "verifier": 1}
    assert found["fitness"] == {"mean": pytest.approx(0.6), "best": 1.0, "q25": 0.5, "q50": 0.5, "q75": 1.0}
    assert (found["paid_calls"], found["episodes"], found["validation"]) == (2, 5, None)


def test_a_trainer_that_tells_little_is_tracked(tmp_path: Path) -> None:
    """What a trainer of somebody else leaves out is unknown, not zero."""
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        found = generation_metrics("mine", {}, ledger.path, ["big"], 0)
    assert found["fitness"] == dict.fromkeys(("mean", "best", "q25", "q50", "q75"))
    assert found["sigma"] is None
    assert found["episodes"] is None


def test_a_job_knows_its_sweep(tmp_path: Path) -> None:
    """The folder with a sweep.json above a run gives its group."""
    (tmp_path / "sweep" / "job").mkdir(parents=True)
    assert started(tmp_path / "sweep" / "job").sweep is None
    (tmp_path / "sweep" / "sweep.json").write_text("{}")
    assert started(tmp_path / "sweep" / "job").sweep == "sweep"
