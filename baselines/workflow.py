"""An episode of several calls in the making: it asks, keeps every turn, and knows the latest answer."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from trinity.context import Context
from trinity.coordinator.protocol import alone, read_turn
from trinity.errors import EpisodeCapError
from trinity.quoting import quote
from trinity.types import Agent, Client, Completion, Episode, Item, Message, Role, Turn

SILENT = "(It gave no text.)"
"""Stands in a prompt for an earlier answer without a text."""


def shown(completion: Completion) -> str:
    """An earlier answer as a later prompt shows it: quoted line by line, since its text is nobody's instruction."""
    return quote(completion.text) if completion.text.strip() else SILENT


@dataclass(slots=True)
class Workflow:
    """One episode: whom it asks, what came back, and the answer so far.

    Attributes:
        turns: of every answered call, in the order in which they were asked.
        answer: the latest that said anything; while none did, the latest.
    """

    item: Item
    client: Client
    context: Context
    opening: Sequence[Message]
    turns: list[Turn] = field(default_factory=list)
    answer: Completion | None = None

    @property
    def question(self) -> str:
        """The text of the task's last message: the question and the form of its answer."""
        return self.opening[-1]["content"]

    def solve_as(self, agent: Agent) -> list[Message]:
        """Messages for `agent` answering the question by itself, its style before it."""
        return alone(agent, self.opening)

    def briefed(self, system: str, content: str) -> list[Message]:
        """Messages of one who is told `content` instead of the question alone, after `system` where there is one."""
        head: list[Message] = [{"role": "system", "content": system}] if system else []
        *earlier, last = self.opening
        return [*head, *earlier, {"role": last["role"], "content": content}]

    def listed(
        self, label: str, answers: Sequence[Completion], turn: int | None = None
    ) -> tuple[str, Sequence[Completion]]:
        """Answers under headings of ours, `LABEL 1:` and so on, and they in that order, which is the context's noise.

        Each `turn` of an episode (None: the next one) has an order of its own.
        """
        turn = len(self.turns) if turn is None else turn
        order = sorted(range(len(answers)), key=lambda place: self.context.uniform(turn, f"select:{place}"))
        ordered = [answers[place] for place in order]
        return "\n\n".join(f"{label} {k}:\n{shown(answer)}" for k, answer in enumerate(ordered, 1)), ordered

    async def ask(self, agent: Agent, role: Role, messages: Sequence[Message]) -> Completion:
        """One call; its turn is kept.

        Raises:
            EpisodeCapError: the episode's own cap allows no further call.
            CallError: the call failed after its retries.
        """
        completion = await self.client.complete(agent, messages, self.context)
        self.turns.append(read_turn(agent, role, completion))
        return completion

    async def ask_all(self, asked: Sequence[tuple[Agent, Sequence[Message]]]) -> list[Completion]:
        """Calls of workers that do not wait for each other, answers in the order of `asked`, each offered as answer.

        Raises:
            EpisodeCapError: the cap left calls unanswered; the turns of the others are kept.
            CallError: one of them failed, the first in order, once all have ended.
        """
        answered = await self.ask_some(asked)
        if len(answered) < len(asked):
            raise EpisodeCapError(f"{len(asked) - len(answered)} of {len(asked)} calls were not made")
        return answered

    async def ask_some(self, asked: Sequence[tuple[Agent, Sequence[Message]]]) -> list[Completion]:
        """As `ask_all`, but without those that the episode's own cap forbade."""
        ended = await all_ended([self.client.complete(agent, messages, self.context) for agent, messages in asked])
        for (agent, _), completion in zip(asked, ended, strict=True):
            if completion is not None:
                self.turns.append(read_turn(agent, "worker", completion))
                self.offer(completion)
        return [completion for completion in ended if completion is not None]

    def offer(self, completion: Completion) -> None:
        """Take `completion` as the answer, unless it says nothing and an earlier one did."""
        if completion.text.strip() or self.answer is None or not self.answer.text.strip():
            self.answer = completion

    def episode(self, *, capped: bool = False) -> Episode:
        """What has become of it."""
        turns = tuple(self.turns)
        if self.answer is None:
            return Episode(None, turns=turns, capped=capped)
        return Episode(self.answer.text, self.answer.finish_reason, turns, capped=capped)


async def all_ended(calls: Sequence[Awaitable[Completion]]) -> list[Completion | None]:
    """Answers in order once all calls have ended, None where the episode's own cap forbade one.

    Raises:
        CallError: one of them failed, the first in order: the bill does not depend on timing.
    """
    ended = await asyncio.gather(*calls, return_exceptions=True)
    for outcome in ended:
        if isinstance(outcome, BaseException) and not isinstance(outcome, EpisodeCapError):
            raise outcome
    return [None if isinstance(outcome, BaseException) else outcome for outcome in ended]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaffold(ABC):
    """Method: a fixed workflow of calls. Fields are those of `trinity.types.Method`."""

    name: str
    variant: str
    backbone: str
    replicates: int | None

    async def solve(self, item: Item, client: Client, context: Context) -> Episode:
        """Play the workflow; at the episode's own cap it ends on its latest answer."""
        flow = Workflow(item, client, context, context.task.open(item))
        try:
            await self.play(flow)
        except EpisodeCapError:
            return flow.episode(capped=True)
        return flow.episode()

    @abstractmethod
    async def play(self, flow: Workflow) -> None:
        """Ask, and offer what may be the answer."""
