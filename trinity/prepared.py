"""Tasks whose grading needs something of the machine: made ready, told of in the manifest, closed whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
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


def left_out(tasks: list[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for every task of a manifest (`tasks`) some of whose rows became no items."""
    for task in tasks:
        counts = (task.get("facts") or {}).get("left_out") or {}
        parts = [
            f"{number} of {split} ({reason})" for split, reasons in counts.items() for reason, number in reasons.items()
        ]
        if parts:
            yield shown(f"Task {task['name']}: rows that became no items: {', '.join(parts)}.")
