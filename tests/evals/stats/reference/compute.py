"""Fit the simulated studies with R and keep the estimates in reference.json.

`python -m tests.evals.stats.reference.compute` takes half an hour, most of it for lme4's models of 25,000 rows.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.stats.mixed_results import Fit
from evals.stats.study import Study
from tests.evals.stats.reference.simulated import STUDIES, fingerprint, write_csv
from trinity.runs.files import write_json

HERE = Path(__file__).parent
REFERENCE = HERE / "reference.json"
ENGINES = ("glmmTMB", "glmer")
NEAR_ZERO = 0.1
"""Log-odds: effects smaller than this are compared by their absolute difference, as if they had this size."""

_NEEDED = "for (name in c('lme4', 'glmmTMB', 'jsonlite')) if (!requireNamespace(name, quietly = TRUE)) quit(status = 1)"


def missing() -> str | None:
    """What keeps R from fitting here, or None."""
    if shutil.which("Rscript") is None:
        return "Rscript is not installed"
    if subprocess.run(["Rscript", "-e", _NEEDED], capture_output=True, check=False).returncode != 0:
        return "R has not all of lme4, glmmTMB and jsonlite"
    return None


def fit_with_r(study: Study, engine: str, models: Sequence[str] = ()) -> dict[str, Any]:
    """What R says of a study, by model; all four models unless some are named."""
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.csv"
        write_csv(study, answers)
        command = ["Rscript", str(HERE / "fit.R"), str(answers), engine, *models]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def our_name(name: str) -> str:
    """R's name of a fixed effect in our own notation."""
    if name == "(Intercept)":
        return "intercept"
    parts = [re.sub(r"^(LLM|method)(\w+)$", r"\1[\2]", part) for part in name.split(":")]
    return ":".join(sorted(parts, key=_place))


def _place(part: str) -> tuple[bool, bool]:
    """Methods first, difficulty last."""
    return not part.startswith("method"), part == "difficulty"


def agreement(fit: Fit, reference: Mapping[str, Any]) -> dict[str, float]:
    """Largest differences between a fit of ours and R's of the same model.

    `log_lik` is ours less R's, `coefficients` the largest of |ours - R's| / max(|R's|, 0.1), `se` the largest of
    |ours / R's - 1|, `variances` likewise.

    Raises:
        KeyError, ValueError: the models do not have the same effects.
    """
    theirs = {our_name(name): value for name, value in reference["coefficients"].items()}
    errors = {our_name(name): value for name, value in reference["se"].items()}
    if sorted(theirs) != sorted(one.name for one in fit.coefficients):
        raise ValueError(f"{sorted(theirs)} in R, {sorted(one.name for one in fit.coefficients)} here")
    scale = {name: max(abs(value), NEAR_ZERO) for name, value in theirs.items()}
    return {
        "log_lik": fit.log_lik - reference["log_lik"],
        "coefficients": max(abs(one.estimate - theirs[one.name]) / scale[one.name] for one in fit.coefficients),
        "se": max(abs(one.se / errors[one.name] - 1) for one in fit.coefficients),
        "variances": max(abs(one.estimate / reference["variances"][one.term] - 1) for one in fit.variances),
    }


def main() -> None:
    """Fit all with both engines."""
    result = {}
    for name, make in STUDIES.items():
        study = make()
        fits = {engine: fit_with_r(study, engine) for engine in ENGINES}
        result[name] = {"fingerprint": fingerprint(study), "rows": study.correct.size, "fits": fits}
        write_json(REFERENCE, result)


if __name__ == "__main__":
    main()
