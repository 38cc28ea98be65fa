"""Mixed-effects logistic models of a study: do methods differ once items, their difficulty and LLMs are accounted for.

    M0  correct ~ difficulty + LLM + (1 | item) + (1 | item:LLM)
    M1  M0 + method
    M2  M1 + method x difficulty
    M3  M1 + method x LLM

The LLM is a fixed effect, since five levels identify no variance; nothing is crossed with a random LLM. Contrasts are
treatment contrasts. M3 is written with the effect of each method within each LLM, which is the same model as with
interactions and gives those effects their standard errors.

What to keep in mind: rows of one item and LLM are taken as independent given both random effects. Replicates of one
method that resemble each other beyond that make its interval too narrow; methods that share a sample
(docs/baselines.md) put it into the second effect, which makes log-odds larger than separate samples would, the interval
of a method that often returns the other's answer too wide, others' too narrow, and M0 too often rejected. The Laplace
approximation, lme4's and glmmTMB's too, estimates variances between groups of a few answers too small; over simulated
studies log-odds and intervals of methods show nothing of it. Standard errors take variances as known: those of
intercept and difficulty are 2 to 3 % smaller than lme4's, those of methods are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from evals.stats.mixed_design import Design, Kind, Model, design, obstacle
from evals.stats.mixed_fit import BOUNDARY, Solution, require_gpboost, solve
from evals.stats.mixed_results import Coefficient, DifficultyModels, Fit, LikelihoodRatio, OddsRatio, Variance
from evals.stats.mixed_rows import Codes, Rows, listed, random_terms, rows_of
from evals.stats.study import Study
from trinity.errors import ConfigError

__all__ = ["DifficultyModels", "difficulty_models", "try_difficulty_models"]

PAIRS: tuple[tuple[Model, Model], ...] = (("M0", "M1"), ("M1", "M2"), ("M1", "M3"))
"""The nested models that are compared."""

_ADDED: dict[Model, list[str]] = {
    "M0": [],
    "M1": ["method"],
    "M2": ["method", "method:difficulty"],
    "M3": ["LLM:method"],
}
_WHY: dict[Model, str] = {
    "M0": "they follow from other effects",
    "M1": "no shared LLM links them to {reference}; the tests compare methods that share LLMs only",
    "M2": "their items do not differ in difficulty",
    "M3": "the method or {reference} did not run there",
}
_SAME = {"M1": ", as where each method has LLMs of its own; nor are M2 and M3."}
_SLACK = 1e-3
"""A larger model may fall short of a smaller one by this much in chi-square: what the optimiser leaves open."""


def difficulty_models(study: Study, *, reference: str | None = None) -> DifficultyModels:
    """Fit M0 to M3 by maximum likelihood (Laplace approximation) and test them against each other.

    Args:
        study: of one benchmark.
        reference: the method to compare with; by default, and where it has no usable rows, that of most LLMs.

    Returns:
        What is identified; the rest is named in `not_identified` and part of no formula.

    Raises:
        ConfigError: gpboost is not installed.
    """
    require_gpboost()
    notes: list[str] = []
    rows = rows_of(study, reference, notes)
    groups = None if rows is None else random_terms(rows, notes)
    if rows is None or groups is None:
        return DifficultyModels(study.task, study.pool_kind, None, None, (), (), (), (), (), tuple(notes))
    fitted = _Fitted(rows, groups, notes)
    fitted.fit_all()
    return DifficultyModels(
        study.task,
        study.pool_kind,
        rows.methods[0],
        None if rows.z is None else study.difficulty_kind,
        tuple(fitted.described(model) for model in fitted.solutions),
        tuple(fitted.tests()),
        fitted.ratios("M1", "method"),
        fitted.ratios("M2", "slope"),
        fitted.ratios("M3", "cell"),
        tuple(notes),
    )


def try_difficulty_models(study: Study, *, reference: str | None = None) -> tuple[DifficultyModels | None, str | None]:
    """`difficulty_models`, or None and the sentence that says why it cannot run here."""
    try:
        return difficulty_models(study, reference=reference), None
    except ConfigError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - an engine of another version may raise anything; the rest needs none
        return None, f"gpboost failed ({type(error).__name__}: {error})"


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """The models of some rows, by name: all designs that differ, and the solutions that can be used."""

    rows: Rows
    groups: dict[str, Codes]
    notes: list[str]
    designs: dict[Model, Design] = field(default_factory=dict)
    solutions: dict[Model, Solution] = field(default_factory=dict)

    def fit_all(self) -> None:
        """Fit the models in order, each from the optimum of the one whose columns it continues."""
        troubles = {"M0": self._fit("M0", None)}
        if len(self.rows.methods) == 1:
            self.notes.append(f"There is one method ({self.rows.methods[0]}): M1, M2 and M3 are not fitted.")
        elif self._differs("M1", "M0"):
            troubles["M1"] = self._fit("M1", "M0")
            if self.rows.z is not None and self._differs("M2", "M1"):
                troubles["M2"] = self._fit("M2", "M1")
            if len(self.rows.backbones) > 1 and self._differs("M3", "M1"):
                troubles["M3"] = self._fit("M3", "M0")
        for trouble in dict.fromkeys(reason for reason in troubles.values() if reason):
            models = ", ".join(model for model, reason in troubles.items() if reason == trouble)
            self.notes.append(f"{models}: no usable fit, since {trouble}.")
        self._note_boundaries()

    def described(self, model: Model) -> Fit:
        """What a fitted model is and says."""
        made, found = self.designs[model], self.solutions[model]
        size = found.coef.size + found.variances.size
        fixed = zip(made.columns, made.estimable, found.coef.tolist(), found.se.tolist(), strict=True)
        return Fit(
            model,
            self._formula(model),
            self.rows.correct.size,
            size,
            found.log_lik,
            2 * size - 2 * found.log_lik,
            tuple(Coefficient(column.name, value, se) for column, estimable, value, se in fixed if estimable),
            tuple(Variance(*parts, at_boundary=parts[1] < BOUNDARY) for parts in self._variances(model)),
        )

    def tests(self) -> Iterator[LikelihoodRatio]:
        """Likelihood-ratio tests of the pairs of which both are fitted."""
        from scipy.special import chdtrc

        for smaller, larger in PAIRS:
            if smaller not in self.solutions or larger not in self.solutions:
                continue
            low, high = self.solutions[smaller], self.solutions[larger]
            chi2, df = 2 * (high.log_lik - low.log_lik), high.coef.size - low.coef.size
            if chi2 < -_SLACK:
                self.notes.append(
                    f"{larger} fits worse than {smaller}, so one did not converge: they are not compared."
                )
                continue
            yield LikelihoodRatio(smaller, larger, max(chi2, 0.0), df, float(chdtrc(df, max(chi2, 0.0))))

    def ratios(self, model: Model, kind: Kind) -> tuple[OddsRatio, ...]:
        """Exponentials of the estimable coefficients of one kind, with Wald's intervals and p; Holm's p over all."""
        from scipy.special import ndtr, ndtri
        from statsmodels.stats.multitest import multipletests

        if model not in self.solutions:
            return ()
        made, found = self.designs[model], self.solutions[model]
        places = [
            place
            for place, column in enumerate(made.columns)
            if column.kind == kind and made.estimable[place] and column.method not in self._incomparable(kind)
        ]
        if not places:
            return ()
        value, half = found.coef[places], float(ndtri(0.975)) * found.se[places]
        p = 2 * ndtr(-np.abs(value / found.se[places]))
        holm = multipletests(p, method="holm")[1]
        numbers = np.column_stack([np.exp(value), np.exp(value - half), np.exp(value + half), p, holm]).tolist()
        columns = [made.columns[place] for place in places]
        return tuple(
            OddsRatio(column.method, column.backbone or None, *row)
            for column, row in zip(columns, numbers, strict=True)
        )

    def _incomparable(self, kind: Kind) -> set[str]:
        """Methods whose slopes say nothing, since M1 cannot tell the effect that they would multiply."""
        return {column.method for column in self._design("M1").lost} if kind == "slope" else set()

    def _differs(self, model: Model, smaller: Model) -> bool:
        """Whether a model has more effects than a smaller one that these rows can tell; noted where it has not."""
        differs = len(self._design(model).columns) > len(self._design(smaller).columns)
        if not differs:
            self.notes.append(f"{model} is not fitted: these rows do not tell it from {smaller}{_SAME.get(model, '.')}")
        return differs

    def _fit(self, model: Model, start: Model | None) -> str | None:
        """Fit one model from the optimum of another; what speaks against it, as the end of a sentence, or None."""
        made = self._design(model)
        trouble = obstacle(self.rows, made)
        if trouble is not None:
            return trouble
        begin = self.solutions.get(start) if start else None
        solution = solve(made.matrix, self.rows.correct, self.groups, begin)
        if solution.trouble is None:
            self.solutions[model] = solution
            self._note_lost(model)
        return solution.trouble

    def _design(self, model: Model) -> Design:
        """The design of a model, made once."""
        if model not in self.designs:
            self.designs[model] = design(self.rows, model)
        return self.designs[model]

    def _note_lost(self, model: Model) -> None:
        """Name the effects that cannot be estimated in this model, except those lost in a smaller one already."""
        before = {column for other, made in self.designs.items() if other != model for column in made.lost}
        lost = [column.name for column in self.designs[model].lost if column not in before]
        if lost:
            reason = _WHY[model].format(reference=self.rows.methods[0])
            self.notes.append(f"{model}: {listed(lost)} cannot be estimated, since {reason}.")

    def _note_boundaries(self) -> None:
        """Name the variances that are estimated at about 0."""
        for term in self.groups:
            models = [
                model
                for model in self.solutions
                for name, value in self._variances(model)
                if name == term and value < BOUNDARY
            ]
            if models:
                self.notes.append(
                    f"The variance of {term} is estimated at about 0, its boundary, in {', '.join(models)}."
                )

    def _variances(self, model: Model) -> list[tuple[str, float]]:
        """Grouping factor and variance."""
        return list(zip(self.groups, self.solutions[model].variances.tolist(), strict=True))

    def _formula(self, model: Model) -> str:
        """The formula in the notation of lme4."""
        terms = ["difficulty"] * (self.rows.z is not None) + ["LLM"] * (len(self.rows.backbones) > 1) + _ADDED[model]
        return "correct ~ " + " + ".join([*(terms or ["1"]), *(f"(1 | {term})" for term in self.groups)])
