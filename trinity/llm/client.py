"""The client: one answer for equal requests, bought once, kept in the store, noted in the run's ledger."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from trinity.context import Context
from trinity.errors import CallError, EndpointError, TrinityError
from trinity.llm.pool import Pool
from trinity.llm.pricing import CountTokens, cost_usd, estimated_usage, gflop, rough_tokens
from trinity.llm.retry import Attempt, RetryPolicy, Sleep, send_with_retries
from trinity.llm.store import CallStore
from trinity.llm.transports.base import Request, TransportError
from trinity.runs.calls import CallRow
from trinity.types import Agent, Completion, Message, Price

RECENT_CALLS = 4096
"""Answers kept in memory: candidates of one generation ask the same within minutes."""

GRACE_S = 10.0
"""Seconds that an interrupted run waits for answers on the wire."""

FIRST_REQUESTS = 3
"""An agent whose first so many requests are all refused is set up wrongly."""


class CallLog(Protocol):
    """What the client tells a run's ledger."""

    def note_call(self, row: CallRow, *, paid: bool, price: Price | None) -> None:
        """This run used an answer; `paid`: it bought it. The first note of a request stays."""
        ...

    def add_attempt(self, request_hash: str, attempt: int, kind: str, status: int | None, detail: str) -> None:
        """An attempt gave no answer."""
        ...


@dataclass(slots=True)
class CallCounts:
    """Calls so far: asked for by episodes, bought, answered without buying, failed after retries."""

    logical: int = 0
    paid: int = 0
    shared: int = 0
    failed: int = 0


class Client:
    """Asks the agents of a pool; implements `trinity.types.Client`.

    Equal requests in flight share one call. It belongs to the client: a cancelled waiter never cancels it, its
    failure reaches all waiters once and is not kept. Belongs to one event loop.

    Args:
        pool: closed with the client.
        store: looked up before, written after every call; not closed here.
        ledger: the run's; None where nothing is to be noted.
        concurrency: most attempts at one time, over all endpoints.
        retries: which failures are tried again.
        count_tokens: for answers whose provider reports no usage; they are marked as estimated.
        sleep: waits between attempts.
    """

    def __init__(
        self,
        pool: Pool,
        store: CallStore,
        ledger: CallLog | None,
        *,
        concurrency: int = 64,
        retries: RetryPolicy | None = None,
        count_tokens: CountTokens = rough_tokens,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.pool = pool
        self.counts = CallCounts()
        self._store = store
        self._ledger = ledger
        self._gate = asyncio.Semaphore(concurrency)
        self._retries = retries or RetryPolicy()
        self._count_tokens = count_tokens
        self._sleep = sleep
        self._health = _Health()
        self._flights: dict[str, asyncio.Task[CallRow]] = {}
        self._recent: OrderedDict[str, CallRow] = OrderedDict()

    async def complete(self, agent: Agent, messages: Sequence[Message], context: Context) -> Completion:
        """Answer of `agent`, also entered in `context.calls`.

        Raises:
            CallError: the call failed after its retries.
            EndpointError: the endpoint cannot be used before a person changes something.
            LedgerError: store or ledger cannot be read or written.
        """
        request = self._request(agent, messages, context)
        place = context.reserve()
        row = self._known(agent, request.hash)
        if row is not None:
            self.counts.shared += 1
        else:
            row = await self._flight(agent, request)
        self.counts.logical += 1
        completion = self._completion(agent, row)
        context.enter(place, completion)
        return completion

    async def close(self, grace_s: float = GRACE_S) -> None:
        """Give calls in flight `grace_s` seconds, so that what was paid is kept; then cancel them and close the pool.

        When a run ends well none is in flight; when it is interrupted nobody waits out retries.
        """
        flights = list(self._flights.values())
        if flights:
            _, late = await asyncio.wait(flights, timeout=grace_s)
            for flight in late:
                flight.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.pool.close()

    def _request(self, agent: Agent, messages: Sequence[Message], context: Context) -> Request:
        """The request, with messages of our own, so that a caller may go on changing its list."""
        request = Request(
            endpoint_id=self.pool.transport(agent).endpoint_id,
            model=agent.model,
            messages=tuple(Message(role=message["role"], content=message["content"]) for message in messages),
            sampling=agent.sampling,
            extra_body=agent.extra_body,
            replicate=None if agent.deterministic else context.replicate,
        )
        if agent.deterministic:
            return request
        return request.with_sample(context.next_sample(request.sampleless_hash()))

    def _known(self, agent: Agent, request_hash: str) -> CallRow | None:
        """The answer from memory or store; noted as used by this run when it comes from the store."""
        row = self._recent.get(request_hash)
        if row is not None:
            self._recent.move_to_end(request_hash)
            return row
        if request_hash in self._flights:
            return None
        row = self._store.get(request_hash)
        if row is not None:
            self._use(agent, row, paid=False)
        return row

    async def _flight(self, agent: Agent, request: Request) -> CallRow:
        """The answer that is being bought, by a call that may already be in flight."""
        task = self._flights.get(request.hash)
        if task is None:
            task = asyncio.create_task(self._buy(agent, request))
            self._flights[request.hash] = task
            task.add_done_callback(_retrieve)
        else:
            self.counts.shared += 1
        return await asyncio.shield(task)

    async def _buy(self, agent: Agent, request: Request) -> CallRow:
        """Ask, store, note. The flight ends here and not in a callback, so that a failure is never found again."""
        try:
            row = await self._ask(agent, request)
            # The bill first: a crash between the two must not make a bought call look like a found one.
            self._use(agent, row, paid=True)
            self._store.put(row)
        except TrinityError:
            self.counts.failed += 1
            raise
        finally:
            del self._flights[request.hash]
        self.counts.paid += 1
        return row

    async def _ask(self, agent: Agent, request: Request) -> CallRow:
        def failed(attempt: Attempt) -> None:
            self._health.heard(agent, attempt)
            if self._ledger is not None:
                self._ledger.add_attempt(request.hash, attempt.number, attempt.kind, attempt.status, attempt.detail)

        def turn() -> AbstractAsyncContextManager[None]:
            return self._turn(agent)

        transport = self.pool.transport(agent)
        try:
            answered = await send_with_retries(transport, request, self._retries, turn, failed, self._sleep)
        except TransportError as error:
            raise self._health.failure(agent, error) from error
        except EndpointError as error:
            self._health.stop(agent, error)
            raise
        self._health.answered(agent)
        reply = answered.reply
        usage = reply.usage or estimated_usage(request.messages, reply.text, reply.reasoning, self._count_tokens)
        return CallRow(
            request_hash=request.hash,
            request=request.to_json(),
            text=reply.text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            usage=usage,
            latency_s=answered.latency_s,
            attempts=answered.attempts,
        )

    @asynccontextmanager
    async def _turn(self, agent: Agent) -> AsyncIterator[None]:
        """The right to make one attempt; refused where the endpoint was found unusable while this call waited."""
        async with self._gate:
            self._health.check(agent)
            yield

    def _use(self, agent: Agent, row: CallRow, *, paid: bool) -> None:
        if self._ledger is not None:
            self._ledger.note_call(row, paid=paid, price=agent.price)
        self._recent[row.request_hash] = row
        if len(self._recent) > RECENT_CALLS:
            self._recent.popitem(last=False)

    def _completion(self, agent: Agent, row: CallRow) -> Completion:
        usage = row.usage or estimated_usage(row.request["messages"], row.text, row.reasoning, self._count_tokens)
        return Completion(
            text=row.text,
            reasoning=row.reasoning,
            finish_reason=row.finish_reason,
            usage=usage,
            cost_usd=cost_usd(agent.price, usage),
            gflop=gflop(agent, usage),
            latency_s=row.latency_s,
            call_id=row.call_id,
        )


class _Health:
    """What is known of endpoints and agents: tells a failed call from an endpoint that nobody should ask again."""

    def __init__(self) -> None:
        self._reached: set[str] = set()
        self._settled: set[str] = set()
        self._refused: Counter[str] = Counter()
        self._stopped: dict[str, EndpointError] = {}

    def check(self, agent: Agent) -> None:
        """Raise what stopped the agent's endpoint, if anything did."""
        if agent.endpoint in self._stopped:
            raise EndpointError(str(self._stopped[agent.endpoint]))

    def stop(self, agent: Agent, error: EndpointError) -> EndpointError:
        """From now on every call to the agent's endpoint fails at once."""
        return self._stopped.setdefault(agent.endpoint, error)

    def heard(self, agent: Agent, attempt: Attempt) -> None:
        """An attempt failed; one with an HTTP status, or with empty text, came from somebody who listens."""
        if attempt.status is not None or attempt.kind == "empty":
            self._reached.add(agent.endpoint)

    def answered(self, agent: Agent) -> None:
        """A request of the agent ended well."""
        self._reached.add(agent.endpoint)
        self._settled.add(agent.name)

    def failure(self, agent: Agent, error: TransportError) -> TrinityError:
        """What a call's last failure amounts to."""
        where = f"agent {agent.name}: {error}"
        if error.kind == "fatal":
            return self.stop(agent, EndpointError(where))
        if error.refused and agent.endpoint not in self._reached:
            hint = f"nobody listens; start the server, or correct the URL of endpoint {agent.endpoint}"
            return self.stop(agent, EndpointError(f"{where}; {hint}"))
        if error.kind != "bad_request":
            self._settled.add(agent.name)
        elif agent.name not in self._settled:
            self._refused[agent.name] += 1
            if self._refused[agent.name] >= FIRST_REQUESTS:
                hint = f"all of its first {FIRST_REQUESTS} requests were refused; check model, sampling and extra_body"
                return self.stop(agent, EndpointError(f"{where}; {hint}"))
        return CallError(where)


def _retrieve(task: asyncio.Task[CallRow]) -> None:
    """Look at a failure that no waiter may be left to see, lest asyncio complains."""
    if not task.cancelled():
        task.exception()
