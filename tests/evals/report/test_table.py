"""The results table in a terminal and in Markdown."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console
from rich.table import Table

from evals.report.content import results_grid
from evals.report.markdown import markdown_grid
from evals.report.summary import rows_of
from evals.report.table import agents_table, caption, difference, mdd_sentence, summary_table
from evals.report.text import clean, detectable_points, fenced, interval, markdown, number, p_value, percent
from tests.evals.report.support import summarise
from trinity.types import Record

MakeRecord = Callable[..., Record]
HOSTILE = [
    "[red]x[/red] [link=http://x]y[/link]",
    "a|b `c` *d* _e_ ~~f~~ $g$ \\| h",
    "<script>alert(1)</script> &lt;",
    "![i](http://evil/x.png) [l](x) www.evil.org https://evil.org me@evil.org",
    "# title",
    "- - 1. x",
    "12. list",
    "---",
]


def printed(table: Table, width: int = 200) -> str:
    """What a terminal of that width shows."""
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def hostile(make_record: MakeRecord, name: str) -> dict[str, Any]:
    """A summary whose agent, task, pool and note bear a name."""
    return summarise(
        [make_record(1.0, variant=name, task=name, pool=name, experiment=name)],
        manifest={"notes": [name]},
    )


def cells(text: str) -> list[list[str]]:
    """The cells of a Markdown table as a reader sees them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        if token.type == "inline":
            children = token.children or []
            assert {child.type for child in children} <= {"text", "text_special"}
            rows[-1].append("".join(child.content for child in children))
    return rows


def test_table_shows_every_row_and_count(summary: dict[str, Any]) -> None:
    """Each row shows accuracy, interval, difference and graded items; USD is left out where nobody knows a price."""
    text = printed(summary_table(summary))
    assert text.count("12/12") == 9
    assert "58.3" in text
    assert text.count("reference") == 2
    assert "USD" not in text
    assert "estim." not in text
    assert "bounds" not in text


def test_optional_columns_appear_when_needed(make_record: MakeRecord) -> None:
    """An estimated usage and an ungraded item each bring their column."""
    records = [make_record(1.0, usage_estimated=True), make_record(None, item_id="b")]
    text = printed(summary_table(summarise(records)))
    assert "estim." in text
    assert "50.0 to 100.0" in text
    assert "1/2" in text
    assert "0.001" in text


def test_failures_that_score_have_columns_in_wide_tables(make_record: MakeRecord, summary: dict[str, Any]) -> None:
    """Episodes without answer and capped ones are counted where there are any and there is room, and explained."""
    records = [make_record(0.0, item_id="a", status="no_answer"), make_record(1.0, item_id="b", capped=True)]
    found = summarise([*records, make_record(1.0, item_id="c", capped=True)])
    (cells_of_row,) = cells(markdown_grid(results_grid(found)))[1:]
    shown = dict(zip(cells(markdown_grid(results_grid(found)))[0], cells_of_row, strict=True))
    assert (shown["no answer episodes"], shown["capped episodes"]) == ("1", "2")
    assert shown["graded items"] == "3/3"
    text = " ".join(caption(found))
    assert "No answer counts episodes that ended without one; capped counts" in text
    assert "estim." not in text
    assert "capped" not in printed(summary_table(found, width=80)).split("live pool", maxsplit=1)[0]
    assert "capped" not in printed(summary_table(summary)) + " ".join(caption(summary))


def test_a_row_that_always_ties_says_so(make_record: MakeRecord) -> None:
    """Where no item differs the cell says it, and the caption what its interval is; other zeros say nothing."""
    base = [make_record(1.0, item_id=str(item), method="best_single", variant="") for item in range(8)]
    same = [make_record(1.0, item_id=str(item), method="mine", variant="same") for item in range(8)]
    rows = {row["variant"]: row for row in rows_of(summarise([*base, *same]))}
    # Wilson's lower end for 8 of 8 is 8 / (8 + 1.96²) = 67.6 %, so up to 32.4 points may be hidden.
    assert difference(rows["same"]) == "0.0\n(−32.4 to +32.4)\nno item differs"
    sentence = "No item differs: the interval is how large a difference so many equal items may still hide."
    assert sentence in caption(summarise([*base, *same]))
    half = [make_record(float(item % 2), item_id=str(item), method="best_single", variant="") for item in range(8)]
    other = [make_record(float(item % 2 == 0), item_id=str(item), method="mine", variant="same") for item in range(8)]
    (row,) = [row for row in rows_of(summarise([*half, *other])) if row["variant"] == "same"]
    assert difference(row).startswith("0.0\n(−")
    assert "no item differs" not in difference(row)


def test_estimated_usage_is_explained(make_record: MakeRecord) -> None:
    """The caption says what `estim.` counts once there is such an episode."""
    text = " ".join(caption(summarise([make_record(1.0, usage_estimated=True)])))
    assert "Estim. counts episodes in which nobody reported a call's tokens, so a tokenizer counted them." in text


def test_caption_says_kind_and_limits(summary: dict[str, Any], make_record: MakeRecord) -> None:
    """Every caption names the kind of pool, the detectable difference, that the run is small, and paid calls."""
    text = " ".join(caption(summary))
    assert "live pool local" in text
    assert "Minimum detectable difference" in text
    assert "shows the path, not a finding" in text
    assert "311 paid, 40 reused" in text
    many = [make_record(1.0, item_id=str(item)) for item in range(100)]
    large = summarise(many)
    assert "path" not in " ".join(caption(large))


@pytest.mark.parametrize(
    ("difference", "p", "words"),
    [
        (0.2, 0.04, "better, +20.0 points on 12 items graded for both, p 0.040 adjusted."),
        (-0.2, 0.04, "worse, −20.0 points on 12 items graded for both, p 0.040 adjusted."),
        (0.2, 0.06, "no difference is shown, +20.0 points on 12 items graded for both, p 0.060 adjusted; the interval"),
    ],
)
def test_verdict_follows_the_adjusted_test(summary: dict[str, Any], difference: float, p: float, words: str) -> None:
    """The coordinator is called better or worse where the adjusted p allows it, whatever the interval leaves out."""
    changed = copy.deepcopy(summary)
    for row in changed["rows"]:
        if row["method"] == "coordinator":
            row.update(diff=difference, diff_low=difference - 0.1, diff_high=difference + 0.1, p_holm=p)
    assert sum(f"against the best single agent: {words}" in sentence for sentence in caption(changed)) == 2


def test_p_value() -> None:
    """Three decimals, none below a thousandth, n/a where nothing was tested."""
    assert [p_value(p) for p in (0.0625, 0.00099, 0.001, None)] == ["0.062", "<0.001", "0.001", "n/a"]


def test_detectable_points() -> None:
    """A difference of more than 100 points cannot be: none is detectable."""
    assert [detectable_points(value) for value in (0.123, 1.4, None)] == ["12.3", "none", "n/a"]


def test_no_detectable_difference_is_said() -> None:
    """A difference above 100 points is said to be undetectable, an unknown one comes with its reason."""
    found = {"difference": 1.4, "n_items": 2, "comparison": "a and b", "power": 0.8, "reason": None}
    assert "no difference of a and b could be detected" in mdd_sentence({"mdd": found})
    assert "(too few)" in mdd_sentence({"mdd": {**found, "difference": None, "reason": "too few"}})


def test_narrow_terminals_keep_the_essentials(summary: dict[str, Any]) -> None:
    """With 80 columns the optional columns go and nothing is cut off."""
    text = printed(summary_table(summary, width=80), 80)
    assert "turns" not in text
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_agents_table_has_a_column_per_task(summary: dict[str, Any]) -> None:
    """The first table of a run shows the agents alone, per task and over all, and no other method."""
    text = printed(agents_table(summary))
    assert [name in text for name in ("choice %", "sums %", "all %")] == [True] * 3
    assert "coordinator" not in text
    assert text.count("12/12") == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_in_terminals(make_record: MakeRecord, name: str) -> None:
    """No name is read as rich markup: all its characters are shown."""
    found = hostile(make_record, name)
    for table in (summary_table(found), agents_table(found)):
        shown = "".join(printed(table, 400).split())
        assert "".join(name.split())[:30] in shown


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_in_markdown(make_record: MakeRecord, name: str) -> None:
    """No name breaks a Markdown table or becomes markup in it: the cell reads as the name."""
    rows = cells(markdown_grid(results_grid(hostile(make_record, name))))
    assert len(rows) == 2
    assert len(rows[0]) == len(rows[1])
    assert rows[1][0] == f"single {clean(name, 40)}"


@pytest.mark.parametrize("name", [*HOSTILE, "= x", "+ x", "3) x", "> q", "***", "\ud800 \u202e \x1b[31m"])
def test_markdown_text_means_nothing(name: str) -> None:
    """A text on a line of its own is a plain paragraph that reads as it was written."""
    tokens = MarkdownIt("commonmark").parse(markdown(name))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    children = tokens[1].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children) == clean(name)


@pytest.mark.parametrize("text", ["https://evil.org", "WWW.evil.org", "me@evil.org"])
def test_markdown_breaks_automatic_links(text: str) -> None:
    """What GitHub would link on its own no longer stands in the source."""
    assert text not in markdown(text)


def test_clean_hides_control_characters() -> None:
    """Escape sequences, direction marks and lone surrogates are replaced, long texts cut."""
    assert clean("a\x1b[31m\u202eb\ud800\n c") == "a\ufffd[31m\ufffdb\ufffd c"
    assert clean("x" * 300, 10) == "x" * 9 + "…"


def test_fence_is_longer_than_any_run_of_backticks() -> None:
    """A command with four backticks stands in a fence of five."""
    assert fenced("a ```` b") == "`````\na ```` b\n`````"
    assert fenced("a").startswith("```\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.00012345, "0.000123"), (0.9996, "1"), (12.345, "12.3"), (12345.6, "12,346"), (None, "unknown")],
)
def test_number(value: float | None, text: str) -> None:
    """Numbers have three significant digits; an unknown one is never 0."""
    assert number(value) == text


def test_percent_and_interval() -> None:
    """Shares become percent with one decimal, a true minus sign and no negative zero."""
    assert percent(-0.1234, signed=True) == "−12.3"
    assert percent(-0.00001, signed=True) == "0.0"
    assert percent(None) == "n/a"
    assert interval(0.5, 0.25, 0.75) == "50.0\n(25.0 to 75.0)"
