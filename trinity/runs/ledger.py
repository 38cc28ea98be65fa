"""The ledger of one run: every call, decision, record, item and generation, enough to replay it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from trinity.errors import LedgerError
from trinity.runs.calls import CALL_STATEMENTS, CallRow, CallTable
from trinity.runs.records import record_from_json, record_to_json
from trinity.runs.sqlite import Database, Row, Schema, from_text, open_database, pack, to_text, unpack
from trinity.types import UNGRADED, Item, Phase, Price, Record, Replicate, Role, Split, Usage

SCHEMA = Schema(
    "run ledger",
    0x54520001,
    (
        *CALL_STATEMENTS,
        "CREATE TABLE call_use (request_hash TEXT PRIMARY KEY NOT NULL, paid INTEGER NOT NULL, price_json BLOB)",
        """CREATE TABLE attempts (
            number INTEGER PRIMARY KEY, request_hash TEXT NOT NULL, attempt INTEGER NOT NULL, kind TEXT NOT NULL,
            status INTEGER, detail BLOB NOT NULL)""",
        """CREATE TABLE decisions (
            policy TEXT NOT NULL, task TEXT NOT NULL, item_id TEXT NOT NULL, phase INTEGER NOT NULL,
            replicate INTEGER NOT NULL, turn INTEGER NOT NULL, transcript_hash TEXT NOT NULL, logits BLOB NOT NULL,
            noise BLOB NOT NULL, agent TEXT NOT NULL, role TEXT NOT NULL, encoder_tokens INTEGER NOT NULL,
            PRIMARY KEY (policy, task, item_id, phase, replicate, turn)) WITHOUT ROWID""",
        """CREATE TABLE records (
            method TEXT NOT NULL, variant TEXT NOT NULL, task TEXT NOT NULL, split TEXT NOT NULL,
            item_id TEXT NOT NULL, phase INTEGER NOT NULL, replicate INTEGER NOT NULL, seed INTEGER NOT NULL,
            status TEXT NOT NULL, content BLOB NOT NULL,
            PRIMARY KEY (method, variant, task, split, item_id, phase, replicate, seed)) WITHOUT ROWID""",
        """CREATE TABLE items (
            task TEXT NOT NULL, split TEXT NOT NULL, place INTEGER NOT NULL, item_id TEXT NOT NULL,
            content BLOB NOT NULL, PRIMARY KEY (task, split, place), UNIQUE (task, split, item_id)) WITHOUT ROWID""",
        """CREATE TABLE generations (
            trainer TEXT NOT NULL, number INTEGER NOT NULL, payload BLOB NOT NULL,
            PRIMARY KEY (trainer, number)) WITHOUT ROWID""",
        "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL)",
    ),
)

FLUSH_ROWS = 512
"""Decisions that are collected in memory before they are written."""

# Phases are stored as numbers, so that the primary key gives the canonical order.
_PHASES: tuple[Phase, ...] = get_args(Phase)
_T = TypeVar("_T")


class CallUse(NamedTuple):
    """How this run came by a call: `paid` when it bought it, False when an earlier run had; price None = unknown."""

    request_hash: str
    paid: bool
    price: Price | None


class Totals(NamedTuple):
    """Distinct calls of a run and their tokens, by who bought them."""

    paid_calls: int
    reused_calls: int
    paid: Usage
    reused: Usage


class Attempt(NamedTuple):
    """A failed attempt: `attempt` counts from 1 within its request, `status` is the HTTP status if there was one."""

    request_hash: str
    attempt: int
    kind: str
    status: int | None
    detail: str


class DecisionKey(NamedTuple):
    """Where a policy chose: `policy` is method and variant, `turn` counts from the episode's start."""

    policy: str
    task: str
    item_id: str
    replicate: Replicate
    turn: int


@dataclass(frozen=True, slots=True, eq=False)
class DecisionRow:
    """One choice: `logits` (L + 3,) float32, `noise` (L + 3,) float64, and what came of them."""

    key: DecisionKey
    transcript_hash: str
    logits: NDArray[np.float32]
    noise: NDArray[np.float64]
    agent: str
    role: Role
    encoder_tokens: int


class RecordKey(NamedTuple):
    """What tells the records of one run apart."""

    method: str
    variant: str
    task: str
    split: Split
    item_id: str
    replicate: Replicate
    seed: int

    @classmethod
    def of(cls, record: Record) -> RecordKey:
        """The key of `record`."""
        return cls(
            record.method,
            record.variant,
            record.task,
            record.split,
            record.item_id,
            record.replicate,
            record.seed,
        )


class Ledger:
    """`ledger.sqlite` of one run; with `manifest.json` it is all that a replay needs.

    A record is committed together with the decisions made before it, and each call when it is noted, so a record
    never exists without its calls and decisions. SIGKILL loses the decisions still in memory and nothing that was
    committed; a loss of power may lose the last commits, whole ones.
    """

    def __init__(self, database: Database) -> None:
        """`Ledger.create` and `Ledger.open` are the ways to get one."""
        self._database = database
        self._pending: list[Row] = []
        self.path = database.path
        self.calls = CallTable(database)

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new ledger.

        Raises:
            LedgerError: `path` exists or cannot be written.
        """
        return cls(open_database(path, SCHEMA, "create"))

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """The ledger of an earlier run.

        Raises:
            LedgerError: it is missing, damaged or of another version.
        """
        return cls(open_database(path, SCHEMA, "read" if read_only else "open"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is pending and close; a second call does nothing.

        Raises:
            LedgerError: it could not be written; the file is closed all the same.
        """
        try:
            self.flush()
        finally:
            self._database.close()

    def note_call(self, row: CallRow, *, paid: bool, price: Price | None) -> None:
        """Enter a call that this run used; a second note of the same request changes nothing.

        Raises:
            LedgerError: it could not be written.
        """
        if self.call_use(row.request_hash) is not None:
            return
        with self._database.transaction():
            self.calls.put(row)
            self._database.execute(
                "INSERT OR IGNORE INTO call_use VALUES (?,?,?)",
                (row.request_hash, paid, None if price is None else pack(asdict(price))),
            )

    def call_use(self, request_hash: str) -> CallUse | None:
        """How this run came by a call, or None when it did not use it."""
        found = self._database.one("SELECT paid, price_json FROM call_use WHERE request_hash = ?", (request_hash,))
        if found is None:
            return None
        paid, price = found
        cost = None if price is None else self._intact("a price", lambda: Price(**unpack(price)))
        return CallUse(request_hash, bool(paid), cost)

    def totals(self) -> Totals:
        """Counts and token sums of the distinct calls of this run."""
        paid_calls, paid = self._total(paid=True)
        reused_calls, reused = self._total(paid=False)
        return Totals(paid_calls, reused_calls, paid, reused)

    def _total(self, *, paid: bool) -> tuple[int, Usage]:
        found = self._database.one(
            """SELECT COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(reasoning_tokens), SUM(cached_tokens),
            MAX(usage_estimated) FROM call_use JOIN calls USING (request_hash) WHERE paid = ?""",
            (paid,),
        )
        count, given, output, reasoning, cached, estimated = (value or 0 for value in found or (0,) * 6)
        return count, Usage(given, output, reasoning, cached, bool(estimated))

    def add_attempt(self, request_hash: str, attempt: int, kind: str, status: int | None, detail: str) -> None:
        """Note a failed attempt; it never becomes an answer.

        Raises:
            LedgerError: it could not be written.
        """
        self._database.execute(
            "INSERT INTO attempts (request_hash, attempt, kind, status, detail) VALUES (?,?,?,?,?)",
            (request_hash, attempt, kind, status, pack(detail)),
        )

    def attempts(self) -> Iterator[Attempt]:
        """Failed attempts in the order in which they were noted."""
        sql = "SELECT request_hash, attempt, kind, status, detail FROM attempts ORDER BY number"
        for request_hash, attempt, kind, status, detail in self._database.query(sql):
            text = self._intact("a failed attempt", partial(unpack, detail))
            yield Attempt(request_hash, attempt, kind, status, text)

    def add_decision(self, row: DecisionRow) -> None:
        """Collect a choice; it is written with the next record, at 512 rows, before reads and by `flush`.

        A second row of the same key replaces the first: an episode that is played again after a crash leaves the
        decisions that its record came of.

        Raises:
            LedgerError: it could not be written.
        """
        self._pending.append(_decision_values(row))
        if len(self._pending) >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the collected decisions.

        Raises:
            LedgerError: they could not be written; they stay collected.
        """
        if self._pending:
            with self._database.transaction():
                self._write_pending()
            self._pending.clear()

    def _write_pending(self) -> None:
        self._database.execute_many("INSERT OR REPLACE INTO decisions VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", self._pending)

    def decision(self, key: DecisionKey) -> DecisionRow | None:
        """The choice made at `key`, or None."""
        self.flush()
        found = self._database.one(
            """SELECT * FROM decisions WHERE policy = ? AND task = ? AND item_id = ? AND phase = ? AND replicate = ?
            AND turn = ?""",
            _decision_place(key),
        )
        return None if found is None else self._decision(found)

    def decisions(self) -> Iterator[DecisionRow]:
        """All choices by key, streamed."""
        self.flush()
        return map(self._decision, self._database.query("SELECT * FROM decisions ORDER BY 1, 2, 3, 4, 5, 6"))

    def _decision(self, found: Row) -> DecisionRow:
        return self._intact(f"the decision at {found[:6]!a}", lambda: _decision_from(found))

    def add_record(self, record: Record) -> None:
        """Commit a record with all decisions collected so far; a second of the same key replaces the first.

        Raises:
            LedgerError: it could not be written; nothing of it was.
        """
        place = _record_place(RecordKey.of(record))
        with self._database.transaction():
            self._write_pending()
            self._database.execute(
                "INSERT OR REPLACE INTO records VALUES (?,?,?,?,?,?,?,?,?,?)",
                (*place, record.status, pack(record_to_json(record))),
            )
        self._pending.clear()

    def record(self, key: RecordKey) -> Record | None:
        """The record of `key`, or None."""
        found = self._database.one(
            """SELECT content FROM records WHERE method = ? AND variant = ? AND task = ? AND split = ?
            AND item_id = ? AND phase = ? AND replicate = ? AND seed = ?""",
            _record_place(key),
        )
        return None if found is None else self._record(found)

    def records(
        self, *, method: str | None = None, variant: str | None = None, split: Split | None = None
    ) -> Iterator[Record]:
        """Records by method, variant, task, split, item, phase (train, val, reeval, test), index; streamed.

        Only those of a method, variant or split where one is given.
        """
        rows = self._database.query(
            """SELECT content FROM records
            WHERE (?1 IS NULL OR method = ?1) AND (?2 IS NULL OR variant = ?2) AND (?3 IS NULL OR split = ?3)
            ORDER BY method, variant, task, split, item_id, phase, replicate, seed""",
            (method, variant, split),
        )
        return map(self._record, rows)

    def _record(self, found: Row) -> Record:
        return self._intact("a record", lambda: record_from_json(unpack(found[0])))

    def delete_ungraded(self) -> int:
        """Delete the records that were never graded, to ask them again; how many there were.

        Raises:
            LedgerError: it could not be written.
        """
        with self._database.transaction():
            return sum(
                self._database.execute("DELETE FROM records WHERE status = ?", (status,)) for status in sorted(UNGRADED)
            )

    def count_ungraded(self) -> int:
        """Records that were never graded."""
        return sum(
            int((self._database.one("SELECT COUNT(*) FROM records WHERE status = ?", (status,)) or (0,))[0])
            for status in sorted(UNGRADED)
        )

    def add_items(self, split: Split, items: Iterable[Item]) -> None:
        """Store items in their order; those stored before are left where they are.

        Raises:
            LedgerError: an item differs from the one stored under its id (none of `items` is stored then), or it
                could not be written.
        """
        with self._database.transaction():
            for item in items:
                self._add_item(split, item)

    def _add_item(self, split: Split, item: Item) -> None:
        content = pack({field.name: getattr(item, field.name) for field in fields(Item)})
        place = (to_text(item.task), split)
        item_id = to_text(item.item_id)
        sql = "SELECT content FROM items WHERE task = ? AND split = ? AND item_id = ?"
        found = self._database.one(sql, (*place, item_id))
        if found is None:
            self._database.execute(
                """INSERT INTO items SELECT ?1, ?2, COALESCE(MAX(place), -1) + 1, ?3, ?4 FROM items
                WHERE task = ?1 AND split = ?2""",
                (*place, item_id, content),
            )
        elif found[0] != content:
            raise LedgerError(
                f"item {item.item_id!a} of task {item.task!a} differs from the one in {self.path}; "
                "the task's data changed since the run began: start a new run"
            )

    def items(self, task: str, split: Split) -> Iterator[Item]:
        """Items of a task's split in the order in which they were added, streamed."""
        sql = "SELECT content FROM items WHERE task = ? AND split = ? ORDER BY place"
        for (content,) in self._database.query(sql, (to_text(task), split)):
            yield self._intact(f"an item of task {task!a}", partial(_item_from, content))

    def add_generation(self, trainer: str, index: int, payload: Mapping[str, Any]) -> None:
        """Store what a trainer keeps of a generation (fitness vector, sigma, ...); the last one of an index counts.

        Raises:
            LedgerError: it could not be written.
            ValueError: `payload` holds NaN or infinity.
        """
        self._database.execute("INSERT OR REPLACE INTO generations VALUES (?,?,?)", (trainer, index, pack(payload)))

    def generations(self, trainer: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Index and payload of a trainer's generations, by index."""
        sql = "SELECT number, payload FROM generations WHERE trainer = ? ORDER BY number"
        for index, payload in self._database.query(sql, (trainer,)):
            yield index, self._intact(f"generation {index} of {trainer}", partial(unpack, payload))

    def set_meta(self, key: str, value: Any) -> None:
        """Store a JSON value under `key`; the last one counts.

        Raises:
            LedgerError: it could not be written.
            ValueError: `value` holds NaN or infinity.
        """
        self._database.execute("INSERT OR REPLACE INTO meta VALUES (?,?)", (key, pack(value)))

    def meta(self, key: str) -> Any:
        """The JSON value stored under `key`, or None."""
        found = self._database.one("SELECT value FROM meta WHERE key = ?", (key,))
        return None if found is None else self._intact(f"the entry {key!a}", lambda: unpack(found[0]))

    def _intact(self, what: str, build: Callable[[], _T]) -> _T:
        """What `build` makes of a stored row.

        Raises:
            LedgerError: the row is damaged; `what` names it.
        """
        try:
            return build()
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            cause = f"{type(error).__name__}: {error}".encode("ascii", "backslashreplace").decode()
            message = f"{what} in {self.path} is damaged ({cause}); restore a copy of the file"
            raise LedgerError(message) from error


def _item_from(content: bytes) -> Item:
    return Item(**unpack(content))


def _decision_place(key: DecisionKey) -> Row:
    phase, index = key.replicate
    return (to_text(key.policy), to_text(key.task), to_text(key.item_id), _PHASES.index(phase), index, key.turn)


def _decision_values(row: DecisionRow) -> Row:
    """The columns of a decision; arrays as little-endian bytes."""
    return (
        *_decision_place(row.key),
        row.transcript_hash,
        np.asarray(row.logits, "<f4").tobytes(),
        np.asarray(row.noise, "<f8").tobytes(),
        to_text(row.agent),
        row.role,
        row.encoder_tokens,
    )


def _decision_from(found: Row) -> DecisionRow:
    policy, task, item_id, phase, index, turn, transcript, logits, noise, agent, role, tokens = found
    return DecisionRow(
        key=DecisionKey(from_text(policy), from_text(task), from_text(item_id), Replicate(_PHASES[phase], index), turn),
        transcript_hash=transcript,
        logits=np.frombuffer(logits, "<f4").astype(np.float32),
        noise=np.frombuffer(noise, "<f8").astype(np.float64),
        agent=from_text(agent),
        role=role,
        encoder_tokens=tokens,
    )


def _record_place(key: RecordKey) -> Row:
    phase, index = key.replicate
    texts = (key.method, key.variant, key.task, key.split, key.item_id)
    return (*map(to_text, texts), _PHASES.index(phase), index, key.seed)
