"""Majority vote at the coordinator's price: the validation-best agent, sampled n times (self-consistency).

n per task is the largest number of samples whose mean validation cost is at or below the coordinator's; where one
sample is dearer already, n is 1 and that is said. Where a task's answers cannot be compared, the agent is shown its
own candidates, shuffled, and picks one by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce

from baselines.chosen import best_agent, validated
from baselines.components import Components, load
from baselines.sampling import SELECTOR, Consensus, Selector, read_pick
from baselines.single import SingleAgent
from trinity.arena import Arena, Contender, mean_cost
from trinity.context import Context
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground, episode, less, scaled
from trinity.types import Agent, Client, Episode, Item, Spend, Task

LEAST_TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True)
class Vote:
    """Method: `samples[task]` answers of one agent, the most frequent wins (the earliest of equals)."""

    agent: Agent
    samples: Mapping[str, int]
    replicates: int | None
    name: str = "vote"

    @property
    def variant(self) -> str:
        """The agent's name."""
        return self.agent.name

    @property
    def backbone(self) -> str:
        """The agent's model."""
        return self.agent.model

    async def solve(self, item: Item, client: Client, context: Context) -> Episode:
        """Sample together, then count or select; the turns are the samples, a selection is in the bill alone."""
        consensus = Consensus(
            name=self.name,
            variant=self.variant,
            backbone=self.backbone,
            replicates=self.replicates,
            agent=self.agent,
            samples=self.samples[item.task],
            selector=Selector(agent=replace(self.agent, style=""), components=_selection(), read=read_pick),
        )
        episode = await consensus.solve(item, client, context)
        return replace(episode, turns=tuple(turn for turn in episode.turns if turn.role == "worker"))


class CostMatchedVote(Contender):
    """Sets n per task on validation so that the vote costs what the coordinator costs."""

    def __init__(
        self, temperature: float, most: int, match: str = "coordinator", replicates: int | None = None
    ) -> None:
        """`temperature` of the samples, at most `most` of them, `match` names the method to match.

        Raises:
            ConfigError: the temperature is too low for samples to differ.
        """
        if most < 1 or (replicates is not None and replicates < 1):
            raise ConfigError(f"method vote: most={most}, replicates={replicates}: must be at least 1")
        if temperature < LEAST_TEMPERATURE:
            raise ConfigError(
                f"method vote: temperature={temperature} is below {LEAST_TEMPERATURE}: equal samples cannot vote"
            )
        self._temperature, self._most, self._match, self._replicates = temperature, most, match, replicates

    async def prepare(self, arena: Arena) -> Sequence[Vote]:
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
            }
            for task in arena.tasks
        }
        return [Vote(agent, samples, self._replicates)]

    def forecast(self, ground: Ground) -> Forecast:
        """`most` samples of the dearest agent everywhere, with a selection where answers cannot be compared.

        On validation: every agent, one sample, and, where a selection is billed, each n that may have to be tried.
        """
        chosen = [ground.played([agent], "val") for agent in ground.agents]
        sample = ground.played(ground.agents, "val")
        times = min(self._replicates or ground.replicates, ground.replicates)
        tested = Forecast()
        for task, item in ground.items("test"):
            tested = tested.plus(Forecast(times, scaled(self._worst(ground, task, item, self._most), times)))
        tried = Forecast()
        for task, item in ground.items("val"):
            if not task.comparable:
                rounds = self._most - 1
                tried = tried.plus(Forecast(rounds, scaled(self._worst(ground, task, item, self._most), rounds)))
        return reduce(Forecast.plus, [*chosen, sample, tried], tested)

    def _worst(self, ground: Ground, task: Task, item: Item, n: int) -> Spend:
        """One vote of n samples; the selector reads all of them, as if it played one turn more after n turns."""
        opening = task.open(item)
        samples = scaled(episode(ground.agents, opening), n)
        if task.comparable:
            return samples
        read, whole = (episode(ground.agents, opening, turns=turns) for turns in (n, n + 1))
        return samples.plus(less(whole, read))

    def _sampled(self, agent: Agent) -> Agent:
        sampling = {**agent.sampling, "temperature": max(self._temperature, agent.sampling.get("temperature", 0.0))}
        return replace(agent, name=f"{agent.name}@T={sampling['temperature']}", sampling=sampling, deterministic=False)

    async def _number(self, arena: Arena, agent: Agent, task: str, sample: float, target: float) -> int:
        """The largest n within the target; where a selection is billed on top, n is lowered until both fit."""
        n = min(self._most, max(1, int(target / sample + 1e-9)))
        while n > 1 and not arena.tasks[task].comparable:
            vote = Vote(agent, dict.fromkeys(arena.tasks, n), None, name=f"vote_{n}")
            plays = [play for play in arena.plays(vote, "val", "val", 1) if play.item.task == task]
            whole = mean_cost(await arena.graded(f"vote with {n} samples on {task}", plays), arena.axis)
            if whole is not None and whole <= target:
                break
            n -= 1
        return n


@cache
def _selection() -> Components:
    """What the selector is told: the question, the candidates, and the text of `prompts/selector.txt`."""
    told = f"{{original_prompt}}\n\n{{candidates_block}}\n\n{load('vote', {SELECTOR: ()})[SELECTOR]}"
    return Components({SELECTOR: told}, {SELECTOR: ("original_prompt", "candidates_block")})
