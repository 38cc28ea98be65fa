"""Programs graded by what they print."""

from __future__ import annotations

import pytest

from evals.graders.code import StdioTest, grade_stdio
from evals.graders.code.harness import STARTER
from evals.graders.code.stdio import _batches, printed, running
from evals.graders.code.verdict import ended, passed
from evals.sandbox.base import MIB, End, Limits, Outcome, Program, Sandbox
from tests.evals.graders.code.canned import Canned, outcome
from trinity.errors import GraderError

SUMS = [StdioTest(f"{n} {n}\n", f"{2 * n}\n") for n in range(1, 8)]


@pytest.mark.parametrize(
    "source",
    [
        "a, b = map(int, input().split())\nprint(a + b)",
        "import sys\nprint(sum(map(int, sys.stdin.read().split())))",
        "import sys\nsys.stdout.buffer.write(str(sum(map(int, sys.stdin.buffer.readline().split()))).encode())",
        "import os\nos.write(1, b'%d' % sum(map(int, os.read(0, 100).split())))",
        "print(sum(map(int, open(0).read().split())))",
        "for line in sys.stdin:\n    print(sum(map(int, line.split())))",
        "def main():\n    print(sum(map(int, input().split())))\nif __name__ == '__main__':\n    main()",
        "def deep(n):\n    return n and deep(n - 1)\nprint(deep(9000) + sum(map(int, input().split())))",
        "from __future__ import annotations\nprint(sum(map(int, input().split())))\nexit()",
    ],
)
async def test_right_programs(trusted: Sandbox, limits: Limits, source: str) -> None:
    """A program may read and write as it likes, and finds imported what judges import."""
    verdict = await grade_stdio(trusted, source, SUMS, limits)
    assert verdict.passed, verdict
    assert verdict.detail == "7 tests passed"


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("print(4)", "test 1 of 7: wrong output"),
        ("n = int(input().split()[0])\nprint(2 * n if n < 5 else 0)", "test 5 of 7: wrong output"),
        (
            "n = int(input().split()[0])\nprint(2 * n // (n != 3))",
            "test 3 of 7: crashed (exit code 1): ZeroDivisionError",
        ),
        ("print(", "test 1 of 7: crashed (exit code 1): SyntaxError"),
        ("print(2)\nsys.exit(3)", "test 1 of 7: crashed (exit code 3)"),
        ("print(2)\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "test 1 of 7: crashed (signal 11)"),
        ("print(2)\nwhile True:\n    pass", "test 1 of 7: took too much CPU time"),
        ("import time\nprint(2)\nsys.stdout.flush()\ntime.sleep(60)", "test 1 of 7: waited too long"),
        ("x = 'a' * 10**8\nwhile True:\n    print(x)", "test 1 of 7: printed too much"),
        ("", "test 1 of 7: wrong output"),
        ('""")\nprint(2 * n)', "test 1 of 7: crashed"),
        ("print(2)\0", "test 1 of 7: crashed"),
    ],
)
async def test_wrong_programs(trusted: Sandbox, limits: Limits, source: str, detail: str) -> None:
    """The first test that fails is named with what went wrong, not with what was expected."""
    verdict = await grade_stdio(trusted, source, SUMS, limits)
    assert not verdict.passed
    assert verdict.detail.startswith(detail)


async def test_memory(isolated: Sandbox, limits: Limits) -> None:
    """Memory is bounded for each test."""
    few = Limits(limits.cpu_s, limits.idle_s, limits.wall_s, memory_bytes=64 * MIB)
    assert not (await grade_stdio(isolated, "x = b'a' * 2**27\nprint(2)", SUMS[:1], few)).passed
    assert (await grade_stdio(isolated, "x = b'a' * 2**20\nprint(2)", SUMS[:1], few)).passed


async def test_numbers_of_many_digits(trusted: Sandbox, limits: Limits) -> None:
    """A whole number is printed and read in any length."""
    tests = [StdioTest("9" * 6000, "1" + "0" * 6000)]
    assert (await grade_stdio(trusted, "print(int(input()) + 1)", tests, limits)).passed


async def test_ways_to_compare(trusted: Sandbox, limits: Limits) -> None:
    """Order and case are free only where the problem says so."""
    test = [StdioTest("6", "1 2 3 six")]
    source = "print('SIX', 3, 2, 1)"
    assert not (await grade_stdio(trusted, source, test, limits, match="any_order")).passed
    assert (await grade_stdio(trusted, source, test, limits, match="any_order", fold_case=True)).passed


async def test_without_starter(trusted: Sandbox, limits: Limits) -> None:
    """Where judges import nothing, a program must do so itself."""
    source = "print(floor(2.5))"
    assert (await grade_stdio(trusted, source, [StdioTest("", "2")], limits)).passed
    assert "NameError" in (await grade_stdio(trusted, source, [StdioTest("", "2")], limits, starter="")).detail


async def test_long_outputs(trusted: Sandbox, limits: Limits) -> None:
    """A program may print as much as it has to, whatever the bound."""
    few = Limits(limits.cpu_s, limits.idle_s, limits.wall_s, output_bytes=1000)
    test = [StdioTest("", "ab " * 500_000)]
    assert (await grade_stdio(trusted, "print('ab ' * 500_000)", test, few)).passed


async def test_no_tests(trusted: Sandbox, limits: Limits) -> None:
    """Without tests nothing passes and nothing fails."""
    with pytest.raises(GraderError, match=r"^there are no tests to grade with; every program would pass$"):
        await grade_stdio(trusted, "print(1)", [], limits)


class Broken(Canned):
    """A sandbox that fails from its third run on."""

    async def run(self, program: Program, limits: Limits) -> Outcome:
        """End well twice."""
        if len(self.programs) > 1:
            raise GraderError("the sandbox failed")
        return await super().run(program, limits)


@pytest.mark.parametrize(("second", "fails"), [("2", False), ("9", True)])
async def test_failures_of_the_sandbox(limits: Limits, second: str, fails: bool) -> None:
    """A sandbox that fails is an error, unless a test before had decided already, though both ran at once."""
    tests = [StdioTest("", text) for text in ("2", second, "2", "2")]
    sandbox = Broken(lambda _: (), end=outcome(stdout=b"2\n"))
    if fails:
        assert (await grade_stdio(sandbox, "", tests, limits)).detail == "test 2 of 4: wrong output"
    else:
        with pytest.raises(GraderError, match="the sandbox failed"):
            await grade_stdio(sandbox, "", tests, limits)


async def test_what_enters_the_sandbox(limits: Limits) -> None:
    """What a test expects is in nothing that is sent there."""
    sandbox = Canned(lambda _: (), end=outcome(stdout=b"x"))
    await grade_stdio(sandbox, "print(1)", [StdioTest("in", "secret")], limits)
    assert all("secret" not in repr(program) for program in sandbox.programs)


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("exited", 0, "ended early"),
        ("exited", 3, "crashed (exit code 3)"),
        ("signalled", 9, "crashed (signal 9)"),
        ("cpu", None, "took too much CPU time"),
        ("idle", None, "waited too long"),
        ("wall", None, "took too long"),
        ("memory", None, "took too much memory"),
        ("output", None, "printed too much"),
    ],
)
def test_how_an_end_is_told(end: End, code: int | None, told: str) -> None:
    """Each way to end has its own words."""
    assert ended(outcome(end, code)) == told


def test_tests_that_passed_are_counted() -> None:
    """One test is one, two are several."""
    assert [passed(number).detail for number in (1, 2)] == ["1 test passed", "2 tests passed"]


@pytest.mark.parametrize(
    ("stderr", "end", "told"),
    [
        (b"Traceback\n  ValueError: no \n\n \n", "exited", "crashed (exit code 1): ValueError: no"),
        (b"x" * 300, "exited", f"crashed (exit code 1): {'x' * 200}"),
        (b"early\n" + b"\n" * 800, "exited", "crashed (exit code 1)"),
        (b"early" + b"\n" * 799, "exited", "crashed (exit code 1): y"),
        (b"\xff", "exited", "crashed (exit code 1): \ufffd"),
        (b"killed", "signalled", "crashed (signal 1)"),
    ],
)
async def test_last_words(limits: Limits, stderr: bytes, end: End, told: str) -> None:
    """Of the last 800 bytes that a crashed program wrote its last line is told, 200 characters of it at most."""
    box = Canned(lambda _: (), end=Outcome(end, 1, b"", stderr, 0.0, 0.0))
    assert (await grade_stdio(box, "", SUMS[:1], limits)).detail == f"test 1 of 1: {told}"


def test_tests_run_in_batches() -> None:
    """The first alone, then four at once, each with its number."""
    assert [[number for number, _ in some] for some in _batches(SUMS[:6])] == [[1], [2, 3, 4, 5], [6]]
    assert list(_batches(SUMS[:2])) == [[(1, SUMS[0])], [(2, SUMS[1])]]


async def test_a_program_has_room_for_what_it_should_print() -> None:
    """Twice what is expected and a MiB, or its own bound where that is more; what it reads may hold any sign."""
    given: list[tuple[bytes, Limits]] = []

    class Box(Canned):
        async def run(self, program: Program, limits: Limits) -> Outcome:
            """Note what was given."""
            given.append((program.stdin, limits))
            return outcome()

    box, test = Box(lambda _: ()), StdioTest("\ud800", "abc")
    for bound in (10, 2 * MIB):
        await printed(box, running("x"), test, Limits(cpu_s=7.0, output_bytes=bound))
    assert given == [
        (b"\xed\xa0\x80", Limits(cpu_s=7.0, output_bytes=MIB + 6)),
        (b"\xed\xa0\x80", Limits(cpu_s=7.0, output_bytes=2 * MIB)),
    ]


def test_what_is_run_before_a_program() -> None:
    """The judges' imports and their depth of calls; without a starter neither."""
    deep = f'__import__("sys").setrecursionlimit(50000)\n{STARTER}'
    head = '__import__("sys").set_int_max_str_digits(0)\n__import__("random").seed(0)\n'
    tail = """exec(compile('x = 1', "main.py", "exec", dont_inherit=True), globals())\n"""
    assert running("x = 1").source == f"{head}{deep}\n{tail}"
    assert running("x = 1", "").source == f"{head}\n{tail}"
    assert "unittest" in running("x = 1").preload
