"""Answers are stored once, come back as they were, and show damage."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trinity.canonical import digest
from trinity.errors import LedgerError
from trinity.runs.calls import CALL_STATEMENTS, CallRow, CallTable
from trinity.runs.sqlite import Database, Schema, open_database
from trinity.types import FinishReason, Usage

SCHEMA = Schema("call file", 4712, CALL_STATEMENTS)
MakeCall = Callable[..., CallRow]
ANY_TEXT = st.text(st.characters(exclude_categories=()))
COUNTS = st.integers(0, 2**62)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty file for calls."""
    opened = open_database(tmp_path / "calls.sqlite", SCHEMA, "create")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared_table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CallTable]:
    """A table that the examples of a property fill together."""
    opened = open_database(tmp_path_factory.mktemp("calls") / "calls.sqlite", SCHEMA, "create")
    yield CallTable(opened)
    opened.close()


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(ANY_TEXT, ANY_TEXT, ANY_TEXT),
    st.none() | st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, st.booleans()),
    st.sampled_from(["stop", "length", "context", "content_filter"]),
)
def test_hostile_answers_come_back_as_they_were(
    shared_table: CallTable, make_call: MakeCall, texts: tuple[str, str, str], usage: Usage | None, finish: FinishReason
) -> None:
    """Any text, usage and finish reason comes back equal, and is not taken for damaged."""
    prompt, text, reasoning = texts
    unique = digest([*texts, str(usage), finish])
    row = make_call(prompt, request_hash=unique, text=text, reasoning=reasoning, usage=usage, finish_reason=finish)
    shared_table.put(row)
    assert shared_table.get(unique) == row
    assert list(shared_table.damaged()) == []


def test_first_answer_wins(database: Database, make_call: MakeCall) -> None:
    """A second answer to one request changes nothing and is reported as not stored."""
    table = CallTable(database)
    assert table.put(make_call(text="first"))
    assert not table.put(make_call(text="second"))
    stored = table.get(make_call().request_hash)
    assert stored is not None
    assert stored.text == "first"
    assert table.count() == 1


def test_messages_are_stored_once(database: Database, make_call: MakeCall) -> None:
    """A message that many requests share takes one row."""
    table = CallTable(database)
    for number in range(5):
        table.put(make_call(f"question {number}"))
    assert database.one("SELECT COUNT(*) FROM messages") == (6,)


def test_iteration_is_ordered_by_hash(database: Database, make_call: MakeCall) -> None:
    """The order of rows does not depend on the order in which they came."""
    table = CallTable(database)
    rows = [make_call(f"question {number}") for number in range(20)]
    for row in rows:
        table.put(row)
    assert list(table) == sorted(rows, key=lambda row: row.request_hash)


def test_prefix_finds_one_call(database: Database, make_call: MakeCall) -> None:
    """A call id finds its call, an unknown one nothing, and one that fits several is refused."""
    table = CallTable(database)
    first, second = make_call(request_hash="ab" + "0" * 62), make_call(request_hash="ab" + "f" * 62)
    table.put(first)
    table.put(second)
    assert table.get_by_prefix(first.call_id) == first
    assert table.get_by_prefix("abff") == second
    assert table.get_by_prefix("ac") is None
    with pytest.raises(LedgerError, match=r"several calls .* start with ab;"):
        table.get_by_prefix("ab")


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("calls", "text", b'"5"'),
        ("calls", "text", b"\xff"),
        ("calls", "text", 5),
        ("calls", "reasoning", b'"x"'),
        ("calls", "finish_reason", "length"),
        ("calls", "output_tokens", 3),
        ("calls", "output_tokens", None),
        ("calls", "usage_estimated", 1),
        ("calls", "request", b"[1]"),
        ("calls", "content_sha256", "0" * 64),
        ("calls", "latency_s", "soon"),
        ("messages", "content", b'"What is 3 + 2?"'),
        ("messages", "hash", "0" * 64),
    ],
)
def test_changed_column_is_damage(
    database: Database, make_call: MakeCall, table: str, column: str, value: object
) -> None:
    """A change of any column that matters is found by the check and refused by a read, with the call's id."""
    row, other = make_call(), make_call("other")
    calls = CallTable(database)
    calls.put(row)
    key = row.request_hash if table == "calls" else digest(row.request["messages"][1])
    where = "request_hash" if table == "calls" else "hash"
    database.execute(f"UPDATE {table} SET {column} = ? WHERE {where} = ?", (value, key))
    calls.put(other)
    assert list(calls.damaged()) == [row.request_hash]
    with pytest.raises(LedgerError, match=f"call '{row.call_id}' in .* is damaged"):
        calls.get(row.request_hash)
    assert calls.get(other.request_hash) == other


def test_flipped_bytes_of_the_file_never_pass(tmp_path: Path, make_call: MakeCall) -> None:
    """After a flipped byte anywhere in a stored answer the check names its call, whole or as far as it is readable."""
    path = tmp_path / "calls.sqlite"
    row = make_call(text="the very answer that was stored")
    with contextlib.closing(open_database(path, SCHEMA, "create")) as database:
        CallTable(database).put(row)
    good = path.read_bytes()
    start = good.index(b"the very answer")
    for place in range(start, start + len(row.text)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x81]) + good[place + 1 :])
        with contextlib.closing(open_database(path, SCHEMA, "read")) as database:
            assert list(CallTable(database).damaged()) == [row.request_hash]


def test_any_flipped_byte_is_found_or_harmless(tmp_path: Path, make_call: MakeCall) -> None:
    """Wherever a byte of the file is flipped, a read gives the row as it was, nothing, or a `LedgerError`."""
    path = tmp_path / "calls.sqlite"
    row = make_call()
    with contextlib.closing(open_database(path, SCHEMA, "create")) as database:
        CallTable(database).put(row)
    good = path.read_bytes()
    for place in range(0, len(good), 7):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        found = read_or_none(path, row.request_hash)
        assert found is None or found.content_sha256 == row.content_sha256


def read_or_none(path: Path, request_hash: str) -> CallRow | None:
    """The row of a file that may be damaged."""
    with contextlib.suppress(LedgerError), contextlib.closing(open_database(path, SCHEMA, "read")) as database:
        return CallTable(database).get(request_hash)
    return None


def test_content_hash_covers_what_a_replay_takes(make_call: MakeCall) -> None:
    """Each field that a replay takes moves the hash; latency and attempts do not."""
    row = make_call()
    changes: list[dict[str, Any]] = [
        {"text": "5"},
        {"reasoning": "x"},
        {"finish_reason": "length"},
        {"usage": None},
        {"usage": Usage(10, 2, 1, 4, estimated=True)},
        {"request_hash": "0" * 64},
    ]
    hashes = {make_call(**change).content_sha256 for change in changes} | {row.content_sha256}
    assert len(hashes) == len(changes) + 1
    assert make_call(latency_s=9.0, attempts=3).content_sha256 == row.content_sha256


def test_stored_text_can_be_found_with_plain_sqlite(database: Database, make_call: MakeCall) -> None:
    """A person with the sqlite3 tool can read an answer."""
    CallTable(database).put(make_call(text="forty two"))
    with contextlib.closing(sqlite3.connect(database.path)) as connection:
        assert connection.execute("SELECT CAST(text AS TEXT) FROM calls").fetchall() == [('"forty two"',)]
