"""What of an endpoint's address and keys may be seen, and how the rest is kept out of every text."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

from trinity.errors import ConfigError

SECRET_CHARS = 8
"""Shorter keys ("none", "x") stand in ordinary answers and protect nothing."""

_SHOWN = "***"


class Redactor:
    """Replaces secrets by `***`, however they are written: plain, percent-encoded, in JSON, in base64."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if secret for form in _forms(secret)}
        # The longest first: where one secret is a part of another, no half of it may be left.
        self._forms = sorted(forms, key=len, reverse=True)
        self._long = [form for form in self._forms if len(form) >= SECRET_CHARS]

    def line(self, text: str) -> str:
        """`text` for an error line, where even a short secret has no business."""
        return _without(text, self._forms)

    def answer(self, text: str) -> str:
        """`text` of a model, should an endpoint echo what it was sent."""
        return _without(text, self._long)


def _without(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        if form in text:
            text = text.replace(form, _SHOWN)
    return text


def _forms(secret: str) -> set[str]:
    """The ways in which a secret may be written; those of a short one would be found everywhere."""
    forms = {secret, unquote(secret), quote(secret), quote(secret, safe="")}
    if len(secret) < SECRET_CHARS:
        return forms
    data = secret.encode()
    coded = {code(data).decode().rstrip("=") for code in (b64encode, urlsafe_b64encode)}
    return forms | coded | {json.dumps(secret)[1:-1]}


def split_url(base_url: str) -> SplitResult:
    """The parts of an endpoint's URL.

    Raises:
        ConfigError: it is none.
    """
    try:
        parts = urlsplit(base_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError("base_url must look like https://HOST/v1 (it is not shown, for it may hold a secret)")
    return parts


def stable_url(base_url: str) -> str:
    """`base_url` without user info, query, fragment and closing slash: the same on every machine, and no secret."""
    parts = split_url(base_url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path.rstrip("/"), "", ""))


def url_secrets(parts: SplitResult) -> list[str]:
    """What must not be shown of a URL, as it stands there and decoded; a user's name may be a token too."""
    raw = [piece.partition("=")[2] for piece in parts.query.split("&")]
    others = [parts.username or "", *(value for _, value in parse_qsl(parts.query)), *raw]
    return [value for value in others if len(value) >= SECRET_CHARS] + [parts.password or ""]
