"""How verifiers judged: each verdict of a run's test episodes beside the grade of the answer that it was about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import groupby

from evals.stats.verifier import VerifierRow
from trinity.coordinator.protocol import read_verdict
from trinity.errors import GraderError
from trinity.grading import graded, judged
from trinity.rounds import rounds
from trinity.runs.calls import Answer
from trinity.runs.ledger import Ledger
from trinity.runs.rows import DecisionRow, RecordKey
from trinity.types import UNGRADED, Episode, Item, Record, Task


async def verdicts(
    ledger: Ledger, tasks: Mapping[str, Task], seed: int, records: Ledger | None = None
) -> AsyncIterator[VerifierRow]:
    """Every verdict over an answer in a test episode, by policy and item, streamed; only the graders are run again.

    Turns before the first answer judge nothing and are left out, and so is an answer whose grader fails. A verdict that
    cannot be read does not accept. The grade of an episode's last answer is its record's. Other answers are left out
    where none of them can be graded by itself: in a task of several rounds, and where a model grades, which had to be
    paid.

    Args:
        ledger: of the run, with its calls.
        tasks: by name.
        seed: of the run's training, part of its records' keys.
        records: the ledger that has the run's records; None: the same one.

    Raises:
        LedgerError: a row of the ledger is damaged.
    """
    for (policy, task, item_id, replicate), turns in groupby(ledger.decisions(), key=lambda row: row.key[:4]):
        chosen = list(turns)
        if replicate.phase != "test" or all(turn.role != "verifier" for turn in chosen):
            continue
        method, _, variant = policy.partition("/")
        record = (records or ledger).record(RecordKey(method, variant, task, "test", item_id, replicate, seed))
        item = ledger.item(task, "test", item_id)
        if record is None or item is None:
            continue
        answers = _answered(ledger, chosen, record.call_ids)
        grades = _known(record, answers, tasks[task])
        for accepted, answer in _judged(answers):
            if answer.request_hash not in grades:
                if not _whole(tasks[task]):
                    continue
                grades[answer.request_hash] = await _is_correct(tasks[task], item, answer)
            correct = grades[answer.request_hash]
            if correct is not None:
                yield VerifierRow(task, policy.replace("/", " "), accepted, correct)


def _answered(ledger: Ledger, turns: Sequence[DecisionRow], calls: Sequence[str]) -> list[tuple[DecisionRow, Answer]]:
    """Each turn with what came back; the k-th turn made the k-th call.

    At its own cap an episode ends before its last turn's call; calls that are not stored end the list.
    """
    found = []
    for turn, call_id in zip(turns, calls, strict=False):
        answer = ledger.calls.get_by_prefix(call_id)
        if answer is None:
            break
        found.append((turn, answer))
    return found


def _judged(answers: Sequence[tuple[DecisionRow, Answer]]) -> Iterator[tuple[bool, Answer]]:
    """Whether each Verifier turn accepted, and the answer that stood then."""
    standing: Answer | None = None
    for turn, answer in answers:
        if _speaks(turn, answer):
            standing = answer
        elif turn.role == "verifier" and standing is not None:
            yield read_verdict(answer.text) == "accept", standing


def _known(record: Record, answers: Sequence[tuple[DecisionRow, Answer]], task: Task) -> dict[str, bool | None]:
    """The grade of the last answer, where the record tells it; one cut short may be so for an earlier round's sake."""
    final = next((answer for turn, answer in reversed(answers) if _speaks(turn, answer)), None)
    told = record.status in ("correct", "wrong") if rounds(task) > 1 else record.status not in UNGRADED
    return {final.request_hash: record.status == "correct"} if final is not None and told else {}


def _whole(task: Task) -> bool:
    """Whether an answer can be graded by itself, without a model."""
    return rounds(task) == 1 and not judged(task)


def _speaks(turn: DecisionRow, answer: Answer) -> bool:
    """Whether a turn made the answer that stands after it."""
    return turn.role == "worker" and bool(answer.text.strip())


async def _is_correct(task: Task, item: Item, answer: Answer) -> bool | None:
    """Whether an episode that ended on this answer would be `correct`; None where the grader fails."""
    try:
        outcome = await graded(task, item, Episode(answer.text, answer.finish_reason))
    except GraderError:
        return None
    return outcome.status == "correct"
