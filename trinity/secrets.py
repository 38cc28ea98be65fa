"""What counts as a secret, how its value may be written, and what stands in its place."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote

MARK = "***"
"""Stands where a secret stood."""

SHORTEST = 8
"""Characters; shorter values ("none", "false") stand in ordinary texts and protect nothing."""

NAME = re.compile(
    # neither TOKENIZERS_PARALLELISM nor GIT_AUTHOR_NAME, but AUTHORIZATION
    "key|token(?!iz)|secret|passw|passphrase|_pass$|credential|auth(?!or(?!i[sz]))|cookie",
    re.IGNORECASE,
)
"""Found in the name of a variable, header or parameter whose value is a secret."""


def in_environment() -> dict[str, str]:
    """Values of the environment variables that are named like secrets, each with its variable."""
    named = {value.strip(): name for name, value in os.environ.items() if NAME.search(name)}
    return {value: name for value, name in named.items() if len(value) >= SHORTEST}


def forms(secret: str) -> set[str]:
    """The ways in which a secret may be written: plain, percent-encoded or decoded, in JSON, in base64.

    Of a short one only what a URL makes of it: its other forms would be found everywhere.
    """
    written = {secret, unquote(secret), quote(secret), quote(secret, safe=""), quote_plus(secret)}
    if len(secret) < SHORTEST:
        return written
    coded = {form for code in (b64encode, urlsafe_b64encode) for form in _coded(secret.encode(), code)}
    return written | coded | {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def replaced(text: str, written: Iterable[str]) -> str:
    """`text` with each of these forms, one after the other, replaced by the mark."""
    for form in written:
        if form in text:
            text = text.replace(form, MARK)
    return text


def _coded(data: bytes, code: Callable[[bytes], bytes]) -> Iterator[str]:
    """Base64 of `data` alone, and what is the same of it wherever it stands within a longer text."""
    yield code(data).decode().rstrip("=")
    for before in range(3):
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        yield code(bytes(before) + data).decode()[first:last]
