"""sep-CMA-ES: the published algorithm, reproducible, rebuilt from its fitness history, silent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trinity.errors import ConfigError, LedgerError
from trinity.trainers.sep_cma_es import SepCMAES, default_popsize

Function = Callable[[NDArray[np.float64]], float]


def sphere(x: NDArray[np.float64]) -> float:
    """Squared length."""
    return float(np.sum(x * x))


def ellipsoid(x: NDArray[np.float64]) -> float:
    """Axis-parallel ellipsoid, condition number 1e6."""
    return float(np.sum(1e6 ** (np.arange(len(x)) / (len(x) - 1)) * x * x))


def train(optimiser: SepCMAES, function: Function, generations: int) -> SepCMAES:
    """Minimise `function`, that is, maximise its negative."""
    for _ in range(generations):
        optimiser.tell([-function(x) for x in optimiser.ask()])
    return optimiser


def reference(function: Function, n: int, popsize: int, generations: int) -> tuple[float, float]:
    """Sigma and value of the mean that `cmaes.SepCMA` reaches from ones with sigma 0.5."""
    import cmaes

    other = cmaes.SepCMA(mean=np.ones(n), sigma=0.5, population_size=popsize, seed=1)
    for _ in range(generations):
        candidates = [other.ask() for _ in range(popsize)]
        other.tell([(x, function(x)) for x in candidates])
    return float(other._sigma), function(other.mean)


@pytest.mark.parametrize(("n", "popsize"), [(1, 4), (6, 10), (10_240, 32), (19_456, 34)])
def test_default_popsize(n: int, popsize: int) -> None:
    """Lambda is 4 + 3 ln n rounded up: the paper's 32 and the released run's 34."""
    assert default_popsize(n) == popsize
    assert len(SepCMAES(n, seed=0).ask()) == popsize


def test_sigma_follows_the_published_step_size_rule() -> None:
    """At n = 10,000 sigma after 40 generations is that of an independent sep-CMA-ES; two-point adaptation gives .10."""
    ours = train(SepCMAES(10_000, seed=1, sigma0=0.5, x0=np.ones(10_000), popsize=32), sphere, 40)
    sigma, value = reference(sphere, 10_000, 32, 40)
    assert ours.sigma == pytest.approx(0.482, abs=0.002)
    assert ours.sigma == pytest.approx(sigma, abs=0.002)
    assert sphere(ours.mean) == pytest.approx(value, rel=0.05)


def test_diagonal_learns_the_ellipsoid() -> None:
    """On an ellipsoid it converges like an independent sep-CMA-ES and its diagonal orders the axes by curvature."""
    ours = train(SepCMAES(20, seed=1, sigma0=0.5, x0=np.ones(20), popsize=13), ellipsoid, 600)
    _, value = reference(ellipsoid, 20, 13, 600)
    assert ellipsoid(np.ones(20)) > 1e6
    assert ellipsoid(ours.mean) < 1e-8
    assert value < 1e-8
    curvature = -np.log(ours.arrays()["diagonal"])
    assert np.corrcoef(curvature, np.arange(20))[0, 1] > 0.95


@pytest.mark.parametrize("popsize", [3, 4, 5, 6])
def test_candidates_are_independent_draws(popsize: int) -> None:
    """However few candidates there are, none is a mirror image of another one of its or the last generation."""
    optimiser = SepCMAES(50, seed=2, popsize=popsize)
    before = np.empty((0, 50))
    for _ in range(4):
        steps = np.vstack([optimiser.ask() - optimiser.mean, before])
        assert np.abs(np.corrcoef(steps)[np.triu_indices(len(steps), 1)]).max() < 0.7
        before = steps[:popsize]
        optimiser.tell(np.arange(popsize, dtype=np.float64))


def test_maximises() -> None:
    """Higher fitness is better: the mean climbs a linear slope."""
    optimiser = SepCMAES(5, seed=0)
    for _ in range(10):
        optimiser.tell(optimiser.ask()[:, 2])
    assert optimiser.mean[2] > 0.05
    assert optimiser.favourite.tobytes() == optimiser.mean.tobytes()


def test_first_step_is_weighted_recombination() -> None:
    """The first mean is the better half weighted by ln(lambda/2 + 1/2) - ln(rank) (equations 41, 49)."""
    optimiser = SepCMAES(4, seed=3, popsize=6)
    candidates = optimiser.ask()
    fitness = np.array([0.1, 0.9, 0.4, 0.8, 0.2, 0.3])
    weights = np.log(3.5) - np.log([1, 2, 3])
    optimiser.tell(fitness)
    expected = weights / weights.sum() @ candidates[[1, 3, 2]]
    np.testing.assert_allclose(optimiser.mean, expected, rtol=1e-12)


def test_caller_cannot_change_the_state() -> None:
    """What is handed out are copies: overwriting them changes neither the candidates nor the mean nor the history."""
    touched, untouched = SepCMAES(8, seed=1), SepCMAES(8, seed=1)
    for optimiser in (touched, untouched):
        first = optimiser.ask()
        fitness = [sphere(x) for x in first]
        if optimiser is touched:
            for array in (first, optimiser.mean, optimiser.favourite, *optimiser.arrays().values()):
                array[...] = 7
        optimiser.tell(fitness)
        if optimiser is touched:
            fitness[0] = 99.0
            optimiser.fitness_history[...] = 99
            optimiser.mean[...] = 7
    assert touched.ask().tobytes() == untouched.ask().tobytes()
    assert touched.fitness_history.tobytes() == untouched.fitness_history.tobytes()


def test_ask_is_stable_until_tell() -> None:
    """Asking again gives the same candidates; after telling it gives others."""
    optimiser = SepCMAES(8, seed=1)
    first = optimiser.ask()
    assert optimiser.ask().tobytes() == first.tobytes()
    optimiser.tell(np.arange(float(len(first))))
    assert optimiser.generation == 1
    assert optimiser.ask().tobytes() != first.tobytes()


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_ties_go_to_the_candidate_asked_first(levels: int) -> None:
    """Equal fitness is the same as fitness that falls a little with each candidate, for one, two or three levels."""
    tied, strict = (SepCMAES(30, seed=5, popsize=40) for _ in range(2))
    fitness = np.arange(40.0) % levels
    for _ in range(3):
        tied.ask(), strict.ask()
        tied.tell(fitness)
        strict.tell(fitness - 1e-3 * np.arange(40))
    assert tied.mean.tobytes() == strict.mean.tobytes()


def test_only_the_order_of_fitness_counts() -> None:
    """A strictly increasing transformation of the fitness changes no byte."""
    plain, transformed = SepCMAES(10, seed=2), SepCMAES(10, seed=2)
    train(plain, sphere, 5)
    train(transformed, lambda x: float(np.expm1(1e3 * sphere(x))), 5)
    assert plain.mean.tobytes() == transformed.mean.tobytes()
    assert plain.sigma == transformed.sigma


def test_seeds_differ() -> None:
    """Another seed gives other candidates, and none of them are numpy's own stream of that seed."""
    first, second = SepCMAES(8, seed=1).ask(), SepCMAES(8, seed=2).ask()
    assert not np.any(first == second)
    assert not np.isclose(first[0, 0], 0.03 * np.random.default_rng(1).standard_normal())


def test_numpy_global_random_state_is_neither_used_nor_changed() -> None:
    """Drawing from or reseeding np.random between steps changes nothing, and np.random's state is left as it was."""
    plain, disturbed = SepCMAES(20, seed=4), SepCMAES(20, seed=4)
    train(plain, sphere, 4)
    for step in range(4):
        np.random.seed(step)  # noqa: NPY002
        np.random.standard_normal(step)  # noqa: NPY002
        before = repr(np.random.get_state(legacy=False))  # noqa: NPY002
        key = np.random.get_state(legacy=False)["state"]["key"].tobytes()  # noqa: NPY002
        train(disturbed, sphere, 1)
        assert repr(np.random.get_state(legacy=False)) == before  # noqa: NPY002
        assert np.random.get_state(legacy=False)["state"]["key"].tobytes() == key  # noqa: NPY002
    assert plain.mean.tobytes() == disturbed.mean.tobytes()


def test_never_stops_prints_or_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Flat fitness, a file of pycma signals and hundreds of generations: it goes on, silently, and leaves no file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cma_signals.in").write_text("{'timeout': 0}")
    optimiser = train(SepCMAES(3, seed=0, sigma0=0.5), lambda _: 1.0, 400)
    converged = train(SepCMAES(3, seed=0, sigma0=0.5), sphere, 400)
    assert converged._es.stop(), "the criteria would have fired"
    assert optimiser.generation == converged.generation == 400
    assert np.isfinite(optimiser.mean).all()
    assert [path.name for path in tmp_path.iterdir()] == ["cma_signals.in"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("fitness", "line"),
    [
        ([1.0, 2.0], r"shape \(2,\), expected one number for each of 6"),
        ([[1.0] * 6], r"shape \(1, 6\)"),
        ([1.0, 2.0, float("nan"), 3.0, 4.0, 5.0], "candidate 2 is nan"),
        ([1.0, 2.0, 3.0, 3.0, 4.0, float("-inf")], "candidate 5 is -inf"),
    ],
)
def test_bad_fitness_is_refused_and_changes_nothing(fitness: Any, line: str) -> None:
    """A wrong length, NaN or infinity is a ValueError that says where, and telling can be repeated rightly."""
    optimiser = SepCMAES(4, seed=0, popsize=6)
    candidates = optimiser.ask()
    with pytest.raises(ValueError, match=line):
        optimiser.tell(fitness)
    assert optimiser.generation == 0
    assert optimiser.ask().tobytes() == candidates.tobytes()
    optimiser.tell([1.0] * 6)
    assert optimiser.fitness_history.tolist() == [[1.0] * 6]


def test_tell_needs_candidates() -> None:
    """Telling twice, or before asking, is refused."""
    with pytest.raises(RuntimeError, match="tell before ask"):
        SepCMAES(4, seed=0, popsize=6).tell([1.0] * 6)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"n": 0}, "at least one parameter"),
        ({"seed": -1}, "seed is -1"),
        ({"sigma0": 0.0}, "sigma0 is 0.0"),
        ({"sigma0": float("nan")}, "sigma0 is nan"),
        ({"popsize": 2}, "popsize is 2"),
        ({"x0": [0.0]}, r"x0 has shape \(1,\)"),
        ({"x0": [0.0, float("inf"), 0.0]}, r"x0\[1\] is not finite"),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, Any], line: str) -> None:
    """A number that cannot work is a ConfigError of one line that names it."""
    with pytest.raises(ConfigError, match=line):
        SepCMAES(**{"n": 3, "seed": 0, **arguments})


def test_smallest_population() -> None:
    """Three candidates, the smallest population allowed, are asked, told and learned from."""
    optimiser = train(SepCMAES(2, seed=0, sigma0=0.5, x0=[3.0, 3.0], popsize=3), sphere, 200)
    assert optimiser.fitness_history.shape == (200, 3)
    assert sphere(optimiser.mean) < 1


def test_arrays() -> None:
    """The checkpoint's arrays have the documented shapes, are the state itself, and start at the unit covariance."""
    optimiser = SepCMAES(5, seed=0, sigma0=0.1, x0=np.arange(5.0))
    start = optimiser.arrays()
    assert {name: array.shape for name, array in start.items()} == {
        "mean": (5,), "diagonal": (5,), "path_sigma": (5,), "path_c": (5,), "sigma": (1,), "random_state": (6,),
    }  # fmt: skip
    assert start["mean"].tolist() == [0, 1, 2, 3, 4]
    assert start["diagonal"].tolist() == [1] * 5
    assert start["path_sigma"].tolist() == start["path_c"].tolist() == [0] * 5
    assert start["sigma"].tolist() == [0.1]
    state = np.random.PCG64(np.random.SeedSequence(0, spawn_key=(0x5E9C3A,))).state["state"]
    words = [int(word) for word in start["random_state"]]
    assert (words[0] << 64) + words[1] == state["state"]
    assert (words[2] << 64) + words[3] == state["inc"]
    end = train(optimiser, sphere, 3).arrays()
    assert all(not np.array_equal(start[name], end[name]) for name in start)
    assert end["sigma"][0] == optimiser.sigma


def test_rebuilt_equals_continued() -> None:
    """An optimiser rebuilt from its history goes on with the same bytes as the one that was never interrupted."""
    kept = train(SepCMAES(50, seed=9, sigma0=0.2, x0=np.ones(50), popsize=8), sphere, 7)
    kept.ask()  # a crash after asking: the same candidates come again
    again = SepCMAES(50, seed=9, sigma0=0.2, x0=np.ones(50), popsize=8)
    again.catch_up(kept.fitness_history.tolist(), kept.mean)
    assert again.fitness_history.tobytes() == kept.fitness_history.tobytes()
    assert again.ask().tobytes() == kept.ask().tobytes()
    train(kept, sphere, 5), train(again, sphere, 5)
    for name, array in kept.arrays().items():
        assert array.tobytes() == again.arrays()[name].tobytes(), name


def test_rebuilt_from_nothing() -> None:
    """Before the first generation the history is empty, of shape (0, popsize), and rebuilds to the start."""
    fresh = SepCMAES(6, seed=1)
    assert fresh.fitness_history.shape == (0, fresh.popsize)
    again = SepCMAES(6, seed=1)
    again.catch_up(fresh.fitness_history, fresh.mean)
    assert again.ask().tobytes() == fresh.ask().tobytes()


@pytest.mark.parametrize("change", ["seed", "sigma0", "fitness", "mean", "short", "nan", "dimension"])
def test_rebuild_refuses_another_run(change: str) -> None:
    """A changed seed, step size, fitness or stored mean, by one bit even, is a LedgerError of one line."""
    kept = train(SepCMAES(6, seed=1, popsize=5), sphere, 3)
    history, mean = kept.fitness_history, kept.mean
    arguments: dict[str, Any] = {"seed": 1, "sigma0": 0.03, "popsize": 5}
    if change == "fitness":
        history[1] = history[1, ::-1]
    elif change == "nan":
        history[1, 0] = np.nan
    elif change == "short":
        history = history[:, :4]
    elif change == "mean":
        mean[0] = np.nextafter(mean[0], 1)
    elif change == "dimension":
        mean = mean[:5]
    else:
        arguments[change] *= 2
    with pytest.raises(LedgerError, match=r"^checkpoint: ") as caught:
        SepCMAES(6, **arguments).catch_up(history, mean)
    assert "\n" not in str(caught.value)


def test_rebuilding_the_released_run_takes_seconds() -> None:
    """60 generations of 34 candidates at n = 20,000 replay within 10 s of processor time, hence 15 within 2.5 s."""
    history = np.random.default_rng(0).random((15, 34))
    kept = SepCMAES(20_000, seed=42, popsize=34)
    for fitness in history:
        kept.ask()
        kept.tell(fitness)
    start = time.process_time()
    SepCMAES(20_000, seed=42, popsize=34).catch_up(history, kept.mean)
    assert time.process_time() - start < 2.5


_OTHER_PROCESS = """
import hashlib, sys
import numpy as np
from trinity.trainers.sep_cma_es import SepCMAES
np.random.seed(int(sys.argv[1]))
optimiser = SepCMAES(2000, seed=7)
for _ in range(5):
    optimiser.tell([-float(np.sum((x - 1) ** 2)) for x in optimiser.ask()])
print(hashlib.sha256(optimiser.ask().tobytes() + optimiser.mean.tobytes()).hexdigest())
"""


def test_equal_bytes_in_other_processes() -> None:
    """Processes with other hash seeds, thread counts and global random states find the same thetas, silently."""
    outputs = set()
    for number in ("1", "2"):
        settings = {"PYTHONHASHSEED": number, "OPENBLAS_NUM_THREADS": number, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-W", "error", "-c", _OTHER_PROCESS, number]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert len(outputs.pop()) == 65
