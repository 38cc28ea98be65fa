"""Codeforces problems of Easy2Hard-Bench, rated by the contestants who tried them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evals.graders.code import StdioTest, Verdict, grade_stdio
from evals.sandbox.base import Limits
from evals.tasks.base import item_id
from evals.tasks.code import ProgramTask, fenced, texts_of
from evals.tasks.contest import paired, statement
from evals.tasks.hub import Row
from evals.tasks.stratified import StratifiedTask
from trinity.canonical import folded
from trinity.errors import GraderError
from trinity.types import Item, Redistribute

_PARTS = (
    ("", "problem_name"),
    ("", "problem_main"),
    ("Input:", "input_spec"),
    ("Output:", "output_spec"),
    ("Note:", "problem_note"),
)


class Easy2HardCodeforces(ProgramTask, StratifiedTask):
    """E2H-Codeforces (Ding et al., arXiv 2409.18433): difficulty is the Glicko-2 rating that contestants' results gave.

    Items are chosen as by `StratifiedTask`. Answers are Python programs that read standard input; what they print is
    compared with `input_output` (an object of `inputs` and `outputs`, also as JSON; else the columns `inputs` and
    `answers`), of which the samples alone are shown. The data has no checkers: a problem that accepts several outputs
    accepts only one here.

    Args:
        data_seed: chooses the items.
        n_train: items of the training split.
        n_val: items of the validation split.
        n_test: items of the test split.
        sandbox: settings of the sandbox that programs run in.
        limits: bounds of a program that differ from the task's own, by their names in `Limits`.
        path: a local copy of the rows (see `hub.Source`).
        revision: commit or tag on the hub; None = the newest.
    """

    name = "easy2hard_codeforces"
    config = "E2H-Codeforces"
    columns = ("problem_main", "input_spec", "output_spec", "sample_inputs", "sample_outputs")
    optional = (
        *("input_output", "inputs", "answers", "problem_name", "problem_note", "contest_id", "problem_index", "tag"),
        *("solution_0",),
    )
    licence = "CC-BY-SA-4.0; problem texts are their authors' (Codeforces)"
    redistribute: Redistribute = "ids-only"
    citation = "Ding et al. 2024, Easy2Hard-Bench: Standardized Difficulty Labels, arXiv 2409.18433"
    limits = Limits(cpu_s=10.0)
    prompt_file = "codeforces"

    def __init__(
        self,
        *,
        data_seed: int,
        n_train: int,
        n_val: int,
        n_test: int,
        sandbox: Mapping[str, Any],
        limits: Mapping[str, Any] | None = None,
        path: str | Path | None = None,
        revision: str | None = None,
    ) -> None:
        """Keep the settings; rows are read and the sandbox is built when they are first needed."""
        StratifiedTask.__init__(
            self, data_seed=data_seed, n_train=n_train, n_val=n_val, n_test=n_test, path=path, revision=revision
        )
        self.hold(sandbox, limits)

    def facts(self) -> dict[str, Any]:
        """What the manifest keeps of items and sandbox."""
        left_out = {split: reasons for split, reasons in self.left_out.items() if reasons}
        return {"citation": self.citation, "repo": self.repo, "left_out": left_out, **self.sandbox_facts()}

    def unusable(self, row: Row) -> str | None:
        """Why it can not be asked or graded."""
        if not row.text("problem_main", ""):
            return "has no text"
        return None if _both(row).get("inputs") else "has no tests"

    def identity(self, row: Row) -> str:
        """The problem's text: two divisions of a contest share problems."""
        return folded(row.text("problem_main"))

    def item(self, row: Row) -> Item:
        """A problem; `meta` holds its tests and, where the data has one, a solution."""
        examples = paired(row, "sample_inputs", texts_of(row, "sample_inputs"), texts_of(row, "sample_outputs"))
        prompt = statement(row, _PARTS, [(test.stdin, test.stdout) for test in examples])
        tests = _tests(row)
        meta = {
            "source": f"{row.text('contest_id', '')}{row.text('problem_index', '')}",
            "inputs": [test.stdin for test in tests],
            "outputs": [test.stdout for test in tests],
            "solution": row.values.get("solution_0"),
        }
        domain, target = row.text("tag", "code"), f"passes {len(tests)} tests"
        return Item(
            item_id(self.name, prompt), self.name, prompt, target, domain, row.number("rating"), "human", meta
        )  # fmt: skip

    def solution(self, item: Item) -> str | None:
        """A contestant's program, where the data has one."""
        program = item.meta["solution"]
        return fenced(program) if program else None

    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether all tests pass."""
        tests = [StdioTest(*pair) for pair in zip(item.meta["inputs"], item.meta["outputs"], strict=True)]
        if not tests:
            raise GraderError(f"task {self.name}: {item.meta['source']} has no tests")
        return await grade_stdio(self.sandbox, code, tests, self.limits)


def _tests(row: Row) -> list[StdioTest]:
    """The tests of a problem, with the line ends of Unix.

    Raises:
        DataError: they are not in the form expected.
    """
    both = _both(row)
    tests = paired(row, "input_output", both.get("inputs"), both.get("outputs"))
    return [StdioTest(test.stdin.replace("\r\n", "\n"), test.stdout.replace("\r\n", "\n")) for test in tests]


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
