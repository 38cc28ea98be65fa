"""Answered calls in SQLite: requests, answers and the hash that shows damage; used by the store and the ledger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Any, NamedTuple

from trinity.canonical import digest
from trinity.errors import LedgerError
from trinity.runs.sqlite import Database, Row, pack, unpack
from trinity.types import FinishReason, Usage

CALL_STATEMENTS = (
    "CREATE TABLE parts (hash BLOB PRIMARY KEY NOT NULL, content BLOB NOT NULL)",
    """CREATE TABLE requests (
        id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, parts BLOB NOT NULL,
        phase TEXT, replicate INTEGER, sample INTEGER)""",
    """CREATE TABLE calls (
        id INTEGER PRIMARY KEY, finish_reason TEXT NOT NULL,
        input_tokens INTEGER, output_tokens INTEGER, reasoning_tokens INTEGER, cached_tokens INTEGER,
        usage_estimated INTEGER, latency_s REAL NOT NULL, attempts INTEGER NOT NULL, buyer TEXT NOT NULL,
        content_sha256 BLOB NOT NULL, reasoning BLOB NOT NULL, text BLOB NOT NULL)""",
)
"""For the `Schema` of a file that holds a `CallTable`.

A row of `calls` has the id of its request. `parts` holds messages and settings (everything in a request but messages,
replicate and sample) as JSON, each once; `requests.parts` is the settings' key and the messages' keys, one after the
other. So a look-up reads the index of `requests.hash` and one row of `calls`.
"""

CALL_ID_DIGITS = 16
PART_BYTES = 16
"""A part's key is so many bytes of its SHA-256; that of the whole request shows if two parts ever met in one key."""

RECENT_SETTINGS = 256
RECENT_PARTS = 64
"""Messages whose keys are kept in memory: system prompts and questions come again with every call."""

_ANSWER = (
    "finish_reason, input_tokens, output_tokens, reasoning_tokens, cached_tokens, usage_estimated, latency_s, "
    "attempts, buyer, content_sha256, reasoning, text"
)
_JOINED = "requests JOIN calls USING (id)"
# ruff's S608 warns of texts put into SQL; these are constants of this module.
_GET = f"SELECT {_ANSWER} FROM {_JOINED} WHERE hash = ?"  # noqa: S608
_SELECT = f"SELECT hash, {_ANSWER} FROM {_JOINED}"  # noqa: S608
_IS_ANSWERED = f"SELECT 1 FROM {_JOINED} WHERE hash = ?"  # noqa: S608
_PUT = f"INTO calls SELECT id, {', '.join('?' * 12)} FROM requests WHERE hash = ?"  # noqa: S608
_PUT_ALL = (
    f"INSERT OR IGNORE INTO calls SELECT id, {', '.join(f'column{place + 1}' for place in range(12))} "  # noqa: S608
    "FROM (VALUES {}) CROSS JOIN requests ON hash = column13"
)
_PUT_PARTS = "INSERT OR IGNORE INTO parts VALUES {}"
_PUT_REQUESTS = "INSERT OR IGNORE INTO requests (hash, parts, phase, replicate, sample) VALUES {}"
_APART = frozenset({"messages", "replicate", "sample"})
_NO_USAGE = (None,) * 5
_NO_TEXT = pack("")
_FINISH: dict[str, bytes] = {name: pack(name) for name in ("stop", "length", "context", "content_filter")}
_DAMAGE = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)
_first_value = json.JSONDecoder().raw_decode


@dataclass(slots=True)
class Answer:
    """One complete answer, without the request that it answers (`CallTable.request` has it); never changed.

    `request_hash` (64 hex digits) is the digest of the request. `usage` is what the provider reported or, with
    `estimated` set, what a tokenizer counted; None when neither is known. `latency_s` in seconds; `attempts` counts
    the tries that it took, the good one included. `buyer` is the uid of the run that bought it.
    """

    request_hash: str
    text: str
    reasoning: str
    finish_reason: FinishReason
    usage: Usage | None
    latency_s: float
    attempts: int
    buyer: str
    _row: Row | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def call_id(self) -> str:
        """The first 16 hex digits of the request hash."""
        return self.request_hash[:CALL_ID_DIGITS]

    @property
    def content_sha256(self) -> str:
        """SHA-256 (hex) of the canonical JSON of everything that a replay takes from this answer."""
        sha: bytes = self.row[9]
        return sha.hex()

    @property
    def row(self) -> Row:
        """Its columns in `calls`, as they were read or made once: store and ledger write the same row."""
        row = self._row  # read once: another thread may let go of it
        if row is None:
            row = self._row = _encode(self)
        return row


class StoredRequest(NamedTuple):
    """A row of `requests`: `parts` are the keys of settings and messages, phase and index the replicate, or None."""

    request_hash: bytes
    parts: bytes
    phase: str | None
    index: int | None  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    sample: int | None

    @property
    def settings(self) -> bytes:
        """The settings' key."""
        return self.parts[:PART_BYTES]

    @property
    def messages(self) -> list[bytes]:
        """The messages' keys."""
        parts = self.parts
        return [parts[place : place + PART_BYTES] for place in range(PART_BYTES, len(parts), PART_BYTES)]


class RequestRows(NamedTuple):
    """A request as the rows that keep it: parts (key and content) and its own."""

    parts: list[Row]
    row: Row

    @classmethod
    def of(cls, request_hash: str, request: Mapping[str, Any]) -> RequestRows:
        """The rows of a request in its JSON form, a dict with `messages`, `replicate`, `sample` and settings."""
        settings = _settings_part(request)
        messages = [part(message_json(message["role"], message["content"])) for message in request["messages"]]
        parts = [settings, *messages]
        phase, index = request.get("replicate") or (None, None)
        keys = b"".join(key for key, _ in parts)
        return cls(parts, (bytes.fromhex(request_hash), keys, phase, index, request.get("sample")))


class CallTable:
    """The tables of `CALL_STATEMENTS` in an open database; each message and each settings part is stored once."""

    def __init__(self, database: Database) -> None:
        """`database` was opened with a schema that holds `CALL_STATEMENTS`."""
        self._database = database

    def put(self, answer: Answer, request: Mapping[str, Any], *, replace: bool = False) -> bool:
        """Store an answer unless its request has one already (the first wins, or with `replace` the last).

        True when it was stored.

        Raises:
            LedgerError: it could not be written.
        """
        rows = RequestRows.of(answer.request_hash, request)
        with self._database.transaction():
            self.write_requests([rows])
            verb = "INSERT OR REPLACE" if replace else "INSERT OR IGNORE"
            return self._database.execute(f"{verb} {_PUT}", (*answer.row, rows.row[0])) == 1

    def write_requests(self, rows: Iterable[RequestRows]) -> None:
        """Store requests; those that are there stay.

        Raises:
            LedgerError: they could not be written.
        """
        rows = list(rows)
        self._database.write_rows(_PUT_PARTS, {part[0]: part for each in rows for part in each.parts}.values())
        self._database.write_rows(_PUT_REQUESTS, [each.row for each in rows])

    def write_answers(self, rows: Iterable[Row]) -> None:
        """Store what `answer_row` made of answers whose requests are stored; the first answer to each stays.

        Raises:
            LedgerError: they could not be written.
        """
        self._database.write_rows(_PUT_ALL, rows)

    def get(self, request_hash: str) -> Answer | None:
        """The answer to a request, or None.

        Raises:
            LedgerError: the stored row is damaged.
        """
        found = self._database.one(_GET, (bytes.fromhex(request_hash),))
        return None if found is None else self._checked(request_hash, found)

    def get_by_prefix(self, call_id: str) -> Answer | None:
        """The answer whose request hash starts with the hex digits `call_id`, or None.

        Raises:
            LedgerError: several do, or the stored row is damaged.
        """
        found = list(self._database.query(f"{_SELECT} WHERE hash BETWEEN ? AND ? LIMIT 2", span(call_id)))
        if len(found) > 1:
            raise LedgerError(f"several calls in {self._database.path} start with {call_id}; give more digits")
        return self._checked(found[0][0].hex(), found[0][1:]) if found else None

    def request(self, request_hash: str) -> dict[str, Any] | None:
        """The request in its JSON form, or None; it may have no answer.

        Raises:
            LedgerError: it is damaged.
        """
        sql = "SELECT hash, parts, phase, replicate, sample FROM requests WHERE hash = ?"
        found = self._database.one(sql, (bytes.fromhex(request_hash),))
        if found is None:
            return None
        try:
            request = self._rebuilt(found)
        except _DAMAGE as error:
            raise self._damage(request_hash) from error
        if digest(request) != request_hash:
            raise self._damage(request_hash)
        return request

    def request_hashes(self, prefix: str) -> Iterator[str]:
        """Hashes of requests that start with the hex digits `prefix`, answered or not."""
        for (found,) in self._database.query("SELECT hash FROM requests WHERE hash BETWEEN ? AND ?", span(prefix)):
            yield found.hex()

    def requests(self) -> Iterator[StoredRequest]:
        """All requests, answered or not, streamed without their texts in the order in which they came."""
        sql = "SELECT hash, parts, phase, replicate, sample FROM requests ORDER BY id"
        return map(StoredRequest._make, self._database.query(sql))

    def is_answered(self, request_hash: bytes) -> bool:
        """Whether there is an answer to a request."""
        return self._database.one(_IS_ANSWERED, (request_hash,)) is not None

    def parts(self) -> Iterator[tuple[bytes, bytes]]:
        """Key and JSON of all messages and settings, streamed."""
        return self._database.query("SELECT hash, content FROM parts")

    def part(self, key: bytes) -> Any:
        """The message or settings of a key.

        Raises:
            ValueError: it is missing or damaged.
        """
        found = self._database.one("SELECT content FROM parts WHERE hash = ?", (key,))
        if found is None:
            raise ValueError(f"part {key.hex()} is missing")
        return unpack(found[0])

    def __iter__(self) -> Iterator[Answer]:
        """All answers by request hash, streamed.

        Raises:
            LedgerError: a row is damaged.
        """
        for found in self._database.query(f"{_SELECT} ORDER BY hash"):
            yield self._checked(found[0].hex(), found[1:])

    def count(self) -> int:
        """How many answers there are."""
        found = self._database.one("SELECT COUNT(*) FROM calls")
        return int(found[0]) if found else 0

    def damaged(self) -> Iterator[str]:
        """Request hashes of calls that do not decode or whose request or content is not what was stored.

        Raises:
            LedgerError: the file itself cannot be read on.
        """
        for found in self._database.query(f"{_SELECT} ORDER BY requests.id"):
            request_hash = bytes(found[0]).hex() if isinstance(found[0], bytes) else ascii(found[0])
            try:
                self._checked(request_hash, found[1:])
                self.request(request_hash)
            except (LedgerError, ValueError):
                yield request_hash

    def _checked(self, request_hash: str, found: Row) -> Answer:
        try:
            return _decode(request_hash, found)
        except _DAMAGE as error:
            raise self._damage(request_hash) from error

    def _damage(self, request_hash: str) -> LedgerError:
        return LedgerError(
            f"call '{request_hash[:CALL_ID_DIGITS]}' in {self._database.path} is damaged: it is not what was "
            "stored; restore a copy of the file or delete that row"
        )

    def _rebuilt(self, found: Row) -> dict[str, Any]:
        stored = StoredRequest._make(found)
        settings = self.part(stored.settings)
        messages = [self.part(key) for key in stored.messages]
        replicate = None if stored.phase is None else [stored.phase, stored.index]
        return {**settings, "messages": messages, "replicate": replicate, "sample": stored.sample}


def answer_row(answer: Answer) -> Row:
    """An answer as `CallTable.write_answers` takes it."""
    row = answer.row
    object.__setattr__(answer, "_row", None)  # answers are kept in memory longer than they need to be written
    return (*row, bytes.fromhex(answer.request_hash))


@lru_cache(maxsize=RECENT_PARTS)
def part(content: bytes) -> tuple[bytes, bytes]:
    """Key and content of a message or of settings in canonical JSON."""
    return hashlib.sha256(content).digest()[:PART_BYTES], content


def span(prefix: str) -> tuple[bytes, bytes]:
    """First and last hash that start with the hex digits `prefix`.

    Raises:
        LedgerError: those are no hex digits.
    """
    try:
        return bytes.fromhex(prefix.ljust(64, "0")), bytes.fromhex(prefix.ljust(64, "f"))
    except ValueError:
        raise LedgerError(f"{prefix!a} is no call id: those are hex digits") from None


_settings: dict[tuple[Any, ...], tuple[Mapping[str, Any], tuple[bytes, bytes]]] = {}
"""Settings of recent requests by their keys and the identity of their values, which are kept lest one is taken anew."""


def _settings_part(request: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The part that all requests of an agent share: made once, for it is asked for with every call."""
    place = (*request, *[id(value) for key, value in request.items() if key not in _APART])
    known = _settings.get(place)
    if known is None:
        if len(_settings) >= RECENT_SETTINGS:
            _settings.clear()
        settings = {key: value for key, value in request.items() if key not in _APART}
        known = _settings[place] = settings, part(pack(settings))
    return known[1]


@lru_cache(maxsize=RECENT_PARTS)
def message_json(role: str, content: str) -> bytes:
    """A message as `pack` would write it, in a third of its time."""
    return f'{{"content":{_quoted(content)},"role":{_quoted(role)}}}'.encode("utf-8", "surrogatepass")


def _encode(answer: Answer) -> Row:
    usage = answer.usage
    counts: Row = _NO_USAGE
    if usage is not None:
        counts = (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cached_tokens, usage.estimated)
    text, reasoning = pack(answer.text), pack(answer.reasoning)
    content = _content(answer.request_hash, answer.finish_reason, counts, reasoning, text)
    head = (answer.finish_reason, *counts, answer.latency_s, answer.attempts, answer.buyer)
    return (*head, hashlib.sha256(content).digest(), reasoning, text)


def _decode(request_hash: str, found: Row) -> Answer:
    """The answer of the columns of `_ANSWER`.

    Raises:
        ValueError: it is damaged; damage may have changed the type of any column, so other errors come as well.
    """
    finish, given, output, reasoned, cached, estimated, latency, attempts, buyer, sha, reasoning, text = found
    content = _content(request_hash, finish, found[1:6], reasoning, text)
    if hashlib.sha256(content).digest() != sha:
        raise ValueError("content is not what was stored")
    usage = None if given is None else Usage(given, output, reasoned, cached, bool(estimated))
    texts = _string(text), _string(reasoning)
    answer = Answer(request_hash, *texts, finish, usage, float(latency), int(attempts), str(buyer))
    object.__setattr__(answer, "_row", found)
    return answer


def _content(request_hash: str, finish: str, counts: Row, reasoning: bytes, text: bytes) -> bytes:
    """Canonical JSON of what a replay takes, put together by hand: `reasoning` and `text` are canonical JSON already.

    Keys are sorted, as `canonical_json` would do it, which is several times slower.
    """
    given, output, reasoned, cached, estimated = counts
    usage = "null"
    if counts != _NO_USAGE:
        usage = (
            f'{{"cached_tokens":{cached},"estimated":{"true" if estimated else "false"},"input_tokens":{given},'
            f'"output_tokens":{output},"reasoning_tokens":{reasoned}}}'
        )
    return b'{"finish_reason":%b,"reasoning":%b,"request_hash":"%b","text":%b,"usage":%b}' % (
        _FINISH[finish],
        reasoning,
        request_hash.encode(),
        text,
        usage.encode(),
    )


def _string(data: bytes) -> str:
    """The string that `data` is the JSON of.

    Raises:
        ValueError: it is none.
    """
    if data == _NO_TEXT:
        return ""
    found: tuple[Any, int] = _first_value(data.decode("utf-8", "surrogatepass"))
    if not isinstance(found[0], str):
        raise ValueError("a text is no text")  # noqa: TRY004 - damage, like all that json finds
    return found[0]
