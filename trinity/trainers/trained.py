"""The contender that trains a coordinator and hands it over twice: sampled and argmax, two rows of one theta."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trinity.arena import Arena, Contender
from trinity.coordinator.heads import Head
from trinity.coordinator.protocol import Coordinator
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground
from trinity.runs.checkpoint import Checkpoint, save_policy
from trinity.trainers.train import Fitted, Problem, Theta, Training
from trinity.types import Method


class TrainedCoordinator(Contender):
    """Trains on train items, chooses on validation items, is tested on test items."""

    def __init__(
        self, head: Callable[..., Head], max_turns: int, training: Training, name: str = "coordinator"
    ) -> None:
        """`head(d=, n_agents=)` makes the head; `max_turns` is K.

        Raises:
            ConfigError: K is not positive.
        """
        if max_turns < 1:
            raise ConfigError(f"coordinator.max_turns={max_turns}: at least one turn is needed")
        self._head, self._max_turns, self._training, self.name = head, max_turns, training, name

    async def prepare(self, arena: Arena) -> Sequence[Method]:
        """Train, save the policy, say what it is."""
        if len(arena.agents) < 2:  # noqa: PLR2004 - one agent leaves nothing to choose
            arena.notes.append(f"{self.name}: n/a, a pool of one agent leaves nothing to coordinate")
            return ()
        head = self._head(d=arena.policies.d, n_agents=len(arena.agents))
        problem = Problem(
            self.name, head.size, self._maker(arena, head), Checkpoint(arena.folder / "checkpoint" / self.name)
        )
        fitted = await self._training.fit(problem, arena)
        self._keep(arena, fitted)
        make = problem.make
        return [make(fitted.theta, "sampled", True), make(fitted.theta, "argmax", False)]  # noqa: FBT003 - positional

    def forecast(self, ground: Ground) -> Forecast:
        """Training, validation and the test of both rows, every turn played."""
        if len(ground.agents) < 2:  # noqa: PLR2004 - as in `prepare`
            return Forecast()
        trained = self._training.forecast(ground, self._max_turns)
        times = ground.replicates + ground.times(ground.agents)
        return trained.plus(ground.played(ground.agents, "test", turns=self._max_turns, times=times))

    def _maker(self, arena: Arena, head: Head) -> Callable[[Theta, str, bool], Coordinator]:
        names = [agent.name for agent in arena.agents]
        once = all(agent.deterministic for agent in arena.agents)

        def make(theta: Theta, variant: str, sampled: bool) -> Coordinator:  # noqa: FBT001 - see Problem.make
            policy = arena.policies.make(f"{self.name}/{variant}", names, head, theta, sampled=sampled)
            replicates = 1 if once and not sampled else None
            return Coordinator(policy, arena.agents, self._max_turns, self.name, variant, arena.pool, replicates)

        return make

    def _keep(self, arena: Arena, fitted: Fitted) -> None:
        metadata = {"method": self.name, "generation": str(fitted.generation), "pool": arena.pool}
        save_policy(arena.folder / "checkpoint" / self.name / "best.safetensors", fitted.theta, metadata)
        arena.choices[self.name] = {
            "generation": fitted.generation,
            "accuracy_val": fitted.accuracy,
            "cost_val": fitted.cost,
            "axis": arena.axis,
        }
