"""What programs are run with: scripts beside them in the sandbox, modules at hand, and names that judges provide."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import Any

_IMPORTED = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "json", "typing"),
)

PRELOAD = (*_IMPORTED, "decimal", "fractions", "queue", "array", "unittest", "unittest.mock")
"""Modules that are imported before any program starts; one set for all, so that they share workers."""

STARTER = "\n".join(
    (
        *(f"from {name} import *" for name in (*_IMPORTED, "sys")),
        # The last word: some of the modules have an `open`, a `pow` or a `compile` of their own.
        "from builtins import *",
        *(f"import {name}" for name in (*_IMPORTED, "sys")),
    )
)
"""What programs find imported where judges (LeetCode) provide it: the names that LiveCodeBench's runner imports."""

RECURSION = 50_000
"""Calls within calls, as LiveCodeBench's runner allows them."""

_PROJECT_IMPORT = re.compile(r"^from (?:__future__|evals\.[\w.]+) import [^\n]*\n", re.MULTILINE)


@cache
def harness(*names: str) -> str:
    """Scripts of `inside/` as one: they run where the project is not there to be imported."""
    folder = resources.files("evals.graders.code").joinpath("inside")
    texts = [_PROJECT_IMPORT.sub("", folder.joinpath(f"{name}.py").read_text("utf-8")) for name in names]
    return "from __future__ import annotations\n" + "\n".join(texts) + "\nmain()\n"


def message(**parts: Any) -> bytes:
    """A message to a script of ours."""
    return json.dumps(parts).encode()


def read(line: bytes, limit: int) -> dict[str, Any] | None:
    """A message from a process that may be hostile; None = it is none, or longer than `limit` bytes."""
    if len(line) > limit:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
