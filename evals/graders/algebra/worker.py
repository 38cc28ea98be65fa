"""Compares answers in a process of its own, one request a line, within bounds that the kernel keeps.

The clock of a request is the process's CPU time, so that a busy machine changes no verdict; where it runs out the
kernel ends the process, whatever it is in. Nothing it does writes a file, opens a socket, starts a process or turns
text into code: an audit hook refuses it once the libraries are loaded.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from typing import Any

from evals.graders.algebra.equal import equal
from evals.graders.algebra.lexer import UnreadableError
from evals.graders.algebra.reading import read
from evals.graders.algebra.second import RefusedError, agree, load

_MEMORY = 2 * 2**30
_REFUSED = ("compile", "open", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "pickle.", "urllib.")
_GENERATED = ("def monomial_", "def __create_fn__", "lambda _cls")
"""What the source begins with that sympy makes for a number of generators, and the library for a class."""
_RECURSION = 3000


class _Seal:
    """Refuses what an arithmetic process has no need of, while it is closed; `broken` says that something tried."""

    def __init__(self) -> None:
        self.closed = False
        self.broken = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.closed and event.startswith(_REFUSED) and not _harmless(event, arguments):
            self.broken = True
            raise PermissionError(f"a checker of answers does not use {event}")


def _harmless(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether it is what a library does when it loads a module late, or makes code that no answer has a part in."""
    if event == "compile":
        source = arguments[0].decode(errors="replace") if isinstance(arguments[0], bytes) else str(arguments[0])
        return not str(arguments[1]).startswith("<") or source.startswith(_GENERATED)
    if event == "open":
        return arguments[1] in {"r", "rb", None}
    return event in {"os.listdir", "os.scandir"}


def main(cpu_s: float) -> None:
    """Answer requests from stdin until it ends.

    Args:
        cpu_s: seconds of CPU time for a request; 0 = no bound.
    """
    seal = _Seal()
    sys.addaudithook(seal)
    _bound()
    # What is loaded at the first use is loaded here, on nobody's clock.
    _compare({"gold": r"\sqrt{2}x+\frac{1}{3}", "answer": r"x\sqrt{2}+\frac{2}{6}", "positive": False}, 0, seal)
    seal.closed = True
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_compare(json.loads(line), cpu_s, seal)) + "\n")
        sys.stdout.flush()


def _bound() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    sys.setrecursionlimit(_RECURSION)
    # The kernel's own way with the signal: the process ends, whatever code it is in.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _compare(request: dict[str, Any], cpu_s: float, seal: _Seal) -> dict[str, Any]:
    """The verdict on a request: `right` true or false, or `blown` with what did not fit."""
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    seal.broken = False
    try:
        found = _verdict(request["gold"], request["answer"], cpu_s, seal, positive=request["positive"])
    except (RecursionError, MemoryError, RefusedError) as error:
        return {"blown": type(error).__name__}
    except Exception as error:  # noqa: BLE001 - a fault of ours is told, and is no verdict
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    else:
        return {"blown": "text that would be run"} if seal.broken else found
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _verdict(gold: str, answer: str, cpu_s: float, seal: _Seal, *, positive: bool) -> dict[str, Any]:
    try:
        found = equal(read(gold), read(answer), positive=positive)
    except UnreadableError as error:
        if not error.foreign:
            return {"right": False, "reason": f"not readable: {error}"}
        found = None
    if found is not None:
        return {"right": found, "reason": "compared"}
    # The libraries are loaded on nobody's clock.
    signal.setitimer(signal.ITIMER_PROF, 0)
    seal.closed, closed = False, seal.closed
    load()
    seal.closed = closed
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    second = agree(gold, answer)
    return {"right": second is True, "reason": "not readable" if second is None else "compared by math-verify"}


if __name__ == "__main__":
    main(float(sys.argv[1]))
