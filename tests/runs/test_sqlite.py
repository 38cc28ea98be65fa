"""SQLite files are checked before use and fail in one line."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trinity.errors import LedgerError
from trinity.runs.sqlite import Database, Mode, Schema, from_text, open_database, pack, to_text, unpack

SCHEMA = Schema("test file", 4711, ("CREATE TABLE t (x INTEGER PRIMARY KEY, y BLOB)",))
MODES: tuple[Mode, ...] = ("open", "open_or_create", "read")
ANY_TEXT = st.text(st.characters(exclude_categories=()))


def names(folder: Path) -> list[str]:
    """What is in the folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


@contextlib.contextmanager
def opened(path: Path, mode: Mode) -> Iterator[Database]:
    """The database, closed afterwards."""
    database = open_database(path, SCHEMA, mode)
    try:
        yield database
    finally:
        database.close()


def filled(path: Path, rows: int = 3) -> Path:
    """A closed file with some rows."""
    with opened(path, "create") as database, database.transaction():
        database.write_rows("INSERT INTO t VALUES {}", ((number, bytes(1000)) for number in range(rows)))
    return path


def count(path: Path) -> int:
    """Rows in the file."""
    with opened(path, "read") as database:
        return len(list(database.query("SELECT x FROM t")))


def test_rows_survive_reopening(tmp_path: Path) -> None:
    """What was committed is there for each way to open an existing file."""
    path = filled(tmp_path / "a.sqlite")
    for mode in MODES:
        with opened(path, mode) as database:
            assert list(database.query("SELECT x FROM t")) == [(0,), (1,), (2,)]
            assert database.one("SELECT x FROM t WHERE x = 9") is None


def test_create_refuses_an_existing_file(tmp_path: Path) -> None:
    """A file that exists is never taken for a new one."""
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="File exists"):
        open_database(path, SCHEMA, "create")


@pytest.mark.parametrize("mode", ["open", "read"])
def test_missing_file_is_not_made(tmp_path: Path, mode: Mode) -> None:
    """Opening what is not there is an error and leaves no empty file."""
    with pytest.raises(LedgerError, match=r"a\.sqlite does not exist"):
        open_database(tmp_path / "a.sqlite", SCHEMA, mode)
    assert names(tmp_path) == []


def test_missing_folder_is_one_line(tmp_path: Path) -> None:
    """A folder that is not there is named by both ways to make a file."""
    for mode in ("create", "open_or_create"):
        with pytest.raises(LedgerError, match=r"no/a\.sqlite"):
            open_database(tmp_path / "no" / "a.sqlite", SCHEMA, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 15, 16, 99, 100, 511, 4096, 10_000])
def test_other_files_are_refused_and_kept(tmp_path: Path, mode: Mode, size: int) -> None:
    """A file that is not SQLite, of any size, is named and stays as it was."""
    path = tmp_path / "notes.txt"
    path.write_bytes(b"n" * size)
    with pytest.raises(LedgerError, match=r"notes\.txt: file is not a database"):
        open_database(path, SCHEMA, mode)
    assert path.read_bytes() == b"n" * size


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [0, 1])
def test_foreign_schema_is_refused_and_kept(tmp_path: Path, mode: Mode, version: int) -> None:
    """Somebody else's SQLite file is named and stays as it was."""
    path = tmp_path / "other.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute(f"PRAGMA user_version={version}")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"other\.sqlite is no test file of this version"):
        open_database(path, SCHEMA, mode)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["other.sqlite"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [50, 4096, 20_000])
def test_truncated_file_is_refused_and_kept(tmp_path: Path, mode: Mode, size: int) -> None:
    """A file that lost its end is found out when it is opened."""
    path = filled(tmp_path / "a.sqlite", rows=50)
    cut = path.read_bytes()[:size]
    path.write_bytes(cut)
    with pytest.raises(LedgerError, match=r"a\.sqlite: .*damaged"):
        open_database(path, SCHEMA, mode)
    assert path.read_bytes() == cut


def test_emptied_file_is_not_taken_for_a_run(tmp_path: Path) -> None:
    """An existing file that lost everything is refused where a filled one is wanted."""
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"")
    for mode in ("open", "read"):
        with pytest.raises(LedgerError, match=r"a\.sqlite is no test file"):
            open_database(path, SCHEMA, mode)


def delete_and_fail(database: Database) -> None:
    """An inner transaction that ends well and an error after it."""
    with database.transaction():
        database.execute("DELETE FROM t")
    raise FloatingPointError


def test_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    """An error takes back the whole transaction, an inner one included."""
    path = filled(tmp_path / "a.sqlite")
    with opened(path, "open") as database:
        with pytest.raises(FloatingPointError), database.transaction():
            delete_and_fail(database)
        assert len(list(database.query("SELECT * FROM t"))) == 3


def test_full_file_is_one_line_and_nothing_is_half_written(tmp_path: Path) -> None:
    """Where there is no room, the error names the file and the transaction is taken back."""
    path = filled(tmp_path / "a.sqlite")
    with opened(path, "open") as database:
        database.one("PRAGMA max_page_count=10")
        rows = ((number, bytes(4000)) for number in range(200, 300))
        with pytest.raises(LedgerError, match=r"a\.sqlite: .*full; free some space"), database.transaction():
            database.write_rows("INSERT INTO t VALUES {}", rows)
    assert count(path) == 3


@pytest.mark.usefixtures("small_files")
def test_refused_write_is_one_line_and_nothing_is_half_written(tmp_path: Path) -> None:
    """A write that the system refuses names the file and leaves what was committed."""
    path = filled(tmp_path / "a.sqlite")
    with opened(path, "open") as database:
        rows = ((number, bytes(10_000)) for number in range(100, 200))
        with pytest.raises(LedgerError, match=r"a\.sqlite: .*; (free|check)"), database.transaction():
            database.write_rows("INSERT INTO t VALUES {}", rows)
    assert count(path) == 3


def test_sqlite_errors_are_ledger_errors(tmp_path: Path) -> None:
    """Each way to run SQL names the file when SQLite refuses."""
    path = filled(tmp_path / "a.sqlite")
    with opened(path, "read") as database:
        for refused in (
            lambda: database.execute("DELETE FROM t"),
            lambda: database.write_rows("INSERT INTO t VALUES {}", [(9, b"")]),
            lambda: list(database.query("SELECT nothing FROM t")),
        ):
            with pytest.raises(LedgerError, match=r"a\.sqlite: "):
                refused()


def test_busy_file_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another connection is writing is named after the wait."""
    monkeypatch.setattr("trinity.runs.sqlite.BUSY_TIMEOUT_S", 0.01)
    path = filled(tmp_path / "a.sqlite")
    locked = pytest.raises(LedgerError, match=r"a\.sqlite: database is locked; another process")
    with opened(path, "open") as first, opened(path, "open") as second, first.transaction(), locked:
        second.execute("DELETE FROM t")


def test_reading_works_in_a_read_only_folder(open_folder: Path, as_nobody: Callable[[], None]) -> None:
    """A closed WAL file can be read where no helper file can be made."""
    path = filled(open_folder / "a.sqlite")
    open_folder.chmod(0o555)
    as_nobody()
    assert count(path) == 3


def test_reading_leaves_no_files(tmp_path: Path) -> None:
    """Reading a closed file adds nothing to its folder."""
    path = filled(tmp_path / "a?b#c%41.sqlite")
    assert count(path) == 3
    assert names(tmp_path) == ["a?b#c%41.sqlite"]


def test_reading_sees_what_a_writer_committed(tmp_path: Path) -> None:
    """A reader beside a writer sees the committed rows, which are still in the log."""
    path = filled(tmp_path / "a.sqlite")
    with opened(path, "open") as writer:
        writer.execute("INSERT INTO t VALUES (7, NULL)")
        assert count(path) == 4


def test_many_processes_may_create_one_file(tmp_path: Path) -> None:
    """Processes that start together on a new shared file all get it."""
    path = tmp_path / "a.sqlite"
    code = (
        "import sys; from pathlib import Path; from trinity.runs.sqlite import Schema, open_database\n"
        f"schema = Schema(*{tuple(SCHEMA)!r}); sys.stdin.readline()\n"
        "database = open_database(Path(sys.argv[1]), schema, 'open_or_create')\n"
        "database.execute('INSERT INTO t VALUES (?, NULL)', (int(sys.argv[2]),)); database.close()"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, path, str(number)], stdin=subprocess.PIPE) for number in range(6)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.close()
    assert [child.wait() for child in children] == [0] * 6
    assert count(path) == 6


def test_a_new_file_that_others_hold_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself gives up at once when it changes the mode of a file in use; opening waits instead."""
    path = tmp_path / "a.sqlite"
    other = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, other.close)
    release.start()
    with opened(path, "open_or_create") as database:
        database.execute("INSERT INTO t VALUES (1, NULL)")
    release.join()
    assert count(path) == 1


@settings(deadline=None, max_examples=50)
@given(ANY_TEXT)
def test_any_text_survives_a_text_column(text: str) -> None:
    """Every Python string, lone surrogates and NUL included, comes back from SQLite as it was."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        found = connection.execute("SELECT ?", (to_text(text),)).fetchone()
    assert from_text(found[0]) == text


@settings(deadline=None, max_examples=50)
@given(st.recursive(ANY_TEXT | st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_json_values_survive_packing(value: object) -> None:
    """Every JSON value comes back from its bytes as it was."""
    assert unpack(pack(value)) == value
