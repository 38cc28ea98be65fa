"""The two controls that papers leave out: the best single agent, and one fixed agent per task.

Both are chosen on validation items by mean score; equal scores go to the cheaper agent, then to the earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from baselines.backbones import joint_row
from baselines.single import SingleAgent
from trinity.arena import Arena, Contender, mean_cost, mean_score
from trinity.context import Context
from trinity.forecast import Forecast, Ground
from trinity.types import Agent, Client, Episode, Item, Method, Record


async def validated(arena: Arena) -> dict[str, list[Record]]:
    """Agent name -> its validation records, in pool order."""
    records = await arena.validate(*(SingleAgent(agent) for agent in arena.agents))
    return {agent.name: rows for agent, rows in zip(arena.agents, records, strict=True)}


def best_agent(arena: Arena, agents: Sequence[Agent], records: Mapping[str, Sequence[Record]]) -> Agent:
    """The one of `agents` whose records have the highest mean score; ties to the cheaper one, then to the earlier."""
    return max(agents, key=lambda agent: merit(arena, records[agent.name]))


def merit(arena: Arena, records: Sequence[Record]) -> tuple[float, float]:
    """What records are compared by: mean score, then the lower mean cost on the run's axis."""
    score, cost = mean_score(records), mean_cost(records, arena.axis)
    return (-1.0 if score is None else score, -(cost or 0.0))


def by_task(records: Mapping[str, Sequence[Record]], task: str) -> dict[str, list[Record]]:
    """The part of `records` that belongs to `task`."""
    return {name: [record for record in rows if record.task == task] for name, rows in records.items()}


@dataclass(frozen=True, slots=True)
class PerTask:
    """Method: at each task the one that `table` gives."""

    table: Mapping[str, Method]
    name: str
    variant: str
    backbone: str
    replicates: int | None

    async def solve(self, item: Item, client: Client, context: Context) -> Episode:
        """Play the task's method."""
        return await self.table[item.task].solve(item, client, context)


def fixed(name: str, variant: str, table: Mapping[str, Agent]) -> PerTask:
    """At each task the agent that `table` gives, alone; backbone and replicates follow from these agents."""
    agents = list(table.values())
    row = joint_row(name, variant, agents, 1 if all(agent.deterministic for agent in agents) else None)
    return PerTask({task: SingleAgent(agent) for task, agent in table.items()}, **row)


class Validated(Contender):
    """A choice among the pool's agents, each alone on validation."""

    def forecast(self, ground: Ground) -> Forecast:
        """Every agent once on validation, then the dearest on test; what two methods share is counted for both."""
        validation = [ground.played([agent], "val") for agent in ground.agents]
        return Forecast.total([*validation, ground.played(ground.agents, "test", times=ground.times(ground.agents))])


class BestSingle(Validated):
    """The agent that is best over all validation items."""

    async def prepare(self, arena: Arena) -> Sequence[PerTask]:
        """Choose, say what was chosen."""
        records = await validated(arena)
        agent = best_agent(arena, arena.agents, records)
        arena.choices["best_single"] = {
            "agent": agent.name,
            "accuracy_val": mean_scores(records),
            "cost_val": arena.mean_costs(records[agent.name]),
            "axis": arena.axis,
        }
        return [fixed("best_single", agent.name, dict.fromkeys(arena.tasks, agent))]


class Lookup(Validated):
    """For each task the agent that is best on its validation items."""

    async def prepare(self, arena: Arena) -> Sequence[PerTask]:
        """Choose per task, say what was chosen."""
        records = await validated(arena)
        parts = {task: by_task(records, task) for task in arena.tasks}
        table = {task: best_agent(arena, arena.agents, part) for task, part in parts.items()}
        arena.choices["lookup"] = {
            task: {"agent": table[task].name, "accuracy_val": mean_scores(parts[task])} for task in arena.tasks
        }
        return [fixed("lookup", "", table)]


def mean_scores(records: Mapping[str, Sequence[Record]]) -> dict[str, float | None]:
    """Agent name -> mean score of its graded records, None where none is."""
    return {name: mean_score(rows) for name, rows in records.items()}
