"""Grading a finished run again: its episodes are played from its ledger as they went, for today's graders.

Methods, trainers and choices hear the grades that the run has, so that they ask what they asked; what they chose and
learnt by them stays.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from evals.report.tally import named
from trinity.episodes import Play, Player, record_key
from trinity.errors import LedgerError
from trinity.runs.ledger import Ledger
from trinity.runs.manifest import append_change, read_finished, write_manifest
from trinity.runs.records import comparable, write_records
from trinity.runs.rows import RecordKey
from trinity.stopping import run_async
from trinity.types import Phase, Record

if TYPE_CHECKING:
    from trinity.arena import Arena, Contender

GRADED = ("status", "score", "raw_score", "answer")
"""The columns of a record that its grader fills."""

_grade = attrgetter(*GRADED)


class Change(NamedTuple):
    """A record as the run has it, and as it is graded today."""

    old: Record
    new: Record


class Kept(NamedTuple):
    """An episode that keeps its grade: its task, and where it stands with the reason."""

    task: str
    line: str


@dataclass
class Found:
    """What grading again came to.

    Attributes:
        records: how many records the run has.
        changes: those that change, in the ledger's order.
        kept: graded episodes whose grade could not be made again, and so stays.
        graders: task -> its grader then and now, where they differ.
        tally: by task, method with variant, and split.
        kept_as: the file that has the old records, where new ones were written.
    """

    records: int = 0
    changes: list[Change] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    graders: dict[str, tuple[str, str]] = field(default_factory=dict)
    tally: dict[tuple[str, str, str], Tally] = field(default_factory=dict)
    kept_as: Path | None = None


@dataclass
class Tally:
    """Records of a method on a task in a split: how many, how many change, and the scores of those that have one."""

    records: int = 0
    changed: int = 0
    was: list[float] = field(default_factory=list)
    now: list[float] = field(default_factory=list)

    def add(self, old: Record, new: Record) -> None:
        """Enter a record."""
        self.records += 1
        self.changed += _grade(old) != _grade(new)
        for scores, score in ((self.was, old.score), (self.now, new.score)):
            if score is not None:
                scores.append(score)


def regrade(run: Path, *, write: bool = False) -> Found:
    """Grade every episode of a finished run again; with `write` the run's files are told by the new grades.

    Raises:
        LedgerError: no finished run is there, it is damaged, or its methods play another way today.
        UngradedError: a task's grader does not work here.
    """
    from trinity.rebuild import damage
    from trinity.runs.resume import alone_in

    manifest = read_finished(run)
    with ExitStack() as stack:
        if write:
            stack.enter_context(alone_in(run))
        source = stack.enter_context(Ledger.open(run / "ledger.sqlite", read_only=True))
        for line in damage(source):
            raise LedgerError(f"{run}: {line}")
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="regrade-")))
        rebuilt, scratch = (stack.enter_context(Ledger.create(folder / name)) for name in ("rebuilt", "scratch"))
        return run_async(_Regrading(run, manifest, source, rebuilt, scratch, folder).play(write=write))


class Regrader(Player):
    """Tells a run's methods what its ledger has of their episodes, and grades each of these anew beside it."""

    def __init__(
        self, player: Player, again: Player, source: Ledger, seeds: Mapping[Phase, int], concurrency: int
    ) -> None:
        """`player` plays on a ledger of the run as it went, `again` on one of the new grades; `source` is the run's."""
        super().__init__(player.client, player.ledger, player.stamp, seeds, concurrency)
        self.kept: list[Kept] = []
        self._again, self._source = again, source

    async def play(self, play: Play) -> Record:
        """The run's own record of an episode.

        Raises:
            LedgerError: it has none.
        """
        key = record_key(play, self.stamp.seed)
        known = self.ledger.record(key)
        if known is not None:
            return known
        old = self._source.record(key)
        if old is None:
            raise LedgerError(f"the ledger has no record of {play}: the methods, prompts or tasks have changed")
        self.ledger.add_record(old)
        self._again.ledger.add_record(await self._anew(play, old))
        return old

    async def _anew(self, play: Play, old: Record) -> Record:
        """The record with today's grade, or the old one where there is none."""
        if old.status == "over_budget":
            return old
        try:
            new = await self._again.play(play)
        except LedgerError as error:
            return self._keep(play, old, str(error))
        if new.status == "error":
            return self._keep(play, old, "today's grader fails on it")
        if _course(new) != _course(old):
            return self._keep(play, old, "its calls or costs are others than then")
        return new

    def _keep(self, play: Play, old: Record, reason: str) -> Record:
        if old.status != "error":
            self.kept.append(Kept(play.task.name, f"{play}: {reason}"))
        return old


@dataclass
class _Regrading:
    """One run's grading: its ledger, one in which it is played as it went, and one of the new grades meanwhile."""

    run: Path
    manifest: dict[str, Any]
    source: Ledger
    rebuilt: Ledger
    scratch: Ledger
    folder: Path

    async def play(self, *, write: bool) -> Found:
        """Play the run on its ledger, compare, and write where that is wanted."""
        from trinity.assembly import build_contenders, node
        from trinity.pipeline import contest
        from trinity.prepared import prepared

        arena, regrader = self._stage()
        contenders: Mapping[str, Contender] = build_contenders(node(self.manifest["recipe"]))
        async with prepared(arena.tasks):
            await contest(arena, contenders, lambda _: None)
            for record in self.scratch.records():
                self.rebuilt.add_record(record)
            for contender in contenders.values():
                for record in contender.derive(arena):
                    self.rebuilt.add_record(record)
            found = self._compared(arena)
            found.kept = sorted(regrader.kept)
            if write:
                await self._write(arena, found)
        return found

    def _stage(self) -> tuple[Arena, Regrader]:
        """The run's ground on its ledger, and who plays there."""
        from trinity.assembly import node, phase_seeds
        from trinity.coordinator.policy import RecordedPolicies
        from trinity.rebuild import recorded_arena

        policies = RecordedPolicies((self.manifest["encoder"] or {}).get("d", 0), self.source, self.rebuilt)
        arena = recorded_arena(self.manifest, self.source, self.rebuilt, self.folder, policies)
        player = arena.player
        config = node(self.manifest["recipe"])
        seeds = phase_seeds(config)
        again = Player(player.client, self.scratch, player.stamp, seeds, 1, judges=player.judges, say=_say)
        regrader = Regrader(player, again, self.source, seeds, config.concurrency)
        arena.player = regrader
        return arena, regrader

    def _compared(self, arena: Arena) -> Found:
        """The run's records beside the new ones.

        Raises:
            LedgerError: they are not of the same episodes.
        """
        found = Found()
        for old, new in zip_longest(self.source.records(), self.rebuilt.records()):
            if old is None or new is None or RecordKey.of(new) != RecordKey.of(old):
                raise LedgerError(f"{self.run}: its methods play other episodes today; python -m trinity.replay tells")
            found.records += 1
            row = old.task, named((old.method, old.variant)), old.split
            found.tally.setdefault(row, Tally()).add(old, new)
            if _grade(old) != _grade(new):
                found.changes.append(Change(old, new))
        used = self.manifest["graders"]
        found.graders = {
            name: (used.get(name, "none"), task.grader)
            for name, task in arena.tasks.items()
            if used.get(name) != task.grader
        }
        return found

    async def _write(self, arena: Arena, found: Found) -> None:
        """Let the new grades take the place of the old ones, the ledger last: what is cut short is done again."""
        from trinity.analysis import analysed
        from trinity.pipeline import publish, summarise

        path = self.run / "manifest.json"
        kept = {one.task for one in found.kept}
        graders = {name: versions for name, versions in found.graders.items() if name not in kept}
        today = {name: now for name, (_, now) in graders.items()}
        manifest = {**self.manifest, "graders": {**self.manifest["graders"], **today}}
        told = _sentence(found, graders)
        if not found.changes:
            if graders:
                write_manifest(path, manifest)
                append_change(path, told)
            return
        note = f"{told[0].upper()}{told[1:]}; what was chosen and learnt by the old grades stays."
        manifest["notes"] = [*self.manifest.get("notes", []), note]
        found.kept_as = self._keep_records()
        summary = summarise(arena, manifest, self.source)
        has = (self.run / "analysis.json").exists()
        analysis = await analysed(self.rebuilt, self.source, arena.tasks, manifest) if has else None
        publish(self.run, arena, manifest, summary, analysis, calls=self.source)
        write_manifest(path, manifest)
        append_change(path, f"{told}; the old ones are in {found.kept_as.name}")
        with Ledger.open(self.run / "ledger.sqlite") as ledger:
            for change in found.changes:
                ledger.add_record(change.new)

    def _keep_records(self) -> Path:
        """Write the records as they were to a file of their own, which no later grading replaces; its path."""
        number = 1
        while (path := self.run / f"records.before-{number}.parquet").exists():
            number += 1
        write_records(path, self.source.records(), private=bool(self.manifest.get("private")))
        return path


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _course(record: Record) -> dict[str, Any]:
    """What of a record does not depend on its grader."""
    return {name: value for name, value in comparable(record).items() if name not in GRADED}


def _sentence(found: Found, graders: Mapping[str, tuple[str, str]]) -> str:
    """What grading again did, for the manifest."""
    versions = ", ".join(f"{task}: {was} -> {now}" for task, (was, now) in sorted(graders.items())) or "same versions"
    kept = f", {len(found.kept)} could not be graded again" if found.kept else ""
    return f"graded again ({versions}): {len(found.changes)} of {found.records} records changed{kept}"
