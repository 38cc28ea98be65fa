"""What an analysis becomes in a report: every table with its numbers, nothing where there is nothing."""

from __future__ import annotations

from typing import Any

from evals.report.analysis import build_analysis
from evals.report.blocks import Bullets, Grid, Part, Text
from evals.report.content_analysis import analysis_parts
from evals.stats.study import COLUMNS, studies
from tests.evals.report.conftest import MANIFEST
from trinity.runs.records import columns_of
from trinity.types import Record

MODELS: dict[str, Any] = {
    "fits": [
        {
            "model": "M1",
            "formula": "correct ~ method + (1 | item)",
            "n_rows": 500,
            "log_lik": -123.456,
            "aic": 256.9,
            "variances": [
                {"term": "item", "estimate": 0.5, "at_boundary": False},
                {"term": "item:LLM", "estimate": 1e-9, "at_boundary": True},
            ],
        },
    ],
    "tests": [{"smaller": "M0", "larger": "M1", "chi2": 9.25, "df": 2, "p": 0.0098}],
    "odds_ratios": [
        {"method": "vote", "backbone": None, "ratio": 1.5, "ci_low": 1.1, "ci_high": 2.05, "p": 0.01, "p_holm": 0.02}
    ],
    "slope_ratios": [],
    "odds_ratios_by_backbone": [
        {"method": "vote", "backbone": "b1", "ratio": 2, "ci_low": 1, "ci_high": 4, "p": 0.0001, "p_holm": 0.0002}
    ],
}
ANALYSIS: dict[str, Any] = {
    "pool_kind": "recorded",
    "reference": "best_single",
    "tasks": {
        "sums": {
            "difficulty": {
                "kind": "human",
                "n_known": 40,
                "quartiles": [],
                "gains": [
                    {"method": "vote", "quartile": 3, "n_items": 10, "difference": 0.1, "ci_low": 0.02, "ci_high": 0.2}
                ],
                "spearman": {"rho": -0.5, "ci_low": -0.7, "ci_high": -0.25, "p": 0.001, "p_holm": 0.002},
            },
            "pooled": [
                {
                    "method": "vote",
                    "n_items": 40,
                    "difference": 0.05,
                    "ci_low": -0.01,
                    "ci_high": 0.11,
                    "p": 0.2,
                    "p_holm": 0.4,
                    "wins": 6,
                    "losses": 4,
                    "ties": 30,
                }
            ],
            "detectable": [
                {"method": "vote", "n_items": 40, "difference": 0.125, "items_needed": {"0.01": 6000, "0.05": None}}
            ],
            "interaction": [
                {
                    "method": "vote",
                    "backbone": name,
                    "n_items": 40,
                    "accuracy": 0.5,
                    "difference": 0.05,
                    "ci_low": 0,
                    "ci_high": 0.1,
                    "p": 0.5,
                    "p_holm": 1,
                    "wins": 3,
                    "losses": 1,
                }
                for name in ("b1", "b2")
            ],
            "leave_one_out": [
                {"method": "vote", "without": "b1", "difference": 0.01, "ci_low": -0.02, "ci_high": 0.04}
            ],
            "truncation": [
                {
                    "method": "vote",
                    "backbone": "b1",
                    "n_truncated": 3,
                    "accuracy": 0.5,
                    "accuracy_without": 0.54,
                    "accuracy_raw": 0.52,
                },
                {"method": "x", "backbone": "b1", "n_truncated": 0},
            ],
            "cost": {
                "usd": {
                    "rows": [
                        {
                            "method": "vote",
                            "backbone": "b1",
                            "per_correct": 0.02,
                            "ci_low": 0.01,
                            "ci_high": None,
                            "on_frontier": True,
                        }
                    ]
                }
            },
            "models": MODELS,
            "verifier": [{"method": "coordinator sampled", "n": 80, "true_accept": 0.9, "false_accept": None}],
            "not_identified": ["One model: none can be left out."],
        },
        "words": {"not_identified": ["One model: none can be left out.", "No price is known."], "models": None},
    },
}


def grids(parts: list[Part]) -> list[list[str]]:
    """The rows of all tables, the lines of a cell in one."""
    found = [block for part in parts for block in part.blocks if isinstance(block, Grid)]
    assert all(len(row) == len(grid.titles) for grid in found for row in grid.rows)
    return [[cell.replace("\n", " ") for cell in row] for grid in found for row in grid.rows]


def test_every_number_has_its_place() -> None:
    """Differences in points with signs, ratios with intervals, p-values, needed items, shares; unknown ones are n/a."""
    found = grids(analysis_parts(ANALYSIS, {}))
    for row in (
        ["sums", "vote", "40", "+5.0 (−1.0 to +11.0)", "0.200", "0.400", "6", "4", "30"],
        ["sums", "vote", "40", "12.5", "6,000", "n/a"],
        ["sums", "human", "40", "−0.50 (−0.70 to −0.25)", "0.002"],
        ["sums", "vote", "n/a", "n/a", "n/a", "+10.0 (+2.0 to +20.0)"],
        ["sums", "M1", "vote", "all backbones", "1.5 (1.1 to 2.05)", "0.010", "0.020"],
        ["sums", "M3", "vote", "b1", "2 (1 to 4)", "< 0.001", "< 0.001"],
        ["sums", "M0 in M1", "9.25", "2", "0.010"],
        ["sums", "M1", "correct ~ method + (1 | item)", "500", "−123.46", "256.9", "item 0.5 item:LLM ≈ 0"],
        ["sums", "vote", "b2", "40", "50.0", "+5.0 (0.0 to +10.0)", "0.500", "1.000", "3", "1"],
        ["sums", "vote", "b1", "+1.0 (−2.0 to +4.0)"],
        ["sums", "vote", "b1", "0.02 (0.01 to ∞)", "USD"],
        ["sums", "vote", "b1", "3", "50.0", "54.0", "52.0"],
        ["sums", "coordinator sampled", "80", "90.0", "n/a"],
    ):
        assert row in found
    assert len(found) == 14


def test_every_part_says_its_kind_of_pool() -> None:
    """The first block of each part names it; the reference is called what it is."""
    parts = analysis_parts(ANALYSIS, {})
    assert all(part.blocks[0] == Text("Recorded pool, test items.") for part in parts)
    assert [part.heading for part in parts] == [
        "Against the best single agent", "Difficulty", "Mixed models of difficulty", "Method and backbone",
        "Cost per correct answer", "Sensitivity", "Verifiers", "What this analysis cannot tell",
    ]  # fmt: skip


def test_a_sentence_of_several_tasks_stands_once() -> None:
    """What cannot be told is said once, with the tasks that it is true of."""
    (last,) = [block for block in analysis_parts(ANALYSIS, {})[-1].blocks if isinstance(block, Bullets)]
    assert last.sentences == ["sums, words: One model: none can be left out.", "words: No price is known."]


def test_a_run_too_small_to_see_anything_says_so() -> None:
    """Where only a difference of more than 100 points would be seen, none would."""
    entry = {"method": "vote", "n_items": 3, "difference": 1.2, "items_needed": {}}
    found = analysis_parts({"pool_kind": "live", "tasks": {"sums": {"detectable": [entry]}}}, {})
    assert grids(found) == [["sums", "vote", "3", "none"]]


def test_nothing_is_told_of_nothing() -> None:
    """Without an analysis, tasks or entries there is no part at all."""
    assert analysis_parts({}, {}) == []
    assert analysis_parts({"pool_kind": "live", "tasks": {"sums": {}}}, {}) == []


def test_a_real_analysis_can_be_told(run_records: list[Record]) -> None:
    """What `build_analysis` makes of the small run becomes tables whose rows fit their titles."""
    found = build_analysis(
        studies(columns_of(run_records, COLUMNS), [agent["name"] for agent in MANIFEST["agents"]]),
        reference="best_single",
        models=False,
    )
    rows = grids(analysis_parts(found, {}))
    assert {row[0] for row in rows} == {"choice", "sums"}
    assert {"lookup", "coordinator sampled"} <= {row[1] for row in rows}
