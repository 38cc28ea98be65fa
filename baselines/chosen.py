"""The two controls that papers leave out: the best single agent, and one fixed agent per task.

Both are chosen on validation items by mean score; equal scores go to the cheaper agent, then to the earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from baselines.single import SingleAgent
from trinity.arena import Arena, Contender, mean_cost, mean_score
from trinity.context import Context
from trinity.forecast import Forecast, Ground
from trinity.types import Agent, Client, Episode, Item, Record


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
class FixedAgents:
    """Method: the agent that `table` gives for the item's task answers alone."""

    table: Mapping[str, Agent]
    name: str
    variant: str
    backbone: str
    replicates: int | None

    async def solve(self, item: Item, client: Client, context: Context) -> Episode:
        """Ask the task's agent."""
        return await SingleAgent(self.table[item.task]).solve(item, client, context)


def fixed(name: str, variant: str, table: Mapping[str, Agent]) -> FixedAgents:
    """A `FixedAgents` whose backbone and replicates follow from its table."""
    models = dict.fromkeys(agent.model for agent in table.values())
    once = all(agent.deterministic for agent in table.values())
    return FixedAgents(table, name, variant, " + ".join(models), 1 if once else None)


class BestSingle(Contender):
    """The agent that is best over all validation items."""

    async def prepare(self, arena: Arena) -> Sequence[FixedAgents]:
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

    def forecast(self, ground: Ground) -> Forecast:
        """As `foreseen`."""
        return foreseen(ground)


class Lookup(Contender):
    """For each task the agent that is best on its validation items."""

    async def prepare(self, arena: Arena) -> Sequence[FixedAgents]:
        """Choose per task, say what was chosen."""
        records = await validated(arena)
        parts = {task: by_task(records, task) for task in arena.tasks}
        table = {task: best_agent(arena, arena.agents, part) for task, part in parts.items()}
        arena.choices["lookup"] = {
            task: {"agent": table[task].name, "accuracy_val": mean_scores(parts[task])} for task in arena.tasks
        }
        return [fixed("lookup", "", table)]

    def forecast(self, ground: Ground) -> Forecast:
        """As `foreseen`."""
        return foreseen(ground)


def foreseen(ground: Ground) -> Forecast:
    """Every agent once on validation, then the dearest on test; what two methods share is counted for both."""
    validation = [ground.played([agent], "val") for agent in ground.agents]
    return reduce(Forecast.plus, validation, ground.played(ground.agents, "test", times=ground.times(ground.agents)))


def mean_scores(records: Mapping[str, Sequence[Record]]) -> dict[str, float | None]:
    """Agent name -> mean score of its graded records, None where none is."""
    return {name: mean_score(rows) for name, rows in records.items()}
