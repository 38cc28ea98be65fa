"""ZebraLogic: whole grids and single cells."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.tasks.zebralogic import ZebraLogic
from tests.evals.tasks import rows_choice
from tests.evals.tasks.rows import write
from trinity.errors import DataError
from trinity.splits import check_disjoint
from trinity.types import SPLITS, Episode, Item

SHARED = Path(__file__).parents[4] / "shared" / "data" / "items"


def make(path: Path, **changed: Any) -> ZebraLogic:
    """A task of 8 training, 6 validation and 12 test items."""
    return ZebraLogic(**{"data_seed": 0, "n_train": 8, "n_val": 6, "n_test": 12, "path": path, **changed})


def alone(path: Path, **changed: Any) -> ZebraLogic:
    """A task with all rows of a file as test items."""
    return make(path, n_train=0, n_val=0, n_test=None, **changed)


def swapped(item: Item) -> str:
    """The right grid with the names of its first two houses exchanged."""
    grid = json.loads(item.target)
    grid["1"]["name"], grid["2"]["name"] = grid["2"]["name"], grid["1"]["name"]
    return json.dumps({f"House {number}": cells for number, cells in grid.items()})


def test_one_file_is_cut_into_disjoint_splits(tmp_path: Path) -> None:
    """Grids of the three splits are different puzzles, the same on every reading."""
    path = write(tmp_path / "rows.jsonl", rows_choice.zebra_grid())
    made = make(path)
    assert [len(list(made.items(split))) for split in SPLITS] == [8, 6, 12]
    check_disjoint((split, item) for split in SPLITS for item in made.items(split))
    assert made.fingerprint() == make(path).fingerprint() != make(path, data_seed=1).fingerprint()


def test_no_puzzle_of_a_split_is_asked_about_in_another(tmp_path: Path) -> None:
    """Of several questions on one puzzle all stay in one split."""
    made = make(write(tmp_path / "rows.jsonl", rows_choice.zebra_mc()), mode="mc")
    puzzles = [{item.prompt.partition("\n\n")[0] for item in made.items(split)} for split in SPLITS]
    assert [len(list(made.items(split))) for split in SPLITS] == [8, 6, 12]
    assert not puzzles[0] & puzzles[1] | puzzles[0] & puzzles[2] | puzzles[1] & puzzles[2]


async def test_a_grid_is_right_when_every_cell_is(tmp_path: Path) -> None:
    """The solution scores 1; two names exchanged, or a house left out, 0 with the grid as answer; prose has none."""
    made = alone(write(tmp_path / "rows.jsonl", rows_choice.zebra_grid()))
    for item in made.items("test"):
        right = await made.grade(item, Episode(made.solution(item)), None)
        assert (right.score, right.answer) == (1, item.target)
        wrong = await made.grade(item, Episode(swapped(item)), None)
        partial = await made.grade(item, Episode('{"House 1": {"Name": "Ada"}}'), None)
        none = await made.grade(item, Episode("Ada lives in House 1."), None)
        assert (wrong.score, partial.score, none.score, none.answer) == (0, 0, 0, None)
        assert wrong.answer is not None
        assert partial.answer == '{"1":{"name":"ada"}}'


def test_equal_grids_in_other_dress_are_one_vote(tmp_path: Path) -> None:
    """Answers are compared by their cells, so that methods may vote on them."""
    made = alone(write(tmp_path / "rows.jsonl", rows_choice.zebra_grid()))
    (item, *_) = made.items("test")
    solution = made.solution(item)
    assert solution
    assert made.comparable
    assert made.key(item, solution.upper().replace(": ", ":")) == made.key(item, solution) == item.target


def test_the_prompt_shows_the_form_and_no_value_of_the_solution_beyond_the_puzzle(tmp_path: Path) -> None:
    """Asked for is a JSON object with every house and attribute; an echo of that form is no answer."""
    made = alone(write(tmp_path / "rows.jsonl", rows_choice.zebra_grid()))
    for item in made.items("test"):
        (message,) = made.open(item)
        form = message["content"].partition(item.prompt)[2]
        assert json.loads(form[form.index("{") :]) == {
            f"House {number}": {"Name": "...", "FavoriteDrink": "..."} for number in (1, 2, 3)
        }
        assert not any(name in form for name in (*rows_choice.NAMES, *rows_choice.DRINKS))
        assert made.key(item, message["content"]) is None


@pytest.mark.parametrize(("mode", "rows"), [("grid", rows_choice.zebra_grid()), ("mc", rows_choice.zebra_mc())])
def test_difficulty_is_the_size_of_the_search_space(tmp_path: Path, mode: str, rows: list[dict[str, Any]]) -> None:
    """Three houses with two attributes leave (3!)^2 grids: a small puzzle."""
    for item in alone(write(tmp_path / "rows.jsonl", rows), mode=mode).items("test"):
        assert item.difficulty == pytest.approx(2 * math.log10(6), abs=1e-4)
        assert (item.difficulty_kind, item.domain) == ("constructed", "small")


@pytest.mark.parametrize(
    ("identifier", "difficulty", "domain"),
    [("lgp-test-5x6-16#mc-0", 12.4751, "x-large"), ("lgp-test-4x6-1#mc-2", 8.2813, "large"), ("puzzle", None, "logic")],
)
def test_a_question_takes_its_size_from_its_id(
    tmp_path: Path, identifier: str, difficulty: float | None, domain: str
) -> None:
    """The columns of single cells have no size; where the id has none either, the difficulty is unknown."""
    row = {**rows_choice.zebra_mc()[0], "id": identifier}
    (item,) = alone(write(tmp_path / "rows.jsonl", [row]), mode="mc").items("test")
    assert (item.difficulty, item.domain) == (difficulty, domain)


def test_grader_and_chance_are_those_of_the_mode(tmp_path: Path) -> None:
    """A grid is not guessed; one of three values is."""
    cells = alone(write(tmp_path / "rows.jsonl", rows_choice.zebra_mc()), mode="mc")
    grids = alone(write(tmp_path / "grids.jsonl", rows_choice.zebra_grid()))
    assert [len(list(made.items("test"))) for made in (cells, grids)] == [72, 36]
    assert [made.grader.partition("/")[0] for made in (cells, grids)] == ["letter", "grid"]
    assert [made.chance for made in (cells, grids)] == pytest.approx([1 / 3, 0])
    assert cells.redistribute == grids.redistribute == "ids-only"


def blanked(row: dict[str, Any]) -> dict[str, Any]:
    """A grid as allenai/ZebraLogicBench has it."""
    rows = [["___"] * len(cells) for cells in row["solution"]["rows"]]
    return {**row, "solution": {"header": row["solution"]["header"], "rows": rows}}


@pytest.mark.parametrize(
    ("mode", "row"),
    [
        ("grid", blanked(rows_choice.zebra_grid()[0])),
        ("mc", {key: value for key, value in rows_choice.zebra_mc()[0].items() if key != "answer"}),
        ("mc", {**rows_choice.zebra_mc()[0], "answer": "___"}),
    ],
)
def test_blanked_answers_say_who_has_them(tmp_path: Path, mode: str, row: dict[str, Any]) -> None:
    """The copy without answers is refused with the place and the name of the one that has them."""
    made = alone(write(tmp_path / "rows.jsonl", [row]), mode=mode)
    with pytest.raises(DataError, match=r"rows\.jsonl: row 1: the answers are blanked.*read WildEval/ZebraLogic"):
        made.items("test")


@pytest.mark.parametrize(
    ("mode", "change", "complaint"),
    [
        ("grid", {"solution": {"header": ["Name"], "rows": [["Ada"]]}}, "solution is .* not a header that starts with"),
        ("grid", {"solution": {"header": ["House", "Name"], "rows": [["1"]]}}, "a row for each house"),
        ("grid", {"solution": "Ada, Bo"}, "solution is 'Ada, Bo', not a header"),
        ("mc", {"answer": "Di"}, "answer is 'Di', not one of the choices"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, mode: str, change: dict[str, Any], complaint: str) -> None:
    """A row without a solution of its puzzle is a DataError with file and row."""
    row = {**(rows_choice.zebra_grid() if mode == "grid" else rows_choice.zebra_mc())[0], **change}
    with pytest.raises(DataError, match=rf"rows\.jsonl: row 1: .*{complaint}"):
        alone(write(tmp_path / "rows.jsonl", [row]), mode=mode).items("test")


def test_other_columns_are_named(tmp_path: Path) -> None:
    """A file of something else is refused with the columns expected and found."""
    with pytest.raises(
        DataError, match="row 1 has no column puzzle, solution; expected puzzle, solution, found colour"
    ):
        alone(write(tmp_path / "rows.jsonl", [{"colour": "red"}])).items("test")


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not here")
@pytest.mark.parametrize(("mode", "count"), [("grid", 56), ("mc", 40)])
async def test_every_row_of_the_slices(mode: str, count: int) -> None:
    """Each solution is graded right, and each with two cells exchanged wrong."""
    made = alone(SHARED / f"zebralogic_own_{mode}_mode.jsonl", mode=mode)
    items = list(made.items("test"))
    assert len({item.item_id for item in items}) == len(items) == count
    for item in items:
        other = swapped(item) if mode == "grid" else f"Answer: {'A' if item.target == 'B' else 'B'}"
        scores = [(await made.grade(item, Episode(text), None)).score for text in (made.solution(item), other)]
        assert scores == [1, 0]
    assert len(Counter(item.difficulty for item in items)) > 1
