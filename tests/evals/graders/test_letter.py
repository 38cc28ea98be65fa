"""The letter grader: what it reads, what it refuses, and how fast."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.graders.letter import read_letter

OPTIONS = ("a hammer", "the saw", "glue", "a red brush")
CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "grader_cases.jsonl"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Answer: B", "B"),
        ("answer: b", "B"),
        ("Answer: B.", "B"),
        ("Answer: B) the saw", "B"),
        ("Answer: B: the saw", "B"),
        ("Answer: B - the saw", "B"),
        ("Answer: B the saw", "B"),
        ("Answer: (b)", "B"),
        ("Answer: (B) the saw", "B"),
        ("Answer: [B]", "B"),
        ("Answer: **B**", "B"),
        ("**Answer:** B", "B"),
        ("Answer: `B`", "B"),
        ('Answer: "B"', "B"),
        ("Answer: \\boxed{B}", "B"),
        ("Answer: Option B", "B"),
        ("Answer: <B>", "B"),
        ("Answer:\nB", "B"),
        ("Answer: B\nAnswer: <letter>", "B"),
        ("Answer: A", "A"),
        ("Answer: A) a hammer", "A"),
        ("Answer: A because a hammer is heavy", "A"),
        ("Answer: A, a hammer", "A"),
        ("Answer: a hammer", "A"),
        ("Answer: A hammer", "A"),
        ("Answer: a saw", "B"),
        ("Answer: Glue.", "C"),
        ("Answer: A red brush", "D"),
        ("Answer: A\nWait.\nAnswer: C", "C"),
        ("The answer is B because a car moves.", "B"),
        ("So the answer is (C).", "C"),
        ("B", "B"),
        ("(b)", "B"),
        ("**B**", "B"),
        ("B) the saw", "B"),
        ("the saw", "B"),
        ("Nails need a hammer.\n\nA", "A"),
        ("Antwort: C", "C"),
        ("\\boxed{D}", "D"),
    ],
)
def test_reads_the_option_that_was_meant(text: str, expected: str) -> None:
    """Letters in any dress, and an option's own text, count as that option."""
    assert read_letter(text, OPTIONS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A tool is needed here.",
        "A",
        "Answer: A tool that hits",
        "Answer: A or B",
        "Answer: B and C",
        "Answer: A/B",
        "Answer: E",
        "Answer: none",
        "Answer: Because it is heavy",
        "Answer: don't know",
        "I think a hammer is best here",
        "Because B is wrong",
        "Answer: A's",
    ],
)
def test_refuses_what_names_no_single_option(text: str) -> None:
    """An article, a word's first letter, two letters or a letter beyond the options is no answer."""
    expected = "A" if text == "A" else None
    assert read_letter(text, OPTIONS) == expected


def test_more_options_than_ten() -> None:
    """Sixteen options have sixteen letters."""
    assert read_letter("The answer is (L).", [f"option {n}" for n in range(16)]) == "L"


def test_an_option_text_that_two_options_share_is_no_letter() -> None:
    """Options that differ in their article alone can not be told apart by text."""
    assert read_letter("Answer: hammer", ("a hammer", "the hammer", "x", "y")) is None


@given(st.text(alphabet="ABCDEabcd answer:()*`.\n\\boxed{}", max_size=120))
def test_any_text_gets_an_option_or_none(text: str) -> None:
    """No text makes the grader raise or name an option that does not exist."""
    assert read_letter(text, OPTIONS) in {*"ABCD", None}


@pytest.mark.parametrize(
    "piece", ["A", "A ", "(", "*", " ", "\n", "Answer:", "Answer is ", "B or ", "Question:", "\\boxed{", "A) "]
)
def test_a_megabyte_is_read_fast(piece: str) -> None:
    """One megabyte of any hostile repetition takes less than two seconds."""
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    read_letter(text, OPTIONS)
    read_letter(f"Answer: {text}", OPTIONS)
    assert time.process_time() - start < 2


@pytest.mark.shared_data
@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_known_traps() -> None:
    """The multiple-choice cases that other graders got wrong are read right."""
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    choices = [case for case in cases if case["grader"] == "mcq"]
    assert choices
    for case in choices:
        options = [f"option number {number}" for number in range(16 if case["expected"] > "J" else 10)]
        assert read_letter(case["response"], options) == case["right_outcome"], case["id"]
