"""Grades programs by a checker of the problem's own, where several outputs are right."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evals.graders.code.stdio import printed, running
from evals.graders.code.verdict import StdioTest, Verdict, ended, failed, numbered, passed, require
from evals.sandbox.base import MIB, Limits, Outcome, Program, Sandbox
from trinity.errors import GraderError

_CHECK = """
import runpy, sys
sys.argv = ["checker.py", "input.txt", "correct_output.txt", "solution_output.txt"]
runpy.run_path("checker.py", run_name="__main__")
"""
_CHECK_LIMITS = Limits(cpu_s=20.0, idle_s=10.0, wall_s=300.0, memory_bytes=1024 * MIB)


async def grade_checked(
    sandbox: Sandbox, source: str, tests: Sequence[StdioTest], checker: str, limits: Limits
) -> Verdict:
    """Whether a problem's own checker accepts what the program prints, test by test up to the first that fails.

    The checker is a Python program of the data set. It is called with the names of three files, the input, a right
    output and the program's, and prints 1 for a right one; it runs in a sandbox of its own, which the answer never
    enters. A checker that stumbles rejects what it was given, unless it stumbles over the right output too.

    Raises:
        GraderError: there are no tests; a checker does not accept the right output; the sandbox failed.
    """
    require(tests)
    program = running(source)
    for number, test in enumerate(tests, start=1):
        outcome = await printed(sandbox, program, test, limits)
        if not outcome.ok:
            return failed(numbered(number, tests, ended(outcome)))
        if not await _accepts(sandbox, checker, test, outcome.stdout):
            return failed(numbered(number, tests, "the checker rejects the output"))
    return passed(len(tests))


async def _accepts(sandbox: Sandbox, checker: str, test: StdioTest, output: bytes) -> bool:
    outcome = await _checked(sandbox, checker, test, output)
    if outcome.ok and (points := _points(outcome)) is not None:
        return points >= 1
    right = await _checked(sandbox, checker, test, test.stdout.encode())
    if not right.ok or (_points(right) or 0) < 1:
        how = f"exit code {right.code}" if right.end == "exited" else ended(right)
        raise GraderError(f"the problem's checker does not accept the right output ({how})")
    return False


async def _checked(sandbox: Sandbox, checker: str, test: StdioTest, output: bytes) -> Outcome:
    files = {
        "checker.py": checker.encode(),
        "input.txt": test.stdin.encode("utf-8", "surrogatepass"),
        "correct_output.txt": test.stdout.encode("utf-8", "surrogatepass"),
        "solution_output.txt": output,
    }
    return await sandbox.run(Program(_CHECK, files=files), _CHECK_LIMITS)


def _points(outcome: Outcome) -> float | None:
    """The number on the checker's last line; None = it gave none."""
    words = outcome.stdout[-10_000:].split()
    try:
        points = float(words[-1]) if words else math.nan
    except ValueError:
        points = math.nan
    return points if math.isfinite(points) else None
