"""Multiple-choice questions of everyday knowledge, written for this suite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from evals.graders.letter import VERSION, read_letter
from evals.tasks.base import SplitTask, item_id
from evals.tasks.hub import line_fault
from trinity.canonical import folded
from trinity.errors import ConfigError, DataError
from trinity.types import SPLITS, Item, Split

DATA = Path(__file__).parent / "data" / "everyday.jsonl"
LETTERS = "ABCD"

_FIELDS = {"id": str, "domain": str, "difficulty": int, "question": str, "right": str, "wrong": list}


@dataclass(frozen=True, slots=True)
class Question:
    """A line of the data file; `difficulty` is 1 (a plain fact), 2 (one inference) or 3 (two, or a negation)."""

    id: str
    domain: str
    difficulty: int
    question: str
    right: str
    wrong: tuple[str, ...]


class Everyday(SplitTask):
    """Questions with four options. `data_seed` cuts the splits and orders the options; A to D are right equally often.

    Args:
        data_seed: as in `SplitTask`.
        n_train: items of the training split.
        n_val: items of the validation split.
        n_test: items of the test split.
        path: a file of JSON lines with the fields of `Question`; default: the packaged questions.
    """

    name = "everyday"
    grader = VERSION
    chance = 0.25
    contract = "End with a line `Answer: <letter>`."

    def __init__(
        self, *, data_seed: int, n_train: int, n_val: int, n_test: int, path: str | Path | None = None
    ) -> None:
        """Keep the settings; the file is read when items are first asked for."""
        super().__init__(data_seed=data_seed, n_train=n_train, n_val=n_val, n_test=n_test)
        self.path = DATA if path is None else Path(path)
        self._ordered: tuple[Item, ...] | None = None

    def load(self, split: Split) -> tuple[Item, ...]:
        """The split's part of the shuffled questions: test first, then validation, then training.

        Raises:
            DataError: the file is missing or broken; names file and line.
            ConfigError: the splits ask for more questions than there are.
        """
        if self._ordered is None:
            self._ordered = self._arrange(read_questions(self.path))
        if sum(self.sizes.values()) > len(self._ordered):
            raise ConfigError(
                f"task {self.name}: {sum(self.sizes.values())} items asked for, {self.path} has {len(self._ordered)}; "
                "lower n_train, n_val or n_test"
            )
        # Test first: its items stay the same when the other sizes change.
        before = sum(self.sizes[other] for other in SPLITS if SPLITS.index(other) > SPLITS.index(split))
        return self._ordered[before : before + self.sizes[split]]

    def key(self, item: Item, text: str) -> str | None:
        """The letter of the chosen option."""
        return read_letter(text, item.meta["options"])

    def _arrange(self, questions: list[Question]) -> tuple[Item, ...]:
        """All questions, the three difficulties mixed evenly, each four in a row with another right letter."""
        rng = Random(f"{self.name}/{self.data_seed}")
        rng.shuffle(questions)
        ordered = _mixed(questions)
        letters = [letter for _ in range(0, len(ordered), 4) for letter in rng.sample(LETTERS, 4)]
        return tuple(self._item(question, letter, rng) for question, letter in zip(ordered, letters, strict=False))

    def _item(self, question: Question, letter: str, rng: Random) -> Item:
        options = rng.sample(question.wrong, 3)
        options.insert(LETTERS.index(letter), question.right)
        lines = [f"{mark}) {option}" for mark, option in zip(LETTERS, options, strict=True)]
        prompt = "\n".join((question.question, *lines))
        meta = {"question_id": question.id, "options": options}
        return Item(
            item_id(self.name, prompt), self.name, prompt, letter, question.domain, float(question.difficulty),
            "constructed", meta,
        )  # fmt: skip


def _mixed(questions: list[Question]) -> list[Question]:
    """The questions with each difficulty spread evenly over the list."""
    placed: list[tuple[float, int, Question]] = []
    for level in sorted({question.difficulty for question in questions}):
        same = [question for question in questions if question.difficulty == level]
        placed += [((place + 0.5) / len(same), level, question) for place, question in enumerate(same)]
    return [question for _, _, question in sorted(placed, key=lambda entry: entry[:2])]


def read_questions(path: Path) -> list[Question]:
    """All questions of a file.

    Raises:
        DataError: the file is missing, a line is no question, or two lines ask the same; names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}:1: can not be read ({error}); give the path of a file of questions") from error
    return list(_parsed(path, lines))


def _parsed(path: Path, lines: list[str]) -> Iterator[Question]:
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        question = _question(where, line)
        for name in (f"id {question.id}", f"question {folded(question.question)}"):
            if name in seen:
                raise DataError(f"{where}: {name} is already in line {seen[name]}; remove one of them")
            seen[name] = number
        yield question


def _question(where: str, line: str) -> Question:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: no JSON ({line_fault(error)}); each line holds one JSON object") from error
    if not isinstance(row, dict) or set(row) != set(_FIELDS):
        raise DataError(f"{where}: give exactly the fields {', '.join(_FIELDS)}")
    for field, kind in _FIELDS.items():
        if type(row[field]) is not kind or row[field] in ("", []):
            raise DataError(f"{where}: {field} is no filled {kind.__name__}")
    options = [row["right"], *row["wrong"]]
    if not all(isinstance(option, str) for option in options) or len({folded(option) for option in options}) != len(
        LETTERS
    ):
        raise DataError(f"{where}: a question has one right and three wrong options, all different texts")
    if row["difficulty"] not in (1, 2, 3):
        raise DataError(f"{where}: difficulty is {row['difficulty']}; it is 1, 2 or 3")
    return Question(**{**row, "wrong": tuple(row["wrong"])})
