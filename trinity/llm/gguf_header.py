"""The chat template in the header of a GGUF file."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from trinity.errors import WeightsError

_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


def chat_template(path: Path) -> str:
    """The chat template in a GGUF file's header, empty if it has none.

    The `gguf` package builds an object per vocabulary entry first, which takes seconds.

    Raises:
        WeightsError: no GGUF file, or a damaged header.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _find_template(data)
    except (OSError, ValueError, struct.error, IndexError, KeyError) as error:
        raise WeightsError(f"no readable GGUF file {path}: {error}") from error


def _find_template(data: mmap.mmap) -> str:
    """Walk over the key-value pairs: magic, version, tensors, pairs, then key, type, value of each."""
    magic, version, _, pairs = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF" or version < 2:  # noqa: PLR2004 - version 1 had shorter counts
        raise ValueError("not GGUF version 2 or later")
    at = struct.calcsize("<4sIQQ")
    for _ in range(pairs):
        key, at = _text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        if key == b"tokenizer.chat_template" and kind == _STRING:
            return _text(data, at + 4)[0].decode("utf-8")
        at = _skip(data, at + 4, kind)
    return ""


def _text(data: mmap.mmap, at: int) -> tuple[bytes, int]:
    """A string with its length before it, and where it ends."""
    length: int = struct.unpack_from("<Q", data, at)[0]
    end = at + 8 + length
    if end > len(data):
        raise ValueError("it ends within its header")
    return data[at + 8 : end], end


def _skip(data: mmap.mmap, at: int, kind: int) -> int:
    """Where a value ends."""
    count: int
    if kind == _STRING:
        return _text(data, at)[1]
    if kind != _ARRAY:
        return at + _SCALAR_BYTES[kind]
    kind, count = struct.unpack_from("<IQ", data, at)
    at += struct.calcsize("<IQ")
    if kind in _SCALAR_BYTES:
        return at + count * _SCALAR_BYTES[kind]
    for _ in range(count):
        at = _skip(data, at, kind)
    return at
