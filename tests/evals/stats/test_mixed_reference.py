"""The mixed models against R's on the same answers, and against the truth they were simulated with."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

from evals.stats.mixed import DifficultyModels, difficulty_models
from tests.evals.stats.reference import calibration, compute, shared_samples
from tests.evals.stats.reference.simulated import METHODS, STUDIES, fingerprint, simulated

REFERENCE: dict[str, Any] = json.loads(compute.REFERENCE.read_text("utf-8"))
RAN = [
    (name, engine, model)
    for name, stored in REFERENCE.items()
    for engine, fits in stored["fits"].items()
    for model in fits["models"]
]


@cache
def models_of(name: str) -> DifficultyModels:
    """Our models of a stored study, fitted once."""
    return difficulty_models(STUDIES[name](), reference=METHODS[0])


@pytest.mark.parametrize("name", STUDIES)
def test_studies_are_those_that_r_saw(name: str) -> None:
    """The studies made from their seeds are the ones behind the stored estimates."""
    study = STUDIES[name]()
    assert study.correct.size == REFERENCE[name]["rows"] == {"small": 4000, "large": 25000}[name]
    assert fingerprint(study) == REFERENCE[name]["fingerprint"]


@pytest.mark.parametrize(("name", "engine", "model"), RAN)
def test_models_are_those_of_r(name: str, engine: str, model: str) -> None:
    """Log-likelihood within .05 of R's, effects within 1 % (of .1 where smaller), standard errors within 5 %."""
    theirs = REFERENCE[name]["fits"][engine]["models"][model]
    (ours,) = (fit for fit in models_of(name).fits if fit.model == model)
    found = compute.agreement(ours, theirs)
    assert abs(found["log_lik"]) <= 0.05
    assert found["coefficients"] <= 0.01
    assert found["se"] <= 0.05
    assert found["variances"] <= 0.01
    assert ours.n_parameters == theirs["n_parameters"]
    assert ours.aic == pytest.approx(2 * theirs["n_parameters"] - 2 * theirs["log_lik"], abs=0.1)


@pytest.mark.parametrize("name", STUDIES)
def test_every_model_was_fitted_by_r(name: str) -> None:
    """Values of glmmTMB are there for all four models of both sizes, lme4's for M0 and M1 at least."""
    fits = REFERENCE[name]["fits"]
    assert set(fits["glmmTMB"]["models"]) == {"M0", "M1", "M2", "M3"}
    assert set(fits["glmer"]["models"]) >= {"M0", "M1"}
    assert models_of(name).not_identified == ()


def test_likelihood_ratio_tests_are_those_of_r() -> None:
    """Chi-square within .05 of lme4's, with 3, 3 and 12 degrees of freedom as five LLMs and four methods give."""
    from scipy.stats import chi2

    theirs = REFERENCE["small"]["fits"]["glmer"]["models"]
    found = models_of("small").tests
    assert [(test.smaller, test.larger, test.df) for test in found] == [
        ("M0", "M1", 3),
        ("M1", "M2", 3),
        ("M1", "M3", 12),
    ]
    for test in found:
        expected = 2 * (theirs[test.larger]["log_lik"] - theirs[test.smaller]["log_lik"])
        assert test.chi2 == pytest.approx(expected, abs=0.05)
        assert test.p == pytest.approx(chi2.sf(test.chi2, test.df))


def test_odds_ratios_follow_from_the_estimates_of_r() -> None:
    """Odds ratios, Wald's 95 % intervals, p and Holm's p are what glmmTMB's log-odds and errors give by hand."""
    theirs = REFERENCE["small"]["fits"]["glmmTMB"]["models"]["M1"]
    found = {one.method: one for one in models_of("small").odds_ratios}
    p = {}
    for method, one in found.items():
        value, error = theirs["coefficients"][f"method{method}"], theirs["se"][f"method{method}"]
        assert one.ratio == pytest.approx(math.exp(value), rel=1e-3)
        assert one.ci_low == pytest.approx(math.exp(value - 1.959964 * error), rel=2e-3)
        assert one.ci_high == pytest.approx(math.exp(value + 1.959964 * error), rel=2e-3)
        p[method] = math.erfc(abs(value / error) / math.sqrt(2))
        assert one.p == pytest.approx(p[method], rel=0.2)
        assert one.backbone is None
    largest = 0.0
    for rank, method in enumerate(sorted(p, key=lambda name: p[name])):
        largest = max(largest, (len(p) - rank) * p[method])
        assert found[method].p_holm == pytest.approx(min(1.0, largest), rel=0.2)
    assert list(found) == list(METHODS[1:4])


@pytest.mark.skipif(compute.missing() is not None, reason=str(compute.missing()))
def test_r_agrees_here_and_now() -> None:
    """R on this machine gives what gpboost gives for a study of 60 items that is stored nowhere."""
    study = simulated((60,), 60)
    theirs = compute.fit_with_r(study, "glmmTMB", ["M1"])["models"]["M1"]
    ours = {fit.model: fit for fit in difficulty_models(study, reference=METHODS[0]).fits}
    found = compute.agreement(ours["M1"], theirs)
    assert abs(found["log_lik"]) <= 0.05
    assert found["coefficients"] <= 0.01
    assert found["se"] <= 0.05


@pytest.mark.parametrize("number", range(5))
def test_calibration_can_be_repeated(number: int) -> None:
    """The first five simulated studies give the stored estimates again."""
    stored = calibration.stored()["effects"][number]
    found = calibration.outcome("effects", number)
    for key in ("log_odds", "se", "variances"):
        assert found[key] == pytest.approx(stored[key], abs=2e-3), key
    assert found["p"] == pytest.approx(stored["p"], abs=2e-3)


def test_calibration_says_what_its_studies_say() -> None:
    """The stored summary is that of the stored studies, 200 of each kind."""
    studies = calibration.stored()
    assert {kind: len(done) for kind, done in studies.items()} == {"effects": 200, "no_effects": 200}
    assert calibration.summary(studies) == json.loads(calibration.SUMMARY.read_text("utf-8"))


def test_intervals_and_tests_keep_their_promise() -> None:
    """Coverage and errors of the first kind over the simulated studies lie within their binomial bands."""
    summary = json.loads(calibration.SUMMARY.read_text("utf-8"))
    for one in (*summary["coverage"].values(), *summary["rejected"].values()):
        assert one["inside"] is (one["band"][0] <= one["value"] <= one["band"][1])
        assert one["inside"], one


@pytest.mark.parametrize("kind", shared_samples.KINDS)
def test_shared_samples_can_be_repeated(kind: str) -> None:
    """The first study gives the stored estimates again, and the stored summary is that of the stored 100 studies."""
    stored = json.loads(shared_samples.RESULT.read_text("utf-8"))
    found = shared_samples.outcome(0, shared=shared_samples.KINDS[kind])
    for key, values in stored["studies"][kind][0].items():
        assert found[key] == pytest.approx(values, abs=2e-3), key
    assert len(stored["studies"][kind]) == shared_samples.N_STUDIES
    assert shared_samples.summary(stored["studies"][kind]) == stored["summary"][kind]


def test_shared_samples_harm_the_models_alone() -> None:
    """With shared samples M0 is rejected too often and errors miss the true spread; paired differences stay at zero."""
    found = json.loads(shared_samples.RESULT.read_text("utf-8"))["summary"]
    low, high = binom.interval(0.95, shared_samples.N_STUDIES, shared_samples.LEVEL)
    assert low <= found["own"]["rejected"] * shared_samples.N_STUDIES <= high < 100 * found["shared"]["rejected"]
    errors = found["shared"]["se_over_spread"]
    assert errors["refine"] > 1.3
    assert errors["debate"] < 1
    assert all(abs(one) < 0.01 for one in found["shared"]["mean_difference"].values())


def test_an_interrupted_calibration_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies that are done are not fitted again, and half a line is done over."""
    monkeypatch.setattr(calibration, "STUDIES", tmp_path / "studies.jsonl")
    monkeypatch.setattr(calibration, "SUMMARY", tmp_path / "summary.json")
    asked: list[tuple[str, int]] = []

    def fake(kind: str, number: int) -> calibration.Outcome:
        asked.append((kind, number))
        p = {"M0-M1": 0.5, "M1-M2": 0.01, "M1-M3": 0.9}
        return {"log_odds": [0.6, 0.6, 0.0], "se": [0.1, 0.1, 0.1], "variances": [1.0, 2.0], "p": p}

    monkeypatch.setattr(calibration, "outcome", fake)
    calibration.main(1)
    with calibration.STUDIES.open("a", encoding="utf-8") as file:
        file.write('{"kind": "effects", "log_o')
    calibration.main(2)
    assert asked == [("effects", 0), ("no_effects", 0), ("effects", 1), ("no_effects", 1)]
    summary = json.loads(calibration.SUMMARY.read_text("utf-8"))
    assert summary["coverage"]["refine"]["value"] == summary["coverage"]["best_of_n"]["value"] == 1
    assert summary["coverage"]["debate"]["value"] == 0
    assert [one["value"] for one in summary["rejected"].values()] == [0, 1, 0, 1, 0]
    assert {kind: len(done) for kind, done in calibration.stored().items()} == {"effects": 2, "no_effects": 2}


def test_bands_are_binomial() -> None:
    """Of 200 intervals of 95 %, P(183 or fewer hold) = .0238 and P(184 or fewer) = .0444, so that 184 is inside."""
    assert calibration.share([True] * 184 + [False] * 16, 0.95)["inside"]
    assert not calibration.share([True] * 183 + [False] * 17, 0.95)["inside"]
    assert calibration.share([True] * 16 + [False] * 184, 0.05)["inside"]
    assert not calibration.share([True] * 17 + [False] * 183, 0.05)["inside"]
    assert calibration.share([True] * 16 + [False] * 184, 0.05)["band"] == [4 / 200, 16 / 200]
