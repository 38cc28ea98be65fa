"""What an analysis becomes in a report: every table with its numbers, nothing where there is nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evals.report.analysis import build_analysis
from evals.report.blocks import POINTS, Block, Bullets, Grid, Part, Text
from evals.report.content_analysis import analysis_parts, over_backbones
from evals.stats.study import COLUMNS, studies
from tests.evals.report.conftest import MANIFEST
from trinity.runs.records import columns_of
from trinity.types import Record

MODELS: dict[str, Any] = {
    "reference": "single",
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
                    "difference": 0.05,
                    "difference_without": -0.01,
                    "difference_raw": None,
                },
                {"method": "x", "backbone": "b1", "n_truncated": 0},
                {"method": "y", "backbone": "b1", "n_truncated": 0, "difference": 0.1, "difference_without": 0.0},
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
                        },
                        {"method": "vote", "backbone": "b2", "per_correct": None, "on_frontier": False},
                        {"method": "x", "backbone": "b1", "per_correct": 0.04, "ci_low": 0.03, "ci_high": 0.05},
                    ],
                    "pooled": [
                        {"method": "vote", "backbone": None, "per_correct": 0.03, "ci_low": 0.02, "ci_high": 0.05},
                        {"method": "x", "backbone": None, "per_correct": 0.04, "ci_low": 0.03, "ci_high": 0.05},
                    ],
                    "ratios": [
                        {"method": "vote", "backbone": name, "ratio": 2.5, "ci_low": 2, "ci_high": 3}
                        for name in ("b1", "b2", None)
                    ],
                    "scale": "log",
                    "low": 0.01,
                    "high": 0.25,
                    "area": 0.625,
                    "area_controls": None,
                    "matched": [
                        {
                            "method": "x",
                            "backbone": "b1",
                            "mixture": [
                                {"method": "single", "backbone": "b1", "share": 0.25},
                                {"method": "vote", "backbone": "b2", "share": 0.75},
                            ],
                            "mean": 0.02,
                            "mixture_mean": 0.0175,
                            "difference": 0.03,
                            "ci_low": -0.01,
                            "ci_high": 0.07,
                            "p": 0.04,
                            "p_holm": 0.08,
                        },
                        {"method": "z", "backbone": "b1", "mixture": [], "mean": 0.001, "mixture_mean": None},
                    ],
                },
                "gflop": {
                    "rows": [{"method": "vote", "backbone": "b2", "per_correct": 120, "ci_low": 99, "ci_high": 150}],
                    "matched": [],
                },
            },
            "models": MODELS,
            "verifier": [
                {
                    "method": "coordinator sampled",
                    "n": 80,
                    "n_correct": 80,
                    "true_accept": 0.9,
                    "true_accept_low": 0.8,
                    "true_accept_high": 0.95,
                    "false_accept": None,
                    "precision": 1.0,
                    "precision_low": 0.9,
                    "precision_high": 1.0,
                }
            ],
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
        ["sums", "M1", "vote", "single", "all backbones", "1.5 (1.1 to 2.05)", "0.010", "0.020"],
        ["sums", "M3", "vote", "single", "b1", "2 (1 to 4)", "<0.001", "<0.001"],
        ["sums", "M0 in M1", "9.25", "2", "0.010"],
        ["sums", "M1", "correct ~ method + (1 | item)", "500", "−123.46", "256.9", "item 0.5 item:LLM ≈ 0"],
        ["sums", "vote", "b2", "40", "50.0", "+5.0 (0.0 to +10.0)", "0.500", "1.000", "3", "1"],
        ["sums", "vote", "b1", "+1.0 (−2.0 to +4.0)"],
        ["sums", "vote", "b1", "0.02 (0.01 to ∞)", "n/a", "USD"],
        ["sums", "vote", "b2", "n/a", "120 (99 to 150)", ""],
        ["sums", "vote", "all", "0.03 (0.02 to 0.05)", "n/a", ""],
        ["sums", "x", "b1", "0.04 (0.03 to 0.05)", "n/a", ""],
        ["sums", "vote", "b1", "2.5 (2 to 3)"],
        ["sums", "vote", "b2", "2.5 (2 to 3)"],
        ["sums", "vote", "all", "2.5 (2 to 3)"],
        [
            *("sums", "x", "b1", "USD", "25.0 % single · b1 75.0 % vote · b2", "0.0175", "0.02"),
            *("+3.0 (−1.0 to +7.0)", "0.040", "0.080"),
        ],
        ["sums", "z", "b1", "USD", "none as cheap", "n/a", "0.001", "n/a", "n/a", "n/a"],
        ["sums", "USD", "0.01 to 0.25, log", "62.5", "n/a"],
        ["sums", "vote", "b1", "3", "50.0", "54.0", "52.0", "+5.0", "−1.0", "n/a"],
        ["sums", "y", "b1", "0", "n/a", "n/a", "n/a", "+10.0", "0.0", "n/a"],
        ["sums", "coordinator sampled", "80", "80", "90.0 (80.0 to 95.0)", "n/a", "100.0 (90.0 to 100.0)"],
    ):
        assert row in found
    assert len(found) == 24


def test_every_part_says_its_kind_of_pool() -> None:
    """The first block of each part names it; the reference is called what it is."""
    parts = analysis_parts(ANALYSIS, {})
    assert all(part.blocks[0] == Text("Recorded pool, test items.") for part in parts)
    assert [part.heading for part in parts] == [
        "Against the best single agent", "Difficulty", "Mixed models of difficulty", "Method and backbone",
        "Cost per correct answer", "Cost beside that of the best single agent", "Accuracy at the same cost",
        "What a budget buys", "Truncated answers", "Verifiers", "What this analysis cannot tell",
    ]  # fmt: skip


def test_every_table_is_explained() -> None:
    """Each part with a table says how to read it, what is counted, and what Holm's p allows for."""
    found = {part.heading: part.blocks for part in analysis_parts(ANALYSIS, {})}
    for blocks in found.values():
        n_tables = sum(isinstance(block, Grid) for block in blocks)
        assert sum(isinstance(block, Text) for block in blocks[1:]) >= min(n_tables, 1)
    said = {heading: words(blocks) for heading, blocks in found.items()}
    against = said["Against the best single agent"]
    assert "Repaired: answers (one an item and backbone, replicates averaged)" in against
    assert "Holm's p allows for all methods of one task." in against
    assert "Repaired and broken count items." in said["Method and backbone"]
    assert "Mixtures are chosen on the items shown, which favours the controls." in said["Accuracy at the same cost"]


def words(blocks: Sequence[Block]) -> str:
    """The paragraphs of a part."""
    return " ".join(block.text for block in blocks if isinstance(block, Text))


def models_of(**changes: Any) -> list[Part]:
    """The part on models, where they say something else."""
    tasks = {"sums": {"models": {**MODELS, **changes}}}
    return analysis_parts({"pool_kind": "live", "reference": "best_single", "tasks": tasks}, {})


def test_odds_ratios_name_what_they_stand_against() -> None:
    """Where another method stands in the place of the analysis's reference it is said; where not, nothing is."""
    (part,) = models_of()
    assert "In sums single stands in the place of best_single" in words(part.blocks)
    (part,) = models_of(reference="best_single")
    assert "stands in the place" not in words(part.blocks)
    assert ["sums", "M1", "vote", "best_single", "all backbones"] in [row[:5] for row in grids([part])]


def test_models_without_odds_ratios_are_told() -> None:
    """Log-likelihood, AIC and tests are shown without odds ratios, each alone too; without anything no heading."""
    none: dict[str, list[Any]] = {"odds_ratios": [], "slope_ratios": [], "odds_ratios_by_backbone": []}
    (part,) = models_of(**none)
    assert [row[:3] for row in grids([part])] == [
        ["sums", "M0 in M1", "9.25"],
        ["sums", "M1", MODELS["fits"][0]["formula"]],
    ]
    assert "No odds ratio can be estimated" in words(part.blocks)
    (part,) = models_of(**none, tests=[])
    assert len(grids([part])) == 1
    assert models_of(**none, tests=[], fits=[]) == []


def test_a_sentence_of_several_tasks_stands_once() -> None:
    """What cannot be told is said once, with the tasks that it is true of."""
    (last,) = [block for block in analysis_parts(ANALYSIS, {})[-1].blocks if isinstance(block, Bullets)]
    assert last.sentences == ["sums, words: One model: none can be left out.", "words: No price is known."]


def test_a_run_too_small_to_see_anything_says_so() -> None:
    """Where only a difference of more than 100 points would be seen, none would."""
    entry = {"method": "vote", "n_items": 3, "difference": 1.2, "items_needed": {}}
    found = analysis_parts({"pool_kind": "live", "tasks": {"sums": {"detectable": [entry]}}}, {})
    assert grids(found) == [["sums", "vote", "3", "none"]]


def costs(*entries: dict[str, Any], key: str = "ratios") -> list[Part]:
    """The parts of an analysis with these costs in weighted tokens."""
    tasks = {"sums": {"cost": {"weighted_tokens": {key: list(entries)}}}}
    return analysis_parts({"pool_kind": "live", "reference": "cot", "tasks": tasks}, {})


def test_ratios_to_two_methods_stand_side_by_side() -> None:
    """One column for each method that costs are told by, a dash in its own rows; methods in the order of tables."""
    ends = {"ci_low": 1, "ci_high": 3}
    (part,) = costs(
        {"method": "debate", "backbone": "a", "to": "cot", "ratio": 2, **ends},
        {"method": "task_only", "backbone": "a", "to": "cot", "ratio": 0.5, **ends},
        {"method": "cot", "backbone": "a", "to": "task_only", "ratio": 2.5, **ends},
    )
    assert part.heading == "Cost beside that of cot"
    (table,) = [block for block in part.blocks if isinstance(block, Grid)]
    assert table.titles[3:] == ["weighted tokens\n÷ cot", "weighted tokens\n÷ task_only"]
    assert grids([part]) == [
        ["sums", "task_only", "a", "0.5 (1 to 3)", "–"],
        ["sums", "cot", "a", "–", "2.5 (1 to 3)"],
        ["sums", "debate", "a", "2 (1 to 3)", "n/a"],
    ]
    assert "of cot and of task_only, each on the same items" in words(part.blocks)


def test_accuracy_stands_beside_mean_cost() -> None:
    """Accuracy and mean cost of a row with their intervals; one whose cost is unknown keeps its accuracy."""
    share = {"accuracy": 0.5, "accuracy_low": 0.4, "accuracy_high": 0.6}
    found = costs(
        {"method": "vote", "backbone": "a", **share, "mean": 900, "mean_low": 800, "mean_high": 1000},
        {"method": "cot", "backbone": "a", **share, "mean": None},
        key="rows",
    )
    assert found[0].heading == "Accuracy and mean cost"
    assert grids(found[:1]) == [
        ["sums", "cot", "a", "50.0 (40.0 to 60.0)", "n/a"],
        ["sums", "vote", "a", "50.0 (40.0 to 60.0)", "900 (800 to 1,000)"],
    ]


def test_the_reference_is_called_by_its_name() -> None:
    """Nothing speaks of a best single agent where differences are taken to another method."""
    parts = analysis_parts({**ANALYSIS, "reference": "cot"}, {})
    assert parts[0].heading == "Against cot"
    assert "single agent" not in str([part for part in parts if part.heading != "Mixed models of difficulty"])


def test_nothing_is_told_of_nothing() -> None:
    """Without an analysis, tasks or entries there is no part at all."""
    assert analysis_parts({}, {}) == []
    assert analysis_parts({"pool_kind": "live", "tasks": {"sums": {}}}, {}) == []


def test_a_real_analysis_can_be_told(run_records: list[Record]) -> None:
    """What `build_analysis` makes of the small run becomes tables whose rows fit their titles."""
    found = build_analysis(
        studies(columns_of(run_records, COLUMNS), {agent["name"]: agent["model"] for agent in MANIFEST["agents"]}),
        reference="best_single",
        models=False,
    )
    rows = grids(analysis_parts(found, {}))
    assert {row[0] for row in rows} == {"choice", "sums"}
    assert {"lookup", "coordinator sampled"} <= {row[1] for row in rows}


def test_a_difference_of_nothing_says_so() -> None:
    """Where no item differs the cell says it; where some do and even out it does not, nor where nothing is known."""
    zero = {"difference": 0.0, "ci_low": -0.324, "ci_high": 0.324, "n_items": 8, "wins": 0, "losses": 0}
    cell = POINTS[1]
    assert cell(zero) == "0.0\n(−32.4 to +32.4)\nno item differs"
    assert cell({**zero, "wins": 1, "losses": 1}) == "0.0\n(−32.4 to +32.4)"
    assert cell({}) == "n/a"


def pooled(method: str, difference: float, p_holm: float | None) -> dict[str, Any]:
    """A method's difference over all backbones."""
    ends = {"ci_low": difference - 0.05, "ci_high": difference + 0.05}
    return {"method": method, "n_items": 60, "difference": difference, "p_holm": p_holm, **ends}


def told(*rows: dict[str, Any], backbones: Sequence[str] = ("a", "b")) -> list[str]:
    """The sentences of one task whose methods were played on some backbones."""
    played = [
        {"method": row["method"], "backbone": backbone, "difference": row["difference"] + 0.4 * place}
        for row in rows
        for place, backbone in enumerate(backbones)
    ]
    return over_backbones({"tasks": {"sums": {"pooled": list(rows), "interaction": played}}})


def test_methods_over_all_backbones_come_first() -> None:
    """A sentence a method, better or worse by its own adjusted p, and what the sentences after them are about."""
    first, second, last = told(pooled("debate", 0.087, 0.024), pooled("best_of_n", -0.01, 0.8))
    assert first == (
        "debate on sums, over all backbones (a +8.7, b +48.7): better, +8.7 points "
        "on 60 items graded for both, p 0.024 adjusted."
    )
    assert "best_of_n on sums, over all backbones (a −1.0, b +39.0): no difference is shown" in second
    assert last.startswith("Of single backbones")


def test_of_many_backbones_the_ends_are_told() -> None:
    """A mean over more backbones than fit stands with the lowest and the highest of them."""
    first = told(pooled("debate", -0.5, 0.024), backbones=["a", "b", "c", "d", "e"])[0]
    assert first.startswith("debate on sums, over all backbones (a −50.0 to e +110.0): worse, −50.0 points")


def test_nothing_is_pooled_over_one_backbone() -> None:
    """One backbone, controls alone, differences without a test and runs without an analysis: no sentence."""
    assert told(pooled("debate", 0.1, 0.01), backbones=["a"]) == []
    assert told(pooled("task_only", 0.1, 0.01)) == []
    assert told(pooled("debate", 0.1, None)) == []
    assert over_backbones({}) == []
