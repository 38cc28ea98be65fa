"""Files that are either the old one or the new one, never half of it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trinity.errors import LedgerError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the folder of `path`; when the block ends well, it is synced and takes the place of `path`.

    Raises:
        LedgerError: it could not be written (full disk, read-only or missing folder); `path` is as before and the
            temporary file is gone.
    """
    temporary = path.parent / f".tmp-{os.getpid()}-{secrets.token_hex(6)}"
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)  # noqa: PTH105 - the plain call, so that a test can make it fail
        _sync(path.parent)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another folder"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file's content or a folder's names are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one step.

    Raises:
        LedgerError: it could not be written; an older file is as before.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, obj: Any) -> None:
    """Write `obj` as `json_bytes` makes it, in one step.

    Raises:
        LedgerError: it could not be written; an older file is as before.
        ValueError: `obj` holds NaN or infinity.
    """
    write_atomic(path, json_bytes(obj))


def json_bytes(obj: Any) -> bytes:
    """`obj` as indented JSON; keys keep their order, which a configuration's tasks and methods need.

    Raises:
        ValueError: `obj` holds NaN or infinity.
    """
    text = json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # A lone surrogate has no UTF-8 form; its backslash form is the JSON escape of the same character.
    return text.encode("utf-8", "backslashreplace")


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        LedgerError: it is missing, unreadable or not JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise LedgerError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{path} is damaged, it holds no JSON: {error}") from error


@contextlib.contextmanager
def held(lock: Path, refusal: str, patience_s: float = 0.0) -> Iterator[None]:
    """Hold a lock against other processes; the system lets go however this one ends.

    Raises:
        LedgerError: another process holds it, even after `patience_s`; says `refusal`.
    """
    from filelock import FileLock, Timeout

    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(FileLock(lock, timeout=patience_s))
        except Timeout:
            raise LedgerError(refusal) from None
        yield


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes.

    Raises:
        LedgerError: it is missing or unreadable.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LedgerError(f"cannot read {path}: {error.strerror or error}") from error
