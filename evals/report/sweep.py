"""The tables of a sweep: a row per finished job and method, one table per kind of pool, then the jobs without rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evals.report.blocks import Bullets, Grid, Part
from evals.report.markdown import document, sections
from evals.report.rows import ALL
from evals.report.table import ROOMY, columns_for, format_row
from evals.report.text import clean, markdown

if TYPE_CHECKING:
    from rich.console import RenderableType

_VALUE_LENGTH = 48


def grids(summary: Mapping[str, Any], width: int = ROOMY) -> list[Grid]:
    """The tables over all tasks, one per kind of pool: numbers of two kinds never share a column.

    Args:
        summary: as `trinity.runs.sweep.collected` makes it.
        width: characters of the terminal; a narrow one gets fewer columns.
    """
    kinds = dict.fromkeys(row["pool_kind"] for row in summary["rows"])
    return [_grid(summary, kind, width) for kind in kinds]


def missing(summary: Mapping[str, Any]) -> list[str]:
    """A line per job that has no rows: its name, how far it is, its overrides, its error."""
    jobs = [job for job in summary["jobs"] if job["state"] != "finished"]
    return [clean(_line(job, summary["varied"]), 1000) for job in jobs]


def progress(summary: Mapping[str, Any]) -> str:
    """How many jobs there are, and how far they are."""
    counts = Counter(job["state"] for job in summary["jobs"])
    waiting = (summary["n_jobs"] or 0) - len(summary["jobs"])
    parts = [f"{count} {state}" for state, count in counts.items()] + ([f"{waiting} not begun"] if waiting > 0 else [])
    return f"Sweep {clean(summary['sweep'])}: {', '.join(parts) or 'no job'}."


def sweep_markdown(summary: Mapping[str, Any]) -> str:
    """The text of a sweep's `summary.md`."""
    parts = [Part(grid.heading, [grid]) for grid in grids(summary)]
    lines = missing(summary)
    parts += [Part("Jobs without rows", [Bullets(lines)])] if lines else []
    return document(f"Sweep {summary['sweep']}", [markdown(progress(summary), 1000), *sections(parts)])


def sweep_tables(summary: Mapping[str, Any], width: int) -> list[RenderableType]:
    """The same for a terminal of `width` characters."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = []
    for grid in grids(summary, width):
        table = Table(title=Text(grid.heading), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for text in grid.titles:
            table.add_column(Text(text), overflow="fold")
        for place, row in enumerate(grid.rows):
            last = place + 1 == len(grid.rows) or grid.rows[place + 1][0] != row[0]
            table.add_row(*(Text(cell) for cell in row), end_section=last)
        parts.append(table)
    return [*parts, *(Text(line) for line in (*missing(summary), progress(summary)))]


def _grid(summary: Mapping[str, Any], kind: str, width: int) -> Grid:
    rows = [row for row in summary["rows"] if row["pool_kind"] == kind and row["task"] == ALL]
    columns = columns_for(rows, width)
    titles = ["job", *(clean(key, _VALUE_LENGTH) for key in summary["varied"]), *(column.title for column in columns)]
    cells = [[row["job"], *_values(row["varied"]), *format_row(row, columns)] for row in rows]
    return Grid(titles, cells, heading=f"Test items of all tasks, {clean(kind)} pool")


def _values(varied: Mapping[str, str | None]) -> list[str]:
    return ["–" if value is None else clean(value, _VALUE_LENGTH) for value in varied.values()]


def _line(job: Mapping[str, Any], varied: Sequence[str]) -> str:
    """What a person needs to find a job and to mend it."""
    overrides = [f"{key}={job['varied'][key]}" for key in varied if job["varied"][key] is not None]
    code = "" if job["exit_code"] is None else f", exit code {job['exit_code']}"
    error = f": {job['error']}" if job["error"] else ""
    return f"job {job['job']} ({' '.join(overrides or job['overrides'])}) {job['state']}{code}{error}"
