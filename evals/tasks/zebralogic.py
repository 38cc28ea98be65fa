"""ZebraLogic: who lives in which house, asked for as the whole grid or as one of its cells."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from evals.graders import grid, letter
from evals.tasks.base import item_id
from evals.tasks.benchmark import filled, prompt_text
from evals.tasks.choice import ChoiceSettings, ChoiceTask, listed_options
from evals.tasks.hub import Row
from evals.tasks.options import one_of
from trinity.canonical import folded
from trinity.types import Item, Message, Redistribute

_BLANK = re.compile(r"_{2,}|")
_SIZE = re.compile(r"(?<![0-9])([0-9]{1,2})[x*]([0-9]{1,2})(?![0-9])")
_SIZES = ((3.0, "small"), (6.0, "medium"), (10.0, "large"), (math.inf, "x-large"))
_HOUSE = "House"
_NO_ANSWERS = (
    "the answers are blanked, as in allenai/ZebraLogicBench; read WildEval/ZebraLogic, which has them, or "
    "allenai/ZebraLogicBench-private, which is gated"
)


class ZebraLogic(ChoiceTask):
    """ZebraLogic (Lin et al., arXiv 2502.01100): logic grid puzzles of 2 to 6 houses and 2 to 6 attributes.

    In the mode `grid` the answer is the whole grid as JSON, and it is right when every cell is (the paper's puzzle
    accuracy); the record keeps the grid that was given, so that cells can be counted later. In the mode `mc` one
    cell is asked for, with the values of its attribute as options, in the data's order.

    Difficulty, constructed, is the decimal logarithm of the search space: for N houses and M attributes, of (N!)^M,
    as in the paper. The domain is its group of that: small (below 10^3), medium (10^6), large (10^10), x-large.
    One split on the hub, cut by `data_seed`; no puzzle is in two of a task's splits.

    Args:
        mode: grid (1,000 rows) or mc (3,259 rows).
        settings: see `ChoiceSettings`; there are no options to shuffle in the mode grid.

    Raises:
        ConfigError: there is no such mode.
    """

    name = "zebralogic"
    repo = "WildEval/ZebraLogic"
    licence = "none stated"
    redistribute: Redistribute = "ids-only"
    citation = (
        "Lin et al., ZebraLogic: On the Scaling Limits of LLMs for Logical Reasoning, ICML 2025, arXiv 2502.01100"
    )

    def __init__(self, *, mode: str = "grid", **settings: Unpack[ChoiceSettings]) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.mode = one_of(self.name, "mode", mode, ("grid", "mc"))
        self.config = f"{self.mode}_mode"
        self.grader = grid.VERSION if self.mode == "grid" else letter.VERSION
        if self.mode == "grid":
            self.chance = 0.0
            self.columns, self.optional = ("puzzle", "solution"), ("id", "size")
        else:
            # The copy without answers has no such column, and is to be told so.
            self.columns, self.optional = ("puzzle", "question", "choices"), ("answer", "id")

    def question(self, row: Row) -> str:
        """The puzzle, and what is asked of it."""
        parts = (row.text("puzzle"), row.text("question") if self.mode == "mc" else "")
        return "\n\n".join(filter(None, parts))

    def options(self, row: Row) -> list[str]:
        """The values of the attribute that is asked for."""
        return listed_options(row, "choices") if self.mode == "mc" else []

    def identity(self, row: Row) -> str:
        """The puzzle, and behind a line's end what is asked of it."""
        return "\n".join((folded(row.text("puzzle")), folded(self.question(row)), *map(folded, self.options(row))))

    def item(self, row: Row) -> Item:
        """A puzzle, or a question on one.

        Raises:
            DataError: its answer is blanked or broken; names the place and who has the answers.
        """
        return self._grid_item(row) if self.mode == "grid" else self._cell_item(row)

    def open(self, item: Item) -> list[Message]:
        """One user message; a grid is asked for in the form that the puzzle's attributes give."""
        if self.mode == "mc":
            return super().open(item)
        empty = dict.fromkeys(item.meta["attributes"], "...")
        form = json.dumps({f"{_HOUSE} {number}": empty for number in range(1, item.meta["houses"] + 1)}, indent=2)
        return [{"role": "user", "content": filled(prompt_text("zebralogic"), question=item.prompt, form=form)}]

    def key(self, item: Item, text: str) -> str | None:
        """The grid in canonical form, or the letter of the chosen value."""
        if self.mode == "mc":
            return super().key(item, text)
        return grid.read_grid(text, item.meta["attributes"], item.meta["houses"])

    def solution(self, item: Item) -> str | None:
        """The right grid in a fenced block, or the right letter."""
        if self.mode == "mc":
            return super().solution(item)
        houses = {f"{_HOUSE} {number}": cells for number, cells in json.loads(item.target).items()}
        return f"So it is:\n```json\n{json.dumps(houses, indent=2)}\n```"

    def _usable(self, there: str, taken: set[str]) -> Iterator[Row]:
        # Another question on a puzzle of a split would tell of that puzzle.
        puzzles = {identity.partition("\n")[0] for identity in taken}
        return (row for row in super()._usable(there, taken) if folded(row.text("puzzle")) not in puzzles)

    def _grid_item(self, row: Row) -> Item:
        attributes, rows = _solution(row)
        difficulty = _search_space(len(rows), len(attributes))
        meta = {"puzzle": row.text("id", ""), "attributes": attributes, "houses": len(rows)}
        prompt = row.text("puzzle")
        return Item(
            item_id(self.name, prompt), self.name, prompt, grid.grid_key(attributes, rows), _group(difficulty),
            difficulty, "constructed", meta,
        )  # fmt: skip

    def _cell_item(self, row: Row) -> Item:
        answer = row.text("answer", "")
        if _BLANK.fullmatch(answer):
            raise row.error(_NO_ANSWERS)
        places = [place for place, option in enumerate(self.options(row)) if folded(option) == folded(answer)]
        if len(places) != 1:
            raise row.wrong("answer", "one of the choices")
        size = _SIZE.search(row.text("id", ""))
        difficulty = _search_space(int(size[1]), int(size[2])) if size else None
        domain = "logic" if difficulty is None else _group(difficulty)
        return self.choice_item(row, places[0], domain, {"puzzle": row.text("id", "")}, difficulty)


def _solution(row: Row) -> tuple[list[str], list[Sequence[str]]]:
    """The attributes, and their values by house, of the column `solution`."""
    value: Any = row.values.get("solution")
    header, rows = (value.get("header"), value.get("rows")) if isinstance(value, Mapping) else (None, None)
    if not header or not rows or header[0] != _HOUSE or any(len(cells) != len(header) for cells in rows):
        raise row.wrong("solution", "a header that starts with House and a row for each house")
    if any(_BLANK.fullmatch(str(cell)) for cells in rows for cell in cells):
        raise row.error(_NO_ANSWERS)
    return list(header[1:]), [cells[1:] for cells in rows]


def _search_space(houses: int, attributes: int) -> float:
    """Decimal logarithm of the number of grids."""
    return round(attributes * math.log10(math.factorial(houses)), 4)


def _group(difficulty: float) -> str:
    return next(name for bound, name in _SIZES if difficulty < bound)
