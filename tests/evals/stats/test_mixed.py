"""What the mixed models leave out, and that they say so: nothing that cannot be identified is printed."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from evals.stats import mixed_fit
from evals.stats.mixed import DifficultyModels, _Fitted, difficulty_models, try_difficulty_models
from evals.stats.mixed_design import Column, Model, corners, design, obstacle, separates
from evals.stats.mixed_results import Coefficient, Fit, LikelihoodRatio, OddsRatio, Variance
from evals.stats.mixed_rows import Rows, listed, random_terms, rows_of
from evals.stats.study import Study
from tests.evals.stats.making import make_study
from tests.evals.stats.reference.simulated import simulated
from trinity.errors import ConfigError

STUDY = simulated((7,), 60, (0.0, 0.6, 0.3))
COT, REFINE, BEST = (STUDY.method == number for number in range(3))
ASH = STUDY.backbone == 0


def part(study: Study, rows: NDArray[np.bool_]) -> Study:
    """Some rows of a study, under the same names."""
    names = ("method", "backbone", "item", "score", "correct", "truncated")
    return replace(study, **{name: getattr(study, name)[rows] for name in names})


def with_outcome(study: Study, rows: NDArray[np.bool_], outcome: bool) -> Study:
    """The same answers, some of them all right or all wrong."""
    return replace(study, correct=np.where(rows, outcome, study.correct))


def fitted(models: DifficultyModels) -> list[str]:
    """Names of the models that were fitted."""
    return [fit.model for fit in models.fits]


NO_DIFFICULTY = "the models have no difficulty term, and M2 is not fitted."
SEPARATED = "a combination of its effects separates right from wrong answers, so that they have no finite estimates."
INFINITE = (
    "is not identified, and no model is fitted: each has only right or only wrong answers, "
    "so that the variance between them is infinite."
)


def is_left_out(what: str, answers: int, outcome: str) -> str:
    """The sentence on a method or LLM whose answers are all alike."""
    return (
        f"The {what} is left out of the models: all its {answers} answers are {outcome}, which has no finite log-odds."
    )


def stands_in(chosen: str, reference: str) -> str:
    """The sentence on a reference that is not there."""
    return f"The reference {reference} is not among the methods of the models: {chosen} stands in its place."


def refused(models: DifficultyModels) -> str:
    """The last sentence of a study without any model."""
    assert (models.fits, models.tests, models.odds_ratios) == ((), (), ())
    assert models.reference is None
    assert models.not_identified
    return models.not_identified[-1]


def coefficients(models: DifficultyModels, model: str) -> dict[str, float]:
    """Estimates of one model."""
    (fit,) = (fit for fit in models.fits if fit.model == model)
    return {one.name: one.estimate for one in fit.coefficients}


def test_a_full_study_has_all_models() -> None:
    """With several methods, LLMs and known difficulty nothing is left out, and the result is JSON."""
    models = difficulty_models(STUDY, reference="cot")
    assert models.not_identified == ()
    assert fitted(models) == ["M0", "M1", "M2", "M3"]
    assert models.fits[0].formula == "correct ~ difficulty + LLM + (1 | item) + (1 | item:LLM)"
    assert models.fits[2].formula.startswith("correct ~ difficulty + LLM + method + method:difficulty + (1 | item)")
    assert [one.method for one in models.slope_ratios] == ["refine", "best_of_n"]
    assert [(one.method, one.backbone) for one in models.odds_ratios_by_backbone[:3]] == [
        ("refine", "ash"),
        ("best_of_n", "ash"),
        ("refine", "beech"),
    ]
    again = json.loads(json.dumps(models.to_json(), allow_nan=False))
    assert again["tests"][0]["smaller"] == "M0"
    assert again["fits"][1]["coefficients"][0]["name"] == "intercept"
    assert again["difficulty_kind"] == "irt"


def test_another_reference_turns_the_odds_ratio_around() -> None:
    """The tests do not depend on the reference, and the odds ratio of two methods becomes its inverse."""
    one, other = difficulty_models(STUDY, reference="cot"), difficulty_models(STUDY, reference="refine")
    assert other.reference == "refine"
    assert [test.chi2 for test in other.tests] == pytest.approx([test.chi2 for test in one.tests], abs=1e-3)
    ratio = {found.method: found.ratio for found in one.odds_ratios}
    turned = {found.method: found.ratio for found in other.odds_ratios}
    assert ratio["refine"] * turned["cot"] == pytest.approx(1, rel=1e-3)
    assert turned["best_of_n"] == pytest.approx(ratio["best_of_n"] / ratio["refine"], rel=1e-3)


def test_the_order_of_rows_does_not_matter() -> None:
    """Shuffled rows give the same likelihood and effects."""
    order = np.random.default_rng(0).permutation(STUDY.correct.size)
    names = ("method", "backbone", "item", "score", "correct", "truncated")
    shuffled = replace(STUDY, **{name: getattr(STUDY, name)[order] for name in names})
    one, other = difficulty_models(STUDY), difficulty_models(shuffled)
    assert [fit.log_lik for fit in other.fits] == pytest.approx([fit.log_lik for fit in one.fits], abs=1e-4)
    assert coefficients(other, "M1") == pytest.approx(coefficients(one, "M1"), abs=1e-3)


def test_an_unknown_reference_is_replaced_and_named() -> None:
    """A reference without rows gives way to the method of most LLMs."""
    models = difficulty_models(part(STUDY, ~(COT & ASH)), reference="best_single")
    assert models.reference == "refine"
    assert models.not_identified[0] == stands_in("refine", "best_single")


def test_one_answer_per_item_and_llm_has_no_pair_term() -> None:
    """With one method and no replicates (1 | item:LLM) is out of the formula, and there is no method to test."""
    models = difficulty_models(part(STUDY, COT))
    assert fitted(models) == ["M0"]
    assert models.fits[0].formula == "correct ~ difficulty + LLM + (1 | item)"
    assert models.fits[0].n_parameters == 7
    assert models.not_identified == (
        "(1 | item:LLM) is left out: 0 pairs of item and LLM have several answers, 10 are needed.",
        "There is one method (cot): M1, M2 and M3 are not fitted.",
    )


def test_one_llm_has_no_llm_terms() -> None:
    """One backbone: no LLM effect, no pair term, no M3; M0 to M2 stand."""
    models = difficulty_models(part(STUDY, ASH), reference="cot")
    assert fitted(models) == ["M0", "M1", "M2"]
    assert models.fits[1].formula == "correct ~ difficulty + method + (1 | item)"
    assert models.not_identified == ("There is one LLM (ash): no LLM effect, no (1 | item:LLM), and M3 is not fitted.",)
    assert [(test.smaller, test.larger) for test in models.tests] == [("M0", "M1"), ("M1", "M2")]
    assert models.odds_ratios_by_backbone == ()


def test_items_with_one_llm_each_have_no_pair_term() -> None:
    """Where each item met one LLM, item and item:LLM are the same groups."""
    models = difficulty_models(part(STUDY, STUDY.item % 5 == STUDY.backbone))
    assert models.not_identified == (
        "(1 | item:LLM) is left out: each item has one LLM, so that it is the same as (1 | item).",
    )
    assert models.fits[0].formula.endswith("(1 | item)")


def test_unknown_difficulty_is_out_of_the_models() -> None:
    """Without difficulties there is no difficulty term and no M2."""
    nowhere = replace(STUDY, difficulty=np.full(60, np.nan), difficulty_kind=None)
    models = difficulty_models(nowhere)
    assert fitted(models) == ["M0", "M1", "M3"]
    assert models.difficulty_kind is None
    assert "difficulty" not in models.fits[0].formula
    assert models.not_identified == (f"Difficulty is known for 0 of 60 items: {NO_DIFFICULTY}",)


def test_items_without_difficulty_are_left_out() -> None:
    """Where most difficulties are known the other items go, and their number is said."""
    some = replace(STUDY, difficulty=np.where(np.arange(60) < 10, np.nan, STUDY.difficulty))
    models = difficulty_models(some)
    assert models.fits[0].n_rows == 50 * 5 * 3
    assert models.not_identified == ("10 items without a known difficulty are left out of the models.",)


def test_constant_difficulty_is_out_of_the_models() -> None:
    """Items of equal difficulty identify no slope."""
    models = difficulty_models(replace(STUDY, difficulty=np.full(60, 3.0)))
    assert fitted(models) == ["M0", "M1", "M3"]
    assert models.not_identified == (f"All items are equally difficult: {NO_DIFFICULTY}",)


@pytest.mark.parametrize(("outcome", "word"), [(True, "right"), (False, "wrong")])
def test_all_answers_alike_fit_nothing(outcome: bool, word: str) -> None:
    """All right or all wrong: one clear line."""
    models = difficulty_models(with_outcome(STUDY, np.ones(900, dtype=np.bool_), outcome))
    assert refused(models) == f"All 900 answers are {word}: no model has a finite estimate."


def test_an_empty_study_fits_nothing() -> None:
    """No graded answer: one clear line."""
    models = difficulty_models(part(STUDY, np.zeros(900, dtype=np.bool_)))
    assert refused(models) == models.not_identified[0] == "There are no graded answers: no model is fitted."


def test_one_item_fits_nothing() -> None:
    """One item has no variance between items."""
    models = difficulty_models(part(STUDY, STUDY.item == np.argmin(np.abs(STUDY.z))))
    assert models.not_identified == (
        "1 of 1 items have several answers, 10 are needed for (1 | item): no model is fitted.",
    )
    assert refused(models) == models.not_identified[0]


def test_items_with_a_single_answer_fit_nothing() -> None:
    """Where each item was answered once, items cannot be told from chance."""
    once = COT & (STUDY.item % 5 == STUDY.backbone)
    assert refused(difficulty_models(part(STUDY, once))).startswith("0 of 60 items have several answers, 10 are needed")


def test_items_that_are_few_once_others_are_gone_fit_nothing() -> None:
    """Ten items of which two have no known difficulty leave eight, which are too few."""
    few = part(STUDY, STUDY.item < 10)
    models = difficulty_models(replace(few, difficulty=np.where(np.arange(60) < 2, np.nan, STUDY.difficulty)))
    assert refused(models) == (
        "(1 | item) is not identified, and no model is fitted: 8 of 8 have several answers, 10 are needed."
    )


def test_items_that_decide_alone_fit_nothing() -> None:
    """Each item all right or all wrong: the variance between items is infinite, and that is said."""
    models = difficulty_models(replace(STUDY, correct=STUDY.item % 2 == 0))
    assert refused(models) == f"(1 | item) {INFINITE}"


def test_identical_replicates_fit_nothing() -> None:
    """Answers that are the same for all methods of an item and LLM have an infinite variance between pairs."""
    copied = STUDY.correct[COT][(STUDY.backbone * 60 + STUDY.item)]
    models = difficulty_models(replace(STUDY, correct=copied))
    assert refused(models) == f"(1 | item:LLM) {INFINITE}"


@pytest.mark.parametrize("outcome", [True, False])
def test_a_separated_method_is_left_out(outcome: bool) -> None:
    """A method without any wrong (or right) answer is named; the others are as if it had never run."""
    models = difficulty_models(with_outcome(STUDY, BEST, outcome), reference="cot")
    word = "right" if outcome else "wrong"
    assert models.not_identified == (is_left_out("method best_of_n", 300, word),)
    without = difficulty_models(part(STUDY, ~BEST), reference="cot")
    assert [fit.log_lik for fit in models.fits] == [fit.log_lik for fit in without.fits]
    assert models.odds_ratios == without.odds_ratios


def test_a_separated_llm_is_left_out() -> None:
    """The same for an LLM."""
    models = difficulty_models(with_outcome(STUDY, ASH, False), reference="cot")
    assert models.not_identified == (is_left_out("LLM ash", 180, "wrong"),)
    assert not any("ash" in (one.backbone or "") for one in models.odds_ratios_by_backbone)
    assert fitted(models) == ["M0", "M1", "M2", "M3"]


def test_a_separated_reference_is_replaced() -> None:
    """Odds ratios against a method that is always right do not exist: another one is taken, and both are named."""
    models = difficulty_models(with_outcome(STUDY, COT, True), reference="cot")
    assert models.reference == "refine"
    assert models.not_identified == (is_left_out("method cot", 300, "right"), stands_in("refine", "cot"))


def test_only_separated_methods_fit_nothing() -> None:
    """One method always right and one always wrong leave nothing to fit."""
    two = with_outcome(with_outcome(part(STUDY, ~BEST), COT[~BEST], True), REFINE[~BEST], False)
    assert refused(difficulty_models(two)) == (
        "No method or LLM with both right and wrong answers is left: no model is fitted."
    )


def test_a_separated_cell_takes_m3_away() -> None:
    """One method that is always right with one LLM leaves M0 to M2, and M3 names the place."""
    models = difficulty_models(with_outcome(STUDY, BEST & ASH, True), reference="cot")
    assert fitted(models) == ["M0", "M1", "M2"]
    assert models.not_identified == (
        "M3: no usable fit, since all answers are right or all are wrong for best_of_n on ash.",
    )


def test_effects_that_separate_are_named_in_one_line() -> None:
    """Where difficulty and method together tell right from wrong M1 and M2 have no finite estimate; M0 stands."""
    z = STUDY.z[STUDY.item]
    models = difficulty_models(part(replace(STUDY, correct=(z < -0.3) | (REFINE & (z < 0.3))), ASH))
    assert fitted(models) == ["M0"]
    assert models.not_identified == (
        "There is one LLM (ash): no LLM effect, no (1 | item:LLM), and M3 is not fitted.",
        f"M1, M2: no usable fit, since {SEPARATED}",
        "The variance of item is estimated at about 0, its boundary, in M0.",
    )


def test_a_method_whose_difficulty_separates_takes_m2_away() -> None:
    """One method that is right exactly up to a difficulty has no finite slope; M1 stands."""
    easy = STUDY.z[STUDY.item] < 0
    models = difficulty_models(replace(STUDY, correct=np.where(BEST, easy, STUDY.correct)), reference="cot")
    assert "M1" in fitted(models)
    assert "M2" not in fitted(models)
    assert f"M2: no usable fit, since {SEPARATED}" in models.not_identified


def test_too_few_answers_of_one_kind_are_named() -> None:
    """One wrong answer per method and LLM, fifteen in all, are too few for the 16 effects of M3."""
    wrong = STUDY.item == 7 * STUDY.backbone + STUDY.method
    models = difficulty_models(replace(STUDY, correct=~wrong))
    assert wrong.sum() == 15
    assert "M3" not in fitted(models)
    sentence = "M3: no usable fit, since 15 answers of the rarer outcome are too few for 16 coefficients."
    assert sentence in models.not_identified


def test_methods_without_shared_llms_are_not_compared() -> None:
    """Two methods that ran on a pool alone are tested against each other, never against methods of single LLMs."""
    pool = with_pool(("coordinator", "random"))
    models = difficulty_models(pool, reference="cot")
    assert fitted(models) == ["M0", "M1", "M2", "M3"]
    assert models.not_identified[0] == (
        "M1: LLM[pool], method[coordinator], method[random] cannot be estimated, since no shared LLM links them to "
        "cot; the tests compare methods that share LLMs only."
    )
    assert [one.method for one in models.odds_ratios] == ["refine"]
    (slope,) = models.slope_ratios
    assert slope.method == "refine"
    assert slope.p_holm == slope.p
    assert "method[random]" not in coefficients(models, "M1")
    assert "LLM[pool]" not in coefficients(models, "M1")
    # refine against cot, and random against coordinator: two contrasts of three columns.
    assert models.tests[0].df == 2


def test_pool_methods_are_compared_with_each_other() -> None:
    """With one of its own as the reference, a pool's methods have their odds ratio, and those of LLMs have none."""
    models = difficulty_models(with_pool(("coordinator", "random")), reference="coordinator")
    assert [one.method for one in models.odds_ratios] == ["random"]
    alone = part(with_pool(("coordinator", "random")), pool_rows(2))
    assert coefficients(models, "M1")["method[random]"] == pytest.approx(
        coefficients(difficulty_models(alone, reference="coordinator"), "M1")["method[random]"], abs=0.1
    )


def test_one_method_per_llm_has_no_m1() -> None:
    """Where each method has an LLM of its own the models say nothing of methods."""
    own = part(STUDY, STUDY.method == STUDY.backbone)
    models = difficulty_models(own)
    assert fitted(models) == ["M0"]
    assert models.not_identified[-1] == (
        "M1 is not fitted: these rows do not tell it from M0, as where each method has LLMs of its own; "
        "nor are M2 and M3."
    )


def test_combinations_that_did_not_run_are_named() -> None:
    """A method that did not run with one LLM has an effect over all others, and none within that one."""
    models = difficulty_models(part(STUDY, ~(BEST & ASH)), reference="cot")
    assert fitted(models) == ["M0", "M1", "M2", "M3"]
    assert [one.method for one in models.odds_ratios] == ["refine", "best_of_n"]
    assert models.not_identified == (
        "M3: method[best_of_n]:LLM[ash] cannot be estimated, since the method or cot did not run there.",
    )
    assert models.tests[2].df == 7


def test_copied_answers_count_once() -> None:
    """The best single agent and the oracle repeat answers of single agents: they are named and left out."""
    names = {"cot": "single", "refine": "best_single", "best_of_n": "debate"}
    study = replace(STUDY, methods=tuple(names[name] for name in STUDY.methods))
    models = difficulty_models(study, reference="best_single")
    assert models.reference == "single"
    assert models.not_identified[0] == (
        "best_single: left out of the models, since their answers are those of single again."
    )
    assert [one.method for one in models.odds_ratios] == ["debate"]


def renamed(names: dict[str, str]) -> Study:
    """The study under other names of its methods."""
    return replace(STUDY, methods=tuple(names[name] for name in STUDY.methods))


def without_copies(study: Study) -> tuple[set[str], list[str]]:
    """Methods and backbones of the rows that models get, and what is said of the others."""
    notes: list[str] = []
    rows = rows_of(study, None, notes)
    assert rows is not None
    cells = zip(rows.method.tolist(), rows.backbone.tolist(), strict=True)
    return {f"{rows.methods[method]} on {rows.backbones[backbone]}" for method, backbone in cells}, notes


BEECH = STUDY.backbone == 1


def test_controls_without_the_single_agents_are_no_copies() -> None:
    """The best agent on one LLM and a lookup on another answer for themselves; on the same one they are one."""
    study = renamed({"cot": "best_single", "refine": "lookup", "best_of_n": "debate"})
    assert without_copies(part(study, (COT & ASH) | (REFINE & BEECH))) == (
        {"best_single on ash", "lookup on beech"},
        [],
    )
    assert without_copies(part(study, (COT & ASH) | (REFINE & (ASH | BEECH)))) == (
        {"best_single on ash", "lookup on beech"},
        ["lookup on ash: left out of the models, since their answers are those of best_single again."],
    )


def test_copies_of_single_agents() -> None:
    """With single agents a lookup repeats one of them on any LLM, the best agent where it was run by itself."""
    study = renamed({"cot": "single", "refine": "best_single", "best_of_n": "lookup"})
    rows = (COT & ASH) | (REFINE & (ASH | BEECH)) | (BEST & BEECH)
    assert without_copies(part(study, rows)) == (
        {"single on ash", "best_single on beech"},
        ["best_single on ash, lookup: left out of the models, since their answers are those of single again."],
    )


def test_a_vanishing_variance_is_reported_at_its_boundary() -> None:
    """Items alike beyond chance have variances of 0, which is said, and the likelihood of a plain logistic model."""
    from statsmodels.api import GLM, families

    codes = np.indices((2, 2, 40), dtype=np.int32).reshape(3, -1)
    method, backbone, item = codes
    # Each item has two right answers of four, each method and LLM meets each pattern equally often.
    correct = (method + backbone + item) % 2 == 0
    correct[(method == 0) & (item < 8)] = True
    nothing, unknown = np.zeros(160, dtype=np.bool_), np.full(40, np.nan)
    names = ("a", "b"), ("x", "y"), tuple(str(number) for number in range(40))
    study = Study("t", "simulated", *names, method, backbone, item, correct * 1.0, correct, nothing, {}, unknown, None)
    models = difficulty_models(study)
    for fit, columns in zip(models.fits, (("x",), ("x", "m")), strict=False):
        parts = {"x": (backbone == 1).astype(float), "m": (method == 1).astype(float)}
        matrix = np.column_stack([np.ones(160), *(parts[name] for name in columns)])
        plain = GLM(correct.astype(float), matrix, family=families.Binomial()).fit()
        assert fit.log_lik == pytest.approx(plain.llf, abs=0.01)
        assert [one.at_boundary for one in fit.variances] == [True, True]
    assert "The variance of item is estimated at about 0, its boundary, in M0, M1, M3." in models.not_identified


def test_no_convergence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that stops early is not printed."""
    monkeypatch.setitem(mixed_fit._OPTIONS, "maxit", 1)
    models = difficulty_models(STUDY)
    assert models.fits == ()
    assert models.not_identified == (
        "M0, M1, M2, M3: no usable fit, since the optimiser reached its limit of iterations.",
    )


def test_a_failure_of_gpboost_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error inside gpboost becomes a sentence."""
    monkeypatch.setitem(mixed_fit._OPTIONS, "init_cov_pars", np.zeros(2))
    models = difficulty_models(part(STUDY, ~BEST))
    assert "M0" not in fitted(models)
    assert models.not_identified[-1].startswith("M0, M1, M2, M3: no usable fit, since gpboost failed: NA or Inf")


@pytest.mark.parametrize(
    ("log_lik", "coef", "se", "variance", "trouble"),
    [
        (-1.0, np.nan, 1.0, 1.0, "its estimates or standard errors are not finite"),
        (-1.0, 0.0, np.inf, 1.0, "its estimates or standard errors are not finite"),
        (-1.0, 0.0, 0.0, 1.0, "its estimates or standard errors are not finite"),
        (-1.0, 0.0, 1.0, np.nan, "its estimates or standard errors are not finite"),
        (np.nan, 0.0, 1.0, 1.0, "its estimates or standard errors are not finite"),
        (-1.0, 0.0, 31.0, 1.0, "its estimates run away to infinity"),
        (-1.0, 0.0, 1.0, 961.0, "its estimates run away to infinity"),
        (-1.0, 0.0, 30.0, 1.0, "late"),
        (-1.0, 0.0, 1.0, 900.0, "late"),
    ],
)
def test_numbers_that_cannot_be_used_are_named(
    log_lik: float, coef: float, se: float, variance: float, trouble: str
) -> None:
    """Not finite, no error, or on the way to infinity: each is told apart from an estimate, and goes first."""
    raw = solved(log_lik, [0.0, coef], [1.0, se], 1.0, variance)
    found = mixed_fit._with_trouble(raw, "late")
    assert found.trouble == trouble
    for name in ("log_lik", "coef", "se", "variances"):
        np.testing.assert_array_equal(getattr(found, name), getattr(raw, name))
    good = solved(-1.0, [1.0], [1.0], 1.0)
    assert mixed_fit._with_trouble(good, None).trouble is None


def test_gpboost_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without gpboost one line says what to install; an analysis gets it as a sentence."""
    monkeypatch.setitem(sys.modules, "gpboost", None)
    with pytest.raises(ConfigError, match=r"pip install 'trinity-suite\[stats\]'"):
        difficulty_models(STUDY)
    models, sentence = try_difficulty_models(STUDY)
    assert models is None
    assert sentence is not None
    assert sentence.startswith("mixed models need gpboost: pip install 'trinity-suite[stats]' (")


@pytest.mark.parametrize("error", [OSError("libgomp.so.1 is missing"), AttributeError("no GPModel")])
def test_gpboost_may_be_unusable(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an engine raises that cannot load its library, or is of another version, becomes a sentence."""

    def broken() -> None:
        raise error

    monkeypatch.setattr("evals.stats.mixed.require_gpboost", broken)
    models, sentence = try_difficulty_models(STUDY)
    assert models is None
    assert sentence is not None
    assert str(error) in sentence


def test_models_are_given_where_they_can_run() -> None:
    """The gentle form gives the models and no sentence."""
    models, sentence = try_difficulty_models(part(STUDY, ASH))
    assert models is not None
    assert sentence is None


def test_gpboost_keeps_stdout_clean(capfd: pytest.CaptureFixture[str]) -> None:
    """Fitting prints nothing."""
    difficulty_models(part(STUDY, ASH))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("x", "outcomes", "expected"),
    [
        ([1, 2, 3, 4], "0011", True),
        ([1, 2, 3, 4], "0101", False),
        ([1, 2, 2, 3], "0011", True),
        ([1, 2, 2, 3], "0101", True),
        ([1, 2, 2, 3], "1001", False),
        ([0, 0, 1, 1], "0111", True),
    ],
)
def test_separation_by_hand(x: list[int], outcomes: str, expected: bool) -> None:
    """Complete and quasi-complete separation along one variable, ties and constant groups included."""
    matrix = np.column_stack([np.ones(4), x])
    assert separates(matrix, np.array([letter == "1" for letter in outcomes])) is expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(12, 60), st.sampled_from(["M0", "M1", "M2", "M3"]))
def test_corners_stand_for_all_rows(seed: int, n: int, model: str) -> None:
    """Rank and separation of any random study are the same on its corners as on all of its rows."""
    random = np.random.default_rng(seed)
    rows = Rows(
        ("a", "b", "c"),
        ("x", "y"),
        random.integers(3, size=n),
        random.integers(2, size=n),
        np.arange(n),
        random.integers(-3, 4, size=n).astype(np.float64),
        random.random(n) < 0.5,
    )
    made = design(rows, model)  # type: ignore[arg-type]
    edges = corners(rows)
    assert np.linalg.matrix_rank(made.matrix) == made.matrix.shape[1] == np.linalg.matrix_rank(made.matrix[edges])
    assert separates(made.matrix, rows.correct) == separates(made.matrix[edges], rows.correct[edges])


def test_long_lists_are_cut() -> None:
    """A sentence names the first eight and counts the rest."""
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(number) for number in range(10)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"


def pool_rows(n_methods: int) -> NDArray[np.bool_]:
    """Which rows of `with_pool` are the pool's."""
    return np.arange(600 + 120 * n_methods // 2) >= 600


def with_pool(methods: tuple[str, ...]) -> Study:
    """Two methods with five LLMs, and others with the pool as their only backbone."""
    base, extra = part(STUDY, ~BEST), part(STUDY, ASH & (COT | REFINE))
    joined: dict[str, Any] = {
        "method": np.concatenate([base.method, extra.method + 2]),
        "backbone": np.concatenate([base.backbone, np.full(extra.method.size, 5, dtype=np.int32)]),
        "item": np.concatenate([base.item, extra.item]),
        "correct": np.concatenate([base.correct, ~extra.correct]),
        "score": np.concatenate([base.score, extra.score]),
        "truncated": np.concatenate([base.truncated, extra.truncated]),
    }
    return replace(STUDY, methods=("cot", "refine", *methods), backbones=(*STUDY.backbones, "pool"), **joined)


def rows_by_hand(method: str, backbone: str, correct: str, z: list[float] | None = None) -> Rows:
    """Rows of methods a, b, c and LLMs x, y from a letter or digit each, all of items of their own."""
    return Rows(
        tuple(sorted(set(method))),
        tuple(sorted(set(backbone))),
        np.array([sorted(set(method)).index(one) for one in method]),
        np.array([sorted(set(backbone)).index(one) for one in backbone]),
        np.arange(len(method)),
        None if z is None else np.array(z),
        np.array([one == "1" for one in correct]),
    )


def solved(log_lik: float, coef: list[float], se: list[float], *variances: float) -> mixed_fit.Solution:
    """A solution with these numbers."""
    return mixed_fit.Solution(log_lik, np.array(coef), np.array(se), np.array(variances), None)


def test_likelihood_ratios_by_hand() -> None:
    """Twice the gain in log-likelihood; what rounding takes off is 0, and a larger model that lost more is named."""
    rows, notes = rows_by_hand("ab", "xy", "01"), list[str]()
    solutions: dict[Model, mixed_fit.Solution] = {
        "M0": solved(-2.0, [0.0] * 2, [1.0] * 2),
        "M1": solved(0.0, [0.0] * 3, [1.0] * 3),
        "M2": solved(-0.0005, [0.0] * 5, [1.0] * 5),
        "M3": solved(-0.0006, [0.0] * 7, [1.0] * 7),
    }
    found = list(_Fitted(rows, {"item": rows.item}, notes, {}, solutions).tests())
    assert [replace(one, p=0.0) for one in found] == [
        LikelihoodRatio("M0", "M1", 4.0, 1, 0.0),
        LikelihoodRatio("M1", "M2", 0.0, 2, 0.0),
    ]
    assert [one.p for one in found] == pytest.approx([chi2.sf(4.0, 1), 1.0])
    assert notes == ["M3 fits worse than M1, so one did not converge: they are not compared."]
    del solutions["M1"]
    assert list(_Fitted(rows, {"item": rows.item}, notes, {}, solutions).tests()) == []


def test_odds_ratios_and_description_by_hand() -> None:
    """Log-odds ln 2 and 0 with errors .5 and 1: ratios 2 and 1, Wald's ends and p, Holm's p twice the smaller one."""
    rows, notes = rows_by_hand("abcabc", "xxxyyy", "010101"), list[str]()
    solution = solved(-3.0, [0.0, 0.5, math.log(2), 0.0], [1.0, 1.0, 0.5, 1.0], 1e-3, 9e-4)
    fitted = _Fitted(rows, {"item": rows.item, "item:LLM": rows.pair}, notes, {}, {"M1": solution})
    assert fitted.ratios("M2", "slope") == ()
    fitted._design("M1")
    assert fitted.ratios("M1", "slope") == ()
    p = 2 * norm.sf(math.log(2) / 0.5)
    half = 1.959964 * 0.5
    first = OddsRatio("b", None, 2.0, 2 * math.exp(-half), 2 * math.exp(half), p, 2 * p)
    second = OddsRatio("c", None, 1.0, math.exp(-2 * half), math.exp(2 * half), 1.0, 1.0)
    for one, expected in zip(fitted.ratios("M1", "method"), (first, second), strict=True):
        assert (one.method, one.backbone) == (expected.method, expected.backbone)
        assert astuple(one)[2:] == pytest.approx(astuple(expected)[2:], rel=1e-6)
    names = ("intercept", "LLM[y]", "method[b]", "method[c]")
    assert fitted.described("M1") == Fit(
        "M1",
        "correct ~ LLM + method + (1 | item) + (1 | item:LLM)",
        6,
        6,
        -3.0,
        18.0,
        tuple(map(Coefficient, names, solution.coef.tolist(), solution.se.tolist())),
        (Variance("item", 1e-3, at_boundary=False), Variance("item:LLM", 9e-4, at_boundary=True)),
    )
    fitted._note_boundaries()
    assert notes == ["The variance of item:LLM is estimated at about 0, its boundary, in M1."]


def test_effects_that_follow_from_others_are_named() -> None:
    """Where an LLM had the hard items alone, M0 cannot part the two; one difficulty alone has no slope."""
    tied, notes = rows_by_hand("aaaa", "xxyy", "0101", [-1, -1, 1, 1]), list[str]()
    one = _Fitted(tied, {"item": tied.item}, notes)
    one._design("M0")
    one._note_lost("M0")
    flat = rows_by_hand("aaabbb", "xxxxxx", "010101", [-1, 0, 1, 1, 1, 1])
    other = _Fitted(flat, {"item": flat.item}, notes)
    assert other._differs("M1", "M0")
    assert not other._differs("M2", "M1")
    other._note_lost("M2")
    assert notes == [
        "M0: intercept, difficulty, LLM[y] cannot be estimated, since they follow from other effects.",
        "M2 is not fitted: these rows do not tell it from M1.",
        "M2: method[b], method[b]:difficulty cannot be estimated, since their items do not differ in difficulty.",
    ]


def test_formulas_by_hand() -> None:
    """Terms that cannot be are no part of a formula, and without any term the intercept is written out."""
    alone, full = rows_by_hand("aa", "xx", "01"), rows_by_hand("ab", "xy", "01", [0, 1])
    assert _Fitted(alone, {"item": alone.item}, [])._formula("M0") == "correct ~ 1 + (1 | item)"
    made = _Fitted(full, {"item": full.item}, [])
    assert [made._formula(model) for model in ("M2", "M3")] == [
        "correct ~ difficulty + LLM + method + method:difficulty + (1 | item)",
        "correct ~ difficulty + LLM + LLM:method + (1 | item)",
    ]


def test_corners_by_hand() -> None:
    """Of each method, LLM and outcome the easiest and the hardest row; without difficulties one row will do."""
    known = rows_by_hand("aaaaab", "xxxxxx", "111100", [0, 2, 1, -1, 5, 5])
    assert corners(known).tolist() == [1, 3, 4, 5]
    assert corners(rows_by_hand("aabb", "xyxy", "1111")).tolist() == [0, 1, 2, 3]


def test_designs_by_hand() -> None:
    """Columns in their order with the values that they stand for."""
    rows = rows_by_hand("abab", "xxyy", "0101", [1, 2, 3, 5])
    ones, z, y, b = [1, 1, 1, 1], [1, 2, 3, 5], [0, 0, 1, 1], [0, 1, 0, 1]
    assert design(rows, "M1").matrix.T.tolist() == [ones, z, y, b]
    cells = design(rows_by_hand("abab", "xxyy", "0101"), "M3")
    assert cells.columns == (
        Column("intercept", "base", "", ""),
        Column("LLM[y]", "base", "", "y"),
        Column("method[b]:LLM[x]", "cell", "b", "x"),
        Column("method[b]:LLM[y]", "cell", "b", "y"),
    )
    assert cells.matrix.T.tolist() == [ones, y, [0, 1, 0, 0], [0, 0, 0, 1]]
    assert (cells.estimable, cells.lost) == ((True,) * 4, ())
    slopes = design(rows_by_hand("aabb", "xxxx", "0101", [1, 2, 3, 5]), "M2")
    assert slopes.columns[-1] == Column("method[b]:difficulty", "slope", "b", "")
    assert slopes.matrix.T.tolist() == [ones, [1, 2, 3, 5], [0, 0, 1, 1], [0, 0, 3, 5]]


def test_obstacles_by_hand() -> None:
    """As many answers of the rarer outcome as coefficients are enough, one fewer is not."""
    mixed = rows_by_hand("aabb" * 2, "x" * 8, "10101010")
    assert obstacle(mixed, design(mixed, "M1")) is None
    few = rows_by_hand("aabb" * 2, "x" * 8, "10000000")
    expected = "1 answers of the rarer outcome are too few for 2 coefficients"
    assert obstacle(few, design(few, "M1")) == expected
    two = rows_by_hand("aabb" * 2, "x" * 8, "10100000")
    assert obstacle(two, design(two, "M1")) is None
    assert obstacle(replace(few, correct=~few.correct), design(few, "M1")) == expected


@pytest.mark.parametrize("extra", [0, 2])
def test_a_fit_begins_where_another_ended(extra: int) -> None:
    """Added effects begin at 0, a vanishing variance at .01; without a usable start nothing is said."""
    start = solved(-1.0, [0.5, -0.5], [1.0, 1.0], 1e-9, 4.0)
    begun = mixed_fit._started(start, 2 + extra)
    assert {name: value.tolist() for name, value in begun.items()} == {
        "init_coef": [0.5, -0.5, *[0.0] * extra],
        "init_cov_pars": [0.01, 4.0],
    }
    assert mixed_fit._started(None, 2) == mixed_fit._started(replace(start, trouble="late"), 2) == {}


def test_what_gpboost_cannot_fit_has_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own word is kept, and every estimate is unknown."""
    monkeypatch.setitem(mixed_fit._OPTIONS, "init_cov_pars", np.zeros(2))
    matrix = np.column_stack([np.ones(40), np.arange(40) % 4]).astype(np.float64)
    groups = {"item": np.arange(40) // 4, "item:LLM": np.arange(40) // 2}
    found = mixed_fit.solve(matrix, np.arange(40) % 3 == 0, groups)
    assert (found.trouble or "").startswith("gpboost failed: NA or Inf occurred")
    assert [part.size for part in (found.coef, found.se, found.variances)] == [2, 2, 2]
    assert np.isnan([found.log_lik, *found.coef, *found.se, *found.variances]).all()


def small(scores: dict[tuple[str, str], str], difficulty: list[float] | None = None) -> Study:
    """A study of a digit per item for each method and LLM, `-` where it did not run."""
    digits = {"0": 0.0, "1": 1.0, "-": math.nan}
    return make_study({cell: [digits[one] for one in row] for cell, row in scores.items()}, difficulty)


def test_ten_items_of_two_answers_are_enough() -> None:
    """Ten items, each answered twice, are used; without one of these answers there are nine, and nothing is."""
    notes: list[str] = []
    rows = rows_of(small({("a", "x"): "0101010101", ("b", "x"): "1111100000"}), None, notes)
    assert rows is not None
    terms = random_terms(rows, notes) or {}
    assert {name: codes.tolist() for name, codes in terms.items()} == {"item": [*range(10)] * 2}
    assert notes[-1] == "There is one LLM (x): no LLM effect, no (1 | item:LLM), and M3 is not fitted."
    assert rows_of(small({("a", "x"): "0101010101", ("b", "x"): "111110000-"}), None, notes) is None
    assert notes[-1] == "9 of 10 items have several answers, 10 are needed for (1 | item): no model is fitted."


@pytest.mark.parametrize(("known", "kept"), [(6, 12), (5, 20)])
def test_difficulty_is_used_where_most_items_have_it(known: int, kept: int) -> None:
    """With six of ten known the other four items go; with five the difficulty goes."""
    difficulty = [float(number) if number < known else math.nan for number in range(10)]
    notes: list[str] = []
    rows = rows_of(small({("a", "x"): "0101010101", ("b", "x"): "1111100000"}, difficulty), None, notes)
    assert rows is not None
    assert rows.correct.size == kept
    assert (rows.z is None) is (known == 5)
    assert notes == [
        f"Difficulty is known for 5 of 10 items: {NO_DIFFICULTY}"
        if known == 5
        else "4 items without a known difficulty are left out of the models."
    ]


def test_rows_by_hand() -> None:
    """The reference comes first, and codes follow the names that are left."""
    notes: list[str] = []
    study = small(
        {
            ("a", "x"): "01010101010",
            ("b", "x"): "-1111100000",
            ("b", "y"): "-0000011111",
            ("c", "z"): "1----------",
        },
        [1.0, *range(1, 11)],
    )
    rows = rows_of(study, "b", notes)
    assert rows is not None
    assert (rows.methods, rows.backbones) == (("b", "a"), ("x", "y"))
    assert rows.method.tolist() == [1] * 11 + [0] * 20
    assert rows.backbone.tolist() == [0] * 21 + [1] * 10
    assert rows.item.tolist() == [*range(11), *range(1, 11), *range(1, 11)]
    assert rows.cell.tolist() == [2] * 11 + [0] * 10 + [1] * 10
    assert rows.pair[:2].tolist() == [0, 2]
    assert rows.z is not None
    assert rows.z[11:21].tolist() == study.z[1:].tolist()
    assert notes == [
        "The method c is left out of the models: all its 1 answers are right, which has no finite log-odds."
    ]
    other = rows_of(study, None, notes)
    assert other is not None
    assert other.methods == ("b", "a")


def test_pairs_that_repeat_are_counted() -> None:
    """Nine pairs of item and LLM with two answers are too few for their variance, ten are enough."""
    notes: list[str] = []
    cells = {("a", "x"): "01010101010", ("a", "y"): "1100110011-", ("b", "x"): "010011001--"}
    rows = rows_of(small(cells), None, notes)
    assert rows is not None
    assert list(random_terms(rows, notes) or {}) == ["item"]
    assert notes[-1] == "(1 | item:LLM) is left out: 9 pairs of item and LLM have several answers, 10 are needed."
    rows = rows_of(small({**cells, ("b", "x"): "0100110011-"}), None, notes)
    assert rows is not None
    assert list(random_terms(rows, notes) or {}) == ["item", "item:LLM"]
