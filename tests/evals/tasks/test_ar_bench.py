"""AR-Bench as tasks: the game of numbers in rounds, case files, and situations without questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.tasks.ar_bench import (
    ARBench,
    DetectiveCases,
    GuessingNumbers,
    SituationPuzzles,
    feedback,
    read_guess,
    word_f1,
)
from tests.evals.tasks.rows import write
from tests.evals.tasks.rows_puzzles import cases, numbers, situations
from trinity.errors import ConfigError, DataError, GraderError
from trinity.splits import check_disjoint
from trinity.types import SPLITS, Completion, Episode, Grade, Item, Split, Usage


def make(task: type[ARBench], path: Path | None, **changed: Any) -> Any:
    """A task on rows of ours, all of them test items."""
    return task(**{"data_seed": 0, "n_train": 0, "n_val": 0, "n_test": None, "path": path, **changed})


def game(tmp_path: Path, **changed: Any) -> tuple[GuessingNumbers, Item]:
    """The game of numbers with the secret 0123."""
    path = tmp_path / "test.json"
    path.write_text(json.dumps(["0123"]))
    task = make(GuessingNumbers, path, **changed)
    [item] = task.items("test")
    return task, item


def told(task: GuessingNumbers, item: Item, *replies: str) -> str | None:
    """What the task says to these replies."""
    said = task.reply(item, Episode(replies[-1] if replies else None, replies=replies))
    return None if said is None else said[0]["content"]


@pytest.mark.parametrize(
    ("number", "guess", "expected"),
    [
        ("0123", "0123", "4 right and in the right place, 0 right but in another place"),
        ("0123", "3210", "0 right and in the right place, 4 right but in another place"),
        ("0123", "0245", "1 right and in the right place, 1 right but in another place"),
        ("0123", "4567", "0 right and in the right place, 0 right but in another place"),
        ("0123", "1111", "1 right and in the right place, 0 right but in another place"),
        ("0123", "2200", "0 right and in the right place, 2 right but in another place"),
    ],
)
def test_feedback_counts_digits(number: str, guess: str, expected: str) -> None:
    """Digits in place and elsewhere, worked out by hand; a repeated digit counts as often as the number has it."""
    assert feedback(number, guess) == f"{guess}: {expected}."


@pytest.mark.parametrize(
    ("text", "guess"),
    [
        ("Guess: 1234", "1234"),
        ("I first thought 5678.\n**Guess:** 0 1 2 3", "0123"),
        ("Guess: [9, 8, 7, 6]", "9876"),
        ("guess is 4321, not 1234", "4321"),
        ("Guess: 1234. No.\nGuess: 2345", "2345"),
        (r"\boxed{1234}", "1234"),
        ("Answer: 1234", "1234"),
        ("It may be 1234 or 12345", "1234"),
        ("Guess: 12345", None),
        ("Guess: 123", None),
        ("", None),
    ],
)
def test_guesses_are_read(text: str, guess: str | None) -> None:
    """The last marked guess counts, else the declared answer, else the last four digits by themselves."""
    assert read_guess(text) == guess


def test_a_game_is_played_in_rounds(tmp_path: Path) -> None:
    """Each guess is told its digits; a round without a guess is used up; the last answer is told nothing."""
    task, item = game(tmp_path, turns=2)
    assert task.rounds == 3
    assert "2 guesses" in task.open(item)[0]["content"]
    first, second = told(task, item, "Guess: 0213"), told(task, item, "Guess: 0213", "I pass")
    assert first is not None
    assert second is not None
    assert first.startswith(
        "0213: 2 right and in the right place, 2 right but in another place.\nYou have one more guess."
    )
    assert second.startswith("There is no guess in your answer.\nThat was your last guess that is answered.")
    assert told(task, item, "Guess: 0213", "I pass", "Guess: 3210") is None


def test_a_right_guess_ends_a_game(tmp_path: Path) -> None:
    """Nothing is said to the number itself, nor to an episode without a reply; no reply is longer than announced."""
    task, item = game(tmp_path)
    assert told(task, item, "Guess: 4567", "Guess: 0123") is None
    assert told(task, item) is None
    assert len((told(task, item, "Guess: 4567") or "").encode()) + 64 <= task.reply_bytes


async def test_the_number_alone_scores(tmp_path: Path) -> None:
    """The last answer is graded: 1 for the number, 0 for another, and none is no answer."""
    task, item = game(tmp_path, turns=0)
    assert task.rounds == 1
    assert await task.grade(item, Episode(task.solution(item)), None) == Grade(1.0, "0123")
    assert await task.grade(item, Episode("Guess: 0132"), None) == Grade(0.0, "0132")
    assert await task.grade(item, Episode("Who knows"), None) == Grade(0.0, None)


def test_numbers_stay_secret_and_splits_apart(tmp_path: Path) -> None:
    """No prompt or id tells a number; training games come from the training file where there is one."""
    folder = tmp_path / "data" / "gn"
    folder.mkdir(parents=True)
    (folder / "test.json").write_text(json.dumps(numbers(20)))
    (folder / "train.json").write_text(json.dumps(numbers(60)[20:]))
    task = make(GuessingNumbers, tmp_path, n_train=30, n_val=10)
    items: list[tuple[Split, Item]] = [(split, item) for split in SPLITS for item in task.items(split)]
    check_disjoint(items)
    assert {item.target for split, item in items if split == "test"} == set(numbers(20))
    assert not any(item.target in item.prompt for _, item in items)


@pytest.mark.parametrize("content", ["no JSON", "{}", "[]", "[1234]", '["1123"]', '["12345"]'])
def test_other_files_are_no_games(tmp_path: Path, content: str) -> None:
    """A file that lists anything but numbers of four different digits is refused with its place."""
    path = tmp_path / "test.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"test\.json: (no JSON|expected is a list|row 1: number is)"):
        list(make(GuessingNumbers, path).items("test"))


@pytest.mark.parametrize("task", [GuessingNumbers, DetectiveCases, SituationPuzzles])
def test_a_path_is_needed(task: type[ARBench]) -> None:
    """The rows are on no hub; what to set is told."""
    with pytest.raises(DataError, match=rf"its rows are on no hub; set tasks\.{task.name}\.path"):
        list(make(task, None).items("test"))


async def test_a_case_is_solved_by_a_letter(tmp_path: Path) -> None:
    """The suspect in the place that `label` tells is right; nothing that names the murderer stands in the file."""
    task = make(DetectiveCases, write(tmp_path / "test.json", cases(3)))
    for item in task.items("test"):
        index = item.meta["source"]
        message = task.open(item)[0]["content"]
        assert f"Suspect A: Cy {index}. Cy {index} gardens." in message
        assert "- Access to the weapon: Had none." in message
        assert "- Reason to be there: Watering. Weeding." in message
        assert message.count("Nothing further is known") == 1
        assert "SECRET" not in message
        assert await task.grade(item, Episode("Answer: A"), None) == Grade(1.0, "A")
        assert await task.grade(item, Episode(f"Answer: Eve {index}"), None) == Grade(0.0, "B")
        assert await task.grade(item, Episode("Nobody."), None) == Grade(0.0, None)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"label": 5}, "label is 5, not a number from 0 to 4"),
        ({"label": "x"}, "label is 'x', not a number"),
        ({"victim": "Vic"}, "victim is 'Vic', not an object"),
        ({"suspects": []}, r"suspects is \[\], not a list of suspects"),
        ({"initial_information": {"suspect": [{"name": str(place)} for place in range(6)]}}, "at most 5 suspects"),
    ],
)
def test_broken_cases_are_told(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    """What is wrong with a case is told with its place."""
    path = write(tmp_path / "test.json", [{**cases(1)[0], **changed}])
    with pytest.raises(DataError, match=rf"row 1: .*{words}"):
        list(make(DetectiveCases, path).items("test"))


def test_the_f1_score_of_words_is_the_papers() -> None:
    """Three words of four in common: precision 3/4 and recall 3/6 give 0.6; none in common is 0."""
    assert word_f1("a b c x", "a b c d e f") == pytest.approx(0.6)
    assert word_f1("a a", "a b") == pytest.approx(0.5)
    assert word_f1("x", "a b") == 0.0


async def test_a_story_is_scored_by_its_words(tmp_path: Path) -> None:
    """What stands behind the last `Answer:` is compared with the true story, which no prompt shows."""
    task = make(SituationPuzzles, write(tmp_path / "test.json", situations(2)))
    item = next(task.items("test"))
    assert not task.judged
    assert item.target not in task.open(item)[0]["content"]
    assert (await task.grade(item, Episode(f"Hm.\n**Answer:** {item.target}"), None)).score == 1.0
    assert (await task.grade(item, Episode("He tests umbrellas"), None)).score == pytest.approx(2 * 3 / (3 + 15))
    assert await task.grade(item, Episode("  "), None) == Grade(0.0, None)


class SureJudge:
    """A judge that has one answer."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def ask(self, messages: Any) -> Completion:
        """The answer."""
        return Completion(self.text, "", "stop", Usage(), None, None, 0.0, "0" * 16)


async def test_a_story_may_be_judged(tmp_path: Path) -> None:
    """With `measure=judge` a model is asked whether the story is told, and without one nothing is graded."""
    task = make(SituationPuzzles, write(tmp_path / "test.json", situations(1)), measure="judge")
    [item] = task.items("test")
    assert (task.judged, task.threshold) == (True, 1.0)
    with pytest.raises(GraderError, match="graded by a judge, and there is none"):
        await task.grade(item, Episode("Answer: a cake"), None)
    for verdict, score in (("yes", 1.0), ("no", 0.0)):
        judge = SureJudge(f"I compared both.\nVerdict: [[{verdict}]]")
        assert (await task.grade(item, Episode("Answer: a cake"), judge)).score == score


def test_settings_are_checked(tmp_path: Path) -> None:
    """Turns, measure and threshold that make no sense are refused with what to give."""
    with pytest.raises(ConfigError, match="turns is -1; give a whole number of at least 0"):
        make(GuessingNumbers, tmp_path, turns=-1)
    with pytest.raises(ConfigError, match="measure is 'bleu'; give one of f1, judge"):
        make(SituationPuzzles, tmp_path, measure="bleu")
    with pytest.raises(ConfigError, match="good_from is 0; give a number above 0, at most 1"):
        make(SituationPuzzles, tmp_path, good_from=0)
