"""Records summarised from their file: seconds, and memory, which must not grow with the number of replicates.

`ROWS` in the environment sets another size. Two files of that many rows are written, one of many replicates and one of
many items, and one of a tenth of the rows that both are compared with. Each is read and summarised in a process of its
own; what it takes to write them does not count.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from evals.report.summary import build_summary
from evals.report.tally import COLUMNS
from trinity.runs.records import read_columns, write_records
from trinity.types import Record, Replicate

ROWS = int(os.environ.get("ROWS", "1000000"))
METHODS = ("single", "single", "best_single", "lookup", "vote", "random", "coordinator", "coordinator", "x", "oracle")
MOST_SECONDS = 10.0
MOST_GROWTH_MIB = 10
"""Megabytes that nine times the replicates may add."""
MOST_CELL_BYTES = 250
"""Bytes that an item of a method may add, the item's id included."""


class Shape(NamedTuple):
    """Items and replicates of each method."""

    items: int
    replicates: int


SMALL = Shape(ROWS // 100, 1)
REPLICATES = Shape(ROWS // 100, 10)
ITEMS = Shape(ROWS // 10, 1)


def records(shape: Shape) -> Iterator[Record]:
    """Ten rows of a table, right or wrong by a rule, with costs that differ."""
    for place, method in enumerate(METHODS):
        for item in range(shape.items):
            for index in range(shape.replicates):
                score = float((7 * item + 13 * place + 5 * index) % 11 < 4 + place / 5)
                tokens = 60 + (item + index) % 97
                yield Record(
                    "run", "bench", method, f"v{place}", "a", "bench", "scripted", "sums", "test", f"item-{item}", "d",
                    item % 7, "constructed", Replicate("test", index), 0, "correct" if score else "wrong", score, score,
                    False, "42", 1 + place % 3, 1 + place % 3, tokens, 10, 0, 0, 0, False, tokens + 40, tokens * 1e-6,
                    tokens / 7, 0.25 + index / 3, (f"{item:016x}",),
                )  # fmt: skip


def write(path: str, items: int, replicates: int) -> None:
    """Write the records of a shape."""
    write_records(Path(path), records(Shape(items, replicates)))


def child(path: str) -> None:
    """Summarise a file in this process and print what it took."""
    start, used = time.perf_counter(), time.process_time()
    summary = build_summary(read_columns(Path(path), COLUMNS), manifest={}, choices={}, effort={}, totals={})
    seconds, used = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    episodes = summary["rows"][0]["n_episodes"]
    print(json.dumps({"seconds": seconds, "cpu_s": used, "peak_mib": peak, "episodes": episodes}))


def run(call: str) -> str:
    """What a call of this module prints in a process of its own; its peak is not that of what wrote the file."""
    code = f"from tests.bench import records; records.{call}"
    return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout


def measured(shape: Shape) -> dict[str, float]:
    """Seconds and peak of one shape."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/records.parquet"
        run(f"write({path!r}, {shape.items}, {shape.replicates})")
        result: dict[str, float] = json.loads(run(f"child({path!r})"))
    assert result["episodes"] == shape.items * shape.replicates
    return result


def line(name: str, shape: Shape, value: float, most: float, unit: str, **more: float) -> None:
    """Print one result as a JSON line."""
    rows = len(METHODS) * shape.items * shape.replicates
    result = {
        "bench": f"records: {name}",
        "rows": rows,
        **shape._asdict(),
        "value": round(value, 2),
        "unit": unit,
        "target": f"value < {most}",
        "ok": value < most,
        **{key: round(entry, 2) for key, entry in more.items()},
    }
    print(json.dumps(result))


def main() -> None:
    """Print the results as JSON lines."""
    small, replicates, items = (measured(shape) for shape in (SMALL, REPLICATES, ITEMS))
    for name, shape, found in (("replicates", REPLICATES, replicates), ("items", ITEMS, items)):
        more = {key: found[key] for key in ("cpu_s", "peak_mib")}
        line(f"summary of many {name}", shape, found["seconds"], MOST_SECONDS, "s", **more)
    growth = replicates["peak_mib"] - small["peak_mib"]
    line("memory of replicates", REPLICATES, growth, MOST_GROWTH_MIB, "MiB more than one replicate")
    cell = (items["peak_mib"] - small["peak_mib"]) * 2**20 / (len(METHODS) * (ITEMS.items - SMALL.items))
    line("memory of items", ITEMS, cell, MOST_CELL_BYTES, "bytes more an item and method")


if __name__ == "__main__":
    main()
