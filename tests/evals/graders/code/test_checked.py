"""Checkers of problems that accept several outputs, apart from the programs that they judge."""

from __future__ import annotations

import pytest

from evals.graders.code import StdioTest, grade_checked
from evals.sandbox.base import Limits, Outcome, Program, Sandbox
from tests.evals.tasks.rows_code import CHECKER
from trinity.errors import GraderError

TESTS = [StdioTest("1\n", "3\n"), StdioTest("5\n", "7\n")]


@pytest.mark.parametrize(
    ("program", "passed"),
    [
        ("print(int(input()) + 2)", True),
        ("print(-int(input()) - 2)", True),
        ("print(3)", False),
        ("print('three')", False),
        ("print()", False),
        ("print(int(input()) + 2); raise SystemExit(1)", False),
    ],
)
async def test_the_checker_decides(trusted: Sandbox, program: str, passed: bool) -> None:
    """It accepts another right output; it rejects a wrong one, one that it stumbles over, and a program that fails."""
    assert (await grade_checked(trusted, program, TESTS, CHECKER, Limits())).passed == passed


@pytest.mark.parametrize(
    "checker", ["raise SystemExit(3)", "print('fine')", "", "print(0)\nimport nothing_of_this_name"]
)
async def test_a_checker_that_rejects_the_right_output_is_an_error(trusted: Sandbox, checker: str) -> None:
    """Where the checker can not even accept what is right, nothing is said of the program."""
    with pytest.raises(GraderError, match="checker does not accept the right output"):
        await grade_checked(trusted, "print(3)", TESTS, checker, Limits())


async def test_a_checker_that_is_never_pleased_only_rejects(trusted: Sandbox) -> None:
    """A plain 0 is a verdict, as is a part of the points."""
    for points in ("0", "0.5"):
        assert not (await grade_checked(trusted, "print(3)", TESTS, f"print({points})", Limits())).passed


async def test_no_tests_are_an_error(trusted: Sandbox) -> None:
    """A program that passes all of no tests has not been graded."""
    with pytest.raises(GraderError, match="there are no tests"):
        await grade_checked(trusted, "print(3)", [], CHECKER, Limits())


async def test_the_program_never_meets_the_right_output() -> None:
    """What the program's own sandbox is given holds its input and nothing else; the checker's holds three files."""
    seen: list[Program] = []

    class Box:
        async def run(self, program: Program, limits: Limits) -> Outcome:
            """Note the program; all print 1."""
            seen.append(program)
            return Outcome("exited", 0, b"1\n", b"", 0.0, 0.0)

    assert (await grade_checked(Box(), "answer", TESTS[:1], CHECKER, Limits())).passed  # type: ignore[arg-type]
    own, checking = seen
    assert (own.stdin, own.files) == (b"1\n", {})
    assert "'answer'" in own.source
    assert "3" not in own.source.rpartition("exec(")[2]
    assert set(checking.files) == {"checker.py", "input.txt", "correct_output.txt", "solution_output.txt"}
    assert checking.files["solution_output.txt"] == b"1\n"
