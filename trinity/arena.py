"""What a contender may use to get ready: pool, items, validation, and what earlier contenders found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from trinity.coordinator.policy import Policies
from trinity.episodes import Play, Player
from trinity.errors import ConfigError, UngradedError
from trinity.forecast import Forecast, Ground
from trinity.llm.client import CallCounts
from trinity.types import UNGRADED, Agent, CostAxis, Item, Method, Phase, Record, Replicate, Split, Task

Heard = Callable[[str, int, Mapping[str, Any]], None]
"""Who hears of a generation: its trainer's name, its number, and what the trainer left of it in the ledger."""


def unheard(trainer: str, number: int, payload: Mapping[str, Any]) -> None:
    """Nobody hears of generations."""


class Progress(Protocol):
    """Where long work says how far it is."""

    def stage(self, name: str, total: int) -> None:
        """A new stage of `total` episodes begins."""
        ...

    def step(self, record: Record) -> None:
        """An episode of the stage ended."""
        ...

    def say(self, line: str) -> None:
        """One line that stays."""
        ...


@dataclass
class Arena:
    """One run's shared ground.

    `folder` is the run's; `counts` are the calls so far. `cost_axis` is the run's setting (None: see `cost_axis` the
    function), `axis` what follows from it. `choices` collects, by method, what was chosen and on what
    ground (it goes to the summary); `ready` holds the methods of contenders that came before; `notes` are sentences
    for the report. `on_generation` hears of every generation that a trainer has played.
    """

    agents: Sequence[Agent]
    tasks: Mapping[str, Task]
    player: Player
    progress: Progress
    seed: int
    replicates: int
    pool: str
    policies: Policies
    folder: Path
    counts: CallCounts
    cost_axis: CostAxis | None = None
    choices: dict[str, Any] = field(default_factory=dict)
    ready: dict[str, Sequence[Method]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    on_generation: Heard = unheard

    @property
    def axis(self) -> CostAxis:
        """What this run compares costs by."""
        return cost_axis(self.agents, self.cost_axis)

    def mean_costs(self, records: Sequence[Record]) -> dict[str, float | None]:
        """Task -> mean logical cost of its records on the run's axis; None where it is unknown."""
        return {task: mean_cost([row for row in records if row.task == task], self.axis) for task in self.tasks}

    def noted_costs(self, method: str, asker: str) -> dict[str, float] | None:
        """Task -> mean validation cost that `method` left as `cost_val` in `choices`; None, with a note, without it."""
        chosen = self.choices.get(method)
        costs = chosen.get("cost_val") if isinstance(chosen, Mapping) else None
        if costs is None:
            self.notes.append(f"{asker}: n/a, there is no method {method} before it that says what it costs")
            return None
        unknown = [task for task in self.tasks if costs.get(task) is None]
        if unknown:
            self.notes.append(f"{asker}: n/a, no cost in {self.axis} is known of {method} on {', '.join(unknown)}")
            return None
        return {task: costs[task] for task in self.tasks}

    def items(self, split: Split) -> Iterator[tuple[Task, Item]]:
        """Every item of a split with its task, tasks in config order, streamed from the run's ledger."""
        for name, task in self.tasks.items():
            for item in self.player.ledger.items(name, split):
                yield task, item

    def note_limit(self, method: str, match: str, tasks: Sequence[str]) -> None:
        """Say for the report on which tasks `method` is as large as it may be, and so not at the price of `match`."""
        if tasks:
            on = ", ".join(tasks)
            self.notes.append(f"{method}: at its largest size on {on}, where it may cost less than {match}")

    def count(self, split: Split) -> int:
        """How many items a split has."""
        return sum(self.player.ledger.count_items(name, split) for name in self.tasks)

    def plays(self, method: Method, phase: Phase, split: Split, replicates: int) -> Iterator[Play]:
        """The episodes of `method` on a split, replicate by replicate."""
        for index in range(replicates):
            for task, item in self.items(split):
                yield Play(method, task, item, Replicate(phase, index))

    async def validate(self, *methods: Method, phase: Phase = "val", replicates: int = 1) -> list[list[Record]]:
        """Records of each method on the validation items, in item order (phase `val`, or `reeval` for fresh noise).

        Raises:
            UngradedError: an episode failed twice; what is chosen on holes would not be what it is called.
        """
        plays = list(interleaved(*(self.plays(method, phase, "val", replicates) for method in methods)))
        records = await self.graded(f"{_named(methods)} on validation", plays)
        return [
            [record for play, record in zip(plays, records, strict=True) if play.method is method] for method in methods
        ]

    async def test(self, *methods: Method) -> None:
        """Play the test items with all methods at once; the records are in the ledger."""
        times = [min(method.replicates or self.replicates, self.replicates) for method in methods]
        self.progress.stage(f"{_named(methods)} on test", self.count("test") * sum(times))
        sources = [self.plays(method, "test", "test", n) for method, n in zip(methods, times, strict=True)]
        await self.player.play_all(interleaved(*sources), lambda _, record: self.progress.step(record))

    async def graded(self, stage: str, plays: Sequence[Play]) -> list[Record]:
        """Records in the order of `plays`, all graded; what failed is asked once more.

        Raises:
            UngradedError: an episode failed again; says how many and how to go on.
        """
        records = await self.collect(stage, plays)
        if any(record.status in UNGRADED for record in records):
            records = await self.collect(f"{stage}, failed episodes again", plays)
        failed = [record for record in records if record.status in UNGRADED]
        if failed:
            raise UngradedError(
                f"{stage}: {len(failed)} of {len(records)} episodes could not be graded (first: {failed[0].task}/"
                f"{failed[0].item_id}); mend the endpoint and go on with resume=RUN"
            )
        return records

    async def collect(self, stage: str, plays: Sequence[Play]) -> list[Record]:
        """Play all; records in the order of `plays`."""
        self.progress.stage(stage, len(plays))
        records: dict[int, Record] = {}

        def keep(play: Play, record: Record) -> None:
            records[id(play)] = record
            self.progress.step(record)

        await self.player.play_all(plays, keep)
        return [records[id(play)] for play in plays]


def interleaved(*sources: Iterator[Play]) -> Iterator[Play]:
    """One play of each source in turn, so that agents on different endpoints work at the same time."""
    waiting = deque(sources)
    while waiting:
        source = waiting.popleft()
        for play in source:
            yield play
            waiting.append(source)
            break


def _named(methods: Sequence[Method]) -> str:
    return ", ".join(f"{method.name} {method.variant}".rstrip() for method in methods)


class Contender(ABC):
    """One entry of the `method` group: gets ready on train and validation items, then hands over its methods.

    Attributes:
        name: of all its rows, where that is known before; no other contender may have it.
    """

    name: str = ""

    @abstractmethod
    async def prepare(self, arena: Arena) -> Sequence[Method]:
        """Methods to be tested; empty with a note in `arena.notes` when there can be none."""

    def forecast(self, ground: Ground) -> Forecast | None:
        """What getting ready and being tested may cost at the worst; None, the default: it cannot be foreseen."""
        del ground
        return None

    def asked(self, pool: Sequence[Agent]) -> Sequence[Agent]:
        """Every agent that it may ask, as it asks them: caps are held against each; the pool's own by default."""
        return pool

    def check(self, ground: Ground) -> None:
        """Refuse what cannot be played, before anything is asked.

        Raises:
            ConfigError: says what does not fit these agents or tasks.
        """
        del ground

    def derive(self, arena: Arena) -> Iterable[Record]:
        """Records that follow from tested methods' (an oracle's from the single agents'); none by default."""
        del arena
        return ()


def mean_score(records: Iterable[Record]) -> float | None:
    """Mean score of the graded records; None when none is."""
    scores = [record.score for record in records if record.score is not None]
    return sum(scores) / len(scores) if scores else None


def mean_cost(records: Iterable[Record], axis: CostAxis) -> float | None:
    """Mean logical cost; None when any is unknown or there is no record."""
    costs = [cost(record, axis) for record in records]
    known = [amount for amount in costs if amount is not None]
    return sum(known) / len(known) if known and len(known) == len(costs) else None


def cost_axis(agents: Sequence[Agent], wanted: CostAxis | None = None) -> CostAxis:
    """The axis to compare costs on: `wanted`, else USD where all prices are known, else GFLOP, else weighted tokens.

    Raises:
        ConfigError: the cost of an agent is not known on the axis that is wanted.
    """
    blind: Mapping[CostAxis, Sequence[str]] = {
        "usd": [agent.name for agent in agents if agent.price is None],
        "gflop": [agent.name for agent in agents if agent.active_params is None],
        "weighted_tokens": (),
    }
    if wanted is None:
        return next(axis for axis, names in blind.items() if not names)
    if blind[wanted]:
        what = "price" if wanted == "usd" else "active_params"
        raise ConfigError(f"cost_axis={wanted}: no {what} is known of {', '.join(blind[wanted])}; give it in the pool")
    return wanted


def cost(record: Record, axis: CostAxis) -> float | None:
    """A record's logical cost on an axis; None when it is unknown."""
    costs: dict[CostAxis, float | None] = {
        "usd": record.cost_usd,
        "gflop": record.gflop,
        "weighted_tokens": record.weighted_tokens,
    }
    return costs[axis]
