"""How small a difference a comparison of this size can detect."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

POWER = 0.8
"""With which differences are to be found."""
EFFECTS = (0.01, 0.02, 0.05)
"""Differences for which the number of items needed is told."""
_FEWEST = 2
"""Items that have a spread."""
_ROUNDING = 1e-12
"""Scores that were added in another order differ by less."""


class Detectable(NamedTuple):
    """What a paired comparison of `n_items` items could find.

    `difference` is the smallest one, None with a `reason`; `items_needed` how many items each of `EFFECTS` takes.
    """

    n_items: int
    difference: float | None
    reason: str | None
    items_needed: dict[str, int | None]


def detectable(differences: NDArray[np.float64]) -> Detectable:
    """What n paired items with the spread of these differences find with power .8 (two-sided 5 %).

    Args:
        differences: shape (n,), NaN where an item was not graded for both.
    """
    values = differences[np.isfinite(differences)]
    nothing = dict.fromkeys(map(str, EFFECTS))
    if values.size < _FEWEST:
        return Detectable(values.size, None, "fewer than two items are graded for both", nothing)
    if np.ptp(values) < _ROUNDING:
        return Detectable(values.size, None, "they differ by the same on every item", nothing)
    sd = float(np.std(values, ddof=1))
    needed = {str(effect): items_needed(effect, sd=sd) for effect in EFFECTS}
    return Detectable(values.size, minimum_detectable_difference(values.size, sd=sd), None, needed)


def minimum_detectable_difference(
    n: int,
    *,
    sd: float | None = None,
    discordance: float | None = None,
    power: float = POWER,
    alpha: float = 0.05,
) -> float | None:
    """Smallest true mean difference that a two-sided paired t-test on `n` items finds with probability `power`.

    Solved with the noncentral t distribution (Cohen 1988, Statistical Power Analysis, chapter 2); for large n it is
    (z_{1 - alpha/2} + z_power) x sd / sqrt(n), that is 2.80 sd / sqrt(n) at the defaults.

    Give one of:
        sd: standard deviation of the items' differences, as measured.
        discordance: share of items on which two 0/1 methods differ. The variance of their difference is discordance
            minus the squared difference; the square is left out, which errs on the side of a larger result. Two
            unrelated methods of accuracy p have 2 p (1 - p).

    Returns:
        The difference in the units of `sd`; above 1 for scores in [0, 1] it means that no difference can be found.
        None when n < 2, or when the spread is 0: items that never differed say nothing about the spread to expect.

    Raises:
        ValueError: neither or both of `sd` and `discordance` are given, or an argument is out of range.
    """
    spread = _spread(sd, discordance)
    _check(power, alpha)
    if n < _FEWEST or spread == 0:
        return None
    return _noncentrality(n - 1, power, alpha) / math.sqrt(n) * spread


def items_needed(
    difference: float,
    *,
    sd: float | None = None,
    discordance: float | None = None,
    power: float = POWER,
    alpha: float = 0.05,
) -> int | None:
    """The fewest items with which a two-sided paired t-test finds a true mean `difference` with probability `power`.

    The inverse of `minimum_detectable_difference`, whose arguments the others are.

    Returns:
        The number, at least 2; None when the spread is 0.

    Raises:
        ValueError: `difference` is not positive, or as for `minimum_detectable_difference`.
    """
    if not (math.isfinite(difference) and difference > 0):
        raise ValueError(f"difference is {difference}, expected a number > 0")
    _check(power, alpha)
    spread = _spread(sd, discordance)
    if spread == 0:
        return None

    def detects(n: int) -> bool:
        least = minimum_detectable_difference(n, sd=spread, power=power, alpha=alpha)
        return least is not None and least <= difference

    low, step = _too_few(spread / difference, power, alpha), 4
    while detects(low):
        low //= 2
    while not detects(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if detects(middle) else (middle, high)
    return high


def _too_few(ratio: float, power: float, alpha: float) -> int:
    """A little fewer items than a normal distribution needs, at least 1: Student's needs more.

    `ratio` is the standard deviation over the difference.
    """
    from scipy.special import ndtri

    return max(1, int(((ndtri(1 - alpha / 2) + ndtri(power)) * ratio) ** 2) - 1)


def _noncentrality(df: int, power: float, alpha: float) -> float:
    """Mean over standard error at which a two-sided t-test with `df` degrees of freedom has that power, by bisection.

    The power grows with it from alpha to 1, so that there is one root; it is found to the last bit.
    """
    from scipy.special import nctdtr, stdtrit

    edge = -stdtrit(df, alpha / 2)

    def too_small(mean: float) -> bool:
        lower = float(nctdtr(df, mean, -edge))
        # It may be NaN where it is below 1e-13, the probability that a normal variable is below -7.5 and less.
        return float(nctdtr(df, mean, edge)) - (0.0 if math.isnan(lower) else lower) > 1 - power

    low, high = 0.0, 1.0
    while too_small(high):
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return high


def _check(power: float, alpha: float) -> None:
    """ValueError for a test that cannot be."""
    if not (0 < alpha < 1 and alpha < power < 1):
        raise ValueError(f"alpha is {alpha} and power {power}, expected 0 < alpha < power < 1")


def _spread(sd: float | None, discordance: float | None) -> float:
    """The standard deviation of differences that was given, one way or the other."""
    if (sd is None) == (discordance is None):
        raise ValueError("give either sd or discordance")
    if discordance is not None:
        if not 0 <= discordance <= 1:
            raise ValueError(f"discordance is {discordance}, expected a share between 0 and 1")
        return math.sqrt(discordance)
    if sd is None or not (math.isfinite(sd) and sd >= 0):
        raise ValueError(f"sd is {sd}, expected a number >= 0")
    return sd
