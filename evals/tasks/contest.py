"""What contest problems share that are graded by their programs' output: how they are asked, and special checkers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evals.graders.code import StdioTest, Verdict
from evals.graders.code.harness import PRELOAD, RECURSION, STARTER
from evals.sandbox.base import MIB, Limits, Outcome, Program, Sandbox
from evals.tasks.hub import Row
from trinity.errors import GraderError

_CHECK = """
import runpy, sys
sys.argv = ["checker.py", "input.txt", "correct_output.txt", "solution_output.txt"]
runpy.run_path("checker.py", run_name="__main__")
"""
_START = f"import sys\nsys.setrecursionlimit({RECURSION})\nsys.set_int_max_str_digits(0)\n{STARTER}\n"
"""What programs are run with, as `grade_stdio` does."""
_CHECK_LIMITS = Limits(cpu_s=20.0, idle_s=10.0, wall_s=300.0, memory_bytes=1024 * MIB)


def statement(row: Row, parts: Sequence[tuple[str, str]], examples: Sequence[tuple[str, str]]) -> str:
    """A problem in its usual order: `parts` (heading, column) that are not empty, then the examples."""
    shown = [(heading, row.text(column, "")) for heading, column in parts]
    lines = [f"{heading}\n{text}".strip() for heading, text in shown if text]
    for number, (given, wanted) in enumerate(examples, start=1):
        lines.append(f"Example {number}, input:\n{given.strip()}\nExample {number}, output:\n{wanted.strip()}")
    return "\n\n".join(lines)


def paired(row: Row, column: str, inputs: Any, outputs: Any) -> list[StdioTest]:
    """Tests of inputs and outputs.

    Raises:
        DataError: they are no two lists of texts of one length; names `column`.
    """
    lists = isinstance(inputs, list) and isinstance(outputs, list) and len(inputs) == len(outputs)
    if not lists or not all(isinstance(text, str) for text in (*inputs, *outputs)):
        raise row.wrong(column, "inputs and outputs, as many of each")
    return [StdioTest(given, wanted) for given, wanted in zip(inputs, outputs, strict=True)]


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
    if not tests:
        raise GraderError("there are no tests")
    program = Program(
        _START + f"exec(compile({source!a}, 'main.py', 'exec', dont_inherit=True), globals())", preload=PRELOAD
    )
    for number, test in enumerate(tests, start=1):
        room = max(limits.output_bytes, 2 * len(test.stdout) + MIB)
        outcome = await sandbox.run(
            replace(program, stdin=test.stdin.encode("utf-8", "surrogatepass")), replace(limits, output_bytes=room)
        )
        if not outcome.ok:
            return Verdict(passed=False, detail=f"test {number}: {_ended(outcome)}")
        if not await _accepts(sandbox, checker, test, outcome.stdout):
            return Verdict(passed=False, detail=f"test {number}: the checker rejects the output")
    return Verdict(passed=True, detail=f"{len(tests)} tests")


async def _accepts(sandbox: Sandbox, checker: str, test: StdioTest, printed: bytes) -> bool:
    outcome = await _checked(sandbox, checker, test, printed)
    if outcome.ok and (points := _points(outcome)) is not None:
        return points >= 1
    right = await _checked(sandbox, checker, test, test.stdout.encode())
    if not right.ok or (_points(right) or 0) < 1:
        raise GraderError(f"the problem's checker does not accept the right output ({_ended(right)})")
    return False


async def _checked(sandbox: Sandbox, checker: str, test: StdioTest, printed: bytes) -> Outcome:
    files = {
        "checker.py": checker.encode(),
        "input.txt": test.stdin.encode("utf-8", "surrogatepass"),
        "correct_output.txt": test.stdout.encode("utf-8", "surrogatepass"),
        "solution_output.txt": printed,
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


def _ended(outcome: Outcome) -> str:
    return f"exit code {outcome.code}" if outcome.end == "exited" else outcome.end
