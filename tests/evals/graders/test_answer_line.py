"""The declared answer: what counts as a declaration, and what only looks like one."""

from __future__ import annotations

import pytest

from evals.graders.answer_line import declared


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
