"""Which episodes a generation plays and what they are worth.

All candidates of a generation meet the same items, replicates and noise, so they differ by their choices alone and
share the calls that they agree on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from trinity.arena import Arena, cost
from trinity.episodes import Play
from trinity.errors import ConfigError, UngradedError
from trinity.types import CostAxis, Item, Method, Record, Replicate, Task

Noise = Literal["fresh", "frozen"]


def epoch_order(tasks: Sequence[str], seed: int, epoch: int) -> list[int]:
    """A permutation of range(len(tasks)) that shuffles within each task and spreads the tasks evenly.

    `tasks[i]` is the task of item i; any stretch of the order holds the tasks in proportion.
    """
    rng = np.random.default_rng([seed, epoch])
    places: list[tuple[float, float, int]] = []
    for name in dict.fromkeys(tasks):
        members = [index for index, task in enumerate(tasks) if task == name]
        shift = rng.random()
        for rank, member in enumerate(rng.permutation(len(members))):
            places.append(((rank + shift) / len(members), rng.random(), members[member]))
    return [index for *_, index in sorted(places)]


def drawn(items: Sequence[tuple[Task, Item]], seed: int, generation: int, m: int) -> list[tuple[Task, Item]]:
    """The m items of a generation: slots g·m .. g·m + m − 1 of an endless run of shuffled epochs."""
    tasks = [item.task for _, item in items]
    slots = [divmod(slot, len(items)) for slot in range(generation * m, generation * m + m)]
    orders = {epoch: epoch_order(tasks, seed, epoch) for epoch, _ in slots}
    return [items[orders[epoch][place]] for epoch, place in slots]


def train_plays(method: Method, items: Sequence[tuple[Task, Item]], generation: int, noise: Noise) -> Iterator[Play]:
    """One candidate's episodes: trajectory r of generation g plays item r, replicate g·m + r (fresh) or r (frozen)."""
    first = generation * len(items) if noise == "fresh" else 0
    for place, (task, item) in enumerate(items):
        yield Play(method, task, item, Replicate("train", first + place))


def reward(record: Record, weight: float, axis: CostAxis) -> float:
    """Score − w · cost.

    Raises:
        UngradedError: there is no score.
        ConfigError: the cost is weighed but unknown.
    """
    if record.score is None:
        raise UngradedError(f"{record.task}/{record.item_id} was never graded")
    if not weight:
        return record.score
    amount = cost(record, axis)
    if amount is None:
        raise ConfigError(
            f"trainer.cost_weight={weight} needs the cost in {axis} of every agent; give its price or active_params"
        )
    return record.score - weight * amount


async def play_generation(
    arena: Arena,
    methods: Sequence[Method],
    generation: int,
    m: int,
    noise: Noise,
    train: Sequence[tuple[Task, Item]],
) -> list[list[Record]]:
    """Records of every candidate in order, each a list of m.

    Raises:
        UngradedError: episodes failed twice; the optimiser must not hear of this generation.
    """
    items = drawn(train, arena.seed, generation, m)
    plays = [play for method in methods for play in train_plays(method, items, generation, noise)]
    records = await arena.graded(f"{methods[0].name}, generation {generation + 1}", plays)
    return [records[start : start + m] for start in range(0, len(records), m)]
