"""Answered calls in SQLite: request, completion and the hash that shows damage; used by the store and the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trinity.canonical import digest
from trinity.errors import LedgerError
from trinity.runs.sqlite import Database, Row, from_text, pack, to_text, unpack
from trinity.types import FinishReason, Usage

CALL_STATEMENTS = (
    "CREATE TABLE messages (hash TEXT PRIMARY KEY NOT NULL, role TEXT NOT NULL, content BLOB NOT NULL)",
    """CREATE TABLE calls (
        request_hash TEXT PRIMARY KEY NOT NULL, request BLOB NOT NULL,
        text BLOB NOT NULL, reasoning BLOB NOT NULL, finish_reason TEXT NOT NULL,
        input_tokens INTEGER, output_tokens INTEGER, reasoning_tokens INTEGER, cached_tokens INTEGER,
        usage_estimated INTEGER, latency_s REAL NOT NULL, attempts INTEGER NOT NULL, content_sha256 TEXT NOT NULL)""",
)
"""For the `Schema` of a file that holds a `CallTable`."""

CALL_ID_DIGITS = 16

_COLUMNS = (
    "request_hash, request, text, reasoning, finish_reason, input_tokens, output_tokens, reasoning_tokens, "
    "cached_tokens, usage_estimated, latency_s, attempts, content_sha256"
)
# ruff's S608 warns of texts put into SQL; these are constants of this module.
_SELECT = f"SELECT {_COLUMNS} FROM calls"  # noqa: S608
_INSERT = f"INSERT OR IGNORE INTO calls ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608
_NO_USAGE = (None,) * 5


@dataclass(frozen=True, slots=True)
class CallRow:
    """One complete answer. `request` is the JSON form of the request, its `messages` a list of role and content.

    `request_hash` (64 hex digits) is the digest of `request`. `usage` is what the provider reported or, with
    `estimated` set, what a tokenizer counted; None when neither is known. `latency_s` in seconds; `attempts` counts
    the tries that it took, the good one included.
    """

    request_hash: str
    request: Mapping[str, Any]
    text: str
    reasoning: str
    finish_reason: FinishReason
    usage: Usage | None
    latency_s: float
    attempts: int

    @property
    def call_id(self) -> str:
        """The first 16 hex digits of the request hash."""
        return self.request_hash[:CALL_ID_DIGITS]

    @property
    def content_sha256(self) -> str:
        """Digest of everything that a replay takes from this row."""
        return digest(
            {
                "request_hash": self.request_hash,
                "text": self.text,
                "reasoning": self.reasoning,
                "finish_reason": self.finish_reason,
                "usage": None if self.usage is None else asdict(self.usage),
            }
        )


class CallTable:
    """The tables `calls` and `messages` of an open database; each message is stored once."""

    def __init__(self, database: Database) -> None:
        """`database` was opened with a schema that holds `CALL_STATEMENTS`."""
        self._database = database

    def put(self, row: CallRow) -> bool:
        """Store an answer unless its request has one already (the first wins); True when it was stored.

        Raises:
            LedgerError: it could not be written.
        """
        messages = {digest(message): message for message in row.request["messages"]}
        request = {**row.request, "messages": [digest(message) for message in row.request["messages"]]}
        with self._database.transaction():
            for key, message in messages.items():
                self._put_message(key, message)
            changed = self._database.execute(_INSERT, _encode(row, request))
        return changed == 1

    def get(self, request_hash: str) -> CallRow | None:
        """The answer to a request, or None.

        Raises:
            LedgerError: the stored row is damaged.
        """
        found = self._database.one(f"{_SELECT} WHERE request_hash = ?", (request_hash,))
        return None if found is None else self._checked(found)

    def get_by_prefix(self, call_id: str) -> CallRow | None:
        """The answer whose request hash starts with `call_id`, or None.

        Raises:
            LedgerError: several do, or the stored row is damaged.
        """
        span = (call_id, call_id + "g")  # "g" sorts after every hex digit
        found = list(self._database.query(f"{_SELECT} WHERE request_hash >= ? AND request_hash < ? LIMIT 2", span))
        if len(found) > 1:
            raise LedgerError(f"several calls in {self._database.path} start with {call_id}; give more digits")
        return self._checked(found[0]) if found else None

    def __iter__(self) -> Iterator[CallRow]:
        """All answers by request hash, streamed.

        Raises:
            LedgerError: a row is damaged.
        """
        return map(self._checked, self._database.query(f"{_SELECT} ORDER BY request_hash"))

    def count(self) -> int:
        """How many answers there are."""
        found = self._database.one("SELECT COUNT(*) FROM calls")
        return int(found[0]) if found else 0

    def damaged(self) -> Iterator[str]:
        """Request hashes of rows that do not decode or whose content is not what was stored.

        Raises:
            LedgerError: the file itself cannot be read on.
        """
        for found in self._database.query(f"{_SELECT} ORDER BY rowid"):
            if self._decode(found) is None:
                yield str(found[0]).encode("utf-8", "backslashreplace").decode()

    def _put_message(self, key: str, message: Mapping[str, str]) -> None:
        self._database.execute(
            "INSERT OR IGNORE INTO messages VALUES (?,?,?)", (key, to_text(message["role"]), pack(message["content"]))
        )

    def _checked(self, found: Row) -> CallRow:
        row = self._decode(found)
        if row is None:
            raise LedgerError(
                f"call {str(found[0])[:CALL_ID_DIGITS]!a} in {self._database.path} is damaged: it is not what was "
                "stored; restore a copy of the file or delete that row"
            )
        return row

    def _decode(self, found: Row) -> CallRow | None:
        """The row, or None when it is damaged; damage may have changed the type of any column."""
        try:
            row = CallRow(
                request_hash=found[0],
                request=self._request(unpack(found[1])),
                text=unpack(found[2]),
                reasoning=unpack(found[3]),
                finish_reason=found[4],
                usage=_usage(found[5:10]),
                latency_s=float(found[10]),
                attempts=int(found[11]),
            )
            return row if row.content_sha256 == found[12] else None
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError):
            return None

    def _request(self, stored: dict[str, Any]) -> dict[str, Any]:
        """The request with its messages in place of their hashes.

        Raises:
            ValueError: a message is missing or is not the one that was stored.
        """
        return {**stored, "messages": [self._message(key) for key in stored["messages"]]}

    def _message(self, key: str) -> dict[str, str]:
        found = self._database.one("SELECT role, content FROM messages WHERE hash = ?", (key,))
        message = {"role": from_text(found[0]), "content": unpack(found[1])} if found else {}
        if digest(message) != key:
            raise ValueError(f"message {key} is damaged")
        return message


def _encode(row: CallRow, request: Mapping[str, Any]) -> Row:
    usage = row.usage
    counts = _NO_USAGE if usage is None else tuple(asdict(usage).values())
    head = (row.request_hash, pack(request), pack(row.text), pack(row.reasoning), row.finish_reason)
    return (*head, *counts, row.latency_s, row.attempts, row.content_sha256)


def _usage(values: Row) -> Usage | None:
    """Usage from its five columns.

    Raises:
        ValueError: only some of them are set.
    """
    if values == _NO_USAGE:
        return None
    given, output, reasoning, cached, estimated = values
    return Usage(int(given), int(output), int(reasoning), int(cached), bool(estimated))
