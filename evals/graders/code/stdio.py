"""Grades programs by what they print, one run a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evals.graders.code.compare import Match, same_text
from evals.graders.code.harness import PRELOAD, RECURSION, STARTER
from evals.graders.code.verdict import StdioTest, Verdict, ended, failed, numbered, passed, require
from evals.sandbox.base import MIB, Limits, Outcome, Program, Sandbox

_AT_ONCE = 4
_RUNNER = """\
__import__("sys").set_int_max_str_digits(0)
__import__("random").seed(0)
{starter}
exec(compile({source}, "main.py", "exec", dont_inherit=True), globals())
"""
_LAST_WORDS = 200


async def grade_stdio(
    sandbox: Sandbox,
    source: str,
    tests: Sequence[StdioTest],
    limits: Limits,
    *,
    match: Match = "lines",
    fold_case: bool = False,
    starter: str = STARTER,
) -> Verdict:
    """Whether a program prints what each test wants; it ends with the first test, in their order, that it fails.

    Each test is a run of its own, with all of `limits` to itself. What a test expects never enters the sandbox. A
    program must end by itself and with exit code 0. Whole numbers may have any number of digits.

    Args:
        sandbox: where it runs.
        source: the program, run as `__main__`.
        tests: what it reads and what it should print.
        limits: bounds of one run; the bound of its output is raised to what the test wants.
        match: how outputs are compared (see `compare.same_text`).
        fold_case: case means nothing in outputs.
        starter: what is run before the program, as its imports; "" = nothing.

    Raises:
        GraderError: there are no tests, or the sandbox failed.
    """
    require(tests)
    program = running(source, starter)
    for some in _batches(tests):
        runs = (printed(sandbox, program, test, limits) for _, test in some)
        outcomes = await asyncio.gather(*runs, return_exceptions=True)
        for (number, test), outcome in zip(some, outcomes, strict=True):
            # In their order: a failure counts only where all before it passed, however fast each of them was.
            if isinstance(outcome, BaseException):
                raise outcome
            if fault := _fault(outcome, test, match, fold_case=fold_case):
                return failed(numbered(number, tests, fault))
    return passed(len(tests))


def _batches(tests: Sequence[StdioTest]) -> Iterator[list[tuple[int, StdioTest]]]:
    """What is run at once, each test with its number from 1: the first alone, since most failures are seen there."""
    every = list(enumerate(tests, start=1))
    for start in (0, *range(1, len(tests), _AT_ONCE)):
        yield every[start : start + _AT_ONCE if start else 1]


def running(source: str, starter: str = STARTER) -> Program:
    """The program that runs `source` after its `starter`, without a bound on the digits of numbers."""
    preamble = f'__import__("sys").setrecursionlimit({RECURSION})\n{starter}' if starter else ""
    return Program(_RUNNER.format(starter=preamble, source=ascii(source)), preload=PRELOAD)


async def printed(sandbox: Sandbox, program: Program, test: StdioTest, limits: Limits) -> Outcome:
    """What a program does with a test's input, with room for what the test wants."""
    stdin = test.stdin.encode("utf-8", "surrogatepass")
    room = max(limits.output_bytes, 2 * len(test.stdout) + MIB)
    return await sandbox.run(replace(program, stdin=stdin), replace(limits, output_bytes=room))


def _fault(outcome: Outcome, test: StdioTest, match: Match, *, fold_case: bool) -> str | None:
    """What is wrong with a run; None = nothing."""
    if outcome.ok:
        return None if same_text(outcome.stdout, test.stdout, match, fold_case=fold_case) else "wrong output"
    lines = outcome.stderr[-4 * _LAST_WORDS :].decode("utf-8", "replace").split("\n")
    words = next((line.strip()[:_LAST_WORDS] for line in reversed(lines) if line.strip()), "")
    return f"{ended(outcome)}: {words}" if words and outcome.end == "exited" else ended(outcome)
