"""Functions graded by what they return."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from evals.graders.code import CallTest, grade_calls
from evals.graders.code.candidate import load
from evals.graders.code.harness import STARTER
from evals.sandbox.base import MIB, Limits, Program, Sandbox
from tests.evals.graders.code.canned import Canned, CannedSession, Script, outcome
from trinity.errors import GraderError

DOUBLES = [CallTest(([n, n + 1],), [2 * n, 2 * n + 2]) for n in range(1, 6)]
WAYS = "def f(xs):\n    "
KEEPS = """
class Solution:
    def __init__(self):
        self.out = []
    def f(self, xs):
        self.out += [2 * x for x in xs]
        return self.out
"""
SPENDS = """
import time
def f(x):
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    return x
"""


@pytest.mark.parametrize(
    "source",
    [
        "class Solution:\n    def f(self, xs: List[int]) -> List[int]:\n        return [2 * x for x in xs]",
        "def f(xs):\n    return tuple(2.0 * x for x in xs)",
        "f = lambda xs: list(map(lambda x: x + x, xs))",
        KEEPS,
        "def f(xs):\n    print('looking at', xs)\n    xs[:] = [2 * x for x in xs]\n    return xs",
        "@cache\ndef g(x):\n    return x + x\ndef f(xs):\n    return list(accumulate([g(xs[0]), 2]))",
        "@dataclasses.dataclass\nclass P:\n    x: int\ndef f(xs):\n    return [P(2 * x).x for x in xs]".replace(
            "@", "import dataclasses\n@", 1
        ),
        "if __name__ == '__main__':\n    input()\n" + WAYS + "return [x << 1 for x in xs]",
    ],
)
async def test_right_functions(trusted: Sandbox, limits: Limits, source: str) -> None:
    """A method of a new `Solution` or a function is called, with the imports that LeetCode provides."""
    verdict = await grade_calls(trusted, source, "f", DOUBLES, limits)
    assert verdict.passed, verdict


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        (WAYS + "return xs", "test 1 of 5: wrong result"),
        (WAYS + "return [2 * x for x in xs] if xs[0] < 4 else None", "test 4 of 5: wrong result"),
        (WAYS + "return [2 * x // (x != 3) for x in xs]", "test 2 of 5: raised ZeroDivisionError"),
        (WAYS + "class Own(KeyError): pass\n    raise Own(1)", "test 1 of 5: raised KeyError"),
        (WAYS + "sys.exit()", "test 1 of 5: raised SystemExit"),
        (WAYS + "return f(xs)", "test 1 of 5: raised RecursionError"),
        (WAYS + "return object()", "test 1 of 5: wrong result"),
        (WAYS + "return iter([2, 4])", "test 1 of 5: wrong result"),
        (WAYS + "yield 2\n    yield 4", "test 1 of 5: wrong result"),
        (WAYS + "x = []\n    x.append(x)\n    return x", "test 1 of 5: wrong result"),
        (WAYS + "while True:\n        pass", "test 1 of 5: took too much CPU time"),
        (WAYS + "import time\n    time.sleep(60)", "test 1 of 5: waited too long"),
        (WAYS + "import os\n    os._exit(0)", "test 1 of 5: ended early"),
        (WAYS + "import os\n    os.abort()", "test 1 of 5: crashed (signal 6)"),
        (WAYS + "return 'x' * 10**6", "test 1 of 5: wrong result"),
        ("def g(xs):\n    return xs", "test 1 of 5: there is no such function"),
        ("def f(xs:", "test 1 of 5: does not load: SyntaxError"),
        ("1 / 0", "test 1 of 5: does not load: ZeroDivisionError"),
        ("n = int(input())", "test 1 of 5: does not load: EOFError"),
        ("exit()", "test 1 of 5: does not load: SystemExit"),
        ("while True:\n    pass", "test 1 of 5: took too much CPU time"),
    ],
)
async def test_wrong_functions(trusted: Sandbox, limits: Limits, source: str, detail: str) -> None:
    """The first test that fails is named with what went wrong."""
    verdict = await grade_calls(trusted, source, "f", DOUBLES, limits)
    assert not verdict.passed
    assert verdict.detail.startswith(detail) or "RecursionError" in detail, verdict


async def test_each_test_has_its_own_bounds(trusted: Sandbox, limits: Limits) -> None:
    """Time that earlier tests have used up is not missing to a later one."""
    limits = replace(limits, cpu_s=0.7)
    tests = [CallTest((n,), n) for n in range(4)]
    verdict = await grade_calls(trusted, SPENDS, "f", tests, limits)
    assert verdict.passed, verdict
    slow = SPENDS.replace("0.3", "0.3 if x != 3 else 9")
    assert (await grade_calls(trusted, slow, "f", tests, limits)).detail == "test 4 of 4: took too much CPU time"


async def test_memory_of_each_test(isolated: Sandbox, limits: Limits) -> None:
    """Memory that earlier tests have left behind is not missing to a later one, and more than there is fails."""
    few = Limits(limits.cpu_s, limits.idle_s, limits.wall_s, memory_bytes=200 * MIB)
    source = "kept = []\ndef f(n):\n    kept.append(b'a' * (n * 2**20))\n    return n"
    assert (await grade_calls(isolated, source, "f", [CallTest((80,), 80)] * 6, few)).passed
    tests = [CallTest((80,), 80), CallTest((400,), 400)]
    assert (await grade_calls(isolated, source, "f", tests, few)).detail == "test 2 of 2: raised MemoryError"


async def test_arguments_are_copies(trusted: Sandbox, limits: Limits) -> None:
    """A function that changes its arguments changes neither a later test nor what is expected."""
    shared = [3, 1, 2]
    tests = [CallTest((shared,), shared), CallTest((shared,), shared)]
    assert not (await grade_calls(trusted, WAYS + "xs.sort()\n    return xs", "f", tests, limits)).passed
    assert shared == [3, 1, 2]


@pytest.mark.parametrize("value", [10**4000, float("inf"), "a\ud800\0\n", [[]], {"a": [1.5]}, None, True, -(2**60)])
async def test_values(trusted: Sandbox, limits: Limits, value: Any) -> None:
    """Values of every kind go in and come out."""
    assert (await grade_calls(trusted, WAYS + "return xs", "f", [CallTest((value,), value)], limits)).passed


async def test_large_numbers(trusted: Sandbox, limits: Limits) -> None:
    """A whole number may have more digits than Python writes."""
    test = CallTest((10**6000,), 10**6000 + 1)
    assert (await grade_calls(trusted, WAYS + "return int(str(xs)) + 1", "f", [test], limits)).passed


async def test_large_values(trusted: Sandbox, limits: Limits) -> None:
    """Many tests with long results pass however small the bound of outputs is."""
    few = Limits(limits.cpu_s, limits.idle_s, limits.wall_s, output_bytes=1000)
    value = list(range(30_000))
    tests = [CallTest((value,), value[::-1])] * 10
    assert (await grade_calls(trusted, WAYS + "return xs[::-1]", "f", tests, few)).passed


async def test_no_tests(trusted: Sandbox, limits: Limits) -> None:
    """Without tests, or with one that no process can be asked, nothing is graded."""
    with pytest.raises(GraderError, match=r"^there are no tests to grade with; every program would pass$"):
        await grade_calls(trusted, WAYS + "return xs", "f", [], limits)
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(GraderError, match=r"^a test of f can not be sent to the sandbox: nested too deeply"):
        await grade_calls(trusted, WAYS + "return xs", "f", [CallTest((circle,), 1)], limits)


def says(*answers: bytes) -> Script:
    """A program that loads and then answers every call with these lines."""
    return lambda line: [b'{"ready": true}'] if b'"source"' in line else list(answers)


FRAMES: Sequence[bytes] = [
    *(b"", b"5", b"[]", b"{}", b"null", b"\xff\xfe", b"{", b'{"value"', b'{"value": 5}', b'{"value": {"int": "zz"}}'),
    *(
        b'{"value": ' + b"[" * 100_000,
        b'{"value": ' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"value": NaN}',
        b'{"value": 1e999}',
    ),
    *(
        b'{"value": ' + b"9" * 3_000 + b"}",
        b'{"value": ' + b"9" * 100_000 + b"}",
        b'{"passed": true}',
        b'{"verdict": "ok"}',
    ),
    *(b'{"raised": 7}', b'{"raised": "x\\ny"}', b'{"missing": true}', b'{"value": {"opaque": ["list", true]}}'),
    b'{"value": "' + b"a" * 10_000_000 + b'"}',
]


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
async def test_hostile_frames(limits: Limits, frame: bytes) -> None:
    """What the channel carries is a wrong result unless it is the right one, and never an error of the grader's."""
    verdict = await grade_calls(Canned(says(frame)), "", "f", [CallTest((1,), [2])], limits)
    assert not verdict.passed
    assert "\n" not in verdict.detail.replace("x\ny", "")


async def test_order_of_frames(limits: Limits) -> None:
    """Answers that are given before they are asked for answer the calls in their order, once each."""
    both = says(b'{"value": [2]}', b'{"value": [3]}')
    assert (await grade_calls(Canned(both), "", "f", [CallTest((1,), [2]), CallTest((1,), [3])], limits)).passed
    assert not (await grade_calls(Canned(both), "", "f", [CallTest((1,), [2])] * 2, limits)).passed


async def test_a_program_that_does_not_load(limits: Limits) -> None:
    """A process that ends before it has loaded, or says nonsense, has not passed."""
    tests = [CallTest((1,), 1)]
    gone = await grade_calls(Canned(lambda _: (), end=outcome("cpu", None)), "", "f", tests, limits)
    assert gone.detail == "test 1 of 1: took too much CPU time"
    odd = await grade_calls(Canned(lambda _: [b'{"ready": 1}', b'{"value": 1}']), "", "f", tests, limits)
    assert odd.detail == "test 1 of 1: does not load: broken message"


async def test_what_enters_the_sandbox(limits: Limits) -> None:
    """What a test expects is in nothing that is sent there."""
    heard: list[bytes] = []

    def hear(line: bytes) -> list[bytes]:
        heard.append(line)
        return [b'{"ready": true}'] if b'"source"' in line else [b'{"value": 0}']

    sandbox = Canned(hear)
    await grade_calls(sandbox, "source", "f", [CallTest(("given",), "secret")], limits)
    assert [json.loads(line) for line in heard] == [
        {"source": "source", "starter": STARTER, "recursion": 50_000},
        {"call": "f", "arguments": ["given"], "named": {}},
    ]
    assert b"secret" not in b"".join(heard)
    assert "secret" not in repr(sandbox.programs)


@pytest.mark.parametrize(
    ("frame", "detail"),
    [
        (b'{"missing": true}', "there is no such function"),
        (b'{"raised": "' + b"x" * 120 + b'"}', f"raised {'x' * 100}"),
        (b'{"told": 1}', "wrong result"),
        (b'{"value": ' + b" " * 4_277 + b"2}", "wrong result"),
    ],
)
async def test_answers_are_told(limits: Limits, frame: bytes, detail: str) -> None:
    """What is no value says why in a line, and one far longer than the expected one can not be right."""
    verdict = await grade_calls(Canned(says(frame)), "", "f", [CallTest((1,), 2)], limits)
    assert (verdict.passed, verdict.detail) == (False, f"test 1 of 1: {detail}")


async def test_an_answer_may_be_longer_than_what_is_expected(limits: Limits) -> None:
    """Up to 16 times its 12 bytes and 4096 more."""
    frame = b'{"value": ' + b" " * 4_276 + b"2}"
    assert (await grade_calls(Canned(says(frame)), "", "f", [CallTest((1,), 2)], limits)).passed


def answers(*frames: bytes) -> Script:
    """A program that loads, gives these answers, one a call, and then ends."""
    left = list(frames)
    return lambda line: [b'{"ready": true}'] if b'"source"' in line else [left.pop(0)] if left else []


async def test_a_bound_that_earlier_tests_used_up_starts_anew(limits: Limits) -> None:
    """A bound met behind right answers is no fault of the next test; by itself it is, and so is a crash."""
    tests, right, full = [CallTest((1,), 1)] * 2, b'{"value": 1}', b'{"raised": "MemoryError"}'
    ends = (
        (Canned(answers(right), answers(right), end=outcome("memory", None)), "2 tests passed", 2),
        (Canned(answers(right), answers(), end=outcome("cpu", None)), "test 2 of 2: took too much CPU time", 2),
        (Canned(answers(right), end=outcome("signalled", 11)), "test 2 of 2: crashed (signal 11)", 1),
        (Canned(answers(right), end=outcome("exited", 0)), "test 2 of 2: ended early", 1),
        (Canned(answers(right, full), answers(full)), "test 2 of 2: raised MemoryError", 2),
        (Canned(answers(right, full), answers(right)), "2 tests passed", 2),
    )
    for box, detail, processes in ends:
        assert (await grade_calls(box, "", "f", tests, limits)).detail == detail
        assert len(box.programs) == processes


async def test_room_for_all_answers(limits: Limits) -> None:
    """The bound of outputs grows by 16 times each expected message and 4096 bytes; the others stay."""
    seen: list[Limits] = []

    class Box(Canned):
        def session(self, program: Program, limits: Limits) -> Any:
            """Note the bounds."""
            seen.append(limits)
            return super().session(program, limits)

    few = replace(limits, output_bytes=10)
    await grade_calls(Box(says(b'{"value": 1}')), "", "f", [CallTest((1,), 1), CallTest((1,), "ab")], few)
    room = 10 + 16 * len('{"value": 1}') + 4096 + 16 * len('{"value": "ab"}') + 4096
    assert seen[0] == replace(limits, output_bytes=room)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b'{"ready": true}', None),
        (b'{"ready": true, "x": "' + b"x" * 4_096 + b'"}', "does not load: broken message"),
        (b'{"broken": "' + b"y" * 120 + b'"}', f"does not load: {'y' * 100}"),
        (b"nonsense", "does not load: broken message"),
    ],
)
async def test_loading_is_told(answer: bytes, fault: str | None) -> None:
    """A candidate says that it is ready, or what was wrong; a report of more than 4096 bytes says nothing."""
    heard: list[bytes] = []

    def hear(line: bytes) -> list[bytes]:
        heard.append(line)
        return [answer]

    assert await load(CannedSession(hear, outcome()), "code") == fault
    assert json.loads(heard[0]) == {"source": "code", "starter": "", "recursion": 0}
