"""GSM8K: word problems of grade school."""

from __future__ import annotations

from evals.graders.number import VERSION, read_number
from evals.tasks.base import item_id
from evals.tasks.benchmark import Benchmark
from evals.tasks.hub import Row
from trinity.types import Item

_MARK = "####"


class GSM8K(Benchmark):
    """GSM8K (Cobbe et al., arXiv 2110.14168); difficulty is the number of calculations in the worked solution.

    Test items come from `test` (1,319 rows), the others from `train` (7,473 rows). The answer is the number behind
    `####` in the row; only numbers are compared.
    """

    name = "gsm8k"
    repo = "openai/gsm8k"
    config = "main"
    hub_splits = {"train": "train", "val": "train", "test": "test"}  # noqa: RUF012 - as in Benchmark
    columns = ("question", "answer")
    licence = "MIT"
    citation = "Cobbe et al. 2021, Training Verifiers to Solve Math Word Problems, arXiv 2110.14168"
    grader = VERSION

    def item(self, row: Row) -> Item:
        """A problem; `meta` holds its worked solution, which no prompt shows."""
        prompt, worked = row.text("question"), row.text("answer")
        target = read_number(f"Answer: {worked.rpartition(_MARK)[2]}") if _MARK in worked else None
        if target is None:
            raise row.wrong("answer", f"a solution that ends with {_MARK} and a number")
        steps = float(worked.count("<<") or len(worked.partition(_MARK)[0].strip().splitlines()))
        meta = {"worked": worked}
        return Item(item_id(self.name, prompt), self.name, prompt, target, "arithmetic", steps, "constructed", meta)

    def key(self, item: Item, text: str) -> str | None:
        """The number, as a reduced fraction."""
        return read_number(text)

    def solution(self, item: Item) -> str | None:
        """The worked solution of the data."""
        return str(item.meta["worked"])
