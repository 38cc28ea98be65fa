"""Reads the filled grid of a logic puzzle from a text: what stands in each house, by attribute."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from unicodedata import normalize

from trinity.canonical import canonical_json

VERSION = "grid/1"

_WINDOW = 200_000
"""Characters of a text's end that are read; a grid of six houses and six attributes has about a thousand."""
# A house holds no further braces, so that each is found alone, whatever stands around it.
_HOUSE = re.compile(
    r"(?:house[\s_#]{0,3}(?P<number>[0-9]{1,2})[\"'`*]{0,3}|[\"'](?P<alone>[0-9]{1,2})[\"'])\s{0,9}[:=]\s{0,9}"
    r"\{(?P<cells>[^{}]{0,4000})\}",
    re.IGNORECASE,
)
_QUOTED = r"\"(?:[^\"\\]|\\.){0,200}\"|'(?:[^'\\]|\\.|(?<=\w)'(?=\w)){0,200}'"
_CELL = re.compile(
    rf"(?P<key>{_QUOTED}|[\w -]{{1,60}}?)\s{{0,9}}:\s{{0,9}}\[?\s{{0,9}}"
    rf"(?P<value>{_QUOTED}|[^\s,\]\}}\"'][^,\]\n]{{0,100}})"
)
_DROPPED = re.compile(r"[\s_`'\"\\-]+")
_CONTRADICTION = "?"


def read_grid(text: str, attributes: Sequence[str], houses: int) -> str | None:
    r"""The last grid in `text` as canonical JSON `{"1": {"name": "eric", ...}, ...}`; None = there is none.

    Read is the JSON object that maps `House 1`, `House 2`, ... to their attributes, in a fenced block or not, inside
    another object or not, with double, single or no quotes, and with commas too many. Of several grids the last
    complete one counts, else the last. Case, white space, underscores and hyphens of attributes and values do not
    matter. An attribute given twice with different values is a contradiction, which is never right. Nothing of the
    text is evaluated.

    Args:
        text: what was answered.
        attributes: the attributes asked for; others are left out.
        houses: how many houses there are, numbered from 1; others are left out.
    """
    names = {plain_value(name) for name in attributes}
    last = complete = None
    for grid in _grids(text[-_WINDOW:], names, houses):
        last = grid
        complete = grid if _cells(grid) == houses * len(names) else complete
    chosen = complete or last
    return canonical_json(chosen) if chosen else None


def grid_key(attributes: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The form in which `read_grid` gives a grid whose first house is `rows[0]`."""
    names = [plain_value(name) for name in attributes]
    return canonical_json(
        {str(number): dict(zip(names, map(plain_value, row), strict=True)) for number, row in enumerate(rows, 1)}
    )


def plain_value(text: str) -> str:
    """A name or value in the form in which two that say the same are equal: `Hair_Color` and `hair color`."""
    return _DROPPED.sub("", normalize("NFKC", text).casefold())


def _grids(text: str, names: set[str], houses: int) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Each run of houses, of which none comes twice; a house that says nothing that was asked is left out."""
    grid: dict[str, dict[str, str]] = {}
    for found in _HOUSE.finditer(text):
        number = str(int(found["number"] or found["alone"]))
        cells = _house(found["cells"], names)
        if not cells or not 1 <= int(number) <= houses:
            continue
        if number in grid:
            yield grid
            grid = {}
        grid[number] = cells
    yield grid


def _house(cells: str, names: set[str]) -> dict[str, str]:
    """The values of the attributes asked for; blanks (`___`, `...`) are none."""
    house: dict[str, str] = {}
    for cell in _CELL.finditer(cells):
        name, value = plain_value(cell["key"]), plain_value(cell["value"])
        if name in names and any(map(str.isalnum, value)):
            house[name] = value if house.get(name, value) == value else _CONTRADICTION
    return house


def _cells(grid: Mapping[str, Mapping[str, str]]) -> int:
    return sum(map(len, grid.values()))
