"""Majority vote at the coordinator's price: the validation-best agent, sampled n times (self-consistency).

n per task is the largest number of samples whose mean validation cost is at or below the coordinator's; where one
sample is dearer already, n is 1 and that is said. Where a task's answers cannot be compared, the agent selects among
its own candidates as in `self_consistency`. n follows from the price of one sample; `matched` has to try size after
size, for other baselines' later calls read their earlier ones. Only a selection's price is tried here, downwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from baselines.backbones import checked_replicates, joint_row, whole_number
from baselines.chosen import PerTask, best_agent, validated
from baselines.components import load
from baselines.sampling import SELECTOR, Consensus, Selector
from baselines.single import SingleAgent
from trinity.arena import Arena, Contender, mean_cost
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground, episode, less, scaled
from trinity.types import Agent, Item, Spend, Task

LEAST_TEMPERATURE = 0.7


def voting(agent: Agent, samples: Mapping[str, int], replicates: int | None, name: str = "vote") -> PerTask:
    """At each task `samples[task]` answers of one agent; what cannot be compared it selects from, without its style."""
    told = load("vote", SELECTOR, folder="self_consistency")
    selector = Selector(agent=replace(agent, style=""), components=told)
    row = joint_row(name, agent.name, [agent], replicates)
    votes = {task: Consensus(agent=agent, samples=n, selector=selector, **row) for task, n in samples.items()}
    return PerTask(votes, **row)


class CostMatchedVote(Contender):
    """Sets n per task on validation so that the vote costs what the coordinator costs."""

    def __init__(
        self, temperature: float, most: int, match: str = "coordinator", replicates: int | None = None
    ) -> None:
        """`temperature` of the samples, at most `most` of them, `match` names the method to match.

        Raises:
            ConfigError: the temperature is too low for samples to differ, or a number is none.
        """
        if temperature < LEAST_TEMPERATURE:
            raise ConfigError(
                f"methods.vote.temperature={temperature} is below {LEAST_TEMPERATURE}: equal samples cannot vote"
            )
        self._temperature, self._match = temperature, match
        self._most = whole_number("vote", "most", most)
        self._replicates = checked_replicates("vote", replicates)

    async def prepare(self, arena: Arena) -> Sequence[PerTask]:
        """Pick the agent, price one sample per task, set n."""
        targets = arena.noted_costs(self._match, "vote")
        if targets is None:
            return ()
        agent = self._sampled(best_agent(arena, arena.agents, await validated(arena)))
        (records,) = await arena.validate(SingleAgent(agent, name="vote_sample"))
        costs = {task: cost for task, cost in arena.mean_costs(records).items() if cost}
        free = [task for task in arena.tasks if task not in costs]
        if free:
            arena.notes.append(f"vote: n/a, a sample has no cost in {arena.axis} on {', '.join(free)}")
            return ()
        samples = {task: await self._number(arena, agent, task, costs[task], targets[task]) for task in arena.tasks}
        arena.choices["vote"] = {
            task: {
                "agent": agent.name,
                "n": samples[task],
                "sample_cost_val": costs[task],
                "axis": arena.axis,
                "matched_cost_val": targets[task],
                "dearer": costs[task] > targets[task],
                "at_limit": samples[task] == self._most,
            }
            for task in arena.tasks
        }
        arena.note_limit("vote", self._match, [task for task in samples if samples[task] == self._most])
        return [voting(agent, samples, self._replicates)]

    def forecast(self, ground: Ground) -> Forecast:
        """`most` samples of the dearest agent everywhere, with a selection where answers cannot be compared.

        On validation: every agent, one sample, and, where a selection is billed, each n that may have to be tried.
        """
        asked = [*([agent] for agent in ground.agents), ground.agents]
        parts = [ground.played(agents, "val") for agents in asked]
        times, tries = ground.at_most(self._replicates), self._most - 1
        parts += [self._worst(ground, task, item, times) for task, item in ground.items("test")]
        parts += [self._worst(ground, task, item, tries) for task, item in ground.items("val") if not task.comparable]
        return Forecast.total(parts)

    def _worst(self, ground: Ground, task: Task, item: Item, times: int) -> Forecast:
        """The largest vote; the selector reads all n samples, as if it played one turn more after n turns."""
        opening, n = task.open(item), self._most

        def spend(said: int) -> Spend:
            samples = scaled(episode(ground.agents, opening, said=said), n)
            if task.comparable:
                return samples
            read, whole = (episode(ground.agents, opening, turns, said) for turns in (n, n + 1))
            return samples.plus(less(whole, read))

        return Forecast(times, scaled(ground.rounds(task, ground.agents, spend), times))

    def _sampled(self, agent: Agent) -> Agent:
        sampling = {**agent.sampling, "temperature": max(self._temperature, agent.sampling.get("temperature", 0.0))}
        return replace(agent, name=f"{agent.name}@T={sampling['temperature']}", sampling=sampling, deterministic=False)

    async def _number(self, arena: Arena, agent: Agent, task: str, sample: float, target: float) -> int:
        """The largest n within the target; where a selection is billed on top, n is lowered until both fit."""
        n = min(self._most, max(1, int(target / sample + 1e-9)))
        while n > 1 and not arena.tasks[task].comparable:
            vote = voting(agent, dict.fromkeys(arena.tasks, n), None, name=f"vote_{n}")
            plays = [play for play in arena.plays(vote, "val", "val", 1) if play.item.task == task]
            whole = mean_cost(await arena.graded(f"vote with {n} samples on {task}", plays), arena.axis)
            if whole is not None and whole <= target:
                break
            n -= 1
        return n
