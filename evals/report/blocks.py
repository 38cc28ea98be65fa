"""The parts of a report as plain texts, which Markdown and HTML write each in their own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from evals.report.canvas import Picture
from evals.report.text import NO_DIFFERENCE, interval, number, p_value, percent
from evals.stats.methods import place_of, without_setting


class Text(NamedTuple):
    """One paragraph."""

    text: str


class Bullets(NamedTuple):
    """Plain sentences."""

    sentences: Sequence[str]


class Grid(NamedTuple):
    """A table of plain texts; the first `left` columns are left, the others right aligned.

    `strong` are the places of rows that are shown in bold, `heading` is what a table that stands by itself is called.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    strong: frozenset[int] = frozenset()
    heading: str = ""


class Command(NamedTuple):
    """What is typed into a shell."""

    text: str


Block = Text | Bullets | Grid | Command | Picture


class Part(NamedTuple):
    """A heading and what stands under it; one of level 3 belongs to that of level 2 before it."""

    heading: str
    blocks: Sequence[Block]
    level: int = 2


Entry = Mapping[str, Any]
Column = tuple[str, Callable[[Entry], str]]


def grid(entries: Iterable[Entry], columns: Sequence[Column], left: int = 1) -> Grid:
    """A table of objects, a row each."""
    return Grid([title for title, _ in columns], [[cell(entry) for _, cell in columns] for entry in entries], left)


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Entries of an analysis by task and method, in the order of tables; what they do not tell stays as it came."""
    found = list(entries)
    tasks = list(dict.fromkeys(entry.get("task") for entry in found))
    return sorted(found, key=lambda entry: (tasks.index(entry.get("task")), place_of(without_setting(entry["method"]))))


def text_of(key: str) -> Callable[[Entry], str]:
    """A cell with a name or a whole number."""

    def cell(entry: Entry) -> str:
        value = entry.get(key)
        return "n/a" if value is None else f"{value:,}" if isinstance(value, int) else str(value)

    return cell


def number_of(key: str) -> Callable[[Entry], str]:
    """A cell with three digits of a number."""
    return lambda entry: "n/a" if entry.get(key) is None else number(entry[key])


def p_of(key: str) -> Callable[[Entry], str]:
    """A cell with a p-value."""
    return lambda entry: p_value(entry.get(key))


def share_of(key: str, *, signed: bool = False) -> Callable[[Entry], str]:
    """A cell with a share in percent, or (signed) a difference in points."""
    return lambda entry: percent(entry.get(key), signed=signed)


def interval_of(key: str, ends: str = "ci", *, signed: bool = False) -> Callable[[Entry], str]:
    """A cell with a share, or (signed) a difference, and its interval from `{ends}_low` to `{ends}_high`."""
    return lambda entry: interval(entry.get(key), entry.get(f"{ends}_low"), entry.get(f"{ends}_high"), signed=signed)


TASK: Column = ("task", text_of("task"))
METHOD: Column = ("method", text_of("method"))
BACKBONE: Column = ("backbone", lambda row: "all" if row["backbone"] is None else str(row["backbone"]))
ITEMS: Column = ("items", text_of("n_items"))


def _points(entry: Entry) -> str:
    """A cell with a difference and its interval, and whether nothing differs at all."""
    told = interval_of("difference", signed=True)(entry)
    equal = bool(entry.get("n_items")) and entry.get("wins") == entry.get("losses") == 0
    return f"{told}\n{NO_DIFFERENCE}" if equal else told


POINTS: Column = ("difference\n(95 % CI)", _points)
P_VALUES: Sequence[Column] = (("p", p_of("p")), ("p, Holm", p_of("p_holm")))
