"""Everyday questions: the packaged file is sound, and a broken one is named with its line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.tasks.everyday import DATA, Everyday, read_questions
from trinity.canonical import folded
from trinity.errors import ConfigError, DataError

ROW = {"id": "x-1", "domain": "x", "difficulty": 1, "question": "Which?", "right": "a", "wrong": ["b", "c", "d"]}


def task(path: Path | None = None, **sizes: int) -> Everyday:
    """The task with six items of each split."""
    return Everyday(**{"data_seed": 0, "n_train": 6, "n_val": 6, "n_test": 6, **sizes}, path=path)


def test_the_packaged_questions_are_many_and_even() -> None:
    """At least 120 questions, in at least ten domains, as many of each difficulty (give or take two)."""
    questions = read_questions(DATA)
    levels = Counter(question.difficulty for question in questions)
    assert len(questions) >= 120
    assert len({question.domain for question in questions}) >= 10
    assert max(levels.values()) - min(levels.values()) <= 2


def test_no_answer_gives_itself_away() -> None:
    """The right option is the longest of the four in less than half of the questions, and never inside the question."""
    questions = read_questions(DATA)
    longest = [q for q in questions if all(len(q.right) > len(wrong) for wrong in q.wrong)]
    assert len(longest) < len(questions) / 2
    assert not [q.id for q in questions if folded(q.right) == folded(q.question)]


def test_right_letters_are_balanced_in_every_split() -> None:
    """Each letter is right equally often, give or take one, and stands at the right option."""
    rights = {question.id: question.right for question in read_questions(DATA)}
    made = task(n_train=60, n_val=30, n_test=40)
    for split in ("train", "val", "test"):
        items = list(made.items(split))
        counts = Counter(item.target for item in items)
        assert max(counts[letter] for letter in "ABCD") - min(counts[letter] for letter in "ABCD") <= 2
        for item in items:
            assert f"{item.target}) {rights[item.meta['question_id']]}" in item.prompt.splitlines()


def test_an_option_text_is_its_letter() -> None:
    """The right option's words are as good as its letter."""
    made = task()
    for item in made.items("test"):
        right = item.meta["options"]["ABCD".index(item.target)]
        assert made.key(item, f"Answer: {right}") == item.target


def test_more_questions_than_there_are_is_refused() -> None:
    """Splits that ask for more than the file holds are a ConfigError that says what to lower."""
    with pytest.raises(ConfigError, match="lower n_train"):
        task(n_train=5000).items("test")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path that does not exist is a DataError with that path."""
    with pytest.raises(DataError, match=r"none\.jsonl:1"):
        task(tmp_path / "none.jsonl").items("test")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "no JSON"),
        ("", "no JSON"),
        ("[]", "fields"),
        ('{"id": "x"}', "fields"),
        ({**ROW, "more": 1}, "fields"),
        ({**ROW, "id": ""}, "id is no filled str"),
        ({**ROW, "difficulty": "1"}, "difficulty is no filled int"),
        ({**ROW, "difficulty": True}, "difficulty is no filled int"),
        ({**ROW, "difficulty": 4}, "difficulty is 4"),
        ({**ROW, "wrong": ["b", "c"]}, "three wrong"),
        ({**ROW, "wrong": ["b", "c", " A "]}, "different"),
        ({**ROW, "wrong": ["b", "c", 3]}, "three wrong"),
        ({**ROW, "id": "other"}, "already in line 1"),
        ({**ROW, "question": "Other?"}, "already in line 1"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: Any, complaint: str) -> None:
    """What is wrong with a line is said with file and line number."""
    path = tmp_path / "q.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    path.write_text(f"{json.dumps(ROW)}\n{text}\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"q\.jsonl:2: .*{complaint}"):
        task(path).items("test")


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    """A binary file is a DataError, not a traceback."""
    path = tmp_path / "q.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="can not be read"):
        task(path).items("test")
