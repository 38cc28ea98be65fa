"""The way of a run from contenders to tables; a live run and a replay walk it alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trinity.arena import Arena, Contender
from trinity.errors import ConfigError
from trinity.runs.files import write_json
from trinity.runs.ledger import Ledger
from trinity.runs.records import columns_of, write_records
from trinity.runs.rows import Totals
from trinity.types import Record


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


def summarise(arena: Arena, manifest: Mapping[str, Any], totals: Totals) -> dict[str, Any]:
    """The content of `summary.json` from the ledger as it stands; `totals` are the run's paid and reused calls."""
    from evals.report.summary import build_summary
    from evals.report.tally import COLUMNS

    ledger = arena.player.ledger
    effort = spent(ledger.records())
    bill = _bill(totals, ledger)
    facts = {**manifest, "notes": [*manifest.get("notes", []), *arena.notes]}
    batches = columns_of(ledger.records(), COLUMNS)
    return build_summary(batches, manifest=facts, choices=arena.choices, effort=effort, totals=bill)


def publish(
    folder: Path,
    arena: Arena,
    manifest: Mapping[str, Any],
    summary: Mapping[str, Any],
    analysis: Mapping[str, Any] | None = None,
    *,
    calls: Ledger | None = None,
) -> None:
    """Write records, summary and reports into `folder`, each whole or not at all.

    Args:
        folder: of the run, or of its rebuilt copy.
        arena: whose ledger has the records and decisions.
        manifest: of the run.
        summary: as `summarise` made it.
        analysis: what `evals.report.analysis.build_analysis` made of the records, where it did.
        calls: the ledger that has the calls, where it is another one, as in a replay.

    Raises:
        LedgerError: a file cannot be written.
    """
    from evals.report.data import Source, gathered
    from evals.report.reports import write_reports
    from trinity.coordinator.protocol import read_verdict

    ledger = arena.player.ledger
    write_records(folder / "records.parquet", ledger.records(), private=bool(manifest.get("private")))
    write_json(folder / "summary.json", summary)
    if analysis is not None:
        write_json(folder / "analysis.json", analysis)
    source = Source(ledger, calls or ledger, read_verdict)
    write_reports(folder, gathered(source, summary, manifest, analysis or {}))


def spent(records: Iterator[Record]) -> dict[str, dict[str, int]]:
    """Per method what was played before the test: episodes, logical calls, weighted tokens, encoder tokens."""
    from evals.report.summary import EFFORT

    effort: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(EFFORT, 0))
    for record in records:
        if record.split != "test":
            row = effort[record.method]
            row["episodes"] += 1
            row["logical_calls"] += record.n_calls
            row["weighted_tokens"] += record.weighted_tokens
            row["encoder_tokens"] += record.encoder_tokens
    return dict(effort)


def _bill(totals: Totals, ledger: Ledger) -> dict[str, int | float | None]:
    """Calls and weighted tokens that this run bought, that earlier runs had bought, and that episodes were billed.

    `attempts` and `spent_*` are the budget's view: failed attempts count at what they may have cost.
    """
    logical_calls = logical_tokens = 0
    for record in ledger.records():
        if record.method != "oracle":
            logical_calls += record.n_calls
            logical_tokens += record.weighted_tokens
    return {
        "attempts": totals.spent.calls,
        "spent_usd": totals.spent.usd,
        "spent_weighted_tokens": totals.spent.weighted_tokens,
        "paid_calls": totals.paid_calls,
        "paid_weighted_tokens": totals.paid.weighted_tokens,
        "reused_calls": totals.reused_calls,
        "reused_weighted_tokens": totals.reused.weighted_tokens,
        "logical_calls": logical_calls,
        "logical_weighted_tokens": logical_tokens,
    }
