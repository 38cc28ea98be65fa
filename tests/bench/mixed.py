"""Time of the mixed models of 25,000 rows, and of M1 beside lme4's glmer where R is.

Both are judged by what a user waits for: the optimum with its standard errors, from cold.
"""

from __future__ import annotations

import json
import time

from evals.stats.mixed import difficulty_models
from evals.stats.mixed_design import design
from evals.stats.mixed_fit import solve
from evals.stats.mixed_rows import random_terms, rows_of
from evals.stats.study import Study
from tests.evals.stats.reference.compute import fit_with_r, missing
from tests.evals.stats.reference.simulated import METHODS, large

MOST_SECONDS = 120


def all_models(study: Study) -> dict[str, object]:
    """M0 to M3 with tests and odds ratios."""
    start = time.perf_counter()
    models = difficulty_models(study, reference=METHODS[0])
    seconds = time.perf_counter() - start
    return {
        "bench": "mixed: M0 to M3",
        "rows": study.correct.size,
        "value": round(seconds, 2),
        "unit": "s",
        "target": f"value <= {MOST_SECONDS}",
        "ok": seconds <= MOST_SECONDS and len(models.fits) == 4,
    }


def one_model(study: Study) -> dict[str, object]:
    """M1 alone, beside glmer's time for the fit (reading the data and starting R left out)."""
    start = time.perf_counter()
    rows = rows_of(study, METHODS[0], [])
    groups = None if rows is None else random_terms(rows, [])
    assert rows is not None
    assert groups is not None
    found = solve(design(rows, "M1").matrix, rows.correct, groups)
    seconds = time.perf_counter() - start
    line = {"bench": "mixed: M1", "rows": study.correct.size, "value": round(seconds, 2), "unit": "s"}
    line |= {"log_lik": round(found.log_lik, 3), "rival": "lme4 glmer (bobyqa)"}
    reason = missing()
    if reason is not None:
        return line | {"rival_value": None, "note": reason, "target": "value <= rival_value", "ok": None}
    rival = fit_with_r(study, "glmer", ["M1"])
    theirs = rival["models"]["M1"]
    line |= {"rival_version": rival["version"], "rival_value": round(theirs["seconds"], 2)}
    line |= {"ratio": round(seconds / theirs["seconds"], 3), "rival_log_lik": round(theirs["log_lik"], 3)}
    return line | {"target": "value <= rival_value", "ok": seconds <= theirs["seconds"]}


def main() -> None:
    """Print both as JSON lines."""
    study = large()
    for measure in (all_models, one_model):
        print(json.dumps(measure(study)), flush=True)
