"""A comparison for people: in a terminal, in Markdown and as a page, from one set of tables and sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evals.report.blocks import POINTS, Bullets, Grid, Part, interval_of
from evals.report.markdown import document, sections
from evals.report.page import Section, bullet_list, html_table, page
from evals.report.rows import ALL, Row
from evals.report.summary import label
from evals.report.table import (
    ROOMY,
    Column,
    bounds,
    columns_for,
    counted,
    difference,
    empty_table,
    format_row,
    known_in,
)
from evals.report.text import clean, detectable_points, number, p_value, percent
from evals.stats.axes import AXES

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

AXIS_TITLES: Mapping[str, str] = {
    **{axis.column: axis.label.replace(" ", "\n") for axis in AXES},
    "n_calls": "calls",
    "latency_s": "latency",
}
_NAME, _LEAST = 40, 18
_SENTENCE = 1000
_ALIKE = "Nothing that manifests, items and effort tell."
_PLAIN, _MOST = 0.1, 100.0
"""Ratios between these are told with two decimals, others with three digits."""
_COMMIT = 10

Comparison = Mapping[str, Any]


def grids(found: Comparison, width: int = ROOMY) -> list[Grid]:
    """All tables of a comparison, as `compare` made it; a narrow terminal gets fewer columns."""
    comparisons = found["comparisons"]
    tables = [
        _grid("Runs", found["runs"], _RUNS, width),
        _grid("Differences in accuracy", comparisons, _DIFFERENCES, width),
        _grid("Ratios of cost and latency", comparisons, _RATIOS, width),
        _grid("Rows", found["rows"], _ROWS, width),
        _grid("Effort before the test", found["effort"], _EFFORT, width),
    ]
    return [table for table in tables if len(table.titles) > 1]


def sentences(found: Comparison) -> dict[str, list[str]]:
    """What is said beside the tables, by heading; a heading without sentences is left out."""
    told = {
        "Findings": found["findings"],
        "What else differs": [entry["sentence"] for entry in found["differences"]] or [_ALIKE],
        "Notes": found["notes"],
        "How to read this": reading(found),
    }
    return {heading: [clean(line, _SENTENCE) for line in lines] for heading, lines in told.items() if lines}


def reading(found: Comparison) -> list[str]:
    """How the numbers were made."""
    tests: Counter[str] = Counter(row["test"] for row in found["comparisons"] if row["test"])
    kinds = ", ".join(f"{name}: {count}" for name, count in tests.items())
    level, power = (f"{100 * found[key]:.0f} %" for key in ("level", "power"))
    difference = (
        "A difference is the first row's mean score minus the second's, on the items that were graded for both, "
        f"replicates averaged within an item. In brackets: its {level} interval, a bootstrap over whole items "
        f"({found['resamples']:,} resamples). Wins, ties and losses count items. Detectable is the smallest true "
        f"difference that as many items with this spread would show with {power} power (two-sided 5 %)."
    )
    test = f"p is two-sided ({kinds}). In brackets: adjusted by Holm's method for all {tests.total()} tests here."
    ratio = (
        "A ratio is the first row's mean cost over the second's on the same items, with its interval. Costs bill every "
        "call, paid for or reused; latency is the sum of an episode's calls and depends on machine and load."
    )
    rest = (
        "Rows are those of each run's own table, on all items that the run graded. Effort is what was played before "
        "the test; it is 0 where nothing was."
    )
    return [difference, test, ratio, rest]


def title(found: Comparison) -> str:
    """What it is a comparison of."""
    return f"Comparison of {len(found['runs'])} run{'s' if len(found['runs']) > 1 else ''}, {found['pool_kind']} pool"


def comparison_tables(found: Comparison, width: int) -> Iterator[RenderableType]:
    """Tables and sentences for a terminal of `width` characters."""
    from rich.text import Text

    for grid in grids(found, width):
        yield _terminal(f"{grid.heading}, {clean(found['pool_kind'])} pool", grid)
    for heading, lines in sentences(found).items():
        yield Text(f"\n{heading}", style="bold")
        yield from (Text(f"- {line}") for line in lines)


def comparison_markdown(found: Comparison) -> str:
    """The text of `comparison.md`."""
    tables = [Part(f"{grid.heading}, {found['pool_kind']} pool", [grid]) for grid in grids(found)]
    texts = [Part(heading, [Bullets(lines)]) for heading, lines in sentences(found).items()]
    return document(title(found), sections([*tables, *texts]))


def comparison_html(found: Comparison) -> str:
    """The comparison as a page of its own."""
    kind = found["pool_kind"]
    tables = [
        Section(f"{grid.heading}, {kind} pool", html_table(grid.titles, grid.rows, strong=grid.strong))
        for grid in grids(found)
    ]
    texts = [Section(heading, bullet_list(lines)) for heading, lines in sentences(found).items()]
    return page(title(found), [*texts[:1], *tables, *texts[1:]], caption=f"All runs asked a {kind} pool.")


def _terminal(heading: str, grid: Grid) -> Table:
    """One table."""
    from rich.text import Text

    table = empty_table(heading, grid.titles, _LEAST)
    for place, row in enumerate(grid.rows):
        table.add_row(*(Text(cell) for cell in row), style="bold" if place in grid.strong else None)
    return table


def _grid(heading: str, rows: Sequence[Row], columns: Sequence[Column], width: int) -> Grid:
    """A table of the columns that these rows need; those over all tasks are strong where there are others."""
    there = columns_for(rows, width, columns)
    strong = frozenset(place for place, row in enumerate(rows) if row.get("task") == ALL)
    return Grid(
        [column.title for column in there],
        [format_row(row, there) for row in rows],
        strong=strong if len(strong) < len(rows) else frozenset(),
        heading=heading,
    )


def _label(row: Row) -> str:
    """Run, method and variant."""
    return f"{row['run']} {clean(label(row), _NAME)}"


def _first(row: Row, whole: str) -> str:
    """First cell of a line: `whole` for all tasks, else the task."""
    return whole if row["task"] == ALL else f"on {clean(row['task'], _NAME)}"


def _compared(sign: str) -> Callable[[Row], str]:
    """A cell with what is subtracted from what, or divided by what."""
    return lambda row: _first(row, f"{_label(row)}\n{sign} {_label(row['reference'])}")


def _code(run: Row) -> str:
    """Commit, and whether more was changed."""
    return str(run["git"].get("commit") or "unknown")[:_COMMIT] + ("\nwith changes" if run["git"].get("dirty") else "")


def _ratio_on(axis: str) -> Callable[[Row], str]:
    """A cell with a ratio and, on a line of its own, its interval."""

    def cell(row: Row) -> str:
        ratio = row["ratios"][axis]
        if ratio["ratio"] is None:
            return "n/a"
        ends = "n/a" if ratio["ci_low"] is None else f"{_times(ratio['ci_low'])} to {_times(ratio['ci_high'])}"
        return f"{_times(ratio['ratio'])}\n({ends})"

    return cell


def _times(ratio: float) -> str:
    """Two decimals, or three digits."""
    return f"{ratio:.2f}" if _PLAIN <= ratio < _MOST else f"{ratio:.3g}"


def _has_ratio(axis: str) -> Callable[[Sequence[Row]], bool]:
    """Whether the ratio on an axis is known in some row."""
    return lambda rows: any(row["ratios"][axis]["ratio"] is not None for row in rows)


def _number(key: str) -> Callable[[Row], str]:
    """A cell with three digits of a number."""
    return lambda row: number(row[key])


def _statuses(row: Row) -> str:
    """Episodes by status."""
    return "\n".join(f"{count} {clean(name)}" for name, count in row["statuses"].items())


def _count(key: str) -> Callable[[Row], str]:
    """A cell with a whole number."""
    return lambda row: f"{row[key]:,}"


_RUNS = (
    Column("run", lambda run: f"{run['label']}  {clean(run['folder'])}"),
    Column("experiment", lambda run: clean(run["experiment"], _NAME), roomy=True),
    Column("pool", lambda run: clean(run["pool"], _NAME)),
    Column("seeds", lambda run: clean(", ".join(f"{name} {seed}" for name, seed in run["seeds"].items())), roomy=True),
    Column("code", _code),
)
_DIFFERENCES = (
    Column("compared", _compared("−")),
    Column("accuracy %", lambda row: f"{percent(row['accuracy'])}\n− {percent(row['accuracy_reference'])}"),
    Column(*POINTS),
    Column("p\n(Holm)", lambda row: f"{p_value(row['p'])}\n({p_value(row['p_holm'])})"),
    Column("win/tie/\nloss", lambda row: f"{row['wins']}/{row['ties']}/{row['losses']}"),
    Column("items", lambda row: f"{row['n_paired']} of\n{row['n_items']}, {row['n_items_reference']}"),
    Column("test", lambda row: row["test"] or "n/a", roomy=True),
    Column("detectable\n(80 % power)", lambda row: detectable_points(row["detectable"]), roomy=True),
)
_RATIOS = (
    Column("compared", _compared("÷")),
    *(Column(heading, _ratio_on(axis), _has_ratio(axis)) for axis, heading in AXIS_TITLES.items()),
)
_ROWS = (
    Column("row", lambda row: _first(row, _label(row))),
    Column("accuracy %\n(95 % CI)", interval_of("accuracy")),
    Column("vs own\n{reference}", difference, roomy=True),
    Column("graded\nitems", lambda row: f"{row['n_graded']}/{row['n_items']}"),
    Column("bounds\n(ungraded 0 to 1)", bounds, known_in("bound_low")),
    Column("trunc.\nepisodes", lambda row: str(row["n_truncated"])),
    Column("weighted\ntokens", _number("weighted_tokens_mean")),
    Column("encoder\ntokens", _number("encoder_tokens_mean"), counted("encoder_tokens_mean"), roomy=True),
    Column("USD", _number("cost_usd_mean"), known_in("cost_usd_mean")),
    Column("GFLOP", _number("gflop_mean"), known_in("gflop_mean")),
    Column("statuses", _statuses, roomy=True),
)
_EFFORT = (
    Column("method", lambda row: f"{row['run']} {clean(row['method'], _NAME)}"),
    Column("episodes", _count("episodes")),
    Column("logical\ncalls", _count("logical_calls")),
    Column("weighted\ntokens", _count("weighted_tokens")),
    Column("encoder\ntokens", _count("encoder_tokens")),
)
