"""What the processes of a program use, read from /proc: processor time, memory, and whether any of them is at work."""

# A worker starts without pathlib, which takes as long to import as all that is here.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import os
import resource

PAGE = resource.getpagesize()
TICKS = os.sysconf("SC_CLK_TCK")
KIB = 1024

FREE_SOCKETS = 64
SOCKET_BYTES = 416 * KIB
"""What a socket holds in both directions at the kernel's default of 208 KiB each."""

WORKING = b"RD"
"""States of a thread that runs, would run if it were let, or waits for the kernel's own work."""


class Usage:
    """What was found at one moment: seconds of processor time, bytes of memory, whether a thread is at work."""

    def __init__(self, cpu: float, memory: int, *, working: bool) -> None:
        self.cpu = cpu
        self.memory = memory
        self.working = working


class Watch:
    """Follows the processes of one program.

    Args:
        template: number of the process that all of them were forked from, whose memory they share at first.
    """

    def __init__(self, template: int) -> None:
        self._template = template
        self._baseline = anonymous(template)
        self._lost = 0
        self._last = 0

    def usage(self) -> Usage:
        """Look at every process once; the time of children that vanished unreaped stays counted."""
        found = processes(self._template)
        ticks, working = self._ticks(found)
        if ticks < self._last:
            # A child may have been reaped between two reads; only what is missing twice is gone.
            ticks, working = self._ticks(found)
        self._lost += max(0, self._last - ticks)
        self._last = ticks
        memory = sum(max(0, anonymous(pid) - self._baseline) for pid in found) + sockets(found)
        return Usage((ticks + self._lost) / TICKS, memory, working=working)

    def _ticks(self, found: list[int]) -> tuple[int, bool]:
        """Clock ticks of the processes and the children they have reaped; whether a thread is at work."""
        total, working = 0, False
        for pid in found:
            fields = stat(f"/proc/{pid}/stat")
            if not fields:
                continue
            total += sum(map(int, fields[11:15]))
            working = working or fields[0] in WORKING or (fields[17] != b"1" and any_thread_works(pid))
        return total, working

    @property
    def lost(self) -> float:
        """Seconds of processor time of children that vanished unreaped."""
        return self._lost / TICKS

    def exact_memory(self) -> int:
        """Bytes of anonymous memory, pages that processes share counted once, page tables, and full sockets."""
        found = processes(self._template)
        return sum(proportional(pid) for pid in found) + sockets(found)


def processes(template: int) -> list[int]:
    """Numbers of a program's processes, oldest first.

    In a namespace of the worker's own they are all but the worker and its template; else the worker's descendants.
    """
    if os.getpid() != 1:
        return sorted(descendants(os.getpid()) - {template})
    return sorted({int(name) for name in os.listdir("/proc") if name.isdigit()} - {1, template})


def descendants(pid: int) -> set[int]:
    """Numbers of the processes that a process has started, and those that they have."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        children = children_of(waiting.pop()) - found
        found |= children
        waiting += children
    return found


def children_of(pid: int) -> set[int]:
    """Numbers of the children of all threads of a process."""
    found: set[int] = set()
    for thread in threads(pid):
        found |= {int(child) for child in read(f"/proc/{pid}/task/{thread}/children").split()}
    return found


def threads(pid: int) -> list[str]:
    """Numbers of the threads of a process; empty where it has ended."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def any_thread_works(pid: int) -> bool:
    """Whether one of the threads of a process is at work."""
    return any(stat(f"/proc/{pid}/task/{thread}/stat")[:1] in ([b"R"], [b"D"]) for thread in threads(pid))


def stat(path: str) -> list[bytes]:
    """Fields from the state on; empty where there is no such process."""
    return read(path).rpartition(b")")[2].split()


def anonymous(pid: int) -> int:
    """Bytes of anonymous memory, in core or swapped out, and of page tables; 0 where the process has ended."""
    return sum_of(read(f"/proc/{pid}/status"), (b"RssAnon:", b"VmSwap:", b"VmPTE:"))


def proportional(pid: int) -> int:
    """As `anonymous`, a page that n processes share counted 1/n."""
    text = read(f"/proc/{pid}/smaps_rollup")
    tables = sum_of(read(f"/proc/{pid}/status"), (b"VmPTE:",))
    return sum_of(text, (b"Pss_Anon:", b"SwapPss:")) + tables if text else anonymous(pid)


def sockets(found: list[int]) -> int:
    """Bytes that the sockets of a program's network hold at most, beyond a few that every program may have."""
    text = next((text for pid in found if (text := read(f"/proc/{pid}/net/sockstat"))), b"")
    used = int((text.split(b"\n", 1)[0].split() or [b"0"])[-1])
    return max(0, used - FREE_SOCKETS) * SOCKET_BYTES


def sum_of(text: bytes, keys: tuple[bytes, ...]) -> int:
    """Bytes that the lines of these keys name in KiB."""
    return sum(int(line.split()[1]) * KIB for line in text.splitlines() if line.startswith(keys))


def read(path: str) -> bytes:
    """Content of a file of /proc; empty where there is none."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
