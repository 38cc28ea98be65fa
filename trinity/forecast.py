"""What methods may cost at their worst, before anything is asked: episodes, calls, tokens, USD."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import NamedTuple

from trinity.coordinator.protocol import alone, prompt
from trinity.grading import judge_calls
from trinity.llm.budget import MESSAGE_TOKENS, actual, worst_case
from trinity.rounds import reply_bytes, rounds
from trinity.runs.rows import item_content
from trinity.types import NOTHING, OUTPUT_WEIGHT, ROLES, SPLITS, Agent, Item, Message, Spend, Split, Task, Usage

QUOTED_TOKENS = 3
"""Input tokens per token of an earlier turn: its own, and the mark of two that stands before every line."""

HEADER_TOKENS = 64
"""Input tokens of the line that names an earlier turn's agent and role."""

JUDGE_BYTES = 8192
"""What a judge is told besides the item and the answers, in bytes."""


class Forecast(NamedTuple):
    """Episodes and their worst spend; failed attempts, which cost more, are not foreseen."""

    episodes: int = 0
    spend: Spend = NOTHING

    def plus(self, other: Forecast) -> Forecast:
        """Both together."""
        return Forecast(self.episodes + other.episodes, self.spend.plus(other.spend))

    @classmethod
    def total(cls, parts: Iterable[Forecast]) -> Forecast:
        """All of them together."""
        return reduce(cls.plus, parts, cls())


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run will be played on: its agents and tasks, and the number of test replicates.

    Where `always` names a split, its items stand for those of every split.
    """

    agents: Sequence[Agent]
    tasks: Mapping[str, Task]
    replicates: int
    always: Split | None = None

    def only(self, split: Split) -> Ground:
        """The ground of a trial: whatever is played is played once, on the items of `split`."""
        return replace(self, replicates=1, always=split)

    def items(self, split: Split) -> Iterator[tuple[Task, Item]]:
        """Every item of a split with its task, streamed."""
        for task in self.tasks.values():
            for item in task.items(self.always or split):
                yield task, item

    def played(self, agents: Sequence[Agent], split: Split, *, turns: int = 1, times: int = 1) -> Forecast:
        """Every item of a split, `times` times, by the dearest of `agents` at each of `turns` turns."""
        return self.worked(agents, split, range(turns), _instructions(turns), times=times)

    def worked(
        self, agents: Sequence[Agent], split: Split, reads: Sequence[int], prompt_bytes: int, *, times: int = 1
    ) -> Forecast:
        """Every item of a split, `times` times, as `workflow` by the dearest of `agents`."""
        spends = (self._worst(agents, task, item, reads, prompt_bytes) for task, item in self.items(split))
        return Forecast.total(Forecast(times, scaled(spend, times)) for spend in spends)

    def drawn(self, agents: Sequence[Agent], split: Split, number: int, *, turns: int = 1) -> Forecast:
        """`number` episodes on items of a split, each as dear as the dearest one could be."""
        reads, prompt_bytes = range(turns), _instructions(turns)
        worst = [self._worst(agents, task, item, reads, prompt_bytes) for task, item in self.items(split)]
        return Forecast(number, scaled(dearest(worst), number))

    def rounds(self, task: Task, agents: Sequence[Agent], one: Callable[[int], Spend]) -> Spend:
        """All rounds of an episode: `one(said)` is the worst of a round before which `said` tokens were spoken.

        An answer of any agent and the task's longest reply come between two rounds.
        """
        growth = _read_again([*self.agents, *agents]) + reply_bytes(task)
        return reduce(Spend.plus, [one(number * growth) for number in range(rounds(task))], NOTHING)

    def grading(self, judge: Agent) -> Spend:
        """The worst of grading one episode here, where every task is `judged`."""
        items = (found for split in SPLITS for found in self.items(split))
        return dearest([_grading(judge, task, item, self.agents) for task, item in items])

    def _worst(self, agents: Sequence[Agent], task: Task, item: Item, reads: Sequence[int], prompt_bytes: int) -> Spend:
        """All rounds on an item, each as `workflow`."""
        opening = task.open(item)
        return self.rounds(task, agents, lambda said: workflow(agents, opening, reads, prompt_bytes, said))

    def times(self, agents: Sequence[Agent], most: int | None = None) -> int:
        """Test replicates of a method: one where all `agents` are deterministic, at most `most`."""
        once = all(agent.deterministic for agent in agents)
        return 1 if once else self.at_most(most)

    def at_most(self, most: int | None) -> int:
        """Test replicates of a method that wants no more than `most` (None: as many as set)."""
        return min(most or self.replicates, self.replicates)


def episode(agents: Sequence[Agent], opening: Sequence[Message], turns: int = 1, said: int = 0) -> Spend:
    """Worst spend of one round in which the dearest agent plays every turn and reads all that came before.

    `said` tokens were spoken in earlier rounds, as in `workflow`.
    """
    return workflow(agents, opening, range(turns), _instructions(turns), said)


def workflow(
    agents: Sequence[Agent], opening: Sequence[Message], reads: Sequence[int], prompt_bytes: int, said: int = 0
) -> Spend:
    """Worst spend of one round by the dearest of `agents` whose k-th call reads `reads[k]` earlier answers.

    Each call may read a message of `prompt_bytes` of instructions besides, and the `said` tokens of earlier rounds; a
    byte is at most one token.
    """
    written = _read_again(agents)
    told = said + (prompt_bytes + MESSAGE_TOKENS if prompt_bytes else 0)
    calls = [dearest([_call(agent, opening, number * written + told) for agent in agents]) for number in reads]
    return reduce(Spend.plus, calls, NOTHING)


def dearest(spends: Sequence[Spend]) -> Spend:
    """The largest of each axis; USD unknown where any is."""
    prices = [spend.usd for spend in spends if spend.usd is not None]
    return Spend(
        max(prices, default=0.0) if len(prices) == len(spends) else None,
        max((spend.weighted_tokens for spend in spends), default=0),
        max((spend.calls for spend in spends), default=0),
    )


def scaled(spend: Spend, number: int) -> Spend:
    """`number` times `spend`."""
    usd = None if spend.usd is None else spend.usd * number
    return Spend(usd, spend.weighted_tokens * number, spend.calls * number)


def less(whole: Spend, part: Spend) -> Spend:
    """What is left of `whole` without a `part` of it."""
    usd = None if whole.usd is None or part.usd is None else whole.usd - part.usd
    return Spend(usd, whole.weighted_tokens - part.weighted_tokens, whole.calls - part.calls)


def _call(agent: Agent, opening: Sequence[Message], read: int) -> Spend:
    """One call at its worst that reads `read` tokens besides the question."""
    return worst_case(agent, alone(agent, opening)).plus(actual(agent, Usage(input_tokens=read))._replace(calls=0))


def _grading(judge: Agent, task: Task, item: Item, agents: Sequence[Agent]) -> Spend:
    """All calls of one grading: each reads the whole item, the answers of all rounds, and what asks for a judgement."""
    spoken = rounds(task) * (_read_again(agents) + reply_bytes(task))
    read = JUDGE_BYTES + len(item_content(item)) + spoken
    return scaled(_call(judge, task.open(item), read), judge_calls(task))


def _read_again(agents: Sequence[Agent]) -> int:
    """Most tokens of one earlier answer in a later prompt."""
    return max(_written(agent) for agent in agents) * QUOTED_TOKENS + HEADER_TOKENS


def _written(agent: Agent) -> int:
    """Most tokens that the agent can write in one turn."""
    return worst_case(agent, ()).weighted_tokens // OUTPUT_WEIGHT


def _instructions(turns: int) -> int:
    """Most bytes of a role prompt in one of so many turns; the only one has none."""
    return _role_bytes() if turns > 1 else 0


@cache
def _role_bytes() -> int:
    """Bytes of all role prompts, more than any one call reads; a byte is at most one token."""
    names = ("notes", *ROLES, "thinker_system", "verifier_system")
    return sum(len(prompt(name).encode()) for name in names)
