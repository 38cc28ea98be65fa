"""From settings to a sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evals.sandbox.base import Sandbox
from evals.sandbox.bubblewrap import Bubblewrap
from evals.sandbox.docker import IMAGE, Docker
from evals.sandbox.launch import Launcher
from evals.sandbox.plain import Plain
from evals.sandbox.pool import Pool
from trinity.canonical import canonical_json
from trinity.errors import ConfigError

RISK = "i_know_that_generated_code_can_do_anything"
KEYS: Mapping[str, tuple[str, ...]] = {
    "bubblewrap": ("kind", "workers", "python", "readonly"),
    "docker": ("kind", "workers", "python", "image"),
    "none": ("kind", "workers", "python", RISK),
}
MAKERS: Mapping[str, Callable[[Mapping[str, Any]], Launcher]] = {
    "bubblewrap": lambda found: Bubblewrap(found.get("python"), found.get("readonly") or ()),
    "docker": lambda found: Docker(found.get("image") or IMAGE, found.get("python") or "python3"),
    "none": lambda found: Plain(found.get("python")),
}

_built: dict[str, Sandbox] = {}


def sandbox(settings: Mapping[str, Any]) -> Sandbox:
    """The sandbox that settings describe; the same one for equal settings in one process.

    Raises:
        ConfigError: an unknown kind or setting, or the kind `none` without the word that its risk is known.
    """
    plain = {key: plainly(value) for key, value in settings.items() if value is not None and value != []}
    check(plain)
    key = canonical_json(plain)
    if key not in _built:
        workers = plain.get("workers") or len(os.sched_getaffinity(0))
        _built[key] = Pool(MAKERS[plain["kind"]](plain), workers)
    return _built[key]


def plainly(value: Any) -> Any:
    """A setting as JSON knows it."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def check(settings: Mapping[str, Any]) -> None:
    """Refuse settings that no sandbox has, or that take a risk without naming it.

    Raises:
        ConfigError: says which key and what it may be.
    """
    kind = str(settings.get("kind"))
    if kind not in KEYS:
        raise ConfigError(f"sandbox.kind: there is no {kind!r}; choose from: {', '.join(KEYS)}")
    unknown = sorted(set(settings) - set(KEYS[kind]))
    if unknown:
        raise ConfigError(f"sandbox.{unknown[0]}: {kind} has no such setting; choose from: {', '.join(KEYS[kind])}")
    workers = settings.get("workers")
    if workers is not None and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise ConfigError(f"sandbox.workers: {workers!r} is no number of programs at once; give 1 or more, or null")
    if kind == "none" and settings.get(RISK) is not True:
        raise ConfigError(
            "sandbox=none isolates nothing: generated code can read, change and send whatever you can; "
            f"take sandbox=bubblewrap or sandbox=docker, or say sandbox.{RISK}=true"
        )
