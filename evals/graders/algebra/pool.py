"""Keeps processes that compare answers, ends those that hang, and tells whose fault it was."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

from trinity.errors import GraderError

CPU_S = 2.0
"""Seconds of CPU time for a comparison; most take a thousandth of it."""
WALL_S = 120.0
"""Seconds after which a process that neither answers nor uses up its CPU time is given up."""
_MAX_WORKERS = 4
_ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).parents[3]),
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LC_ALL": "C.UTF-8",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, and how that was found."""

    right: bool
    reason: str


class _EndedError(Exception):
    """The process ended; `by_answer` where what it was given did that."""

    def __init__(self, what: str, *, by_answer: bool) -> None:
        super().__init__(what)
        self.by_answer = by_answer


class _Worker:
    """One process and the pipe to it; used by one thread."""

    def __init__(self, cpu_s: float, wall_s: float) -> None:
        """Start it and wait until it has loaded what it needs."""
        self.wall_s = wall_s
        self.process = subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-s", "-P", "-m", "evals.graders.algebra.worker", str(cpu_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            start_new_session=True,
        )
        self.requests = cast("IO[bytes]", self.process.stdin)
        self.replies = cast("IO[bytes]", self.process.stdout)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.replies, selectors.EVENT_READ)
        try:
            self._line()
        except _EndedError as error:
            self.close()
            raise GraderError(f"the checker of mathematics does not start: {error}") from error

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request.

        Raises:
            _EndedError: the process ended over it.
        """
        try:
            self.requests.write(json.dumps(request).encode() + b"\n")
            self.requests.flush()
        except OSError as error:
            raise self._ended() from error
        reply: dict[str, Any] = json.loads(self._line())
        return reply

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            if not self.selector.select(self.wall_s):
                raise _EndedError(f"no answer in {self.wall_s:.0f} s", by_answer=False)
            piece = os.read(self.replies.fileno(), 65536)
            if not piece:
                raise self._ended()
            line += piece
        return line

    def _ended(self) -> _EndedError:
        code = self.process.wait()
        own = {-signal.SIGPROF: "time", -signal.SIGSEGV: "stack", -signal.SIGABRT: "memory", -signal.SIGBUS: "memory"}
        return _EndedError(own.get(code, f"exit code {code}"), by_answer=code in own)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.selector.close()
        for pipe in (self.requests, self.replies):
            with contextlib.suppress(OSError):
                pipe.close()


class Checkers:
    """Processes that compare answers, at most one a thread, started when they are needed.

    A comparison's clock starts when its process begins with it; waiting for one costs nothing. It may be used from
    any event loop and any thread.

    Args:
        workers: processes at most; None = one a processor, at most 4.
        cpu_s: seconds of CPU time for a comparison.
        wall_s: seconds after which a process that does not answer is given up.
    """

    def __init__(self, *, workers: int | None = None, cpu_s: float = CPU_S, wall_s: float = WALL_S) -> None:
        """Start nothing yet."""
        self.workers = workers or min(_MAX_WORKERS, os.cpu_count() or 1)
        self.cpu_s, self.wall_s = cpu_s, wall_s
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._threads: ThreadPoolExecutor | None = None
        self._sound: set[str] = set()

    async def check(self, gold: str, answer: str, *, positive: bool = False) -> Verdict:
        """Whether `answer` means the same as `gold`.

        Raises:
            GraderError: the process failed, or `gold` alone is too much for it.
        """
        with self._lock:
            self._threads = self._threads or ThreadPoolExecutor(self.workers, thread_name_prefix="mathematics")
            threads = self._threads
        return await asyncio.get_running_loop().run_in_executor(
            threads, lambda: self._check(gold, answer, positive=positive)
        )

    def _check(self, gold: str, answer: str, *, positive: bool) -> Verdict:
        request = {"gold": gold, "answer": answer, "positive": positive}
        what = self._ask(request)
        if isinstance(what, Verdict):
            return what
        if gold not in self._sound:
            alone = self._ask({**request, "answer": gold})
            if not isinstance(alone, Verdict):
                raise GraderError(f"the reference answer {gold[:80]!r} can not be compared with itself: {alone}")
            self._sound.add(gold)
        return Verdict(right=False, reason=f"could not be read in time ({what})")

    def _ask(self, request: dict[str, Any], *, again: bool = True) -> Verdict | str:
        """The verdict, or what ran out over the request."""
        try:
            with self._worker() as worker:
                reply = worker.ask(request)
        except _EndedError as error:
            if error.by_answer:
                return str(error)
            if again:
                # Somebody else may have killed it.
                return self._ask(request, again=False)
            raise GraderError(f"the checker of mathematics failed: {error}") from error
        if "failed" in reply:
            raise GraderError(f"the checker of mathematics failed on {request['gold'][:80]!r}: {reply['failed']}")
        return str(reply["blown"]) if "blown" in reply else Verdict(reply["right"], reply["reason"])

    @contextlib.contextmanager
    def _worker(self) -> Iterator[_Worker]:
        """A process for one request; one that failed over it is not used again."""
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        worker = worker or _Worker(self.cpu_s, self.wall_s)
        try:
            yield worker
        except BaseException:
            worker.close()
            raise
        with self._lock:
            self._idle.append(worker)

    def close(self) -> None:
        """End every process; it can be used again afterwards."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=True)
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()


@cache
def checkers() -> Checkers:
    """The processes that all tasks of this process share; they end with it."""
    shared = Checkers()
    atexit.register(shared.close)
    return shared
