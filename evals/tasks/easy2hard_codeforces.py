"""Codeforces problems of Easy2Hard-Bench, rated by the contestants who tried them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from evals.graders.code import StdioTest, Verdict, grade_stdio
from evals.graders.code.compare import same_text
from evals.sandbox.base import Limits
from evals.tasks.base import item_id
from evals.tasks.code import CodeSettings, CodeTask, fenced, texts_of
from evals.tasks.contest import paired, statement
from evals.tasks.hub import Row
from evals.tasks.stratified import COLUMNS, StratifiedTask
from trinity.canonical import folded
from trinity.types import Item, Redistribute

_PRINTED = ("outputs_0", "outputs_1", "outputs_2")
"""What accepted programs printed."""
_PARTS = (
    ("", "problem_name"),
    ("", "problem_main"),
    ("Input:", "input_spec"),
    ("Output:", "output_spec"),
    ("Note:", "problem_note"),
)


class Easy2HardCodeforces(CodeTask, StratifiedTask):
    """E2H-Codeforces (Ding et al., arXiv 2409.18433): difficulty is the Glicko-2 rating that contestants' results gave.

    Items are chosen as by `StratifiedTask`. Answers are Python programs that read standard input; what they print is
    compared with `input_output` (an object of `inputs` and `outputs`, also as JSON; else the columns `inputs` and
    `answers`), of which the samples alone are shown.

    The data has no checkers. It has programs that the contest accepted, with what they printed: where one of them
    printed something else than the answer, the problem accepts several outputs, only one of which would pass here. By
    default such problems are unusable; of the sixty that were looked at, nine are such.

    Args:
        several_outputs: use problems that accept several outputs, too.
        settings: see `CodeSettings`; `n_test` must be a number.
    """

    name = "easy2hard_codeforces"
    config = "E2H-Codeforces"
    columns = (*COLUMNS, "problem_main", "input_spec", "output_spec", "sample_inputs", "sample_outputs")
    optional = (
        *("input_output", "inputs", "answers", "problem_name", "problem_note", "contest_id", "problem_index", "tag"),
        *("solution_0", *_PRINTED),
    )
    heavy = ("input_output", "inputs", "answers", *_PRINTED)
    licence = "CC-BY-SA-4.0; problem texts are their authors' (Codeforces)"
    redistribute: Redistribute = "ids-only"
    limits = Limits(cpu_s=10.0)
    prompt_file = "codeforces"

    def __init__(self, *, several_outputs: bool = False, **settings: Unpack[CodeSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.several_outputs = several_outputs

    def unusable(self, row: Row) -> str | None:
        """Why it can not be asked or graded."""
        if not row.text("problem_main", ""):
            return "has no text"
        tests = _tests(row)
        if not tests:
            return "has no tests"
        return None if self.several_outputs or _has_one_output(row, tests) else "accepts several outputs"

    def identity(self, row: Row) -> str:
        """The problem's text: two divisions of a contest share problems."""
        return folded(row.text("problem_main"))

    def item(self, row: Row) -> Item:
        """A problem; `meta` holds the key of its tests and, where the data has one, a solution."""
        examples = paired(row, "sample_inputs", texts_of(row, "sample_inputs"), texts_of(row, "sample_outputs"))
        prompt = statement(row, _PARTS, [(test.stdin, test.stdout) for test in examples])
        meta = {
            "source": f"{row.text('contest_id', '')}{row.text('problem_index', '')}",
            "tests": row.values["heavy"],
            "solution": row.values.get("solution_0"),
        }
        domain, target = row.text("tag", "code"), "passes all tests"
        return Item(
            item_id(self.name, prompt), self.name, prompt, target, domain, row.number("rating"), "human", meta
        )  # fmt: skip

    def solution(self, item: Item) -> str | None:
        """A contestant's program, where the data has one."""
        program = item.meta["solution"]
        return fenced(program) if program else None

    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether all tests pass."""
        values = dict(zip(self.heavy, self.heavy_columns(item.meta["tests"]), strict=True))
        return await grade_stdio(self.sandbox, code, _tests(Row(values, item.meta["source"], 1)), self.limits)


def _tests(row: Row) -> list[StdioTest]:
    """The tests of a problem, with the line ends of Unix.

    Raises:
        DataError: they are not in the form expected.
    """
    both = _both(row)
    tests = paired(row, "input_output", both.get("inputs") or [], both.get("outputs") or [])
    return [StdioTest(test.stdin.replace("\r\n", "\n"), test.stdout.replace("\r\n", "\n")) for test in tests]


def _has_one_output(row: Row, tests: Sequence[StdioTest]) -> bool:
    """Whether all accepted programs of the row printed what the tests want."""
    return all(
        same_text(text.encode(), test.stdout)
        for column in _PRINTED
        if row.values.get(column)
        for text, test in zip(texts_of(row, column), tests, strict=False)
    )


def _both(row: Row) -> Mapping[str, Any]:
    """Inputs and outputs, as `input_output` has them, or the columns of their own."""
    value = row.values.get("input_output")
    try:
        value = json.loads(value) if isinstance(value, str) and value.strip() else value
    except ValueError as error:
        raise row.wrong("input_output", "JSON") from error
    if not value:
        return {"inputs": row.values.get("inputs"), "outputs": row.values.get("answers")}
    if not isinstance(value, Mapping):
        raise row.wrong("input_output", "an object of inputs and outputs")
    return value
