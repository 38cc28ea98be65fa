"""Studies made by hand: a list of item scores for each method and backbone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evals.stats.axes import AXES
from evals.stats.study import Study

Cells = Mapping[tuple[str, str], Sequence[float]]
"""(method, backbone) -> a number for each item."""


def make_study(scores: Cells, difficulty: Sequence[float] | None = None, *, task: str = "sums") -> Study:
    """A study of one replicate; a score of NaN was not graded, and no cost is known."""
    methods, backbones = (tuple(sorted({key[side] for key in scores})) for side in (0, 1))
    n_items = max(map(len, scores.values()))
    rows = [
        (methods.index(method), backbones.index(backbone), item, score)
        for (method, backbone), values in scores.items()
        for item, score in enumerate(values)
        if not math.isnan(score)
    ]
    method, backbone, item = (np.array([row[side] for row in rows], dtype=np.int32) for side in range(3))
    score = np.array([row[3] for row in rows], dtype=np.float64)
    return Study(
        task=task,
        pool_kind="simulated",
        methods=methods,
        backbones=backbones,
        items=tuple(f"{place:05}" for place in range(n_items)),
        method=method,
        backbone=backbone,
        item=item,
        score=score,
        correct=score >= 1,
        truncated=np.zeros(score.size, dtype=np.bool_),
        costs={axis.column: np.full(score.size, np.nan) for axis in AXES},
        difficulty=np.full(n_items, np.nan) if difficulty is None else np.array(difficulty, dtype=np.float64),
        difficulty_kind=None if difficulty is None else "human",
    )


def with_costs(study: Study, costs: Cells, column: str = "cost_usd") -> Study:
    """The study with what each item cost each method and backbone."""
    rows = zip(study.method, study.backbone, study.item, strict=True)
    values = [costs[study.methods[method], study.backbones[backbone]][item] for method, backbone, item in rows]
    return replace(study, costs={**study.costs, column: np.array(values, dtype=np.float64)})


def with_truncated(study: Study, truncated: Sequence[tuple[str, str, int]], raw: float | None) -> Study:
    """The study with these episodes (method, backbone, item) truncated, each worth `raw` by its text alone."""
    rows = zip(study.method, study.backbone, study.item, strict=True)
    cut = np.array([(study.methods[m], study.backbones[b], int(i)) in truncated for m, b, i in rows])
    score = np.where(cut, 0.0, study.score)
    raw_score = None if raw is None else np.where(cut, raw, study.score)
    return replace(study, score=score, correct=score >= 1, truncated=cut, raw_score=raw_score)
