"""The per-item oracle: for each test item the best outcome that any single agent reached. Nobody can be it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from trinity.arena import Arena, Contender, cost
from trinity.forecast import Forecast, Ground
from trinity.types import CostAxis, Method, Record


class Oracle(Contender):
    """Derived from the `single` rows: highest score per item and replicate, the cheapest of equals."""

    async def prepare(self, arena: Arena) -> Sequence[Method]:
        """Nothing to play; a note where there is nothing to derive from."""
        if "single" not in arena.ready:
            arena.notes.append("oracle: n/a, it is derived from the method single, which must stand before it")
        return ()

    def forecast(self, ground: Ground) -> Forecast:
        """Nothing is asked."""
        return Forecast()

    def derive(self, arena: Arena) -> Iterator[Record]:
        """One record per item and replicate, streamed; ungraded where an agent's missing grade could matter."""
        ledger = arena.player.ledger
        streams = [ledger.records(method="single", variant=agent.name, split="test") for agent in arena.agents]
        rows = heapq.merge(*streams, key=_item)
        for _, outcomes in groupby(rows, key=_item):
            yield from _best(list(outcomes), arena.axis)


def _item(record: Record) -> tuple[str, str]:
    return record.task, record.item_id


def _best(outcomes: list[Record], axis: CostAxis) -> Iterator[Record]:
    """The best outcome of an item in each replicate; a deterministic agent's one outcome stands for all."""
    for index in sorted({row.replicate.index for row in outcomes}):
        latest = {row.variant: row for row in outcomes if row.replicate.index in (0, index)}
        best = max(latest.values(), key=lambda row: (_worth(row), -(cost(row, axis) or 0.0)))
        yield replace(best, method="oracle", variant="", replicate=best.replicate._replace(index=index))


def _worth(row: Record) -> float:
    """Score; an ungraded outcome may have been right, so it hides a wrong one but not a right one."""
    return 0.5 if row.score is None else row.score
