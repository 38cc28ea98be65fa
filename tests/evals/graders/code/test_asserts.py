"""Functions graded by assertions that run apart from them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from evals.graders.code import grade_asserts
from evals.graders.code.asserts import _require_assertions, _verdict
from evals.sandbox.base import Limits, Program, Sandbox
from tests.evals.graders.code.canned import Canned, Script, outcome
from trinity.errors import GraderError

CHECK = "def check(candidate):\n    assert candidate([3, 1]) == [1, 3]\n    assert candidate([]) == []\n\ncheck(f)\n"


async def passes(sandbox: Sandbox, limits: Limits, source: str, checker: str, *names: str) -> bool:
    """Whether the assertions hold."""
    return (await grade_asserts(sandbox, source, checker, names or ("f",), limits)).passed


async def test_verdicts(trusted: Sandbox, limits: Limits) -> None:
    """A right function passes, a wrong one fails on the line that says so."""
    assert await passes(trusted, limits, "def f(xs):\n    return sorted(xs)", CHECK)
    wrong = await grade_asserts(
        trusted, "def f(xs):\n    return xs and [1, 3]", CHECK.replace("[]) ==", "[2]) =="), ["f"], limits
    )
    assert (wrong.passed, wrong.detail) == (False, "AssertionError on line 3 of the tests")


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("def f(xs):\n    return tuple(sorted(xs))", "AssertionError on line 2"),
        ("def f(xs):\n    1 / 0", "ZeroDivisionError on line 2"),
        ("def f(xs):\n    import os\n    os._exit(0)", "ended early"),
        ("def f(xs):\n    raise SystemExit", "LeftError on line 2"),
        ("def f(xs):\n    while True:\n        pass", "took too much CPU time"),
        ("while True:\n    pass", "took too much CPU time"),
        ("x = 7 ** 10**9", "took too much CPU time"),
        ("def f(xs):\n    input()", "EOFError on line 2"),
        ("def g(xs):\n    return xs", "NameError on line 2"),
        ("def f(xs)", "does not load: SyntaxError"),
        ("import os\nos._exit(0)", "ended early"),
        ("def f(xs):\n    return 'x' * 10**7", "returned too much"),
        ("def f(xs):\n    return [object()]", "AssertionError on line 2"),
    ],
)
async def test_wrong_functions(trusted: Sandbox, limits: Limits, source: str, detail: str) -> None:
    """Whatever goes wrong with a candidate is told as such."""
    verdict = await grade_asserts(trusted, source, CHECK, ["f"], limits)
    assert not verdict.passed
    assert verdict.detail.startswith(detail)


@pytest.mark.parametrize(
    ("source", "checker"),
    [
        ("def f(x):\n    return x + 1", "import math\nassert math.isclose(f(1.5), 2.5)"),
        ("def f(x):\n    return x[::-1]", "def encode(s):\n    return s[::-1]\nassert f(encode('abc')) == 'abc'"),
        ("def f(x, *, by=1):\n    return x + by", "assert f(1, by=2) == 3 and f(x=1) == 2"),
        ("def f(x):\n    return x", "assert all(f(i) == i for i in range(50))"),
        (
            "def f(x):\n    raise ValueError('no', x)",
            "try:\n    f(1)\n    assert False\nexcept ValueError as e:\n    assert e.args == ('no', 1)",
        ),
        (
            "class E(KeyError): pass\ndef f(x):\n    raise E(x)",
            "try:\n    f(1)\n    assert False\nexcept LookupError:\n    pass",
        ),
        ("def f():\n    yield from range(3)", "assert list(f()) == [0, 1, 2]"),
        ("import re\ndef f(x):\n    return re.match('a', x)", "assert f('ab')\nassert not f('b')"),
        (
            "def f(x):\n    return {1: {2, 3}, (1, 2): frozenset([4])}",
            "assert f(0) == {1: {2, 3}, (1, 2): frozenset([4])}",
        ),
        ("n = 0\ndef f(x):\n    global n\n    n += 1\n    return n", "assert f(0) == 1\nassert f(0) == 2"),
        ("def f(x):\n    x.append(1)\n    return x", "x = []\nassert f(x) == [1]\nassert x == []"),
        ("def g(x):\n    return x\ndef f(x):\n    return g(x)", "assert f(1) == g(1)"),
    ],
)
async def test_what_passes_between_them(trusted: Sandbox, limits: Limits, source: str, checker: str) -> None:
    """Values, exceptions, names and state cross as if both were one process; arguments are copies."""
    verdict = await grade_asserts(trusted, source, checker, ["f", "g"], limits)
    assert verdict.passed, verdict


@pytest.mark.parametrize(
    ("result", "assertion", "same"),
    [
        ("0.1 * 3", "assert f() == 0.3", True),
        ("[0.1 * 3, (1, 0.1 * 3)]", "assert f() == [0.3, (1, 0.3)]", True),
        ("{'a': 0.1 * 3}", "assert f() == {'a': 0.3} and True", True),
        ("0.1 * 3", "assert f() == 0.3001", False),
        ("0.1 * 3", "assert not f() == 0.3", True),
        ("0.1 * 3", "assert f() != 0.3", True),
        ("1333335333334000000", "assert f() == 1.333335333334e+18 + 128", True),
        ("1.333335333334e+18 + 256", "assert f() == 1333335333334000000", False),
        ("10**18 + 1", "assert f() == 10**18", False),
        ("[0.1 * 3]", "assert f() == (0.3,)", False),
        ("'a'", "assert f() == 'b'", False),
        ("True", "assert f() == 1", True),
        ("[0.1 * 3]", "assert f() == [0.3, 1]", False),
        ("{'b': 0.3}", "assert f() == {'a': 0.3}", False),
        ("float('nan')", "assert f() == 0.3", False),
        ("10**400", "assert f() == 1e300", False),
    ],
)
async def test_floats(trusted: Sandbox, limits: Limits, result: str, assertion: str, same: bool) -> None:
    """An equation forgives the last digits of floats that are expected; whole numbers, kinds and texts are exact."""
    assert await passes(trusted, limits, f"def f():\n    return {result}", assertion) is same


@pytest.mark.parametrize(
    ("checker", "complaint"),
    [
        ("", "the tests assert nothing; every program would pass"),
        ("f(1)\n", "the tests assert nothing; every program would pass"),
        ("network needed", "the tests are no Python: invalid syntax"),
        ("assert True\n", "the tests call none of f; every program would pass"),
        (
            "def check(candidate):\n    assert candidate(1) == 1\n",
            "the tests call none of f; every program would pass",
        ),
        ("return 1\nassert f(1)", "the tests are no Python: "),
    ],
)
async def test_tests_that_are_none(trusted: Sandbox, limits: Limits, checker: str, complaint: str) -> None:
    """Tests that could not fail anybody are an error, not a success."""
    with pytest.raises(GraderError, match=f"^{re.escape(complaint)}"):
        await grade_asserts(trusted, "def f(x):\n    return x", checker, ["f"], limits)


def checker_says(*lines: bytes) -> Script:
    """A checker that says these lines, `NONCE` in them standing for the sign that it was given."""

    def script(line: bytes) -> list[bytes]:
        _, told, sign = line.rpartition(b'"nonce": "')
        return [] if b'"tests"' not in line or not told else [text.replace(b"NONCE", sign[:32]) for text in lines]

    return script


def candidate_says(line: bytes) -> list[bytes]:
    """A candidate that forges a verdict instead of an answer."""
    return [b'{"ready": true}'] if b'"source"' in line else [b'{"nonce": "0", "passed": true, "calls": 1}']


async def test_the_sign(limits: Limits) -> None:
    """A verdict counts with the sign that only the checker knows, and only if the checker ends well."""
    right = checker_says(b'{"nonce": "NONCE", "passed": true, "calls": 1}')
    assert (await grade_asserts(Canned(candidate_says, right), "", CHECK, ["f"], limits)).passed
    crashed = Canned(candidate_says, right, end=outcome("signalled", 9))
    assert not (await grade_asserts(crashed, "", CHECK, ["f"], limits)).passed
    for line in (
        b'{"passed": true, "calls": 1}',
        b'{"nonce": "0", "passed": true}',
        b"{",
        b'{"nonce": "NONCE", "passed": 1, "calls": 1, "error": "x", "line": 1}',
    ):
        assert not (await grade_asserts(Canned(candidate_says, checker_says(line)), "", CHECK, ["f"], limits)).passed


async def test_what_enters_the_candidate(limits: Limits) -> None:
    """The candidate's process is sent its source and its calls, and neither the tests nor the sign."""
    heard: list[bytes] = []

    def hear(line: bytes) -> list[bytes]:
        heard.append(line)
        return candidate_says(line)

    call = b'{"call": "f", "arguments": [1], "named": {}}'
    sandbox = Canned(hear, checker_says(call))
    await grade_asserts(sandbox, "source", "assert f(1) == 'secret'", ["f"], limits)
    assert heard[1] == call
    assert all(word not in line for line in heard for word in (b"secret", b"nonce"))


@pytest.mark.parametrize(
    "checker", ["assert f(1)", "raise ValueError", "self.assertEqual(f(1), 1)", "assert_close(f(1), 1)"]
)
def test_what_asserts(checker: str) -> None:
    """A statement that may fail, or a call of something whose name says so."""
    _require_assertions(checker)


@pytest.mark.parametrize("checker", ["assertion", "f[0]()", "check(1).run()", "asserted = f(1)"])
def test_what_asserts_nothing(checker: str) -> None:
    """A name alone, a call of what has none, and other calls."""
    with pytest.raises(GraderError, match=r"^the tests assert nothing; every program would pass$"):
        _require_assertions(checker)


def test_verdicts_of_a_checker() -> None:
    """Passed, failed with the line, or no tests at all."""
    passed = _verdict({"passed": True, "calls": 1}, ["f"])
    assert (passed.passed, passed.detail) == (True, "the tests passed")
    wrong = _verdict({"passed": False, "calls": 0, "error": "KeyError", "line": 7}, ["f"])
    assert (wrong.passed, wrong.detail) == (False, "KeyError on line 7 of the tests")
    with pytest.raises(GraderError, match=r"^the tests call none of f, g; every program would pass$"):
        _verdict({"passed": True, "calls": 0}, ["f", "g"])
    with pytest.raises(GraderError, match=r"^broken$"):
        _verdict({"fault": "broken", "passed": True, "calls": 1}, ["f"])


async def test_processes_that_end_too_early(limits: Limits) -> None:
    """A checker that ends, before its verdict or with it, is told as such, and so is a candidate."""
    silent = Canned(candidate_says, lambda _: [], end=outcome("wall", None))
    assert (await grade_asserts(silent, "", CHECK, ["f"], limits)).detail == "the tests took too long"
    right = checker_says(b'{"nonce": "NONCE", "passed": true, "calls": 1}')
    crashed = Canned(candidate_says, right, end=outcome("signalled", 9))
    assert (await grade_asserts(crashed, "", CHECK, ["f"], limits)).detail == "the tests crashed (signal 9)"
    gone = Canned(lambda _: [], end=outcome("memory", None))
    assert (await grade_asserts(gone, "", CHECK, ["f"], limits)).detail == "took too much memory"


async def test_bounds_and_messages(limits: Limits) -> None:
    """Both processes may print eight times as much; an answer of 8 MiB passes, and one byte more is too much."""
    seen: list[Limits] = []
    heard: list[bytes] = []

    class Box(Canned):
        def session(self, program: Program, limits: Limits) -> Any:
            """Note the bounds."""
            seen.append(limits)
            return super().session(program, limits)

    def checks(line: bytes) -> list[bytes]:
        heard.append(line)
        verdict = checker_says(b'{"call": "f"}', b'{"nonce": "NONCE", "passed": true, "calls": 1}')
        return list(verdict(line))

    for extra, detail in ((0, "the tests passed"), (1, "returned too much")):
        answer = b"x" * (8 * 2**20 + extra)
        box = Box(lambda line, answer=answer: [b'{"ready": true}'] if b'"source"' in line else [answer], checks)  # type: ignore[misc]
        assert (await grade_asserts(box, "", CHECK, ["f"], limits)).detail == detail
    assert [one.output_bytes for one in seen] == [8 * limits.output_bytes] * 4
    told = json.loads(heard[0])
    assert (told["tests"], told["names"], len(told["nonce"])) == (CHECK, ["f"], 32)
    assert len(heard) == 3  # the answer went to the checker where it was not too long
