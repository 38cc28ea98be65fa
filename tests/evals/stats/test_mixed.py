"""What the mixed models leave out, and that they say so: nothing that cannot be identified is printed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evals.stats import mixed_fit
from evals.stats.mixed import DifficultyModels, difficulty_models, try_difficulty_models
from evals.stats.mixed_design import corners, design, separates
from evals.stats.mixed_rows import Rows, listed, rows_of
from evals.stats.study import Study
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


def said(models: DifficultyModels, *words: str) -> bool:
    """Whether one sentence holds all the words."""
    return any(all(word in sentence for word in words) for sentence in models.not_identified)


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
    assert said(models, "best_single is not among the methods", "refine stands in its place")


def test_one_answer_per_item_and_llm_has_no_pair_term() -> None:
    """With one method and no replicates (1 | item:LLM) is out of the formula, and there is no method to test."""
    models = difficulty_models(part(STUDY, COT))
    assert fitted(models) == ["M0"]
    assert models.fits[0].formula == "correct ~ difficulty + LLM + (1 | item)"
    assert models.fits[0].n_parameters == 7
    assert said(models, "(1 | item:LLM) is left out", "0 pairs")
    assert said(models, "There is one method (cot)", "M1, M2 and M3 are not fitted")


def test_one_llm_has_no_llm_terms() -> None:
    """One backbone: no LLM effect, no pair term, no M3; M0 to M2 stand."""
    models = difficulty_models(part(STUDY, ASH), reference="cot")
    assert fitted(models) == ["M0", "M1", "M2"]
    assert models.fits[1].formula == "correct ~ difficulty + method + (1 | item)"
    assert said(models, "There is one LLM (ash)", "no LLM effect", "M3 is not fitted")
    assert [(test.smaller, test.larger) for test in models.tests] == [("M0", "M1"), ("M1", "M2")]
    assert models.odds_ratios_by_backbone == ()


def test_items_with_one_llm_each_have_no_pair_term() -> None:
    """Where each item met one LLM, item and item:LLM are the same groups."""
    models = difficulty_models(part(STUDY, STUDY.item % 5 == STUDY.backbone))
    assert said(models, "(1 | item:LLM) is left out", "each item has one LLM")
    assert models.fits[0].formula.endswith("(1 | item)")


def test_unknown_difficulty_is_out_of_the_models() -> None:
    """Without difficulties there is no difficulty term and no M2."""
    nowhere = replace(STUDY, difficulty=np.full(60, np.nan), difficulty_kind=None)
    models = difficulty_models(nowhere)
    assert fitted(models) == ["M0", "M1", "M3"]
    assert models.difficulty_kind is None
    assert "difficulty" not in models.fits[0].formula
    assert said(models, "Difficulty is known for 0 of 60 items", "M2 is not fitted")


def test_items_without_difficulty_are_left_out() -> None:
    """Where most difficulties are known the other items go, and their number is said."""
    some = replace(STUDY, difficulty=np.where(np.arange(60) < 10, np.nan, STUDY.difficulty))
    models = difficulty_models(some)
    assert models.fits[0].n_rows == 50 * 5 * 3
    assert said(models, "10 items without a known difficulty are left out")


def test_constant_difficulty_is_out_of_the_models() -> None:
    """Items of equal difficulty identify no slope."""
    models = difficulty_models(replace(STUDY, difficulty=np.full(60, 3.0)))
    assert fitted(models) == ["M0", "M1", "M3"]
    assert said(models, "All items are equally difficult")


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
    assert "(1 | item) is not identified" in refused(models)
    assert "infinite" in refused(models)


def test_identical_replicates_fit_nothing() -> None:
    """Answers that are the same for all methods of an item and LLM have an infinite variance between pairs."""
    copied = STUDY.correct[COT][(STUDY.backbone * 60 + STUDY.item)]
    models = difficulty_models(replace(STUDY, correct=copied))
    assert "(1 | item:LLM) is not identified" in refused(models)


@pytest.mark.parametrize("outcome", [True, False])
def test_a_separated_method_is_left_out(outcome: bool) -> None:
    """A method without any wrong (or right) answer is named; the others are as if it had never run."""
    models = difficulty_models(with_outcome(STUDY, BEST, outcome), reference="cot")
    word = "right" if outcome else "wrong"
    assert said(models, f"The method best_of_n is left out of the models: all its 300 answers are {word}")
    without = difficulty_models(part(STUDY, ~BEST), reference="cot")
    assert [fit.log_lik for fit in models.fits] == [fit.log_lik for fit in without.fits]
    assert models.odds_ratios == without.odds_ratios


def test_a_separated_llm_is_left_out() -> None:
    """The same for an LLM."""
    models = difficulty_models(with_outcome(STUDY, ASH, False), reference="cot")
    assert said(models, "The LLM ash is left out of the models: all its 180 answers are wrong")
    assert not any("ash" in (one.backbone or "") for one in models.odds_ratios_by_backbone)
    assert fitted(models) == ["M0", "M1", "M2", "M3"]


def test_a_separated_reference_is_replaced() -> None:
    """Odds ratios against a method that is always right do not exist: another one is taken, and both are named."""
    models = difficulty_models(with_outcome(STUDY, COT, True), reference="cot")
    assert models.reference == "refine"
    assert said(models, "The method cot is left out")
    assert said(models, "The reference cot is not among the methods")


def test_only_separated_methods_fit_nothing() -> None:
    """One method always right and one always wrong leave nothing to fit."""
    two = with_outcome(with_outcome(part(STUDY, ~BEST), COT[~BEST], True), REFINE[~BEST], False)
    assert refused(difficulty_models(two)).startswith("No method or LLM with both right and wrong answers is left")


def test_a_separated_cell_takes_m3_away() -> None:
    """One method that is always right with one LLM leaves M0 to M2, and M3 names the place."""
    models = difficulty_models(with_outcome(STUDY, BEST & ASH, True), reference="cot")
    assert fitted(models) == ["M0", "M1", "M2"]
    assert said(models, "M3: no usable fit", "best_of_n on ash")


def test_effects_that_separate_are_named_in_one_line() -> None:
    """Where difficulty and method together tell right from wrong M1 and M2 have no finite estimate; M0 stands."""
    z = STUDY.z[STUDY.item]
    models = difficulty_models(part(replace(STUDY, correct=(z < -0.3) | (REFINE & (z < 0.3))), ASH))
    assert fitted(models) == ["M0"]
    assert said(models, "M1, M2: no usable fit", "separates right from wrong")


def test_a_method_whose_difficulty_separates_takes_m2_away() -> None:
    """One method that is right exactly up to a difficulty has no finite slope; M1 stands."""
    easy = STUDY.z[STUDY.item] < 0
    models = difficulty_models(replace(STUDY, correct=np.where(BEST, easy, STUDY.correct)), reference="cot")
    assert "M1" in fitted(models)
    assert "M2" not in fitted(models)
    assert said(models, "M2", "separates right from wrong")


def test_too_few_answers_of_one_kind_are_named() -> None:
    """One wrong answer per method and LLM, fifteen in all, are too few for the 16 effects of M3."""
    wrong = STUDY.item == 7 * STUDY.backbone + STUDY.method
    models = difficulty_models(replace(STUDY, correct=~wrong))
    assert wrong.sum() == 15
    assert "M3" not in fitted(models)
    assert said(models, "M3", "15 answers of the rarer outcome are too few for 16 coefficients")


def test_methods_without_shared_llms_are_not_compared() -> None:
    """Two methods that ran on a pool alone are tested against each other, never against methods of single LLMs."""
    pool = with_pool(("coordinator", "random"))
    models = difficulty_models(pool, reference="cot")
    assert fitted(models) == ["M0", "M1", "M2", "M3"]
    assert said(models, "M1: LLM[pool], method[coordinator], method[random] cannot be estimated", "no shared LLM")
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
    assert said(models, "M1 is not fitted: these rows do not tell it from M0", "nor are M2 and M3")


def test_combinations_that_did_not_run_are_named() -> None:
    """A method that did not run with one LLM has an effect over all others, and none within that one."""
    models = difficulty_models(part(STUDY, ~(BEST & ASH)), reference="cot")
    assert fitted(models) == ["M0", "M1", "M2", "M3"]
    assert [one.method for one in models.odds_ratios] == ["refine", "best_of_n"]
    assert said(models, "M3: method[best_of_n]:LLM[ash] cannot be estimated")
    assert models.tests[2].df == 7


def test_copied_answers_count_once() -> None:
    """The best single agent and the oracle repeat answers of single agents: they are named and left out."""
    names = {"cot": "single", "refine": "best_single", "best_of_n": "debate"}
    study = replace(STUDY, methods=tuple(names[name] for name in STUDY.methods))
    models = difficulty_models(study, reference="best_single")
    assert models.reference == "single"
    assert said(models, "best_single: left out of the models", "those of single again")
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
    assert said(models, "The variance of item is estimated at about 0, its boundary, in M0, M1")


def test_no_convergence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that stops early is not printed."""
    monkeypatch.setitem(mixed_fit._OPTIONS, "maxit", 1)
    models = difficulty_models(STUDY)
    assert models.fits == ()
    assert said(models, "M0, M1, M2, M3: no usable fit, since the optimiser reached its limit of iterations")


def test_a_failure_of_gpboost_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error inside gpboost becomes a sentence."""
    monkeypatch.setitem(mixed_fit._OPTIONS, "init_cov_pars", np.zeros(2))
    models = difficulty_models(part(STUDY, ~BEST))
    assert "M0" not in fitted(models)
    assert said(models, "M0", "gpboost failed")


@pytest.mark.parametrize(
    ("coef", "se", "variance", "words"),
    [
        (np.nan, 1.0, 1.0, "not finite"),
        (0.0, np.inf, 1.0, "not finite"),
        (0.0, 0.0, 1.0, "not finite"),
        (0.0, 40.0, 1.0, "infinity"),
        (0.0, 1.0, 1000.0, "infinity"),
    ],
)
def test_numbers_that_cannot_be_used_are_named(coef: float, se: float, variance: float, words: str) -> None:
    """Not finite, no error, or on the way to infinity: each is told apart from an estimate."""
    raw = mixed_fit.Solution(-1.0, np.array([coef]), np.array([se]), np.array([variance]), None)
    assert words in (mixed_fit._with_trouble(raw, None).trouble or "")
    good = mixed_fit.Solution(-1.0, np.array([1.0]), np.array([1.0]), np.array([1.0]), None)
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
