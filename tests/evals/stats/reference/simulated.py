"""Simulated studies with known effects, made again from their seeds wherever they are needed."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evals.stats.study import Study

METHODS = ("cot", "refine", "best_of_n", "debate", "vote_of_3")
BACKBONES = ("ash", "beech", "cedar", "elm", "fir")

# Log-odds and standard deviations of a benchmark on which about 60 % of the answers are right.
INTERCEPT, DIFFICULTY = 0.4, -1.2
BACKBONE_EFFECTS = (0.0, 0.9, -0.7, 0.4, -0.4)
ITEM_SD, PAIR_SD = 1.1, 1.3
EFFECTS = (0.0, 0.64, 0.58, 0.30)
NO_EFFECTS = (0.0, 0.0, 0.0, 0.0)

LARGE_EFFECTS = (*EFFECTS, -0.2)


def simulated(seed: Sequence[int], n_items: int, effects: Sequence[float] = EFFECTS) -> Study:
    """Each method's answer to each item with each of five LLMs, drawn from M1.

    Args:
        seed: of the items, the random effects and the answers.
        n_items: number of items.
        effects: log-odds of the methods; the number of methods is its length.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    difficulty, logits = drawn_logits(random, n_items, effects)
    return study_of(difficulty, random.random(logits.shape) < chance(logits))


def drawn_logits(
    random: np.random.Generator, n_items: int, effects: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Difficulties, shape (n_items,), and log-odds of right answers, shape (methods, LLMs, n_items)."""
    shape = (len(effects), len(BACKBONES), n_items)
    difficulty = 5 + 2 * random.standard_normal(n_items)
    z = (difficulty - difficulty.mean()) / difficulty.std(ddof=1)
    logits = INTERCEPT + DIFFICULTY * z + ITEM_SD * random.standard_normal(n_items) + np.zeros(shape)
    logits += np.array(BACKBONE_EFFECTS)[:, np.newaxis] + PAIR_SD * random.standard_normal(shape[1:])
    return difficulty, logits + np.array(effects)[:, np.newaxis, np.newaxis]


def chance(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of log-odds, of the same shape."""
    return np.asarray(1 / (1 + np.exp(-logits)))


def study_of(difficulty: NDArray[np.float64], answers: NDArray[np.bool_]) -> Study:
    """The study of `answers`, shape (methods, LLMs, n_items)."""
    correct = answers.ravel()
    method, backbone, item = (codes.ravel().astype(np.int32) for codes in np.indices(answers.shape))
    return Study(
        "simulated",
        "simulated",
        METHODS[: len(answers)],
        BACKBONES,
        tuple(f"item{number:04d}" for number in range(difficulty.size)),
        method,
        backbone,
        item,
        correct.astype(np.float64),
        correct,
        np.zeros(correct.size, dtype=np.bool_),
        {},
        difficulty,
        "irt",
    )


def small() -> Study:
    """4,000 rows: 200 items, 5 LLMs, 4 methods."""
    return simulated((4000,), 200)


def large() -> Study:
    """25,000 rows: 1,000 items, 5 LLMs, 5 methods."""
    return simulated((25000,), 1000, LARGE_EFFECTS)


STUDIES = {"small": small, "large": large}


def fingerprint(study: Study) -> str:
    """SHA-256 of the outcomes and of the difficulties to nine digits."""
    difficulties = ",".join(f"{value:.9g}" for value in study.difficulty)
    return hashlib.sha256(np.packbits(study.correct).tobytes() + difficulties.encode()).hexdigest()


def write_csv(study: Study, path: Path) -> None:
    """One line an answer, for R; difficulty is standardised."""
    z = study.z
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["correct", "item", "LLM", "method", "difficulty"])
        for row in range(study.correct.size):
            item, backbone, method = study.item[row], study.backbone[row], study.method[row]
            names = study.items[item], study.backbones[backbone], study.methods[method]
            lines.writerow([int(study.correct[row]), *names, repr(float(z[item]))])
