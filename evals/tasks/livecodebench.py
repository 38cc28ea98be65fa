"""LiveCodeBench: contest problems by the date at which they appeared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Unpack

from evals.graders.code import CallTest, StdioTest, Verdict, grade_calls, grade_stdio
from evals.sandbox.base import Limits
from evals.tasks.base import item_id
from evals.tasks.code import CodeSettings, CodeTask
from evals.tasks.hidden_tests import read_tests
from evals.tasks.hub import Row, Source
from trinity.canonical import folded, sha256
from trinity.errors import ConfigError, GraderError
from trinity.types import Item, Redistribute, Split

_RELEASES = ("v1", "v2", "v3", "v4", "v5", "v6")
_LEVELS = {"easy": 1.0, "medium": 2.0, "hard": 3.0}
_MAX_ROW = 400_000_000
"""Characters of a row: the hidden tests of a few problems are large."""
_WAYS = {
    "stdin": "The program reads standard input and writes to standard output.",
    "call": "Complete this code; it is called with arguments and reads nothing:\n\n```python\n{code}\n```",
}


class LiveCodeBench(CodeTask):
    """LiveCodeBench (Jain et al., arXiv 2403.07974), code generation: problems of LeetCode, AtCoder and Codeforces.

    Each file on the hub holds the problems that one release added: v1 has 400 of May 2023 to March 2024, v6 has 175 of
    January to April 2025. As in TRINITY, v1 gives the items to train and validate on and v6 the test items. A release
    `release_v6` of the original holds what all six added: `test_releases=[v1,v2,v3,v4,v5,v6]`.

    Graded are the public and the hidden tests: by the program's output, or by what the function returns where
    `metadata` names one. Hidden tests are held in a temporary file and unpacked when they are needed; a problem whose
    tests can not be unpacked, or has none, is unusable.

    Difficulty is the contest's own: 1 for easy, 2 for medium, 3 for hard; the domain is the platform.

    Args:
        test_releases: releases whose additions give the test items.
        train_releases: releases whose additions give the items to train and validate on.
        date_from: first day of the contests that give test items (`2025-01-01`); None = any.
        date_to: last day of them; None = any.
        settings: see `CodeSettings`.

    Raises:
        ConfigError: no such release, or no date.
    """

    name = "livecodebench"
    repo = "livecodebench/code_generation_lite"
    hub_splits: Mapping[Split, str] = {"train": "train", "val": "train", "test": "test"}
    columns = (
        *("question_content", "question_title", "question_id", "platform", "contest_date", "starter_code"),
        *("difficulty", "public_test_cases", "private_test_cases", "metadata"),
    )
    heavy = ("public_test_cases", "private_test_cases")
    licence = "CC (version not named); problem texts are the contests'"
    redistribute: Redistribute = "ids-only"
    limits = Limits(cpu_s=6.0)
    citation = "Jain et al. 2024, LiveCodeBench: Holistic and Contamination Free Evaluation, arXiv 2403.07974"

    def __init__(
        self,
        *,
        test_releases: Sequence[str] = ("v6",),
        train_releases: Sequence[str] = ("v1",),
        date_from: str | None = None,
        date_to: str | None = None,
        **settings: Unpack[CodeSettings],
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.files = {
            "test": _files("test_releases", test_releases),
            "train": _files("train_releases", train_releases),
        }
        self.date_from = _day("date_from", date_from) or date.min
        self.date_to = _day("date_to", date_to) or date.max
        self._faults: dict[str, str | None] = {}

    @property
    def source(self) -> Source:
        """Where the rows are; they may be long."""
        return replace(super().source, max_row=_MAX_ROW)

    def identity(self, row: Row) -> str:
        """The problem's text."""
        return folded(row.text("question_content"))

    def unusable(self, row: Row) -> str | None:
        """Why its tests can not be read."""
        packed = [str(row.values[column]) for column in self.heavy]
        # The same rows may be asked for training and for validation items, and unpacking takes a while.
        place = sha256("\n".join(packed))
        if place not in self._faults:
            self._faults[place] = _fault(packed, _function(row))
        return self._faults[place]

    def item(self, row: Row) -> Item:
        """A problem; `meta` holds the key of its tests."""
        function = _function(row)
        way = _WAYS["call" if function else "stdin"].replace("{code}", str(row.values["starter_code"] or "").strip())
        prompt = f"{row.text('question_content')}\n\n{way}"
        meta = {
            **{name: row.text(name, "") for name in ("question_id", "question_title")},
            "date": str(row.values["contest_date"])[:10],
            "function": function,
            "tests": row.values["heavy"],
        }
        level = _LEVELS.get(row.text("difficulty", "").lower())
        platform = row.text("platform", "code").lower()
        target = "passes all tests"
        return Item(
            item_id(self.name, prompt), self.name, prompt, target, platform, level, "human" if level else None, meta
        )

    def solution(self, item: Item) -> None:
        """The data holds none."""

    def wanted(self, item: Item) -> list[str]:
        """The function, or the class that holds it."""
        return ["Solution", item.meta["function"]] if item.meta["function"] else []

    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether all tests pass, public and hidden."""
        packed = self.heavy_columns(item.meta["tests"])
        try:
            tests = _tests(packed)
            if not item.meta["function"]:
                io = [StdioTest(test["input"], test["output"]) for test in tests]
                return await grade_stdio(self.sandbox, code, io, self.limits)
            calls = [_call(test) for test in tests]
        except ValueError as error:
            raise GraderError(f"task {self.name}: {item.meta['question_id']}: {error}") from error
        return await grade_calls(self.sandbox, code, item.meta["function"], calls, self.limits)

    def _usable(self, there: str, taken: set[str]) -> Iterator[Row]:
        outside = 0
        for row in super()._usable(there, taken):
            if there == "test" and not self.date_from <= _date(row) <= self.date_to:
                outside += 1
            else:
                yield row
        if outside:
            self.left_out[there]["outside of date_from and date_to"] = outside


def _files(option: str, releases: Any) -> tuple[str, ...]:
    """The files of the releases.

    Raises:
        ConfigError: one is none.
    """
    names = [releases] if isinstance(releases, str) else list(releases or ())
    if not names or not all(name in _RELEASES for name in names):
        raise ConfigError(f"tasks.livecodebench.{option} is {releases!r}; give some of [{', '.join(_RELEASES)}]")
    return tuple("test.jsonl" if name == "v1" else f"test{name[1:]}.jsonl" for name in dict.fromkeys(names))


def _day(option: str, value: Any) -> date | None:
    try:
        return None if value is None else date.fromisoformat(str(value))
    except ValueError as error:
        raise ConfigError(f"tasks.livecodebench.{option} is {value!r}; give a day as 2025-01-31") from error


def _date(row: Row) -> date:
    """The day of the contest; the hub's reader may have made a time of the text."""
    try:
        return date.fromisoformat(str(row.values["contest_date"])[:10])
    except ValueError as error:
        raise row.wrong("contest_date", "a date") from error


def _function(row: Row) -> str | None:
    """The function that is called; None where the program is run.

    Raises:
        DataError: `metadata` is no JSON object.
    """
    try:
        metadata = json.loads(row.text("metadata", "{}"))
        name = metadata.get("func_name")
    except (ValueError, AttributeError) as error:
        raise row.wrong("metadata", "a JSON object") from error
    return str(name) if name else None


def _tests(packed: Sequence[str]) -> list[dict[str, str]]:
    """The tests of both columns; one of the two may hold none.

    Raises:
        ValueError: they can not be read, or there are none.
    """
    tests = [test for text in packed if text.strip() not in {"", "[]"} for test in read_tests(text)]
    if not tests:
        raise ValueError("there are no tests")
    return tests


def _fault(packed: Sequence[str], function: str | None) -> str | None:
    """What keeps the tests from being used."""
    try:
        tests = _tests(packed)
        for test in tests if function else ():
            _call(test)
    except ValueError as error:
        return "has no tests" if "no tests" in str(error) else "its tests can not be read"
    return None


def _call(test: Mapping[str, str]) -> CallTest:
    """A test of a function: a JSON value a line for the arguments, and one that is returned.

    Raises:
        ValueError: a line is none.
    """
    try:
        arguments = tuple(json.loads(line) for line in test["input"].split("\n") if line.strip())
        return CallTest(arguments, json.loads(test["output"]))
    except RecursionError as error:
        raise ValueError("an argument is nested too deeply") from error
