"""Tasks whose grading needs something of the machine: made ready, told of in the manifest, closed whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from trinity.canonical import canonical_json
from trinity.errors import ConfigError
from trinity.grading import shown
from trinity.types import Prepared, Task


@asynccontextmanager
async def prepared(tasks: Mapping[str, Task]) -> AsyncIterator[None]:
    """Within, answers to all tasks can be graded.

    Raises:
        ConfigError: those to some task cannot be here; what was made ready is closed.
    """
    async with AsyncExitStack() as stack:
        for task in tasks.values():
            if isinstance(task, Prepared):
                stack.push_async_callback(task.close)
                await task.ready()
        yield


def facts_of(task: Task) -> dict[str, Any] | None:
    """What a task tells the manifest; None where it tells nothing.

    Raises:
        ConfigError: what it tells is no JSON.
    """
    if not isinstance(task, Prepared):
        return None
    facts = dict(task.facts())
    try:
        canonical_json(facts)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"task {task.name}: what its facts() gives is no JSON ({error})") from error
    return facts


def left_out(tasks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for every task of a manifest (`tasks`) some of whose rows became no items."""
    for task in tasks:
        facts = task.get("facts") or {}
        counts, where = facts.get("left_out") or {}, facts.get("left_out_rows") or {}
        parts = []
        for split, reasons in counts.items():
            for reason, number in reasons.items():
                place = where.get(split, {}).get(reason)
                parts.append(f"{number} of {split} ({reason}{f': {place}' if place else ''})")
        if parts:
            yield shown(f"Task {task['name']}: rows that became no items: {', '.join(parts)}.")


def left_out_of(tasks: Mapping[str, Task]) -> Iterator[str]:
    """As `left_out`, of tasks that have loaded their items and are not ready to grade."""
    names = ("left_out", "left_out_rows")
    told = ({"name": name, "facts": {key: getattr(task, key, {}) for key in names}} for name, task in tasks.items())
    return left_out(told)
