"""The Markdown report: complete, free of restricted text, and not to be broken by names."""

from __future__ import annotations

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evals.report.blocks import Grid, Text
from evals.report.canvas import Picture
from evals.report.content import parts
from evals.report.data import ReportData
from evals.report.markdown import report_text
from evals.report.plots_training import Training
from evals.report.plots_use import Use, latency_bin
from evals.report.reports import drawn, write_reports
from tests.evals.report.support import summarise
from trinity.errors import LedgerError
from trinity.types import Record

MakeRecord = Callable[..., Record]
HOSTILE = "</td><script>alert(1)</script> | `x` ![i](//e/x.png)\n\n# h"


def headings(text: str) -> list[str]:
    """The headings of a Markdown text as a parser finds them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [after.content for token, after in itertools.pairwise(tokens) if token.type == "heading_open"]


def told(summary: dict[str, Any], manifest: dict[str, Any] | None = None) -> str:
    """The report of a summary without pictures."""
    data = ReportData(summary, manifest or {})
    return report_text(data, parts(data, {}))


@pytest.fixture(scope="module")
def data(summary: dict[str, Any], generations: list[dict[str, Any]], manifest: dict[str, Any]) -> ReportData:
    """Everything that is told of the small run, but its transcripts."""
    return ReportData(
        {**summary, "effort": {"coordinator": {"episodes": 96, "logical_calls": 1240}}},
        manifest,
        trained={"coordinator": Training(generations, {0: Counter(large=3)}, {0: Counter(worker=3)})},
        uses={Use("coordinator/sampled", "large", "worker", 0): 30},
        latency={"large": {latency_bin(1.5): 7}},
        attempts={"timeout": 2},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, data: ReportData) -> Path:
    """A run folder with the reports of the small run."""
    folder = tmp_path_factory.mktemp("run")
    assert write_reports(folder, data) == [folder / "report.md", folder / "report.html"]
    return folder


def test_report_has_every_section(folder: Path) -> None:
    """Tables over all and per task, pictures, headroom, effort, choices, limits, failures, models and replay."""
    text = (folder / "report.md").read_text()
    assert headings(text) == [
        "quickstart: report", "Results", "What this run can and cannot say", "choice", "sums", "Accuracy and cost",
        "Headroom", "Who was asked", "Training", "Effort before the test", "How the controls were chosen", "Failures",
        "Call latency", "Models", "Replay",
    ]  # fmt: skip
    assert "| method | episodes | logical calls |\n| :-- | --: | --: |\n| coordinator | 96 | 1,240 |" in text
    assert "| vote | sums | n 3 |" in text
    assert "python -m trinity.replay outputs/quickstart/1" in text
    assert "data.seed 1" in text


def test_pictures_of_the_report_exist(folder: Path) -> None:
    """Each linked picture lies beside the report, says its kind of pool under it, and nothing else lies there."""
    text = (folder / "report.md").read_text()
    names = sorted(path.name for path in (folder / "report_images").iterdir())
    assert names == [f"{name}.svg" for name in ("accuracy_cost", "choices", "failures", "latency", "training", "use")]
    assert all(f"](report_images/{name})\n\nLive pool" in text for name in names)
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "report.md", "report_images"]


def test_every_table_says_its_kind_of_pool(data: ReportData) -> None:
    """In each part with a table or a picture some text or caption names the kind of pool."""
    pictures = {picture.name: picture for picture in drawn(data)}
    shown = [
        (part.heading, [block for block in part.blocks if isinstance(block, Grid | Picture)], part.blocks)
        for part in parts(data, pictures)
    ]
    assert len([heading for heading, found, _ in shown if found]) >= 12
    for heading, found, blocks in shown:
        told = [block.text for block in blocks if isinstance(block, Text)]
        told += [block.caption for block in blocks if isinstance(block, Picture)]
        assert not found or any(re.search(r"\blive pool\b", text, re.IGNORECASE) for text in told), heading


def test_report_is_the_same_bytes_each_time(folder: Path, data: ReportData) -> None:
    """Writing again gives the same reports and pictures."""
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    write_reports(folder, data)
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before
    assert len(before) == 8


def test_no_answer_or_item_is_in_the_report(folder: Path, summary: dict[str, Any]) -> None:
    """Neither answers nor item ids of the records reach summary or Markdown."""
    text = (folder / "report.md").read_text() + str(summary)
    assert "SECRET ANSWER" not in text
    assert "sums-1" not in text


def test_what_is_not_there_has_no_section(tmp_path: Path, summary: dict[str, Any]) -> None:
    """Without training, choices, calls and effort there is no section on them, and an older report's pictures go."""
    (tmp_path / "report_images").mkdir()
    (tmp_path / "report_images" / "training.png").touch()
    report, _ = write_reports(tmp_path, ReportData({**summary, "effort": {}}, {}))
    assert [path.name for path in (tmp_path / "report_images").iterdir()] == ["accuracy_cost.svg"]
    found = headings(report.read_text())
    assert not set(found) & {"Training", "Who was asked", "Call latency", "Effort before the test", "Models"}
    assert report.read_text().count("![") == 1


def test_effort_of_any_shape_is_a_table(summary: dict[str, Any]) -> None:
    """A trainer that counts other things has its own columns; one that tells a single number has it in the first."""
    text = told({**summary, "effort": {"a": {"episodes": 5}, "b": {"metric_calls": 7}, "c": 9}})
    assert "| a | 5 | n/a |\n| b | n/a | 7 |\n| c | 9 |  |" in text


def test_failures_are_counted(make_record: MakeRecord) -> None:
    """Every status but right and wrong has its column, capped episodes too."""
    statuses = ["no_answer", "truncated", "truncated", "refused", "error", "error", "error", "over_budget"]
    records = [
        make_record(None if status in {"error", "over_budget"} else 0.0, item_id=str(place), status=status, capped=True)
        for place, status in enumerate(statuses)
    ]
    assert "| single small | 8 | 1 | 2 | 1 | 3 | 1 | 8 |" in told(summarise(records))


def test_models_and_licences_are_listed(summary: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Weights stand with licence and hash; an unknown licence is called unknown."""
    weights = [{"name": "w1", "licence": "Apache-2.0", "sha256": "ab12", "source": "hub"}, {"name": "w2"}]
    text = told(summary, {**manifest, "weights": weights})
    assert "| w1 | Apache-2.0 | hub | ab12 |" in text
    assert "| w2 | unknown | unknown | unknown |" in text
    assert "| large | m-large | 1,500,000,000 |" in text


def test_an_empty_summary_gives_a_report(tmp_path: Path) -> None:
    """A run that was stopped before its first test record still has reports."""
    report, page = write_reports(tmp_path, ReportData(summarise([]), {}))
    assert "Test items per task: none" in report.read_text()
    assert "Test items per task: none" in page.read_text()


@pytest.mark.parametrize("folder", ["a b/c'd", "$(rm x) `y` ; z", 'q"t\\u', "```\n```"])
def test_the_replay_command_is_one_word_after_the_module(summary: dict[str, Any], folder: str) -> None:
    """Whatever a run's folder is called, a shell takes it as one argument, and the block stays one block."""
    tokens = MarkdownIt("commonmark").parse(told(summary, {"folder": folder}))
    (block,) = [token.content for token in tokens if token.type == "fence"]
    words = shlex.split(block)
    assert words[:3] == ["python", "-m", "trinity.replay"]
    assert words[3:] == [" ".join(folder.split())]


def test_hostile_names_break_nothing(tmp_path: Path, make_record: MakeRecord) -> None:
    """With the same hostile name everywhere the report has no HTML, link or heading that is not its own."""
    found = summarise(
        [make_record(1.0, variant=HOSTILE, task=HOSTILE, pool=HOSTILE, experiment=HOSTILE, run_id=HOSTILE)],
        manifest={"notes": [HOSTILE], "missing_agents": {HOSTILE: HOSTILE}, "seeds": {HOSTILE: 1}},
        choices={HOSTILE: {HOSTILE: [HOSTILE, 1.0]}},
        effort={HOSTILE: HOSTILE},
    )
    folder = tmp_path / "a ``` $(x) 'b'"
    folder.mkdir()
    manifest = {"agents": [{"name": HOSTILE}], "weights": [{"name": HOSTILE}], "machine": {"cpu": HOSTILE}}
    uses = {Use(f"{HOSTILE}/x", HOSTILE, "worker", 0): 1}
    report, _ = write_reports(folder, ReportData(found, manifest, uses=uses, attempts={HOSTILE: 1}))
    text = report.read_text()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    kinds = {child.type for token in tokens for child in (token, *(token.children or []))}
    assert not kinds & {"html_block", "html_inline", "link_open"}
    assert [token.attrGet("src") for token in _images(tokens)] == [
        f"report_images/{name}.svg" for name in ("accuracy_cost", "use", "failures")
    ]
    assert len(headings(text)) == 11
    assert [token.type for token in tokens].count("fence") == 1


def _images(tokens: list[Any]) -> list[Any]:
    """Image tokens of a parsed text."""
    return [child for token in tokens for child in token.children or [] if child.type == "image"]


def test_a_second_trainer_has_pictures_of_its_own(data: ReportData) -> None:
    """Two trained coordinators give two pictures of each kind, by the order of their names."""
    names = [
        picture.name
        for picture in drawn(ReportData(data.summary, {}, trained={**data.trained, "x": data.trained["coordinator"]}))
    ]
    assert names == ["accuracy_cost", "training", "choices", "training_2", "choices_2"]


def test_a_failed_write_keeps_the_old_reports(
    tmp_path: Path, summary: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a report cannot be put in place, the older ones are untouched and the error is one of the suite's."""
    for name in ("report.md", "report.html"):
        (tmp_path / name).write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(LedgerError, match="No space left"):
        write_reports(tmp_path, ReportData(summary, {}))
    assert {path.name: path.read_text() for path in tmp_path.rglob("*.*")} == {"report.md": "old", "report.html": "old"}
