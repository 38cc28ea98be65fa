"""`python -m trinity.report RUN ...`: write the reports of finished runs anew, or the card of one.

Exit code 0: written, the paths are printed; 2: something is missing, damaged or not finished.
"""

from __future__ import annotations

import sys
from pathlib import Path

from trinity.cli import LineParser, main_guard, own_words, readable
from trinity.errors import ConfigError

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
    from trinity.reporting import report
    from trinity.runs.card import write_card

    for run in given.runs:
        with readable(run):
            if given.card is None:
                paths = report(run, analyse=given.analyse, reference=given.reference)
            else:
                paths = [write_card(run, given.cards_in, given.card, force=given.force)]
        for path in paths:
            print(path)  # noqa: T201 - what the command is for
    return 0


def _parser() -> LineParser:
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
