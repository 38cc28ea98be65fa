"""`python -m trinity.replay RUN`: rebuild records, tables and report from a run's ledger and compare them.

Nothing is asked, encoded or downloaded: calls and decisions come from the ledger, everything else is computed again.
Exit code 0: equal; 1: something differs; 2: there is nothing that can be replayed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from trinity.cli import LineParser, main_guard, own_words, readable

SHOWN = 10
"""Differences that are printed; the rest is counted."""


def main() -> int:
    """The command; its exit code."""
    return main_guard(command)


def command() -> int:
    """Replay the run that the command line names.

    Raises:
        TrinityError: it cannot be replayed.
    """
    parser = LineParser(prog="python -m trinity.replay", description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="a finished run's folder")
    parser.add_argument("--recompute", action="store_true", help="run encoder and head again and compare the logits")
    parser.add_argument("--out", type=Path, help="where the rebuilt files go (default: RUN/replay)")
    given = parser.parse_args(own_words())
    from trinity.rebuild import replay

    with readable(given.run):
        differences = list(replay(given.run, given.out or given.run / "replay", recompute=given.recompute))
    for line in differences[:SHOWN]:
        print(line, file=sys.stderr)
    if len(differences) > SHOWN:
        print(f"... and {len(differences) - SHOWN} more", file=sys.stderr)
    if not differences:
        print("equal: records, summary, report, trained parameters, and the analysis up to rounding")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
