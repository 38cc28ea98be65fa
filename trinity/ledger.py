"""`python -m trinity.ledger explain REQUEST`: whether a request is stored, and else what the nearest stored one has.

REQUEST is a call id or request hash (or the beginning of one) that the run or the store knows, or a JSON file with a
request. Exit code 0: it is stored; 1: it is not, the nearest is shown; 2: there is nothing to explain.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

from trinity.cli import LineParser, main_guard, own_words


def main() -> int:
    """The command; its exit code."""
    return main_guard(command)


def command() -> int:
    """Do what the command line says.

    Raises:
        TrinityError: it cannot be done.
    """
    parser = LineParser(prog="python -m trinity.ledger", description=__doc__.partition("\n")[0])
    explaining = parser.add_subparsers(dest="command", required=True).add_parser("explain", help="why a call is asked")
    explaining.add_argument("request", metavar="REQUEST", help="call id, hash, beginning of one, or a JSON file")
    explaining.add_argument("--run", type=Path, help="folder of the run that asked")
    explaining.add_argument("--store", type=Path, help="the store (default: that of RUN, or outputs/store.sqlite)")
    given = parser.parse_args(own_words())
    from trinity.llm.explain import Question, Sources

    with ExitStack() as stack:
        asked = Question.of(given.request, Sources.open(given.run, given.store, stack))
        for line in asked.lines():
            print(line)  # noqa: T201 - what the command is for
        return 0 if asked.is_stored else 1


if __name__ == "__main__":
    sys.exit(main())
