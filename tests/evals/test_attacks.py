"""Answers that attack the readers of answers: each comes to a reading, or to none, in a few seconds of CPU time."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest

from evals.graders.arrangement import candidates
from evals.graders.chess_move import read_move
from evals.graders.code.extract import extract_code
from evals.graders.free_form import same_words
from evals.graders.grid import read_grid
from evals.graders.judge import shown
from evals.graders.letter import read_letter
from evals.graders.math_text import read_result
from evals.graders.mathematics import answer_key
from evals.graders.number import read_number
from evals.graders.plan.problem import read_problem
from evals.graders.plan.reading import read_plan
from evals.graders.plan.stated import read_claim, read_state
from evals.graders.verdict import read_match, read_preference, read_rating
from evals.tasks.ar_bench import read_guess
from evals.tasks.literals import read_arguments, read_value
from tests.evals.tasks.rows_puzzles import SMALL

pytest.importorskip("chess", reason="the reader of chess moves needs the chess library")

BOUND_S = 10
"""Seconds of CPU time in which an answer is read: a busy machine does not shorten them."""

LONG = 10_000_000
TASK = read_problem(SMALL)
assert TASK is not None
FEN = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"

UNITS = [
    *("0", "{", "\\", "\n", "(", "`", '"', "'", "|", "\0", "\ud800", "\ufdfa", "\uff21", "\u0301", "\u2028"),
    *("answer: ", "Answer: A\n", "the answer is ", "\\boxed{", "\\boxed{1} ", "\\frac{", "\\text{", "1,", "-1/"),
    *("```\n", "```python\n", "[PYTHON]\n", "def f():\n", "f(", "[PLAN]\n", "1. pick up the red block\n", "(a b)\n"),
    *('House 1: {"Name": "', '{"answer": "', "\n{", "[[8]]", "Rating: 8\n", "the answer says ", "Guess: 1 ", "e4 Nf3 "),
    *("Question 1:\n", "<think>", "</think>", "\\'", "x='", "not A or B ", "The plan is invalid: step 1 "),
]
"""What answers repeat."""

CONTEXTS = [("", ""), ("Answer: ", "")]
"""What stands before and behind it."""


def either(*reads: Callable[[str], object]) -> Callable[[str], None]:
    """Read a text in each of these ways; what is no value is refused with a `ValueError`."""

    def read(text: str) -> None:
        for each in reads:
            try:
                each(text)
            except (ValueError, TypeError):
                assert each in STRICT

    return read


STRICT: list[Callable[[str], object]] = [read_value, partial(read_arguments, function="f")]
READERS: dict[str, Callable[[str], object]] = {
    "letter": partial(read_letter, options=["one", "two", "three", "four"]),
    "number": read_number,
    "math_text": read_result,
    "mathematics": answer_key,
    "free_form": partial(same_words, "red, green and blue"),
    "chess_move": partial(read_move, fen=FEN),
    "grid": partial(read_grid, attributes=["Name", "Drink"], houses=3),
    "plan": partial(read_plan, posed=TASK),
    "claim": either(partial(read_claim, posed=TASK), partial(read_state, posed=TASK)),
    "arrangement": lambda text: list(candidates(text)),
    "verdict": either(read_rating, read_preference, read_match),
    "quoting": shown,
    "code": partial(extract_code, wanted=("f",)),
    "guess": read_guess,
    "literals": either(*STRICT),
}


class OverrunError(Exception):
    """Reading took too long."""


def within(read: Callable[[str], object], text: str) -> bool:
    """Whether `text` is read in the CPU time that an answer may take."""

    def stop(_: int, __: FrameType | None) -> None:
        raise OverrunError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, BOUND_S)
    try:
        read(text)
    except OverrunError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return True


@pytest.mark.parametrize("reader", READERS)
def test_what_repeats_without_end_is_read(reader: str) -> None:
    """Texts of 20,000 characters, each of one thing over and over, alone and where answers stand, are all read."""
    texts = [before + unit * (20_000 // len(unit)) + behind for unit in UNITS for before, behind in CONTEXTS]
    assert [text[:40] for text in texts if not within(READERS[reader], text)] == []


@pytest.mark.parametrize("reader", READERS)
def test_ten_million_characters_are_read(reader: str) -> None:
    """No reader does more than read such a text a few times over."""
    assert within(READERS[reader], "Answer: A\n" * (LONG // 10))


def test_what_takes_too_long_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of these tests ends a reader that never ends."""
    monkeypatch.setitem(globals(), "BOUND_S", 0.05)

    def forever(_: str) -> None:
        while True:
            pass

    assert not within(forever, "")
