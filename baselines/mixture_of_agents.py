"""Mixture-of-Agents (Wang et al. 2024, arXiv 2406.04692): layers of proposers that read the layer before, then one.

As in the paper (section 2.2): all proposers of a layer answer in parallel; from the second layer on each reads all
answers of the layer before under an aggregate-and-synthesise prompt; the last layer is one aggregator with the same
prompt; every layer has the same proposers, and an agent may stand among them more than once (the single-proposer
setting). The paper counts the aggregator as a layer: its MoA of 3 layers is `layers: 2` here, its MoA-Lite of 2 is
`layers: 1`. An episode is layers x proposers + 1 calls.

Ours: the wording; the first layer is asked as `cot` asks and the system message for steps stands before every call,
the references after the question (the authors' code gives the first layer no system message and later ones the
references in it); references are quoted line by line, in an order that the context's stream shuffles for each layer;
the paper's aggregator is a fixed strong model, ours is named or is the proposer that validated best. An aggregator
that says nothing leaves the latest answer that said anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Unpack

from baselines.backbones import Common, Orchestrated, asked_as, joint_row, names, whole_number
from baselines.chosen import best_agent, mean_scores
from baselines.components import Components, Parts
from baselines.cot import GENERATION, alone_on_validation
from baselines.workflow import Scaffold, Workflow
from trinity.arena import Arena
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground
from trinity.types import Agent, Completion, Message

MOST_LAYERS = 16
LEAST_PROPOSERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers(Scaffold):
    """Method: `layers` times all `proposers`, then `aggregator`; the calls of one layer run together."""

    proposers: Sequence[Agent]
    aggregator: Agent
    layers: int
    components: Components

    async def play(self, flow: Workflow) -> None:
        """Ask layers x proposers + 1 times."""
        solvers = [replace(agent, style=self.components[GENERATION]) for agent in self.proposers]
        answers = await flow.ask_all([(agent, flow.solve_as(agent)) for agent in solvers])
        for _ in range(1, self.layers):
            brief = self._brief(flow, answers)
            answers = await flow.ask_all([(agent, brief) for agent in self.proposers])
        await flow.ask_all([(self.aggregator, self._brief(flow, answers))])

    def _brief(self, flow: Workflow, answers: Sequence[Completion]) -> list[Message]:
        """What everybody reads who builds on the layer before."""
        responses, _ = flow.listed("Response", answers)
        content = self.components.fill("aggregator", original_prompt=flow.question, responses=responses)
        return flow.briefed(self.components[GENERATION], content)


class MixtureOfAgents(Orchestrated):
    """One row: the backbones together."""

    name = "mixture_of_agents"
    parts: ClassVar[Parts] = {GENERATION: (), "aggregator": ("original_prompt", "responses")}

    def __init__(
        self,
        *,
        layers: int = 2,
        proposers: Sequence[str] | None = None,
        aggregator: str | None = None,
        **rest: Unpack[Common],
    ) -> None:
        """Layers before the aggregator, who proposes (None: the backbones), who aggregates (None: the best of them)."""
        super().__init__(**rest)
        self.layers = whole_number(self.name, "layers", layers, most=MOST_LAYERS)
        self.proposers = None if proposers is None else names(f"methods.{self.name}.proposers", proposers)
        self.aggregator = aggregator

    def team(self, pool: Sequence[Agent]) -> list[Agent]:
        """The proposers.

        Raises:
            ConfigError: a name is of no agent, they are fewer than two, or two of them would answer alike.
        """
        team = self.backbones.of(pool) if self.proposers is None else self.named(pool, "proposers", *self.proposers)
        if len(team) < LEAST_PROPOSERS:
            raise ConfigError(f"methods.{self.name}.proposers: name at least {LEAST_PROPOSERS} proposers")
        times = Counter(map(asked_as, team))
        twins = [agent.name for agent in team if agent.deterministic and times[asked_as(agent)] > 1]
        if twins:
            raise ConfigError(
                f"methods.{self.name}.proposers: {', '.join(twins)} would give equal answers; "
                "set backbones.sampling.temperature above 0, or name each backbone once in proposers"
            )
        return team

    async def prepare(self, arena: Arena) -> Sequence[Layers]:
        """Choose the aggregator where none is named; says who it is and on what ground."""
        team = self.team(arena.agents)
        aggregator, *_ = self.named(arena.agents, "aggregator", self.aggregator) or [await self._best(arena, team)]
        chosen = arena.choices.setdefault(self.name, {})
        chosen |= {"aggregator": aggregator.name, "layers": self.layers, "proposers": [agent.name for agent in team]}
        return [
            Layers(
                proposers=team,
                aggregator=aggregator,
                layers=self.layers,
                components=self.components,
                **joint_row(self.name, "", [*team, aggregator], self.replicates),
            )
        ]

    async def _best(self, arena: Arena, team: Sequence[Agent]) -> Agent:
        """The proposer that is best on validation, asked as in the first layer."""
        among = list({agent.name: agent for agent in team}.values())
        records = await alone_on_validation(arena, self.name, among, self.components[GENERATION])
        arena.choices[self.name] = {"accuracy_val": mean_scores(records)}
        return best_agent(arena, among, records)

    def check(self, ground: Ground) -> None:
        """Refuse proposers and aggregators that are not there, and proposers that would answer alike."""
        self.team(ground.agents)
        self.named(ground.agents, "aggregator", self.aggregator)

    def forecast(self, ground: Ground) -> Forecast:
        """Each proposer once on validation where one is to be chosen; every test call by the dearest agent.

        Replicates of agents without noise differ too: the order in which answers are shown is noise.
        """
        team, named = self.team(ground.agents), self.named(ground.agents, "aggregator", self.aggregator)
        times, n_bytes = ground.at_most(self.replicates), self.components.n_bytes
        tested = ground.worked([*team, *named], "test", self.reads(len(team)), n_bytes, times=times)
        tried = [] if named else {agent.name: agent for agent in team}.values()
        return Forecast.total([tested, *(ground.worked([agent], "val", (0,), n_bytes) for agent in tried)])

    def reads(self, proposers: int) -> Sequence[int]:
        """Of each call: how many earlier answers it reads."""
        return [0] * proposers + [proposers] * (proposers * (self.layers - 1) + 1)
