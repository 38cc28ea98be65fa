"""Rows of our own in the columns of the multiple-choice benchmarks and of ZebraLogic."""

from __future__ import annotations

from itertools import permutations
from typing import Any

NAMES = ("Ada", "Bo", "Cy")
DRINKS = ("iced tea", "milk", "root_beer")


def sums(count: int, options: int = 4) -> list[tuple[str, list[str], int]]:
    """Sums with their options and the place of the right one, which goes through all places."""
    made = []
    for index in range(count):
        right = index % options
        made.append((f"What is {index} + 1?", [str(index + 1 + place - right) for place in range(options)], right))
    return made


def mmlu(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Rows as in cais/mmlu, of two subjects in turn."""
    subjects = ("elementary_mathematics", "anatomy")
    return [
        {"question": question, "subject": subjects[index % 2], "choices": choices, "answer": answer}
        for index, (question, choices, answer) in enumerate(sums(first + count))
    ][first:]


def mmlu_pro(count: int) -> list[dict[str, Any]]:
    """Rows as in TIGER-Lab/MMLU-Pro, with three and ten options in turn."""
    made = []
    for index in range(count):
        question, options, right = sums(index + 1, 10 if index % 2 else 3)[index]
        made.append(
            {
                "question_id": 70 + index,
                "question": question,
                "options": options,
                "answer": "ABCDEFGHIJ"[right],
                "answer_index": right,
                "cot_content": "",
                "category": "math" if index % 2 else "physics",
                "src": "own",
            }
        )
    return made


def mmlu_redux(count: int) -> list[dict[str, Any]]:
    """Rows as in edinburgh-dawg/mmlu-redux-2.0 with the subject of each: of five, two are flagged.

    Of the labels called wrong every second one has its correction, by letter.
    """
    errors = ("ok", "wrong_groundtruth", "ok", "no_correct_answer", "ok")
    made = []
    for index, row in enumerate(mmlu(count)):
        error = errors[index % 5]
        right = "ABCD"[row["answer"]] if index % 10 == 1 else None
        shown = (row["answer"] + 1) % 4 if error == "wrong_groundtruth" else row["answer"]
        made.append({**row, "answer": shown, "error_type": error, "source": None, "correct_answer": right})
    return made


def gpqa(count: int) -> list[dict[str, Any]]:
    """Rows as in Idavidrein/gpqa, with a column that must not be read."""
    made = []
    for index, (question, options, right) in enumerate(sums(count)):
        wrong = [option for place, option in enumerate(options) if place != right]
        made.append(
            {
                "Question": question,
                "Correct Answer": options[right],
                **{f"Incorrect Answer {number}": text for number, text in enumerate(wrong, start=1)},
                "Subdomain": "Arithmetic",
                "High-level domain": "Physics",
                "Record ID": f"own{index}",
                "Canary String": "never to be copied",
            }
        )
    return made


def zebra_grid() -> list[dict[str, Any]]:
    """The 36 grids of three houses with a name and a drink each, in the columns of WildEval/ZebraLogic."""
    made: list[dict[str, Any]] = []
    for names in permutations(NAMES):
        for drinks in permutations(DRINKS):
            clues = [f"In house {house}: {name}, {drink}." for house, (name, drink) in _houses(names, drinks)]
            rows = [[str(house), name, drink] for house, (name, drink) in _houses(names, drinks)]
            made.append(
                {
                    "id": f"own-3x2-{len(made)}",
                    "size": "3*2",
                    "puzzle": "Three houses.\n" + "\n".join(clues),
                    "solution": {"header": ["House", "Name", "FavoriteDrink"], "rows": rows},
                    "created_at": "2025-01-01T00:00:00",
                }
            )
    return made


def zebra_mc() -> list[dict[str, Any]]:
    """Two questions on each of those grids."""
    return [
        {
            "id": f"{row['id']}#mc-{house}",
            "puzzle": row["puzzle"],
            "question": f"What is Name of the person who lives in House {house}?",
            "choices": list(NAMES),
            "answer": row["solution"]["rows"][house - 1][1],
            "created_at": row["created_at"],
        }
        for row in zebra_grid()
        for house in (1, 2)
    ]


def _houses(names: tuple[str, ...], drinks: tuple[str, ...]) -> enumerate[tuple[str, str]]:
    return enumerate(zip(names, drinks, strict=True), start=1)
