"""Multiple-choice answers that graders got wrong, and the further forms that models give their answers in."""

from __future__ import annotations

import re
from typing import Any

import pytest

from evals.graders.letter import read_letter
from tests.evals.graders.told import own, shared


def numbered(count: int) -> list[str]:
    """Options whose texts say nothing."""
    return [f"option number {number}" for number in range(count)]


@pytest.mark.parametrize("case", [*shared("mcq"), *own("mcq")])
def test_known_traps(case: dict[str, Any]) -> None:
    """Each answer that a public grader got wrong is read right, none where there is none."""
    last = re.search(r"A-([A-Z])", case["prompt"])
    assert last
    assert read_letter(case["response"], numbered(ord(last[1]) - ord("A") + 1)) == case["right_outcome"]


def test_there_are_as_many_of_our_own() -> None:
    """At least twenty cases are ours, each with an id of its own and a source."""
    cases = [parameter.values[0] for parameter in own("mcq")]
    assert len({case["id"] for case in cases}) == len(cases) >= 20
    assert all(case["source"] and case["kind"] for case in cases)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"answer": "(B)", "reasoning": "the answer is A in other books"}', "B"),
        ("{'answer': 'C'}", "C"),
        (r"{\"answer\": \"C\"}", "C"),
        (r'{"answer": "\\boxed{B}"}', "B"),
        ('{"reasoning": "x", "answer": "B"}\n\nAnswer: C', "C"),
        ('{"answer": "option number 3", "confidence": 0.9}', "D"),
        (r'{"answer": "\"option number 3\""}', "D"),
        ('{"answer": "E"}', None),
        ('{"answer": null}', None),
        ('[{"option": "A", "ok": false}, {"option": "D", "ok": false}]', None),
    ],
)
def test_json(text: str, expected: str | None) -> None:
    """The last key `answer` of the object that ends the text counts; a list of options is no answer."""
    assert read_letter(text, numbered(4)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B) and then C) the list goes on: A) x B) y C) z D) w", "B"),
        ("A) x B) y C) z D) w", None),
        ("(A) x (B) y (C) z (D) w", None),
        ("A. x\nB. y\nC. z\nD. w", None),
        ("A. x\nB. y\nC. z\nD. w\n\nB", "B"),
        ("- option number 2\n- option number 3", None),
        ("Options:\nA) x\nB) y\nC) z\nD) w\n\nThe answer is A.", "A"),
        ("#### A. x is wrong\n#### B. y is right\nThe correct answer is B", "B"),
        ("#### B", "B"),
    ],
)
def test_an_echo_of_the_options_is_no_answer(text: str, expected: str | None) -> None:
    """A list of the options chooses none of them; what is chosen behind it counts."""
    assert read_letter(text, numbered(4)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "\uff22",
        "\uff08\uff22\uff09",
        "Answer\uff1a\uff22",
        "\N{CIRCLED LATIN CAPITAL LETTER B}",
        "\N{MATHEMATICAL BOLD CAPITAL B}",
        "Answer: “B”",
        "Answer: 'B'",
        "Answer: «B»",
        "Answer: \\(B\\)",
        "*b*",
    ],
)
def test_letters_in_other_dress(text: str) -> None:
    """Full-width, circled, bold, quoted and typeset letters are that letter."""
    assert read_letter(text, numbered(4)) == "B"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>Answer: A</think>\nB", "B"),
        ("<think>The answer is A.</think>", "A"),
        ("The answer is B.\n\nQuestion: next\nAnswer: C", "B"),
        ("Question: Which one?\nIt cuts.\nAnswer: C", "C"),
        ("B. the saw\n\nHuman: and now?\nAnswer: D", "B"),
    ],
)
def test_what_belongs_to_the_reply(text: str, expected: str) -> None:
    """Thoughts before the reply and questions after it do not count."""
    assert read_letter(text, numbered(4)) == expected


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        (("B cells", "T cells", "NK cells", "B", "mast cells"), "The answer is B cells.", "A"),
        (("True, True", "False, False", "True, False", "False, True"), "Answer: False, True", "D"),
        (("5", "0.5", "50", "5!"), "Answer: 5!", "D"),
        (("5", "0.5", "50", "6"), "Answer: .5", None),
        (("1", "$1", "2", "3"), "Answer: $1", "B"),
        (("[0, 1)", "(0, 1]", "(0, 1)", "[0, 1]"), "Answer: (0, 1]", "B"),
        (("A", "B", "AB", "O"), "Answer: AB", "C"),
        (("B", "A", "AB", "O"), "Answer: B", "B"),
        (("Bb", "BB", "bb", "b"), "Answer: bb", "C"),
        (("$\\frac{1}{2}$", "$2$", "$3$", "$4$"), r"\boxed{\frac{1}{2}}", "A"),
        (("C. elegans", "E. coli", "x", "y", "z"), "Answer: E. coli", "B"),
        (("Vitamin A", "Vitamin C", "x", "y"), "Answer: Vitamin C", "B"),
        (("Vitamin A", "Vitamin C", "x", "y"), "Answer: vitamin C deficiency", None),
        (("a hammer", "the saw", "glue", "x"), "Answer: the saw, because it cuts", "B"),
        (("None of the above", "x", "y", "z"), "Answer: none of the above", "A"),
        (("1", "-1", "i", "-i"), "i", "C"),
        (("same", "same", "x", "y"), "Answer: same", None),
    ],
)
def test_an_option_is_known_by_its_text(options: tuple[str, ...], text: str, expected: str | None) -> None:
    """The text as it is written goes before the text in other dress, a lone letter before any text."""
    assert read_letter(text, options) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Answer: a and b",
        "Answer: a, b",
        "Answer: A/C",
        "Answer: A C",
        "Answer: AC",
        "Answer: both A and B",
        "The answer is neither A nor B.",
        "The answer isn't B.",
        "Answer: A is wrong",
        "As an AI I cannot choose between A and B.",
        "I'm sorry, but I can't help with that.",
        r"\boxed{A, B}",
        r"\boxed{E}",
    ],
)
def test_two_letters_and_refusals_are_no_answer(text: str) -> None:
    """Where no single option is chosen, nothing is guessed."""
    assert read_letter(text, numbered(4)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Answer: B or C? Both are close... I pick C.", "C"),
        ("Answer: Let us look at each tool in turn and see which cuts wood.\n\nThe correct option is (B).", "B"),
        ("We get \\boxed{E=mc^2}. So the correct option is (D).", "D"),
        ("Let's go with D, as A fails.", "D"),
        ("That's why the answer is B.", "B"),
        ("The correct answer among the options is C.", "C"),
        ("(A) is tempting but wrong. (D) is the answer.", "D"),
        ("Option C (photosynthesis) is correct.", "C"),
        ("Answer: A (the hammer)", "A"),
        ("Answer: A the hammer", "A"),
        ("Answer: A, I think", "A"),
        ("C\n\nA is wrong because it is heavy.", "C"),
        ("C. option number 2\n\nExplanation: A is wrong; B is wrong.", "C"),
        ("The most likely diagnosis is B.", "B"),
        ("A resposta correta é a letra D.", "D"),
        ("Answer: (D)/(d)", "D"),
        ("Ans. C", "C"),
    ],
)
def test_sentences(text: str, expected: str) -> None:
    """A sentence that names the answer is read where no plainer declaration is."""
    assert read_letter(text, numbered(10)) == expected


@pytest.mark.parametrize("piece", ['"answer":"', "ﷺ", "Answer: \\boxed{"])
def test_ten_megabytes_are_read(piece: str) -> None:
    """Ten megabytes of any hostile repetition end in an option or none."""
    assert read_letter(piece * (10_000_000 // len(piece)), numbered(16)) in {*"ABCDEFGHIJKLMNOP", None}
