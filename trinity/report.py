"""`python -m trinity.report RUN ...`: write the reports of finished runs anew, or the card of one.

Exit code 0: written, the paths are printed; 2: something is missing, damaged or not finished.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trinity.cli import LineParser, main_guard, own_words, readable
from trinity.errors import ConfigError

if TYPE_CHECKING:
    from trinity.runs.ledger import Ledger

CARDS = Path("paper/runs")


def main() -> int:
    """The command; its exit code."""
    return main_guard(command)


def command() -> int:
    """Write what the command line asks for.

    Raises:
        TrinityError: it cannot be written.
    """
    given = _parser().parse_args(own_words())
    if given.card is not None and len(given.runs) > 1:
        raise ConfigError(f"--card {given.card}: a card is of one run, {len(given.runs)} are named")
    if given.card is not None and given.reference is not None:
        raise ConfigError(f"--reference {given.reference}: changes a run, not its card; leave --card out first")
    for run in given.runs:
        with readable(run):
            if given.card is None:
                paths = report(run, analyse=given.analyse, reference=given.reference)
            else:
                paths = [card(run, given.card, given.cards_in, force=given.force)]
        for path in paths:
            print(path)  # noqa: T201 - what the command is for
    return 0


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
    from evals.report.data import Source, gathered
    from evals.report.reports import write_reports
    from trinity.coordinator.protocol import read_verdict
    from trinity.resume import alone_in
    from trinity.runs.files import read_json
    from trinity.runs.ledger import Ledger
    from trinity.runs.manifest import read_finished

    manifest = read_finished(run)
    summary = read_json(run / "summary.json")
    with alone_in(run), Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        if reference is not None:
            manifest, summary = _retold(run, ledger, manifest, summary, reference)
        again = analyse or reference is not None
        analysis = _analysis(run, ledger, manifest, again=again, all_models=analyse)
        return write_reports(run, gathered(Source(ledger, ledger, read_verdict), summary, manifest, analysis))


def card(run: Path, name: str, root: Path, *, force: bool) -> Path:
    """Write a run card; its folder.

    Raises:
        TrinityError: it cannot be written.
    """
    from trinity.runs.card import write_card

    return write_card(run, root, name, force=force)


def _retold(
    run: Path, ledger: Ledger, manifest: Mapping[str, Any], summary: Mapping[str, Any], reference: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Manifest and summary, made and written, of a run whose differences are taken to another method."""
    from evals.report.summary import build_summary
    from evals.report.tally import COLUMNS
    from trinity.config import check_reference
    from trinity.naming import did_you_mean
    from trinity.runs.files import write_json
    from trinity.runs.manifest import append_change, read_manifest, write_manifest
    from trinity.runs.records import columns_of

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
    from trinity.analysis import MODELS_UP_TO, analysed
    from trinity.assembly import build_tasks, node
    from trinity.prepared import prepared
    from trinity.runs.files import read_json, write_json

    path = run / "analysis.json"
    if path.exists() and not again:
        stored: Mapping[str, Any] = read_json(path)
        return stored
    tasks, most = build_tasks(node(manifest["recipe"])), None if all_models else MODELS_UP_TO

    async def made() -> dict[str, Any]:
        async with prepared(tasks):
            return await analysed(ledger, ledger, tasks, manifest, most=most)

    found = asyncio.run(made())
    write_json(path, found)
    return found


def _parser() -> LineParser:
    """The command line."""
    parser = LineParser(prog="python -m trinity.report", description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a finished run's folder")
    parser.add_argument("--analyse", action="store_true", help="make the analysis anew, too")
    parser.add_argument(
        "--reference",
        metavar="METHOD",
        help="take differences to this method from now on, in summary and analysis, too",
    )
    parser.add_argument("--card", metavar="NAME", help="write the run's card instead of its reports")
    parser.add_argument(
        "--cards-in", type=Path, default=CARDS, metavar="FOLDER", help=f"where cards are kept (default: {CARDS})"
    )
    parser.add_argument("--force", action="store_true", help="replace the card of another run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
