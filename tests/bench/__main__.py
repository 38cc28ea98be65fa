"""`python -m tests.bench [NAME ...]`: run all benchmarks or the named ones; stdout holds JSON lines and nothing else.

A benchmark is a module beside this file whose `main()` prints JSON objects, one a line, each with the keys of `KEYS`
and others as it likes. `ok` is whether `value` meets `target`; where something is missing to tell, `value` or a rival's
is null, `ok` too, and a `note` says what. Each runs in a process of its own, so that none finds the libraries that
another has loaded; what it prints besides goes to stderr.

A missed target is told on stderr too and is no failure: speeds depend on the machine, and whoever judges reads `ok`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEYS = ("bench", "value", "unit", "target", "ok")


def names() -> list[str]:
    """The benchmarks there are."""
    return sorted(file.stem for file in HERE.glob("*.py") if not file.stem.startswith("_"))


def run(name: str) -> int:
    """Run one benchmark and forward its lines; its exit code, 1 for a line that is none of ours."""
    code = f"from tests.bench import {name}; {name}.main()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1]
    ) as process:
        assert process.stdout is not None
        faults = [forward(line) for line in process.stdout]
    if process.returncode:
        print(f"error: benchmark {name} ended with exit code {process.returncode}", file=sys.stderr)
    return process.returncode or int(any(faults))


def forward(line: str) -> bool:
    """Print a line where it belongs; whether it is an object that is no result."""
    found = parsed(line)
    print(line, end="", file=sys.stderr if found is None else sys.stdout, flush=True)
    if found is None:
        return False
    lacking = [key for key in KEYS if key not in found]
    lacking += ["note"] if found.get("ok", "") is None and not found.get("note") else []
    if lacking:
        print(f"error: the line lacks {', '.join(lacking)}: {line}", end="", file=sys.stderr)
    elif found["ok"] is False:
        print(f"missed: {found['bench']}: {found['value']} {found['unit']}, {found['target']}", file=sys.stderr)
    return bool(lacking)


def parsed(line: str) -> dict[str, Any] | None:
    """The JSON object that a line is; None for any other line."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def main(wanted: Sequence[str]) -> int:
    """Exit code: 0, 1 when a benchmark failed or printed what is no result, 2 for an unknown name."""
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"error: no benchmark {', '.join(unknown)}; choose from: {', '.join(names())}", file=sys.stderr)
        return 2
    return int(any([run(name) != 0 for name in wanted or names()]))  # noqa: C419 - one failure stops no other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
