"""Results of mathematics: what is read as a number, what as LaTeX, and what is never read as the number in it."""

from __future__ import annotations

import re
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
        ("I counted.\n- 240", "240"),
        ("Answer: - 240", "-240"),
        ("Answer: -$5", "-5"),
        ("Answer: 007", "7"),
        ("Answer: .5", "1/2"),
        ("Answer: (3)", "3"),
        ("Answer: $1,234.50", "2469/2"),
        (r"Answer: 1\,234", "1234"),
        ("Answer: 1\u00a0234", "1234"),
        (r"Answer: 1,\!234", "1234"),
        ("Answer: 5€", "5"),
        ("Answer: 50 %", "50"),
        ("Answer: 12cm", "12"),
        ("Answer: 12 m²", "12"),
        ("Answer: 60 km/h", "60"),
        ("Answer: 25 °C", "25"),
        ("Answer: 3 days", "3"),
        ("Answer: 9 square units", "9"),
        ("Answer: 6 / 8", "3/4"),
        (r"Answer: \frac{-3}{4}", "-3/4"),
        (r"Answer: $\boxed{\dfrac{3}{4}}$", "3/4"),
        ("Answer: 3 1/2", "7/2"),
        (r"Answer: -3\frac12", "-7/2"),
        ("Answer: (B) 240", "240"),
        (r"Answer: \textbf{(B)}\ 240", "240"),
        ("Answer: 240 (3 boxes of 80)", "240"),
        ("Answer: 240 (for 3 * 80 = 240)", "240"),
        ("Answer: x = 3 * 80 = 240", "240"),
        ("Answer: f(1,2) = 3", "3"),
        ("Answer: It's 240, for the least of them is a third.", "It's240,fortheleastofthemisathird"),
        ("Answer: The least value is 3", "3"),
        ("Answer: The area of ABC is 3", "3"),
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


NUMBER = re.compile(r"-?[0-9]+(?:/[0-9]+)?")
FORMULAS = [
    *(
        r"2\pi",
        "2pi",
        "2 pi",
        r"\sqrt{2}",
        "sqrt(2)",
        "√2",
        "∛8",
        r"2\sqrt{2}",
        "2^2",
        "2²",
        "2**2",
        "ln 2",
        "5!",
        "2!",
    ),
    *("2x", "2 x", "x 2", "2xy", "2 xy", "2ab", "2 abc", "2i", "2 i", "x -2", r"2\cdot2", "2 x 2", "2(3)", "2 (3)"),
    *(
        "3+3",
        "3-3",
        "3 - 3",
        "3\u20134",
        "3 + x",
        "±3",
        r"\pm 3",
        "(3,3)",
        "{3,3}",
        r"\{3,3\}",
        r"\{3\}",
        "[3,3]",
        "(0,0)",
    ),
    *(
        "3,3",
        "3;3",
        "3 3",
        "1 2",
        "10 000",
        "1, 234",
        "(1,234)",
        "3:3",
        "3 : 3",
        "3/4/5",
        "3 4/2",
        "|3|",
        "3'",
        "3...",
        "4_5",
    ),
    *(">3", "< 3", "≥3", "x >= 3", "x != 3", r"x \le 3", "x=3, y=4", "x=3 or x=4", r"x=3\quad y=4", "(x, y = 4)"),
    *("at least 3", "more than 3", "not 3", "half of 3", "3 or more", "3 million", "3 factorial", "3 squared"),
    *("3 and a half", "3 choose 2", "3 (mod 5)", "3 times x", "f(3)", "x: 3", r"2\pi m^2", r"\frac{1}{2}x"),
]


@pytest.mark.parametrize("answer", FORMULAS)
def test_a_number_in_a_formula_is_not_the_answer(answer: str) -> None:
    """What is more than one plain number is an answer, as target and as reply the same, and no number."""
    target = normal_form(answer)
    assert target == read_result(f"Answer: {answer}") == read_result(rf"\boxed{{{answer}}}")
    assert target
    assert not NUMBER.fullmatch(target)


def test_different_formulas_stay_different() -> None:
    """White space is kept where it parts two numbers, so that no two results become one."""
    different = [
        "1 2",
        "12",
        "1+2",
        "1,2",
        "(1,2)",
        r"\{1,2\}",
        "[1,2]",
        "1:2",
        "1-2",
        "1^2",
        "1!",
        "1",
        "1 1/2",
        "11/2",
    ]
    assert len({normal_form(answer) for answer in different}) == len(different)


@given(st.text(alphabet="0123 ,;:.+-*/^!()[]{}|<>=±²x", max_size=12))
def test_a_number_comes_from_one_run_of_digits_or_a_fraction(text: str) -> None:
    """No key that is a whole number is put together from digits that stand apart in the text."""
    key = normal_form(text)
    if key is not None and NUMBER.fullmatch(key) and "/" not in key and "/" not in text and "." not in text:
        runs = re.findall(r"[0-9]+", re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", text.rpartition("=")[2]))
        assert [int(run) for run in runs] == [abs(int(key))]


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
