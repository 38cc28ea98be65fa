"""Verdicts on 500 small programs, right, wrong, slow and crashing: the same one at a time and under load.

Under load eight are graded at once while other processes keep every processor busy. `PROGRAMS` in the environment sets
another number of programs.
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
from typing import NamedTuple

from evals.graders.code import CallTest, StdioTest, Verdict, grade_asserts, grade_calls, grade_stdio
from evals.sandbox.base import MIB, Limits, Sandbox
from evals.sandbox.build import sandbox
from trinity.errors import ConfigError

PROGRAMS = int(os.environ.get("PROGRAMS", "500"))
AT_ONCE = 8
LIMITS = Limits(cpu_s=0.5, idle_s=1.0, memory_bytes=256 * MIB)
BUSY = "s = 0\n    while time.process_time() < {}:\n        s += 1\n    "

BODIES = {
    "right": "return x + {n}",
    "right, by a loop": "for _ in range({n}):\n        x += 1\n    return x",
    "right, after a third of the time": BUSY.format(0.17) + "return x + {n}",
    "right, with much memory": "data = bytearray(2**26)\n    return x + {n} + data[7]",
    "right, by recursion": "def add(k):\n        return k and 1 + add(k - 1)\n    return x + add({n})",
    "wrong": "return x - {n} - 1",
    "wrong at times": "return x + {n} + (x > 3)",
    "wrong kind": "return str(x) + '!'",
    "crashing": "return x // ({n} - {n})",
    "crashing at times": "return [x + {n}][x > 3]",
    "crashing hard": "import os\n    os.abort()",
    "leaving": "import os\n    os._exit(0)",
    "slow": "while True:\n        pass",
    "asleep": "time.sleep(60)",
    "too large": "return len(bytearray(2**29))",
    "no Python": "return x +",
}
"""What becomes of a function that adds `n`."""


class Case(NamedTuple):
    """A candidate, the number that it should add, and whether it does."""

    source: str
    n: int
    right: bool


def cases() -> list[Case]:
    """Candidates of every kind, each with a number of its own."""
    bodies = list(BODIES.items())
    made = []
    for number in range(PROGRAMS):
        kind, body = bodies[number % len(bodies)]
        n = number % 89 + 1
        made.append(Case(f"import time\ndef f(x):\n    {body.format(n=n)}\n", n, kind.startswith("right")))
    return made


async def grade(box: Sandbox, number: int, case: Case) -> Verdict:
    """The verdict in one of the three ways that functions are graded in, one after the other."""
    xs = (1, 3, 5)
    if number % 3 == 0:
        tests = [StdioTest(f"{x}\n", f"{x + case.n}\n") for x in xs]
        return await grade_stdio(box, f"{case.source}\nprint(f(int(input())))\n", tests, LIMITS)
    if number % 3 == 1:
        return await grade_calls(box, case.source, "f", [CallTest((x,), x + case.n) for x in xs], LIMITS)
    checker = f"for x in (1, 5):\n    assert f(x) == x + {case.n}\n"
    return await grade_asserts(box, case.source, checker, ["f"], LIMITS)


async def graded(at_once: int) -> tuple[list[Verdict], float]:
    """The verdicts in the order of the programs, and the seconds that they took."""
    box = sandbox({"kind": "bubblewrap", "workers": at_once})
    await box.ready()
    gate = asyncio.Semaphore(at_once)

    async def one(number: int, case: Case) -> Verdict:
        async with gate:
            return await grade(box, number, case)

    start = time.perf_counter()
    verdicts = await asyncio.gather(*(one(number, case) for number, case in enumerate(cases())))
    seconds = time.perf_counter() - start
    await box.close()
    return list(verdicts), seconds


@contextlib.contextmanager
def burners() -> Iterator[None]:
    """As many processes as there are processors that do nothing but use them."""
    count = len(os.sched_getaffinity(0))
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> None:
    """Grade all programs twice and print how many verdicts agree."""
    try:
        calm, calm_s = asyncio.run(graded(1))
        with burners():
            loaded, loaded_s = asyncio.run(graded(AT_ONCE))
    except ConfigError as error:
        tell(None, note=str(error))
        return
    same = sum(one == other for one, other in zip(calm, loaded, strict=True))
    truth = [case.right for case in cases()]
    tell(
        same,
        as_they_are=[sum(v.passed == t for v, t in zip(found, truth, strict=True)) for found in (calm, loaded)],
        passed=sum(verdict.passed for verdict in calm),
        seconds=[round(calm_s, 1), round(loaded_s, 1)],
        differing=[[one.detail, other.detail] for one, other in zip(calm, loaded, strict=True) if one != other][:5],
    )


def tell(same: int | None, **more: object) -> None:
    """Print the result."""
    line = {
        "bench": "code.same_verdicts",
        "value": same,
        "unit": f"of {PROGRAMS} programs",
        "target": f"all {PROGRAMS}, alone and {AT_ONCE} at once beside busy processors",
        "ok": None if same is None else same == PROGRAMS,
        **more,
    }
    print(json.dumps(line), flush=True)
