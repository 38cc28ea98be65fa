"""Reading back what W&B wrote into a run's folder: its `.wandb` files are LevelDB logs of protobuf messages."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

BLOCK, FILE_HEADER, RECORD_HEADER = 1 << 15, 7, 7
WHOLE, FIRST, LAST = 1, 2, 4
"""Kinds of a piece of a record; 3 stands in the middle."""


@dataclass
class Segment:
    """One file: a run of W&B, or what one process added to it."""

    folder: Path
    run_id: str = ""
    group: str = ""
    name: str = ""
    project: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, dict[str, Path]] = field(default_factory=dict)
    """By type: path within the artifact, and the file that will be sent."""
    exit_code: int | None = None

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of the table that was logged under `name`."""
        entry = next(row[name] for row in self.history if name in row)
        content = json.loads((self.folder / "files" / entry["path"]).read_bytes())
        return [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]

    def file(self, name: str) -> bytes:
        """The content of a picture or page that was logged under `name`."""
        entry = next(row[name] for row in self.history if name in row)
        return Path(self.folder / "files" / entry["path"]).read_bytes()


def segments(run: Path) -> list[Segment]:
    """What W&B keeps in a run's folder, in the order in which it was begun."""
    return [segment(path) for path in sorted(run.glob("wandb/*run-*/run-*.wandb"), key=lambda path: path.parent.name)]


def segment(path: Path) -> Segment:
    """The content of one `.wandb` file."""
    from wandb.proto import wandb_internal_pb2

    messages: Any = wandb_internal_pb2  # which it makes while it is imported
    found = Segment(path.parent)
    for content in records(path.read_bytes()):
        record = messages.Record()
        record.ParseFromString(content)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = record.run
            found.run_id, found.group, found.name = run.run_id, run.run_group, run.display_name
            found.project = run.project
            found.config = {entry.key: json.loads(entry.value_json) for entry in run.config.update}
        elif kind == "history":
            found.history.append(values(record.history.item))
        elif kind == "summary":
            found.summary |= values(record.summary.update)
        elif kind == "artifact":
            contents = record.artifact.manifest.contents
            found.artifacts[record.artifact.type] = {entry.path: Path(entry.local_path) for entry in contents}
        elif kind == "exit":
            found.exit_code = record.exit.exit_code
    return found


def values(items: Any) -> dict[str, Any]:
    """Keys and values of history or summary; a nested key is an object's."""
    found: dict[str, Any] = {}
    for item in items:
        first, *rest = item.nested_key or [item.key]
        value = json.loads(item.value_json)
        if rest:
            assert len(rest) == 1
            found.setdefault(first, {})[rest[0]] = value
        else:
            found[first] = value
    return found


def records(data: bytes) -> Iterator[bytes]:
    """The records of a log, put together from their pieces, each checked; a torn end is where it ends."""
    assert data[:4] == b":W&B"
    place, parts = FILE_HEADER, b""
    while place + RECORD_HEADER <= len(data):
        left = BLOCK - place % BLOCK
        if left < RECORD_HEADER:
            place += left
            continue
        checksum, length, kind = struct.unpack_from("<IHB", data, place)
        piece = data[place + RECORD_HEADER - 1 : place + RECORD_HEADER + length]
        if len(piece) < length + 1:
            return
        assert checksum == crc32(piece), "a record is damaged"
        parts = piece[1:] if kind in (WHOLE, FIRST) else parts + piece[1:]
        place += RECORD_HEADER + length
        if kind in (WHOLE, LAST):
            yield parts
