"""Frames between the host and the worker: a letter, a length, and that many bytes."""

from __future__ import annotations

import json
import os
import select
import struct
from typing import Any

HEAD = struct.Struct(">cI")
CHUNK = 1 << 18


class Frames:
    """Bytes as they come, cut into frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, chunk: bytes) -> None:
        """Take in what came."""
        self._bytes += chunk

    def take(self) -> tuple[bytes, bytes] | None:
        """The next complete frame, if there is one."""
        if len(self._bytes) < HEAD.size:
            return None
        kind, length = HEAD.unpack_from(self._bytes)
        end = HEAD.size + length
        if len(self._bytes) < end:
            return None
        body = bytes(memoryview(self._bytes)[HEAD.size : end])
        del self._bytes[:end]
        return kind, body


class Link:
    """Both directions of the connection to the host; nothing here blocks but `wait` and `drain`.

    Attributes:
        source, sink: descriptors, two numbers of one socket or two pipes.
        closed: whether the host has gone.
        outgoing: bytes that could not be written yet.
    """

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = source, sink
        self.closed = False
        self.outgoing = bytearray()
        self._incoming = Frames()
        for stream in (source, sink):
            os.set_blocking(stream, False)

    def fill(self) -> None:
        """Read what has come."""
        try:
            chunk = os.read(self.source, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self.closed = not chunk
        self._incoming.add(chunk)

    def take(self) -> tuple[bytes, bytes] | None:
        """The next complete frame, if there is one."""
        return self._incoming.take()

    def wait(self) -> tuple[bytes, bytes] | None:
        """The next frame; None when the host has gone."""
        while (frame := self.take()) is None and not self.closed:
            select.select([self.source], [], [])
            self.fill()
        return frame

    def send(self, kind: bytes, *parts: bytes) -> None:
        """Send a frame as far as the host takes it; the rest is kept."""
        self.outgoing += HEAD.pack(kind, sum(map(len, parts)))
        for part in parts:
            self.outgoing += part
        self.flush()

    def flush(self) -> None:
        """Write what the host takes."""
        while self.outgoing and not self.closed:
            try:
                del self.outgoing[: os.write(self.sink, memoryview(self.outgoing)[:CHUNK])]
            except BlockingIOError:
                return
            except OSError:
                self.closed = True

    def drain(self) -> None:
        """Wait until the host has taken everything or has gone."""
        while self.outgoing and not self.closed:
            select.select([], [self.sink], [])
            self.flush()

    def close(self) -> None:
        """Let go of the connection."""
        os.close(self.source)
        os.close(self.sink)


def unpack(body: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """What `pack` made: an object, and the blobs whose lengths it holds."""
    (length,) = struct.unpack_from(">I", body)
    start = 4 + length
    header = json.loads(body[4:start])
    blobs = []
    for size in header["sizes"]:
        blobs.append(body[start : start + size])
        start += size
    return header, blobs


def pack(header: dict[str, Any], blobs: list[bytes]) -> bytes:
    """An object and blobs as one body."""
    text = json.dumps({**header, "sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join([struct.pack(">I", len(text)), text, *blobs])
