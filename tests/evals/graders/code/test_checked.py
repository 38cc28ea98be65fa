"""Checkers of problems that accept several outputs, apart from the programs that they judge."""

from __future__ import annotations

import pytest

from evals.graders.code import StdioTest, grade_checked
from evals.sandbox.base import MIB, Limits, Outcome, Program, Sandbox
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
    with pytest.raises(
        GraderError, match=r"^the problem's checker does not accept the right output \(exit code [013]\)$"
    ):
        await grade_checked(trusted, "print(3)", TESTS, checker, Limits())


async def test_a_checker_that_is_never_pleased_only_rejects(trusted: Sandbox) -> None:
    """A plain 0 is a verdict, as is a part of the points."""
    for points in ("0", "0.5"):
        assert not (await grade_checked(trusted, "print(3)", TESTS, f"print({points})", Limits())).passed


async def test_no_tests_are_an_error(trusted: Sandbox) -> None:
    """A program that passes all of no tests has not been graded."""
    with pytest.raises(GraderError, match=r"^there are no tests to grade with; every program would pass$"):
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


class Told:
    """A sandbox whose runs end one after another as foreseen."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes, self.limits, self.programs = list(outcomes), list[Limits](), list[Program]()

    async def run(self, program: Program, limits: Limits) -> Outcome:
        """The next outcome."""
        self.programs.append(program)
        self.limits.append(limits)
        return self.outcomes.pop(0)


def said(stdout: bytes, code: int = 0) -> Outcome:
    """A run that ended by itself."""
    return Outcome("exited", code, stdout, b"", 0.0, 0.0)


@pytest.mark.parametrize(
    ("points", "passes"),
    [(b"1", True), (b"note\n 2.5 \n", True), (b"0.99", False), (b"1 0", False), (b"0" * 20_000 + b"\n1", True)],
)
async def test_points_of_a_checker(points: bytes, passes: bool) -> None:
    """Its last word counts, and full points or more are needed."""
    box = Told(said(b"3"), said(points))
    verdict = await grade_checked(box, "", TESTS[:1], "check", Limits(cpu_s=3.0))  # type: ignore[arg-type]
    told = "1 test passed" if passes else "test 1 of 1: the checker rejects the output"
    assert (verdict.passed, verdict.detail) == (passes, told)
    assert box.limits == [
        Limits(cpu_s=3.0, output_bytes=box.limits[0].output_bytes),
        Limits(cpu_s=20.0, idle_s=10.0, wall_s=300.0, memory_bytes=1024 * MIB),
    ]


@pytest.mark.parametrize("stumbles", [said(b""), said(b"nan"), said(b"inf"), said(b"one"), said(b"1", code=1)])
async def test_a_checker_that_stumbles_is_tried_on_the_right_output(stumbles: Outcome) -> None:
    """Where it accepts that the output is wrong; where it does not, the checker is."""
    box = Told(said(b"3"), stumbles, said(b"1"))
    verdict = await grade_checked(box, "", TESTS[:1], "check", Limits())  # type: ignore[arg-type]
    assert verdict.detail == "test 1 of 1: the checker rejects the output"
    assert box.programs[2].files == {**box.programs[1].files, "solution_output.txt": b"3\n"}
    for second, how in (
        (said(b"0.5"), "exit code 0"),
        (Outcome("cpu", None, b"", b"", 9.0, 9.0), "took too much CPU time"),
    ):
        with pytest.raises(GraderError) as found:
            await grade_checked(Told(said(b"3"), stumbles, second), "", TESTS, "check", Limits())  # type: ignore[arg-type]
        assert str(found.value) == f"the problem's checker does not accept the right output ({how})"


async def test_a_program_that_fails_asks_no_checker() -> None:
    """How it ended is told with the number of its test, and nothing else is run."""
    box = Told(said(b"3"), said(b"1"), said(b"", code=2))
    verdict = await grade_checked(box, "", TESTS, "check", Limits())  # type: ignore[arg-type]
    assert (verdict.passed, verdict.detail) == (False, "test 2 of 2: crashed (exit code 2)")
    assert box.outcomes == []
    assert box.programs[1].files == {
        "checker.py": b"check",
        "input.txt": b"1\n",
        "correct_output.txt": b"3\n",
        "solution_output.txt": b"3",
    }
