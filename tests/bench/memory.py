"""Memory of a run of many items: it must not grow with their number.

`ITEMS` in the environment sets another size. One agent plays a tenth of the items and then all of them, each in a
process of its own, with ledger, records and summary; the peaks are compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from baselines.single import SingleAgent
from trinity.episodes import Play, Player, Stamp
from trinity.llm.client import Client, Rules
from trinity.llm.pool import Pool
from trinity.llm.store import Store
from trinity.llm.transports.scripted import skills
from trinity.runs.ledger import Ledger
from trinity.runs.records import write_records
from trinity.testing import SkillTask
from trinity.types import Agent, Item, Replicate

ITEMS = int(os.environ.get("ITEMS", "100000"))
MOST_GROWTH_MIB = 60
"""Megabytes that nine tenths of the items may add: SQLite's page caches fill up, and little else."""

AGENT = Agent("a", "script", "m", {"temperature": 0, "max_tokens": 64}, active_params=1e9)


async def play(folder: Path, count: int) -> float:
    """Play `count` items and write their records; episodes a second."""
    task = SkillTask("sums", n_test=count)
    store, ledger = Store.open(folder / "store.sqlite"), Ledger.create(folder / "ledger.sqlite")
    ledger.add_items("test", task.items("test"))
    pool = Pool("bench", [AGENT], {"script": skills({"m": {"sums": 0.5}})})
    client = Client(pool, store, ledger, Rules(concurrency=128))
    player = Player(client, ledger, Stamp("run", "bench", "bench", "scripted", 0), {"test": 0}, 128)

    def plays() -> Iterator[Play]:
        item: Item
        for item in ledger.items("sums", "test"):
            yield Play(SingleAgent(AGENT), task, item, Replicate("test", 0))

    start = time.perf_counter()
    await player.play_all(plays(), lambda *_: None)
    seconds = time.perf_counter() - start
    write_records(folder / "records.parquet", ledger.records())
    await client.close()
    ledger.close()
    store.close()
    return count / seconds


def child(count: int) -> None:
    """Play in this process and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        rate = asyncio.run(play(Path(folder), count))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"episodes_per_s": round(rate), "peak_mib": round(peak, 1)}))


def measured(count: int) -> dict[str, float]:
    """The same in a process of its own."""
    code = f"from tests.bench import memory; memory.child({count})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    """Print the result as a JSON line."""
    few, many = measured(ITEMS // 10), measured(ITEMS)
    growth = many["peak_mib"] - few["peak_mib"]
    line = {
        "bench": "memory of a run",
        "items": ITEMS,
        "value": round(growth, 1),
        "unit": "MiB more than a tenth of the items",
        "target": f"value < {MOST_GROWTH_MIB}",
        "ok": growth < MOST_GROWTH_MIB,
        "peak_mib": many["peak_mib"],
        "episodes_per_s": many["episodes_per_s"],
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
