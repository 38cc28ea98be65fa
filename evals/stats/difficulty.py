"""Difficulty: whether it predicts accuracy, and where along it a method gains."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.stats.bootstrap import item_draws
from evals.stats.contrasts import Gains, Row, contrast_row, contrasts
from evals.stats.intervals import RESAMPLES, accuracy_interval, percentile_ends
from evals.stats.study import N_QUARTILES, Study, cells, mean_over, quarters

FEWEST = 3
"""A rank correlation of two items is 1 or -1 whatever they are."""
EXACT = 7
"""Up to this many items a rank correlation is tested over all pairings, 5,040 of them."""
DRAWS = 50_000_000
"""Items drawn for one interval of a rank correlation, unless that were fewer than `FEW_RESAMPLES` resamples."""
FEW_RESAMPLES = 999


def item_accuracy(study: Study) -> NDArray[np.float64]:
    """Mean score of each item over all methods and backbones that were graded on it, shape (n_items,)."""
    scores = study.cube(study.score)
    return mean_over(np.column_stack([scores[cell] for cell in cells(study)]))


def spearman(difficulty: NDArray[np.float64], accuracy: NDArray[np.float64], *, seed: int = 0) -> Row | None:
    """Spearman's rank correlation with its p and a percentile interval over resampled items.

    For up to 7 items p is exact, over every pairing. Where every sample has the same correlation there is no interval.

    9,999 resamples for up to 5,000 items, then as many as `DRAWS` allows, at least 999.

    Args:
        difficulty: shape (n_items,), NaN where unknown; sorted by item.
        accuracy: shape (n_items,), NaN where nothing was graded.
        seed: of the resampling.

    Returns:
        `rho, ci_low, ci_high, p, n_items`; None for fewer than three items, or where either does not vary.
    """
    from scipy.stats import spearmanr

    known = np.isfinite(difficulty) & np.isfinite(accuracy)
    x, y = difficulty[known], accuracy[known]
    if x.size < FEWEST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    found = spearmanr(x, y)
    p = float(found.pvalue) if x.size > EXACT else _exact_p(x, y)
    resamples = min(RESAMPLES, max(FEW_RESAMPLES, DRAWS // x.size))
    samples = _resampled_rho(x, y, np.random.default_rng(seed), resamples)
    low, high = percentile_ends(samples[np.isfinite(samples)])
    ends = {"ci_low": float(low), "ci_high": float(high)} if low < high else {"ci_low": None, "ci_high": None}
    return {"rho": float(found.statistic), **ends, "p": p, "n_items": int(x.size)}


def _exact_p(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Two-sided p of a rank correlation over every pairing of few values, where no approximation holds."""
    from scipy.stats import permutation_test, rankdata

    a, b = rankdata(x) - (x.size + 1) / 2, rankdata(y) - (y.size + 1) / 2

    def strength(pairing: NDArray[np.float64]) -> float:
        return abs(float(pairing @ b))

    found = permutation_test((a,), strength, permutation_type="pairings", n_resamples=np.inf, alternative="greater")
    return float(found.pvalue)


def _resampled_rho(
    x: NDArray[np.float64], y: NDArray[np.float64], generator: np.random.Generator, resamples: int
) -> NDArray[np.float64]:
    """Rank correlations of resampled pairs, shape (resamples,); NaN where all that was drawn is equal."""
    rho = np.full(resamples, np.nan)
    for chunk, counts in item_draws(generator, x.size, resamples):
        a, b = (_centred_ranks(values, counts) for values in (x, y))
        spread = np.sqrt((counts * a * a).sum(axis=1) * (counts * b * b).sum(axis=1))
        np.divide((counts * a * b).sum(axis=1), spread, out=rho[chunk], where=spread > 0)
    return rho


def _centred_ranks(values: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank, less the mean rank, of each of n values that are there `counts` times, shape (resamples, n).

    Equal values share the mean of their ranks. They are counted instead of sorted: the values' order is the same in
    every resample.
    """
    distinct, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(distinct.size))
    sizes = np.add.reduceat(counts[:, order], starts, axis=1)
    return (np.cumsum(sizes, axis=1) - (sizes + values.size) / 2)[:, group]


def quartile_rows(study: Study, *, seed: int = 0) -> list[Row]:
    """Accuracy with its interval of each method and backbone on each quarter of the difficulties (0 the easiest)."""
    scores, replicates, quartile = study.cube(study.score), study.replicates, study.quartile
    rows = []
    for method, backbone in cells(study):
        for place in range(N_QUARTILES):
            kept = (quartile == place) & np.isfinite(scores[method, backbone])
            if kept.any():
                names = {"method": study.methods[method], "backbone": study.backbones[backbone], "quartile": place}
                most = int(replicates[method, backbone][kept].max())
                mean = {"difficulty_mean": float(np.mean(study.difficulty[kept]))}
                rows.append({**names, **mean, **_accuracy(scores[method, backbone][kept], most, seed)})
    return rows


def _accuracy(means: NDArray[np.float64], n_replicates: int, seed: int) -> dict[str, Any]:
    """Accuracy of some items, at least one, with its interval."""
    low, high = accuracy_interval(means, n_replicates, seed=seed) or (None, None)
    return {"n_items": int(means.size), "accuracy": float(np.mean(means)), "ci_low": low, "ci_high": high}


def gain_rows(gain: Gains, *, seed: int = 0) -> list[Row]:
    """Difference of each method to the reference over all its backbones, on each quarter of the difficulties."""
    keys = [(method, place) for method in gain.compared() for place in range(N_QUARTILES)]
    quartile = quarters(gain.difficulty)
    columns = [np.where(quartile == place, gain.pooled(gain.cells_of(method)), np.nan) for method, place in keys]
    found = contrasts(np.column_stack(columns), seed=seed) if columns else []
    rows = []
    for (method, place), contrast in zip(keys, found, strict=True):
        row = contrast_row(contrast)
        kept = {name: row[name] for name in ("n_items", "difference", "ci_low", "ci_high")}
        rows += [{"method": method, "quartile": place, **kept}] if contrast else []
    return rows
