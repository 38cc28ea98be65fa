"""The nearest stored request is found and the differences are exactly those that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trinity.canonical import digest
from trinity.runs.calls import CALL_STATEMENTS, Answer, CallTable, RequestRows
from trinity.runs.nearest import Difference, alike, differences, edges, nearest
from trinity.runs.sqlite import Schema, open_database

SCHEMA = Schema("call file", 4714, CALL_STATEMENTS)
MakeCall = Callable[..., tuple[Answer, dict[str, Any]]]
QUESTION = "A train leaves at noon and drives for three hours at eighty kilometres an hour. How far does it get?"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[CallTable]:
    """An empty table of calls."""
    database = open_database(tmp_path / "calls.sqlite", SCHEMA, "create")
    yield CallTable(database)
    database.close()


def keep(table: CallTable, make_call: MakeCall, request: dict[str, Any]) -> str:
    """Store an answer to `request`; its hash."""
    answer, _ = make_call(request_hash=digest(request))
    table.put(answer, request)
    return answer.request_hash


def test_the_fewest_changes_win(table: CallTable, make_call: MakeCall) -> None:
    """One changed setting is nearer than two, and a changed letter nearer than another question."""
    _, asked = make_call(QUESTION)
    colder = {**asked, "sampling": {"temperature": 0.1}}
    twice = {**colder, "model": "other"}
    typo = {**make_call(QUESTION.replace("noon", "none"))[1], "model": "other"}
    other = make_call("How many legs has a spider?")[1]
    stored = [keep(table, make_call, request) for request in (other, typo, twice, colder)]
    assert nearest(table, asked) == stored[3]
    assert nearest(table, {**asked, "model": "other", "sample": 4}) in stored[1:3]
    assert nearest(table, make_call("How many legs has a horse?")[1]) == stored[0]


@pytest.mark.parametrize("place", range(0, len(QUESTION), 7))
def test_an_edit_anywhere_leaves_it_the_nearest(place: int, table: CallTable, make_call: MakeCall) -> None:
    """Whatever letter was changed, the request with that text is found among others of the same settings."""
    for number in range(20):
        keep(table, make_call, make_call(f"{number}: {QUESTION[::-1]} {number}")[1])
    wanted = keep(table, make_call, make_call(QUESTION)[1])
    edited = QUESTION[:place] + "#" + QUESTION[place + 1 :]
    assert nearest(table, make_call(edited)[1]) == wanted


def test_requests_without_an_answer_do_not_count(table: CallTable, make_call: MakeCall) -> None:
    """What was asked for and never answered is nothing that could be used."""
    assert nearest(table, make_call()[1]) is None
    missed = make_call("a")[1]
    table.write_requests([RequestRows.of(digest(missed), missed)])
    assert nearest(table, make_call()[1]) is None
    kept = keep(table, make_call, {**make_call("b")[1], "model": "other"})
    assert nearest(table, missed) == kept


def test_a_damaged_part_ends_no_search(table: CallTable, make_call: MakeCall) -> None:
    """Settings that cannot be read count as wholly different."""
    keep(table, make_call, {**make_call()[1], "model": "other"})
    table._database.execute("DELETE FROM parts WHERE hash = (SELECT substr(parts, 1, 16) FROM requests)")
    wanted = keep(table, make_call, make_call()[1])
    assert nearest(table, {**make_call()[1], "sample": 9}) == wanted


def test_differences_are_named_by_field(make_call: MakeCall) -> None:
    """Each field that differs has a line, numbers are told from texts, and what is equal has none."""
    _, asked = make_call("a")
    stored = {
        **asked,
        "model": "n",
        "messages": [asked["messages"][0], {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
        "sampling": {"temperature": "0.7", "seed": 1},
        "extra_body": {"think": {"budget": None}},
        "replicate": None,
    }
    assert list(differences(asked, asked)) == []
    assert list(differences(asked, stored)) == [
        Difference("extra_body", "{}", None),
        Difference("extra_body.think.budget", None, "null"),
        Difference("messages[1].content", "a", "b"),
        Difference("messages[1].role", "user", "assistant"),
        Difference("messages[2].content", None, "c"),
        Difference("messages[2].role", None, "user"),
        Difference("model", '"m"', '"n"'),
        Difference("replicate", '["train",3]', "null"),
        Difference("sampling.seed", None, "1"),
        Difference("sampling.temperature", "0.7", '"0.7"'),
    ]


@settings(deadline=None, max_examples=100)
@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_edges_are_common_and_never_overlap(one: str, other: str) -> None:
    """Beginning and end are shared by both texts, as long as can be, and fit into the shorter one."""
    begin, end = edges(one, other)
    assert one[:begin] == other[:begin]
    assert one[len(one) - end :] == other[len(other) - end :]
    assert begin + end <= min(len(one), len(other))
    assert begin == min(len(one), len(other)) or one[begin] != other[begin]
    assert (alike(one.encode(), other.encode()) == 1) == (one == other)
