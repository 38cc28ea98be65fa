"""Who is about to buy which answer, known to all processes that share a store."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trinity.runs.sqlite import Database, Row

if TYPE_CHECKING:
    import psutil

LEASE_STATEMENTS = (
    """CREATE TABLE leases (
        request_hash BLOB PRIMARY KEY NOT NULL, owner TEXT NOT NULL, expires REAL NOT NULL) WITHOUT ROWID""",
)
"""For the `Schema` of a file that holds a `LeaseTable`."""

LEASE_S = 60.0
"""A lease lives so long after it was last renewed."""

RENEW_S = 15.0
LOOK_AGAIN_S = 0.5
"""Seconds for which a process that was alive is taken to be so."""

CLOCK_SLACK_S = 2.0
"""The system tells when it was started in whole seconds, and may tell another one the next moment."""


class LeaseTable:
    """The table of `LEASE_STATEMENTS` as one owner sees it. The holder of a lease alone may ask for that answer."""

    def __init__(self, database: Database, owner: str, *, clock: Callable[[], float] = time.time) -> None:
        """`owner` is a name from `new_owner`; `clock` gives the seconds that all processes agree on."""
        self._database = database
        self._owner, self._clock = owner, clock
        self._seen: dict[str, float] = {}

    def take(self, request_hash: str) -> bool:
        """Hold the lease of a request, unless another living owner holds it; True when it is ours now."""
        if self.is_held(request_hash):
            return False
        values = (bytes.fromhex(request_hash), self._owner, self._clock() + LEASE_S)
        self._database.execute("INSERT OR REPLACE INTO leases VALUES (?,?,?)", values)
        return True

    def is_held(self, request_hash: str) -> bool:
        """Whether another living owner holds the lease of a request; its own owner knows what it holds."""
        sql = "SELECT owner, expires FROM leases WHERE request_hash = ?"
        found: Row | None = self._database.one(sql, (bytes.fromhex(request_hash),))
        return found is not None and found[1] > self._clock() and found[0] != self._owner and self._lives(found[0])

    def end(self, request_hash: str) -> None:
        """Give up our lease of a request, if we hold it."""
        sql = "DELETE FROM leases WHERE request_hash = ? AND owner = ?"
        self._database.execute(sql, (bytes.fromhex(request_hash), self._owner))

    def renew(self) -> None:
        """Put off the end of all leases of ours and sweep out those that have ended."""
        now = self._clock()
        self._database.execute("UPDATE leases SET expires = ? WHERE owner = ?", (now + LEASE_S, self._owner))
        self._database.execute("DELETE FROM leases WHERE expires < ?", (now,))

    def end_all(self) -> None:
        """Give up all leases of ours."""
        self._database.execute("DELETE FROM leases WHERE owner = ?", (self._owner,))

    def _lives(self, owner: str) -> bool:
        """Whether an owner's process may still run; it is looked at twice a second at most."""
        now = time.monotonic()
        if now - self._seen.get(owner, -LOOK_AGAIN_S) < LOOK_AGAIN_S:
            return True
        if not may_live(owner):
            return False
        self._seen[owner] = now
        return True


def new_owner() -> str:
    """A name for this process that no other owner ever has; others can tell from it whether the process is gone."""
    import psutil

    return json.dumps([_place(), os.getpid(), _started(psutil.Process()), secrets.token_hex(8)])


def may_live(owner: str) -> bool:
    """False when the owner ran on this machine and its process is gone."""
    import psutil

    try:
        place, pid, started, _ = json.loads(owner)
        if place != _place():
            return True
        process = psutil.Process(pid)
        same = abs(_started(process) - started) < CLOCK_SLACK_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except (ValueError, TypeError, psutil.Error):
        return True  # not to be told; it ends by itself


def _started(process: psutil.Process) -> float:
    """Seconds from the machine's start to the process's: a time of day would move when the clock is set."""
    import psutil

    return process.create_time() - psutil.boot_time()


def _place() -> str:
    """The machine and, where there are such, the container: process numbers mean the same within."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{socket.gethostname()} {namespace}".strip()
