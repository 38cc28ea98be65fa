"""Hashes of large files are remembered: while a file has not changed, and never wrongly."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trinity.canonical import sha256
from trinity.errors import WeightsError
from trinity.llm.models import Model
from trinity.llm.verified import cached, checked, known_sha256, note_sha256

OLD, NEW = sha256(b"old"), sha256(b"new")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of three bytes."""
    path = tmp_path / "weights.gguf"
    path.write_bytes(b"old")
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache whose folder is not there yet, nor the one that holds it."""
    return tmp_path / "caches" / "mine"


def note_of(file: Path, cache: Path) -> Path:
    """Where the hash of a file is noted."""
    return cache / "verified" / f"{sha256(os.fsencode(file))[:32]}.json"


def model_of(digest: str) -> Model:
    """A registered model whose bytes have this hash."""
    return Model("tiny", "weights.gguf", "CC0-1.0", 3, digest, "", ("somebody/tiny", "weights.gguf"), ())


def test_a_file_is_read_again_when_size_or_time_change(file: Path, cache: Path) -> None:
    """Other bytes of the same size and time are not looked at; with another time, or another size, they are."""
    assert known_sha256(file, cache) == OLD
    stat = file.stat()
    file.write_bytes(b"new")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert known_sha256(file, cache) == OLD
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert known_sha256(file, cache) == NEW
    file.write_bytes(b"longer")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert known_sha256(file, cache) == sha256(b"longer")


def test_a_note_is_kept_by_the_file_that_a_link_leads_to(file: Path, cache: Path, tmp_path: Path) -> None:
    """One note a file, in a form that later versions read: path, size, time of change and hash."""
    (tmp_path / "link").symlink_to(file)
    note_sha256(tmp_path / "link", cache, NEW)
    stat = file.stat()
    expected = {"path": str(file), "size": 3, "mtime_ns": stat.st_mtime_ns, "sha256": NEW}
    assert [json.loads(path.read_text("utf-8")) for path in (cache / "verified").iterdir()] == [expected]
    assert known_sha256(file, cache) == NEW
    note_of(file, cache).write_text(json.dumps({**expected, "sha256": OLD}), encoding="utf-8")
    assert known_sha256(file, cache) == OLD


@pytest.mark.parametrize("note", ["", "no JSON", "[]", "5", "{}", '{"sha256": 5}', '{"sha256": "0"}', b"\xff"])
def test_a_note_that_says_nothing_is_written_anew(file: Path, cache: Path, note: str | bytes) -> None:
    """Neither a damaged note nor one of another file is believed."""
    note_of(file, cache).parent.mkdir(parents=True)
    note_of(file, cache).write_bytes(note if isinstance(note, bytes) else note.encode())
    assert known_sha256(file, cache) == OLD
    assert json.loads(note_of(file, cache).read_text("utf-8"))["sha256"] == OLD


def test_a_cache_that_cannot_be_written_costs_time_alone(file: Path, tmp_path: Path) -> None:
    """Where no note can be kept the file is read each time."""
    (tmp_path / "taken").touch()
    assert [known_sha256(file, tmp_path / "taken") for _ in range(2)] == [OLD] * 2


def test_a_file_that_cannot_be_read_is_one_line(cache: Path, tmp_path: Path) -> None:
    """One that is not there, and a folder in its place, are named with the reason."""
    missing = tmp_path / "missing"
    with pytest.raises(WeightsError) as caught:
        known_sha256(missing, cache)
    assert str(caught.value) == f"cannot read {missing}: No such file or directory"
    with pytest.raises(WeightsError) as caught:
        known_sha256(tmp_path, cache)
    assert str(caught.value) == f"cannot read {tmp_path}: Is a directory"


def test_a_model_s_file_has_its_bytes_or_is_refused(file: Path, cache: Path) -> None:
    """The right one is given back; the wrong one is named with both hashes and what to do."""
    assert checked(file, model_of(OLD), cache, "mend it") == file
    with pytest.raises(WeightsError) as caught:
        checked(file, model_of(NEW), cache, "mend it")
    assert str(caught.value) == f"damaged weights file {file} (sha256 {OLD}, expected {NEW}); mend it"


def test_what_is_in_the_cache_is_checked(file: Path) -> None:
    """The model's file there, None where there is none, and advice where it is damaged."""
    folder = file.parent
    assert cached(model_of(OLD), folder) == file
    assert cached(model_of(OLD), folder / "elsewhere") is None
    with pytest.raises(WeightsError) as caught:
        cached(model_of(NEW), folder)
    assert str(caught.value).endswith(f"expected {NEW}); delete it to download again")
    assert [path.parent for path in folder.rglob("*.json")] == [folder / "verified"]
