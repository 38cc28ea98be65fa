"""Where answers are kept: the store that runs share, and what a client needs of any store."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, Self

from trinity.errors import LedgerError
from trinity.runs.calls import CALL_STATEMENTS, CallRow, CallTable
from trinity.runs.sqlite import Database, Schema, open_database

SCHEMA = Schema("call store", 0x54530001, CALL_STATEMENTS)


class CallStore(Protocol):
    """Answers by request hash; `Store`, `MemoryStore` and a ledger's `calls` are such."""

    def get(self, request_hash: str) -> CallRow | None:
        """The answer to a request, or None."""
        ...

    def put(self, row: CallRow) -> object:
        """Keep an answer; one that is already there stays."""
        ...


class Store:
    """The SQLite file of answers that runs share: cache and bill at once.

    Several processes may use it at the same time (WAL). What is committed survives a crash.
    """

    def __init__(self, database: Database) -> None:
        """`open` is the way to get one."""
        self._database = database
        self._calls = CallTable(database)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The store at `path`, made with its folder where there is none.

        Raises:
            LedgerError: the file is damaged or something else; it is left as it is.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"cannot create the store's folder {path.parent}: {error.strerror or error}") from error
        return cls(open_database(path, SCHEMA, "open_or_create"))

    def get(self, request_hash: str) -> CallRow | None:
        """The answer to a request, or None.

        Raises:
            LedgerError: the stored row is damaged.
        """
        return self._calls.get(request_hash)

    def put(self, row: CallRow) -> bool:
        """Keep an answer; True unless the request had one, which then stays.

        Raises:
            LedgerError: it could not be written.
        """
        return self._calls.put(row)

    def count(self) -> int:
        """How many answers there are."""
        return self._calls.count()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._database.close()


class MemoryStore:
    """A store that ends with its process, for tests."""

    def __init__(self) -> None:
        self.rows: dict[str, CallRow] = {}

    def get(self, request_hash: str) -> CallRow | None:
        """The answer to a request, or None."""
        return self.rows.get(request_hash)

    def put(self, row: CallRow) -> bool:
        """Keep an answer; True unless the request had one, which then stays."""
        return self.rows.setdefault(row.request_hash, row) is row


class OwnFirst:
    """A run's own answers before the shared ones, so that a run goes on where the shared store is gone."""

    def __init__(self, own: CallStore, shared: CallStore) -> None:
        self._own = own
        self._shared = shared

    def get(self, request_hash: str) -> CallRow | None:
        """The answer that the run has, else the shared one."""
        return self._own.get(request_hash) or self._shared.get(request_hash)

    def put(self, row: CallRow) -> object:
        """Keep an answer for all; the run's own copy is noted by its ledger."""
        return self._shared.put(row)
