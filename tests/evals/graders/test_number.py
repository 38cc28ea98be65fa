"""The number grader: what it reads, what it refuses, and how fast."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.graders.number import read_number

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "grader_cases.jsonl"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Answer: 12", "12"),
        ("answer : 12.", "12"),
        ("**Answer:** 12", "12"),
        ("**Answer: 12**", "12"),
        ("The final answer is: 12", "12"),
        ("Answer = 12", "12"),
        ("Answer: 12 apples", "12"),
        ("Answer: **12** apples", "12"),
        ("Answer: 12.0", "12"),
        ("Answer: 12.50", "25/2"),
        ("Answer: .5", "1/2"),
        ("Answer: 1,234,567", "1234567"),
        ("Answer: 70{,}000", "70000"),
        ("Answer: 70\\,000", "70000"),
        ("Answer: 70\u202f000", "70000"),
        ("Answer: $29.00", "29"),
        ("Answer: \\$29", "29"),
        ("Answer: €5", "5"),
        ("Answer: -$5", "-5"),
        ("Answer: $-5", "-5"),
        ("Answer: +7", "7"),
        ("Answer: \u22127", "-7"),
        ("Answer: 3/4", "3/4"),
        ("Answer: 6/8", "3/4"),
        ("Answer: 6/3", "2"),
        ("Answer: \\frac{3}{4}", "3/4"),
        ("Answer: \\boxed{12}", "12"),
        ("Answer: \\(12\\)", "12"),
        ("Answer: $12$", "12"),
        ("Answer: 1.5e3", "1500"),
        ("Answer: 50%", "50"),
        ("Answer: `12`", "12"),
        ("Answer: 3 * 4 = 12", "12"),
        ("Answer: $200,000 - $130,000 = $70,000", "70000"),
        ("Answer: 12 (that is 3 boxes of 4)", "12"),
        ("Answer: (12)", "12"),
        ("Answer: 12, so 12 apples", "12"),
        ("Answer: 5 m\u00b2", "5"),
        ("Answer:\n\n12", "12"),
        ("Answer: <number>\nAnswer: 8", "8"),
        ("8 Answer: <number>", "8"),
        ("Answer: 3\nNo, I forgot one.\nAnswer: 4", "4"),
        ("3 * 4 = 12\n\\boxed{12}\nThat was 3 boxes of 4.", "12"),
        ("So the answer is 12 and not 13 for sure", None),
        ("The answer is 12 because it fits", "12"),
        ("There are 3 boxes, so 12 apples.", "12"),
        ("20 - 8 = 12", "12"),
        ("12", "12"),
        ("Answer: " + "9" * 40, "9" * 40),
        ("7 " + " " * 998, "7"),
        ("7 " + " " * 999, None),
        ("Answer:" + " " * 999 + "7", "7"),
        ("Answer:" + " " * 1000 + "7", None),
        ("Answer: 2:00 pm", "2"),
        ("Answer: 1,000/4", "250"),
        ("Answer: 12 = 12", "12"),
    ],
)
def test_reads_the_number_that_was_meant(text: str, expected: str | None) -> None:
    """Signs, separators, currency, fractions, units and decoration do not change the number that is read."""
    assert read_number(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no idea",
        "Answer: unknown",
        "I had 5 apples.\nAnswer: none of them",
        "Answer: 12 or 13",
        "Answer: 5-7",
        "Answer: 3/0",
        "Answer: 12,5",
        "Answer: " + "9" * 41,
        "Answer: x12",
    ],
)
def test_refuses_what_names_no_single_number(text: str) -> None:
    """No number, two different ones, a division by zero or an absurdly long one is no answer."""
    assert read_number(text) is None


def test_a_run_on_question_does_not_replace_the_answer() -> None:
    """A text that goes on with a question of its own is read up to there, but a restated question is not cut off."""
    assert read_number("Answer: 18\n\nQuestion: A robe takes 2 bolts?\nAnswer: 3") == "18"
    assert read_number("Question: How many?\nAnswer: 12") == "12"


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_equal_numbers_have_equal_keys(value: int) -> None:
    """A whole number written plainly, with separators and as a decimal gives one and the same key."""
    assert {read_number(f"Answer: {form}") for form in (f"{value}", f"{value:,}", f"{value}.00")} == {str(value)}


@given(st.text(alphabet="0123456789.,-+/eE$\\{}()= \nAnswer:boxedfrac*", max_size=200))
def test_any_text_gets_an_answer_or_none(text: str) -> None:
    """No text makes the grader raise, and a key that it gives is a fixed point."""
    key = read_number(text)
    assert key is None or read_number(f"Answer: {key}") == key or len(key) > 40


@pytest.mark.parametrize(
    "piece",
    ["9", "1,", "1,111", "(", "Answer:", "Answer: 1\n", "Question:\n", "\\boxed{", "{,}", "1/", ".", " ", "\\frac{1}{"],
)
def test_a_megabyte_is_read_fast(piece: str) -> None:
    """One megabyte of any hostile repetition takes less than two seconds."""
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    read_number(text)
    read_number(f"Answer: {text}")
    assert time.process_time() - start < 2


@pytest.mark.shared_data
@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_known_traps() -> None:
    """The number cases that other graders got wrong are read right."""
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    numbers = [case for case in cases if case["grader"] == "gsm8k"]
    assert numbers
    for case in numbers:
        assert (read_number(case["response"]) == case["expected"]) is (case["right_outcome"] == "accept"), case["id"]
