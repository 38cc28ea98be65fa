"""The grader of free answers: mathematics, measured numbers, words, and what it can not tell."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evals.graders.algebra.pool import Checkers
from evals.graders.free_form import match, same_words


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
