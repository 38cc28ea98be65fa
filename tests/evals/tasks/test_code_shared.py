"""The benchmarks of programs on their own rows: every solution that the data holds is graded right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from evals.tasks.bigcodebench import BigCodeBench
from evals.tasks.code import fenced
from evals.tasks.codeforces import Codeforces
from evals.tasks.cruxeval import CRUXEval
from evals.tasks.humaneval import HumanEval
from evals.tasks.mbpp import MBPP
from tests.sandboxes import TRUSTED
from trinity.types import Episode, Item

ITEMS = Path(__file__).parents[4] / "shared" / "data" / "items"
SAMPLE = 12

pytestmark = [pytest.mark.shared_data, pytest.mark.skipif(not ITEMS.exists(), reason=f"no {ITEMS}")]


def make(task: Any, file: str, **changed: Any) -> Any:
    """A task of all rows of a file."""
    settings = {"data_seed": 0, "n_train": 0, "n_val": 0, "n_test": None, "path": ITEMS / file, "sandbox": TRUSTED}
    return task(**{**settings, **changed})


@pytest.mark.parametrize(
    ("task", "file", "options", "count"),
    [
        (HumanEval, "humaneval_test.jsonl", {}, 164),
        (MBPP, "mbpp_sanitized_test.jsonl", {}, 257),
        (CRUXEval, "cruxeval_test.jsonl", {}, 300),
        (CRUXEval, "cruxeval_test.jsonl", {"direction": "input"}, 300),
        (BigCodeBench, "bigcodebench_stdlib.jsonl", {}, 133),
        (BigCodeBench, "bigcodebench_stdlib.jsonl", {"prompt": "instruct"}, 133),
    ],
)
async def test_every_row_is_an_item_and_solutions_are_right(
    task: Any, file: str, options: dict[str, Any], count: int
) -> None:
    """No row is left out, no solution is shown, and those of a sample are right, while nonsense is not.

    `python -m evals.check` grades all of them.
    """
    made = make(task, file, **options)
    items = list(made.items("test"))
    assert (len(items), len({item.item_id for item in items}), made.facts()["left_out"]) == (count, count, {})
    await made.ready()

    async def scores(item: Item) -> tuple[float, float]:
        solution, nonsense = made.solution(item), "Answer: f('no', 'such')\n```python\ndef nothing(): ...\n```"
        return tuple([(await made.grade(item, Episode(text), None)).score for text in (solution, nonsense)])

    found = await asyncio.gather(*map(scores, items[:SAMPLE]))
    await made.close()
    assert found == [(1.0, 0.0)] * SAMPLE


SOLUTIONS = {
    "Add Two": "print(sum(map(int, input().split())))",
    "Longest Run": "import itertools\nprint(max(len(list(run)) for _, run in itertools.groupby(input())))",
    "Any Divisors": "n = int(input())\nprint(*[k for k in range(1, n + 1) if n % k == 0])",
    "Half": "print('%.9f' % (float(input()) / 2))",
    "Max Subarray": "import sys\nsums = [0]\nfor x in sys.stdin.read().split()[1:]:\n"
    "    sums.append(max(sums[-1], 0) + int(x))\nprint(max(sums[1:]))",
}


async def test_codeforces_reads_the_sample_of_its_columns() -> None:
    """Each of its five problems takes a right program, and none that prints a number it made up."""
    made = make(Codeforces, "codeforces_schema_sample.jsonl")
    items = {item.prompt.split("\n", 1)[0]: item for item in made.items("test")}
    assert items.keys() == SOLUTIONS.keys()
    for title, item in items.items():
        programs = (SOLUTIONS[title], "print(77)")
        assert [(await made.grade(item, Episode(fenced(one)), None)).score for one in programs] == [1.0, 0.0]
    await made.close()
