"""The published cells of the orchestration study (arXiv 2608.00685v1) as episodes, and its tables."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from evals.stats.study import COLUMNS, Study, studies

HERE = Path(__file__).parent
N_ITEMS = 200
BENCHMARKS = ("AMC", "Codeforces", "Lichess")
ORCHESTRATED = ("Best-of-N", "Debate", "Self-Refine")


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one of the files beside this one."""
    with (HERE / f"published_{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table(name: str) -> list[dict[str, str]]:
    """The numbers of one table."""
    return [row for row in rows("tables") if row["table"] == name]


def episodes(cell: Mapping[str, str], number: int) -> Iterator[dict[str, Any]]:
    """200 episodes with a cell's accuracy and mean cost; which items are right differs between cells.

    Item i of 200 is right where (i x 77 + number x 31) mod 200 is below the number of right ones: 77 has no factor of
    200, so that this meets each remainder once. Costs are 30 % above and below the mean in turn.
    """
    accuracy = float(cell["accuracy"]) / 100
    mean = float(cell["weighted_tokens_per_correct"]) * accuracy
    for item in range(N_ITEMS):
        right = (item * 77 + number * 31) % N_ITEMS < round(accuracy * N_ITEMS)
        yield {
            "task": cell["benchmark"],
            "split": "test",
            "status": "correct" if right else "wrong",
            "method": cell["method"],
            "variant": cell["backbone"],
            "backbone": cell["backbone"],
            "pool_kind": "simulated",
            "item_id": f"{item:03}",
            "replicate_index": 0,
            "difficulty": float((item * 7) % N_ITEMS),
            "difficulty_kind": "irt",
            "score": float(right),
            "raw_score": float(right),
            "weighted_tokens": mean * (1.3 if item % 2 else 0.7),
            "cost_usd": float("nan"),
            "gflop": float("nan"),
        }


@cache
def benchmark(name: str) -> Study:
    """The study of one benchmark: 5 methods, 5 backbones, 200 items."""
    cells = [cell for cell in rows("cells") if cell["benchmark"] == name]
    played = [row for number, cell in enumerate(cells) for row in episodes(cell, number)]
    columns = {column: np.array([row[column] for row in played], dtype=object) for column in COLUMNS}
    (study,) = studies([columns], {cell["backbone"]: cell["backbone"] for cell in cells})
    return study
