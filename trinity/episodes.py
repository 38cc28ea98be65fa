"""Playing episodes: a method on an item in a replicate becomes one record in the ledger, graded or honestly not."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from trinity.context import Context
from trinity.errors import BudgetError, CallError, GraderError
from trinity.grading import GraderWatch, Outcome, graded
from trinity.rounds import played, silent
from trinity.runs.ledger import Ledger
from trinity.runs.rows import RecordKey
from trinity.types import (
    UNGRADED,
    Client,
    Episode,
    Item,
    Judge,
    Method,
    Phase,
    PoolKind,
    Record,
    Replicate,
    Split,
    Task,
)

SPLIT_OF: Mapping[Phase, Split] = {"train": "train", "val": "val", "reeval": "val", "test": "test"}


@dataclass(frozen=True, slots=True)
class Stamp:
    """What every record of a run shares."""

    run_id: str
    experiment: str
    pool: str
    pool_kind: PoolKind
    seed: int


@dataclass(frozen=True, slots=True)
class Play:
    """One episode to play."""

    method: Method
    task: Task
    item: Item
    replicate: Replicate

    def __str__(self) -> str:
        """Where it stands: method, item, replicate."""
        phase, index = self.replicate
        method = f"{self.method.name} {self.method.variant}".rstrip()
        return f"{method}, item {self.item.item_id}, {phase} replicate {index}"


def record_key(play: Play, seed: int) -> RecordKey:
    """Where the episode's record stands in the ledger."""
    method, item = play.method, play.item
    split = SPLIT_OF[play.replicate.phase]
    return RecordKey(method.name, method.variant, item.task, split, item.item_id, play.replicate, seed)


class Player:
    """Plays episodes, at most `concurrency` at once; one that the ledger has graded is not played again.

    `seeds` gives the noise seed of each phase. This is the seam for other executors: it takes plays, gives records.
    """

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        stamp: Stamp,
        seeds: Mapping[Phase, int],
        concurrency: int,
        replayed: Ledger | None = None,
        judges: Callable[[Context], Judge] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        """Keep what episodes need; `replayed` is the ledger whose ungraded episodes stay as they were.

        `judges` gives the judge of an episode, where one is configured; `say` tells a person what grading failed of.
        """
        self.client = client
        self.ledger = ledger
        self.stamp = stamp
        self._seeds = seeds
        self._concurrency = concurrency
        self._replayed = replayed
        self.judges = judges
        self._graders = GraderWatch(say)
        self._begun = itertools.count()
        self._stopped: dict[int, BudgetError] = {}

    async def play(self, play: Play) -> Record:
        """The record of one episode, from the ledger or played now."""
        order = next(self._begun)
        known = self.ledger.record(record_key(play, self.stamp.seed))
        if known is not None and known.status not in UNGRADED:
            return known
        failed = None if self._replayed is None else self._as_it_was(play, self._replayed)
        if failed is not None:
            return failed
        context = Context(play.task, play.item, play.replicate, self._seeds[play.replicate.phase], order)
        episode, outcome = await self._outcome(play, context)
        record = self._record(play, context, episode, outcome)
        self.ledger.add_record(record)
        return record

    async def play_all(self, plays: Iterable[Play], each: Callable[[Play, Record], None]) -> None:
        """Play lazily, `concurrency` at once; `each` hears of every record in the order in which they end.

        Raises:
            BudgetError: a cap is reached: no episode was begun after that, those begun have ended, as `over_budget`
                where they could not go on. Says at which episode it was.
        """
        source = iter(plays)

        async def work() -> None:
            for play in source:
                each(play, await self.play(play))
                if self._stopped:
                    return

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._concurrency):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        if self._stopped:
            raise self._stopped[min(self._stopped)]

    def _as_it_was(self, play: Play, source: Ledger) -> Record | None:
        """The record of an episode that `source` has ungraded, entered with the choices that came before it failed."""
        failed = source.record(record_key(play, self.stamp.seed))
        if failed is None or failed.status not in UNGRADED:
            return None
        for decision in source.decisions_of(failed):
            self.ledger.add_decision(decision)
        self.ledger.add_record(failed)
        return failed

    async def _outcome(self, play: Play, context: Context) -> tuple[Episode, Outcome]:
        episode = Episode(None)
        try:
            episode = await played(play.method, play.task, play.item, self.client, context)
            return episode, await self._graded(play, episode, context)
        except CallError:
            return episode, Outcome("error")
        except BudgetError as error:
            return episode, self._over_budget(play, context, error)
        except GraderError as error:
            return episode, self._failed(play, error)

    async def _graded(self, play: Play, episode: Episode, context: Context) -> Outcome:
        judge = None if self.judges is None else self.judges(context)
        outcome = await graded(play.task, play.item, episode, judge)
        if not silent(episode):
            self._graders.worked(play.task)
        return outcome

    def _over_budget(self, play: Play, context: Context, error: BudgetError) -> Outcome:
        self._stopped[context.order] = BudgetError(f"stopped at {play}: {error}")
        return Outcome("over_budget")

    def _failed(self, play: Play, error: GraderError) -> Outcome:
        self._graders.failed(play.task, play.item, error)
        return Outcome("error")

    def _record(self, play: Play, context: Context, episode: Episode, outcome: Outcome) -> Record:
        item, method, usage, calls = play.item, play.method, context.usage(), context.calls
        costs = [call.cost_usd for call in calls]
        gflops = [call.gflop for call in calls]
        return Record(
            run_id=self.stamp.run_id,
            experiment=self.stamp.experiment,
            method=method.name,
            variant=method.variant,
            backbone=method.backbone,
            pool=self.stamp.pool,
            pool_kind=self.stamp.pool_kind,
            task=item.task,
            split=SPLIT_OF[play.replicate.phase],
            item_id=item.item_id,
            domain=item.domain,
            difficulty=item.difficulty,
            difficulty_kind=item.difficulty_kind,
            replicate=play.replicate,
            seed=self.stamp.seed,
            status=outcome.status,
            score=outcome.score,
            raw_score=outcome.raw_score,
            capped=episode.capped,
            answer=outcome.answer,
            n_turns=len(episode.turns),
            n_calls=len(calls),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cached_tokens=usage.cached_tokens,
            encoder_tokens=episode.encoder_tokens,
            usage_estimated=usage.estimated,
            weighted_tokens=usage.weighted_tokens,
            cost_usd=_total(costs),
            gflop=_total(gflops),
            latency_s=math.fsum(call.latency_s for call in calls),
            call_ids=tuple(call.call_id for call in calls),
        )


def _first(errors: BaseExceptionGroup) -> BaseException:
    """The error that stopped the group; the others are its echoes."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _total(parts: list[float | None]) -> float | None:
    """Sum, or None when any part is unknown: an unknown price is not zero."""
    known = [part for part in parts if part is not None]
    return math.fsum(known) if len(known) == len(parts) else None
