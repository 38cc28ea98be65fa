"""What a program writes and reads, carried without ever waiting for it."""

from __future__ import annotations

import os
import socket

from evals.sandbox.inside.link import Link

CHUNK = 1 << 16


class Output:
    """The worker's end of a standard output: keeps what lies within the bound, throws away the rest.

    Attributes:
        kept: what came, at most `cap` bytes.
        overflowed: whether more came.
    """

    def __init__(self, stream: int, cap: int) -> None:
        self.stream, self.cap = stream, cap
        self.kept = bytearray()
        self.overflowed = False
        self.open = True

    def read(self) -> bool:
        """Read once; whether there may be more at once."""
        try:
            chunk = os.read(self.stream, CHUNK)
        except BlockingIOError:
            return False
        room = self.cap - len(self.kept)
        self.kept += chunk[:room]
        self.overflowed = self.overflowed or len(chunk) > room
        self.open = bool(chunk)
        return self.open


class Input:
    """The worker's end of a pipe to the program's first process: feeds what there is as it reads, then closes it."""

    def __init__(self, stream: int, content: bytes) -> None:
        self.stream = stream
        self._left = memoryview(content)
        self.open = True
        self.write()

    def write(self) -> None:
        """Write what the program takes; close when there is no more or nobody reads."""
        try:
            while self._left:
                self._left = self._left[os.write(self.stream, self._left[:CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        """Close it once."""
        if self.open:
            os.close(self.stream)
        self.open = False


class Channel:
    """The worker's end of the channel: carries bytes between the program and the host.

    Attributes:
        sock: None where the program has no channel.
        readable: whether the program may still write.
        letters: bytes for the program that it has not taken.
        carried: bytes from the program.
        messages: complete ones from the program.
    """

    def __init__(self, sock: socket.socket | None, link: Link) -> None:
        self.sock, self.link = sock, link
        self.readable = sock is not None
        self.letters = bytearray()
        self.carried = 0
        self.messages = 0
        self._closing = False

    def read(self) -> bool:
        """Carry one chunk to the host; whether there may be more at once."""
        try:
            chunk = self.sock.recv(CHUNK) if self.sock else b""
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if chunk:
            self.link.send(b"m", chunk)
        elif self.readable:
            self.link.send(b"x")
        self.carried += len(chunk)
        self.messages += chunk.count(b"\n")
        self.readable = bool(chunk)
        return self.readable

    def write(self) -> None:
        """Hand the program what it takes; nothing is left for one that no longer listens."""
        try:
            while self.letters and self.sock:
                del self.letters[: self.sock.send(memoryview(self.letters)[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            self.letters.clear()
        if self._closing:
            self._shut()

    def close_writing(self) -> None:
        """Tell the program that no more comes, after what it has not taken yet."""
        self._closing = True
        self.write()

    def _shut(self) -> None:
        try:
            if self.sock:
                self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.letters.clear()
