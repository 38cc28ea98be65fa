"""Rows of a ledger that a thread of its own writes, so that the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from trinity.errors import LedgerError
from trinity.runs.calls import CallTable, RequestRows
from trinity.runs.sqlite import Database, Row

FLUSH_ROWS = 128
"""Rows that are collected in memory before they are written without a record."""

FOUND_ROWS = 1024
"""The same where what was added is lost to nobody, for it was found in a store: larger writes cost less."""

BEHIND_ROWS = 2048
"""Rows that may be collected while others are being written before who can wait should."""

MOST_ROWS = 65536
"""Rows that may be collected while others are being written before everybody waits."""

_PUT_USES = (
    "INSERT OR IGNORE INTO call_use SELECT id, column1, column2 FROM (VALUES {}) CROSS JOIN requests ON hash = column3"
)
_PUT_MISSES = "INSERT OR IGNORE INTO misses SELECT id FROM (VALUES {}) CROSS JOIN requests ON hash = column1"
_T = TypeVar("_T")


class Pending:
    """Rows that wait for the next transaction, ready to be written."""

    def __init__(self) -> None:
        self.requests: dict[bytes, RequestRows] = {}
        self.calls: dict[bytes, tuple[Row, Row]] = {}
        self.misses: dict[bytes, None] = {}
        self.attempts: dict[int, Row] = {}
        self.decisions: list[Row] = []
        self.records: dict[Row, Row] = {}

    def __len__(self) -> int:
        return len(self.calls) + len(self.misses) + len(self.attempts) + len(self.decisions) + len(self.records)

    def followed_by(self, later: Pending) -> Pending:
        """These rows, then those of `later`."""
        both = Pending()
        for rows in (self, later):
            both.requests |= rows.requests
            both.calls = {**rows.calls, **both.calls}  # the first note of a call stays
            both.misses |= rows.misses
            both.attempts |= rows.attempts
            both.decisions += rows.decisions
            both.records |= rows.records
        return both

    def write(self, database: Database) -> None:
        """Write everything, within a transaction."""
        calls = CallTable(database)
        calls.write_requests(self.requests.values())
        calls.write_answers(answer for answer, _ in self.calls.values())
        database.write_rows(_PUT_USES, (use for _, use in self.calls.values()))
        database.write_rows(_PUT_MISSES, ((key,) for key in self.misses))
        database.write_rows("INSERT OR REPLACE INTO attempts VALUES {}", self.attempts.values())
        database.write_rows("INSERT OR REPLACE INTO decisions VALUES {}", self.decisions)
        database.write_rows("INSERT OR REPLACE INTO records VALUES {}", self.records.values())


class _Flight(NamedTuple):
    """Rows that are being written as the `number`-th batch, and the end of that."""

    number: int
    rows: Pending
    end: Future[None]


class WriteBehind:
    """Collects rows and has them written, all that has come in one transaction; what could not be stays collected.

    `rows` are those that are collected; whoever adds to them says `added`, which raises why earlier ones could not be
    written. Belongs to one thread.
    """

    def __init__(self, path: Path, writer: Database | None) -> None:
        """`writer` is a connection that nobody else uses; None: nothing may be written."""
        self.rows = Pending()
        self._path, self._writer = path, writer
        self._thread = ThreadPoolExecutor(1, "ledger")
        self._flight: _Flight | None = None
        self._launched = self._written = 0  # batches

    def close(self) -> None:
        """Write what is collected and close the connection; a second call does nothing.

        Raises:
            LedgerError: it could not be written; the connection is closed all the same.
        """
        if self._writer is None:
            return
        try:
            self.flush()
        finally:
            self._thread.shutdown()
            self._writer.close()

    def record(self, place: Row) -> Row | None:
        """A record's row that is not on the disk yet, or None."""
        flying = self._flight.rows.records if self._flight else {}
        return self.rows.records.get(place) or flying.get(place)

    def flush(self) -> None:
        """Write what is collected, and wait for it.

        Raises:
            LedgerError: it could not be written; it stays collected.
        """
        self._land()
        if self.rows:
            self._launch()
            self._land()

    @property
    def is_behind(self) -> bool:
        """Whether the disk does not keep up; `await flushed()` lets it."""
        return len(self.rows) >= BEHIND_ROWS

    async def flushed(self) -> None:
        """As `flush`, but the event loop goes on."""
        wanted = self._launched + bool(self.rows)
        while self._written < wanted:
            flight = self._flight or self._launch()
            await asyncio.wait([asyncio.wrap_future(flight.end)])
            if self._flight is flight:
                self._land()
            elif error := flight.end.exception():
                raise error

    def added(self, least: int = FLUSH_ROWS) -> None:
        """Let what is collected be written if it is enough; wait only where the disk does not keep up."""
        free = self._flight is None or self._flight.end.done()
        if len(self.rows) >= (least if free else MOST_ROWS):
            self._land()
            self._launch()

    def _launch(self) -> _Flight:
        self._writable()
        rows, self.rows = self.rows, Pending()
        self._launched += 1
        self._flight = _Flight(self._launched, rows, self._thread.submit(self._transact, rows.write))
        return self._flight

    def _land(self) -> None:
        """Wait for the write that runs; what it could not write is collected again."""
        flight, self._flight = self._flight, None
        if flight is None:
            return
        try:
            flight.end.result()
        except BaseException:
            self.rows = flight.rows.followed_by(self.rows)
            raise
        self._written = flight.number

    def now(self, act: Callable[[Database], _T]) -> _T:
        """Write what is collected, then what `act` writes in a transaction of its own, and wait for it.

        Raises:
            LedgerError: it could not be written.
        """
        self.flush()
        return self._thread.submit(self._transact, act).result()

    def _transact(self, act: Callable[[Database], _T]) -> _T:
        writer = self._writable()
        with writer.transaction():
            return act(writer)

    def _writable(self) -> Database:
        if self._writer is None:
            raise LedgerError(f"{self._path} was opened to be read only")
        return self._writer
