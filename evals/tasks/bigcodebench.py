"""BigCodeBench: functions that use many libraries, graded by unit tests."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

from evals.graders.code import Verdict, grade_unit_tests
from evals.sandbox.base import MIB, Limits, Program
from evals.tasks.base import item_id
from evals.tasks.code import CodeSettings, CodeTask, completed, fenced, source_of, texts_of
from evals.tasks.hub import Row, Source
from evals.tasks.options import one_of
from trinity.errors import ConfigError, GraderError
from trinity.types import SPLITS, Item, Split

_SUBSETS = {"full": "bigcode/bigcodebench", "hard": "bigcode/bigcodebench-hard"}
_NETWORK = frozenset(("requests", "urllib", "http", "socket", "ssl", "smtplib", "ftplib", "imaplib", "telnetlib"))
_FETCHES = re.compile(r"\b(?:nltk\.download|fetch_(?:20newsgroups|openml|california_housing|lfw_\w+)|load_dataset)\b")
_PROBE = """
import importlib, json, sys
missing = []
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except Exception:
        missing.append(name)
sys.__stdout__.write("\\n" + json.dumps(missing))
"""


class BigCodeBench(CodeTask):
    """BigCodeBench (Zhuo et al., arXiv 2406.15877): 1,140 functions, or the 148 of `hard`.

    A row needs libraries. Those that name one that is not there, or that reach for the network, are unusable here and
    counted: nobody could solve them. Libraries are looked for in this Python, and before grading in the sandbox's,
    which must have them too; name them in `libraries` where the two differ.

    The unit tests run in the answer's own process, since they mock what it uses. Splits on the hub are versions, so
    training, validation and test items are cut from one by `data_seed`.

    Args:
        subset: `full` or `hard`.
        prompt: `complete` (signature and docstring, to be completed) or `instruct` (a request in words).
        version: the split on the hub.
        libraries: import names of the libraries that the sandbox has, beside Python's own; None = those of this one.
        skip: ids of rows that can not be solved here for another reason (`BigCodeBench/314`); `python -m evals.check`
            finds them.
        settings: see `CodeSettings`.

    Raises:
        ConfigError: no such subset or prompt.
    """

    name = "bigcodebench"
    repo = "bigcode/bigcodebench"
    columns = (
        *("complete_prompt", "instruct_prompt", "code_prompt", "canonical_solution", "test", "entry_point"),
        *("task_id", "libs"),
    )
    licence = "Apache-2.0"
    limits = Limits(cpu_s=60.0, idle_s=30.0, wall_s=300.0, memory_bytes=4096 * MIB)
    citation = (
        "Zhuo et al. 2024, BigCodeBench: Benchmarking Code Generation with Diverse Function Calls and Complex "
        "Instructions, arXiv 2406.15877"
    )

    def __init__(
        self,
        *,
        subset: Literal["full", "hard"] = "full",
        prompt: Literal["complete", "instruct"] = "complete",
        version: str = "v0.1.4",
        libraries: Collection[str] | None = None,
        skip: Collection[str] = (),
        **settings: Unpack[CodeSettings],
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.subset = one_of(self.name, "subset", subset, _SUBSETS)
        self.asked = one_of(self.name, "prompt", prompt, ("complete", "instruct"))
        self.hub_splits: Mapping[Split, str] = dict.fromkeys(SPLITS, version)
        self.libraries = None if libraries is None else frozenset(libraries)
        self.skip = frozenset(skip)
        self.prompt_file = f"bigcodebench_{prompt}"

    @property
    def source(self) -> Source:
        """Where the rows of the subset are."""
        return replace(super().source, repo=_SUBSETS[self.subset])

    def facts(self) -> dict[str, Any]:
        """What the manifest keeps of items and sandbox."""
        return {**super().facts(), "repo": _SUBSETS[self.subset]}

    async def ready(self) -> None:
        """Make sure that the sandbox works and has the libraries of all items.

        Raises:
            ConfigError: nothing can isolate here, or a library is missing in the sandbox.
        """
        await super().ready()
        names = sorted({name for split in SPLITS for item in self.items(split) for name in item.meta["libraries"]})
        outcome = await self.sandbox.run(Program(_PROBE, json.dumps(names).encode()), self.limits)
        if not outcome.ok:
            raise GraderError(f"task {self.name}: asking the sandbox for libraries ended with {outcome.end}")
        if missing := json.loads(outcome.stdout.rsplit(b"\n", 1)[-1]):
            raise ConfigError(
                f"task {self.name}: the sandbox's Python lacks {', '.join(missing)}; install them there, or set "
                f"tasks.{self.name}.libraries to the list of those that it has"
            )

    def unusable(self, row: Row) -> str | None:
        """Why it can not be solved here: a library, or the network."""
        if row.text("task_id") in self.skip:
            return "named in skip"
        libraries = _libraries(row)
        if missing := [name for name in libraries if not self._has(name)]:
            return f"needs {missing[0]}"
        test, solution = source_of(row, "test"), source_of(row, "canonical_solution")
        mocked = re.search(r"\b(?:patch|[Mm]ock)\b|\bMagicMock\b|\bresponses\.", test) is not None
        reaches = (not _NETWORK.isdisjoint(libraries) and not mocked) or _FETCHES.search(f"{solution}\n{test}")
        return "needs the network" if reaches else None

    def item(self, row: Row) -> Item:
        """A function; `meta` holds the hidden unit tests and the solution."""
        prompt, opening = source_of(row, f"{self.asked}_prompt").strip(), source_of(row, "code_prompt")
        meta = {
            "source": row.text("task_id"),
            "function": row.text("entry_point"),
            "opening": opening,
            "tests": source_of(row, "test"),
            "libraries": [name for name in _libraries(row) if name not in sys.stdlib_module_names],
            "solution": opening + source_of(row, "canonical_solution"),
        }
        return Item(item_id(self.name, prompt), self.name, prompt, "passes its unit tests", "code", meta=meta)

    def solution(self, item: Item) -> str:
        """The authors' function."""
        return fenced(item.meta["solution"])

    def wanted(self, item: Item) -> tuple[str]:
        """The function."""
        return (item.meta["function"],)

    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether all unit tests pass."""
        # The tests lean on the imports of the opening, which an answer may have left out.
        source = completed(item.meta["opening"], code, item.meta["function"])
        return await grade_unit_tests(
            self.sandbox, source, item.meta["tests"], self.limits, preload=_preload(item.meta["libraries"])
        )

    def _has(self, library: str) -> bool:
        if library in sys.stdlib_module_names:
            return True
        if self.libraries is not None:
            return library in self.libraries
        return _is_installed(library)


def _preload(libraries: Collection[str]) -> tuple[str, ...]:
    """Libraries that are worth importing beforehand and can be: some write files when they are imported."""
    return tuple(name for name in ("numpy", "pandas", "scipy", "sklearn", "sympy") if name in libraries)


def _is_installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except (ImportError, ValueError):
        return False


def _libraries(row: Row) -> list[str]:
    """Top-level names of the modules that a row needs; the hub writes the list as Python does.

    Raises:
        DataError: it is no list of names.
    """
    value = row.values.get("libs")
    if isinstance(value, str) and len(value) < 10_000:  # noqa: PLR2004 - no list of names is as long
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
    names = texts_of(replace(row, values={"libs": value}), "libs")
    return sorted({name.partition(".")[0] for name in names})
