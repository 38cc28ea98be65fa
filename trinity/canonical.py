"""Canonical JSON and the hashes made of it: equal content, equal bytes, on every machine."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Any

# Made once: `json.dumps` with settings of its own makes an encoder at every call.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys and no spaces; NaN and infinity are refused (ValueError)."""
    return _ENCODER.encode(value)


def sha256(value: str | bytes) -> str:
    """SHA-256 in hex; text as UTF-8, lone surrogates kept."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`."""
    return sha256(canonical_json(value))


def folded(text: str) -> str:
    """`text` in the form in which two texts count as the same: NFKC, case folded, white space squeezed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
