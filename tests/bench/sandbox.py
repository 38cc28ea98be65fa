"""Sandboxed programs: a warm start, runs per second beside a new worker for each, and verdicts on a busy machine.

Starts and rates are the best of several rounds, taken in turns, so that a busy moment meets both. Where nothing can
isolate, the lines have no value and say why. `PROGRAMS` in the environment sets another number of verdicts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from evals.sandbox.base import MIB, Limits, Program
from evals.sandbox.bubblewrap import Bubblewrap
from evals.sandbox.pool import Pool
from trinity.errors import ConfigError

PROGRAMS = int(os.environ.get("PROGRAMS", "500"))
ROUNDS, STARTS, WARM, FRESH = 5, 40, 100, 10
BUSY = 8
NOTHING = Program("pass")
LIMITS = Limits(cpu_s=0.6, idle_s=0.6, wall_s=600, memory_bytes=256 * MIB, output_bytes=MIB)

# Each with its share of a hundred: most programs end by themselves, some meet a bound.
KINDS = (
    (30, "print(sum(map(int, input().split())))"),
    (15, "import sys\nsys.exit(int(input().split()[0]) % 7)"),
    (15, "print(input()[::-1])\nraise ValueError"),
    (12, "import time\nend = time.process_time() + 0.05\nwhile time.process_time() < end:\n    pass\nprint('done')"),
    (10, "import time\ntime.sleep(0.05)\nprint('done')"),
    (6, "import os\nif os.fork():\n    os.wait()\nprint('done')"),
    (4, "x = bytearray(1 << 30)"),
    (2, "while True:\n    pass"),
    (2, "import time\ntime.sleep(60)"),
    (2, "while True:\n    print('x' * 1000)"),
    (2, "import os\nos.abort()"),
)


def programs(count: int) -> list[Program]:
    """Programs of all kinds, mixed evenly."""
    hundred = [source for share, source in KINDS for _ in range(share)]
    return [Program(hundred[number * 37 % 100], f"{number} {number + 1}\n".encode()) for number in range(count)]


async def seconds(pool: Pool, count: int) -> float:
    """Seconds that so many runs of nothing take, as many at once as the sandbox lets."""
    start = time.perf_counter()
    outcomes = await asyncio.gather(*(pool.run(NOTHING, Limits()) for _ in range(count)))
    assert all(outcome.ok for outcome in outcomes)
    return time.perf_counter() - start


async def warm_start(pool: Pool) -> float:
    """Seconds from asking for a run of nothing to its outcome, nothing else running: the median."""
    times = sorted([await seconds(pool, 1) for _ in range(STARTS)])
    return times[len(times) // 2]


class Fresh(Bubblewrap):
    """Workers that serve one program each."""

    once = True


async def verdicts(pool: Pool, mixed: list[Program]) -> list[tuple[object, ...]]:
    """How programs end and what they say."""
    outcomes = await asyncio.gather(*(pool.run(program, LIMITS) for program in mixed))
    return [(outcome.end, outcome.code, outcome.end != "output" and outcome.stdout) for outcome in outcomes]


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processes that do nothing but keep a processor each."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


async def measure() -> list[dict[str, object]]:
    """All results."""
    workers = len(os.sched_getaffinity(0))
    before = held()
    warm, fresh = Pool(Bubblewrap(None), workers), Pool(Fresh(None), workers)
    await warm.ready()
    await fresh.ready()
    await seconds(warm, 2 * workers)
    start, warm_s, fresh_s = float("inf"), float("inf"), float("inf")
    for _ in range(ROUNDS):
        start = min(start, await warm_start(warm))
        warm_s = min(warm_s, await seconds(warm, WARM) / WARM)
        fresh_s = min(fresh_s, await seconds(fresh, FRESH) / FRESH)
    mixed = programs(PROGRAMS)
    quiet = await verdicts(warm, mixed)
    with load(BUSY - 1):
        busy = await verdicts(warm, mixed)
    different = sum(one != other for one, other in zip(quiet, busy, strict=True))
    scale = warm.facts()["cpu_scale"]
    for pool in (warm, fresh):
        await pool.close()
    return results(start, warm_s, fresh_s, different, held() - before, {"cpu_scale": scale, "workers": workers})


def held() -> int:
    """Processes and descriptors that this process has."""
    process = psutil.Process()
    return len(process.children(recursive=True)) + process.num_fds()


def results(
    start: float | None,
    warm_s: float | None,
    fresh_s: float | None,
    different: int | None,
    left: int | None,
    more: dict[str, object],
) -> list[dict[str, object]]:
    """The lines; without values where nothing could be measured."""
    ratio = fresh_s / warm_s if warm_s and fresh_s else None
    return [
        {
            "bench": "sandbox: warm start",
            "value": start and round(start * 1000, 1),
            "unit": "ms",
            "target": "value <= 30",
            "ok": None if start is None else start <= 0.030,
            **more,
        },
        {
            "bench": "sandbox: runs per second",
            "value": warm_s and round(1 / warm_s, 1),
            "unit": "runs/s",
            "fresh": fresh_s and round(1 / fresh_s, 1),
            "ratio": ratio and round(ratio, 1),
            "target": "ratio >= 5",
            "ok": None if ratio is None else ratio >= 5,
            **more,
        },
        {
            "bench": f"sandbox: verdicts of {PROGRAMS} programs that differ at load 1 and {BUSY}",
            "unit": "programs",
            "value": different,
            "target": "value == 0",
            "ok": None if different is None else different == 0,
            **more,
        },
        {
            "bench": f"sandbox: left after {2 * PROGRAMS} programs and closing",
            "unit": "processes and descriptors",
            "value": left,
            "target": "value <= 0",
            "ok": None if left is None else left <= 0,
            **more,
        },
    ]


def main() -> None:
    """Print a line each."""
    try:
        found = asyncio.run(measure())
    except ConfigError as error:
        found = results(None, None, None, None, None, {"note": str(error)})
    for line in found:
        print(json.dumps(line), flush=True)
