"""From the published cells of the orchestration study our functions give its tables and what weakens them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from evals.stats.contrasts import gains, interaction_rows, leave_one_out_rows, pooled_rows
from evals.stats.cost import cost_rows, pooled, priced, ratio_rows
from tests.evals.stats.published import BENCHMARKS, N_ITEMS, ORCHESTRATED, benchmark, rows, table

SHARED = Path(__file__).parents[4] / "shared" / "facts" / "orchestration_cells.csv"


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.exists(), reason="the study's cells are not beside the repository")
def test_cells_are_those_published() -> None:
    """The 75 cells stored with the tests equal the shared ones."""
    with SHARED.open(encoding="utf-8") as file:
        shared = [
            (r["benchmark"], r["model"], r["method"], r["acc"], r["tw_per_correct"]) for r in csv.DictReader(file)
        ]
    assert [tuple(row.values())[:5] for row in rows("cells")] == shared
    assert len(shared) == 75


@pytest.mark.parametrize("name", BENCHMARKS)
def test_cells_are_met(name: str) -> None:
    """Expanded into items, each cell keeps its accuracy and its weighted tokens per correct answer."""
    found = {(row["method"], row["backbone"]): row for row in cost_rows(priced(benchmark(name), "weighted_tokens"))}
    cells = [cell for cell in rows("cells") if cell["benchmark"] == name]
    assert len(found) == len(cells) == 25
    for cell in cells:
        row = found[cell["method"], cell["backbone"]]
        assert row["n_items"] == N_ITEMS
        assert 100 * row["accuracy"] == pytest.approx(float(cell["accuracy"]))
        assert row["per_correct"] == pytest.approx(float(cell["weighted_tokens_per_correct"]))
        assert row["ci_low"] < row["per_correct"] < row["ci_high"]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_accuracy_and_token_tables(name: str) -> None:
    """Means over the five backbones are the published ones, to the digits that were printed."""
    found = {row["method"]: row for row in cost_rows(pooled(priced(benchmark(name), "weighted_tokens")))}
    for row in table("accuracy"):
        if row["benchmark"] == name:
            assert 100 * found[row["method"]]["accuracy"] == pytest.approx(float(row["value"]), abs=0.05 + 1e-9)
    for row in table("weighted_tokens_thousands"):
        if row["benchmark"] == name:
            assert found[row["method"]]["mean"] / 1000 == pytest.approx(float(row["value"]), abs=0.05 + 1e-9)


@pytest.mark.parametrize(
    ("reference", "name"), [("CoT", "token_ratio_to_cot"), ("Task-only", "token_ratio_to_task_only")]
)
def test_token_ratios(reference: str, name: str) -> None:
    """Token ratios to either reference over all backbones are the published ones."""
    expected = {(row["benchmark"], row["method"]): float(row["value"]) for row in table(name)}
    assert len(expected) == 9
    for task in BENCHMARKS:
        study = benchmark(task)
        found = ratio_rows(study, priced(study, "weighted_tokens"), reference)
        whole = {row["method"]: row["ratio"] for row in found if row["backbone"] is None}
        for method in ORCHESTRATED:
            assert whole[method] == pytest.approx(expected[task, method], abs=0.005 + 1e-9)


@pytest.mark.parametrize(
    ("name", "reference"),
    [("difference_to_cot", "CoT"), ("cot_minus_task_only", "Task-only"), ("difference_to_task_only", "Task-only")],
)
def test_pooled_differences(name: str, reference: str) -> None:
    """Differences over all backbones are the published ones."""
    found = {
        (task, row["method"]): row["difference"]
        for task in BENCHMARKS
        for row in pooled_rows(gains(benchmark(task), reference))
    }
    for row in table(name):
        assert 100 * found[row["benchmark"], row["method"]] == pytest.approx(float(row["value"]), abs=0.05 + 1e-9)


def test_differences_by_backbone() -> None:
    """All 45 differences to chain of thought per backbone are exact; wins less losses are 200 times as many."""
    found = {
        (task, row["method"], row["backbone"]): row
        for task in BENCHMARKS
        for row in interaction_rows(gains(benchmark(task), "CoT"))
    }
    expected = table("difference_to_cot_by_backbone")
    assert len(expected) == 45
    for cell in expected:
        row = found[cell["benchmark"], cell["method"], cell["backbone"]]
        assert 100 * row["difference"] == pytest.approx(float(cell["value"]), abs=1e-9)
        assert row["wins"] - row["losses"] == round(N_ITEMS * float(cell["value"]) / 100)
        assert row["ci_low"] <= row["difference"] <= row["ci_high"]
        assert row["p"] <= row["p_holm"] <= 1


def test_leave_one_backbone_out() -> None:
    """Gains that hang on one backbone: Codeforces Best-of-N +4.2 is +0.75 without GLM, and the others found."""
    found = {
        (task, row["method"], row["without"]): row["difference"]
        for task in BENCHMARKS
        for row in leave_one_out_rows(gains(benchmark(task), "CoT"))
    }
    expected = table("difference_to_cot_without_backbone")
    assert len(expected) == 6
    for row in expected:
        key = row["benchmark"], row["method"], row["backbone"]
        assert 100 * found[key] == pytest.approx(float(row["value"]), abs=0.05 + 1e-9)
    assert 100 * found["Codeforces", "Best-of-N", "GLM 4.7 Flash"] == pytest.approx(0.75)
