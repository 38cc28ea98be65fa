"""A thread that does all writing to one SQLite file and commits what is queued together, as one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from trinity.errors import LedgerError
from trinity.runs.sqlite import Database

MOST_JOBS = 1000
"""Jobs of one transaction."""

_T = TypeVar("_T")


class _Job(NamedTuple):
    act: Callable[[], Any]
    future: asyncio.Future[Any] | None


class Writer:
    """Runs jobs on a connection that nobody else uses; the event loop never waits for a lock or a disk.

    Jobs run in the order in which they were queued; each result is delivered after the commit, a whole group's at
    once. A job that fails leaves the others of its group alone; when the commit fails all of them fail.
    """

    def __init__(self, database: Database, tick: Callable[[], object], every_s: float) -> None:
        """`tick` is run as a job of its own every `every_s` seconds and once at the start."""
        self._database = database
        self._tick, self._every_s = tick, every_s
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="store writer", daemon=True)
        self._thread.start()

    def do(self, act: Callable[[], _T]) -> asyncio.Future[_T]:
        """Queue a job; a future of its result, which is there when it is committed.

        Raises:
            LedgerError: the writer is closed. The future raises what the job or the commit raised.
        """
        self._refuse_closed()
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(act, future))
        return future

    def post(self, act: Callable[[], object]) -> None:
        """Queue a job whose result and failure nobody waits for."""
        if not self._closed:
            self._queue.put(_Job(act, None))

    @property
    def closed(self) -> bool:
        """Whether nothing more is taken."""
        return self._closed

    def close(self) -> None:
        """Do what is queued, then close the connection; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._thread.join()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise LedgerError(f"{self._database.path}: the store is closed")

    def _work(self) -> None:
        due = 0.0
        open_ = True
        while open_:
            if time.monotonic() >= due:
                self._commit([_Job(self._tick, None)])
                due = time.monotonic() + self._every_s
            group = self._collect(due - time.monotonic())
            open_ = None not in group
            _deliver(self._commit([job for job in group if job is not None]))
        with contextlib.suppress(LedgerError):
            self._database.close()

    def _collect(self, wait_s: float) -> list[_Job | None]:
        """What is queued, after the first of it has come."""
        group: list[_Job | None] = []
        with contextlib.suppress(queue.Empty):
            group.append(self._queue.get(timeout=max(wait_s, 0.0)))
            while len(group) < MOST_JOBS and group[-1] is not None:
                group.append(self._queue.get_nowait())
        return group

    def _commit(self, group: list[_Job]) -> list[tuple[_Job, Any]]:
        """Run the jobs as one transaction; each with its result or exception."""
        outcomes: list[tuple[_Job, Any]] = []
        if group:
            try:
                with self._database.transaction():
                    outcomes = [(job, self._result(job)) for job in group]
            except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
                return [(job, error) for job in group]
        return outcomes

    def _result(self, job: _Job) -> Any:
        try:
            return job.act()
        except Exception as error:
            if not self._database.in_transaction:
                raise
            return error


def _deliver(outcomes: list[tuple[_Job, Any]]) -> None:
    """Wake who waits, with one call to each event loop."""
    loops = {job.future.get_loop() for job, _ in outcomes if job.future is not None}
    for loop in loops:
        mine = [
            (job.future, result) for job, result in outcomes if job.future is not None and job.future.get_loop() is loop
        ]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(_resolve, mine)


def _resolve(outcomes: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, result in outcomes:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
