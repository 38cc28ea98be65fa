"""Whole runs against a server in a process of its own, whose log outlives both."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.commands import TINY, environment
from trinity.testing.counts import Counts, Event

SKILLS = {
    "reckoner": {"sums": 1.0, "words": 0.2, "plans": 0.2},
    "linguist": {"sums": 0.2, "words": 1.0, "plans": 0.2},
    "planner": {"sums": 0.2, "words": 0.2, "plans": 1.0},
}
POOL = """\
_target_: trinity.llm.pool.build_pool
_recursive_: false
_convert_: all
name: served
endpoints:
  main:
    _target_: trinity.llm.transports.openai_http.OpenAIHTTP
    base_url: {url}
    endpoint_id: served
    connect_timeout_s: 5
    read_timeout_s: {read_timeout_s}
    total_timeout_s: 30
agents:
"""
AGENT = """\
  - name: {name}
    endpoint: main
    model: {name}
    sampling: {{temperature: 0, max_tokens: 64}}
    active_params: 1.0e+9
    price: {{input_usd: 1.0, output_usd: 4.0, source: test}}
    deterministic: {deterministic}
"""
IMPATIENT = ("retry.longest_backoff_s=0.02", "retry.attempts=8")


@contextmanager
def server(folder: Path, *words: str) -> Iterator[tuple[str, Path]]:
    """URL and log of a server that plays the specialists of the scripted experiment; `words` are its options."""
    folder.mkdir(parents=True, exist_ok=True)
    skills, log = folder / "skills.json", folder / "server.log"
    skills.write_text(json.dumps(SKILLS))
    process = subprocess.Popen(
        [sys.executable, "-m", "trinity.testing.server", "--skills", str(skills), "--log", str(log), *words],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[-1])
        yield f"http://127.0.0.1:{port}/v1", log
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def pool_words(folder: Path, url: str, *, read_timeout_s: float = 10.0, deterministic: bool = True) -> tuple[str, ...]:
    """Words of a run that asks the server at `url`; its pool file goes below `folder`."""
    (folder / "conf" / "pool").mkdir(parents=True, exist_ok=True)
    agents = "".join(AGENT.format(name=name, deterministic=str(deterministic).lower()) for name in SKILLS)
    (folder / "conf" / "pool" / "served.yaml").write_text(POOL.format(url=url, read_timeout_s=read_timeout_s) + agents)
    return (*TINY, "pool=served", "--config-dir", str(folder / "conf"), *IMPATIENT)


class Tail:
    """The counts of a log that grows, each line read once."""

    def __init__(self, log: Path) -> None:
        self._log, self._read = log, 0
        self._counts = Counts()

    def received(self) -> int:
        """Attempts that the server has seen until now."""
        if self._log.exists():
            with self._log.open("rb") as lines:
                lines.seek(self._read)
                whole = lines.read().rpartition(b"\n")[0].splitlines(keepends=True)
            self._read += sum(map(len, whole)) + bool(whole)
            for line in whole:
                self._counts.note(Event.from_line(line))
        return self._counts.received


def counted(log: Path) -> Counts:
    """What the server saw so far."""
    return Counts.read(log) if log.exists() else Counts()
