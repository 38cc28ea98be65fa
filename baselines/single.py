"""Each agent alone: the question, one call, its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trinity.arena import Arena, Contender
from trinity.context import Context
from trinity.coordinator.protocol import alone, read_turn
from trinity.forecast import Forecast, Ground
from trinity.types import Agent, Client, Completion, Episode, Item


def answered(agent: Agent, completion: Completion) -> Episode:
    """A one-call episode."""
    return Episode(completion.text, completion.finish_reason, (read_turn(agent, "worker", completion),))


@dataclass(frozen=True, slots=True)
class SingleAgent:
    """Method: one agent answers by itself."""

    agent: Agent
    name: str = "single"

    @property
    def variant(self) -> str:
        """The agent's name."""
        return self.agent.name

    @property
    def backbone(self) -> str:
        """The agent's model."""
        return self.agent.model

    @property
    def replicates(self) -> int | None:
        """A deterministic agent is asked once."""
        return 1 if self.agent.deterministic else None

    async def solve(self, item: Item, client: Client, context: Context) -> Episode:
        """Ask once."""
        completion = await client.complete(self.agent, alone(self.agent, context.task.open(item)), context)
        return answered(self.agent, completion)


class Single(Contender):
    """Every agent of the pool alone."""

    async def prepare(self, arena: Arena) -> Sequence[SingleAgent]:
        """One method per agent; nothing is chosen."""
        return [SingleAgent(agent) for agent in arena.agents]

    def forecast(self, ground: Ground) -> Forecast:
        """One call per agent, test item and replicate."""
        return Forecast.total(ground.played([agent], "test", times=ground.times([agent])) for agent in ground.agents)
