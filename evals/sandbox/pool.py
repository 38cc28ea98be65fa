"""A sandbox of any kind: workers kept warm, each run handed to one of them, failed ones replaced."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import weakref
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar

from evals.sandbox.base import Limits, Outcome, Program, Session
from evals.sandbox.calibration import REFERENCE_S, loop_time
from evals.sandbox.launch import Launcher
from evals.sandbox.session import Conversation, scaled
from evals.sandbox.slots import Slots
from evals.sandbox.worker import Worker, WorkerError
from trinity.errors import ConfigError, GraderError

ATTEMPTS = 2

_everywhere: weakref.WeakSet[Pool] = weakref.WeakSet()
_inside: ContextVar[frozenset[int]] = ContextVar("_inside", default=frozenset())


class Pool:
    """Implements `Sandbox` for one kind of worker.

    A program that is started within the context of a session of the same sandbox takes no slot of its own: two that
    talk to each other could otherwise wait for each other's for ever.

    Args:
        launcher: how workers are started.
        workers: programs that run at once.
    """

    def __init__(self, launcher: Launcher, workers: int) -> None:
        self.kind = launcher.kind
        self._launcher, self._workers = launcher, workers
        self._scale: float | None = None
        self._python: str | None = None
        self._forget()
        _everywhere.add(self)

    def _forget(self) -> None:
        """Start without workers: at first, and in a fork, where they are the parent's."""
        self._idle: list[Worker] = []
        self._slots = Slots(self._workers)
        # The kernel ends workers with the thread that has started them: this one lasts as long as the process.
        self._starter = ThreadPoolExecutor(1, "sandbox-starter")

    async def ready(self) -> None:
        """Start a worker and measure the machine, once.

        Raises:
            ConfigError: nothing can isolate here.
        """
        if self._scale is not None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._starter, self._check)
            worker = await self._start(())
            self._python = worker.python
            self._put(worker)
            measured = await loop_time(self)
        except (WorkerError, GraderError) as error:
            raise ConfigError(self._launcher.refusal(str(error))) from error
        self._scale = max(1.0, measured / REFERENCE_S)

    def _check(self) -> None:
        """See whether a worker can be started here at all."""
        if sys.platform != "linux":
            raise ConfigError(f"generated code is run on Linux only, not on {sys.platform}")
        self._launcher.check()

    def facts(self) -> Mapping[str, object]:
        """Kind, version, Python, scale of CPU time, programs at once."""
        return {**self._launcher.facts(), "python": self._python, "cpu_scale": self._scale, "workers": self._workers}

    async def run(self, program: Program, limits: Limits) -> Outcome:
        """Run a program to its end; once more where the worker, not the program, failed."""
        reason = ""
        async with self._slot():
            for _ in range(ATTEMPTS):
                try:
                    async with self._conversation(program, limits, channel=False) as conversation:
                        return await conversation.outcome()
                except WorkerError as error:
                    reason = str(error)
        raise GraderError(f"the sandbox failed: {reason}")

    @asynccontextmanager
    async def session(self, program: Program, limits: Limits) -> AsyncIterator[Session]:
        """A program with a channel."""
        try:
            async with self._slot(), self._conversation(program, limits, channel=True) as conversation:
                yield conversation
        except WorkerError as error:
            raise GraderError(f"the sandbox failed: {error}") from error

    async def close(self) -> None:
        """End every worker."""
        while self._idle:
            self._idle.pop().close()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """One of the programs that may run at once."""
        outer = _inside.get()
        if id(self) in outer:
            yield
            return
        slots = self._slots
        await slots.take()
        token = _inside.set(outer | {id(self)})
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):  # closed from another context than it was opened in
                _inside.reset(token)
            slots.give()

    @asynccontextmanager
    async def _conversation(self, program: Program, limits: Limits, *, channel: bool) -> AsyncIterator[Conversation]:
        """A program on a worker; the worker is kept where it has told of the program's end, else ended."""
        worker = await self._take(program.preload)
        conversation = Conversation(worker, program, scaled(limits, self._scale or 1.0), channel=channel)
        try:
            yield conversation
            await conversation.stop()
        finally:
            conversation.let_go()
            if conversation.ended and not self._launcher.once:
                self._put(worker)
            else:
                worker.close()

    async def _take(self, preload: tuple[str, ...]) -> Worker:
        """A worker that has these modules imported: the one last used, or a new one."""
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place].preload == preload:
                worker = self._idle.pop(place)
                if worker.alive:
                    return worker
                worker.close()
        return await self._start(preload)

    def _put(self, worker: Worker) -> None:
        """Keep a worker for later; of too many the one longest unused is ended."""
        self._idle.append(worker)
        if len(self._idle) > 2 * self._workers:
            self._idle.pop(0).close()

    async def _start(self, preload: tuple[str, ...]) -> Worker:
        """Start a worker.

        Raises:
            WorkerError: it does not start.
            ConfigError: something that it needs is missing.
        """
        loop = asyncio.get_running_loop()
        worker = await loop.run_in_executor(self._starter, Worker, self._launcher, preload)
        try:
            await worker.greeting()
        except BaseException:
            worker.close()
            raise
        return worker


def _after_fork() -> None:
    """Let go of workers that belong to the parent."""
    for pool in list(_everywhere):
        workers = pool._idle  # noqa: SLF001 - this module's own
        pool._forget()  # noqa: SLF001
        for worker in workers:
            worker.close()


os.register_at_fork(after_in_child=_after_fork)
