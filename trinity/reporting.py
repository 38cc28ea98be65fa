"""A finished run told anew: its reports, its analysis, and by another reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.report.data import Source, gathered
from evals.report.reports import write_reports
from evals.report.summary import build_summary
from evals.report.tally import COLUMNS
from trinity.analysis import MODELS_UP_TO, analysed
from trinity.assembly import build_tasks, node
from trinity.config import check_reference
from trinity.coordinator.protocol import read_verdict
from trinity.errors import ConfigError
from trinity.naming import did_you_mean
from trinity.prepared import prepared
from trinity.runs.files import read_json, write_json
from trinity.runs.ledger import Ledger
from trinity.runs.manifest import append_change, read_finished, read_manifest, write_manifest
from trinity.runs.records import columns_of
from trinity.runs.resume import alone_in
from trinity.stopping import run_async


def report(run: Path, *, analyse: bool = False, reference: str | None = None) -> list[Path]:
    """Write `report.md`, `report.html` and what belongs to them into a finished run's folder; their paths.

    Args:
        run: its folder.
        analyse: make the analysis anew, its mixed models whatever the size, and not only where there is none.
        reference: the method that differences are taken to from now on: summary and analysis are made anew, and the
            manifest keeps it, so that replay and comparison follow.

    Raises:
        ConfigError: the run has no row of `reference`.
        TrinityError: a file is missing or damaged, the run is not finished, or something cannot be written.
    """
    manifest = read_finished(run)
    summary = read_json(run / "summary.json")
    with alone_in(run), Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        if reference is not None:
            manifest, summary = _retold(run, ledger, manifest, summary, reference)
        again = analyse or reference is not None
        analysis = _analysis(run, ledger, manifest, again=again, all_models=analyse)
        return write_reports(run, gathered(Source(ledger, ledger, read_verdict), summary, manifest, analysis))


def _retold(
    run: Path, ledger: Ledger, manifest: Mapping[str, Any], summary: Mapping[str, Any], reference: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Manifest and summary, made and written, of a run whose differences are taken to another method."""
    told = {name: _with_reference(manifest[name], reference) for name in ("config", "recipe")}
    check_reference(told["config"]["analysis"])
    kept = {name: summary[name] for name in ("choices", "effort", "totals")}
    facts = {**manifest, **told, "notes": summary["notes"]}
    made = build_summary(columns_of(ledger.records(), COLUMNS), manifest=facts, **kept)
    if not any(row["reference"] for row in made["rows"]):
        names = {str(row["method"]) for row in made["rows"]}
        raise ConfigError(f"{run} has no row of {reference}; {did_you_mean(reference, names)}")
    path = run / "manifest.json"
    write_manifest(path, {**manifest, **told})
    append_change(path, f"differences are taken to {reference}")
    write_json(run / "summary.json", made)
    return read_manifest(path), made


def _with_reference(config: Mapping[str, Any], reference: str) -> dict[str, Any]:
    """A configuration with another reference; that of an earlier version had no such branch."""
    analysis = {"models_without": [], "ratios_to": [], **(config.get("analysis") or {})}
    return {**config, "analysis": {**analysis, "reference": reference}}


def _analysis(
    run: Path, ledger: Ledger, manifest: Mapping[str, Any], *, again: bool, all_models: bool
) -> Mapping[str, Any]:
    """The run's analysis: from its file, or made and written there."""
    path = run / "analysis.json"
    if path.exists() and not again:
        stored: Mapping[str, Any] = read_json(path)
        return stored
    tasks, most = build_tasks(node(manifest["recipe"])), None if all_models else MODELS_UP_TO

    async def made() -> dict[str, Any]:
        async with prepared(tasks):
            return await analysed(ledger, ledger, tasks, manifest, most=most)

    found = run_async(made())
    write_json(path, found)
    return found
