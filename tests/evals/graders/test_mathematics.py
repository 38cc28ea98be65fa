"""The grader of mathematics: what it accepts and refuses, what hostile answers cost, and whose fault a failure is."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.graders.algebra.equal import equal
from evals.graders.algebra.lexer import UnreadableError
from evals.graders.algebra.pool import Checkers, Verdict, _EndedError, _Worker
from evals.graders.algebra.reading import read
from evals.graders.mathematics import _POSITIVE, answer_key, as_number, check, read_answer
from tests.evals.graders.told import own, shared
from trinity.errors import GraderError

ACCEPT, REJECT = True, False


@pytest.fixture(scope="module")
def by() -> Iterator[Checkers]:
    """One process that compares, for all tests of this file."""
    made = Checkers(workers=1, cpu_s=2.0)
    yield made
    made.close()


async def right(gold: str, reply: str, by: Checkers, question: str = "") -> bool:
    """Whether the grader accepts a reply."""
    return (await check(gold, read_answer(reply), question=question, by=by)).right


@pytest.mark.parametrize("case", [*shared("math", "math_extract", "harness"), *own("math")])
async def test_cases_that_graders_got_wrong(case: dict[str, str], by: Checkers) -> None:
    """Each answer has the outcome that it should have."""
    expected = case["right_outcome"] == "accept"
    assert await right(case["expected"], case["response"], by, case["prompt"]) is expected


CONVENTIONS = [
    ("12,000", "12000", ACCEPT),
    ("12,000", "12 000", ACCEPT),
    ("12,000", "120,00", REJECT),
    ("x^2", "x^{2}", ACCEPT),
    ("x^12", "x^{12}", ACCEPT),
    (r"\frac12x", "x/2", ACCEPT),
    (r"2\pi r", r"r2\pi", ACCEPT),
    (r"3R^2", r"3r^2", ACCEPT),
    ("2x+1", "2n+1", REJECT),
    ("2x", "2", REJECT),
    ("2", "2x", REJECT),
    (r"(-1)^n", r"\cos(n\pi)", ACCEPT),
    (r"\frac{n(n+1)}{2}", r"\binom{n+1}{2}", ACCEPT),
    (r"\log_2 3", r"\frac{\ln 3}{\ln 2}", ACCEPT),
    (r"\tan^{-1} 2", r"\arctan 2", ACCEPT),
    (r"\sqrt[3]{-8}", "-2", ACCEPT),
    (r"0.\overline{3}", "1/3", ACCEPT),
    ("720", "6!", ACCEPT),
    ("10^{100}", "10^{101}", REJECT),
    ("f(x)=x^2", "x^2", ACCEPT),
    ("y=2x+3", "y-2x=3", ACCEPT),
    ("y=2x+3", "y=3x+2", REJECT),
    ("x<3", "3>x", ACCEPT),
    ("x<3", "x>3", REJECT),
    ("2x+y<3", "4x+2y<6", ACCEPT),
    ("2x+y<3", "-2x-y<-3", REJECT),
    ("[0,4)", "[0,4]", REJECT),
    ("(0,4)", "]0,4[", ACCEPT),
    (r"\mathbb{R}", r"(-\infty,\infty)", ACCEPT),
    (r"\mathbb{R}\setminus\{2,-2\}", r"(-\infty,-2)\cup(-2,2)\cup(2,\infty)", ACCEPT),
    (r"\{1,2\}", "(1,2)", REJECT),
    ("1,2", r"\{2,1\}", ACCEPT),
    ("6", "6 or 7", REJECT),
    ("6", r"6 \text{ or } \frac{12}{2}", ACCEPT),
    (r"5\sqrt{2}", r"5\sqrt{2} \approx 7.07", ACCEPT),
    (r"5\sqrt{2}", r"x \approx 7.07", REJECT),
    ("7.07", r"5\sqrt{2} \approx 7.07", ACCEPT),
    ("10 m/s", r"10\ \mathrm{m\,s^{-1}}", ACCEPT),
    (r"10\text{ m/s}", r"10 \text{ km/h}", REJECT),
    ("15 minutes", "15 min", ACCEPT),
    ("2:00", "2:00 pm", ACCEPT),
    (r"\text{no solution}", r"\emptyset", ACCEPT),
    (r"\text{(B)}", "B", ACCEPT),
    (r"\text{Monday}", "Tuesday", REJECT),
]  # fmt: skip
FOREIGN = [
    (r"\sum_{k=1}^{10} k", "55", ACCEPT),
    (r"55", r"\sum_{k=1}^{9} k", REJECT),
    (r"\int_0^1 x dx", r"\frac{1}{2}", ACCEPT),
    (
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}\begin{pmatrix}1\\1\end{pmatrix}",
        r"\begin{pmatrix}3\\7\end{pmatrix}",
        ACCEPT,
    ),
    (r"\frac{1}{2", r"\frac{1}{2", ACCEPT),
    ("4", r"4\foo{3}", REJECT),
]
"""Of which our own reader does not know what one of them says."""


@pytest.mark.parametrize(("gold", "answer", "expected"), [*CONVENTIONS, *FOREIGN])
async def test_conventions(gold: str, answer: str, expected: bool, by: Checkers) -> None:
    """Values decide, and units, bases, brackets, names and order count as the module says."""
    assert (await check(gold, answer, by=by)).right is expected


@pytest.mark.parametrize(("gold", "answer", "expected"), CONVENTIONS)
def test_conventions_of_our_own_reader(gold: str, answer: str, expected: bool) -> None:
    """The same verdicts without a process and without a second reader."""
    assert equal(read(gold), read(answer)) is expected


@pytest.mark.parametrize("case", own("math"))
def test_own_cases_by_our_own_reader(case: dict[str, str]) -> None:
    """The same of the cases, but for six that it leaves to others or that are none."""
    answer = read_answer(case["response"])
    told: bool | None = None
    with contextlib.suppress(UnreadableError):
        positive = bool(_POSITIVE.search(case["prompt"]))
        told = equal(read(case["expected"]), read(answer), positive=positive) if answer else False
    left = {f"own-math-{number:02}" for number in (8, 12, 30, 72, 78, 79)}
    assert told is (None if case["id"] in left else case["right_outcome"] == "accept")


async def test_what_the_question_says_of_symbols_counts(by: Checkers) -> None:
    """A root of a square is the number itself where the question makes it positive, else not."""
    assert await right("n", r"\boxed{\sqrt{n^2}}", by, "Simplify for n > 0.")
    assert not await right("n", r"\boxed{\sqrt{n^2}}", by, "Simplify for all real n with n < 10.")


async def test_no_answer_and_no_reference(by: Checkers) -> None:
    """A reply without an answer is wrong; a reference that is empty is a failure of the grader."""
    assert (await check("5", None, by=by)).reason == "no answer"
    with pytest.raises(GraderError, match=r"^the reference answer is empty$"):
        await check(" ", "5", by=by)


@pytest.mark.parametrize(
    "answer",
    [
        r"\sum_{k=1}^{99999999} \frac{1}{k^2+1}",
        r"\int \frac{1}{\sin(x^5+\cos x)} dx",
        r"\Gamma(9999999)",
        r"9^{9^{9^{9}}}",
        "99999!!!!",
        r"\binom{99999}{44444}",
        r"\sqrt{\sqrt{2}}" + "^{2}" * 60,
        r"\def\a{\a\a}\a",
        "{" * 1500,
        r"\frac" * 300,
        r"\begin{pmatrix}" * 100,
        r"\pm 1" * 40,
        "(x+1)" * 150,
        r"\sin " * 290 + "x",
        "1," * 500,
        "1e999",
        "\x00\ud800",
        "__import__('os').system('touch pwned')",
        "9" * 1_000_000,
    ],
)
async def test_hostile_answers_are_wrong_and_the_next_is_graded(answer: str, by: Checkers) -> None:
    """Whatever an answer would cost, it is wrong within its CPU time, and the process after it works."""
    start = time.process_time()
    for gold in ("2", r"\sqrt{2}x+1"):
        assert not (await check(gold, answer, by=by)).right
    assert await right(r"\sqrt{8}", r"\boxed{2\sqrt{2}}", by)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "piece", ["9", "{", r"\boxed{", r"\boxed{1}", "Answer:", "$x$", '{"answer": "', r"\frac{", "a"]
)
def test_a_long_reply_is_read_fast(piece: str) -> None:
    """Ten megabytes of any repetition are read in less than two seconds, bare or in JSON."""
    text = piece * (10_000_000 // len(piece))
    start = time.process_time()
    answer_key(text)
    answer_key('{"answer": "' + text + '"}')
    assert time.process_time() - start < 2


@given(st.text(alphabet="0123456789.,-+/=^_(){}[]|<>! \\abfrncsqtxpi$%", max_size=60))
@settings(max_examples=300)
def test_any_text_gets_a_key_or_none(text: str) -> None:
    """No text makes the key raise, and equal texts have equal keys."""
    assert answer_key(f"Answer: {text}") == answer_key(f"Answer: {text}")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Answer: 0.5", r"\boxed{\frac12}"),
        ("Answer: x = 5", r"\boxed{5}"),
        ("Answer: 1, 2, 3", r"\boxed{\{3,2,1\}}"),
        ("Answer: 12,000 apples", r"\boxed{12000}"),
        (r"\boxed{a+b}", r"\boxed{b + a}"),
        (r"\boxed{\text{Evelyn}}", "Answer: Evelyn."),
    ],
)
def test_equal_answers_share_a_key(one: str, other: str) -> None:
    """Spellings of one answer count as one vote."""
    assert answer_key(one) == answer_key(other) is not None


def test_different_answers_have_different_keys() -> None:
    """A sign, a bracket, an order of a pair or a base is another vote."""
    texts = ["5", "-5", "(1,2)", "(2,1)", "[1,2]", "x+1", "x-1", "2 3/4", "23/4", "243_6", "243_7"]
    assert len({answer_key(f"Answer: {text}") for text in texts}) == len(texts)


def test_numbers_with_units() -> None:
    """A number is its exact value; per cent is a hundredth; a formula in a symbol is none."""
    found = as_number(r"2.50 \text{ m}")
    assert found is not None
    assert (str(found.value), found.units, found.decimal) == ("5/2", frozenset({"m"}), True)
    assert as_number("x") is None
    assert str(getattr(as_number(r"50\%"), "value", None)) == "1/2"


async def test_many_at_once_and_from_another_thread(by: Checkers) -> None:
    """A thousand gradings wait for one process without a clock running, also in a loop of another thread."""
    found = await asyncio.gather(*(right(r"\sqrt{7}", r"\boxed{\frac{7}{\sqrt 7}}", by) for _ in range(1000)))
    assert all(found)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(right("x+x", r"\boxed{2x}", by))))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert results == [True]


async def test_a_process_that_somebody_kills_is_replaced(by: Checkers) -> None:
    """A killed process costs nothing but a new one: it is not the answer's fault."""
    assert await right(r"\sqrt{8}", r"\boxed{2\sqrt{2}}", by)
    for worker in by._idle:
        worker.process.kill()
        worker.process.wait()
    assert await right(r"\sqrt{8}", r"\boxed{2\sqrt{2}}", by)


def test_nothing_is_left_after_close() -> None:
    """Closing ends every process; using it again starts one."""
    made = Checkers(workers=2)
    for _ in range(2):
        assert made._check("x+x", "2x", positive=False).right
        pids = [worker.process.pid for worker in made._idle]
        assert pids
        made.close()
        assert not any(map(psutil.pid_exists, pids))


class _Scripted(_Worker):
    """Ends over requests that name a word, in the way that the word says."""

    def __init__(self) -> None:
        self.closed = False

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        for word, by_answer in (("hang", True), ("killed", False)):
            if word in request["answer"]:
                raise _EndedError("time" if by_answer else "exit code -9", by_answer=by_answer)
        if "bug" in request["answer"]:
            return {"failed": "KeyError: x"}
        return {"blown": "MemoryError"} if "grow" in request["answer"] else {"right": True, "reason": "compared"}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Checkers:
    """Checkers whose processes do as the answer says."""
    monkeypatch.setattr("evals.graders.algebra.pool._Worker", lambda *_: _Scripted())
    return Checkers(workers=1)


async def test_whose_fault_a_failure_is(scripted: Checkers) -> None:
    """An answer that is too much is wrong; a reference that is, a bug or a process that dies twice is an error."""
    wrong = Verdict(right=False, reason="could not be read in time (time)")
    assert await scripted.check("5", "hang") == wrong
    assert (await scripted.check("5", "grow")).reason == "could not be read in time (MemoryError)"
    for gold, answer, complaint in (
        ("hang", "hang", r"reference answer 'hang' can not be compared with itself: time"),
        ("5", "bug", "failed on '5': KeyError: x"),
        ("5", "killed", "failed: exit code -9"),
    ):
        with pytest.raises(GraderError, match=complaint):
            await scripted.check(gold, answer)
    scripted.close()


def test_a_real_process_ends_at_its_cpu_time() -> None:
    """The kernel ends a process that computes for too long, and that is told as the answer's doing."""
    worker = _Worker(0.2, 60.0)
    try:
        with pytest.raises(_EndedError) as ended:
            worker.ask({"gold": r"\sum_{k=1}^{3} k", "answer": r"\Gamma(9999999)", "positive": False})
    finally:
        worker.close()
    assert ended.value.by_answer
    assert worker.process.returncode == -signal.SIGPROF


def test_a_process_that_does_not_answer_is_given_up() -> None:
    """A stopped process uses no CPU time; the wall clock gives it up, and that is nobody's answer."""
    worker = _Worker(5.0, 60.0)
    worker.wall_s = 0.2
    worker.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(_EndedError, match="no answer in 0 s") as ended:
            worker.ask({"gold": "x", "answer": "2x", "positive": False})
    finally:
        worker.close()
    assert not ended.value.by_answer
