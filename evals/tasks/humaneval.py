"""HumanEval: Python functions to be written from their signature and docstring."""

from __future__ import annotations

from evals.graders.code import Verdict, grade_asserts
from evals.tasks.base import item_id
from evals.tasks.code import CodeTask, completed, fenced, preamble, source_of
from evals.tasks.hub import Row
from trinity.types import Item


class HumanEval(CodeTask):
    """HumanEval (Chen et al., arXiv 2107.03374): 164 functions, each with a hidden `check`.

    An answer may be the whole function or its body alone. The check, with the helpers that the prompt defines, runs
    apart from the answer. One split on the hub, cut by `data_seed`. The settings are those of `CodeSettings`.
    """

    name = "humaneval"
    repo = "openai/openai_humaneval"
    config = "openai_humaneval"
    columns = ("prompt", "task_id", "canonical_solution", "test", "entry_point")
    licence = "MIT"
    citation = "Chen et al. 2021, Evaluating Large Language Models Trained on Code, arXiv 2107.03374"

    def item(self, row: Row) -> Item:
        """A function; `meta` holds the hidden check and the solution."""
        prompt, name = source_of(row, "prompt").strip("\n"), row.text("entry_point")
        helpers = preamble(prompt, name)
        if f"def {name}" not in prompt[len(helpers) :]:
            raise row.error(f"the prompt does not open the function {name} of entry_point")
        meta = {
            "source": row.text("task_id"),
            "function": name,
            "checker": f"{helpers}\n{source_of(row, 'test')}\ncheck({name})\n",
            "solution": f"{prompt}\n" + source_of(row, "canonical_solution"),
        }
        return Item(item_id(self.name, prompt), self.name, prompt, f"{name} passes its check", "code", meta=meta)

    def solution(self, item: Item) -> str:
        """The authors' function."""
        return fenced(item.meta["solution"])

    def wanted(self, item: Item) -> tuple[str]:
        """The function."""
        return (item.meta["function"],)

    async def verdict(self, item: Item, code: str) -> Verdict:
        """Whether the hidden check passes."""
        name = item.meta["function"]
        source = completed(item.prompt, code, name)
        return await grade_asserts(self.sandbox, source, item.meta["checker"], (name,), self.limits)
