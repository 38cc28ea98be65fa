"""The ledger of one run: every call, decision, record, item and generation, enough to replay it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar

from trinity.errors import LedgerError
from trinity.runs.behind import FLUSH_ROWS, FOUND_ROWS, WriteBehind
from trinity.runs.calls import CALL_STATEMENTS, Answer, CallTable, RequestRows, answer_row, span
from trinity.runs.rows import (
    Attempt,
    CallUse,
    DecisionKey,
    DecisionRow,
    RecordKey,
    Totals,
    decision_from,
    decision_place,
    decision_values,
    item_content,
    item_from,
    packed_price,
    record_from,
    record_place,
    record_values,
)
from trinity.runs.sqlite import Database, Row, Schema, open_database, pack, to_text, unpack
from trinity.types import BILLS, GRADING, NOTHING, UNGRADED, Bill, Item, Price, Record, Spend, Split, Usage

SCHEMA = Schema(
    "run ledger",
    0x54520002,
    (
        *CALL_STATEMENTS,
        "CREATE TABLE call_use (id INTEGER PRIMARY KEY, paid INTEGER NOT NULL, price_json BLOB)",
        "CREATE TABLE misses (id INTEGER PRIMARY KEY)",
        """CREATE TABLE attempts (
            number INTEGER PRIMARY KEY, request_hash BLOB NOT NULL, attempt INTEGER NOT NULL, phase INTEGER NOT NULL,
            kind TEXT, status INTEGER, detail BLOB,
            usd REAL, weighted_tokens INTEGER NOT NULL, calls INTEGER NOT NULL)""",
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
        """INSERT INTO meta VALUES ('uid', CAST('"' || lower(hex(randomblob(8))) || '"' AS BLOB))""",
    ),
)

PAGE_ROWS = 256
"""Items that are read at a time."""

_GRADES = 2
"""Added to `call_use.paid` (0 or 1) of a call that grades: who came before there were judges reads the column alike."""

_T = TypeVar("_T")


class Ledger:
    """`ledger.sqlite` of one run; with `manifest.json` it is all that a replay needs.

    What is added is collected in memory and written by a thread of its own, all that has come in one transaction, so a
    record never exists without the calls and decisions before it, and the event loop never waits for the disk. SIGKILL
    loses what is still in memory and nothing that was committed; a loss of power may lose the last commits, whole ones.
    What could not be written stays collected, and whatever is called next raises why.

    Belongs to one thread, which reads on a connection of its own.
    """

    def __init__(self, reader: Database, writer: Database | None) -> None:
        """`Ledger.create` and `Ledger.open` are the ways to get one; without `writer` it is read only."""
        self._reader, self._behind = reader, WriteBehind(reader.path, writer)
        self._open_attempts: dict[int, Row] = {}
        self._calls = CallTable(reader)
        self.path = reader.path
        self.uid = str(self.meta("uid"))
        self._attempt_number = int((reader.one("SELECT MAX(number) FROM attempts") or (0,))[0] or 0)

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new ledger, with a uid that no other has.

        Raises:
            LedgerError: `path` exists or cannot be written.
        """
        return cls._opened(path, open_database(path, SCHEMA, "create", any_thread=True))

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Self:
        """The ledger of an earlier run.

        Raises:
            LedgerError: it is missing, damaged or of another version.
        """
        if read_only:
            return cls(open_database(path, SCHEMA, "read", any_thread=True), None)
        return cls._opened(path, open_database(path, SCHEMA, "open", any_thread=True))

    @classmethod
    def _opened(cls, path: Path, writer: Database) -> Self:
        # Items of one ledger are copied into another's by that one's thread, so the reader is not bound to ours.
        return cls(open_database(path, SCHEMA, "open", any_thread=True), writer)

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
            self._behind.close()
        finally:
            self._reader.close()

    @property
    def calls(self) -> CallTable:
        """The calls noted so far."""
        self.flush()
        return self._calls

    def note_call(
        self, answer: Answer, request: Mapping[str, Any], *, paid: bool, price: Price | None, grading: bool = False
    ) -> None:
        """Enter a call that this run used, `grading` an answer or not; a second note of a request changes nothing.

        `request` is the JSON form of the request. Collected as decisions are (`add_decision`), a found one for longer.

        Raises:
            LedgerError: it could not be written.
        """
        key = bytes.fromhex(answer.request_hash)
        if key in self._behind.rows.calls:
            return
        cost = None if price is None else packed_price(price)
        self._behind.rows.requests[key] = RequestRows.of(answer.request_hash, request)
        self._behind.rows.calls[key] = answer_row(answer), (paid + _GRADES * grading, cost, key)
        self._behind.added(FLUSH_ROWS if paid else FOUND_ROWS)

    def note_miss(self, request_hash: str, request: Mapping[str, Any]) -> None:
        """Enter a request whose answer was wanted and not there; `python -m trinity.ledger explain` knows it then.

        Raises:
            LedgerError: it could not be written.
        """
        self._note_request(request_hash, request)
        self._behind.rows.misses[bytes.fromhex(request_hash)] = None
        self._behind.added()

    def misses(self) -> Iterator[str]:
        """Hashes of the requests that were noted as missing, in the order in which they were."""
        self.flush()
        for (found,) in self._reader.query("SELECT hash FROM misses JOIN requests USING (id) ORDER BY misses.id"):
            yield found.hex()

    def call_use(self, request_hash: str) -> CallUse | None:
        """How this run came by a call, or None when it did not use it."""
        self.flush()
        sql = "SELECT paid, price_json FROM requests JOIN call_use USING (id) WHERE hash = ?"
        found = self._reader.one(sql, (bytes.fromhex(request_hash),))
        if found is None:
            return None
        paid, price = found
        cost = None if price is None else self._intact("a price", lambda: Price(**unpack(price)))
        return CallUse(request_hash, bool(paid % _GRADES), cost, grading=paid >= _GRADES)

    def totals(self, *, grading: bool = False) -> Totals:
        """Counts and token sums of the distinct calls of this run's episodes, or of those that graded them."""
        self.flush()
        kind = _GRADES * grading
        paid_calls, paid = self._total(kind + 1)
        reused_calls, reused = self._total(kind)
        spent = [spend for bill, spend in self.spent().items() if (bill == GRADING) == grading]
        return Totals(paid_calls, reused_calls, paid, reused, reduce(Spend.plus, spent, NOTHING))

    def _total(self, paid: int) -> tuple[int, Usage]:
        found = self._reader.one(
            """SELECT COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(reasoning_tokens), SUM(cached_tokens),
            MAX(usage_estimated) FROM call_use JOIN calls USING (id) WHERE paid = ?""",
            (paid,),
        )
        count, given, output, reasoning, cached, estimated = (value or 0 for value in found or (0,) * 6)
        return count, Usage(given, output, reasoning, cached, bool(estimated))

    def begin_attempt(self, request_hash: str, attempt: int, bill: Bill, reserve: Spend) -> int:
        """Note that an attempt is about to be made; until it ends it counts as `reserve`. Its number.

        Collected as decisions are; `flush` makes it durable.

        Raises:
            LedgerError: it could not be written.
        """
        self._attempt_number += 1
        number = self._attempt_number
        row = (number, bytes.fromhex(request_hash), attempt, BILLS.index(bill), None, None, None, *reserve)
        self._open_attempts[number] = self._behind.rows.attempts[number] = row
        self._behind.added()
        return number

    def end_attempt(
        self,
        number: int,
        kind: str,
        status: int | None,
        detail: str,
        spend: Spend,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        """Note what became of an attempt: `kind` is "answered" or that of its failure, `spend` what it cost.

        With a failed attempt's `request` (its JSON form) `python -m trinity.ledger explain` can show it.

        Raises:
            LedgerError: it could not be written.
        """
        head = self._open_attempts.pop(number)[:4]
        self._behind.rows.attempts[number] = (*head, kind, status, pack(detail), *spend)
        if request is not None:
            self._note_request(head[1].hex(), request)
        self._behind.added()

    def attempts(self, prefix: str = "") -> Iterator[Attempt]:
        """Failed attempts in the order in which they were begun, of requests whose hash starts with `prefix`."""
        self.flush()
        sql = """SELECT request_hash, attempt, kind, status, detail FROM attempts
            WHERE kind IS NOT NULL AND kind != 'answered' AND request_hash BETWEEN ? AND ? ORDER BY number"""
        for request_hash, attempt, kind, status, detail in self._reader.query(sql, span(prefix)):
            text = self._intact("a failed attempt", partial(unpack, detail))
            yield Attempt(request_hash.hex(), attempt, kind, status, text)

    def spent(self) -> dict[Bill, Spend]:
        """What the attempts of each phase and for grading cost; one that never ended counts as its reserve."""
        self.flush()
        sql = """SELECT phase, CASE WHEN COUNT(usd) = COUNT(*) THEN SUM(usd) END, SUM(weighted_tokens), SUM(calls)
            FROM attempts GROUP BY phase ORDER BY phase"""
        return {BILLS[bill]: Spend(*sums) for bill, *sums in self._reader.query(sql)}

    def _note_request(self, request_hash: str, request: Mapping[str, Any]) -> None:
        key = bytes.fromhex(request_hash)
        if key not in self._behind.rows.requests:
            self._behind.rows.requests[key] = RequestRows.of(request_hash, request)

    def add_decision(self, row: DecisionRow) -> None:
        """Collect a choice; it is written with the next record, at 128 rows, before reads and by `flush`.

        A second row of the same key replaces the first: an episode that is played again after a crash leaves the
        decisions that its record came of.

        Raises:
            LedgerError: it could not be written.
        """
        self._behind.rows.decisions.append(decision_values(row))
        self._behind.added()

    def flush(self) -> None:
        """Write what is collected, and wait for it.

        Raises:
            LedgerError: it could not be written; it stays collected.
        """
        self._behind.flush()

    @property
    def behind(self) -> bool:
        """Whether the disk does not keep up; `await flushed()` lets it."""
        return self._behind.is_behind

    async def flushed(self) -> None:
        """As `flush`, but the event loop goes on."""
        await self._behind.flushed()

    def decision(self, key: DecisionKey) -> DecisionRow | None:
        """The choice made at `key`, or None."""
        self.flush()
        found = self._reader.one(
            """SELECT * FROM decisions WHERE policy = ? AND task = ? AND item_id = ? AND phase = ? AND replicate = ?
            AND turn = ?""",
            decision_place(key),
        )
        return None if found is None else self._decision(found)

    def decisions(self) -> Iterator[DecisionRow]:
        """All choices by key, streamed."""
        self.flush()
        return map(self._decision, self._reader.query("SELECT * FROM decisions ORDER BY 1, 2, 3, 4, 5, 6"))

    def decisions_of(self, record: Record) -> Iterator[DecisionRow]:
        """The choices of a record's episode by turn; none where no policy chose."""
        policy = f"{record.method}/{record.variant}" if record.variant else record.method
        for turn in count():
            found = self.decision(DecisionKey(policy, record.task, record.item_id, record.replicate, turn))
            if found is None:
                return
            yield found

    def _decision(self, found: Row) -> DecisionRow:
        return self._intact(f"the decision at {found[:6]!a}", lambda: decision_from(found))

    def add_record(self, record: Record) -> None:
        """Let a record be written with all that was collected before it; a second of its key replaces the first.

        Raises:
            LedgerError: something could not be written.
        """
        self._behind.rows.records[record_place(RecordKey.of(record))] = record_values(record)
        self._behind.added(1)

    def record(self, key: RecordKey) -> Record | None:
        """The record of `key`, or None."""
        place = record_place(key)
        waiting = self._behind.record(place)
        if waiting is not None:
            return self._record(waiting[-1:])
        found = self._reader.one(
            """SELECT content FROM records WHERE method = ? AND variant = ? AND task = ? AND split = ?
            AND item_id = ? AND phase = ? AND replicate = ? AND seed = ?""",
            place,
        )
        return None if found is None else self._record(found)

    def records(
        self, *, method: str | None = None, variant: str | None = None, split: Split | None = None
    ) -> Iterator[Record]:
        """Records by method, variant, task, split, item, phase (train, val, reeval, test), index; streamed.

        Only those of a method, variant or split where one is given.
        """
        self.flush()
        rows = self._reader.query(
            """SELECT content FROM records
            WHERE (?1 IS NULL OR method = ?1) AND (?2 IS NULL OR variant = ?2) AND (?3 IS NULL OR split = ?3)
            ORDER BY method, variant, task, split, item_id, phase, replicate, seed""",
            (method, variant, split),
        )
        return map(self._record, rows)

    def _record(self, found: Row) -> Record:
        return self._intact("a record", lambda: record_from(found[0]))

    def delete_ungraded(self) -> int:
        """Delete the records that were never graded, to ask them again; how many there were.

        Raises:
            LedgerError: it could not be written.
        """
        sql = "DELETE FROM records WHERE status = ?"
        return self._behind.now(lambda writer: sum(writer.execute(sql, (status,)) for status in sorted(UNGRADED)))

    def count_ungraded(self) -> int:
        """Records that were never graded."""
        self.flush()
        return sum(
            int((self._reader.one("SELECT COUNT(*) FROM records WHERE status = ?", (status,)) or (0,))[0])
            for status in sorted(UNGRADED)
        )

    def add_items(self, split: Split, items: Iterable[Item]) -> None:
        """Store items in their order; those stored before are left where they are.

        Raises:
            LedgerError: an item differs from the one stored under its id (none of `items` is stored then), or it
                could not be written.
        """

        def add(writer: Database) -> None:
            for item in items:
                self._add_item(writer, split, item)

        self._behind.now(add)

    def _add_item(self, writer: Database, split: Split, item: Item) -> None:
        content = item_content(item)
        place = (to_text(item.task), split)
        item_id = to_text(item.item_id)
        sql = "SELECT content FROM items WHERE task = ? AND split = ? AND item_id = ?"
        found = writer.one(sql, (*place, item_id))
        if found is None:
            writer.execute(
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
        sql = "SELECT place, content FROM items WHERE task = ? AND split = ? AND place > ? ORDER BY place LIMIT ?"
        last = -1
        # In pages, for a whole phase is played while its items are read.
        while page := list(self._reader.query(sql, (to_text(task), split, last, PAGE_ROWS))):
            for _, content in page:
                yield self._intact(f"an item of task {task!a}", partial(item_from, content))
            last = page[-1][0]

    def item(self, task: str, split: Split, item_id: str) -> Item | None:
        """The item of that id, or None."""
        sql = "SELECT content FROM items WHERE task = ? AND split = ? AND item_id = ?"
        found = self._reader.one(sql, (to_text(task), split, to_text(item_id)))
        return self._intact(f"an item of task {task!a}", partial(item_from, found[0])) if found else None

    def count_items(self, task: str, split: Split) -> int:
        """How many items a task's split has."""
        sql = "SELECT COUNT(*) FROM items WHERE task = ? AND split = ?"
        return int((self._reader.one(sql, (to_text(task), split)) or (0,))[0])

    def add_generation(self, trainer: str, index: int, payload: Mapping[str, Any]) -> None:
        """Store what a trainer keeps of a generation (fitness vector, sigma, ...); the last one of an index counts.

        Raises:
            LedgerError: it could not be written.
            ValueError: `payload` holds NaN or infinity.
        """
        values = (trainer, index, pack(payload))
        self._behind.now(lambda writer: writer.execute("INSERT OR REPLACE INTO generations VALUES (?,?,?)", values))

    def generations(self, trainer: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Index and payload of a trainer's generations, by index."""
        sql = "SELECT number, payload FROM generations WHERE trainer = ? ORDER BY number"
        for index, payload in self._reader.query(sql, (trainer,)):
            yield index, self._intact(f"generation {index} of {trainer}", partial(unpack, payload))

    def set_meta(self, key: str, value: Any) -> None:
        """Store a JSON value under `key`; the last one counts.

        Raises:
            LedgerError: it could not be written.
            ValueError: `value` holds NaN or infinity.
        """
        values = (key, pack(value))
        self._behind.now(lambda writer: writer.execute("INSERT OR REPLACE INTO meta VALUES (?,?)", values))

    def meta(self, key: str) -> Any:
        """The JSON value stored under `key`, or None."""
        found = self._reader.one("SELECT value FROM meta WHERE key = ?", (key,))
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


def ungraded_in(run: Path) -> int:
    """Records of a run's folder that were never graded.

    Raises:
        LedgerError: its ledger cannot be read.
    """
    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        return ledger.count_ungraded()
