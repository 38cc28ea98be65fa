"""`tracker.jsonl`: a line an event, whole whatever happened before, each generation once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tracking import MANIFEST, METRICS, SUMMARY, started
from trinity.runs.trackers.jsonl import FILE, JsonlTracker


def lines(folder: Path) -> list[dict[str, Any]]:
    """The file's lines."""
    return [json.loads(line) for line in (folder / FILE).read_text("utf-8").splitlines()]


def test_events_are_lines(tmp_path: Path) -> None:
    """Start with the configuration, generations as told, the whole summary at the end; each is there at once."""
    tracker = JsonlTracker()
    tracker.start(started(tmp_path))
    assert [line["event"] for line in lines(tmp_path)] == ["start"]
    tracker.generation(0, METRICS)
    assert [line["event"] for line in lines(tmp_path)] == ["start", "generation"]
    tracker.finish(SUMMARY, tmp_path)
    first, second, last = lines(tmp_path)
    assert first["config"] == MANIFEST["config"]
    assert (first["run_id"], first["sweep"]) == ("x/run", None)
    assert second == {"event": "generation", "time": second["time"], "number": 0, **METRICS}
    assert last["summary"] == SUMMARY


def test_a_resumed_run_goes_on(tmp_path: Path) -> None:
    """Half a line of a killed process goes; a generation that is played again keeps its first line."""
    tracker = JsonlTracker()
    tracker.start(started(tmp_path))
    tracker.generation(0, METRICS)
    tracker.generation(1, METRICS)
    tracker.abandon("KeyboardInterrupt")
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"event": "genera')
    again = JsonlTracker()
    again.start(started(tmp_path, resumed=True))
    again.generation(1, {**METRICS, "sigma": 9.0})
    again.generation(1, {**METRICS, "trainer": "short"})
    again.generation(2, METRICS)
    again.finish(SUMMARY, tmp_path)
    events = ["start", "generation", "generation", "abandon", "resume", "generation", "generation", "finish"]
    found = lines(tmp_path)
    assert [line["event"] for line in found] == events
    told = [(line["trainer"], line["number"], line["sigma"]) for line in found if line["event"] == "generation"]
    assert told == [("coordinator", 0, 0.25), ("coordinator", 1, 0.25), ("short", 1, 0.25), ("coordinator", 2, 0.25)]
    assert found[3]["why"] == "KeyboardInterrupt"


def test_nan_is_refused(tmp_path: Path) -> None:
    """What is no JSON does not get into the file."""
    tracker = JsonlTracker()
    tracker.start(started(tmp_path))
    with pytest.raises(ValueError, match="JSON"):
        tracker.generation(0, {**METRICS, "sigma": float("nan")})
    tracker.abandon("ValueError")
    assert [line["event"] for line in lines(tmp_path)] == ["start", "abandon"]


def test_abandon_before_start_and_after_finish_does_nothing(tmp_path: Path) -> None:
    """A run that fails before it has a folder, or after its end, adds no line."""
    tracker = JsonlTracker()
    tracker.abandon("ConfigError")
    tracker.start(started(tmp_path))
    tracker.finish(SUMMARY, tmp_path)
    tracker.abandon("OSError")
    assert [line["event"] for line in lines(tmp_path)] == ["start", "finish"]
