"""The grid grader: which grid of a text it reads, and in what forms."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.graders.grid import grid_key, plain_value, read_grid

ATTRIBUTES = ("Name", "FavoriteDrink")
ROWS = (("Eric", "root beer"), ("Ada", "milk"))
RIGHT = grid_key(ATTRIBUTES, ROWS)
PLAIN = (
    '{"House 1": {"Name": "Eric", "FavoriteDrink": "root beer"}, "House 2": {"Name": "Ada", "FavoriteDrink": "milk"}}'
)
OTHER = PLAIN.replace("Eric", "Bo")


def test_the_key_is_canonical() -> None:
    """A grid's key is JSON by house and attribute, without case, spaces and underscores."""
    assert json.loads(RIGHT) == {
        "1": {"name": "eric", "favoritedrink": "rootbeer"},
        "2": {"name": "ada", "favoritedrink": "milk"},
    }


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"So:\n```json\n{PLAIN}\n```\nDone.",
        f'{{"reasoning": "if {{A, then B", "solution": {PLAIN}}}',
        PLAIN.replace('"', "'"),
        PLAIN.replace('"', ""),
        PLAIN.replace('"}', '",},').replace("}}", "}}}"),
        PLAIN.replace("House 1", "house_1").replace("House 2", "2"),
        PLAIN.replace("FavoriteDrink", "favorite drink").replace("root beer", "Root_Beer"),
        PLAIN.replace('"Eric"', '["Eric"]'),
        json.dumps(json.loads(PLAIN), indent=4),
        f"{OTHER}\nNo. Again:\n{PLAIN}",
        json.dumps(dict(reversed(json.loads(PLAIN).items()))),
        PLAIN.replace('"Name": "Ada"', '"House": "2", "Name": "Ada", "Pet": "dog"'),
        f'{PLAIN}\nSo in {{"House 1": {{"Name": "Eric"}}}} the beer is drunk.',
        PLAIN.replace('"Name": "Ada"', '"Name": "Ada", "name": "ada"'),
        f'{{"House 1": {{"Name": "...", "FavoriteDrink": "___"}}}}\n{PLAIN}',
    ],
)
def test_a_grid_in_any_dress(text: str) -> None:
    """Fences, quotes, commas, order, wrappers, and grids before it do not change the last complete grid."""
    assert read_grid(text, ATTRIBUTES, 2) == RIGHT


@pytest.mark.parametrize(
    "text",
    [
        OTHER,
        f"{PLAIN}\nOr rather {OTHER}",
        PLAIN.replace('"Name": "Ada"', '"Name": "Ada", "Name": "Bo"'),
        PLAIN.replace(', "FavoriteDrink": "milk"', ""),
        '{"House 1": {"Name": "Eric", "FavoriteDrink": "root beer"}}',
        PLAIN.replace("House 1", "House 3"),
        PLAIN.replace("milk", "___"),
    ],
)
def test_another_grid_is_an_answer_but_not_this_one(text: str) -> None:
    """A wrong, contradictory or incomplete grid is read, and is not the right one."""
    assert read_grid(text, ATTRIBUTES, 2) not in {RIGHT, None}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I can not solve it.",
        '{"answer": 3}',
        '{"House 1": {"Name": "...", "FavoriteDrink": "___"}}',
        '{"House 1": "Eric"}',
        "__import__('os').system('true')",
        PLAIN.replace("House", "Tent"),
    ],
)
def test_no_grid_is_no_answer(text: str) -> None:
    """Without a filled house there is no answer."""
    assert read_grid(text, ATTRIBUTES, 2) is None


def test_an_apostrophe_ends_no_value() -> None:
    """A value with an apostrophe is read whole, in double and in single quotes."""
    key = grid_key(("Name",), (("O'Neil",), ("Ada",)))
    assert read_grid('{"House 1": {"Name": "O\'Neil"}, "House 2": {"Name": "Ada"}}', ("Name",), 2) == key
    assert read_grid("{'House 1': {'Name': 'O'Neil'}, 'House 2': {'Name': 'Ada'}}", ("Name",), 2) == key


def test_names_that_say_the_same_are_equal() -> None:
    """Case, white space, underscores and hyphens are dropped, all else is kept."""
    assert plain_value("Hair_Color") == plain_value("hair  color") == plain_value("`Hair-color`") == "haircolor"
    assert plain_value("ford f150") != plain_value("ford f15")


@given(st.text(alphabet="House 12{}[]\":,'\\NameEric", max_size=200))
def test_any_text_gives_json_or_nothing(text: str) -> None:
    """No text makes the grader raise."""
    found = read_grid(text, ATTRIBUTES, 2)
    assert found is None or set(json.loads(found)) <= {"1", "2"}


@pytest.mark.parametrize("piece", ["{", "House 1: {", '"', "House 1: {a:'", "House 1: {Name: x}", "'1':{"])
def test_ten_megabytes_are_read(piece: str) -> None:
    """Ten megabytes of any hostile repetition end in a grid that is not the right one, or in none."""
    assert read_grid(piece * (10_000_000 // len(piece)), ATTRIBUTES, 2) != RIGHT


def test_what_was_not_asked_for_is_left_out() -> None:
    """Houses below 1 and above the number of houses are none, and two values of one attribute are a contradiction."""
    ada = {"name": "ada", "favoritedrink": "milk"}
    for other in ("House 0", "House 3"):
        assert json.loads(read_grid(PLAIN.replace("House 1", other), ATTRIBUTES, 2) or "") == {"2": ada}
    twice = read_grid(PLAIN.replace('"Name": "Ada"', '"Name": "Ada", "Name": "Bo"'), ATTRIBUTES, 2)
    assert json.loads(twice or "")["2"] == {**ada, "name": "?"}
    assert json.loads(read_grid(PLAIN, ("Name",), 2) or "") == {"1": {"name": "eric"}, "2": {"name": "ada"}}


def test_the_last_complete_grid_goes_before_the_last_one() -> None:
    """Of grids without a complete one the last counts, of two complete ones the second."""
    one, two = (json.dumps({"House 1": {"Name": name}}) for name in ("Bo", "Cy"))
    assert json.loads(read_grid(f"{one}\n{two}", ATTRIBUTES, 2) or "") == {"1": {"name": "cy"}}
    assert read_grid(f"{PLAIN}\n{one}\n{two}", ATTRIBUTES, 2) == RIGHT


def test_the_end_of_a_text_is_read() -> None:
    """A grid counts as long as `House 1` is within the last 200,000 characters."""
    room = 200_000 - len(PLAIN) + 2
    assert read_grid(PLAIN + " " * room, ATTRIBUTES, 2) == RIGHT
    assert read_grid(PLAIN + " " * (room + 1), ATTRIBUTES, 2) != RIGHT
