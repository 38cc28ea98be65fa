"""Where answers are kept: the store that runs share, and what a client needs of any store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

from trinity.errors import LedgerError, OfflineError
from trinity.llm.leases import LEASE_STATEMENTS, RENEW_S, LeaseTable, new_owner
from trinity.runs.calls import CALL_STATEMENTS, Answer, CallTable
from trinity.runs.sqlite import Schema, open_database
from trinity.runs.writer import Writer
from trinity.stopping import command_line
from trinity.types import StoreMode

SCHEMA = Schema("call store", 0x54530002, (*CALL_STATEMENTS, *LEASE_STATEMENTS))

WRITER_CACHE_MIB = 16
"""Holds the pages of a whole transaction; larger ones buy nothing, for the system's own cache serves as fast."""

LOG_PAGES = 4000
"""Pages in the log from which on the writer makes a checkpoint: the longer the log, the less is written twice."""

POLL_S = (0.05, 0.2)
"""Seconds between looks at a lease that somebody else holds: at first, and at most."""

_LEASED: Final = "leased"


class CallStore(Protocol):
    """Answers by request hash, bought once by all who share the store."""

    async def get(self, request_hash: str) -> Answer | None:
        """The answer to a request, or None."""
        ...

    async def claim(self, request_hash: str) -> Answer | None:
        """None: the request is ours to ask until `put` or `release`. An answer: somebody else has asked it."""
        ...

    async def put(self, answer: Answer, request: Mapping[str, Any]) -> Answer:
        """Keep an answer and end the claim; the answer that stands."""
        ...

    async def release(self, request_hash: str) -> None:
        """End the claim without an answer, so that others may ask."""
        ...


class Store:
    """The SQLite file of answers that runs share: cache and bill at once.

    Several processes may use it at the same time (WAL, one machine). What is committed survives a crash. Look-ups are
    reads on the event loop's thread; everything is written by one thread of its own. Use one event loop at a time.
    """

    def __init__(self, path: Path, mode: StoreMode, buyer: str) -> None:
        """`open` is the way to get one."""
        self.path = path
        self._mode, self._buyer = mode, buyer
        self._ours: set[str] = set()
        self._writer: Writer | None = None
        self._reader: asyncio.AbstractEventLoop | None = None
        owner = ""
        if mode != "offline":
            owner = new_owner()
            self._writer = self._start_writer(owner)
        with self._closing_on_error():
            self._database = open_database(path, SCHEMA, "read" if mode == "offline" else "open")
        self._calls, self._leases = CallTable(self._database), LeaseTable(self._database, owner)

    @classmethod
    def open(cls, path: Path, *, mode: StoreMode = "use", buyer: str = "") -> Self:
        """The store at `path`, made with its folder where there is none; `buyer` is the uid of the run that buys.

        `use`: every answer counts. `refresh`: only those bought by `buyer` do; what it buys replaces the others'.
        `offline`: nobody is asked and nothing is written; the file must be there.

        Raises:
            LedgerError: the file is damaged, something else or (offline) missing; it is left as it is.
        """
        if mode != "offline":
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(mode=0o600)  # it holds what restricted tasks ask and are answered
            except OSError as error:
                where = f"cannot write the store {path}"
                raise LedgerError(f"{where}: {error.strerror or error}") from error
        return cls(path, mode, buyer)

    async def get(self, request_hash: str) -> Answer | None:
        """The answer to a request, or None; never suspends.

        Raises:
            LedgerError: the stored row is damaged.
        """
        loop = asyncio.get_running_loop()
        if self._reader is not loop:
            self._begin_reading(loop)
        return self._visible(self._calls.get(request_hash))

    async def claim(self, request_hash: str) -> Answer | None:
        """The answer, or None when the request is ours to ask; waits while another process holds it.

        What is claimed must be given back by `put` or `release`; until then the claim is renewed by itself. Claims of
        a process that is gone end at once.

        Raises:
            OfflineError: the answer is not there and nobody may be asked.
            LedgerError: the store cannot be read or written.
        """
        if self._writer is None and (answer := await self.get(request_hash)):
            return answer
        writer = self._writing(request_hash)
        pause, longest = POLL_S
        while True:
            if request_hash not in self._ours:
                taken = await self._take(writer, request_hash)
                if taken != _LEASED:
                    return taken
            await asyncio.sleep(pause)
            while request_hash in self._ours or self._leases.is_held(request_hash):
                pause = min(1.5 * pause, longest)
                await asyncio.sleep(pause)

    async def put(self, answer: Answer, request: Mapping[str, Any]) -> Answer:
        """Keep an answer to `request` (its JSON form) and end the claim; committed when this returns.

        The answer that stands: the first one; in mode `refresh` the first one of this buyer.

        Raises:
            OfflineError: nothing is written offline.
            LedgerError: it could not be written.
        """
        writer = self._writing(answer.request_hash)
        try:
            return await writer.do(partial(self._keep, answer, request))
        finally:
            self._ours.discard(answer.request_hash)

    async def release(self, request_hash: str) -> None:
        """End the claim without an answer; without a claim nothing happens.

        Raises:
            LedgerError: it could not be written; the claim then ends with this process.
        """
        self._ours.discard(request_hash)
        if self._writer is not None and not self._writer.closed:
            await self._writer.do(partial(self._written_leases.end, request_hash))

    def count(self) -> int:
        """How many answers there are."""
        return self._calls.count()

    def close(self) -> None:
        """Finish what is queued, give up all claims and close the file; a second call does nothing."""
        try:
            self._end_reading()
            self._database.close()
        finally:
            if self._writer is not None:
                self._writer.post(self._written_leases.end_all)
                self._writer.close()

    def _begin_reading(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let all look-ups of one turn of the event loop share a transaction: its locks cost as much as the reading."""
        self._end_reading()
        self._database.execute("BEGIN")
        self._reader = loop
        loop.call_soon(self._end_reading)

    def _end_reading(self) -> None:
        if self._reader is not None:
            self._reader = None
            # It has written nothing; what is wrong with the file the next look-up finds out and says.
            with suppress(LedgerError):
                self._database.execute("COMMIT")

    def _start_writer(self, owner: str) -> Writer:
        database = open_database(self.path, SCHEMA, "open_or_create", cache_mib=WRITER_CACHE_MIB, any_thread=True)
        database.one(f"PRAGMA wal_autocheckpoint={LOG_PAGES:d}")
        self._written_calls, self._written_leases = CallTable(database), LeaseTable(database, owner)
        return Writer(database, self._written_leases.renew, RENEW_S)

    @contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._writer is not None:
                self._writer.close()
            raise

    def _writing(self, request_hash: str) -> Writer:
        if self._writer is None:
            raise OfflineError(
                f"call {request_hash[:16]} is not in {self.path}, and store.mode=offline lets nobody be asked; "
                f"see: {command_line('trinity.ledger', 'explain', request_hash[:16])}"
            )
        return self._writer

    def _visible(self, answer: Answer | None) -> Answer | None:
        hidden = answer is not None and self._mode == "refresh" and answer.buyer != self._buyer
        return None if hidden else answer

    async def _take(self, writer: Writer, request_hash: str) -> Answer | Literal["leased"] | None:
        """An answer, None (the lease is ours now), or that somebody else has the lease."""
        self._ours.add(request_hash)
        ours = False
        try:
            found = await writer.do(partial(self._take_now, request_hash))
            ours = found is None
        except asyncio.CancelledError:
            writer.post(partial(self._written_leases.end, request_hash))
            raise
        finally:
            if not ours:
                self._ours.discard(request_hash)
        return found

    def _take_now(self, request_hash: str) -> Answer | Literal["leased"] | None:
        """As `_take`, in the writer's thread and transaction."""
        answer = self._visible(self._written_calls.get(request_hash))
        if answer is not None:
            return answer
        return None if self._written_leases.take(request_hash) else _LEASED

    def _keep(self, answer: Answer, request: Mapping[str, Any]) -> Answer:
        """As `put`, in the writer's thread and transaction."""
        stands = self._visible(self._written_calls.get(answer.request_hash))
        if stands is None:
            self._written_calls.put(answer, request, replace=True)
        self._written_leases.end(answer.request_hash)
        return stands or answer


class MemoryStore:
    """A store that ends with its process, for tests; its claims are told apart by nobody else."""

    def __init__(self) -> None:
        self.rows: dict[str, Answer] = {}
        self.requests: dict[str, Mapping[str, Any]] = {}
        self._claims: dict[str, asyncio.Event] = {}

    async def get(self, request_hash: str) -> Answer | None:
        """The answer to a request, or None."""
        return self.rows.get(request_hash)

    async def claim(self, request_hash: str) -> Answer | None:
        """The answer, or None when the request is ours to ask; waits while somebody else holds it."""
        while request_hash not in self.rows:
            held = self._claims.get(request_hash)
            if held is None:
                self._claims[request_hash] = asyncio.Event()
                return None
            await held.wait()
        return self.rows[request_hash]

    async def put(self, answer: Answer, request: Mapping[str, Any]) -> Answer:
        """Keep an answer unless there is one and end the claim; the answer that stands."""
        self.requests.setdefault(answer.request_hash, request)
        stands = self.rows.setdefault(answer.request_hash, answer)
        await self.release(answer.request_hash)
        return stands

    async def release(self, request_hash: str) -> None:
        """End the claim without an answer."""
        held = self._claims.pop(request_hash, None)
        if held is not None:
            held.set()


class OwnFirst:
    """A run's own answers before the shared ones, so that a run goes on where the shared store is gone."""

    def __init__(self, own: CallTable, shared: CallStore) -> None:
        self._own = own
        self._shared = shared

    async def get(self, request_hash: str) -> Answer | None:
        """The answer that the run has, else the shared one."""
        return self._own.get(request_hash) or await self._shared.get(request_hash)

    async def claim(self, request_hash: str) -> Answer | None:
        """The answer that the run has, else the shared store's word."""
        return self._own.get(request_hash) or await self._shared.claim(request_hash)

    async def put(self, answer: Answer, request: Mapping[str, Any]) -> Answer:
        """Keep an answer for all; the run's own copy is noted by its ledger."""
        return await self._shared.put(answer, request)

    async def release(self, request_hash: str) -> None:
        """Let others ask."""
        await self._shared.release(request_hash)
