"""Options of tasks, refused where they make no sense: from YAML anything may come, whatever an annotation says."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from trinity.errors import ConfigError


def one_of(task: str, option: str, value: object, allowed: Collection[str]) -> str:
    """The value of a task's option.

    Raises:
        ConfigError: it is none of those allowed.
    """
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"tasks.{task}.{option} is {value!r:.100}; give one of {', '.join(allowed)}")
    return value


def check_number(place: str, value: Any, *, whole: bool, zero: bool = False) -> None:
    """Refuse a setting that is no number above 0, or of at least 0 where `zero` is allowed.

    Raises:
        ConfigError: names the setting.
    """
    kinds: Any = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not (value > 0 or (zero and value == 0)):
        least = "of at least 0" if zero else "above 0"
        raise ConfigError(f"{place} is {value!r}; give a {'whole ' * whole}number {least}")
