"""How a worker is started: what every kind of sandbox says about its workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.sandbox import seccomp

PROJECT = Path(__file__).resolve().parents[2]
INSIDE = "evals/sandbox/inside"
SCRIPT = f"{INSIDE}/supervisor.py"

THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS"),
)
ENVIRONMENT: Mapping[str, str] = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC0",
    **dict.fromkeys(THREADS, "1"),
    "MALLOC_ARENA_MAX": "2",  # an arena reserves 64 MiB of the address space that a program may use
    "MPLBACKEND": "Agg",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "LOGNAME": "program",
    "USER": "program",
}
"""All that a program's environment holds, besides the names of its folders."""


class Launcher(ABC):
    """One kind of sandbox.

    Attributes:
        kind: its name.
        once: whether a worker serves one program only.
    """

    kind: str
    once = False

    @abstractmethod
    def command(self, name: str) -> Sequence[str]:
        """Command that starts a worker; `name` is unique.

        Raises:
            ConfigError: a program that it needs is missing.
        """

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What the next worker is told of itself: `isolated`, `uid`, `filters`, `paths`."""

    def environment(self) -> dict[str, str] | None:
        """Environment that the command is started with; None is that of this process."""
        return None

    def check(self) -> None:
        """See, before a worker is started, whether one can be.

        Raises:
            ConfigError: none can.
        """
        self.command("check")

    def refusal(self, reason: str) -> str:
        """One line for whoever has no working sandbox: why, and what to do."""
        other = "docker" if self.kind == "bubblewrap" else "bubblewrap"
        return (
            f"sandbox={self.kind}: generated code cannot be isolated here: {reason}; other ways: sandbox={other}, or, "
            "on a machine that may be lost, sandbox=none sandbox.i_know_that_generated_code_can_do_anything=true"
        )

    def facts(self) -> dict[str, object]:
        """What a manifest says of it."""
        return {"kind": self.kind}

    def release(self, name: str) -> None:  # noqa: B027 - most leave nothing behind
        """Clear away what the command's end leaves behind."""


def filters() -> dict[str, str]:
    """The filter of system calls of every kind of processor, as hexadecimal digits."""
    return {machine: seccomp.program(machine).hex() for machine in seccomp.MACHINES}
