"""`python -m tests.bench [NAME ...]`: run all benchmarks or the named ones; stdout holds JSON lines and nothing else.

A benchmark is a module beside this file whose `main()` prints JSON objects, one a line. Each runs in a process of its
own, so that none finds the libraries that another has loaded; what it prints besides goes to stderr.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    """The benchmarks there are."""
    return sorted(file.stem for file in HERE.glob("*.py") if not file.stem.startswith("_"))


def run(name: str) -> int:
    """Run one benchmark and forward its lines; its exit code."""
    code = f"from tests.bench import {name}; {name}.main()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1]
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", file=sys.stdout if is_object(line) else sys.stderr, flush=True)
    if process.returncode:
        print(f"error: benchmark {name} ended with exit code {process.returncode}", file=sys.stderr)
    return process.returncode


def is_object(line: str) -> bool:
    """Whether a line is one JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def main(wanted: Sequence[str]) -> int:
    """Exit code: 0, 1 when a benchmark failed, 2 for an unknown name."""
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"error: no benchmark {', '.join(unknown)}; choose from: {', '.join(names())}", file=sys.stderr)
        return 2
    return int(any([run(name) != 0 for name in wanted or names()]))  # noqa: C419 - one failure stops no other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
