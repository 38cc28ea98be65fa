"""What methods that share a model's samples do to the mixed models and to the paired differences.

`python -m tests.evals.stats.reference.shared_samples` simulates studies of 4,000 rows in which no method differs from
any other, once with samples of their own and once with shared ones: `refine` gives the first answer again in 60 % of
its episodes, `best_of_n` takes any of three samples of which the first answer is one, `debate` shares nothing. What
M0 and M1 say, and what is true, goes to shared_samples.json beside it. About five minutes on one core.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evals.stats.mixed import difficulty_models
from evals.stats.study import Study
from tests.evals.stats.reference.simulated import METHODS, NO_EFFECTS, chance, drawn_logits, study_of
from trinity.runs.files import write_json

RESULT = Path(__file__).with_name("shared_samples.json")
N_STUDIES, N_ITEMS, LEVEL = 100, 200, 0.05
STOPS, SAMPLES = 0.6, 3
KINDS: Mapping[str, bool] = {"shared": True, "own": False}

Outcome = dict[str, Any]


def study(number: int, *, shared: bool) -> Study:
    """A study in which every answer is right with the same chance, whichever method gives it."""
    random = np.random.Generator(np.random.PCG64((3, number, shared)))
    difficulty, logits = drawn_logits(random, N_ITEMS, NO_EFFECTS)
    right = chance(logits[0])
    samples = random.random((SAMPLES, *right.shape)) < right
    refined, selected, debated = random.random((3, *right.shape)) < right
    if shared:
        refined = np.where(random.random(right.shape) < STOPS, samples[0], refined)
        selected = np.take_along_axis(samples, random.integers(0, SAMPLES, (1, *right.shape)), 0)[0]
    return study_of(difficulty, np.stack([samples[0], refined, selected, debated]))


def outcome(number: int, *, shared: bool) -> Outcome:
    """What M0 and M1 say of methods, of the variance of item:LLM and of each other; the paired differences."""
    made = study(number, shared=shared)
    models = difficulty_models(made, reference=METHODS[0])
    found = {fit.model: fit for fit in models.fits}["M1"]
    methods = [one for one in found.coefficients if one.name.startswith("method[")]
    accuracy = made.cube(made.score).mean(axis=(1, 2))
    return {
        "log_odds": [round(one.estimate, 6) for one in methods],
        "se": [round(one.se, 6) for one in methods],
        "pair_variance": round(found.variances[1].estimate, 6),
        "p": round(next(test.p for test in models.tests if (test.smaller, test.larger) == ("M0", "M1")), 6),
        "differences": [round(float(one - accuracy[0]), 6) for one in accuracy[1:]],
    }


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Mean standard error over the true spread of log-odds, by method; how often M0 is rejected; mean difference."""
    log_odds, errors = (np.array([one[key] for one in outcomes]) for key in ("log_odds", "se"))
    ratios = errors.mean(axis=0) / log_odds.std(axis=0, ddof=1)
    differences = np.array([one["differences"] for one in outcomes]).mean(axis=0)
    names = METHODS[1 : len(NO_EFFECTS)]
    return {
        "n": len(outcomes),
        "se_over_spread": {name: round(float(value), 3) for name, value in zip(names, ratios, strict=True)},
        "mean_difference": {name: round(float(value), 4) for name, value in zip(names, differences, strict=True)},
        "pair_variance": round(float(np.mean([one["pair_variance"] for one in outcomes])), 3),
        "rejected": float(np.mean([one["p"] < LEVEL for one in outcomes])),
    }


def main(count: int = N_STUDIES) -> None:
    """Simulate `count` studies of each kind."""
    found = {kind: [outcome(number, shared=shared) for number in range(count)] for kind, shared in KINDS.items()}
    write_json(RESULT, {"summary": {kind: summary(one) for kind, one in found.items()}, "studies": found})
    sys.stdout.write(json.dumps(json.loads(RESULT.read_text("utf-8"))["summary"], indent=1) + "\n")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
