"""`python -m trinity.report RUN ...`: write the reports of finished runs anew, or the card of one.

Exit code 0: written, the paths are printed; 2: something is missing, damaged or not finished.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trinity.cli import LineParser, main_guard
from trinity.errors import ConfigError, LedgerError

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
    given = _parser().parse_args([word for word in sys.argv[1:] if word.lower() != "debug=true"])
    if given.card is not None and len(given.runs) > 1:
        raise ConfigError(f"--card {given.card}: a card is of one run, {len(given.runs)} are named")
    for run in given.runs:
        with _readable(run):
            if given.card is None:
                paths = report(run, analyse=given.analyse)
            else:
                paths = [card(run, given.card, given.cards_in, force=given.force)]
        for path in paths:
            print(path)  # noqa: T201 - what the command is for
    return 0


def report(run: Path, *, analyse: bool = False) -> list[Path]:
    """Write `report.md`, `report.html` and what belongs to them into a finished run's folder; their paths.

    The analysis is made where there is none, and with `analyse` in any case.

    Raises:
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
        analysis = _analysis(run, ledger, manifest, again=analyse)
        return write_reports(run, gathered(Source(ledger, ledger, read_verdict), summary, manifest, analysis))


def card(run: Path, name: str, root: Path, *, force: bool) -> Path:
    """Write a run card; its folder.

    Raises:
        TrinityError: it cannot be written.
    """
    from trinity.runs.card import write_card

    return write_card(run, root, name, force=force)


def _analysis(run: Path, ledger: Ledger, manifest: Mapping[str, Any], *, again: bool) -> Mapping[str, Any]:
    """The run's analysis: from its file, or made and written there."""
    from trinity.analysis import MODELS_UP_TO, analysed
    from trinity.assembly import build_tasks, node
    from trinity.runs.files import read_json, write_json

    path = run / "analysis.json"
    if path.exists() and not again:
        stored: Mapping[str, Any] = read_json(path)
        return stored
    tasks, most = build_tasks(node(manifest["recipe"])), None if again else MODELS_UP_TO
    found = asyncio.run(analysed(ledger, ledger, tasks, manifest, most=most))
    write_json(path, found)
    return found


@contextmanager
def _readable(run: Path) -> Iterator[None]:
    """Within, what a file of another version or a damaged one leads to is said in one line.

    Raises:
        LedgerError: a file of `run` does not hold what it should.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise LedgerError(f"{run}: a file of this run is damaged or of another version ({what})") from error


def _parser() -> LineParser:
    """The command line."""
    parser = LineParser(prog="python -m trinity.report", description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a finished run's folder")
    parser.add_argument("--analyse", action="store_true", help="make the analysis anew, too")
    parser.add_argument("--card", metavar="NAME", help="write the run's card instead of its reports")
    parser.add_argument(
        "--cards-in", type=Path, default=CARDS, metavar="FOLDER", help=f"where cards are kept (default: {CARDS})"
    )
    parser.add_argument("--force", action="store_true", help="replace the card of another run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
