"""Coordinators trained for several weights of cost, so that one run shows what accuracy costs and what saving loses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from trinity.arena import Arena, Contender
from trinity.coordinator.heads import Head
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground
from trinity.trainers.train import Training
from trinity.trainers.trained import TrainedCoordinator
from trinity.types import Method


class CostTradeoff(Contender):
    """One coordinator per weight w, trained for score - w x cost / unit, named `{name}_w{w}`.

    The unit is the mean validation cost of an episode of the method `relative_to`: at w = 1 an episode that is as dear
    as that loses one point of score, whatever costs are counted in. All weights start from the same parameters and meet
    the same mutations, items and noise, so what they ask alike is paid for once.
    """

    def __init__(
        self,
        *,
        head: Callable[..., Head],
        max_turns: int,
        training: Training,
        weights: Sequence[float],
        relative_to: str = "best_single",
        name: str = "coordinator",
    ) -> None:
        """`weights` are trained one after another; the other arguments are those of `TrainedCoordinator`.

        Raises:
            ConfigError: no weights, one that is no number from 0 up, equal ones, or a weight in `training` besides.
        """
        self._head, self._max_turns, self._training = head, max_turns, training
        self._relative_to, self._name = relative_to, name
        self._weights = _checked(weights, name)
        if training.cost_weight:
            raise ConfigError(f"trainer.cost_weight={training.cost_weight}: {name} is trained for weights of its own")
        self._weighed(0.0)

    async def prepare(self, arena: Arena) -> Sequence[Method]:
        """Train one after another; says the weight and the unit of each."""
        costs = arena.noted_costs(self._relative_to, f"{self._name}_w*")
        if costs is None:
            return ()
        n_items = {task: arena.player.ledger.count_items(task, "val") for task in costs}
        unit = sum(cost * n_items[task] for task, cost in costs.items()) / sum(n_items.values())
        if not unit:
            arena.notes.append(f"{self._name}_w*: n/a, {self._relative_to} costs nothing that weights could refer to")
            return ()
        methods: list[Method] = []
        for weight in self._weights:
            arena.progress.say(f"{self._called(weight)}: score - {weight:g} x cost / {unit:.4g} ({arena.axis})")
            rows = await self._weighed(weight, unit).prepare(arena)
            if not rows:
                return ()
            arena.choices[self._called(weight)] |= {"weight": weight, "unit": unit}
            methods += rows
        return methods

    def forecast(self, ground: Ground) -> Forecast:
        """As many coordinators as weights; what they share is counted for each."""
        return Forecast.total(self._weighed(weight).forecast(ground) for weight in self._weights)

    def _called(self, weight: float) -> str:
        return f"{self._name}_w{weight:g}"

    def _weighed(self, weight: float, unit: float = 1.0) -> TrainedCoordinator:
        training = replace(self._training, cost_weight=weight / unit)
        return TrainedCoordinator(self._head, self._max_turns, training, self._called(weight))


def _checked(weights: object, name: str) -> list[float]:
    """The weights as they are.

    Raises:
        ConfigError: see `CostTradeoff`.
    """
    if isinstance(weights, str) or not isinstance(weights, Sequence) or not weights:
        raise ConfigError(f"{name}: weights={weights}: give a list of numbers such as [0, 0.1, 1]")
    for weight in weights:
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise ConfigError(f"{name}: weights={weights}: {weight} is no number from 0 up")
    if len({f"{weight:g}" for weight in weights}) < len(weights):
        raise ConfigError(f"{name}: weights={weights}: two are equal in six digits")
    return [*weights]
