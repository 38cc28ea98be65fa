"""Results of mathematics: what is read as a number, what as LaTeX, and what is never read as the number in it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.graders.math_text import normal_form, read_result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Answer: 240", "240"),
        ("Answer: $240$", "240"),
        ("Answer: **240**", "240"),
        ("Answer: 240 grams", "240"),
        ("Answer: 240.0", "240"),
        (r"Answer: 1{,}234", "1234"),
        (r"Answer: \frac34", "3/4"),
        (r"Answer: $\dfrac{6}{8}$", "3/4"),
        ("Answer: 0.75", "3/4"),
        (r"Answer: -\frac{1}{2}", "-1/2"),
        (r"Answer: 60^\circ", "60"),
        (r"Answer: 50\%", "50"),
        ("Answer: x = 5", "5"),
        (r"Answer: 12\,\text{cm}^2", "12"),
        (r"Thus \boxed{12}", "12"),
        ("There are 3 boxes.\nSo the total is 240.", "240"),
    ],
)
def test_reads_a_number(text: str, expected: str) -> None:
    """Units, signs, separators, LaTeX and Markdown around a number do not change it."""
    assert read_result(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"Answer: 2\sqrt{3}", r"2\sqrt{3}"),
        (r"Answer: $2 \sqrt3$.", r"2\sqrt{3}"),
        ("Answer: 2√3", r"2\sqrt{3}"),
        (r"Answer: \(\tfrac{\sqrt{3}}{2}\)", r"\frac{\sqrt{3}}{2}"),
        (r"\boxed{\dfrac{\sqrt 3}{2}}", r"\frac{\sqrt{3}}{2}"),
        (r"Answer: $x=\frac{\sqrt{3}}{2}$", r"\frac{\sqrt{3}}{2}"),
        (r"Answer: \left(1,\ 2\right)", "(1,2)"),
        (r"Answer: 2π", r"2\pi"),
        (r"Answer: \text{Tuesday}", "Tuesday"),
        (r"The box holds $2\sqrt{3}$ of it" + "\n" + r"$2\sqrt{3}$", r"2\sqrt{3}"),
    ],
)
def test_reads_a_formula(text: str, expected: str) -> None:
    """Two ways to typeset a formula give one text."""
    assert read_result(text) == expected


@pytest.mark.parametrize(
    "answer",
    [r"2\pi", "2pi", "2 pi", r"\sqrt{2}", "sqrt(2)", "√2", r"2\sqrt{2}", "2^2", "2x", r"2\cdot2", r"2\frac{1}{2}"],
)
def test_a_number_in_a_formula_is_not_the_answer(answer: str) -> None:
    """A root, a power, a product, a constant or a variable is an answer, but not the 2 in it."""
    assert read_result(f"Answer: {answer}") not in {None, "2", "1/2", "11/2", "21/2"}


@pytest.mark.parametrize("text", ["", "no idea", "Answer: <result>", "Answer: $$", "I think that it is hard to say."])
def test_words_without_a_result_are_no_answer(text: str) -> None:
    """Prose, an empty formula and an echo of the form are no answer."""
    assert read_result(text) is None


def test_two_numbers_are_an_answer_that_is_neither() -> None:
    """Who names two results has answered, and with neither of them."""
    assert read_result("Answer: 12 or 13") not in {None, "12", "13"}


@given(st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=999))
def test_a_target_equals_an_answer_with_the_same_number(value: object) -> None:
    """A fraction written plainly, in LaTeX or boxed is the key that a target of its value has."""
    top, _, bottom = str(value).partition("/")
    sign, digits = ("-", top[1:]) if top.startswith("-") else ("", top)
    tex = rf"{sign}\frac{{{digits}}}{{{bottom or 1}}}"
    forms = [f"Answer: {value}", f"Answer: ${tex}$", rf"\boxed{{{tex}}}"]
    assert {read_result(form) for form in forms} == {str(value)} == {normal_form(str(value))}


@given(st.text(alphabet="0123456789.,-+/^_\\{}()$= \nAnswer:boxedfracsqrtpi√π", max_size=200))
def test_any_text_gets_a_result_or_none(text: str) -> None:
    """No text makes the grader raise or give an empty key."""
    assert read_result(text) != ""


@pytest.mark.parametrize(
    "piece", [r"\text{", r"\frac", "$", "{", r"\sqrt", "^", "1", r"\boxed{a}", "√", "=", "a b ", " "]
)
def test_a_megabyte_is_read_fast(piece: str) -> None:
    """One megabyte of any hostile repetition takes less than two seconds."""
    text = piece * (1_000_000 // len(piece))
    start = time.process_time()
    read_result(text)
    read_result(f"Answer: {text}")
    assert time.process_time() - start < 2
