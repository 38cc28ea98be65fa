"""The analysis of a run: its shape, its agreement with the tables it is put together from, and what it admits."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from evals.report.analysis import build_analysis
from evals.stats.study import Study
from evals.stats.verifier import VerifierRow
from tests.evals.stats.making import make_study, with_costs, with_truncated
from tests.evals.stats.published import benchmark
from trinity.errors import LedgerError

N_ITEMS = 40
CHANCES = np.linspace(0.95, 0.2, N_ITEMS)


def patterned(seed: int) -> list[float]:
    """0/1 scores that get rarer with the item's number."""
    generator = np.random.default_rng(seed)
    return [float(draw < chance) for draw, chance in zip(generator.random(N_ITEMS), CHANCES, strict=True)]


def pool(task: str = "sums") -> Study:
    """Two agents, the best of them under its own name too, a coordinator, an oracle."""
    small, large = patterned(1), patterned(2)
    scores = {
        ("single", "small"): small,
        ("single", "large"): large,
        ("best_single", "large"): large,
        ("coordinator sampled", "team"): patterned(3),
        ("oracle", "team"): np.maximum(small, large).tolist(),
    }
    costs = {key: [float(5 + 10 * place)] * N_ITEMS for place, key in enumerate(scores)}
    study = with_costs(make_study(scores, list(range(N_ITEMS)), task=task), costs, "weighted_tokens")
    return with_truncated(study, [("single", "small", 39)], 1.0)


@pytest.fixture(scope="module")
def analysis() -> dict[str, Any]:
    """The analysis of one task, models left out."""
    return build_analysis([pool()], reference="best_single", models=False)


def test_shape(analysis: dict[str, Any]) -> None:
    """The agreed keys are there, and all of it is JSON without NaN."""
    assert json.loads(json.dumps(analysis, allow_nan=False)) == analysis
    assert (analysis["format"], analysis["pool_kind"], analysis["reference"]) == (1, "simulated", "best_single")
    task = analysis["tasks"]["sums"]
    assert set(task) == {
        *("n_items", "methods", "backbones", "difficulty", "pooled", "interaction", "leave_one_out", "truncation"),
        *("detectable", "cost", "models", "verifier", "not_identified"),
    }
    assert set(task["difficulty"]) == {"kind", "n_known", "spearman", "quartiles", "gains"}
    assert task["models"] is None
    assert task["verifier"] == []


def test_the_oracle_is_no_method(analysis: dict[str, Any]) -> None:
    """What picks by the outcome is in no table."""
    assert analysis["tasks"]["sums"]["methods"] == ["best_single", "coordinator sampled", "single"]
    assert "oracle" not in json.dumps(analysis)


def test_the_reference_is_not_compared_to_itself(analysis: dict[str, Any]) -> None:
    """The best agent's row among the single ones is the reference again: only the other one is compared."""
    task = analysis["tasks"]["sums"]
    pairs = {(row["method"], row["backbone"]): row["reference_backbone"] for row in task["interaction"]}
    assert pairs == {("coordinator sampled", "team"): "large", ("single", "small"): "large"}
    assert {row["method"] for row in task["pooled"]} == {"coordinator sampled", "single"}
    assert task["leave_one_out"] == []
    assert "One backbone, so that none can be left out: coordinator sampled, single." in task["not_identified"]


def test_tables_agree(analysis: dict[str, Any]) -> None:
    """The pooled difference is the interaction's where there is one backbone, and accuracies differ by it."""
    task = analysis["tasks"]["sums"]
    rows = {(row["method"], row["backbone"]): row for row in task["cost"]["weighted_tokens"]["rows"]}
    for cell, pooled in zip(task["interaction"], task["pooled"], strict=True):
        assert cell["difference"] == pooled["difference"]
        assert (cell["ci_low"], cell["p"]) == (pooled["ci_low"], pooled["p"])
        best = rows["best_single", "large"]["accuracy"]
        assert cell["accuracy"] - best == pytest.approx(cell["difference"])
        gains = [row["difference"] for row in task["difficulty"]["gains"] if row["method"] == cell["method"]]
        assert np.mean(gains) == pytest.approx(cell["difference"])
    truncation = {(row["method"], row["backbone"]): row for row in task["truncation"]}
    assert truncation["single", "small"]["n_truncated"] == 1


def test_costs_are_told_where_known(analysis: dict[str, Any]) -> None:
    """The axis that is known has a table, with what controls do for the coordinator's money; the others a sentence."""
    task = analysis["tasks"]["sums"]
    assert list(task["cost"]) == ["weighted_tokens"]
    assert "The cost in usd is unknown for every row." in task["not_identified"]
    table = task["cost"]["weighted_tokens"]
    assert {row["method"] for row in table["matched"]} == {"coordinator sampled"}
    (row,) = table["matched"]
    assert row["mixture_mean"] <= row["mean"] == 35.0
    assert any(row["on_frontier"] for row in table["rows"])
    assert table["area_controls"] <= table["area"]
    assert {row["method"]: row["ratio"] for row in table["ratios"] if row["backbone"] is None}[
        "coordinator sampled"
    ] == pytest.approx(35 / 25)


def test_detectable_differences(analysis: dict[str, Any]) -> None:
    """By statsmodels: what the coordinator's 40 differences to the best agent could show, and items for 5 points."""
    rows = {row["method"]: row for row in analysis["tasks"]["sums"]["detectable"]}
    sd = float(np.std(np.subtract(patterned(3), patterned(2)), ddof=1))
    least = sd * TTestPower().solve_power(nobs=N_ITEMS, alpha=0.05, power=0.8)
    needed = TTestPower().solve_power(effect_size=0.05 / sd, alpha=0.05, power=0.8)
    row = rows["coordinator sampled"]
    assert (row["n_items"], row["difference"]) == (N_ITEMS, pytest.approx(least, rel=1e-4))
    assert row["items_needed"]["0.05"] == math.ceil(needed)


def test_published_study() -> None:
    """Five methods on five backbones fill every table."""
    (task,) = build_analysis([benchmark("AMC")], reference="CoT", models=False)["tasks"].values()
    assert len(task["interaction"]) == len(task["leave_one_out"]) == 20
    assert len(task["difficulty"]["quartiles"]) == 100
    assert len(task["difficulty"]["gains"]) == 16
    assert [row["method"] for row in task["pooled"]] == ["Best-of-N", "Debate", "Self-Refine", "Task-only"]
    assert len(task["cost"]["weighted_tokens"]["ratios"]) == 24


def test_models_without_some_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the published study's 5,000 answers the models see the 4,000 of four methods, with CoT as reference."""
    seen: list[tuple[int, set[str], str]] = []

    def fitted(study: Study, *, reference: str) -> tuple[None, str]:
        there = {study.methods[place] for place in np.unique(study.method)}
        seen.append((study.score.size, there, reference))
        return None, "gpboost is not asked here."

    monkeypatch.setattr("evals.report.analysis.try_difficulty_models", fitted)
    found = build_analysis([benchmark("AMC")], reference="CoT", models_without=["Task-only"])
    assert seen == [(4000, {"CoT", "Self-Refine", "Best-of-N", "Debate"}, "CoT")]
    (task,) = found["tasks"].values()
    assert found["models_without"] == ["Task-only"]
    assert "No mixed models: gpboost is not asked here." in task["not_identified"]
    assert "Task-only" in {row["method"] for row in task["pooled"]}


def test_what_models_leave_out_is_named() -> None:
    """A method left out, settings and all, is named among what the models do not tell; so is one that is not there."""
    scores = {("cot", "a"): patterned(1), ("vote T=1", "a"): patterned(2), ("debate", "a"): patterned(3)}
    task = build_analysis([make_study(scores)], reference="cot", models_without=["vote", "toss"])["tasks"]["sums"]
    assert {row["method"] for row in task["models"]["odds_ratios"]} == {"debate"}
    assert "vote T=1: left out of the mixed models, as the run was told." in task["not_identified"]
    assert any(note.startswith("toss: not among the methods") for note in task["not_identified"])


def test_ratios_to_several_methods() -> None:
    """Costs of the published study by CoT's and by Task-only's, as published or worked out from its cells."""
    found = build_analysis([benchmark("Lichess")], reference="CoT", models=False, ratios_to=["Task-only", "CoT"])
    assert found["ratios_to"] == ["Task-only"]
    ratios = found["tasks"]["Lichess"]["cost"]["weighted_tokens"]["ratios"]
    pooled = {(row["method"], row["to"]): round(row["ratio"], 2) for row in ratios if row["backbone"] is None}
    assert pooled == {
        ("Self-Refine", "CoT"): 2.13, ("Best-of-N", "CoT"): 2.65, ("Debate", "CoT"): 3.04, ("Task-only", "CoT"): 0.81,
        ("Self-Refine", "Task-only"): 2.64, ("Best-of-N", "Task-only"): 3.28, ("Debate", "Task-only"): 3.76,
        ("CoT", "Task-only"): 1.24,
    }  # fmt: skip
    assert len(ratios) == 2 * 24
    assert all(row["ci_low"] - 1e-9 <= row["ratio"] <= row["ci_high"] + 1e-9 for row in ratios)


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ("toss", "There is no toss whose cost anything could be told by."),
        ("vote", "Several rows of vote, none on the same backbone, so no ratio of costs, for: cot on b."),
    ],
)
def test_ratios_that_cannot_be_told_are_named(to: str, sentence: str) -> None:
    """A further method that is not there, or on none of a row's backbones, gives a sentence."""
    scores = {key: [1.0, 0.0] for key in (("cot", "a"), ("cot", "b"), ("vote", "a"), ("vote", "c"))}
    task = build_analysis([make_study(scores)], reference="cot", models=False, ratios_to=[to])["tasks"]["sums"]
    assert sentence in task["not_identified"]


def test_single_calls_are_controls() -> None:
    """One call, and what is matched in price, is what the same cost buys otherwise, against which the others stand."""
    names = ("task_only", "cot", "matched_vote", "self_refine")
    scores = {(name, "a"): patterned(place) for place, name in enumerate(names)}
    costs = {key: [float(place + 1)] * N_ITEMS for place, key in enumerate(scores)}
    study = with_costs(make_study(scores), costs, "weighted_tokens")
    task = build_analysis([study], reference="best_single", models=False)["tasks"]["sums"]
    (row,) = task["cost"]["weighted_tokens"]["matched"]
    assert row["method"] == "self_refine"
    assert {part["method"] for part in row["mixture"]} <= {"task_only", "cot", "matched_vote"}


def test_correlations_are_adjusted_over_tasks() -> None:
    """Of two tasks with difficulty the smaller p is doubled; one without difficulty is no test."""
    studies = [make_study({("cot", "a"): patterned(seed)}, list(range(N_ITEMS)), task=f"t{seed}") for seed in (1, 2)]
    studies.append(make_study({("cot", "a"): patterned(3)}, task="t3"))
    tasks = build_analysis(studies, reference="cot", models=False)["tasks"]
    found = [task["difficulty"]["spearman"] for task in tasks.values()]
    assert found[2] is None
    low, high = sorted(found[:2], key=lambda row: row["p"])
    assert low["p_holm"] == pytest.approx(2 * low["p"])
    assert high["p_holm"] == pytest.approx(max(2 * low["p"], high["p"]))


def test_order_of_studies_and_records() -> None:
    """Tasks keep the order given, and shuffled episodes change nothing."""
    study = pool()
    order = np.random.default_rng(0).permutation(study.score.size)
    rows = {
        name: getattr(study, name)[order] for name in ("method", "backbone", "item", "score", "correct", "truncated")
    }
    costs = {axis: values[order] for axis, values in study.costs.items()}
    assert study.raw_score is not None
    shuffled = replace(study, **rows, costs=costs, raw_score=study.raw_score[order])
    one, other = (build_analysis([made], reference="best_single", models=False) for made in (study, shuffled))
    assert one == other


def test_verdicts_go_to_their_task() -> None:
    """A verdict on another task's item is not counted here."""
    verdicts = [VerifierRow("sums", "coordinator", True, True), VerifierRow("words", "coordinator", True, False)]
    tasks = build_analysis([pool(), pool("words")], reference="best_single", verifier=verdicts, models=False)["tasks"]
    assert [tasks[name]["verifier"][0]["n"] for name in ("sums", "words")] == [1, 1]
    assert tasks["sums"]["verifier"][0]["true_accept"] == 1.0
    assert tasks["words"]["verifier"][0]["false_accept"] == 1.0


def test_models_are_put_in() -> None:
    """The mixed models' fits are there, and their own words on what they cannot tell join the task's."""
    study = make_study({("cot", "a"): patterned(1), ("vote", "a"): patterned(2)}, list(range(N_ITEMS)))
    task = build_analysis([study], reference="cot")["tasks"]["sums"]
    assert [fit["model"] for fit in task["models"]["fits"]] == ["M0", "M1", "M2"]
    told = task["models"]["not_identified"]
    assert any(note.startswith("There is one LLM (a)") for note in told)
    assert set(told) <= set(task["not_identified"])
    json.dumps(task, allow_nan=False)


def test_models_of_some_tasks() -> None:
    """Which tasks are fitted is asked of each study by itself."""
    scores = {("cot", "a"): patterned(1), ("vote", "a"): patterned(2)}
    both = [make_study(scores, task=name) for name in ("sums", "words")]
    tasks = build_analysis(both, reference="cot", models=lambda study: study.task == "words")["tasks"]
    assert tasks["sums"]["models"] is None
    assert tasks["words"]["models"]["fits"]


BACKBONES = {("cot", "a"): [1.0], ("cot", "b"): [1.0], ("vote", "c"): [1.0], ("vote", "a"): [1.0]}


@pytest.mark.parametrize(
    ("scores", "difficulty", "sentence"),
    [
        ({("cot", "a"): [1, 0]}, None, "The difficulty of no item is known"),
        ({("cot", "a"): [1, 0, 1]}, [1, 2, math.nan], "The difficulty of 1 of 3 items is unknown"),
        ({("vote", "a"): [1, 0]}, None, "There is no cot that anything could be compared to."),
        (BACKBONES, None, "Several rows of cot, none on the same backbone, for: vote on c."),
        ({("cot", "a"): [1, 1, 1]}, [1, 2, 3], "Difficulty and accuracy have no rank correlation"),
    ],
)
def test_what_cannot_be_told_is_named(
    scores: dict[tuple[str, str], list[float]], difficulty: list[float] | None, sentence: str
) -> None:
    """Tiny and one-sided studies give an analysis with a sentence for what is missing, never an exception."""
    analysis = build_analysis([make_study(scores, difficulty)], reference="cot", models=False)
    assert any(note.startswith(sentence) for note in analysis["tasks"]["sums"]["not_identified"])
    json.dumps(analysis, allow_nan=False)


def test_no_control_to_match() -> None:
    """Where no control's price is known, that is said, and the unknown rows are named."""
    study = make_study({("cot", "a"): [1, 0], ("vote2", "a"): [1, 0]})
    study = with_costs(study, {("cot", "a"): [math.nan, 1], ("vote2", "a"): [1, 1]})
    task = build_analysis([study], reference="cot", models=False)["tasks"]["sums"]
    assert "The cost in usd is unknown for: cot on a." in task["not_identified"]
    assert "No control has a known cost in usd: there is nothing to match." in task["not_identified"]
    table = task["cost"]["usd"]
    assert [row["on_frontier"] for row in table["rows"]] == [None, True]
    assert (table["area"], table["area_controls"], table["ratios"]) == (None, None, [])


def test_nothing_and_mixed_kinds() -> None:
    """No studies give no tasks; studies of two kinds of pool are refused."""
    told = {"reference": "cot", "models_without": [], "ratios_to": []}
    assert build_analysis([], reference="cot") == {"format": 1, "pool_kind": None, **told, "tasks": {}}
    with pytest.raises(LedgerError, match="kinds of pool live, simulated"):
        build_analysis([pool(), replace(pool("words"), pool_kind="live")], reference="cot")
