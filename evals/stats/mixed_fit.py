"""Maximum likelihood of one logistic mixed model, by gpboost."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trinity.errors import ConfigError

BOUNDARY = 1e-3
"""A variance below it (squared logits) counts as estimated at its boundary, 0."""

_FLOOR = 1e-2
_MOST = 30.0
"""Logits: a standard deviation between groups or a standard error beyond it is on its way to infinity."""

_OPTIONS = {
    "delta_rel_conv": 1e-10,
    "maxit": 5000,
    # A line search that fails is started again from where it stood, until nothing more is gained.
    "max_num_restarts_lbfgs": 3,
    "cold_restart_lbfgs": False,
}
_STATUS = {1: "the optimiser reached its limit of iterations", 2: "the optimiser's line search failed"}


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Where the likelihood has its maximum.

    Attributes:
        log_lik: Laplace approximation of the marginal log-likelihood.
        coef: shape (p,), log-odds.
        se: shape (p,).
        variances: shape (q,), one per grouping factor, in squared logits.
        trouble: why the numbers cannot be used, or None.
    """

    log_lik: float
    coef: NDArray[np.float64]
    se: NDArray[np.float64]
    variances: NDArray[np.float64]
    trouble: str | None


def require_gpboost() -> None:
    """ConfigError where gpboost is not installed, or cannot load its own library."""
    try:
        import gpboost
    except (ImportError, OSError) as error:
        raise ConfigError(f"mixed models need gpboost: pip install 'trinity-suite[stats]' ({error})") from error
    # It prints its log to stdout otherwise.
    gpboost.register_logger(logging.getLogger("gpboost"))


def solve(
    matrix: NDArray[np.float64],
    correct: NDArray[np.bool_],
    groups: Mapping[str, NDArray[np.intp]],
    start: Solution | None = None,
) -> Solution:
    """Fit P(correct) = logistic(matrix @ coef + sum of a normal effect per group of each factor).

    Laplace approximation with exact (Cholesky) matrix algebra; gpboost's default is iterative and stochastic. One
    thread: with more of them models of this size take longer.

    Args:
        matrix: shape (n, p), of full rank, with the column of ones.
        correct: shape (n,).
        groups: grouping factor to codes of shape (n,).
        start: solution of a model whose columns are the first of `matrix`, to begin from.
    """
    from gpboost import GPModel
    from gpboost.basic import GPBoostError

    model = GPModel(
        group_data=np.column_stack(list(groups.values())),
        likelihood="bernoulli_logit",
        matrix_inversion_method="cholesky",
        num_parallel_threads=1,
    )
    try:
        model.fit(correct.astype(np.float64), matrix, params={**_OPTIONS, **_started(start, matrix.shape[1])})
        coef, se = model.get_coef(std_err=True, format_pandas=False)
        variances = np.asarray(model.get_cov_pars(std_err=False, format_pandas=False), dtype=np.float64).ravel()
    except GPBoostError as error:
        nothing = np.full(matrix.shape[1], np.nan)
        return Solution(np.nan, nothing, nothing, np.full(len(groups), np.nan), f"gpboost failed: {error}")
    solution = Solution(-float(model.get_current_neg_log_likelihood()), coef, se, variances, None)
    # gpboost says it nowhere else but in a printed summary.
    status = _STATUS.get(model._get_convergence_status())  # noqa: SLF001
    return _with_trouble(solution, status)


def _started(start: Solution | None, size: int) -> dict[str, NDArray[np.float64]]:
    """Options that begin the fit at another model's optimum: the added columns at 0, no variance where it vanishes."""
    if start is None or start.trouble:
        return {}
    coef = np.concatenate([start.coef, np.zeros(size - start.coef.size)])
    return {"init_coef": coef, "init_cov_pars": np.maximum(start.variances, _FLOOR)}


def _with_trouble(solution: Solution, status: str | None) -> Solution:
    """The solution with what makes it unusable: no convergence, numbers that are not finite, or run away."""
    numbers = np.concatenate([solution.coef, solution.se, solution.variances, [solution.log_lik]])
    trouble = status
    if not np.isfinite(numbers).all() or (solution.se <= 0).any():
        trouble = "its estimates or standard errors are not finite"
    elif max(np.sqrt(solution.variances.max()), solution.se.max()) > _MOST:
        trouble = "its estimates run away to infinity"
    return Solution(solution.log_lik, solution.coef, solution.se, solution.variances, trouble)
