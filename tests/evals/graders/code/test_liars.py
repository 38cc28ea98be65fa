"""Candidates that lie do not pass, whichever of the four ways they are graded in."""

from __future__ import annotations

import pytest

from evals.graders.code import (
    CallTest,
    StdioTest,
    Verdict,
    grade_asserts,
    grade_calls,
    grade_stdio,
    grade_unit_tests,
)
from evals.sandbox.base import Limits, Sandbox
from tests.evals.graders.code.liars import ALIKE, BRIEFLY, FRAMES, LIARS, RESULT, SAY, SEARCH

NAMES = sorted(LIARS)
UNITS = """
import unittest
class T(unittest.TestCase):
    def test_it(self):
        self.assertEqual(f(1), 2)
        self.assertEqual(f(41), 42)
    def test_more(self):
        self.assertEqual(f(2), 3)
"""


async def units(sandbox: Sandbox, source: str, limits: Limits) -> Verdict:
    """The verdict by unit tests."""
    return await grade_unit_tests(sandbox, source, UNITS, limits)


@pytest.mark.parametrize("name", NAMES)
async def test_programs(isolated: Sandbox, limits: Limits, name: str) -> None:
    """A liar's output is compared where it can not reach."""
    source = LIARS[name] + "\nprint(f(int(input())) if 'f' in globals() else 0)\n"
    tests = [StdioTest("1\n", "2\n"), StdioTest("41\n", "42\n")]
    assert not (await grade_stdio(isolated, source, tests, limits)).passed


@pytest.mark.parametrize("name", NAMES)
async def test_calls(isolated: Sandbox, limits: Limits, name: str) -> None:
    """A liar's results are compared where it can not reach."""
    tests = [CallTest((1,), 2), CallTest((41,), 42)]
    assert not (await grade_calls(isolated, LIARS[name], "f", tests, limits)).passed


@pytest.mark.parametrize("name", NAMES)
async def test_asserts(isolated: Sandbox, limits: Limits, name: str) -> None:
    """A liar shares no process with the assertions."""
    checker = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(41) == 42\ncheck(f)"
    assert not (await grade_asserts(isolated, LIARS[name], checker, ["f"], limits)).passed


@pytest.mark.parametrize("name", NAMES)
async def test_units(isolated: Sandbox, limits: Limits, name: str) -> None:
    """A liar that shares a process with its tests is found out all the same."""
    assert not (await units(isolated, LIARS[name], limits)).passed


@pytest.mark.parametrize(
    "source",
    [FRAMES, RESULT, SAY, BRIEFLY, ALIKE.format(base="object", value="")],
    ids=["frames", "result", "say", "briefly", "alike"],
)
async def test_decoys_find_forgers(isolated: Sandbox, limits: Limits, source: str) -> None:
    """Whoever makes its tests tell what is not so, is found by tests that must fail."""
    verdict = await units(isolated, source, limits)
    assert not verdict.passed
    assert "forged" in verdict.detail


async def test_expected_values_are_out_of_reach(isolated: Sandbox, limits: Limits) -> None:
    """A candidate that searches its memory and every process finds nothing of what is expected."""
    secret = "s3cr3t-expected-1"
    printed = await grade_stdio(isolated, SEARCH + "\nprint(f(1))", [StdioTest("", secret)], limits)
    returned = await grade_calls(isolated, SEARCH, "f", [CallTest((1,), secret)], limits)
    asserted = await grade_asserts(isolated, SEARCH, f"assert f(1) == {secret!r}", ["f"], limits)
    assert [printed.detail, returned.detail, asserted.detail] == [
        "test 1 of 1: wrong output",
        "test 1 of 1: wrong result",
        "AssertionError on line 1 of the tests",
    ]


async def test_what_a_candidate_is_given_is_in_reach(isolated: Sandbox, limits: Limits) -> None:
    """The same search finds a text that the candidate was given, so that it would find what is expected too."""
    test = CallTest(("s3cr3t-expected-1",), "s3cr3t-expected-1")
    assert (await grade_calls(isolated, SEARCH, "f", [test], limits)).passed


async def test_right_candidates_after_liars(isolated: Sandbox, limits: Limits) -> None:
    """What comes after liars is graded rightly."""
    right = "def f(x):\n    return x + 1\n"
    for name in ("killing its kind", "a closed channel", "exit at once"):
        await grade_calls(isolated, LIARS[name], "f", [CallTest((1,), 2)], limits)
        assert (await grade_calls(isolated, right, "f", [CallTest((1,), 2)], limits)).passed
        assert (await units(isolated, right, limits)).passed
