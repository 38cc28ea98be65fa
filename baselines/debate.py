"""Debate (arXiv 2608.00685, "Debate"): two agents answer, each revises with the other's answer, a judge concludes.

As in the study: five calls always (2 answers, 2 revisions, 1 judge), one round, no early stop, the components
`generation_system`, `debate` and `judge`, every call of a row by one backbone. A revision sees the question and the
other's answer; its template has no place for the agent's own first one. The judge writes the answer itself, and an
empty intermediate answer ends nothing.

Ours: the wording; the generation system message stands before all five calls, since each of them writes an answer;
answers are quoted line by line and come before the judge in an order that the context's stream shuffles; where the
judge says nothing, the latest answer that said anything stands. `debate_mixed`, two different backbones, is not in
the study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar, NamedTuple, Unpack

from baselines.backbones import Common, Orchestrated, PerBackbone, asked_as, joint_row, names
from baselines.components import Components, Parts
from baselines.cot import GENERATION
from baselines.workflow import Scaffold, Workflow, shown
from trinity.arena import Arena
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground
from trinity.types import Agent, Completion, Message

PARTS: Parts = {
    GENERATION: (),
    "debate": ("other_answers", "original_prompt"),
    "judge": ("original_prompt", "agent_answers"),
}
READS = (0, 0, 1, 1, 2)
"""Of each call: how many earlier answers it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateRound(Scaffold):
    """Method: `debaters` (2) answer and revise, `judge` concludes; the calls of one step run together."""

    debaters: tuple[Agent, Agent]
    judge: Agent
    components: Components

    async def play(self, flow: Workflow) -> None:
        """Ask five times."""
        system = self.components[GENERATION]
        solvers = [replace(agent, style=system) for agent in self.debaters]
        first = await flow.ask_all([(agent, flow.solve_as(agent)) for agent in solvers])
        replies = [self._reply(flow, other) for other in reversed(first)]
        revised = await flow.ask_all(list(zip(self.debaters, replies, strict=True)))
        await flow.ask_all([(self.judge, self._case(flow, revised))])

    def _reply(self, flow: Workflow, other: Completion) -> list[Message]:
        content = self.components.fill("debate", other_answers=shown(other), original_prompt=flow.question)
        return flow.briefed(self.components[GENERATION], content)

    def _case(self, flow: Workflow, revised: Sequence[Completion]) -> list[Message]:
        answers, _ = flow.listed("Answer", revised)
        content = self.components.fill("judge", original_prompt=flow.question, agent_answers=answers)
        return flow.briefed(self.components[GENERATION], content)


class Debate(PerBackbone):
    """Each backbone against itself, its own judge. Its first answers are samples 0 and 1 of `cot`'s request."""

    name = "debate"
    parts: ClassVar[Parts] = PARTS
    samples = True

    def method(self, agent: Agent) -> DebateRound:
        """Five calls of one backbone."""
        return DebateRound(debaters=(agent, agent), judge=agent, components=self.components, **self.row(agent))

    def reads(self) -> Sequence[int]:
        """As `READS`."""
        return READS


class Sides(NamedTuple):
    """Who debates and who judges."""

    first: Agent
    second: Agent
    judge: Agent

    @property
    def variant(self) -> str:
        """The debaters' names."""
        return f"{self.first.name}+{self.second.name}"


class MixedDebate(Orchestrated):
    """Pairs of different backbones, one row a pair; none of them needs noise, for they differ."""

    name = "debate_mixed"
    parts: ClassVar[Parts] = PARTS
    prompts = "debate"

    def __init__(
        self,
        *,
        pairs: Sequence[Sequence[str]] | None = None,
        judge: str | None = None,
        **rest: Unpack[Common],
    ) -> None:
        """`pairs` of agents (None: every two backbones), and who judges (None: the first of each pair)."""
        super().__init__(**rest)
        self.pairs = None if pairs is None else self._pairs(pairs)
        self.judge = judge

    def _pairs(self, given: object) -> list[list[str]]:
        place = f"methods.{self.name}.pairs"
        pairs = [names(place, pair) for pair in given] if isinstance(given, Sequence) else []
        if not pairs or any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 - a pair
            raise ConfigError(f"{place}={given}: give pairs of agents, [[NAME, NAME], ...]")
        return pairs

    def sides(self, pool: Sequence[Agent]) -> list[Sides]:
        """Every debate, pairs in the given order.

        Raises:
            ConfigError: a name is of no agent, a pair is there twice or is no pair of different backbones, or there
                is none.
        """
        if self.pairs is None:
            found = list(combinations(self.backbones.of(pool), 2))
        else:
            found = [(a, b) for a, b in (self.named(pool, "pairs", *pair) for pair in self.pairs)]
        for a, b in found:
            if asked_as(a) == asked_as(b):
                raise ConfigError(
                    f"methods.{self.name}.pairs: {a.name} and {b.name} are one backbone; take method debate"
                )
        judge = self.named(pool, "judge", self.judge)
        sides = [Sides(a, b, *(judge or [a])) for a, b in found]
        if not sides or len({side.variant for side in sides}) < len(sides):
            raise ConfigError(f"methods.{self.name}.pairs: needs pairs of two different backbones, each pair once")
        return sides

    async def prepare(self, arena: Arena) -> Sequence[DebateRound]:
        """One method a pair; nothing is learnt."""
        return [
            DebateRound(
                debaters=(side.first, side.second),
                judge=side.judge,
                components=self.components,
                **joint_row(self.name, side.variant, side, self.replicates),
            )
            for side in self.sides(arena.agents)
        ]

    def check(self, ground: Ground) -> None:
        """As `sides`."""
        self.sides(ground.agents)

    def forecast(self, ground: Ground) -> Forecast:
        """Five calls of every test episode, each by the dearest of its three agents; the order shown is noise."""
        times, n_bytes = ground.at_most(self.replicates), self.components.n_bytes
        sides = self.sides(ground.agents)
        return Forecast.total(ground.worked(side, "test", READS, n_bytes, times=times) for side in sides)
