"""What Weights & Biases may cost at the end of a run: seconds from its last record to the end of the process.

A small scripted run with the tracker's defaults, each in a process of its own: with no tracker, without a key
(offline), at a server that takes connections and never answers, and at one that takes the run and never answers again.
The clock starts when `records.parquet` is written, so that tables, analysis and report are in every number. The last
server may use up the tracker's `finish_s`: there it counts what the tracker adds.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.commands import TINY, command, only_run
from tests.tracking import dying, silent

MOST_SECONDS = 10.0
KEY = "0123456789benchmark0123456789benchmark01"
FORSAKEN = "a server that stops answering"
HIDDEN = ("WANDB_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@contextmanager
def offline() -> Iterator[dict[str, str]]:
    """Nobody's account."""
    yield {}


@contextmanager
def unanswered() -> Iterator[dict[str, str]]:
    """A server that takes connections and says nothing."""
    with silent() as url:
        yield {"WANDB_BASE_URL": url, "WANDB_API_KEY": KEY}


@contextmanager
def forsaken() -> Iterator[dict[str, str]]:
    """A server that takes the run and says nothing more."""
    with dying() as (url, _):
        yield {"WANDB_BASE_URL": url, "WANDB_API_KEY": KEY}


def seconds(tracker: str, environment: Mapping[str, str]) -> tuple[float, str]:
    """From the last record of a run to the end of its process; what it said of W&B."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        extra = {"NETRC": str(folder / "netrc"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **environment}
        done = command("trinity.run", *TINY, f"tracker={tracker}", cwd=folder, **extra)
        ended = time.time()
        if done.returncode:
            raise SystemExit(f"the run with tracker={tracker} failed: {done.stderr}")
        written = (only_run(folder) / "records.parquet").stat().st_mtime
    return ended - written, "; ".join(said for said in done.stderr.splitlines() if "W&B" in said)


def line(what: str, value: float, said: str, without: float) -> dict[str, object]:
    """One result beside a run without a tracker; `ok` is judged before rounding."""
    added = what == FORSAKEN
    return {
        "bench": f"tracker: {what}",
        "value": round(value, 2),
        "unit": "s",
        "rival": "no tracker",
        "rival_value": round(without, 2),
        "target": f"value{' - rival_value' if added else ''} < {MOST_SECONDS:g}",
        "ok": value - (without if added else 0) < MOST_SECONDS,
        "said": said.partition(";")[0],
    }


def main() -> None:
    """Print the results as JSON lines."""
    for name in [name for name in os.environ if name.startswith(HIDDEN)]:
        del os.environ[name]
    without, _ = seconds("none", {})
    cases = {
        "offline without a key": offline,
        "a server that never answers": unanswered,
        FORSAKEN: forsaken,
    }
    for what, case in cases.items():
        with case() as environment:
            print(json.dumps(line(what, *seconds("wandb", environment), without)), flush=True)


if __name__ == "__main__":
    main()
