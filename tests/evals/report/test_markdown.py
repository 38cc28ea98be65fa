"""The report: complete, free of restricted text, and not to be broken by names."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from evals.report.markdown import report_text, write_report
from evals.report.summary import build_summary
from trinity.errors import LedgerError
from trinity.types import Record

MakeRecord = Callable[..., Record]
Uses = list[tuple[str, str, str]]
HOSTILE = "</td><script>alert(1)</script> | `x` ![i](//e/x.png)\n\n# h"


def headings(text: str) -> list[str]:
    """The headings of a Markdown text as a parser finds them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [after.content for token, after in itertools.pairwise(tokens) if token.type == "heading_open"]


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
    summary: dict[str, Any],
    generations: list[dict[str, Any]],
    uses: Uses,
    manifest: dict[str, Any],
) -> Path:
    """A run folder with the report of the small run."""
    folder = tmp_path_factory.mktemp("run")
    assert write_report(folder, summary, generations, uses, manifest=manifest) == folder / "report.md"
    return folder


def test_report_has_every_section(folder: Path) -> None:
    """Tables over all and per task, pictures, headroom, effort, choices, limits, failures, models and replay."""
    text = (folder / "report.md").read_text()
    assert headings(text) == [
        "quickstart: report", "Results", "What this run can and cannot say", "choice", "sums", "Accuracy and cost",
        "Who was asked", "Headroom", "Training", "Effort before the test", "How the controls were chosen", "Failures",
        "Models", "Replay",
    ]  # fmt: skip
    assert "- episodes: 96" in text
    assert "  - sums:\n    - n: 3" in text
    assert "python -m trinity.replay outputs/quickstart/1" in text
    assert "data.seed 1" in text


def test_pictures_of_the_report_exist(folder: Path) -> None:
    """Each linked picture lies beside the report and nothing else does."""
    text = (folder / "report.md").read_text()
    names = sorted(path.name for path in (folder / "report_images").iterdir())
    assert names == ["accuracy_cost.png", "training.png", "use.png"]
    assert all(f"](report_images/{name})" in text for name in names)
    assert sorted(path.name for path in folder.iterdir()) == ["report.md", "report_images"]


def test_report_is_the_same_bytes_each_time(
    folder: Path, summary: dict[str, Any], generations: list[dict[str, Any]], uses: Uses, manifest: dict[str, Any]
) -> None:
    """Writing again gives the same report and pictures."""
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    write_report(folder, summary, iter(generations), reversed(uses), manifest=manifest)
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before
    assert len(before) == 4


def test_no_answer_or_item_is_in_the_report(folder: Path, summary: dict[str, Any]) -> None:
    """Neither answers nor item ids of the records reach summary or report."""
    text = (folder / "report.md").read_text() + str(summary)
    assert "SECRET ANSWER" not in text
    assert "sums-1" not in text


def test_no_training_and_no_choices_leave_no_picture(tmp_path: Path, summary: dict[str, Any]) -> None:
    """A report without training has no section on it, and an older report's pictures are gone."""
    (tmp_path / "report_images").mkdir()
    (tmp_path / "report_images" / "training.png").touch()
    text = write_report(tmp_path, summary, [], [], manifest={}).read_text()
    assert [path.name for path in (tmp_path / "report_images").iterdir()] == ["accuracy_cost.png"]
    assert "Training" not in headings(text)
    assert "Effort before the test" in headings(text)
    assert "Effort" not in report_text({**summary, "effort": {}}, {}, [])
    assert text.count("![") == 1


def test_failures_are_counted(make_record: MakeRecord) -> None:
    """Every status but right and wrong has its column, capped episodes too."""
    statuses = ["no_answer", "truncated", "truncated", "refused", "error", "error", "error", "over_budget"]
    records = [
        make_record(None if status in {"error", "over_budget"} else 0.0, item_id=str(place), status=status, capped=True)
        for place, status in enumerate(statuses)
    ]
    found = build_summary(records, manifest={}, choices={}, effort={}, totals={})
    assert "| single small | 8 | 1 | 2 | 1 | 3 | 1 | 8 |" in report_text(found, {}, [])


def test_models_and_licences_are_listed(summary: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Weights stand with licence and hash; an unknown licence is called unknown."""
    weights = [{"name": "w1", "licence": "Apache-2.0", "sha256": "ab12", "source": "hub"}, {"name": "w2"}]
    text = report_text(summary, {**manifest, "weights": weights}, [])
    assert "| w1 | Apache-2.0 | hub | ab12 |" in text
    assert "| w2 | unknown | unknown | unknown |" in text
    assert "| large | m-large | 1,500,000,000 |" in text


def test_an_empty_summary_gives_a_report() -> None:
    """A run that was stopped before its first test record still has a report."""
    empty = build_summary([], manifest={}, choices={}, effort={}, totals={})
    assert "Test items per task: none" in report_text(empty, {}, [])


def test_hostile_names_break_nothing(tmp_path: Path, make_record: MakeRecord) -> None:
    """With the same hostile name everywhere the report has no HTML, link or heading that is not its own."""
    found = build_summary(
        [make_record(1.0, variant=HOSTILE, task=HOSTILE, pool=HOSTILE, experiment=HOSTILE, run_id=HOSTILE)],
        manifest={"notes": [HOSTILE], "missing_agents": {HOSTILE: HOSTILE}, "seeds": {HOSTILE: 1}},
        choices={HOSTILE: {HOSTILE: [HOSTILE, 1.0]}},
        effort={HOSTILE: HOSTILE},
        totals={},
    )
    folder = tmp_path / "a ``` $(x) 'b'"
    folder.mkdir()
    manifest = {"agents": [{"name": HOSTILE}], "weights": [{"name": HOSTILE}], "machine": {"cpu": HOSTILE}}
    text = write_report(folder, found, [], [(HOSTILE, HOSTILE, "worker")], manifest=manifest).read_text()
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    kinds = {child.type for token in tokens for child in (token, *(token.children or []))}
    assert not kinds & {"html_block", "html_inline", "link_open"}
    assert [token.attrGet("src") for token in _images(tokens)] == [
        "report_images/accuracy_cost.png",
        "report_images/use.png",
    ]
    assert len(headings(text)) == 11
    assert [token.type for token in tokens].count("fence") == 1


def _images(tokens: list[Any]) -> list[Any]:
    """Image tokens of a parsed text."""
    return [child for token in tokens for child in token.children or [] if child.type == "image"]


def test_a_failed_write_keeps_the_old_report(
    tmp_path: Path, summary: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the report cannot be put in place, the older one is untouched and the error is one of the suite's."""
    path = tmp_path / "report.md"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(LedgerError, match="No space left"):
        write_report(tmp_path, summary, [], [], manifest={})
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.rglob("*.*")] == ["report.md"]
