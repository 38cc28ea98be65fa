"""Separable CMA-ES with ask and tell, reproducible bit for bit and rebuilt from its seed and fitness history."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trinity.errors import ConfigError, LedgerError

_MIN_POPSIZE = 3
_STREAM = 0x5E9C3A
"""Spawn key of the mutation stream: whatever else draws from the same training seed stays independent of it."""


def default_popsize(n: int) -> int:
    """ceil(4 + 3 ln n): 32 at n = 10,240 and 34 at n = 19,456 (TRINITY, section 3).

    Equation 48 of Hansen's tutorial (arXiv 1604.00772), and pycma, round down instead: 31 and 33.
    """
    return math.ceil(4 + 3 * math.log(n))


class SepCMAES:
    """sep-CMA-ES over `cma`, maximising; one `ask` and one `tell` a generation.

    The algorithm is that of Ros and Hansen, "A Simple Modification in CMA-ES Achieving Linear Time and Space
    Complexity" (PPSN X, 2008), which trains TRINITY's coordinator (section 3 there). In the numbers of Hansen's
    tutorial (arXiv 1604.00772): sampling (40), recombination (41, 42), cumulative step-size adaptation (43, 44),
    evolution path (45) and covariance (47), the last for the diagonal alone and without negative weights, which the
    2008 paper does not have. pycma raises the learning rates for the diagonal case by its own formulas and updates it
    multiplicatively, to first order the same step.

    pycma would take two-point step-size adaptation above 300 dimensions, so the cumulative one is asked for.
    Its termination criteria are never consulted: when to stop is the training loop's business. Nothing is printed or
    written, and numpy's global random state is neither used nor changed.

    Ties: the update depends on the order of the candidates only, and pycma sorts with an unstable sort whose order
    of equals differs between processors. So it is told ranks, and of two equally fit candidates the one asked earlier
    ranks better. Candidates of a generation are independent draws, hence this favours no direction.

    Equal arguments and fitness give equal bytes in any process of one machine; other numpy or pycma versions, or
    another processor, may differ in the last bit, which `catch_up` detects.
    """

    def __init__(
        self,
        n: int,
        *,
        seed: int,
        sigma0: float = 0.03,
        x0: Sequence[float] | NDArray[np.float64] | None = None,
        popsize: int | None = None,
    ) -> None:
        """Start at `x0`.

        Args:
            n: number of parameters.
            seed: of the mutations, >= 0.
            sigma0: initial step size, in units of theta; the default is the released run's.
            x0: initial mean, shape (n,); None = zeros.
            popsize: candidates per generation (lambda); None = `default_popsize(n)`.

        Raises:
            ConfigError: one of them is out of range.
        """
        _check(n, seed, sigma0, popsize)
        self._n, self._seed = n, seed
        self._popsize = default_popsize(n) if popsize is None else popsize
        self._bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
        self._es = self._strategy(_start(n, x0), sigma0)
        self._asked: NDArray[np.float64] | None = None
        self._told: list[NDArray[np.float64]] = []

    def _strategy(self, x0: NDArray[np.float64], sigma0: float) -> Any:
        import cma
        from cma.sigma_adaptation import CMAAdaptSigmaCSA

        generator = np.random.Generator(self._bits)
        options = {
            "popsize": self._popsize,
            "CMA_diagonal": True,
            "CMA_active": False,
            "CMA_mirrors": 0,  # below six candidates pycma would replace draws by mirror images of the last bad ones
            "AdaptSigma": CMAAdaptSigmaCSA,
            "randn": lambda *shape: generator.standard_normal(shape),
            "seed": np.nan,  # pycma's word for: leave numpy's global generator alone
            "conditioncov_alleviate": False,  # would move the scales into a hidden transformation
            "signals_filename": "",  # would read options from a file in the working directory
            "verbose": -10,
            "verb_disp": 0,
            "verb_log": 0,
        }
        return cma.CMAEvolutionStrategy(x0, sigma0, options)

    @property
    def popsize(self) -> int:
        """Candidates per generation (lambda)."""
        return self._popsize

    @property
    def generation(self) -> int:
        """Generations told so far."""
        return len(self._told)

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of the search distribution, shape (n,); a copy."""
        return np.array(self._es.mean, dtype=np.float64)

    @property
    def favourite(self) -> NDArray[np.float64]:
        """The theta to validate and keep, shape (n,): the mean, which averages the noise of single candidates out."""
        return self.mean

    @property
    def sigma(self) -> float:
        """Step size, in units of theta."""
        return float(self._es.sigma)

    @property
    def fitness_history(self) -> NDArray[np.float64]:
        """Fitness as told, shape (generation, popsize); all that `catch_up` needs."""
        return np.array(self._told, dtype=np.float64).reshape(self.generation, self._popsize)

    def ask(self) -> NDArray[np.float64]:
        """Candidates of this generation, shape (popsize, n); equal until `tell`, a copy each time."""
        if self._asked is None:
            self._asked = np.array(self._es.ask(), dtype=np.float64)
        return self._asked.copy()

    def tell(self, fitness: Sequence[float] | NDArray[np.float64]) -> None:
        """Update the distribution with the fitness of the candidates, in the order of `ask`; higher is better.

        Raises:
            ValueError: not one finite number per candidate; nothing is changed.
            RuntimeError: this generation was not asked for yet.
        """
        if self._asked is None:
            raise RuntimeError("tell before ask: this generation has no candidates yet")
        values = self._checked(fitness)
        self._es.tell(list(self._asked), _ranks(values).tolist())
        self._told.append(values)
        self._asked = None

    def _checked(self, fitness: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        values = np.array(fitness, dtype=np.float64)
        if values.shape != (self._popsize,):
            raise ValueError(
                f"fitness has shape {values.shape}, expected one number for each of {self._popsize} candidates"
            )
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(
                f"fitness of candidate {bad[0]} is {values[bad[0]]} ({bad.size} not finite): grade it before telling"
            )
        return values

    def arrays(self) -> dict[str, NDArray[Any]]:
        """State for a checkpoint, as copies.

        `mean`, `diagonal` (of the covariance C, without sigma), `path_sigma`, `path_c`: float64 of shape (n,);
        `sigma`: float64 of shape (1,); `random_state`: uint64 of shape (6,), the words of PCG64.
        """
        return {
            "mean": self.mean,
            "diagonal": np.full(self._n, 1.0) * np.square(self._es.sigma_vec.scaling),
            "path_sigma": np.array(self._es.adapt_sigma.ps, dtype=np.float64),
            "path_c": np.array(self._es.pc, dtype=np.float64),
            "sigma": np.array([self.sigma]),
            "random_state": _words(self._bits.state),
        }

    def catch_up(
        self, fitness_history: Iterable[Sequence[float]] | NDArray[np.float64], expected_mean: NDArray[np.float64]
    ) -> None:
        """Become, from the start, what the optimiser was after `fitness_history`, by playing ask and tell again.

        Args:
            fitness_history: the fitness vector of each generation, shape (generation, popsize).
            expected_mean: the stored mean, shape (n,), to be met bit for bit.

        Raises:
            LedgerError: a stored vector is damaged, or the mean comes out otherwise.
        """
        for generation, fitness in enumerate(fitness_history):
            self.ask()
            try:
                self.tell(fitness)
            except ValueError as error:
                raise LedgerError(
                    f"checkpoint: generation {generation}: {error}; resume from an older checkpoint"
                ) from error
        self._compare(np.asarray(expected_mean, dtype=np.float64))

    def _compare(self, expected: NDArray[np.float64]) -> None:
        if expected.shape == (self._n,) and expected.tobytes() == self.mean.tobytes():
            return
        what = f"shape {expected.shape} instead of ({self._n},)"
        if expected.shape == (self._n,):
            what = f"largest difference {np.max(np.abs(expected - self.mean)):.3g}"
        msg = (
            f"checkpoint: {self.generation} generations replayed from seed {self._seed} do not give the stored mean "
            f"({what}); it is damaged or of another seed, sigma0, x0, popsize, processor, numpy or cma version: "
            "resume with those of its manifest.json"
        )
        raise LedgerError(msg)


def _check(n: int, seed: int, sigma0: float, popsize: int | None) -> None:
    """ConfigError for the first number that is out of range."""
    if n < 1:
        msg = f"sep-CMA-ES: n is {n}, there must be at least one parameter"
    elif seed < 0:
        msg = f"seed is {seed}, it must not be negative"
    elif not (math.isfinite(sigma0) and sigma0 > 0):
        msg = f"optimiser.sigma0 is {sigma0}, it must be a positive number"
    elif popsize is not None and popsize < _MIN_POPSIZE:
        msg = f"optimiser.popsize is {popsize}, it must be at least {_MIN_POPSIZE} (or null for ceil(4 + 3 ln n))"
    else:
        return
    raise ConfigError(msg)


def _start(n: int, x0: Sequence[float] | NDArray[np.float64] | None) -> NDArray[np.float64]:
    """The initial mean, shape (n,); a copy."""
    start = np.zeros(n) if x0 is None else np.array(x0, dtype=np.float64)
    if start.shape != (n,):
        raise ConfigError(f"x0 has shape {start.shape}, expected ({n},)")
    if not np.isfinite(start).all():
        raise ConfigError(f"x0[{np.flatnonzero(~np.isfinite(start))[0]}] is not finite")
    return start


def _ranks(fitness: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 for the best, 1 for the next ...; of equals the earlier is better. Distinct, so no sort can reorder them."""
    ranks = np.empty(len(fitness))
    ranks[np.argsort(-fitness, kind="stable")] = np.arange(len(fitness))
    return ranks


def _words(state: Any) -> NDArray[np.uint64]:
    """State of PCG64 as six words: state and increment (high, low each), the 32-bit buffer's flag and value."""
    low = (1 << 64) - 1
    numbers = (state["state"]["state"], state["state"]["inc"])
    words = [half for number in numbers for half in (number >> 64, number & low)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)
