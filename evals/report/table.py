"""The results table: its columns, its text for a terminal, and the sentences under it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from evals.report.rows import ALL, Row
from evals.report.summary import label, rows_of, tasks_of
from evals.report.text import NO_DIFFERENCE, clean, interval, number, p_value, percent
from evals.stats.bootstrap import equal_interval
from evals.stats.methods import BEST_SINGLE, BOUND, SINGLE, TRAINED, is_trained, known, spoken, titled

if TYPE_CHECKING:
    from rich.table import Table


ROOMY = 110
"""Narrower terminals get the table without the columns marked `roomy`."""
ALPHA = 0.05
"""Adjusted p below which a difference is called one."""
MOST_VERDICTS = 4
"""Methods compared, backbone by backbone, of which each gets a sentence whatever it shows."""


class Column(NamedTuple):
    """One column: its title, how a row fills it (two lines where it has two parts), and whether these rows need it.

    `{reference}` in a title is what these rows are compared to.
    """

    title: str
    cell: Callable[[Row], str]
    needed: Callable[[Sequence[Row]], bool] = lambda _: True
    roomy: bool = False


def _name(row: Row) -> str:
    """Method and variant."""
    return "\n".join(clean(row[key], 40) for key in ("method", "variant") if row[key])


def _accuracy(row: Row) -> str:
    """Accuracy and its interval."""
    return interval(row["accuracy"], row["ci_low"], row["ci_high"])


def difference(row: Mapping[str, Any]) -> str:
    """Difference to the reference in points."""
    if row["reference"]:
        return "reference"
    told = interval(row["diff"], row["diff_low"], row["diff_high"], signed=True)
    return f"{told}\n{NO_DIFFERENCE}" if _is_equal(row) else told


def _is_equal(row: Mapping[str, Any]) -> bool:
    """Whether no item differs: its interval is then the one that so many equal items get."""
    ends = row["diff_low"], row["diff_high"]
    return row["diff"] == 0 and ends == tuple(equal_interval(0.0, row["n_paired"]))


def bounds(row: Mapping[str, Any]) -> str:
    """Accuracy if every ungraded item were wrong, and if it were right."""
    if row["bound_low"] is None:
        return "–"
    return f"{percent(row['bound_low'])} to {percent(row['bound_high'])}"


def _mean(key: str) -> Callable[[Row], str]:
    """A cell with the mean of a cost."""
    return lambda row: number(row[key]) if row["n_graded"] else "n/a"


def counted(key: str) -> Callable[[Sequence[Row]], bool]:
    """Whether a count or mean is known and not zero in some row."""
    return lambda rows: any(row.get(key) for row in rows)


def _count(key: str) -> Callable[[Row], str]:
    """A cell with a count; jobs that an earlier version finished do not have them all."""
    return lambda row: str(row.get(key, "n/a"))


def known_in(key: str) -> Callable[[Sequence[Row]], bool]:
    """Whether a mean is known in some row."""
    return lambda rows: any(row[key] is not None for row in rows)


COLUMNS = (
    Column("method", _name),
    Column("accuracy %\n(95 % CI)", _accuracy),
    Column("vs {reference}\n(95 % CI)", difference),
    Column("graded\nitems", lambda row: f"{row['n_graded']}/{row['n_items']}"),
    Column("bounds\n(ungraded 0 to 1)", bounds, known_in("bound_low")),
    Column("trunc.\nepisodes", lambda row: str(row["n_truncated"])),
    Column("no answer\nepisodes", _count("n_no_answer"), counted("n_no_answer"), roomy=True),
    Column("capped\nepisodes", _count("n_capped"), counted("n_capped"), roomy=True),
    Column("estim.\nepisodes", lambda row: str(row["n_estimated"]), counted("n_estimated")),
    Column("calls", _mean("calls_mean")),
    Column("turns", _mean("turns_mean"), roomy=True),
    Column("weighted\ntokens", _mean("weighted_tokens_mean")),
    Column("encoder\ntokens", _mean("encoder_tokens_mean"), counted("encoder_tokens_mean"), roomy=True),
    Column("USD", _mean("cost_usd_mean"), known_in("cost_usd_mean")),
    Column("GFLOP", _mean("gflop_mean"), known_in("gflop_mean")),
)


def columns_for(rows: Sequence[Row], width: int = ROOMY, columns: Sequence[Column] = COLUMNS) -> list[Column]:
    """Those of `columns` that these rows need and that a terminal of `width` characters holds."""
    shown = [column for column in columns if column.needed(rows) and (width >= ROOMY or not column.roomy)]
    against = clean(reference_title(rows), 40)
    return [column._replace(title=column.title.replace("{reference}", against)) for column in shown]


def reference_title(rows: Iterable[Mapping[str, Any]]) -> str:
    """How a title calls what rows are compared to; an earlier version compared all of them to the best single agent."""
    methods = {str(row.get("reference_method") or BEST_SINGLE) for row in rows}
    return titled(*methods) if len(methods) == 1 else "reference"


def format_row(row: Row, columns: Sequence[Column]) -> list[str]:
    """The cells of a row as plain text."""
    return [column.cell(row) for column in columns]


def title(summary: Mapping[str, Any], task: str = ALL) -> str:
    """What the table shows, and of which kind of pool."""
    where = "all tasks" if task == ALL else clean(task)
    return f"{clean(summary['experiment'])}: test items of {where}, {clean(summary['pool_kind'])} pool"


def caption(summary: Mapping[str, Any]) -> list[str]:
    """Sentences under a table: how to read it, and what the run can and cannot say."""
    return [*reading(summary), *grading_sentence(summary["totals"]), *findings(summary)]


def reading(summary: Mapping[str, Any]) -> list[str]:
    """Which pool it was, and what the columns count."""
    pool = f"{summary['pool_kind']} pool {summary['pool']}, experiment {summary['experiment']}"
    columns = (
        "graded counts items, trunc. episodes whose answer hit its length cap; costs are means over graded episodes "
        "and bill every call, paid for or reused"
    )
    sentences = (f"{pool}: {columns}.", *counts_sentence(summary["rows"]), *totals_sentence(summary["totals"]))
    return [clean(sentence, 400) for sentence in sentences]


def counts_sentence(rows: Sequence[Row]) -> list[str]:
    """What the columns count that are there only where there is something to count."""
    meanings = {
        "n_no_answer": "no answer counts episodes that ended without one",
        "n_capped": "capped counts episodes that their own budget ended, graded on their latest answer",
        "n_estimated": "estim. counts episodes in which nobody reported a call's tokens, so a tokenizer counted them",
    }
    told = [meaning for key, meaning in meanings.items() if counted(key)(rows)]
    if any(row["diff"] is not None and not row["reference"] and _is_equal(row) for row in rows):
        told.append(f"{NO_DIFFERENCE}: the interval is how large a difference so many equal items may still hide")
    found = "; ".join(told)
    return [f"{found[0].upper()}{found[1:]}."] if found else []


def findings(summary: Mapping[str, Any]) -> list[str]:
    """What the run shows, what it could have shown, and every note."""
    sentences = [*verdicts(summary), *uncompared(summary), mdd_sentence(summary), *summary["notes"]]
    return [clean(sentence, 600) for sentence in sentences]


def verdicts(summary: Mapping[str, Any]) -> list[str]:
    """Is a method better or worse than the reference, as far as this run can tell: a sentence a row.

    Controls and bounds get none. Of more than `MOST_VERDICTS` rows those that show no difference share one a method.
    """
    rows = [row for row in rows_of(summary) if row["diff"] is not None and known(row["method"]).role == "method"]
    told = [row for row in rows if len(rows) <= MOST_VERDICTS or row["p_holm"] < ALPHA]
    rest = [row for row in rows if row not in told]
    sentences = [
        f"{label(row)} against {_opponent(row)}: "
        + verdict(row["diff"], (row["diff_low"], row["diff_high"]), row["p_holm"], row["n_paired"])
        for row in told
    ]
    if rest:
        sentences.append(f"No difference to {_reference(rest)} is shown, p adjusted: {_listed(rest)}.")
    return sentences


def _opponent(row: Row) -> str:
    """What a row is compared to, in a sentence."""
    method = str(row.get("reference_method") or BEST_SINGLE)
    return spoken(method) if method == BEST_SINGLE else label({"method": method, "variant": row["reference_variant"]})


def _reference(rows: Sequence[Row]) -> str:
    """The method that rows are compared to, in a sentence."""
    return spoken(str(rows[0].get("reference_method") or BEST_SINGLE))


def _listed(rows: Sequence[Row]) -> str:
    """Rows in a sentence, those of a method together: by name, or how many there are."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(row["method"], []).append(row["variant"])
    return "; ".join(
        f"{method} ({len(names)} rows)" if len(names) > MOST_VERDICTS else f"{method} {', '.join(names)}".strip()
        for method, names in groups.items()
    )


def uncompared(summary: Mapping[str, Any]) -> list[str]:
    """Which rows have an unknown difference since nothing of the reference belongs to them."""
    rows = [row for row in rows_of(summary) if row["n_graded"]]
    others = [row for row in rows if not row["reference"] and row["method"] != BOUND]
    alone = [row for row in others if "reference_variant" in row and row["reference_variant"] is None]
    if not alone:
        return []
    if len(alone) == len(others) and not any(row["reference"] for row in rows):
        return [f"There is no row of {_reference(alone)}, to which differences are taken: they are unknown."]
    several = f"Several rows of {_reference(alone)}, none on the same backbone"
    return [f"{several}, so that no difference is known: {_listed(alone)}."]


def verdict(difference: float, ends: tuple[float, float], p_holm: float, n_items: int) -> str:
    """What a difference on some items shows: one where its adjusted p is below `ALPHA`, whatever the interval says."""
    points = f"{percent(difference, signed=True)} points on {n_items} items graded for both"
    p = f"p {p_value(p_holm)} adjusted"
    if p_holm < ALPHA:
        return f"{'better' if difference > 0 else 'worse'}, {points}, {p}."
    apart = ends[0] > 0 or ends[1] < 0
    caution = "; the interval leaves 0 out, but the test does not confirm it" if apart else ""
    return f"no difference is shown, {points}, {p}{caution}."


def totals_sentence(totals: Mapping[str, Any]) -> list[str]:
    """What the whole run asked, where the totals say it."""
    words = {"logical_calls": "logical", "paid_calls": "paid", "reused_calls": "reused"}
    parts = [f"{totals[key]:,} {word}" for key, word in words.items() if totals.get(key) is not None]
    return [f"Model calls of the whole run: {', '.join(parts)}."] if parts else []


def grading_sentence(totals: Mapping[str, Any]) -> list[str]:
    """What the judge was asked, where there was one."""
    if totals.get("grading_paid_calls") is None:
        return []
    usd = totals["grading_spent_usd"]
    calls = f"{totals['grading_paid_calls']:,} calls paid, {totals['grading_reused_calls']:,} reused"
    tokens = totals["grading_paid_weighted_tokens"] + totals["grading_reused_weighted_tokens"]
    cost = "USD unknown" if usd is None else f"{usd:.4g} USD spent"
    return [f"Grading, which no method is billed for: {calls}, {tokens:,} weighted tokens, {cost}."]


def mdd_sentence(summary: Mapping[str, Any]) -> str:
    """What difference the comparison that the summary tells of can find at this size."""
    found = summary["mdd"]
    if found["difference"] is None:
        return f"Minimum detectable difference: n/a ({found['reason']})."
    if found["difference"] > 1:
        return f"With {found['n_items']} paired items, no difference of {found['comparison']} could be detected."
    return (
        f"Minimum detectable difference of {found['comparison']}: {percent(found['difference'])} points "
        f"({found['n_items']} paired items, {100 * found['power']:.0f} % power, two-sided 5 %)."
    )


def summary_table(summary: Mapping[str, Any], task: str = ALL, width: int = ROOMY) -> Table:
    """The table of one task, or of all, for a terminal of `width` characters."""
    from rich.text import Text

    rows = rows_of(summary, task)
    columns = columns_for(rows, width)
    table = empty_table(title(summary, task), [column.title for column in columns])
    table.caption = Text("\n".join(caption(summary)))
    groups = _groups(rows)
    for place, row in enumerate(rows):
        last = place + 1 == len(rows) or groups[place] != groups[place + 1]
        style = "bold" if is_trained(row["method"]) else None
        table.add_row(*(Text(cell) for cell in format_row(row, columns)), style=style, end_section=last)
    return table


def empty_table(name: str, titles: Sequence[str], least: int = 14) -> Table:
    """A table for a terminal; its first column is left and `least` wide, the others right aligned."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(name), title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for place, text in enumerate(titles):
        table.add_column(
            Text(text), justify="right" if place else "left", overflow="fold", min_width=0 if place else least
        )
    return table


def _groups(rows: Sequence[Row]) -> list[str]:
    """Rows of one group stand together between two rules: those of a method that has several, else those of a role."""
    counts = Counter(row["method"] for row in rows)
    return [
        row["method"] if counts[row["method"]] > 1 or row["method"] in {SINGLE, TRAINED} else known(row["method"]).role
        for row in rows
    ]


def agents_table(summary: Mapping[str, Any]) -> Table:
    """The agents alone, a column per task: what there is to coordinate, before anything else has run."""
    from rich.text import Text

    tasks = tasks_of(summary)
    rows = {(row["variant"], row["task"]): row for row in summary["rows"] if row["method"] == SINGLE}
    titles = ["agent", *(f"{clean(name)} %\n(95 % CI)" for name in [*tasks, ALL]), "graded\nitems", "weighted\ntokens"]
    table = empty_table(f"{title(summary)}, agents alone", titles)
    for agent in dict.fromkeys(agent for agent, _ in rows):
        cells = [_cell(rows.get((agent, name))) for name in [*tasks, ALL]]
        whole = rows[agent, ALL]
        ends = [f"{whole['n_graded']}/{whole['n_items']}", _mean("weighted_tokens_mean")(whole)]
        table.add_row(*(Text(cell) for cell in [clean(agent, 48), *cells, *ends]))
    return table


def _cell(row: Row | None) -> str:
    """Accuracy of an agent on a task."""
    return _accuracy(row) if row else "n/a"
