"""Reads the hidden tests of LiveCodeBench, which are packed as a pickle, without running what a pickle can run."""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import pickletools
import zlib
from typing import Any, NoReturn

MAX_BYTES = 2**28
"""Bytes of the tests of a problem, unpacked."""

_ALLOWED = frozenset(
    (
        *("PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"),
    )
)
"""What builds texts, lists and dictionaries."""
_MEMO = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_MAX_MEMO = 1_000_000
"""Of a memo's places; the unpickler makes room for the highest that a pickle names."""


class _Unpickler(pickle.Unpickler):
    """Knows no class and no function."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"the tests name {module_name}.{global_name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("the tests name an object outside of them")


def read_tests(packed: str) -> list[dict[str, str]]:
    """Tests as `{"input": ..., "output": ..., "testtype": ...}`, from JSON, or from base64 of zlib of a pickle of it.

    Raises:
        ValueError: they are anything else, larger than `MAX_BYTES`, or none.
    """
    text = packed.strip()
    value = _parsed(text) if text.startswith(("[", "{")) else _unpacked(text)
    if isinstance(value, str):
        value = _parsed(value)
    if not isinstance(value, list) or not all(map(_is_test, value)):
        raise ValueError("the tests are no list of inputs and outputs")
    if not value:
        raise ValueError("there are no tests")
    return value


def _is_test(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("input"), str) and isinstance(value.get("output"), str)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("the tests are nested too deeply") from error


def _unpacked(text: str) -> Any:
    unpack = zlib.decompressobj()
    try:
        data = unpack.decompress(base64.b64decode(text, validate=True), MAX_BYTES + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"the tests can not be unpacked: {error}") from error
    if len(data) > MAX_BYTES or not unpack.eof:
        raise ValueError(f"the tests are cut off or have more than {MAX_BYTES:,} bytes")
    return _unpickled(data)


def _unpickled(data: bytes) -> Any:
    try:
        for code, argument, _ in pickletools.genops(data):
            if code.name not in _ALLOWED:
                raise ValueError(f"the tests hold a {code.name}, which builds no text, list or dictionary")
            if code.name in _MEMO and int(argument or 0) > _MAX_MEMO:
                raise ValueError("the tests' pickle asks for too much room")
        return _Unpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the tests can not be unpickled: {error}") from error
