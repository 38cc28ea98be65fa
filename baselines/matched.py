"""A baseline at another method's price: its size per task is the largest that costs no more on validation items.

For any baseline whose size is one of its settings (samples, rounds, layers). Of its backbones the one is taken that is
best on validation items at the smallest size. From there its size grows, task by task, as long as the mean validation
cost on the run's axis stays at or below that of the method it matches; where the smallest size is dearer already it is
played all the same, and that is said. The larger size of the same baseline asks what the smaller one asked and more, so
that growing step by step pays for little more than the first size that is too dear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from baselines.backbones import Common, Orchestrated, PerBackbone, whole_number
from baselines.chosen import PerTask, merit
from trinity.arena import Arena, Contender, mean_score
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground, dearest
from trinity.types import Agent, Method


class Size(NamedTuple):
    """How large the baseline is on one task: its knob's value, and its mean validation cost there."""

    n: int
    cost: float


class Matched(Contender):
    """Sets the size of a baseline per task so that it costs what another method costs."""

    def __init__(
        self,
        *,
        baseline: Callable[..., Orchestrated],
        knob: str,
        most: int,
        least: int = 1,
        match: str = "coordinator",
    ) -> None:
        """`baseline(KNOB=n)` gives it at size n from `least` to `most`; `match` names the method to match.

        Raises:
            ConfigError: the baseline does not come in these sizes.
        """
        self._baseline, self._knob, self._match = baseline, knob, match
        plain: Any = baseline()  # a configuration may name anything
        if not isinstance(plain, Orchestrated) or knob in Common.__optional_keys__:
            raise ConfigError(f"methods.matched: {knob} is no size of {type(plain).__name__}; see docs/baselines.md")
        self.name = f"matched_{plain.name}"
        self._least = whole_number(self.name, "least", least)
        self._most = whole_number(self.name, "most", most, least=self._least)
        for n in (self._least, self._most):
            self._sized(n)

    async def prepare(self, arena: Arena) -> Sequence[PerTask]:
        """Choose the backbone, grow on each task, say what came out."""
        targets = arena.noted_costs(self._match, self.name)
        if targets is None:
            return ()
        smallest = await self._rows(arena, self._least)
        if not smallest:  # the baseline has said why
            return ()
        tried = await arena.validate(*(self._trial(arena, row, self._least) for row in smallest))
        place = max(range(len(tried)), key=lambda place: merit(arena, tried[place]))
        costs = arena.mean_costs(tried[place])
        sizes = {task: Size(self._least, cost) for task, cost in costs.items() if cost is not None}
        if len(sizes) < len(costs):
            unknown = ", ".join(task for task in costs if task not in sizes)
            arena.notes.append(f"{self.name}: n/a, its own cost in {arena.axis} is not known on {unknown}")
            return ()
        await self._grow(arena, place, sizes, targets)
        row = smallest[place]
        scores = {one.variant or one.backbone: mean_score(found) for one, found in zip(smallest, tried, strict=True)}
        self._tell(arena, sizes, targets, {"backbone": row.variant or row.backbone, "accuracy_val": scores})
        table = {task: (await self._rows(arena, size.n))[place] for task, size in sizes.items()}
        return [PerTask(table, self.name, row.variant, row.backbone, row.replicates)]

    def asked(self, pool: Sequence[Agent]) -> Sequence[Agent]:
        """As the baseline at its largest."""
        return self._sized(self._most).asked(pool)

    def check(self, ground: Ground) -> None:
        """As the baseline does at its largest."""
        self._sized(self._most).check(ground)

    def forecast(self, ground: Ground) -> Forecast | None:
        """Every backbone on validation at the smallest size, the dearest at every other; on test at the largest."""
        validation = ground.only("val")
        parts = [self._sized(self._least).forecast(validation), self._dearest(self._most, ground)]
        parts += [self._dearest(n, validation) for n in range(self._least + 1, self._most + 1)]
        known = [part for part in parts if part is not None]
        return Forecast.total(known) if len(known) == len(parts) else None

    def _sized(self, n: int, **settings: Any) -> Orchestrated:
        """The baseline at a size, under this contender's name: what it validates by itself is this one's effort."""
        sized = self._baseline(**{self._knob: n}, **settings)
        sized.name = self.name
        return sized

    async def _rows(self, arena: Arena, n: int) -> Sequence[Method]:
        """The baseline's rows at a size; what it chose for them is not told."""
        return await self._sized(n).prepare(replace(arena, choices={}))

    def _trial(self, arena: Arena, row: Method, n: int) -> PerTask:
        """A row on validation items, under this contender's name, so that it counts as its effort."""
        variant = f"{row.variant} {self._knob}={n}".lstrip()
        return PerTask(dict.fromkeys(arena.tasks, row), self.name, variant, row.backbone, row.replicates)

    async def _grow(self, arena: Arena, place: int, sizes: dict[str, Size], targets: Mapping[str, float]) -> None:
        """Try size after size on those tasks where the last one was within its target."""
        n, growing = self._least, [task for task, size in sizes.items() if _fits(size.cost, targets[task])]
        while growing and n < self._most:
            n += 1
            trial = self._trial(arena, (await self._rows(arena, n))[place], n)
            plays = [play for play in arena.plays(trial, "val", "val", 1) if play.item.task in growing]
            costs = arena.mean_costs(await arena.graded(f"{trial.name} {trial.variant} on validation", plays))
            found = {task: cost for task in growing if (cost := costs[task]) is not None and _fits(cost, targets[task])}
            sizes.update({task: Size(n, cost) for task, cost in found.items()})
            growing = list(found)

    def _tell(
        self, arena: Arena, sizes: Mapping[str, Size], targets: Mapping[str, float], chosen: dict[str, Any]
    ) -> None:
        """What was matched with what, for the summary; and a sentence on what is dearer."""
        told = {
            task: {
                self._knob: size.n,
                "cost_val": size.cost,
                "matched_cost_val": targets[task],
                "dearer": not _fits(size.cost, targets[task]),
                "at_limit": size.n == self._most,
            }
            for task, size in sizes.items()
        }
        costs = {task: size.cost for task, size in sizes.items()}
        facts = {"match": self._match, "axis": arena.axis, "cost_val": costs, "tasks": told}
        arena.choices[self.name] = {**chosen, **facts}
        arena.note_limit(self.name, self._match, [task for task, entry in told.items() if entry["at_limit"]])
        dearer = [task for task, entry in told.items() if entry["dearer"]]
        if dearer:
            smallest = f"{self._knob}={self._least}"
            arena.notes.append(f"{self.name}: dearer than {self._match} on {', '.join(dearer)} even with {smallest}")

    def _dearest(self, n: int, ground: Ground) -> Forecast | None:
        """One row at a size, the dearest where it has one a backbone."""
        sized = self._sized(n)
        if not isinstance(sized, PerBackbone):
            return sized.forecast(ground)
        names = [agent.name for agent in sized.backbones.of(ground.agents)]
        alone = [self._sized(n, backbones={"agents": [name], "sampling": sized.backbones.sampling}) for name in names]
        rows = [row for one in alone if (row := one.forecast(ground)) is not None]
        return Forecast(max(row.episodes for row in rows), dearest([row.spend for row in rows]))


def _fits(cost: float, target: float) -> bool:
    """At or below, but for rounding."""
    return cost <= target * (1 + 1e-9)
