"""The training loop: ask, play, tell, validate, checkpoint; then re-evaluate the finalists and call one the best."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from trinity.arena import Arena, mean_score
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground
from trinity.runs.checkpoint import Checkpoint
from trinity.trainers.fitness import Noise, play_generation, reward
from trinity.trainers.sep_cma_es import SepCMAES, default_popsize
from trinity.types import Item, Method, Record, Task

Theta = NDArray[np.float64]

SMALLEST = 2
"""Parameters of a trial optimiser, which only shows whether its settings make sense."""

MOST = 10**5
"""Generations, trajectories, candidates, ...: what is larger is a slip that would fill the memory."""

LARGEST = 10**6
"""Parameters of the largest head that a forecast thinks of; the population grows with their logarithm."""


@dataclass(frozen=True)
class Problem:
    """What is trained: `make(theta, variant, sampled)` gives the method that plays with theta (length `size`)."""

    name: str
    size: int
    make: Callable[[Theta, str, bool], Method]
    checkpoint: Checkpoint


@dataclass(frozen=True)
class Fitted:
    """The chosen theta, where it came from, and its re-evaluation on validation items.

    `accuracy` is the mean score and `cost` the mean logical cost per task on the run's cost axis, both over fresh
    replicates.
    """

    theta: Theta
    generation: int
    accuracy: float | None
    cost: dict[str, float | None]


class _Finalist(NamedTuple):
    """A favourite of the distribution after `generation` generations, and its validation score."""

    score: float
    generation: int
    theta: Theta


@dataclass
class _Finalists:
    """The best favourites so far by validation score, best first."""

    most: int
    best: list[_Finalist] = field(default_factory=list)

    def offer(self, score: float, generation: int, theta: Theta) -> None:
        """Keep theta if it is among the best; an equal earlier one stays ahead."""
        ranked = sorted([*self.best, _Finalist(score, generation, theta)], key=lambda one: (-one.score, one.generation))
        self.best = ranked[: self.most]


@dataclass(frozen=True)
class Training:
    """Settings of the loop (conf/trainer). One evaluation is one episode: generations x popsize x trajectories."""

    optimiser: Callable[..., SepCMAES]
    generations: int
    trajectories: int
    noise: Noise = "fresh"
    validate_every: int = 5
    cost_weight: float = 0.0
    finalists: int = 2
    reeval_replicates: int = 2

    def __post_init__(self) -> None:
        """Refuse settings that could only fail after episodes were paid for.

        Raises:
            ConfigError: names the key.
        """
        for key in ("generations", "trajectories", "validate_every", "finalists", "reeval_replicates"):
            if not isinstance(getattr(self, key), int) or not 1 <= getattr(self, key) <= MOST:
                raise ConfigError(f"trainer.{key}={getattr(self, key)}: must be a whole number from 1 to {MOST}")
        if not math.isfinite(self.cost_weight):
            raise ConfigError(f"trainer.cost_weight={self.cost_weight}: must be finite")
        if self.noise not in get_args(Noise):
            raise ConfigError(f"trainer.noise={self.noise}: choose from {', '.join(get_args(Noise))}")
        popsize = getattr(self.optimiser, "keywords", {}).get("popsize")
        if isinstance(popsize, int) and popsize > MOST:
            raise ConfigError(f"trainer.optimiser.popsize={popsize}: must be at most {MOST}")
        try:
            trial = self.optimiser(SMALLEST, seed=0)
            trial.tell([0.0] * len(trial.ask()))
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"trainer.optimiser: {error}") from error

    def forecast(self, ground: Ground, turns: int) -> Forecast:
        """What `fit` may cost at the worst, with heads of up to a million parameters."""
        popsize = getattr(self.optimiser, "keywords", {}).get("popsize") or default_popsize(LARGEST)
        episodes = self.generations * popsize * self.trajectories
        validations = -(-self.generations // self.validate_every)
        times = validations + min(self.finalists, validations) * self.reeval_replicates
        trained = ground.drawn(ground.agents, "train", episodes, turns=turns)
        return trained.plus(ground.played(ground.agents, "val", turns=turns, times=times))

    async def fit(self, problem: Problem, arena: Arena) -> Fitted:
        """Train `problem` on the arena's train items, from its last checkpoint if it has one.

        Raises:
            UngradedError: episodes of a generation failed twice.
            LedgerError: the checkpoint does not fit this configuration.
        """
        optimiser, finalists = self._start(problem, arena)
        train = list(arena.items("train"))
        began, first = time.monotonic(), optimiser.generation
        while optimiser.generation < self.generations:
            generation = optimiser.generation
            records = await self._play(problem, arena, optimiser, train)
            optimiser.tell([self._fitness(rows, arena) for rows in records])
            validated = await self._validate(problem, arena, optimiser, finalists)
            val = None if validated is None else self._fitness(validated, arena)
            payload = _payload(optimiser, generation, records, validated, val)
            arena.player.ledger.add_generation(problem.name, generation, payload)
            arena.on_generation(problem.name, generation, payload)
            _save(problem.checkpoint, optimiser, finalists)
            left = (time.monotonic() - began) / (generation + 1 - first) * (self.generations - generation - 1)
            arena.progress.say(f"{problem.name}, {_line(payload, self.generations, left, arena)}")
        return await self._choose(problem, arena, finalists)

    def _start(self, problem: Problem, arena: Arena) -> tuple[SepCMAES, _Finalists]:
        finalists = _Finalists(self.finalists)
        optimiser = self.optimiser(problem.size, seed=arena.seed)
        saved = problem.checkpoint.latest()
        if saved is not None:
            _, arrays, state = saved
            optimiser.catch_up(state["fitness"], expected_mean=arrays["mean"])
            for place, (score, generation) in enumerate(zip(state["scores"], state["generations"], strict=True)):
                finalists.offer(score, generation, arrays[f"finalist{place}"])
        return optimiser, finalists

    async def _play(
        self, problem: Problem, arena: Arena, optimiser: SepCMAES, train: Sequence[tuple[Task, Item]]
    ) -> list[list[Record]]:
        generation = optimiser.generation
        candidates = [
            problem.make(theta, f"g{generation:03d}/c{place:02d}", True)  # noqa: FBT003 - a Callable has no keywords
            for place, theta in enumerate(optimiser.ask())
        ]
        return await play_generation(arena, candidates, generation, self.trajectories, self.noise, train)

    def _fitness(self, records: Sequence[Record], arena: Arena) -> float:
        return sum(reward(record, self.cost_weight, arena.axis) for record in records) / len(records)

    async def _validate(
        self, problem: Problem, arena: Arena, optimiser: SepCMAES, finalists: _Finalists
    ) -> list[Record] | None:
        """Play the distribution's favourite on the validation items when it is due."""
        generation = optimiser.generation
        if generation % self.validate_every and generation != self.generations:
            return None
        theta = optimiser.favourite
        (records,) = await arena.validate(problem.make(theta, favourite(generation), True))  # noqa: FBT003 - as above
        finalists.offer(self._fitness(records, arena), generation, theta)
        return records

    async def _choose(self, problem: Problem, arena: Arena, finalists: _Finalists) -> Fitted:
        """Re-evaluate the finalists on fresh replicates; the first of equals (the better validated) wins."""
        tried: list[tuple[float, list[Record]]] = []
        for one in finalists.best:
            method = problem.make(one.theta, favourite(one.generation), True)  # noqa: FBT003 - as above
            (records,) = await arena.validate(method, phase="reeval", replicates=self.reeval_replicates)
            tried.append((self._fitness(records, arena), records))
        place = max(range(len(tried)), key=lambda place: tried[place][0])
        chosen, records = finalists.best[place], tried[place][1]
        return Fitted(chosen.theta, chosen.generation, mean_score(records), arena.mean_costs(records))


def favourite(generation: int) -> str:
    """Variant of the distribution's mean after `generation` generations."""
    return f"g{generation:03d}/favourite"


def _payload(
    optimiser: SepCMAES,
    generation: int,
    records: Sequence[Sequence[Record]],
    validated: Sequence[Record] | None,
    val: float | None,
) -> dict[str, Any]:
    """What a generation leaves in the ledger: enough for the training curve and the effort; `val` is a fitness."""
    rows = [record for candidate in records for record in candidate]
    return {
        "index": generation,
        "fitness": optimiser.fitness_history[-1].tolist(),
        "sigma": optimiser.sigma,
        "val": val,
        "episodes": len(rows) + len(validated or ()),
        "logical_calls": sum(row.n_calls for row in [*rows, *(validated or ())]),
        "status": dict(sorted(Counter(row.status for row in rows).items())),
    }


def _save(checkpoint: Checkpoint, optimiser: SepCMAES, finalists: _Finalists) -> None:
    thetas = {f"finalist{place}": one.theta for place, one in enumerate(finalists.best)}
    state = {
        "fitness": optimiser.fitness_history.tolist(),
        "scores": [one.score for one in finalists.best],
        "generations": [one.generation for one in finalists.best],
    }
    checkpoint.save(optimiser.generation, {**optimiser.arrays(), **thetas}, state)


def _line(payload: dict[str, Any], generations: int, seconds_left: float, arena: Arena) -> str:
    fitness = payload["fitness"]
    validated = "" if payload["val"] is None else f" · validation {payload['val']:.3f}"
    return (
        f"generation {payload['index'] + 1}/{generations} · fitness {np.mean(fitness):.3f} (best {max(fitness):.3f}) · "
        f"sigma {payload['sigma']:.4f}{validated} · calls {arena.counts.paid} paid, {arena.counts.logical} logical · "
        f"{seconds_left / 60:.1f} min left"
    )
