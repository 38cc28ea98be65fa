"""Weights files whose bytes are the registered ones; a file that has not changed is not read twice."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from trinity.canonical import sha256
from trinity.errors import LedgerError, WeightsError
from trinity.llm.models import Model
from trinity.runs.files import file_sha256, write_json


def known_sha256(path: Path, cache: Path) -> str:
    """SHA-256 (hex) of a file; not read again while size and time of change are those of the last reading.

    Raises:
        WeightsError: it cannot be read.
    """
    try:
        # The stamp from before the reading: a file that changes meanwhile must not keep the hash.
        stamp = _stamp(path, cache)
        return _noted(*stamp) or _keep(*stamp, file_sha256(path))
    except LedgerError as error:
        raise WeightsError(str(error)) from error
    except OSError as error:
        raise WeightsError(f"cannot read {path}: {error.strerror or error}") from error


def _stamp(path: Path, cache: Path) -> tuple[Path, dict[str, int | str]]:
    """The note's file and what it says but for the hash."""
    real = path.resolve()
    stat = real.stat()
    note = cache / "verified" / f"{sha256(os.fsencode(real))[:32]}.json"
    return note, {"path": str(real), "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _noted(note: Path, facts: dict[str, int | str]) -> str | None:
    """The hash in the note, if the file has not changed since."""
    try:
        stored = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(stored, dict) or not isinstance(stored.get("sha256"), str):
        return None
    digest: str = stored.pop("sha256")
    return digest if stored == facts else None


def note_sha256(path: Path, cache: Path, digest: str) -> None:
    """Keep the hash of a file that was just written, so that it need not be read again."""
    _keep(*_stamp(path, cache), digest)


def _keep(note: Path, facts: dict[str, int | str], digest: str) -> str:
    # A note only saves time: an unwritable cache costs a second per start, not the run.
    with suppress(OSError, LedgerError):
        note.parent.mkdir(parents=True, exist_ok=True)
        write_json(note, {**facts, "sha256": digest})
    return digest


def checked(path: Path, model: Model, cache: Path, advice: str) -> Path:
    """`path` if it holds the model's bytes.

    Raises:
        WeightsError: it does not, or cannot be read; ends with `advice`.
    """
    actual = known_sha256(path, cache)
    if actual != model.sha256:
        raise WeightsError(f"damaged weights file {path} (sha256 {actual}, expected {model.sha256}); {advice}")
    return path


def cached(model: Model, cache: Path) -> Path | None:
    """The model's file in the cache, None where there is none; raises as `checked`."""
    path = cache / model.file
    return checked(path, model, cache, "delete it to download again") if path.is_file() else None
