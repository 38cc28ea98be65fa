"""What transports share: keys from the environment, time limits, lines for a person, texts that a file can hold."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from typing import Any

from trinity.errors import ConfigError, EndpointError
from trinity.llm.transports.redaction import Redactor

CONNECT_S, READ_S, TOTAL_S = 10.0, 600.0, 600.0
"""Time limits of an attempt, where the config names none."""

_DETAIL_CHARS = 300
_VARIABLE = re.compile("[A-Z_][A-Z0-9_]*")


def check_variable(setting: str, variable: str) -> None:
    """Refuse what cannot be the name of an environment variable, without showing it.

    Raises:
        ConfigError: it is none; names `setting`.
    """
    if not _VARIABLE.fullmatch(variable):
        told = "must be the name of an environment variable, in capitals, that holds the key"
        raise ConfigError(f"{setting} {told} (what stands there is not shown, for it may be the key)")


def read_key(endpoint: str, variable: str) -> str:
    """The key that an environment variable holds.

    Raises:
        EndpointError: there is none, or no header can hold it; names `endpoint` and the variable.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise EndpointError(
            f"{endpoint}: no API key; set the environment variable {variable} "
            "(api_key_env: null where the endpoint wants none)"
        )
    if not (key.isascii() and key.isprintable()):
        raise EndpointError(f"{endpoint}: the key in {variable} holds characters that no header may hold")
    return key


def seconds(setting: str, value: Any) -> float:
    """A time limit.

    Raises:
        ConfigError: it is none; names `setting`.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ConfigError(f"{setting} is {value!r}; it must be a number of seconds above 0")
    return value


def limits(connect_s: Any, read_s: Any, total_s: Any) -> dict[str, float]:
    """The time limits `connect_s`, `read_s` and `total_s` of an attempt; raises as `seconds`."""
    given = {"connect": connect_s, "read": read_s, "total": total_s}
    return {f"{name}_s": seconds(f"{name}_timeout_s", value) for name, value in given.items()}


def what_to_set(status: int, url: str, not_found: str, variables: Sequence[str]) -> str:
    """What a person can do about a fatal status; `url` is the setting of the address, `variables` hold the keys."""
    match status:
        case 404:
            return not_found
        case 402:
            return "top up the account, or choose another endpoint"
        case 401 | 403 if not variables:
            return "set api_key_env to the environment variable that holds the key"
        case 401 | 403:
            return f"check the key in the environment variable {' or '.join(variables)}"
        case _:
            return f"it is a redirect; set {url} to where it leads"


def detail(text: str, redact: Redactor) -> str:
    """Foreign text for an error line, cut after it was redacted, lest half a key is left."""
    return " ".join(redact.line(text).split())[:_DETAIL_CHARS]


def storable(text: str) -> str:
    """`text` without lone surrogates, which no file can hold; they become U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
