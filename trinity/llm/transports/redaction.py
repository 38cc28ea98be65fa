"""What of an endpoint's address and keys may be seen, and how the rest is kept out of every text."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit, urlunsplit

from trinity.errors import ConfigError
from trinity.secrets import SHORTEST, forms, replaced


class Redactor:
    """Replaces secrets by `***`, however they are written."""

    def __init__(self, secrets: Iterable[str]) -> None:
        written = {form for secret in secrets if secret for form in forms(secret)}
        # The longest first: where one secret is a part of another, no half of it may be left.
        self._forms = sorted(written, key=len, reverse=True)
        self._long = [form for form in self._forms if len(form) >= SHORTEST]

    def line(self, text: str) -> str:
        """`text` for an error line, where even a short secret has no business."""
        return replaced(text, self._forms)

    def answer(self, text: str) -> str:
        """`text` of a model, should an endpoint echo what it was sent."""
        return replaced(text, self._long)


def split_url(url: str, setting: str = "base_url", query: str = "query or query_env") -> SplitResult:
    """The parts of an endpoint's URL, which stands at `setting`; `query` is where a query belongs.

    Raises:
        ConfigError: it is none, or it has a query: that may hold a secret, and would be lost with the run's config.
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError(f"{setting} must look like https://HOST/v1 (it is not shown, for it may hold a secret)")
    if parts.query or parts.fragment:
        raise ConfigError(
            f"{setting} has a query, which may hold a secret and is not kept with the run; write it under {query}"
        )
    return parts


def stable_url(parts: SplitResult) -> str:
    """A URL without user info and closing slash: the same on every machine, and no secret."""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path.rstrip("/"), "", ""))


def url_secrets(parts: SplitResult) -> list[str]:
    """What must not be shown of a URL, as it stands there and decoded; a user's name may be a token too."""
    user = parts.username or ""
    return [*([user] if len(user) >= SHORTEST else []), parts.password or ""]
