"""Several answers of one agent to one question: drawing them, counting them, and letting the agent select one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from baselines.backbones import PerBackbone, whole
from baselines.components import Components
from baselines.workflow import Scaffold, Workflow, numbered, shuffled
from trinity.context import Context
from trinity.errors import EpisodeCapError
from trinity.types import Agent, Completion, Item, Message

SELECTOR = "selector"
"""The component that asks for the number of a candidate."""

Read = Callable[[str, int], int | None]
"""A selector's reply and the number of candidates -> the index (from 0) that it picks, None where it picks none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Who selects: an agent whose style is the selector's system message, what it is told, how its reply is read."""

    agent: Agent
    components: Components
    read: Read

    async def select(self, flow: Workflow, answers: Sequence[Completion]) -> Completion:
        """Its pick among `answers`; where it names none, the one shown first, which the context's noise decides.

        Raises:
            EpisodeCapError: the episode's own cap allows no further call.
            CallError: the call failed after its retries.
        """
        order = shuffled(flow.context, 0, len(answers))
        content = self.components.fill(
            SELECTOR,
            num_candidates=str(len(order)),
            original_prompt=flow.question,
            candidates_block=numbered("Candidate", [answers[place] for place in order]),
        )
        reply = await flow.ask(self.agent, "verifier", flow.briefed(self.agent.style, content))
        return answers[order[self.read(reply.text, len(order)) or 0]]


def draws(flow: Workflow, agent: Agent, n: int) -> list[tuple[Agent, list[Message]]]:
    """`n` equal calls, which are as many samples, for `Workflow.ask_all`."""
    return [(agent, flow.solve_as(agent))] * n


@dataclass(frozen=True, slots=True, kw_only=True)
class Consensus(Scaffold):
    """Method: `samples` answers of `agent`; the most frequent wins, or, where they cannot be compared, the selected.

    At the episode's own cap those that were answered are counted or selected from.
    """

    agent: Agent
    samples: int
    selector: Selector

    async def play(self, flow: Workflow) -> None:
        """Sample together, then count or select."""
        answers = await flow.ask_some(draws(flow, self.agent, self.samples))
        if len(answers) > 1 and not flow.context.task.comparable:
            flow.offer(await self.selector.select(flow, answers))
        elif answers:
            flow.answer = majority(flow.item, answers, flow.context)
        if len(answers) < self.samples:
            raise EpisodeCapError(f"{self.samples - len(answers)} of {self.samples} samples were not drawn")


def majority(item: Item, completions: Sequence[Completion], context: Context) -> Completion:
    """The first completion that gives the most frequent answer; those without an answer or cut short do not vote.

    When none votes, the first completion.
    """
    keys = [
        context.task.key(item, completion.text) if completion.finish_reason == "stop" else None
        for completion in completions
    ]
    votes = Counter(key for key in keys if key is not None)
    if not votes:
        return completions[0]
    return completions[keys.index(votes.most_common(1)[0][0])]


def read_pick(text: str, n: int) -> int:
    """Index (from 0) named by the first word of a selector's reply; 0 when it names none of the n candidates."""
    word = next(iter(text.split()), "").strip("*_#`.,:;()[]")
    numbers = [str(number) for number in range(1, n + 1)]
    return numbers.index(word) if word in numbers else 0


class Sampling(PerBackbone):
    """One method a backbone that draws several answers.

    Attributes:
        usual: how many, unless another number is given.
        n: how many.
    """

    usual: ClassVar[int]
    samples = True

    def __init__(
        self,
        *,
        samples: int | None = None,
        backbones: Mapping[str, Any] | None = None,
        components: Mapping[str, Any] | None = None,
        replicates: int | None = None,
    ) -> None:
        """Draw `samples` (None: as many as usual); the others as in `PerBackbone`.

        Raises:
            ConfigError: one of them is wrong.
        """
        super().__init__(backbones=backbones, components=components, replicates=replicates)
        self.n = whole(self.name, "samples", self.usual if samples is None else samples)
