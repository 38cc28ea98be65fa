"""AR-Bench: secret numbers to be guessed in rounds, murders to be solved, and strange situations to be explained."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Unpack

from evals.graders.answer_line import declared
from evals.graders.judge import ATTEMPTS, matches
from evals.graders.judge import VERSION as JUDGE_VERSION
from evals.graders.letter import VERSION as LETTER_VERSION
from evals.graders.letter import read_letter
from evals.tasks.base import item_id
from evals.tasks.benchmark import Benchmark, BenchmarkSettings, filled, prompt_text
from evals.tasks.hub import Row, Source
from evals.tasks.options import check_number, one_of
from trinity.canonical import folded
from trinity.errors import ConfigError, DataError, GraderError
from trinity.types import Episode, Grade, Item, Judge, Message, Redistribute, Split

_DIGITS = 4
_WINDOW = 20_000
"""Characters of an answer's end that are read."""
_SEPARATED = r"[0-9](?:[ ,*_\[\]-]{0,3}[0-9]){3}(?![0-9])"
_GUESS = re.compile(rf"\bguess(?:[ ]is)?[^\w\n]{{0,12}}({_SEPARATED})", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![0-9])[0-9]{4}(?![0-9])")
_MARK = re.compile(r"\banswer[*_ ]{0,4}:[*_ ]{0,4}", re.IGNORECASE)
_LETTERS = "ABCDE"
_FACTS = {
    "relationship": "Relationship to the victim",
    "reason_at_scene": "Reason to be there",
    "suspicion": "What was noticed",
    "motive": "Motive",
    "opportunity": "Opportunity",
    "access_to_weapon": "Access to the weapon",
    "testimony": "Testimony",
}
"""What a case file says of a suspect; not whether they did it, the evidence that names them, nor their own story."""


class ARBench(Benchmark):
    """What the puzzles of AR-Bench (Zhou et al., arXiv 2506.08295) share.

    The rows are in the authors' repository, without a licence, and have to be brought from there: `path` is a copy of
    one `test.json`, or the repository's folder. Test items come from the file of the split test there, the others from
    the training file where a folder has both.
    """

    repo = "https://github.com/tmlr-group/AR-Bench"
    hub_splits: Mapping[Split, str] = {"train": "train", "val": "train", "test": "test"}
    licence = "none stated"
    redistribute: Redistribute = "ids-only"
    citation = (
        "Zhou et al. 2025, From Passive to Active Reasoning: Can Large Language Models Ask the Right Questions under "
        "Incomplete Information?, arXiv 2506.08295"
    )


class GuessingNumbers(ARBench):
    """AR-Bench GN: four different digits, guessed in rounds; each guess is told how many digits are right and where.

    A guess is answered with the digits that are right and in place, and those that are right elsewhere. After `turns`
    guesses, or as soon as one is right, the game ends; who has not found the number answers once more. The score is 1
    for the number itself. The paper's game goes on to the last turn after a right guess, which changes no score of who
    then repeats it. A reply without a guess is told so and has used its turn. Who repeats digits in a guess is told of
    each as often as the number has it.

    Args:
        turns: guesses that are answered.
        settings: see `BenchmarkSettings`.

    Raises:
        ConfigError: `turns` is no whole number of at least 0.
    """

    name = "ar_bench_numbers"
    files = {"test": ("data/gn/test.json",), "train": ("data/gn/train.json",)}  # noqa: RUF012 - as the base class
    columns = ("number", "game")
    grader = "guess/1"
    reply_bytes = 512

    def __init__(self, *, turns: int = 25, **settings: Unpack[BenchmarkSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        check_number(f"tasks.{self.name}.turns", turns, whole=True, zero=True)
        self.turns = turns
        self.rounds = turns + 1

    @property
    def source(self) -> Source:
        """The file of numbers, each as a row."""
        return _Numbers(self.name, self.repo, self.config, self.revision, self.path, self.files)

    def identity(self, row: Row) -> str:
        """The number."""
        return row.text("number")

    def item(self, row: Row) -> Item:
        """A game; its text names only which of the file's games it is.

        Raises:
            DataError: it is no number of four different digits.
        """
        number = row.text("number")
        if not re.fullmatch(r"[0-9]{4}", number) or len(set(number)) != _DIGITS:
            raise row.wrong("number", "four different digits")
        prompt = f"Guessing numbers: {row.text('game')}"
        return Item(item_id(self.name, prompt), self.name, prompt, number, "guessing numbers")

    def open(self, item: Item) -> list[Message]:
        """One user message: the rules."""
        text = filled(prompt_text(self.name), question=item.prompt, turns=str(self.turns))
        return [{"role": "user", "content": text}]

    def reply(self, item: Item, episode: Episode) -> list[Message] | None:
        """What a guess is told; None when it is right or was the last."""
        played = len(episode.replies)
        guess = read_guess(episode.replies[-1]) if episode.replies else None
        if guess == item.target or played > self.turns or not played:
            return None
        told = "There is no guess in your answer." if guess is None else feedback(item.target, guess)
        left = self.turns - played
        then = f"You have {left} more guesses." if left > 1 else "You have one more guess."
        if not left:
            then = "That was your last guess that is answered. Give your final answer."
        return [{"role": "user", "content": f"{told}\n{then} Think, then end with a line `Guess: <four digits>`."}]

    def key(self, item: Item, text: str) -> str | None:
        """The guess as four digits."""
        return read_guess(text)

    def solution(self, item: Item) -> str:
        """The number."""
        return f"Guess: {item.target}"


class DetectiveCases(ARBench):
    """AR-Bench DC as a case file: which of five suspects is the murderer, with all that the questions could find out.

    In the paper a detective questions suspects whom a second model plays from their stories, 25 questions, and then
    names one. Here nobody is questioned: the file tells of each suspect what the data holds on relationship, presence,
    suspicion, motive, opportunity, access to the weapon, and testimony. So reading and deduction are asked for, not
    the choice of questions, and scores are not to be set beside the paper's. What names the murderer outright (stories,
    evidence, timelines, the players' orders) is left out. The murderer alone has motive, opportunity and access.
    """

    name = "ar_bench_detective"
    files = {"test": ("data/dc/test.json",), "train": ("data/dc/train.json",)}  # noqa: RUF012 - as the base class
    columns = ("time", "location", "victim", "suspects", "initial_information", "label")
    optional = ("index",)
    chance = 1 / len(_LETTERS)
    grader = LETTER_VERSION

    def identity(self, row: Row) -> str:
        """The case file."""
        return folded(self._file(row))

    def item(self, row: Row) -> Item:
        """A case; `meta` holds the suspects' names by letter.

        Raises:
            DataError: a part of it is missing, or its answer names none of the suspects.
        """
        prompt, names = self._file(row), _suspects(row)
        label = int(row.number("label"))
        if not 0 <= label < len(names):
            raise row.wrong("label", f"a number from 0 to {len(names) - 1}")
        meta = {"options": names, "source": row.text("index", "")}
        return Item(item_id(self.name, prompt), self.name, prompt, _LETTERS[label], "detective cases", meta=meta)

    def _file(self, row: Row) -> str:
        victim, told = row.values["victim"], {each.get("name"): each for each in _objects(row, "suspects")}
        if not isinstance(victim, dict):
            raise row.wrong("victim", "an object")
        lines = [
            f"Time: {row.text('time')}. Place: {row.text('location')}.",
            f"Victim: {victim.get('name')}. {victim.get('introduction')}",
            f"Cause of death: {victim.get('cause_of_death')}. Weapon: {victim.get('murder_weapon')}.",
        ]
        for letter, known in zip(_LETTERS, _objects(row, "initial_information"), strict=False):
            lines += ["", f"Suspect {letter}: {known.get('name')}. {known.get('introduction')}"]
            lines += _case_facts(told.get(known.get("name")) or {})
        return "\n".join(lines)

    def key(self, item: Item, text: str) -> str | None:
        """The suspect's letter."""
        return read_letter(text, item.meta["options"])


class SituationPuzzles(ARBench):
    """AR-Bench SP without questions: a strange situation, and the story behind it to be guessed at once.

    In the paper a player asks a second model 25 questions that it answers with yes, no or unknown, and then tells the
    story. Here nobody is asked, which is that game with no turns: scores are its lower end.

    `f1` is the paper's measure, the F1 score between the words of answer and true story as white space parts them: the
    score of any story in plain English is well above 0. `judge` asks a model whether the answer tells the true story.

    Args:
        measure: `f1` or `judge`.
        good_from: F1 score from which an episode counts as correct; scores do not depend on it.
        settings: see `BenchmarkSettings`.

    Raises:
        ConfigError: no such measure, or `good_from` is no number above 0 and at most 1.
    """

    name = "ar_bench_situation"
    files = {"test": ("data/sp/test.json",), "train": ("data/sp/train.json",)}  # noqa: RUF012 - as the base class
    columns = ("surface", "bottom")
    optional = ("index", "supernatural", "someone_dies")
    comparable = False

    def __init__(
        self, *, measure: Literal["f1", "judge"] = "f1", good_from: float = 0.5, **settings: Unpack[BenchmarkSettings]
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        if not 0 < good_from <= 1:
            raise ConfigError(f"tasks.{self.name}.good_from is {good_from!r}; give a number above 0, at most 1")
        self.judged = one_of(self.name, "measure", measure, ("f1", "judge")) == "judge"
        self.judge_calls = ATTEMPTS if self.judged else 0
        self.threshold = 1.0 if self.judged else good_from
        self.grader = JUDGE_VERSION if self.judged else "word_f1/1"

    def item(self, row: Row) -> Item:
        """A puzzle; `target` is the true story.

        Raises:
            DataError: a part of it is missing.
        """
        prompt = row.text("surface")
        meta = {"source": row.text("index", "")}
        return Item(item_id(self.name, prompt), self.name, prompt, row.text("bottom"), "situation puzzles", meta=meta)

    def key(self, item: Item, text: str) -> str | None:
        """The story that the text tells: what follows its last `Answer:`, else all of it."""
        return _MARK.split(text[-_WINDOW:])[-1].strip() or None

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """The F1 score of the words, or 1 where the judge finds the true story in the answer, else 0.

        Raises:
            GraderError: there is no judge though one is to be asked, or it gives no verdict.
        """
        story = None if episode.answer is None else self.key(item, episode.answer)
        if story is None:
            return Grade(0.0, None)
        if not self.judged:
            return Grade(word_f1(story, item.target), story)
        if judge is None:
            raise GraderError(f"task {self.name} is graded by a judge, and there is none")
        return Grade(float(await matches(judge, item.prompt, story, item.target)), story)


class _Numbers(Source):
    """A file that lists bare numbers as texts."""

    def rows(self, split: str, columns: Collection[str], optional: Collection[str] = ()) -> Iterator[Row]:
        """Each number as a row, with the place in its file as the name of its game.

        Raises:
            DataError: there is no such file, or it lists something else.
        """
        if self.path is None:
            yield from Source.rows(self, split, columns, optional)
        for file in self._files(split) if self.path is not None else ():
            for index, number in enumerate(_listed(file), start=1):
                yield Row({"number": number, "game": f"game {index} of the {split} games"}, str(file), index)


def _listed(file: Path) -> list[str]:
    try:
        listed = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: no JSON ({type(error).__name__}); expected is a list of numbers as texts") from error
    if not isinstance(listed, list) or not listed or not all(isinstance(number, str) for number in listed):
        raise DataError(f'{file}: expected is a list of numbers as texts, as ["8362", "1058"]')
    return listed


def read_guess(text: str) -> str | None:
    """The number that `text` guesses: behind its last `Guess:`, else the declared answer, else its last four digits."""
    tail = text[-_WINDOW:]
    if guesses := _GUESS.findall(tail):
        return "".join(char for char in guesses[-1] if char.isdigit())
    numbers = _NUMBER.findall(declared(tail) or "") or _NUMBER.findall(tail)
    return numbers[-1] if numbers else None


def feedback(number: str, guess: str) -> str:
    """How many digits are right and in place, and how many are right elsewhere."""
    placed = sum(own == other for own, other in zip(number, guess, strict=True))
    common = (Counter(number) & Counter(guess)).total()
    return f"{guess}: {placed} right and in the right place, {common - placed} right but in another place."


def word_f1(answer: str, truth: str) -> float:
    """F1 score between two bags of words that white space parts."""
    words, true = answer.split(), truth.split()
    common = (Counter(words) & Counter(true)).total()
    return 2 * common / (len(words) + len(true)) if common else 0.0


def _objects(row: Row, column: str) -> list[dict[str, Any]]:
    """The suspects that a column lists.

    Raises:
        DataError: it lists none.
    """
    value = row.values[column]
    listed = value.get("suspect") if isinstance(value, dict) else value
    if not isinstance(listed, list) or not listed or not all(isinstance(each, dict) for each in listed):
        raise row.wrong(column, "a list of suspects")
    return listed


def _suspects(row: Row) -> list[str]:
    names = [str(each.get("name")) for each in _objects(row, "initial_information")]
    if len(names) > len(_LETTERS):
        raise row.wrong("initial_information", f"a list of at most {len(_LETTERS)} suspects")
    return names


def _case_facts(suspect: Mapping[str, Any]) -> list[str]:
    """Lines of the file on a suspect; lists and single texts look alike, since only the murderer has lists alone."""
    facts = []
    for column, title in _FACTS.items():
        value = suspect.get(column)
        if told := value if isinstance(value, str) else " ".join(map(str, value or ())):
            facts.append(f"- {title}: {told}")
    return facts or ["- Nothing further is known."]
