"""Files are the old one or the new one, never half of it."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from trinity.errors import LedgerError
from trinity.runs.files import file_sha256, read_json, replacing, write_atomic, write_json


def names(folder: Path) -> list[str]:
    """What is in the folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def test_write_replaces_the_whole_file(tmp_path: Path) -> None:
    """A shorter content leaves nothing of the longer one before, and no other file."""
    path = tmp_path / "a.bin"
    write_atomic(path, b"long content")
    write_atomic(path, b"short")
    assert path.read_bytes() == b"short"
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A disk that is full at the last moment leaves the old file, no temporary one, and a line that names both."""
    path = tmp_path / "a.bin"
    write_atomic(path, b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(LedgerError, match=r"a\.bin: No space left on device"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.usefixtures("small_files")
def test_refused_write_keeps_the_old_file(tmp_path: Path) -> None:
    """A write that the system refuses halfway leaves the old file alone."""
    path = tmp_path / "a.bin"
    write_atomic(path, b"old")
    with pytest.raises(LedgerError, match=r"a\.bin: File too large"):
        write_atomic(path, bytes(1 << 17))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_read_only_folder_is_named(open_folder: Path, as_nobody: Callable[[], None]) -> None:
    """A folder that may not be written is one line with the path and the cause."""
    open_folder.chmod(0o555)
    as_nobody()
    with pytest.raises(LedgerError, match=r"a\.json: Permission denied"):
        write_json(open_folder / "a.json", {})


def test_missing_folder_is_named(tmp_path: Path) -> None:
    """A folder that does not exist is one line with the path and the cause."""
    with pytest.raises(LedgerError, match=r"no/a\.json: No such file or directory"):
        write_json(tmp_path / "no" / "a.json", {})


def fail_after(work: Callable[[], object]) -> None:
    """An error of the caller's own."""
    work()
    raise FloatingPointError


def test_failing_block_leaves_nothing(tmp_path: Path) -> None:
    """An error of the writer itself passes through and its half-written file is gone."""
    with pytest.raises(FloatingPointError), replacing(tmp_path / "a.bin") as temporary:
        fail_after(lambda: temporary.write_bytes(b"half"))
    assert names(tmp_path) == []


def test_json_is_indented_keeps_order_and_roundtrips(tmp_path: Path) -> None:
    """Keys stay in their order, bytes are readable, a lone surrogate survives."""
    path = tmp_path / "a.json"
    value = {"b": [1, 2.5, None], "a": "ü\ud800"}
    write_json(path, value)
    assert path.read_bytes().startswith(b'{\n  "b": [\n')
    assert b'"a": "\xc3\xbc\\ud800"' in path.read_bytes()
    assert list(read_json(path).items()) == list(value.items())


def test_nan_is_refused_before_the_file_is_touched(tmp_path: Path) -> None:
    """JSON has no NaN, so none is written."""
    path = tmp_path / "a.json"
    write_json(path, 1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, float("nan"))
    assert read_json(path) == 1


@pytest.mark.parametrize("content", [b"", b'{"a": ', b'{"a": "\xff"}', b"[" * 100_000])
def test_broken_json_is_named(tmp_path: Path, content: bytes) -> None:
    """Whatever is wrong with a JSON file, the error names the file."""
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"a\.json is damaged"):
        read_json(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is an error with its path, for both readers."""
    for reader in (read_json, file_sha256):
        with pytest.raises(LedgerError, match=r"none\.json: No such file"):
            reader(tmp_path / "none.json")


def test_file_hash_is_that_of_its_bytes(tmp_path: Path) -> None:
    """Reading in pieces gives the hash of the whole."""
    data = bytes(range(256)) * 8192
    (tmp_path / "a").write_bytes(data)
    assert file_sha256(tmp_path / "a") == hashlib.sha256(data).hexdigest()
