"""A comparison in a terminal, in Markdown and as a page: nothing lost, nothing restricted, nothing that acts."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from evals.comparison.choice import Request
from evals.comparison.compare import compare
from evals.comparison.table import comparison_html, comparison_markdown, comparison_tables, grids, reading
from tests.evals.comparison.comparing import Scores, episodes, write_run

HOSTILE = "</td><script>alert(1)</script>|`x`\x1b[31m\u202e ![i](//e/x.png)\nnew"
A: Scores = {"i1": [1, 0, 1], "i2": [0], "i3": [None]}
B: Scores = {"i1": [1, 1, 1], "i2": [1], "i3": [1]}


def built(folder: Path, variant: str = "sampled") -> dict[str, Any]:
    """Two runs on two tasks, compared; an item of the first was never graded."""
    folders = []
    for name, scores in (("A", A), ("B", B)):
        records = [*episodes(scores, variant=variant), *episodes(scores, variant=variant, task="words", gflop=None)]
        folders.append(write_run(folder / name, records))
    return compare(folders, Request())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The comparison of two ordinary runs."""
    return built(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same with a variant's name that wants to be obeyed."""
    return built(tmp_path_factory.mktemp("hostile"), HOSTILE)


def printed(found: Mapping[str, Any], width: int) -> str:
    """What a terminal of that width shows."""
    out = io.StringIO()
    console = Console(file=out, width=width)
    for part in comparison_tables(found, width):
        console.print(part)
    return out.getvalue()


def cells(text: str) -> list[str]:
    """The table cells of a Markdown text as a parser finds them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [after.content for before, after in itertools.pairwise(tokens) if before.type == "td_open"]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_terminal(found: dict[str, Any], width: int) -> None:
    """Each line fits, and each table with its kind of pool, both labels and the finding are there."""
    text = printed(found, width)
    assert max(map(len, text.splitlines())) <= width
    for heading in ("Runs", "Differences in accuracy", "Ratios of cost and latency", "Rows", "Effort before the test"):
        assert f"{heading}, live pool" in text
    for word in ("B coordinator", "− A coordinator", "on sums", "on words", "What else differs", "no difference is"):
        assert word in text


def test_difference_row(found: dict[str, Any]) -> None:
    """i1 is 1 against 2/3 and i2 1 against 0: +66.7 points, twice won of two; i3 has no grade in A."""
    (grid,) = [grid for grid in grids(found) if grid.heading == "Differences in accuracy"]
    row = dict(zip(grid.titles, grid.rows[1], strict=True))
    assert row["compared"] == "on sums"
    assert row["accuracy %"] == "100.0\n− 33.3"
    assert row["difference\n(95 % CI)"].startswith("+66.7\n")
    assert row["win/tie/\nloss"] == "2/0/0"
    assert row["items"] == "2 of\n3, 3"
    assert row["test"] == "exact sign flips"


def test_unknown_is_not_zero(found: dict[str, Any]) -> None:
    """An axis that is unknown on one task has no ratio there, and none over all tasks."""
    (grid,) = [grid for grid in grids(found) if grid.heading == "Ratios of cost and latency"]
    assert [row[grid.titles.index("GFLOP")] for row in grid.rows] == ["n/a", "1.00\n(1.00 to 1.00)", "n/a"]


def test_bounds_of_ungraded_rows(found: dict[str, Any]) -> None:
    """The number of tests that p was adjusted for is said: one over all tasks and one on each."""
    assert "for all 3 tests here" in " ".join(reading(found))


def test_markdown(found: dict[str, Any]) -> None:
    """Every cell of every table stands in the Markdown text."""
    there = cells(comparison_markdown(found))
    assert len(there) == sum(len(grid.rows) * len(grid.titles) for grid in grids(found))
    assert "B coordinator sampled − A coordinator sampled" in there


def test_hostile_names(hostile: dict[str, Any]) -> None:
    """A name is shown as text everywhere: no tag, no table cell of its own, no control character."""
    page, text, terminal = comparison_html(hostile), comparison_markdown(hostile), printed(hostile, 200)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert len(cells(text)) == sum(len(grid.rows) * len(grid.titles) for grid in grids(hostile))
    assert "<script>" not in MarkdownIt("commonmark").enable("table").render(text)
    for shown in (page, text, terminal):
        assert not {"\x1b", "\u202e"} & set(shown)


def test_page(found: dict[str, Any]) -> None:
    """The page names the kind of pool and holds every table and sentence; it loads nothing."""
    page = comparison_html(found)
    assert page.count("<table>") == len(grids(found)) == 5
    assert "live pool" in page
    assert not any(word in page for word in ("http://", "https://", "src=", "@import", "url("))


def test_restricted_text_stays_out(found: dict[str, Any]) -> None:
    """Answers, item ids and prompts are in no form of the comparison."""
    for shown in (json.dumps(found), comparison_html(found), comparison_markdown(found), printed(found, 200)):
        assert "SECRET ANSWER" not in shown
        assert "Be brief" not in shown


def test_json_has_no_nan(found: dict[str, Any]) -> None:
    """Unknown numbers are null."""
    assert json.loads(json.dumps(found, allow_nan=False)) == found
