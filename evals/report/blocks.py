"""The parts of a report as plain texts, which Markdown and HTML write each in their own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from evals.report.canvas import Picture
from evals.report.text import number


class Text(NamedTuple):
    """One paragraph."""

    text: str


class Bullets(NamedTuple):
    """Plain sentences."""

    sentences: Sequence[str]


class Grid(NamedTuple):
    """A table of plain texts; the first `left` columns are left, the others right aligned.

    `strong` are the places of rows that a page shows in bold.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    strong: frozenset[int] = frozenset()


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

    def cell(entry: Entry) -> str:
        value = entry.get(key)
        return "n/a" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"  # noqa: PLR2004 - by custom

    return cell
