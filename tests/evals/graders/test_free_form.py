"""The grader of free answers: mathematics, measured numbers, words, and what it can not tell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evals.graders.algebra.pool import Checkers
from evals.graders.free_form import _close, match, same_words


@pytest.fixture(scope="module")
def by() -> Iterator[Checkers]:
    """One process that compares."""
    made = Checkers(workers=1)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        (r"\frac{1}{2}", "0.5", True),
        (r"2\sqrt{2}", r"\sqrt{8}", True),
        ("9.81 m/s^2", "9.8 m/s^2", True),
        ("9.81 m/s^2", "9.5 m/s^2", False),
        ("9.81 m/s", "9.81 km/h", False),
        (r"6.02 \times 10^{23}", r"6.022 \times 10^{23}", True),
        (r"6.02 \times 10^{23}", r"6.02 \times 10^{22}", False),
        ("12", "12.05", False),
        ("The mitochondria", "mitochondria.", True),
        ("Newton's second law", "newton’s Second Law", True),
        ("two electrons", "2 electrons", True),
        ("red, green and blue", "Blue, red, green", True),
        ("red and green", "red", False),
        ("True", "yes", True),
        ("increases", "decreases", False),
        ("not defined", "defined", False),
        ("demand-pull inflation", "inflation", False),
        ("x", "", False),
    ],
)
async def test_references_of_every_kind(reference: str, answer: str, expected: bool, by: Checkers) -> None:
    """Formulas by value, decimals within a hundredth, words without case, articles and order of a list."""
    assert (await match(reference, answer, by=by)).right is expected


async def test_no_answer_is_wrong(by: Checkers) -> None:
    """Nothing matches nothing."""
    assert not (await match("5", None, by=by)).right


def test_marks_alone_are_no_words() -> None:
    """A reference without a letter is not compared as words, and a paraphrase is wrong: nothing judges meaning."""
    assert not same_words("+", "+")
    assert not same_words("the price rises", "prices go up")


@pytest.mark.parametrize(
    ("reference", "answer", "near"),
    [
        ("1.00", "1.01", True),
        ("1.00", "0.99", True),
        ("1.00", "1.0101", False),
        ("-2.0", "-2.02", True),
        ("1", "1.0", False),
        ("9.81 m", "9.81", True),
        ("9.81", "9.81 m", True),
        ("9.81 m", "9.81 s", False),
        ("1.0", "many", False),
        ("many", "1.0", False),
    ],
)
def test_a_hundredth_by_hand(reference: str, answer: str, near: bool) -> None:
    """A decimal reference forgives a hundredth of itself, and units that only one of both names."""
    assert _close(reference, answer) is near


async def test_reasons_are_told(by: Checkers) -> None:
    """Each way to be right has its own; words of more than 2000 characters are not compared."""
    electrons = "2 electrons"
    for answer in (electrons, electrons.ljust(2_000)):
        assert (await match("two electrons", answer, by=by)).reason == "the same words"
    assert not (await match("two electrons", electrons.ljust(2_001), by=by)).right
    assert (await match("9.81", "9.80", by=by)).reason == "within a hundredth"
    assert (await match("two electrons", "three electrons", by=by)).right is False


@pytest.mark.parametrize(
    ("reference", "answer", "same"),
    [
        ("the", "the", True),
        ("the", "a", False),
        ("It is red.", "red", True),
        ("one, two and two", "two, one, two", True),
        ("one, two and two", "two, one", False),
        ("one two", "two one", False),
        ("x_1", "x 1", True),
        ("3", "3", False),
        ("", "", False),
        ("false", "No.", True),
    ],
)
def test_words_by_hand(reference: str, answer: str, same: bool) -> None:
    """Articles go unless nothing else is there; order is free in a list alone."""
    assert same_words(reference, answer) is same
