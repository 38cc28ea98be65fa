"""The store that runs share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.llm.support import make_request
from trinity.errors import LedgerError
from trinity.llm.store import CallStore, MemoryStore, Store
from trinity.runs.calls import CallRow
from trinity.types import Usage


def make_row(text: str = "3", sample: int = 0) -> CallRow:
    """An answered call."""
    request = make_request(sample=sample)
    return CallRow(request.hash, request.to_json(), text, "", "stop", Usage(5, 1), 0.25, 1)


def test_answers_outlive_the_process_that_bought_them(tmp_path: Path) -> None:
    """What one run stored the next one finds, and nothing else."""
    path = tmp_path / "new" / "store.sqlite"
    first = Store.open(path)
    assert first.put(make_row())
    first.close()
    second = Store.open(path)
    assert second.get(make_row().request_hash) == make_row()
    assert second.get(make_row(sample=1).request_hash) is None
    assert second.count() == 1
    second.close()


def test_two_runs_share_one_file(tmp_path: Path) -> None:
    """An answer is seen by another open store at once, and the first answer to a request stays."""
    one, other = Store.open(tmp_path / "s.sqlite"), Store.open(tmp_path / "s.sqlite")
    assert one.put(make_row())
    assert not other.put(make_row(text="4"))
    found = other.get(make_row().request_hash)
    assert found is not None
    assert found.text == "3"
    one.close()
    other.close()


@pytest.mark.parametrize("content", [b"not a database, " * 500, b"SQLite format 3\x00" + b"\xff" * 8000])
def test_a_broken_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    """A file that is no store is never overwritten."""
    path = tmp_path / "store.sqlite"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"store\.sqlite"):
        Store.open(path)
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """A store below a file is a LedgerError that names the folder."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(LedgerError, match="cannot create the store's folder"):
        Store.open(tmp_path / "file" / "store.sqlite")


def test_memory_store_keeps_the_first_answer() -> None:
    """Tests meet the same rule as runs."""
    store: CallStore = MemoryStore()
    assert store.put(make_row())
    assert not store.put(replace(make_row(), text="4"))
    assert store.get(make_row().request_hash) == make_row()
