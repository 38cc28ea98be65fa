"""What of a run may leave its folder: the texts of tasks whose licence allows it, and no answers recorded elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trinity.canonical import digest
from trinity.types import Record

PROMPTS = ("style", "profile")
"""Settings of an agent that may hold worked examples, which are items."""


def open_tasks(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Tasks whose questions and answers may be shown outside the run's folder.

    One that the manifest does not name is none of them, and neither is any task of a pool whose answers were recorded
    elsewhere: those are other people's.
    """
    if manifest.get("pool_kind") == "recorded":
        return frozenset()
    return frozenset(str(task.get("name")) for task in manifest.get("tasks") or () if task.get("redistribute") == "yes")


def shareable_records(records: Iterator[Record], manifest: Mapping[str, Any]) -> Iterator[Record]:
    """Records without the answers that must stay."""
    tasks = open_tasks(manifest)
    for record in records:
        yield record if record.task in tasks else replace(record, answer=None)


def shareable_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest whose agents' prompts are hashes, where a task of the run is restricted."""
    return _hashed(manifest) if manifest.get("private") else dict(manifest)


def _hashed(value: Any) -> Any:
    """`value` with a hash in the place of every text below a key of `PROMPTS`."""
    if isinstance(value, Mapping):
        return {
            key: f"sha256:{digest(entry)}" if key in PROMPTS and isinstance(entry, str) and entry else _hashed(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list | tuple):
        return [_hashed(entry) for entry in value]
    return value
