"""Modules graded by unit tests in their own process."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from evals.graders.code import grade_unit_tests
from evals.sandbox.base import Limits, Sandbox
from tests.evals.graders.code.canned import Canned, Script, outcome
from trinity.errors import GraderError

TESTS = dedent(
    """
    import unittest
    from unittest.mock import patch
    class TestCases(unittest.TestCase):
        def test_empty(self):
            self.assertEqual(f([]), 0)
        def test_some(self):
            self.assertEqual(f([1, 2]), 3)
            self.assertTrue(f([1]))
        @patch("math.fsum", return_value=7)
        def test_mocked(self, mock):
            self.assertEqual(f([1.5]), 7)
            mock.assert_called_once_with([1.5])
    """
)
RIGHT = "import math\ndef f(xs):\n    return math.fsum(xs)"


async def test_a_right_module(trusted: Sandbox, limits: Limits) -> None:
    """A right module passes, whichever decoys chance chooses."""
    for seed in range(5):
        verdict = await grade_unit_tests(trusted, RIGHT, TESTS, limits, seed=seed)
        assert (verdict.passed, verdict.detail) == (True, "3 tests passed")


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("import math\ndef f(xs):\n    return math.fsum(xs) if xs else None", "test_empty failed"),
        ("def f(xs):\n    return sum(xs)", "test_mocked failed"),
        ("def f(xs):\n    return 1 / 0", "test_empty failed"),
        ("def f(xs):\n    import unittest\n    raise unittest.SkipTest('why')", "test_empty failed"),
        ("def f(xs):\n    exit()", "test_empty failed"),
        ("def f(xs):\n    import os\n    os._exit(0)", "ended early"),
        ("def f(xs):\n    while True:\n        pass", "took too much CPU time"),
        ("while True:\n    pass", "took too much CPU time"),
        ("x = 7 ** 10**9", "took too much CPU time"),
        ("def f(xs):\n    import time\n    time.sleep(60)", "waited too long"),
        ("1 / 0", "does not load: solution ZeroDivisionError"),
        ("def f(xs", "does not load: solution SyntaxError"),
        ("import os\nos._exit(0)", "ended early"),
        ("exit()", "does not load: solution SystemExit"),
    ],
)
async def test_wrong_modules(trusted: Sandbox, limits: Limits, source: str, detail: str) -> None:
    """Whatever goes wrong is told as such."""
    verdict = await grade_unit_tests(trusted, source, TESTS, limits)
    assert (verdict.passed, verdict.detail) == (False, detail)


def kind(*lines: str, base: str = "TestCase") -> str:
    """A class of tests with these lines."""
    return "\n".join((f"class T(unittest.{base}):", *(f"    {line}" for line in lines)))


IT = ("def test_it(self):", "    self.assertEqual(f([]), 0)")
TWO = ("def test_two(self):", "    self.assertEqual(f([2]), 2)")


@pytest.mark.parametrize(
    "tests",
    [
        kind("def test_it(self):", "    with self.subTest(1):", "        self.assertEqual(f([]), 1)"),
        kind("@unittest.expectedFailure", *IT),
        kind("def setUp(self):", "    1 / 0", *IT),
        kind("def tearDown(self):", "    1 / 0", *IT),
        kind("@classmethod", "def setUpClass(cls):", "    1 / 0", *IT),
        kind("@classmethod", "def tearDownClass(cls):", "    1 / 0", *IT),
        "def setUpModule():\n    1 / 0\n" + kind(*IT),
        kind("@unittest.skipIf(True, '')", *IT),
        "1 / 0\n" + kind(*IT),
    ],
)
async def test_ways_to_fail(trusted: Sandbox, limits: Limits, tests: str) -> None:
    """A test that fails in a part, in its preparation, by passing or by not being run has failed."""
    assert not (await grade_unit_tests(trusted, RIGHT, f"import unittest\n{tests}", limits)).passed


@pytest.mark.parametrize(
    "tests",
    [
        kind("@unittest.expectedFailure", "def test_it(self):", "    self.assertEqual(f([]), 1)"),
        kind("async def test_it(self):", "    self.assertEqual(f([]), 0)", base="IsolatedAsyncioTestCase"),
        kind("def setUp(self):", "    open('x', 'x').close()", "    self.addCleanup(os.remove, 'x')", *IT, *TWO),
        kind(IT[0], "    open('x', 'x').close()", IT[1], "    os.remove('x')", *TWO, "    open('x', 'x').close()"),
        kind("def test_it(self):", "    for x in f, f:", "        pass", "    f([])"),
        kind("@classmethod", "def setUpClass(cls):", "    cls.zero = 0", *IT, "    self.assertEqual(self.zero, 0)"),
        kind(
            "def test_it(self):",
            "    with patch('builtins.open'), patch('os.remove'):",
            "        self.assertEqual(f([]), 0)",
        ),
    ],
)
async def test_ways_to_pass(trusted: Sandbox, limits: Limits, tests: str) -> None:
    """Right modules pass: with fixtures, with a decoy that leaves a file behind, and where there can be no decoy."""
    for seed in range(3):
        verdict = await grade_unit_tests(
            trusted, RIGHT, f"import os, unittest\nfrom unittest.mock import patch\n{tests}", limits, seed=seed
        )
        assert verdict.passed, verdict


async def test_no_tests(trusted: Sandbox, limits: Limits) -> None:
    """A source without tests, or that is no Python, is an error."""
    with pytest.raises(GraderError, match=r"^there are no tests to grade with; every program would pass$"):
        await grade_unit_tests(trusted, RIGHT, "import unittest\nclass T(unittest.TestCase):\n    pass", limits)
    with pytest.raises(GraderError, match=r"^the unit tests are no Python: invalid syntax"):
        await grade_unit_tests(trusted, RIGHT, "class", limits)


async def test_modules_at_hand(trusted: Sandbox, limits: Limits) -> None:
    """Further modules can be imported beforehand."""
    tests = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertTrue(f())"
    source = "import sys\nhere = 'wave' in sys.modules\ndef f():\n    return here"
    assert (await grade_unit_tests(trusted, source, tests, limits, preload=("wave",))).passed
    assert not (await grade_unit_tests(trusted, source, tests, limits)).passed


ONE = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertTrue(f())"
WELL = ("loaded", "start 0", "finish 0 ok", "end")


def says(*lines: str, sign: bytes | None = None) -> Script:
    """A program that says these lines behind the sign that it was given, or another."""
    return lambda line: [
        (sign if sign is not None else json.loads(line)["nonce"].encode()) + b" " + text.encode() for text in lines
    ]


FAILED = ("loaded", "start 0", "finish 0 failed", "end")
FORGED = "passes a test that a right program must fail: it has forged its verdict"


async def test_what_has_to_be_told(limits: Limits) -> None:
    """Well is what is told in full, behind the sign, first well and then, of the decoys, failed."""
    assert (await grade_unit_tests(Canned(says(*WELL), says(*FAILED)), "", ONE, limits)).passed
    forged = await grade_unit_tests(Canned(says(*WELL)), "", ONE, limits)
    assert (forged.passed, forged.detail) == (False, FORGED)


@pytest.mark.parametrize(
    "lines",
    [
        *(
            (),
            WELL[:1],
            WELL[:2],
            WELL[:3],
            WELL[1:],
            ("end",),
            ("finish 0 ok",),
            (*WELL, "end"),
            (*WELL, "finish 0 ok"),
        ),
        *(("loaded", "start 0", "finish 0 okay", "end"), ("loaded", "start 0", "start 0", "finish 0 ok", "end")),
        *(("loaded", "start 1", "finish 1 ok", "end"), ("loaded", "finish 0 ok", "start 0", "end")),
        *(("loaded", "start 0", "finish 0 ok ", "end"), ("loaded", "start 0", "finish 0 skipped", "end")),
        *(("loaded", "start 0", "finish 0 ok", "changed"), ("changed",), ("broken solution X",), ("x" * 10**6,)),
    ],
)
async def test_other_things_told(limits: Limits, lines: tuple[str, ...]) -> None:
    """Less, more, or in another order has not passed."""
    assert not (await grade_unit_tests(Canned(says(*lines), says(*FAILED)), "", ONE, limits)).passed


@pytest.mark.parametrize("sign", [b"", b"0" * 32, b"\xff", b"nonce"])
async def test_another_sign(limits: Limits, sign: bytes) -> None:
    """What does not bear the sign is not heard as a verdict."""
    verdict = await grade_unit_tests(Canned(says(*WELL, sign=sign), says(*FAILED)), "", ONE, limits)
    assert (verdict.passed, verdict.detail) == (False, "tells what it has no business to tell")


async def test_the_end_counts(limits: Limits) -> None:
    """A process that tells that all is well and then crashes has not passed."""
    sandbox = Canned(says(*WELL), says(*FAILED), end=outcome("signalled", 11))
    assert (await grade_unit_tests(sandbox, "", ONE, limits)).detail == "crashed (signal 11)"


async def test_decoys_that_spoil_other_tests(limits: Limits) -> None:
    """Where a decoy makes another test fail, all tests must pass again and all decoys fail."""
    tests = ONE + "\n    def test_two(self):\n        f()"  # has no decoy
    both = ("loaded", "start 0", "finish 0 {}", "start 1", "finish 1 {}", "end")
    well, spoilt = (says(*(line.format(word) for line in both)) for word in ("ok", "failed"))
    right = await grade_unit_tests(Canned(well, spoilt, well, spoilt), "", tests, limits, seed=1)
    assert right.passed
    again = await grade_unit_tests(Canned(well, spoilt, spoilt), "", tests, limits, seed=1)
    assert again.detail == "does not pass again"
    forged = await grade_unit_tests(Canned(well, spoilt, well, well), "", tests, limits, seed=1)
    assert forged.detail == FORGED


@pytest.mark.parametrize(
    ("lines", "detail"),
    [
        (("broken solution ValueError",), "does not load: solution ValueError"),
        (("loaded", "fixture setUpModule KeyError"), "the tests can not be set up: setUpModule KeyError"),
        (("loaded", "start 0", "changed"), "has changed what tests are made of"),
        (("loaded", "start 0", "finish 1 ok"), "tells what it has no business to tell"),
        ((*WELL, "end"), "tells more than there is to tell"),
        (("loaded", "start 0", "finish 0 failed", "end"), "test_it failed"),
        (WELL[:3], "ended early"),
        (("x" * 2_000,), "tells what it has no business to tell"),
    ],
)
async def test_what_was_wrong_is_told(limits: Limits, lines: tuple[str, ...], detail: str) -> None:
    """Each thing that should not have been told has its own words."""
    verdict = await grade_unit_tests(Canned(says(*lines)), "", ONE, limits)
    assert (verdict.passed, verdict.detail) == (False, detail)


async def test_what_a_process_is_sent(limits: Limits) -> None:
    """The candidate, the tests in a spelling of our own, which of them are wanted, and a sign of 32 signs."""
    heard: list[dict[str, object]] = []

    def hear(line: bytes) -> list[bytes]:
        heard.append(json.loads(line))
        return list(says(*WELL)(line) if len(heard) == 1 else says(*FAILED)(line))

    box = Canned(hear)
    assert (await grade_unit_tests(box, "code", ONE, limits, preload=("wave",), seed=3)).detail == "1 test passed"
    first, second = heard
    spelled = "import unittest\n\nclass T(unittest.TestCase):\n\n    def test_it(self):\n        self.assertTrue(f())"
    assert (first["source"], first["tests"], first["wanted"]) == ("code", spelled, [["T", "test_it"]])
    assert second["tests"] == spelled.replace("assertTrue", "assertFalse")
    assert len(str(first["nonce"])) == 32
    assert first["nonce"] != second["nonce"]
    assert {"wave", "unittest"} <= set(box.programs[0].preload)
