"""Programs that try to break out of a sandbox, to break it, or to lie to it, and what must have come of each.

Every program starts with `PREAMBLE`: `attempt` calls something that must fail and prints `BREACH` if it does not. A
program that comes to its end prints `tried`, so that one which fails before its attack is not taken for contained.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from evals.sandbox import seccomp
from evals.sandbox.base import MIB, Limits, Outcome

LIMITS = Limits(
    cpu_s=1.0,
    idle_s=1.0,
    wall_s=30.0,
    memory_bytes=192 * MIB,
    processes=16,
    file_bytes=2 * MIB,
    scratch_bytes=6 * MIB,
    scratch_files=100,
    open_files=64,
    output_bytes=MIB // 4,
)
SHORT = replace(LIMITS, cpu_s=0.3, idle_s=0.3)

PREAMBLE = """
import ctypes, os, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)

def attempt(name, f, *args):
    try:
        found = f(*args)
    except BaseException as error:
        print("refused", name, type(error).__name__, flush=True)
    else:
        print("BREACH", name, repr(found)[:200], flush=True)

def syscall(number, *args):
    if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args]) == -1:
        raise OSError(ctypes.get_errno(), "syscall")

"""

Holds = Callable[[Outcome], bool]


@dataclass(frozen=True)
class Hostile:
    """A program and what must have come of it.

    Attributes:
        source: without the preamble; `@NAME@` stands for what a test knows: @CANARY@ a secret of the host, @FILE@ a
            file that holds it, @HOME@ the user's home, @PORT@ a port that the host listens on, @PID@ its process.
        holds: whether it was contained.
        limits: its bounds.
    """

    source: str
    holds: Holds
    limits: Limits = LIMITS


def refused(outcome: Outcome) -> bool:
    """It tried everything and nothing succeeded."""
    return outcome.ok and b"tried" in outcome.stdout and b"BREACH" not in outcome.stdout


def ends(*names: str) -> Holds:
    """It met one of these bounds, or ended in one of these ways, and nothing succeeded."""
    return lambda outcome: outcome.end in names and b"BREACH" not in outcome.stdout


def exits(code: int, stdout: bytes) -> Holds:
    """It ended by itself with this code and this output, whatever it tried to feign."""
    return lambda outcome: (outcome.end, outcome.code, outcome.stdout) == ("exited", code, stdout)


def numbers() -> dict[str, int]:
    """Numbers of the system calls that this machine has and programs may not make."""
    column = list(seccomp.MACHINES).index(platform.machine())
    calls = {**seccomp.FORBIDDEN, **seccomp.ABSENT, "clone": seccomp.CLONE, "personality": seccomp.PERSONALITY}
    return {name: number for name, pair in calls.items() if (number := pair[column]) is not None}


def source(hostile: Hostile, known: Mapping[str, object]) -> str:
    """A program in full, what the test knows put in."""
    text = PREAMBLE + f"N = {numbers()!r}\n" + hostile.source
    for name, value in known.items():
        text = text.replace(f"@{name}@", str(value))
    return text
