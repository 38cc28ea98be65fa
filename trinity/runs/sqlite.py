"""SQLite files that are checked before use, written in transactions, and whose failures are `LedgerError`s."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from trinity.canonical import canonical_json
from trinity.errors import LedgerError

Row = tuple[Any, ...]
Mode = Literal["create", "open", "open_or_create", "read"]

BUSY_TIMEOUT_S = 30.0
CACHE_MIB = 8
_BUSY_PAUSE_S = 0.01
_MOST_PARAMETERS = 999
"""Of one statement: no build of SQLite takes fewer."""

_HINTS = {
    sqlite3.SQLITE_FULL: "free some space and resume",
    sqlite3.SQLITE_IOERR: "check the disk and its free space, then resume",
    sqlite3.SQLITE_BUSY: "another process is writing it; wait for its end and resume",
    sqlite3.SQLITE_READONLY: "it cannot be written here; copy it or change its permissions",
    sqlite3.SQLITE_CANTOPEN: "check that the file exists and that its folder can be used",
    sqlite3.SQLITE_CORRUPT: "it is damaged; move it away or restore a copy",
    sqlite3.SQLITE_NOTADB: "it is damaged or no such file; move it away or restore a copy",
}
# Python decodes the column names and messages that SQLite takes from a damaged file.
_FAILURES = (sqlite3.Error, UnicodeDecodeError)
_SMALLEST_PAGE = 512
_PRIMARY = 0xFF  # extended result codes keep the primary one in the low byte


class Schema(NamedTuple):
    """What a file must hold: `version` is its `PRAGMA user_version`, a number that no other kind of file has."""

    name: str
    version: int
    statements: tuple[str, ...]


class Database:
    """One connection, used from one thread; every `sqlite3.Error` leaves it as a `LedgerError` naming the file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Wrap `connection`; `open_database` is the way to get one."""
        self.path = path
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run one statement; the number of rows it changed.

        Raises:
            LedgerError: SQLite refused.
        """
        try:
            return self._connection.execute(sql, parameters).rowcount
        except _FAILURES as error:
            raise self._failure(error) from error

    def write_rows(self, sql: str, rows: Iterable[Row]) -> None:
        """Run a statement whose `VALUES {}` are `rows`, all of one width.

        As few statements as there can be: the interpreter is let go while one runs, and every time that a writing
        thread wants it back the event loop waits.

        Raises:
            LedgerError: SQLite refused.
        """
        waiting = iter(rows)
        first = next(waiting, ())
        waiting = chain([first] if first else [], waiting)
        place = f"({','.join('?' * len(first))})"
        while batch := list(islice(waiting, _MOST_PARAMETERS // len(first) if first else 0)):
            self.execute(sql.format(",".join([place] * len(batch))), tuple(chain.from_iterable(batch)))

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """Rows of a SELECT, streamed.

        Raises:
            LedgerError: SQLite refused.
        """
        try:
            # Not `yield from`: it would close the cursor of an abandoned iterator, perhaps after the database.
            for row in self._connection.execute(sql, parameters):  # noqa: UP028
                yield row
        except _FAILURES as error:
            raise self._failure(error) from error

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        """The first row of a SELECT, or None.

        Raises:
            LedgerError: SQLite refused.
        """
        try:
            row: Row | None = self._connection.execute(sql, parameters).fetchone()
        except _FAILURES as error:
            raise self._failure(error) from error
        return row

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; SQLite itself ends one that a full disk has spoilt."""
        return self._connection.in_transaction

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what the block writes; inside another transaction it joins that one.

        Raises:
            LedgerError: the transaction could not begin or commit; nothing of it was written.
        """
        if self._connection.in_transaction:
            yield
            return
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()
            raise

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        try:
            self._connection.close()
        except _FAILURES as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> LedgerError:
        """`error` as one line with the file and what to do."""
        undecodable = isinstance(error, UnicodeDecodeError)
        code = sqlite3.SQLITE_CORRUPT if undecodable else getattr(error, "sqlite_errorcode", 0)
        hint = _HINTS.get(code & _PRIMARY)
        return LedgerError(f"{self.path}: {error}" + (f"; {hint}" if hint else ""))


def open_database(
    path: Path, schema: Schema, mode: Mode, *, cache_mib: int = CACHE_MIB, any_thread: bool = False
) -> Database:
    """Open `path` and check that it follows `schema`.

    `create` refuses an existing file, `open` and `read` a missing one. Files are in WAL mode with
    `synchronous=NORMAL`: what is committed survives the end of the process, however it ends; a loss of power may take
    the last transactions, whole ones, and never damages the file. `cache_mib` bounds the pages kept in memory;
    `any_thread` lets another thread than this one use the connection, one at a time.

    Raises:
        LedgerError: the file is missing, damaged, not SQLite or of another schema; it is left as it was.
    """
    if mode == "create":
        _claim(path)
    try:
        database = Database(path, _connect(path, mode, any_thread=any_thread))
        try:
            database.one(f"PRAGMA cache_size={-1024 * cache_mib:d}")
            _prepare(database, schema, mode)
        except BaseException:
            database.close()
            raise
    except BaseException:
        if mode == "create":
            path.unlink(missing_ok=True)
        raise
    return database


def _claim(path: Path) -> None:
    """Make an empty file, so that two processes cannot both create it."""
    try:
        path.touch(exist_ok=False)
    except OSError as error:
        raise LedgerError(f"cannot create {path}: {error.strerror or error}") from error


def _inspect(path: Path, mode: Mode) -> None:
    """Refuse what SQLite would take for a new file."""
    size = path.stat().st_size if path.is_file() else None
    if size is None and mode in ("open", "read"):
        raise LedgerError(f"{path} does not exist or is no file")
    if size is not None and 0 < size < _SMALLEST_PAGE:
        raise LedgerError(f"{path}: file is not a database; {_HINTS[sqlite3.SQLITE_NOTADB]}")


def _connect(path: Path, mode: Mode, *, any_thread: bool) -> sqlite3.Connection:
    _inspect(path, mode)
    try:
        if mode == "read":
            connection = _connect_to_read(path, any_thread=any_thread)
        else:
            connection = _connected(path, f"mode={'rwc' if mode == 'open_or_create' else 'rw'}", any_thread=any_thread)
    except sqlite3.Error as error:
        raise LedgerError(f"cannot open {path}: {error}; check that its folder exists and can be used") from error
    return connection


def _connected(path: Path, parameters: str, *, any_thread: bool) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{parameters}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=not any_thread
    )
    connection.text_factory = _lenient
    return connection


def _connect_to_read(path: Path, *, any_thread: bool) -> sqlite3.Connection:
    """A connection that writes nothing, also where somebody else writes meanwhile.

    Reading a file in WAL mode needs two helper files beside it, which only a connection that may write also takes away
    again. Where the folder forbids them nobody can write either, and without a log the file alone is complete.
    """
    connection = _connected(path, "mode=rw", any_thread=any_thread)
    try:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        fixed = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
        return _connected(path, f"mode=ro{fixed}", any_thread=any_thread)
    except _FAILURES:  # damaged: the one who opens finds out and says so
        pass
    return connection


def _lenient(raw: bytes) -> str:
    """Text that damage made invalid still comes out, so that its row can be named."""
    return raw.decode("utf-8", "surrogateescape")


def _prepare(database: Database, schema: Schema, mode: Mode) -> None:
    """Check the schema, or make it in a file that is new."""
    version, filled = _content(database)
    is_new = mode in ("create", "open_or_create") and version == 0 and not filled
    if version != schema.version and not is_new:
        raise LedgerError(
            f"{database.path} is no {schema.name} of this version (schema number {version}, wanted {schema.version}); "
            "it was left as it is, name another file"
        )
    if mode != "read":
        _use_wal(database)
    if is_new:
        _make(database, schema)


def _content(database: Database) -> tuple[int, bool]:
    """Schema number and whether there are tables, both of one moment."""
    row = database.one("SELECT user_version, EXISTS (SELECT 1 FROM sqlite_master) FROM pragma_user_version")
    return (int(row[0]), bool(row[1])) if row else (0, False)


def _make(database: Database, schema: Schema) -> None:
    with database.transaction():
        if _content(database) == (0, False):  # else another process was faster
            for statement in schema.statements:
                database.execute(statement)
            database.execute(f"PRAGMA user_version={schema.version:d}")


def _use_wal(database: Database) -> None:
    """Set the modes; SQLite does not wait for other processes that open the same new file, so this does."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            database.one("PRAGMA journal_mode=WAL")
            break
        except LedgerError as error:
            code = getattr(error.__cause__, "sqlite_errorcode", 0) & _PRIMARY
            if code != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_PAUSE_S)
    database.one("PRAGMA synchronous=NORMAL")


def pack(value: Any) -> bytes:
    """Canonical JSON as UTF-8; lone surrogates, which model output may hold, are kept.

    Raises:
        ValueError: `value` holds NaN or infinity.
    """
    return canonical_json(value).encode("utf-8", "surrogatepass")


def unpack(data: bytes) -> Any:
    """The inverse of `pack`.

    Raises:
        ValueError: `data` is not what `pack` makes.
    """
    return json.loads(data.decode("utf-8", "surrogatepass"))


def to_text(value: str) -> str | bytes:
    """A text for a TEXT column: itself, or bytes where a lone surrogate has no UTF-8 form."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def from_text(value: str | bytes) -> str:
    """The inverse of `to_text`."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")
