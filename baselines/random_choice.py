"""The coordinator's loop with a uniform choice of agent and role at every turn."""

from __future__ import annotations

from collections.abc import Sequence

from trinity.arena import Arena, Contender
from trinity.coordinator.policy import RandomPolicy
from trinity.coordinator.protocol import Coordinator


class RandomChoice(Contender):
    """Random agent and role, `max_turns` as the coordinator's."""

    def __init__(self, max_turns: int) -> None:
        """Keep K."""
        self._max_turns = max_turns

    async def prepare(self, arena: Arena) -> Sequence[Coordinator]:
        """One method; nothing is learnt."""
        policy = RandomPolicy("random", [agent.name for agent in arena.agents])
        return [Coordinator(policy, arena.agents, self._max_turns, name="random", backbone=arena.pool)]
