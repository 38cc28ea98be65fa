"""Majority vote at the coordinator's price: the validation-best agent, sampled n times (self-consistency).

n per task is the largest number of samples whose mean validation cost is at or below the coordinator's; where one
sample is dearer already, n is 1 and that is said. Where a task's answers cannot be compared, the agent is shown its
own candidates, shuffled, and picks one by number.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib import resources
from typing import Any

from baselines.chosen import best_agent, validated
from baselines.single import SingleAgent, answered
from trinity.arena import Arena, Contender, cost_axis, mean_cost
from trinity.context import Context
from trinity.coordinator.protocol import alone, read_turn
from trinity.coordinator.quoting import quote
from trinity.errors import ConfigError, EpisodeCapError
from trinity.forecast import Forecast, Ground, episode, less, scaled
from trinity.types import Agent, Client, Completion, Episode, Item, Message, Record, Spend, Task

LEAST_TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True)
class Vote:
    """Method: `samples[task]` answers of one agent, the most frequent wins (the earliest of equals)."""

    agent: Agent
    samples: Mapping[str, int]
    replicates: int | None
    name: str = "vote"
    selector: Agent = field(init=False)

    def __post_init__(self) -> None:
        """The one who selects is the same agent without its worker's style."""
        object.__setattr__(self, "selector", replace(self.agent, style=""))

    @property
    def variant(self) -> str:
        """The agent's name."""
        return self.agent.name

    @property
    def backbone(self) -> str:
        """The agent's model."""
        return self.agent.model

    async def solve(self, item: Item, client: Client, context: Context) -> Episode:
        """Sample together, then count or select."""
        opening = context.task.open(item)
        asked = [
            client.complete(self.agent, alone(self.agent, opening), context) for _ in range(self.samples[item.task])
        ]
        completions = await all_answered(asked)
        if not completions:
            return Episode(None, capped=True)
        capped = len(completions) < len(asked)
        if context.task.comparable or len(completions) == 1:
            winner = majority(item, completions, context)
        else:
            try:
                winner = await self._select(opening, completions, client, context)
            except EpisodeCapError:
                winner, capped = completions[-1], True
        turns = tuple(read_turn(self.agent, "worker", completion) for completion in completions)
        return replace(answered(self.agent, winner), turns=turns, capped=capped)

    async def _select(
        self, opening: list[Message], completions: Sequence[Completion], client: Client, context: Context
    ) -> Completion:
        """The agent's own pick among its candidates, whose order the context's noise decides."""
        order = sorted(range(len(completions)), key=lambda place: context.uniform(0, f"select:{place}"))
        listed = "".join(
            f"\n\nCandidate {number}:\n{quote(completions[place].text)}" for number, place in enumerate(order, 1)
        )
        *earlier, last = opening
        ask: Message = {"role": last["role"], "content": f"{last['content']}{listed}\n\n{_selector()}"}
        verdict = await client.complete(self.selector, [*earlier, ask], context)
        return completions[order[read_pick(verdict.text, len(order))]]


async def all_answered(asked: Sequence[Awaitable[Completion]]) -> list[Completion]:
    """Every answer that the episode's own cap allowed, once all have ended: the bill does not depend on timing.

    Raises:
        CallError: one of them failed, the first in order.
    """
    ended = await asyncio.gather(*asked, return_exceptions=True)
    for outcome in ended:
        if isinstance(outcome, BaseException) and not isinstance(outcome, EpisodeCapError):
            raise outcome
    return [outcome for outcome in ended if not isinstance(outcome, BaseException)]


def majority(item: Item, completions: Sequence[Completion], context: Context) -> Completion:
    """The first completion that gives the most frequent answer; those without an answer or cut short do not vote."""
    keys = [
        context.task.key(item, completion.text) if completion.finish_reason == "stop" else None
        for completion in completions
    ]
    votes = Counter(key for key in keys if key is not None)
    if not votes:
        return completions[0]
    return completions[keys.index(votes.most_common(1)[0][0])]


def read_pick(text: str, n: int) -> int:
    """Index (from 0) named by the first word of a selector's reply; 0 when it names none of the n candidates."""
    word = next(iter(text.split()), "").strip("*_#`.,:;()[]")
    numbers = [str(number) for number in range(1, n + 1)]
    return numbers.index(word) if word in numbers else 0


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
        target: Mapping[str, Any] | None = arena.choices.get(self._match)
        if target is None:
            arena.notes.append(f"vote: n/a, there is no method {self._match} whose cost could be matched")
            return ()
        agent = self._sampled(best_agent(arena, await validated(arena)))
        axis = cost_axis(arena.agents)
        (records,) = await arena.validate(SingleAgent(agent, name="vote_sample"))
        costs = {task: mean_cost(_of(records, task), axis) for task in arena.tasks}
        unknown = [task for task in arena.tasks if not costs[task] or target["cost_val"][task] is None]
        if unknown:
            arena.notes.append(f"vote: n/a, no cost in {axis} is known on {', '.join(unknown)}, so none can be matched")
            return ()
        samples = {
            task: await self._number(arena, agent, task, costs[task], target["cost_val"][task]) for task in arena.tasks
        }
        arena.choices["vote"] = {
            task: {
                "agent": agent.name,
                "n": samples[task],
                "sample_cost_val": costs[task],
                "axis": axis,
                "matched_cost_val": target["cost_val"][task],
                "dearer": _dearer(costs[task], target["cost_val"][task]),
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

    async def _number(self, arena: Arena, agent: Agent, task: str, sample: float | None, target: float) -> int:
        """The largest n within the target; where a selection is billed on top, n is lowered until both fit."""
        n = min(self._most, max(1, int(target / (sample or target) + 1e-9)))
        axis = cost_axis(arena.agents)
        while n > 1 and not arena.tasks[task].comparable:
            vote = Vote(agent, dict.fromkeys(arena.tasks, n), None, name=f"vote_{n}")
            plays = [play for play in arena.plays(vote, "val", "val", 1) if play.item.task == task]
            whole = mean_cost(await arena.graded(f"vote with {n} samples on {task}", plays), axis)
            if whole is not None and whole <= target:
                break
            n -= 1
        return n


def _dearer(sample: float | None, target: float | None) -> bool | None:
    return None if sample is None or target is None else sample > target


def _of(records: Sequence[Record], task: str) -> list[Record]:
    return [record for record in records if record.task == task]


def _selector() -> str:
    return resources.files("baselines").joinpath("prompts", "selector.txt").read_text("utf-8").rstrip()
