"""The graded test episodes of one benchmark as arrays: what every analysis over methods, backbones and items reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """n graded episodes; `method`, `backbone` and `item` index the tuples of names.

    Attributes:
        task: the benchmark.
        pool_kind: live, recorded, simulated or scripted.
        methods: their names.
        backbones: agents behind every call, or the pool where several answer.
        items: their ids.
        method: shape (n,).
        backbone: shape (n,).
        item: shape (n,).
        score: shape (n,), in [0, 1].
        correct: shape (n,), whether the score reaches the task's threshold.
        truncated: shape (n,), whether the answering call hit its length cap.
        costs: cost axis (weighted_tokens, cost_usd, gflop) to shape (n,), NaN where unknown.
        difficulty: shape (n_items,), NaN where unknown.
        difficulty_kind: human, irt or constructed.
    """

    task: str
    pool_kind: str
    methods: tuple[str, ...]
    backbones: tuple[str, ...]
    items: tuple[str, ...]
    method: NDArray[np.int32]
    backbone: NDArray[np.int32]
    item: NDArray[np.int32]
    score: NDArray[np.float64]
    correct: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    costs: Mapping[str, NDArray[np.float64]]
    difficulty: NDArray[np.float64]
    difficulty_kind: str | None
