"""9,999 whole-item resamples of 100,000 records, with the interval of every contrast, for studies of several shapes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evals.stats.bootstrap import bootstrap_means, bootstrap_ratios
from evals.stats.intervals import RESAMPLES, percentile_ends

Numbers = NDArray[np.float64]
RUNS = 3
TARGET_S = 2.0
COSTS = "costs, no two alike"


class Shape(NamedTuple):
    """So many items, each with one number in so many cells."""

    items: int
    cells: int
    numbers: str


SHAPES = (
    Shape(100_000, 1, "0/1 scores"),
    Shape(5_000, 20, "0/1 scores"),
    Shape(1_000, 100, "0/1 scores"),
    Shape(5_000, 20, "partial scores"),
    Shape(5_000, 20, COSTS),
)


def drawn(shape: Shape) -> Numbers:
    """Differences of scores, or costs, shape (n_items, n_cells)."""
    generator = np.random.default_rng(0)
    size = (shape.items, shape.cells)
    if shape.numbers == "0/1 scores":
        return generator.integers(-1, 2, size=size).astype(np.float64)
    return generator.lognormal(size=size) if shape.numbers == COSTS else generator.random(size) - generator.random(size)


def resampled(shape: Shape) -> Callable[[], Numbers]:
    """What is timed: contrasts stratified by difficulty quartile, or costs per correct answer without strata."""
    values = drawn(shape)
    strata = (np.arange(shape.items) % 4).astype(np.int32)
    if shape.numbers == COSTS:
        scores = (np.random.default_rng(1).random(values.shape) < 0.5).astype(np.float64)
        return lambda: percentile_ends(bootstrap_ratios(values, scores))
    return lambda: percentile_ends(bootstrap_means(values, strata=strata))


def seconds(work: Callable[[], Numbers]) -> float:
    """The best wall time of a few, so that a busy moment is not taken for the work."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def line(shape: Shape, value: float) -> dict[str, object]:
    """One result; `ok` is judged before rounding."""
    return {
        "bench": f"resamples: {shape.items} items x {shape.cells}, {shape.numbers}",
        "resamples": RESAMPLES,
        "value": round(value, 3),
        "unit": "s",
        "target": f"value <= {TARGET_S:g}",
        "ok": value <= TARGET_S,
    }


def main() -> None:
    """Print one JSON line a shape."""
    for shape in SHAPES:
        print(json.dumps(line(shape, seconds(resampled(shape)))))
