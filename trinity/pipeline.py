"""The way of a run from contenders to tables; a live run and a replay walk it alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.report.data import Source, gathered
from evals.report.reports import write_reports
from evals.report.summary import EFFORT, build_summary
from evals.report.tally import COLUMNS
from evals.stats.methods import BOUND
from trinity.arena import Arena, Contender
from trinity.coordinator.protocol import read_verdict
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.prepared import left_out
from trinity.runs.files import write_json
from trinity.runs.ledger import Ledger
from trinity.runs.records import columns_of, write_records
from trinity.runs.rows import Totals
from trinity.types import Agent, Record


def admitted(contenders: Mapping[str, Contender], ground: Ground) -> list[Agent]:
    """Every agent that contenders may ask, as they ask it, once each contender has been looked at.

    Raises:
        ConfigError: one cannot be played on this ground, or two have rows of one name.
    """
    owners: dict[str, str] = {}
    for key, contender in contenders.items():
        contender.check(ground)
        first = owners.setdefault(contender.name, key) if contender.name else key
        if first != key:
            told = f"its rows would be called {contender.name}, as those of methods.{first}"
            raise ConfigError(f"methods.{key}: {told}; set methods.{key}.name")
    return [agent for contender in contenders.values() for agent in contender.asked(ground.agents)]


async def contest(arena: Arena, contenders: Mapping[str, Contender], tested: Callable[[str], None]) -> None:
    """Prepare each contender, test its methods, derive what follows; `tested(name)` is called after each.

    Raises:
        TrinityError: whatever stops the run; everything finished is in the ledger.
    """
    rows: set[tuple[str, str]] = set()
    for name, contender in contenders.items():
        arena.ready[name] = await contender.prepare(arena)
        for method in arena.ready[name]:
            if (method.name, method.variant) in rows:
                raise ConfigError(
                    f"methods.{name}: a row {method.name} {method.variant} is there already; name it anew"
                )
            rows.add((method.name, method.variant))
        if arena.ready[name]:
            await arena.test(*arena.ready[name])
        for record in contender.derive(arena):
            arena.player.ledger.add_record(record)
        tested(name)


def summarise(arena: Arena, manifest: Mapping[str, Any], calls: Ledger | None = None) -> dict[str, Any]:
    """The content of `summary.json` from the ledger as it stands; `calls` has the run's calls where it is another."""
    ledger = arena.player.ledger
    played = _Played()
    for record in ledger.records():
        played.add(record)
    notes = [*manifest.get("notes", []), *arena.notes, *left_out(manifest.get("tasks", []))]
    facts, batches = {**manifest, "notes": notes}, columns_of(ledger.records(), COLUMNS)
    source = calls or ledger
    totals = _bill(source.totals(), played)
    if manifest.get("judge"):
        totals |= _grading_bill(source.totals(grading=True))
    return build_summary(batches, manifest=facts, choices=arena.choices, effort=played.effort, totals=totals)


def publish(
    folder: Path,
    arena: Arena,
    manifest: Mapping[str, Any],
    summary: Mapping[str, Any],
    analysis: Mapping[str, Any] | None = None,
    *,
    calls: Ledger | None = None,
) -> None:
    """Write records, summary and reports into `folder`, each whole or not at all; `calls` as in `summarise`.

    Raises:
        LedgerError: a file cannot be written.
    """
    ledger = arena.player.ledger
    write_records(folder / "records.parquet", ledger.records(), private=bool(manifest.get("private")))
    write_json(folder / "summary.json", summary)
    if analysis is not None:
        write_json(folder / "analysis.json", analysis)
    source = Source(ledger, calls or ledger, read_verdict)
    write_reports(folder, gathered(source, summary, manifest, analysis or {}))


@dataclass
class _Played:
    """What all episodes were billed, and per method what was played before the test (keys of `EFFORT`)."""

    effort: dict[str, dict[str, int]] = field(default_factory=dict)
    calls: int = 0
    weighted_tokens: int = 0

    def add(self, record: Record) -> None:
        """Enter one episode; the oracle's are others' again."""
        if record.method != BOUND:
            self.calls += record.n_calls
            self.weighted_tokens += record.weighted_tokens
        if record.split != "test":
            row = self.effort.setdefault(record.method, dict.fromkeys(EFFORT, 0))
            own = (1, record.n_calls, record.weighted_tokens, record.encoder_tokens)
            for key, value in zip(EFFORT, own, strict=True):
                row[key] += value


def _bill(totals: Totals, played: _Played) -> dict[str, int | float | None]:
    """Calls and weighted tokens that this run bought, that earlier runs had bought, and that episodes were billed.

    `attempts` and `spent_*` are the budget's view: failed attempts count at what they may have cost.
    """
    return {
        **_bought(totals),
        "logical_calls": played.calls,
        "logical_weighted_tokens": played.weighted_tokens,
    }


def _grading_bill(totals: Totals) -> dict[str, int | float | None]:
    """As `_bill`, of what a judge was asked; no episode is billed for it."""
    return {f"grading_{key}": value for key, value in _bought(totals).items()}


def _bought(totals: Totals) -> dict[str, int | float | None]:
    return {
        "attempts": totals.spent.calls,
        "spent_usd": totals.spent.usd,
        "spent_weighted_tokens": totals.spent.weighted_tokens,
        "paid_calls": totals.paid_calls,
        "paid_weighted_tokens": totals.paid.weighted_tokens,
        "reused_calls": totals.reused_calls,
        "reused_weighted_tokens": totals.reused.weighted_tokens,
    }
