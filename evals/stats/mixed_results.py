"""What the mixed models say, as frozen objects that turn into JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from evals.stats.mixed_design import Model


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A fixed effect in log-odds, with its standard error."""

    name: str
    estimate: float
    se: float


@dataclass(frozen=True, slots=True)
class Variance:
    """A variance between groups in squared logits; `at_boundary` where it is estimated at about 0."""

    term: str
    estimate: float
    at_boundary: bool


@dataclass(frozen=True, slots=True)
class Fit:
    """One fitted model; `n_parameters` are its fixed effects and variances, AIC = 2 n_parameters - 2 log_lik."""

    model: Model
    formula: str
    n_rows: int
    n_parameters: int
    log_lik: float
    aic: float
    coefficients: tuple[Coefficient, ...]
    variances: tuple[Variance, ...]


@dataclass(frozen=True, slots=True)
class LikelihoodRatio:
    """Test of `smaller` within `larger`: chi2 = 2 (difference of log-likelihoods), `df` fixed effects more."""

    smaller: Model
    larger: Model
    chi2: float
    df: int
    p: float


@dataclass(frozen=True, slots=True)
class OddsRatio:
    """exp(log-odds) against the reference, its 95 % Wald interval, p and Holm's p within its family.

    `backbone` is None for an effect over all of them.
    """

    method: str
    backbone: str | None
    ratio: float
    ci_low: float
    ci_high: float
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class DifficultyModels:
    """What M0 to M3 say of one study.

    Attributes:
        task: the benchmark.
        pool_kind: live, recorded, simulated or scripted.
        reference: the method that the others are compared with; None where nothing is fitted.
        difficulty_kind: human, irt or constructed; None where the models have no difficulty term.
        fits: the models that are identified.
        tests: of M0 in M1, M1 in M2, M1 in M3.
        odds_ratios: M1, methods against the reference.
        slope_ratios: M2, by how much one standard deviation of difficulty multiplies each odds ratio.
        odds_ratios_by_backbone: M3, methods against the reference within each LLM.
        not_identified: one plain sentence for all that is left out, and why.
    """

    task: str
    pool_kind: str
    reference: str | None
    difficulty_kind: str | None
    fits: tuple[Fit, ...]
    tests: tuple[LikelihoodRatio, ...]
    odds_ratios: tuple[OddsRatio, ...]
    slope_ratios: tuple[OddsRatio, ...]
    odds_ratios_by_backbone: tuple[OddsRatio, ...]
    not_identified: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The same as objects, lists and numbers."""
        return asdict(self)
