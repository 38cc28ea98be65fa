"""A tracker that appends one JSON line an event to a file in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from trinity.runs.trackers.base import RunStart

FILE = "tracker.jsonl"


class JsonlTracker:
    """`tracker.jsonl`: lines of `start`, `resume`, `generation`, `finish` and `abandon`, each on the disk at once.

    A resumed run goes on with its file; of a generation that is played again the first line stays the only one.
    """

    def __init__(self) -> None:
        """The file is opened by `start`."""
        self._file: IO[bytes] | None = None
        self._known: set[tuple[str, int]] = set()

    def start(self, run: RunStart) -> None:
        """Open the file; half a line at its end, left by a killed process, is taken away.

        Raises:
            OSError: it cannot be written.
            ValueError: it holds other lines than a tracker's.
        """
        path = run.folder / FILE
        self._known = _mended(path) if path.exists() else set()
        self._file = path.open("ab", buffering=0)
        facts = {name: run.manifest.get(name) for name in ("run_id", "experiment", "pool", "pool_kind", "seeds", "git")}
        self._write(
            "resume" if run.resumed else "start", {**facts, "sweep": run.sweep, "config": run.manifest["config"]}
        )

    def generation(self, number: int, metrics: Mapping[str, Any]) -> None:
        """A line, unless there is one."""
        key = (str(metrics["trainer"]), number)
        if key not in self._known:
            self._known.add(key)
            self._write("generation", {"number": number, **metrics})

    def finish(self, summary: Mapping[str, Any], folder: Path) -> None:
        """The whole summary as the last line."""
        self._write("finish", {"summary": summary})
        self._close()

    def abandon(self, why: str) -> None:
        """A line with the error's class."""
        if self._file is not None:
            try:
                self._write("abandon", {"why": why})
            finally:
                self._close()

    def _write(self, event: str, content: Mapping[str, Any]) -> None:
        if self._file is None:
            raise ValueError("start was not called")
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"event": event, "time": now, **content}, allow_nan=False).encode() + b"\n"
        if self._file.write(line) != len(line):
            raise OSError(f"{FILE}: a line could not be written whole")

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _mended(path: Path) -> set[tuple[str, int]]:
    """Trainer and number of the generations in a file, once the half of a line at its end is gone."""
    with path.open("r+b") as file:
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        file.truncate(len(whole))
    lines = [json.loads(line) for line in whole.splitlines()]
    return {(line["trainer"], line["number"]) for line in lines if line["event"] == "generation"}
