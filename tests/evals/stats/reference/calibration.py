"""Whether the mixed models' intervals and tests keep what they promise, on simulated studies of 4,000 rows.

`python -m tests.evals.stats.reference.calibration` simulates 200 studies with the methods' effects and 200 without any,
fits M0 to M3 as for a real study, and adds each to calibration.jsonl beside it, so that a run that is interrupted goes
on where it stood; calibration.json says what they come to. About ten minutes on one core.

No study has an interaction of method with difficulty or LLM, so that M1 is the truth of all and M0 of those without
effects.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.stats.mixed import difficulty_models
from tests.evals.stats.reference.simulated import EFFECTS, METHODS, NO_EFFECTS, simulated
from trinity.runs.files import write_json

STUDIES, SUMMARY = (Path(__file__).with_name(f"calibration.{ending}") for ending in ("jsonl", "json"))
N_STUDIES, N_ITEMS, LEVEL = 200, 200, 0.05
KINDS: Mapping[str, tuple[int, Sequence[float]]] = {"effects": (1, EFFECTS), "no_effects": (2, NO_EFFECTS)}
NORMAL_975 = 1.959963984540054

Outcome = dict[str, Any]


def outcome(kind: str, number: int) -> Outcome:
    """What the models say of one simulated study: methods' log-odds and standard errors (M1), p of the three tests."""
    salt, effects = KINDS[kind]
    models = difficulty_models(simulated((salt, number), N_ITEMS, effects), reference=METHODS[0])
    found = {fit.model: fit for fit in models.fits}
    methods = [one for one in found["M1"].coefficients if one.name.startswith("method[")]
    return {
        "log_odds": [round(one.estimate, 6) for one in methods],
        "se": [round(one.se, 6) for one in methods],
        "variances": [round(one.estimate, 6) for one in found["M1"].variances],
        "p": {f"{test.smaller}-{test.larger}": round(test.p, 6) for test in models.tests},
        "not_identified": list(models.not_identified),
    }


def summary(studies: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """Coverage of the 95 % intervals of each method's log-odds, and how often true smaller models are rejected."""
    effects, none = studies["effects"], studies["no_effects"]
    true = dict(zip(METHODS[1:], EFFECTS[1:], strict=False))
    return {
        "coverage": {method: covered(effects, place, value) for place, (method, value) in enumerate(true.items())},
        "mean_log_odds": {
            method: round(sum(one["log_odds"][place] for one in effects) / len(effects), 4)
            for place, method in enumerate(true)
        },
        "true_log_odds": true,
        "rejected": {
            "M0-M1, no effects": rejected(none, "M0-M1"),
            "M1-M2, effects": rejected(effects, "M1-M2"),
            "M1-M3, effects": rejected(effects, "M1-M3"),
            "M1-M2, no effects": rejected(none, "M1-M2"),
            "M1-M3, no effects": rejected(none, "M1-M3"),
        },
        "mean_variances": [round(sum(one["variances"][term] for one in effects) / len(effects), 4) for term in (0, 1)],
    }


def covered(studies: Sequence[Outcome], place: int, true: float) -> dict[str, Any]:
    """Share of studies whose interval holds a method's true log-odds."""
    return share([abs(one["log_odds"][place] - true) <= NORMAL_975 * one["se"][place] for one in studies], 0.95)


def rejected(studies: Sequence[Outcome], test: str) -> dict[str, Any]:
    """Share of studies whose test is significant."""
    return share([one["p"][test] < LEVEL for one in studies], LEVEL)


def share(hits: Sequence[bool], expected: float) -> dict[str, Any]:
    """A share, and the central 95 % of what its binomial distribution gives where the expected one is true."""
    from scipy.stats import binom

    low, high = binom.interval(0.95, len(hits), expected)
    return {
        "n": len(hits),
        "value": sum(hits) / len(hits),
        "expected": expected,
        "band": [float(low) / len(hits), float(high) / len(hits)],
        "inside": bool(low <= sum(hits) <= high),
    }


def stored() -> dict[str, list[Outcome]]:
    """The studies that are done, by kind."""
    done: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}
    if STUDIES.exists():
        for line in STUDIES.read_text("utf-8").splitlines():
            one = json.loads(line)
            done[one.pop("kind")].append(one)
    return done


def repair() -> None:
    """Cut off the half line that an interruption may have left."""
    if STUDIES.exists():
        whole = STUDIES.read_bytes().rpartition(b"\n")
        STUDIES.write_bytes(whole[0] + whole[1])


def main(count: int = N_STUDIES) -> None:
    """Go on from the studies that are done to `count` of each kind."""
    repair()
    studies = stored()
    for number in range(count):
        for kind, done in studies.items():
            if number >= len(done):
                done.append(outcome(kind, number))
                with STUDIES.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"kind": kind, **done[-1]}) + "\n")
    write_json(SUMMARY, summary(studies))
    sys.stdout.write(SUMMARY.read_text("utf-8"))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
