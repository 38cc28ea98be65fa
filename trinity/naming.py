"""What to say about a name that does not exist: the nearest one that does."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from trinity.errors import ConfigError

_SHOWN_CHOICES = 16
_LIKE = 0.4


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """The end of an error line about `word`: the nearest of `choices`, else what there is to choose from.

    Of dotted keys the last part weighs most, so that a right name at the wrong level is found.
    """
    names = sorted(set(choices))
    if not names:
        return "there is none to choose from"
    near = max(names, key=lambda name: _likeness(word, name))
    if _likeness(word, near) >= _LIKE:
        return f"did you mean '{near}'?"
    rest = f" and {len(names) - _SHOWN_CHOICES} more" if len(names) > _SHOWN_CHOICES else ""
    return f"choose from: {', '.join(names[:_SHOWN_CHOICES])}{rest}"


def _likeness(word: str, name: str) -> float:
    """0 (nothing in common) to 1 (equal)."""
    last = difflib.SequenceMatcher(None, word.rpartition(".")[2], name.rpartition(".")[2]).ratio()
    return (2 * last + difflib.SequenceMatcher(None, word, name).ratio()) / 3


def check_keys(place: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse keys of the configuration below `place` that are not `known`.

    Raises:
        ConfigError: one is not; names it and the nearest one.
    """
    for key in given:
        if key not in known:
            raise ConfigError(f"there is no key '{place}.{key}'; {did_you_mean(str(key), known)}")


def check_choice(key: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a value of the configuration that is none of `choices`.

    Raises:
        ConfigError: it is none of them; names the key and all of them.
    """
    names = tuple(choices)
    if value not in names:
        raise ConfigError(f"{key}: there is no {value!r}; choose from: {', '.join(names)}")
