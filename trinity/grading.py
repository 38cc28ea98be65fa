"""Grading an episode: its status and scores, and what happens where a grader fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from trinity.errors import BudgetError, EndpointError, GraderError, LedgerError, UngradedError
from trinity.rounds import silent, spoken
from trinity.types import CUT_SHORT, Episode, Grade, Item, Judge, Status, Task

FIRST_GRADINGS = 3
GRADINGS_IN_A_ROW = 20
ERRORS_SHOWN = 5
"""Different errors of a task's grader that are told; the others are like them."""


class Outcome(NamedTuple):
    """What became of an episode; scores are None where it was never graded."""

    status: Status
    score: float | None = None
    raw_score: float | None = None
    answer: str | None = None


def judged(task: Task) -> bool:
    """Whether a model grades the task's answers."""
    return bool(getattr(task, "judged", False))


def judge_calls(task: Task) -> int:
    """How often one grading asks the judge at most."""
    return max(1, int(getattr(task, "judge_calls", 1))) if judged(task) else 0


async def graded(task: Task, item: Item, episode: Episode, judge: Judge | None = None) -> Outcome:
    """Status and scores of an episode honestly: no answer, truncated and refused score 0, keep `raw_score`.

    Nothing is graded where nothing was said in any round.

    Raises:
        GraderError: the grader failed.
        TrinityError: what asking the judge raises else: a cap is reached, its endpoint cannot be used.
    """
    cut: Status | None = CUT_SHORT.get(episode.finish_reason)
    if silent(episode):
        return Outcome(cut or "no_answer", 0.0, 0.0)
    grade = await _grade(task, item, episode, judge)
    if cut:
        return Outcome(cut, 0.0, grade.score, grade.answer)
    if grade.answer is None or not spoken(episode):
        return Outcome("no_answer", 0.0, grade.score)
    return Outcome("correct" if grade.score >= task.threshold else "wrong", grade.score, grade.score, grade.answer)


async def _grade(task: Task, item: Item, episode: Episode, judge: Judge | None) -> Grade:
    """The task's grade, whatever its grader does wrong made a `GraderError`."""
    try:
        grade = await task.grade(item, episode, judge)
    except (GraderError, BudgetError, EndpointError, LedgerError):
        raise
    except Exception as error:
        raise GraderError(f"{task.grader} on {item.item_id}: {type(error).__name__}: {error}") from error
    if not 0.0 <= grade.score <= 1.0:
        raise GraderError(f"{task.grader} on {item.item_id}: score {grade.score} is not in [0, 1]")
    return grade


@dataclass(slots=True)
class GraderWatch:
    """Tells why gradings fail, each reason once, and stops the run where a task's grader cannot work at all.

    That is so when the first three gradings of a task all fail, or twenty in a row later: an unusable sandbox must not
    make errors of all that was paid for.
    """

    say: Callable[[str], None] | None
    _working: set[str] = field(default_factory=set)
    _in_a_row: Counter[str] = field(default_factory=Counter)
    _told: dict[str, set[str]] = field(default_factory=dict)

    def worked(self, task: Task) -> None:
        """An answer was graded."""
        self._working.add(task.name)
        self._in_a_row[task.name] = 0

    def failed(self, task: Task, item: Item, error: GraderError) -> None:
        """An answer could not be graded.

        Raises:
            UngradedError: too many in a row could not.
        """
        name = task.name
        self._tell(name, shown(str(error).replace(item.item_id, "an item")))
        self._in_a_row[name] += 1
        if self._in_a_row[name] >= (GRADINGS_IN_A_ROW if name in self._working else FIRST_GRADINGS):
            raise UngradedError(
                f"task {name}: {self._in_a_row[name]} gradings in a row failed (the last: {shown(str(error))}); mend "
                "that and go on with resume=RUN, which grades them again and buys no answer twice"
            )

    def _tell(self, task: str, reason: str) -> None:
        told = self._told.setdefault(task, set())
        if self.say is not None and reason not in told and len(told) < ERRORS_SHOWN:
            told.add(reason)
            self.say(f"task {task}: an answer could not be graded, its episode is an error: {reason}")


def shown(text: str, most: int = 300) -> str:
    """A text from outside as one short line of printable characters."""
    line = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(line.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
