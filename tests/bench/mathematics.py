"""Math gradings per second: answers that a process compares, numbers that need none, and the start of a process."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence

from evals.graders.algebra.pool import Checkers
from evals.graders.mathematics import check, read_answer

FORMULAS = (
    (r"\frac{\sqrt{3}}{3}", r"So it is $\boxed{\frac{1}{\sqrt3}}$."),
    (r"2\sqrt{2}", r"\boxed{\sqrt{8}}"),
    ("(a+5)(b+2)", r"\boxed{ab+2a+5b+10}"),
    (r"(-\infty, 2) \cup (3, \infty)", r"\boxed{x<2 \text{ or } x>3}"),
    (r"\left( 3, \frac{\pi}{2} \right)", r"\boxed{(3,\pi/2)}"),
    ("y = 2x + 3", r"\boxed{2x - y + 3 = 0}"),
)
NUMBERS = (("12,000", r"\boxed{12000}"), (r"\frac{3}{4}", "Answer: 0.75"), ("18", "The answer is 18."))
LEAST_FORMULAS = 200
LEAST_NUMBERS = 2000


async def rate(cases: Sequence[tuple[str, str]], count: int, by: Checkers) -> float:
    """Gradings per second of `count` replies that wait at once."""
    start = time.perf_counter()
    chosen = [cases[index % len(cases)] for index in range(count)]
    found = await asyncio.gather(*(check(gold, read_answer(reply), by=by) for gold, reply in chosen))
    seconds = time.perf_counter() - start
    assert all(verdict.right for verdict in found)
    return count / seconds


def line(bench: str, value: float, unit: str, least: int | None, **more: object) -> str:
    """A result; `least` None = nothing is asked of it."""
    target = "none" if least is None else f"value >= {least}"
    return json.dumps(
        {"bench": bench, "value": round(value, 1), "unit": unit, "target": target,
         "ok": least is None or value >= least, **more}
    )  # fmt: skip


def main() -> None:
    """Print each as a JSON line."""
    by = Checkers()
    start = time.perf_counter()
    asyncio.run(rate(FORMULAS, 1, by))
    print(line("mathematics: start of a process", 1000 * (time.perf_counter() - start), "ms", None), flush=True)
    formulas = asyncio.run(rate(FORMULAS, 2000, by))
    print(line("mathematics: formulas", formulas, "gradings/s", LEAST_FORMULAS, workers=by.workers), flush=True)
    print(line("mathematics: numbers", asyncio.run(rate(NUMBERS, 5000, by)), "gradings/s", LEAST_NUMBERS), flush=True)
    by.close()
