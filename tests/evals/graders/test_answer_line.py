"""The declared answer: what counts as a declaration, and what only looks like one."""

from __future__ import annotations

import pytest

from evals.graders.answer_line import declared, labels


@pytest.mark.parametrize("name", ["number", "letter", "move", "result"])
def test_an_echo_of_the_form_declares_nothing(name: str) -> None:
    """A text that repeats `Answer: <...>` of its task has not answered; what it declares beside that counts."""
    assert declared(f"I end with a line `Answer: <{name}>`.") is None
    assert declared(f"**Answer:** <{name}>\nAnswer: 8\nThe form was Answer: <{name}>.") == " 8"


def test_other_tags_are_part_of_the_answer() -> None:
    """An answer in HTML tags is no echo."""
    assert declared("Answer: <b>12</b>") == " <b>12</b>"


@pytest.mark.parametrize(
    ("box", "inside"),
    [
        (r"\boxed{12}", "12"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\frac{\sqrt{3}}{2}}", r"\frac{\sqrt{3}}{2}"),
        (r"\boxed{\text{Qxf7}\#}", r"\text{Qxf7}\#"),
        (r"\boxed{1} and then \boxed{2}", "2"),
    ],
)
def test_a_box_holds_what_its_braces_hold(box: str, inside: str) -> None:
    """Braces may be nested twice in a box; the last box counts."""
    assert declared(f"So {box}.") == inside


def test_an_open_box_declares_nothing() -> None:
    """A box that was cut off before it closed is none."""
    assert declared(r"So \boxed{\frac{1}{2}") is None


def test_an_answer_stands_on_one_of_the_next_lines() -> None:
    """Seven empty lines may stand before it, not eight; a line of marks is none."""
    assert declared("Answer:" + "\n" * 7 + "12\n13") == "12"
    assert declared("Answer:" + "\n" * 8 + "12") == ""
    assert declared("Answer: **\n---\n 12") == " 12"


@pytest.mark.parametrize(
    ("text", "declaration"),
    [
        ("Answer: 3, \\boxed{4}", " 3, \\boxed{4}"),
        ("\\boxed{4}\n#### 5", "4"),
        ("#### 5\n#### 6", " 5"),
        ("#### 5 as the answer is 6", " 5 as the answer is 6"),
        ("The answer is 6, no, the answer should be 7", " 7"),
        ("#### 5\nQ: next\n\\boxed{6}", " 5"),
        ("\\boxed{4}\nQuestion 2: next\nAnswer: 6", "4"),
        ("Nothing", None),
    ],
)
def test_the_first_kind_of_marker_counts(text: str, declaration: str | None) -> None:
    """A line before a box, that before the first `####`, that before a sentence; what follows a question is cut."""
    assert declared(text) == declaration


@pytest.mark.parametrize(
    ("text", "own", "strong", "weak"),
    [
        ("Answer: 3", "Answer: 3", 7, 7),
        ("we get answer: 3", "we get answer: 3", None, 14),
        ("So the answer: 3", "So the answer: 3", 14, 14),
        ("a. The final answer is 4", "a. The final answer is 4", 22, 22),
        ("by my FINAL ANSWER: 4", "by my FINAL ANSWER: 4", None, 19),
        ("as my final answer is 4", "as my final answer is 4", 21, 21),
        ("Answer: 3, so an answer: 4", "Answer: 3, so an answer: 4", 7, 24),
        ("x\n#### 5\n#### 6", "x\n#### 5\n#### 6", None, 6),
        ("the answer is 4, no, the answer is 5", "the answer is 4, no, the answer is 5", None, 34),
        ("Answer: 3\nQuestion: x\nAnswer: 4", "Answer: 3\n", 7, 7),
        (f"{'x' * 58}. Answer: 3", f"{'x' * 58}. Answer: 3", 67, 67),
        (f"{'x' * 59}. Answer: 3", f"{'x' * 59}. Answer: 3", 68, 68),
        (f"{' ' * 60}Answer: 3", f"{' ' * 60}Answer: 3", None, 67),
        (f"{' ' * 8}Answer: 3", f"{' ' * 8}Answer: 3", 15, 15),
        ("nothing", "nothing", None, None),
    ],
)
def test_labels_by_hand(text: str, own: str, strong: int | None, weak: int | None) -> None:
    """A label at the head of a line or sentence, or that calls its answer final, is strong."""
    assert labels(text) == (own, strong, weak)
