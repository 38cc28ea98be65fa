"""`python -m trinity.compare RUN RUN ...`: finished runs against each other, paired by item.

Exit code 0: compared; 2: they cannot be compared, one line says why.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trinity.cli import LineParser, main_guard, print_text
from trinity.errors import ConfigError, LedgerError
from trinity.naming import did_you_mean

PLAIN_WIDTH = 160
"""Columns of a table that goes into a file or a pipe."""
SWITCHES = ("require_equal_effort", "allow_differences")
"""What may also be written as in a run's command line: `require_equal_effort=true`."""
_ON, _OFF = "true", "false"


def main() -> int:
    """The command; its exit code."""
    return main_guard(command)


def command() -> int:
    """Compare what the command line names, print the tables and write the files that it asks for.

    Raises:
        TrinityError: it cannot be compared, or a file cannot be written.
    """
    words, switches = switched(sys.argv[1:])
    given = _parser().parse_args([*words, *(f"--{name.replace('_', '-')}" for name in switches)])
    _check_runs(given.runs)
    from evals.comparison.choice import Request
    from evals.comparison.compare import compare
    from evals.comparison.table import comparison_tables
    from trinity.progress import console
    from trinity.runs.files import write_atomic

    request = Request(
        methods=tuple(given.method),
        reference=given.reference,
        all_pairs=given.all_pairs,
        require_equal_effort=given.require_equal_effort,
        allow_differences=given.allow_differences,
        overall=given.overall,
    )
    terminal = console(PLAIN_WIDTH)
    try:
        found = compare(given.runs, request)
        tables = comparison_tables(found, terminal.width)
        files = _files(found, given.json, given.html, given.out)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise LedgerError(f"a file of these runs is damaged or of another version ({what})") from error
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        write_atomic(path, content)
    for part in tables:
        terminal.print(part)
    if files:
        print_text(f"written: {', '.join(map(str, files))}")
    return 0


def _check_runs(paths: Sequence[Path]) -> None:
    for path in paths:
        if "=" in path.name and not path.exists():
            raise ConfigError(f"there is no switch {path.name}; {did_you_mean(path.name.partition('=')[0], SWITCHES)}")


def switched(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command line without words such as `allow_differences=true`, and the switches that they turn on.

    Raises:
        ConfigError: a switch is neither true nor false.
    """
    words, switches = [], []
    for word in argv:
        name, equals, value = word.partition("=")
        if name.lower() == "debug" and equals:
            continue
        if not equals or name not in SWITCHES:
            words.append(word)
        elif value.lower() not in (_ON, _OFF):
            raise ConfigError(f"{word}: must be {_ON} or {_OFF}")
        elif value.lower() == _ON:
            switches.append(name)
    return words, switches


def _parser() -> LineParser:
    parser = LineParser(prog="python -m trinity.compare", description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a finished run's folder, or a sweep's")
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="NAME[/VARIANT]",
        help="a row to compare; may be repeated (default: the coordinator's rows and the reference's)",
    )
    parser.add_argument(
        "--reference",
        metavar="RUN|ROW",
        help="what all are compared with: a run (its letter or folder), a method or row of the first run, or "
        "LETTER:ROW (default: the first run's row of the same name; of one run its own reference)",
    )
    parser.add_argument("--all-pairs", action="store_true", help="compare every two runs (of one run: every two rows)")
    parser.add_argument("--overall", action="store_true", help="over all tasks only, not task by task too")
    parser.add_argument("--require-equal-effort", action="store_true", help="refuse unequal effort before the test")
    parser.add_argument("--allow-differences", action="store_true", help="compare scores of different graders")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparison as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it as a page of its own")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write comparison.json, .md and .html there")
    return parser


def _files(found: dict[str, Any], json: Path | None, html: Path | None, out: Path | None) -> dict[Path, bytes]:
    """What was asked for, made before anything is written.

    Raises:
        ValueError: a number is infinite.
    """
    from evals.comparison.table import comparison_html, comparison_markdown
    from trinity.runs.files import json_bytes

    made = {json: json_bytes(found)} if json else {}
    if html:
        made[html] = comparison_html(found).encode()
    if out:
        made[out / "comparison.json"] = json_bytes(found)
        made[out / "comparison.md"] = comparison_markdown(found).encode()
        made[out / "comparison.html"] = comparison_html(found).encode()
    return made


if __name__ == "__main__":
    sys.exit(main())
