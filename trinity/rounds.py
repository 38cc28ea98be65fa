"""The rounds of an episode: a method solves, its task says something back, the method solves again.

All rounds are one episode: one bill, one cap, one record. An episode that was cut short or refused in some round is
`truncated` or `refused` and scores 0, the first such round tells which; the rounds go on all the same, so that
`raw_score` is what grading gives to all that was said. An empty answer ends the rounds, and the episode is `no_answer`
likewise. The episode's own cap ends it on what there is, which is graded as in an episode of one round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from trinity.context import Context
from trinity.errors import ConfigError, EpisodeCapError, GraderError
from trinity.types import CUT_SHORT, Client, Episode, Item, Message, Method, Task

REPLY_BYTES = 4096
"""Most bytes of a reply, `MESSAGE_BYTES` a message included, of a task whose `reply_bytes` says nothing else."""

MESSAGE_BYTES = 64


async def played(method: Method, task: Task, item: Item, client: Client, context: Context) -> Episode:
    """One episode, all its rounds as one.

    Raises:
        CallError: a call failed after its retries.
        BudgetError: a cap of run or phase is reached.
        GraderError: the task could not say whether there is another round.
        ConfigError: the task says more, or at more length, than it announces.
    """
    opening = list(task.open(item)) if rounds(task) > 1 else []
    episode, heard = _with_replies(await _solved(method, item, client, context)), 0
    # A round without an answer, whatever it ended on, is the last.
    while len(episode.replies) > heard and (said := _reply_to(task, item, episode, context)):
        heard = len(episode.replies)
        opening += [{"role": "assistant", "content": episode.replies[-1]}, *said]
        context.next_round(cast("Task", Later(task, opening)))
        episode = _joined(episode, await _solved(method, item, client, context))
    return replace(episode, capped=True) if context.at_cap and rounds(task) > 1 else episode


async def _solved(method: Method, item: Item, client: Client, context: Context) -> Episode:
    """One round; what is left of it where its method let the episode's own cap end it: the latest text of the round."""
    before = len(context.calls)
    try:
        return await method.solve(item, client, context)
    except EpisodeCapError:
        context.at_cap = True
    calls = context.calls[before:]
    if not calls:
        return Episode(None, capped=True)
    return Episode(calls[-1].text, calls[-1].finish_reason, capped=True)


def spoken(episode: Episode) -> bool:
    """Whether there is an answer with a text."""
    return episode.answer is not None and bool(episode.answer.strip())


def silent(episode: Episode) -> bool:
    """Whether nothing was said in any round."""
    return not spoken(episode) and not episode.replies


def _with_replies(episode: Episode) -> Episode:
    return replace(episode, replies=(episode.answer or "",) if spoken(episode) else ())


def _joined(before: Episode, last: Episode) -> Episode:
    """The episode with one round more; one that its own cap left without an answer keeps the answer from before."""
    if last.capped and not spoken(last):
        last = replace(last, answer=before.answer, finish_reason=before.finish_reason, replies=before.replies)
    else:
        last = replace(last, replies=(*before.replies, *_with_replies(last).replies))
    return replace(
        last,
        finish_reason=before.finish_reason if before.finish_reason in CUT_SHORT else last.finish_reason,
        turns=before.turns + last.turns,
        capped=before.capped or last.capped,
        encoder_tokens=before.encoder_tokens + last.encoder_tokens,
    )


def rounds(task: Task) -> int:
    """How often an episode of the task is answered at most."""
    return max(1, int(getattr(task, "rounds", 1)))


def reply_bytes(task: Task) -> int:
    """Most bytes of what the task says back at once, 64 a message included."""
    return int(getattr(task, "reply_bytes", REPLY_BYTES))


def _reply_to(task: Task, item: Item, episode: Episode, context: Context) -> Sequence[Message]:
    """What the task says back after a round; nothing where it, or the episode's own cap, ends the episode.

    Raises:
        GraderError: the task failed to say.
        ConfigError: it says more than it announces, so that no plan of the run was right.
    """
    if context.at_cap:
        return ()
    try:
        said = task.reply(item, episode) or ()
    except Exception as error:
        raise GraderError(f"reply of {task.name} on {item.item_id}: {type(error).__name__}: {error}") from error
    if said and len(episode.replies) >= rounds(task):
        raise ConfigError(
            f"task {task.name} wants a reply to round {len(episode.replies)}, where its attribute `rounds` is "
            f"{rounds(task)}; set it to the most rounds that an episode can have"
        )
    size = sum(len(message["content"].encode("utf-8", "replace")) + MESSAGE_BYTES for message in said)
    if size > reply_bytes(task):
        raise ConfigError(
            f"task {task.name} says {size} bytes back on {item.item_id}, where its attribute `reply_bytes` is "
            f"{reply_bytes(task)}; set it to the most that it can say"
        )
    return said


class Later:
    """A task in a later round: it opens with all that was said, and is its task in everything else."""

    def __init__(self, task: Task, opening: Sequence[Message]) -> None:
        """`opening` is all that was said of `task` so far."""
        self._task, self._opening = task, [*opening]

    @property  # type: ignore[misc]  # mypy takes it for a plain attribute
    def __class__(self) -> type:  # what `isinstance` asks for
        return type(self._task)

    def __getattr__(self, name: str) -> object:
        return getattr(self._task, name)

    def open(self, item: Item) -> list[Message]:
        """The conversation so far."""
        del item
        return [*self._opening]
