"""Several answers of one agent to one question: drawing them, counting them, and letting the agent select one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from baselines.components import Components, Parts
from baselines.workflow import Scaffold, Workflow
from trinity.context import Context
from trinity.errors import EpisodeCapError
from trinity.types import Agent, Completion, Item, Message

SELECTOR: Parts = {"selector": ("num_candidates", "original_prompt", "candidates_block")}
"""The component that asks for the number of a candidate."""

_MARKUP = r"[ \t*_#`\[(]{0,8}"
_WIDEST = 200
"""Characters of a line that are looked at."""
# A quoted line starts with `|`, or with Markdown's `>`: no echo of a candidate is read as the selector's own word.
_PICK = re.compile(
    rf"(?:[-*•]|\d{{1,2}}[.)])?{_MARKUP}selected candidate{_MARKUP}:{_MARKUP}(?:candidate )?{_MARKUP}(\d{{1,4}})(?!\d)"
    r"(?![\s*_`\])]{0,8}(?:[/,.]|or|and|&)[\s*_`#\[(]{0,8}(?:candidate )?\d)",
    re.IGNORECASE | re.ASCII,
)


def read_selected(text: str, n: int) -> int | None:
    """Index (from 0) that the last line `Selected candidate: k` of a reply names; None where it is of none of n."""
    picks = [int(found[1]) for line in text.splitlines() if (found := _PICK.match(line[:_WIDEST]))]
    return picks[-1] - 1 if picks and 1 <= picks[-1] <= n else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Who selects: an agent whose style is the selector's system message, and what it is told."""

    agent: Agent
    components: Components

    async def select(self, flow: Workflow, answers: Sequence[Completion]) -> Completion:
        """Its pick among `answers`; where it names none, the one shown first, which the context's noise decides.

        Raises:
            EpisodeCapError: the episode's own cap allows no further call.
            CallError: the call failed after its retries.
        """
        block, listed = flow.listed("Candidate", answers, turn=0)
        content = self.components.fill(
            "selector", num_candidates=str(len(listed)), original_prompt=flow.question, candidates_block=block
        )
        reply = await flow.ask(self.agent, "verifier", flow.briefed(self.agent.style, content))
        return listed[read_selected(reply.text, len(listed)) or 0]


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
