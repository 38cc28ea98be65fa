"""How fast this machine is, so that limits of CPU time mean the same everywhere."""

from __future__ import annotations

from evals.sandbox.base import Limits, Program, Sandbox
from trinity.errors import GraderError

REFERENCE_S = 0.018
"""CPU time of the loop below under CPython 3.11 on the reference machine, a core of an AMD EPYC: the least of many."""

LOOP = """
import time


def work():
    total, table = 0, {}
    for number in range(120_000):
        total = (total * 31 + number) % 1_000_003
        table[total & 1023] = [number]
    return total


def timed():
    start = time.process_time()
    work()
    return time.process_time() - start


print(min(timed() for _ in range(7)))
"""


async def loop_time(sandbox: Sandbox) -> float:
    """CPU seconds that a fixed loop takes in the sandbox; the least of several times, so that load hardly shows.

    Raises:
        GraderError: the loop does not come to its end.
    """
    outcome = await sandbox.run(Program(LOOP), Limits(cpu_s=60, wall_s=300))
    if not outcome.ok:
        raise GraderError(f"the sandbox cannot run a plain loop: {outcome.end} {outcome.stderr[-300:]!r}")
    return float(outcome.stdout)
