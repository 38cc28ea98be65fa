"""Answers are stored once, come back as they were, and show damage."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trinity.canonical import digest
from trinity.errors import LedgerError
from trinity.runs.calls import CALL_STATEMENTS, Answer, CallTable, StoredRequest, answer_row
from trinity.runs.sqlite import Database, Schema, open_database
from trinity.types import FinishReason, Usage

SCHEMA = Schema("call file", 4712, CALL_STATEMENTS)
MakeCall = Callable[..., tuple[Answer, dict[str, Any]]]
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
    prompt += digest([*texts, str(usage), finish])
    answer, request = make_call(prompt, text=text, reasoning=reasoning, usage=usage, finish_reason=finish)
    shared_table.put(answer, request)
    assert shared_table.get(answer.request_hash) == answer
    assert shared_table.request(answer.request_hash) == request
    assert list(shared_table.damaged()) == []


def test_row_that_was_read_is_the_row_that_is_written(database: Database, make_call: MakeCall) -> None:
    """A found answer is copied as it was stored; one that is made from it has a row and a hash of its own."""
    table = CallTable(database)
    answer, request = make_call(text="stored")
    table.put(answer, request)
    found = table.get(answer.request_hash)
    assert found is not None
    assert answer_row(found) == answer_row(found) == answer_row(answer)
    other = replace(found, text="other")
    assert answer_row(other) == answer_row(make_call(text="other")[0])
    assert other.content_sha256 != found.content_sha256


def test_first_answer_wins(database: Database, make_call: MakeCall) -> None:
    """A second answer to one request changes nothing and is reported as not stored, unless it is to replace."""
    table = CallTable(database)
    first, second = make_call(text="first"), make_call(text="second")
    assert table.put(*first)
    assert not table.put(*second)
    assert table.get(first[0].request_hash) == first[0]
    assert table.put(*second, replace=True)
    assert table.get(first[0].request_hash) == second[0]
    assert table.count() == 1


def test_messages_and_settings_are_stored_once(database: Database, make_call: MakeCall) -> None:
    """A message or settings part that many requests share takes one row."""
    table = CallTable(database)
    for number in range(5):
        for sample in range(3):
            table.put(*make_call(f"question {number}", sample=sample))
    assert table.count() == 15
    assert database.one("SELECT COUNT(*) FROM parts") == (7,)


def test_a_look_up_reads_neither_request_nor_messages(database: Database, make_call: MakeCall) -> None:
    """An answer is found where all texts of requests are gone."""
    table = CallTable(database)
    answer, request = make_call()
    table.put(answer, request)
    database.execute("DELETE FROM parts")
    database.execute("UPDATE requests SET parts = X''")
    assert table.get(answer.request_hash) == answer


def test_replicate_and_sample_may_be_missing(database: Database, make_call: MakeCall) -> None:
    """The request of a deterministic agent, which has neither, comes back as it was."""
    table = CallTable(database)
    request = {**make_call()[1], "replicate": None, "sample": None}
    answer = make_call(request_hash=digest(request))[0]
    table.put(answer, request)
    assert table.request(answer.request_hash) == request
    assert list(table.damaged()) == []


def test_requests_can_be_told_apart_without_their_texts(database: Database, make_call: MakeCall) -> None:
    """Equal settings and messages have equal keys, and their texts are found by them."""
    table = CallTable(database)
    calls = [make_call("a"), make_call("a", sample=1), make_call("b")]
    for call in calls:
        table.put(*call)
    one, two, three = table.requests()
    assert isinstance(one, StoredRequest)
    assert one[1:4] == two[1:4]
    assert (one.settings, one.messages[0]) == (three.settings, three.messages[0])
    assert (one.phase, one.index, len(one.messages)) == ("train", 3, 2)
    assert one.messages[1] != three.messages[1]
    assert [row.sample for row in (one, two, three)] == [0, 1, 0]
    assert table.part(three.messages[1]) == {"role": "user", "content": "b"}
    assert [row.request_hash.hex() for row in (one, two, three)] == [answer.request_hash for answer, _ in calls]
    assert table.is_answered(one.request_hash)
    assert not table.is_answered(bytes(32))


def test_iteration_is_ordered_by_hash(database: Database, make_call: MakeCall) -> None:
    """The order of rows does not depend on the order in which they came."""
    table = CallTable(database)
    calls = [make_call(f"question {number}") for number in range(20)]
    for call in calls:
        table.put(*call)
    assert list(table) == sorted((answer for answer, _ in calls), key=lambda answer: answer.request_hash)


def test_prefix_finds_one_call(database: Database, make_call: MakeCall) -> None:
    """A call id finds its call, an unknown one nothing, and one that fits several is refused."""
    table = CallTable(database)
    first, second = (make_call(request_hash=f"ab{digit * 62}") for digit in "0f")
    table.put(*first)
    table.put(*second)
    assert table.get_by_prefix(first[0].call_id) == first[0]
    assert table.get_by_prefix("abf") == second[0]
    assert table.get_by_prefix("ac") is None
    with pytest.raises(LedgerError, match=r"several calls .* start with ab;"):
        table.get_by_prefix("ab")
    with pytest.raises(LedgerError, match="'xy' is no call id"):
        table.get_by_prefix("xy")


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
        ("calls", "content_sha256", bytes(32)),
        ("calls", "content_sha256", "0" * 64),
        ("calls", "latency_s", "soon"),
    ],
)
def test_changed_column_is_damage(
    database: Database, make_call: MakeCall, table: str, column: str, value: object
) -> None:
    """A change of any column that matters is found by the check and refused by a read, with the call's id."""
    call, other = make_call(), make_call("other")
    calls = CallTable(database)
    calls.put(*call)
    database.execute(f"UPDATE {table} SET {column} = ?", (value,))
    calls.put(*other)
    assert list(calls.damaged()) == [call[0].request_hash]
    with pytest.raises(LedgerError, match=f"call '{call[0].call_id}' in .* is damaged"):
        calls.get(call[0].request_hash)
    assert calls.get(other[0].request_hash) == other[0]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE requests SET sample = 7 WHERE id = 1",
        "UPDATE requests SET replicate = 4 WHERE id = 1",
        "UPDATE requests SET phase = 5 WHERE id = 1",
        "UPDATE requests SET phase = NULL WHERE id = 1",
        "UPDATE requests SET parts = X'00' WHERE id = 1",
        "UPDATE requests SET parts = 5 WHERE id = 1",
        "UPDATE requests SET parts = X'' WHERE id = 1",
        """UPDATE parts SET content = '"x"' WHERE CAST(content AS TEXT) LIKE '%What is 2%'""",
        "UPDATE parts SET content = X'FF' WHERE CAST(content AS TEXT) LIKE '%What is 2%'",
        "UPDATE parts SET content = 5 WHERE CAST(content AS TEXT) LIKE '%What is 2%'",
        "DELETE FROM parts WHERE CAST(content AS TEXT) LIKE '%What is 2%'",
    ],
)
def test_changed_request_is_damage(database: Database, make_call: MakeCall, change: str) -> None:
    """A request that is not what was hashed is found by the check and refused when it is read; its answer is not."""
    calls, (call, other) = CallTable(database), (make_call(), make_call("other"))
    calls.put(*call)
    calls.put(*other)
    assert database.execute(change) == 1
    assert list(calls.damaged()) == [call[0].request_hash]
    with pytest.raises(LedgerError, match=f"call '{call[0].call_id}' in .* is damaged"):
        calls.request(call[0].request_hash)
    assert calls.get(call[0].request_hash) == call[0]
    assert calls.request(other[0].request_hash) == other[1]


def test_flipped_bytes_of_the_file_never_pass(tmp_path: Path, make_call: MakeCall) -> None:
    """After a flipped byte anywhere in a stored answer the check names its call, whole or as far as it is readable."""
    path = tmp_path / "calls.sqlite"
    answer, request = make_call(text="the very answer that was stored")
    with contextlib.closing(open_database(path, SCHEMA, "create")) as database:
        CallTable(database).put(answer, request)
    good = path.read_bytes()
    start = good.index(b"the very answer")
    for place in range(start, start + len(answer.text)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x81]) + good[place + 1 :])
        with contextlib.closing(open_database(path, SCHEMA, "read")) as database:
            assert list(CallTable(database).damaged()) == [answer.request_hash]


def test_any_flipped_byte_is_found_or_harmless(tmp_path: Path, make_call: MakeCall) -> None:
    """Wherever a byte of the file is flipped, a read gives the row as it was, nothing, or a `LedgerError`."""
    path = tmp_path / "calls.sqlite"
    answer, request = make_call()
    with contextlib.closing(open_database(path, SCHEMA, "create")) as database:
        CallTable(database).put(answer, request)
    good = path.read_bytes()
    for place in range(0, len(good), 31):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        found = read_or_none(path, answer.request_hash)
        assert found is None or found.content_sha256 == answer.content_sha256


def read_or_none(path: Path, request_hash: str) -> Answer | None:
    """The row of a file that may be damaged."""
    with contextlib.suppress(LedgerError), contextlib.closing(open_database(path, SCHEMA, "read")) as database:
        return CallTable(database).get(request_hash)
    return None


def test_content_hash_covers_what_a_replay_takes(make_call: MakeCall) -> None:
    """Each field that a replay takes moves the hash; latency, attempts and buyer do not."""
    answer, _ = make_call()
    changes: list[dict[str, Any]] = [
        {"text": "5"},
        {"reasoning": "x"},
        {"finish_reason": "length"},
        {"usage": None},
        {"usage": Usage(10, 2, 1, 4, estimated=True)},
        {"request_hash": "0" * 64},
    ]
    hashes = {make_call(**change)[0].content_sha256 for change in changes} | {answer.content_sha256}
    assert len(hashes) == len(changes) + 1
    assert make_call(latency_s=9.0, attempts=3, buyer="them")[0].content_sha256 == answer.content_sha256


@settings(deadline=None, max_examples=40)
@given(ANY_TEXT, ANY_TEXT, st.none() | st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, st.booleans()))
def test_content_hash_is_that_of_canonical_json(
    make_call: MakeCall, text: str, reasoning: str, usage: Usage | None
) -> None:
    """The hash that is put together by hand is the digest of the plain object."""
    answer, _ = make_call(text=text, reasoning=reasoning, usage=usage)
    names = ("request_hash", "text", "reasoning", "finish_reason")
    content = {name: getattr(answer, name) for name in names}
    assert answer.content_sha256 == digest({**content, "usage": None if usage is None else asdict(usage)})


def test_stored_text_can_be_found_with_plain_sqlite(database: Database, make_call: MakeCall) -> None:
    """A person with the sqlite3 tool can read an answer."""
    CallTable(database).put(*make_call(text="forty two"))
    with contextlib.closing(sqlite3.connect(database.path)) as connection:
        assert connection.execute("SELECT CAST(text AS TEXT) FROM calls").fetchall() == [('"forty two"',)]
