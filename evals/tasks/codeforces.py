"""Codeforces problems with their official tests and the ratings that contestants' results gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

from evals.graders.code import StdioTest, Verdict, grade_checked, grade_stdio
from evals.sandbox.base import MIB, Limits
from evals.tasks.base import item_id
from evals.tasks.code import CodeSettings, CodeTask
from evals.tasks.contest import paired, statement
from evals.tasks.hub import Row, Source
from evals.tasks.options import check_number, one_of
from trinity.canonical import folded
from trinity.types import DifficultyKind, Item, Redistribute, Split

_PARTS = (
    ("", "title"),
    ("", "description"),
    ("Input:", "input_format"),
    ("Output:", "output_format"),
    ("Note:", "note"),
)
_MAX_ROW = 400_000_000
_LEAST_MEMORY_MB = 256
"""Python itself needs some, which limits that were made for compiled programs do not count."""


class Codeforces(CodeTask):
    """Problems of Codeforces as open-r1 collected them; difficulty is the contest site's rating.

    Answers are Python programs that read standard input. A problem is unusable where it is interactive, works on
    files, lacks a checker that it needs, or its official tests are cut off or missing. A problem that accepts several
    outputs has a checker, which decides in a sandbox of its own (`graders.code.checked`); else outputs are
    compared.

    Limits of CPU time and memory are the problem's own, the time multiplied by `time_factor`, unless `limits` names
    them.

    Args:
        config: `verifiable` (problems with tests, and with a checker where they need one) or `default` (all 10,024).
        time_factor: how much longer a Python program may take than the contest allowed.
        incomplete_tests: use problems whose official tests are cut off, as far as they go; other programs pass then.
        settings: see `CodeSettings`.

    Raises:
        ConfigError: no such config, or a factor that is no number above 0.
    """

    name = "codeforces"
    repo = "open-r1/codeforces"
    hub_splits: Mapping[Split, str] = {"train": "train", "val": "train", "test": "test"}
    columns = (
        *("description", "id", "title", "time_limit", "memory_limit", "input_format", "output_format"),
        *("interaction_format", "note", "examples", "rating", "tags", "official_tests", "official_tests_complete"),
        *("input_mode", "generated_checker"),
    )
    optional = ("executable",)
    heavy = ("official_tests", "generated_checker")
    licence = "CC-BY-4.0; problem texts are their authors' (Codeforces)"
    redistribute: Redistribute = "ids-only"
    citation = "Penedo et al. 2025, CodeForces, https://huggingface.co/datasets/open-r1/codeforces"

    def __init__(
        self,
        *,
        config: Literal["verifiable", "default"] = "verifiable",
        time_factor: float = 3.0,
        incomplete_tests: bool = False,
        **settings: Unpack[CodeSettings],
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.config = one_of(self.name, "config", config, ("verifiable", "default"))
        check_number("tasks.codeforces.time_factor", time_factor, whole=False)
        self.time_factor, self.incomplete_tests = float(time_factor), incomplete_tests
        self._named = {name for name, value in (settings.get("limits") or {}).items() if value is not None}

    @property
    def source(self) -> Source:
        """Where the rows are; they may be long."""
        return replace(super().source, max_row=_MAX_ROW)

    def identity(self, row: Row) -> str:
        """The problem's text: two divisions of a contest share problems."""
        return folded(f"{row.text('title', '')} {row.text('description', '')}")

    def unusable(self, row: Row) -> str | None:
        """Why it can not be graded."""
        if not row.text("description", ""):
            return "has no text"
        if row.text("interaction_format", ""):
            return "is interactive"
        if row.text("input_mode", "stdio") != "stdio":
            return "works on files"
        if row.values.get("executable") is False:
            return "has no checker that it needs"
        if not row.values["official_tests"]:
            return "has no official tests"
        complete = row.values["official_tests_complete"] is True
        return None if complete or self.incomplete_tests else "its official tests are cut off"

    def item(self, row: Row) -> Item:
        """A problem; `meta` holds its limits and the key of its tests and checker."""
        examples = [(test.stdin, test.stdout) for test in _tests(row, "examples", row.values["examples"])]
        prompt = statement(row, _PARTS, examples)
        rating = None if row.values["rating"] is None else row.number("rating")
        meta = {
            "source": row.text("id"),
            "time_limit": row.number("time_limit"),
            "memory_limit": row.number("memory_limit"),
            "tests": row.values["heavy"],
        }
        domain = next(iter(row.words("tags")), "code")
        kind: DifficultyKind | None = None if rating is None else "human"
        target = "passes all official tests"
        return Item(item_id(self.name, prompt), self.name, prompt, target, domain, rating, kind, meta)

    def solution(self, item: Item) -> None:
        """The data holds none."""

    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether all official tests pass, by the problem's checker where it has one."""
        official, checker = self.heavy_columns(item.meta["tests"])
        tests = _tests(Row({"official_tests": official}, item.meta["source"], 1), "official_tests", official)
        if checker:
            return await grade_checked(self.sandbox, code, tests, checker, self.bounds(item))
        return await grade_stdio(self.sandbox, code, tests, self.bounds(item))

    def bounds(self, item: Item) -> Limits:
        """Bounds of a program that solves `item`."""
        own: dict[str, Any] = {
            "cpu_s": item.meta["time_limit"] * self.time_factor,
            "memory_bytes": int(max(item.meta["memory_limit"], _LEAST_MEMORY_MB) * MIB),
        }
        return replace(self.limits, **{name: value for name, value in own.items() if name not in self._named})


def _tests(row: Row, column: str, value: Any) -> list[StdioTest]:
    """Tests of a column that holds a list of objects with `input` and `output`.

    Raises:
        DataError: it holds something else.
    """
    tests = value or []
    if not isinstance(tests, list) or not all(isinstance(test, Mapping) for test in tests):
        raise row.wrong(column, "a list of inputs with their outputs")
    return paired(row, column, [test.get("input") for test in tests], [test.get("output") for test in tests])
