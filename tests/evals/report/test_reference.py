"""Differences to another method than the best single agent: on the same backbone, or unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from evals.report.analysis import build_analysis
from evals.report.content import parts
from evals.report.data import ReportData
from evals.report.sweep import grids
from evals.report.table import COLUMNS as TABLE
from evals.report.table import columns_for, findings, mdd_sentence, reference_title
from evals.stats.methods import known
from evals.stats.study import COLUMNS, studies
from tests.evals.report.support import summarise
from trinity.runs.records import columns_of
from trinity.types import Record

MakeRecord = Callable[..., Record]
Rows = Mapping[tuple[str, str], Sequence[int]]

AGENTS = [{"name": name, "model": f"m-{name}", "price": None, "active_params": None} for name in ("small", "large")]
MODELS = {str(agent["name"]): str(agent["model"]) for agent in AGENTS}
STUDY: Rows = {
    ("task_only", "small"): [1, 0, 0, 0, 0, 0],
    ("task_only", "large"): [1, 1, 1, 0, 0, 0],
    ("cot", "small"): [1, 1, 0, 0, 0, 0],
    ("cot", "large"): [1, 1, 1, 1, 0, 0],
    ("self_refine", "small"): [1, 1, 1, 1, 1, 0],
    ("self_refine", "large"): [1, 1, 0, 0, 0, 0],
    ("coordinator", "sampled"): [1, 1, 1, 1, 1, 1],
}


def settings(**analysis: Any) -> dict[str, Any]:
    """A manifest of two agents whose differences are taken to cot, unless `analysis` says otherwise."""
    return {"agents": AGENTS, "config": {"analysis": {"reference": "cot", **analysis}}}


@pytest.fixture
def played(make_record: MakeRecord) -> Callable[..., list[Record]]:
    """Records of rows of 0/1 scores; a row of an agent has that agent's model as backbone, others the pool."""

    def make(rows: Rows, **changes: Any) -> list[Record]:
        return [
            make_record(float(score), method=method, variant=variant, backbone=MODELS.get(variant, "team"),
                        item_id=f"i{number}", **changes)
            for (method, variant), scores in rows.items()
            for number, score in enumerate(scores)
        ]  # fmt: skip

    return make


def rows_of(records: Iterable[Record], manifest: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The summary's rows over all tasks by method and variant."""
    rows = summarise(records, manifest=manifest)["rows"]
    return {(row["method"], row["variant"]): row for row in rows if row["task"] == "all"}


def test_differences_are_taken_on_the_same_backbone(played: Callable[..., list[Record]]) -> None:
    """Small against small (+3 of 6), large against large (-2 of 6); which row it was is said."""
    rows = rows_of(played(STUDY), settings())
    assert rows["self_refine", "small"]["diff"] == pytest.approx(3 / 6)
    assert rows["self_refine", "large"]["diff"] == pytest.approx(-2 / 6)
    assert rows["task_only", "small"]["diff"] == pytest.approx(-1 / 6)
    assert {key: row["reference_variant"] for key, row in rows.items() if row["diff"] is not None} == {
        (method, name): name for method in ("task_only", "self_refine") for name in ("small", "large")
    }
    assert [key for key, row in rows.items() if row["reference"]] == [("cot", "large"), ("cot", "small")]
    assert {row["reference_method"] for row in rows.values()} == {"cot"}
    assert rows["coordinator", "sampled"]["backbone"] == "team"


def test_a_row_of_no_backbone_is_not_compared_to_several(played: Callable[..., list[Record]]) -> None:
    """With two rows of cot the coordinator's difference is unknown and that is said; with one it is taken to that."""
    found = summarise(played(STUDY), manifest=settings())
    row = rows_of(played(STUDY), settings())["coordinator", "sampled"]
    assert (row["diff"], row["p"], row["p_holm"], row["n_paired"]) == (None, None, None, 0)
    sentence = "Several rows of cot, none on the same backbone, so that no difference is known: coordinator sampled."
    assert sentence in findings(found)
    one = {key: scores for key, scores in STUDY.items() if key != ("cot", "large")}
    row = rows_of(played(one), settings())["coordinator", "sampled"]
    assert (row["diff"], row["reference_variant"]) == (pytest.approx(4 / 6), "small")


def test_a_setting_behind_the_agent_keeps_the_backbone(
    played: Callable[..., list[Record]], make_record: MakeRecord
) -> None:
    """`small@n=5` is compared to cot of small; a fixed agent is told by its model where its variant names none."""
    more = [
        make_record(1.0, method=method, variant=variant, backbone="m-small", item_id=f"i{number}")
        for method, variant in (("matched_vote", "small@n=5"), ("lookup", ""))
        for number in range(6)
    ]
    rows = rows_of([*played(STUDY), *more], settings())
    assert rows["matched_vote", "small@n=5"]["reference_variant"] == "small"
    assert rows["lookup", ""]["reference_variant"] == "small"


def test_a_missing_reference_is_said(played: Callable[..., list[Record]]) -> None:
    """Nothing is invented: all differences and what could be detected are unknown, with the reason."""
    found = summarise(played(STUDY), manifest=settings(reference="lookup"))
    assert {row["diff"] for row in found["rows"]} == {None}
    assert not any(row["reference"] for row in found["rows"])
    assert "There is no row of lookup, to which differences are taken: they are unknown." in findings(found)
    assert found["mdd"]["difference"] is found["mdd"]["comparison"] is None
    assert "no method has a row of lookup to be compared to" in mdd_sentence(found)


def test_a_run_of_controls_alone_blames_no_reference(played: Callable[..., list[Record]]) -> None:
    """Where the reference has its row and no method was tested yet, that is what is said."""
    rows = {key: scores for key, scores in STUDY.items() if known(key[0]).role != "method"}
    found = summarise(
        played({**rows, ("best_single", ""): [1, 1, 0, 1, 1, 1]}), manifest=settings(reference="best_single")
    )
    assert any(row["reference"] for row in found["rows"])
    assert "n/a (no method is there besides controls and bounds)" in mdd_sentence(found)


def test_methods_are_adjusted_together_and_controls_are_not(played: Callable[..., list[Record]]) -> None:
    """Two rows of one method, two coordinators of a plug-in's name: four tests; task_only beside them is none."""
    rows = {**STUDY, ("mine", "small"): [1, 1, 1, 1, 1, 1], ("mine", "large"): [1, 1, 1, 1, 1, 1]}
    found = rows_of(played(rows), settings())
    tested = [key for key, row in found.items() if row["p_holm"] is not None]
    assert tested == [("self_refine", "large"), ("self_refine", "small"), ("mine", "large"), ("mine", "small")]
    # By McNemar: 2 of 2 worse, 3 of 3, 2 of 2 and 4 of 4 better.
    assert [found[key]["p"] for key in tested] == pytest.approx([1 / 2, 1 / 4, 1 / 2, 1 / 8])
    assert [found[key]["p_holm"] for key in tested] == pytest.approx([1, 3 / 4, 1, 1 / 2])
    assert found["task_only", "small"]["p"] is not None


def test_what_is_told_first(played: Callable[..., list[Record]]) -> None:
    """What could be detected is told of a method that has a reference, and names both rows."""
    found = summarise(played(STUDY), manifest=settings())
    assert found["mdd"]["comparison"] == "self_refine large and cot large"
    assert found["mdd"]["n_items"] == 6
    alone = {key: scores for key, scores in STUDY.items() if key != ("cot", "large")}
    assert summarise(played(alone), manifest=settings())["mdd"]["comparison"] == "coordinator sampled and cot small"


def test_verdicts_of_many_rows(played: Callable[..., list[Record]]) -> None:
    """Few rows get a sentence each that names the opponent; of many those without a difference share one."""
    few = findings(summarise(played(STUDY), manifest=settings()))
    assert few[0].startswith("self_refine large against cot large: no difference is shown, −33.3 points on 6 items")
    many: dict[tuple[str, str], list[int]] = {("cot", "small"): [0] * 12, ("debate", "small"): [1] * 12}
    many |= {(f"m{number}", "small"): [0] * 11 + [1] for number in range(5)}
    told = findings(summarise(played(many), manifest=settings()))
    assert (
        told[0]
        == "debate small against cot small: better, +100.0 points on 12 items graded for both, p 0.003 adjusted."
    )
    assert told[1] == "No difference to cot is shown, p adjusted: m0 small; m1 small; m2 small; m3 small; m4 small."


def test_titles_say_the_reference(played: Callable[..., list[Record]], summary: dict[str, Any]) -> None:
    """`vs cot`; by default `vs best single`, as for rows of earlier versions; rows of several say `vs reference`."""
    found = summarise(played(STUDY), manifest=settings())
    assert [column.title for column in columns_for(found["rows"])][2] == "vs cot\n(95 % CI)"
    assert [column.title for column in columns_for(summary["rows"])][2] == "vs best single\n(95 % CI)"
    old = [{key: value for key, value in row.items() if key != "reference_method"} for row in summary["rows"]]
    assert reference_title(old) == "best single"
    assert reference_title([*found["rows"], *old]) == "reference"
    assert "{reference}" in TABLE[2].title


def test_a_sweep_of_two_references_says_reference(played: Callable[..., list[Record]]) -> None:
    """Jobs that are compared to different methods share a column that does not name one."""
    found = [summarise(played(STUDY), manifest=settings(reference=name)) for name in ("cot", "task_only")]
    rows = [{**row, "job": str(n), "varied": {}} for n, each in enumerate(found) for row in each["rows"]]
    rows = [{**row, "pool_kind": "live"} for row in rows]
    (grid,) = grids({"rows": rows, "jobs": [], "varied": [], "sweep": "s", "n_jobs": 2})
    assert "vs reference\n(95 % CI)" in grid.titles


def test_headroom_is_about_single_agents(played: Callable[..., list[Record]], summary: dict[str, Any]) -> None:
    """Whatever the reference, headroom is over the best single agent; without agents alone it is not told of."""
    headings = [part.heading for part in parts(ReportData(summarise(played(STUDY), manifest=settings()), {}), {})]
    assert "Headroom" not in headings
    single = summarise(played({("single", "small"): [1, 0], ("oracle", ""): [1, 1]}), manifest=settings())
    (part,) = [part for part in parts(ReportData(single, {}), {}) if part.heading == "Headroom"]
    assert "chosen on validation" not in str(part.blocks[-1])
    (part,) = [part for part in parts(ReportData(summary, {}), {}) if part.heading == "Headroom"]
    assert "The best single agent was chosen on validation items; the best agent on test" in str(part.blocks[-1])


def test_a_table_and_an_analysis_agree(played: Callable[..., list[Record]]) -> None:
    """Every difference to cot, its interval and its opponent are the same in summary and analysis."""
    records = played(STUDY, difficulty=1.0, difficulty_kind="human")
    rows = rows_of(records, settings())
    (task,) = build_analysis(
        studies(columns_of(records, COLUMNS), MODELS), reference="cot", models=False, ratios_to=["task_only"]
    )["tasks"].values()
    cells = {(cell["method"].split()[0], cell["backbone"]): cell for cell in task["interaction"]}
    assert len(cells) == 5
    for (method, backbone), cell in cells.items():
        row = rows[method, "sampled" if method == "coordinator" else backbone]
        ours = [row[key] for key in ("diff", "diff_low", "diff_high", "p", "n_paired", "reference_variant")]
        keys = ("difference", "ci_low", "ci_high", "p", "n_items", "reference_backbone")
        assert ours == [cell[key] if cell[key] is None else pytest.approx(cell[key]) for key in keys]
