"""The coordinator's loop with a uniform choice of agent and role at every turn."""

from __future__ import annotations

from collections.abc import Sequence

from baselines.backbones import checked_replicates, whole_number
from trinity.arena import Arena, Contender
from trinity.coordinator.policy import RandomPolicy
from trinity.coordinator.protocol import Coordinator
from trinity.forecast import Forecast, Ground


class RandomChoice(Contender):
    """Random agent and role, `max_turns` as the coordinator's."""

    def __init__(self, max_turns: int, replicates: int | None = None) -> None:
        """`max_turns` is K; at most `replicates` test replicates (None: as many as set).

        Raises:
            ConfigError: one of them is not positive.
        """
        self._max_turns = whole_number("random", "max_turns", max_turns)
        self._replicates = checked_replicates("random", replicates)

    async def prepare(self, arena: Arena) -> Sequence[Coordinator]:
        """One method; nothing is learnt."""
        policy = RandomPolicy("random", [agent.name for agent in arena.agents], arena.player.ledger)
        return [
            Coordinator(
                policy, arena.agents, self._max_turns, name="random", backbone=arena.pool, replicates=self._replicates
            )
        ]

    def forecast(self, ground: Ground) -> Forecast:
        """All turns of every test episode."""
        times = ground.at_most(self._replicates)
        return ground.played(ground.agents, "test", turns=self._max_turns, times=times)
