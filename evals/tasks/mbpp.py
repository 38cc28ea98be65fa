"""MBPP: short Python functions to be written from a sentence and an example of their tests."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Literal, Unpack

from evals.graders.code import Verdict, grade_asserts
from evals.tasks.base import item_id
from evals.tasks.code import CodeSettings, CodeTask, called, fenced, parsed, source_of, texts_of
from evals.tasks.hub import Row
from evals.tasks.options import check_number, one_of
from trinity.canonical import folded
from trinity.types import Item, Split


class MBPP(CodeTask):
    """MBPP (Austin et al., arXiv 2108.07732): 427 functions (`sanitized`), or 974 (`full`), with three tests or more.

    The prompt names the function and shows the first `shown_tests` of its tests; all are graded, so by default the
    others are hidden. The paper shows every test that it grades: `shown_tests=3` asks as it did, and only then are
    numbers to be set beside the published ones. A test keeps its own words, but `==`
    forgives 1e-6 where a float is expected (`graders.code.grade_asserts`).

    The sentences of `full` that hand objects of the solution's own classes to it are unusable, since tests run apart
    from the answer.

    Args:
        config: `sanitized` (checked by hand) or `full`.
        shown_tests: how many tests the prompt shows, from the first on.
        challenge_tests: grade the further tests that some rows of `full` have, which published numbers leave out.
        settings: see `CodeSettings`.

    Raises:
        ConfigError: no such config; `shown_tests` is no whole number of at least 0.
    """

    name = "mbpp"
    repo = "google-research-datasets/mbpp"
    hub_splits: Mapping[Split, str] = {"train": "train", "val": "validation", "test": "test"}
    licence = "CC-BY-4.0"
    citation = "Austin et al. 2021, Program Synthesis with Large Language Models, arXiv 2108.07732"

    def __init__(
        self,
        *,
        config: Literal["sanitized", "full"] = "sanitized",
        shown_tests: int = 1,
        challenge_tests: bool = False,
        **settings: Unpack[CodeSettings],
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.config = one_of(self.name, "config", config, ("sanitized", "full"))
        check_number("tasks.mbpp.shown_tests", shown_tests, whole=True, zero=True)
        self.shown_tests, self.challenge_tests = shown_tests, challenge_tests
        self.text = "prompt" if config == "sanitized" else "text"
        self.columns = (self.text, "task_id", "code", "test_list")
        self.optional = ("test_imports", "test_setup_code", "challenge_test_list")

    def identity(self, row: Row) -> str:
        """Text and tests: some sentences stand for two functions."""
        return folded(f"{row.text(self.text)} {row.values['test_list']}")

    def unusable(self, row: Row) -> str | None:
        """Why its tests can not run apart from an answer."""
        functions, classes = _defined(row)
        if called(classes, *self._tests(row)):
            return "its tests make objects of the solution's classes"
        return None if called(functions, *texts_of(row, "test_list")) else "its tests call no function of the solution"

    def item(self, row: Row) -> Item:
        """A function; `meta` holds all tests and the solution."""
        tests = texts_of(row, "test_list")
        names = called(_defined(row)[0], *tests)
        prompt = _question(row.text(self.text), names, tests[: self.shown_tests])
        meta = {
            "source": row.text("task_id"),
            "functions": names,
            "checker": "\n".join(self._tests(row)) + "\n",
            "solution": source_of(row, "code"),
        }
        target = f"{names[0]} passes {len(tests)} tests"
        return Item(item_id(self.name, prompt), self.name, prompt, target, "code", meta=meta)

    def solution(self, item: Item) -> str:
        """The authors' function."""
        return fenced(item.meta["solution"])

    def wanted(self, item: Item) -> list[str]:
        """The functions that the tests call."""
        functions: list[str] = item.meta["functions"]
        return functions

    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether all tests pass, those shown and those hidden."""
        names = tuple(self.wanted(item))
        return await grade_asserts(self.sandbox, code, item.meta["checker"], names, self.limits)

    def _tests(self, row: Row) -> list[str]:
        """What is run to test: imports, preparation, and tests."""
        imports, further = (
            texts_of(row, column) if row.values.get(column) else []
            for column in ("test_imports", "challenge_test_list")
        )
        tests = texts_of(row, "test_list") + (further if self.challenge_tests else [])
        return [*imports, row.text("test_setup_code", ""), *tests]


def _defined(row: Row) -> tuple[list[str], list[str]]:
    """Functions and classes of the solution.

    Raises:
        DataError: it is no Python.
    """
    tree = parsed(source_of(row, "code"))
    if tree is None:
        raise row.wrong("code", "a Python program")
    kinds: tuple[Any, ...] = (ast.FunctionDef, ast.ClassDef)
    functions, classes = ([node.name for node in tree.body if isinstance(node, kind)] for kind in kinds)
    return functions, classes


def _question(text: str, names: list[str], shown: list[str]) -> str:
    """The sentence, the name that the tests call, and the tests that are shown."""
    lines = [text, "", f"Name the function{'s' * (len(names) > 1)} {', '.join(f'`{name}`' for name in names)}."]
    if shown:
        lines += ["It must pass tests like " + ("this:" if len(shown) == 1 else "these:"), *shown]
    return "\n".join(lines)
