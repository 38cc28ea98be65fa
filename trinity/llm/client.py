"""The client: one answer for equal requests, bought once within every limit, kept in the store, noted in the ledger."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from trinity.context import Context
from trinity.errors import EndpointError, EpisodeCapError, LedgerError, OfflineError, TrinityError
from trinity.llm.budget import (
    Budget,
    Cap,
    Charge,
    actual,
    failed_spend,
    fits_episode,
    output_limit,
    worst_case,
    worst_spend,
    worst_usage,
)
from trinity.llm.health import Health
from trinity.llm.limits import Limiter
from trinity.llm.pool import Pool
from trinity.llm.pricing import CountTokens, cost_usd, estimated_usage, gflop, rough_tokens
from trinity.llm.retry import Answered, RetryPolicy, Sleep, is_empty, send_with_retries
from trinity.llm.store import CallStore
from trinity.llm.transports.base import Request, Template, TransportError, checked
from trinity.llm.turns import OncePerTurn, Slices
from trinity.runs.calls import Answer
from trinity.types import GRADING, NOTHING, Agent, Bill, Completion, Message, Price, Spend

RECENT_CALLS = 4096
"""Answers kept in memory: candidates of one generation ask the same within minutes."""

RECENT_AGENTS = 256
"""Agents whose fixed parts are kept; a method may make agents as it goes."""

GRACE_S = 2.0
"""Seconds that an interrupted run waits for answers on the wire; it has `trinity.stopping.PATIENCE_S` for all."""


class CallLog(Protocol):
    """What the client tells a run's ledger."""

    @property
    def uid(self) -> str:
        """The run as buyer of answers."""
        ...

    def note_call(
        self, answer: Answer, request: Mapping[str, Any], *, paid: bool, price: Price | None, grading: bool = False
    ) -> None:
        """This run used an answer, perhaps to grade; `paid`: it bought it. The first note of a request stays."""
        ...

    def begin_attempt(self, request_hash: str, attempt: int, bill: Bill, reserve: Spend) -> int:
        """An attempt is about to be made that may cost `reserve`; its number."""
        ...

    def end_attempt(
        self,
        number: int,
        kind: str,
        status: int | None,
        detail: str,
        spend: Spend,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        """What became of it and what it cost; with the `request` of one that failed, so that it can be explained."""
        ...

    def note_miss(self, request_hash: str, request: Mapping[str, Any]) -> None:
        """An answer was wanted that nobody may be asked for."""
        ...

    @property
    def behind(self) -> bool:
        """Whether so much waits to be written that nothing should be added before that is done."""
        ...

    async def flushed(self) -> None:
        """Make everything told so far durable."""
        ...


@dataclass(slots=True)
class CallCounts:
    """Calls so far, without those that grade.

    Attributes:
        logical: asked for by episodes.
        paid: bought.
        reused: found in the store.
        shared: answered by an equal one of this run.
        failed: after their retries.
    """

    logical: int = 0
    paid: int = 0
    reused: int = 0
    shared: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """What bounds the asking: the budget of run and phases, an episode's own cap, retries, and slots per endpoint.

    `concurrency` holds for endpoints whose pool entry sets no limit of its own.
    """

    budget: Budget = field(default_factory=lambda: Budget(Cap(), {}, {}))
    episode: Cap = field(default_factory=Cap)
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    concurrency: int = 64


class Client:
    """Asks the agents of a pool; implements `trinity.types.Client`.

    Equal requests in flight share one call. It belongs to the client: a cancelled waiter never cancels it, its
    failure reaches all waiters once and is not kept. Belongs to one event loop.

    Args:
        pool: closed with the client.
        store: looked up before, written after every call; not closed here.
        ledger: the run's; None where nothing is to be noted.
        rules: budget, caps, limits, retries.
        count_tokens: for answers whose provider reports no usage; they are marked as estimated.
        sleep: waits between attempts.
    """

    def __init__(
        self,
        pool: Pool,
        store: CallStore,
        ledger: CallLog | None,
        rules: Rules | None = None,
        *,
        count_tokens: CountTokens = rough_tokens,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.pool = pool
        self.counts = CallCounts()
        self._store = store
        self._ledger = ledger
        self._buyer = ledger.uid if ledger else ""
        self._rules = rules or Rules()
        self._episode_capped = self._rules.episode.given
        self._count_tokens = count_tokens
        self._sleep = sleep
        self._health = Health()
        self._limiters: dict[str, Limiter] = {}
        self._templates: dict[int, tuple[Agent, Template]] = {}
        self._flights: dict[str, asyncio.Task[Answer]] = {}
        self._recent: OrderedDict[str, Answer] = OrderedDict()
        self._slices = Slices()
        self._on_wire: set[str] = set()
        self._closing = False
        self._durable = OncePerTurn(ledger.flushed) if ledger and self._rules.budget.capped else None

    async def complete(self, agent: Agent, messages: Sequence[Message], context: Context) -> Completion:
        """Answer of `agent`, also entered in `context.calls`.

        Raises:
            CallError: the call failed after its retries.
            EndpointError: the endpoint cannot be used before a person changes something.
            BudgetError: a cap of the run or the phase is reached.
            EpisodeCapError: the call could pass the episode's own cap; nothing was asked.
            LedgerError: store or ledger cannot be read or written.
        """
        request = self._request(agent, messages, context)
        place = self._reserve(agent, request, context)
        if self._episode_capped:
            # Calls that start together are all weighed before any is answered, wherever the answers come from.
            await asyncio.sleep(0)
        if self._ledger is not None and self._ledger.behind:
            await self._ledger.flushed()
        if self._slices.used_up():
            await self._slices.wait()
        answer = self._recent.get(request.hash)
        if answer is not None:
            self._recent.move_to_end(request.hash)
            self._counts(context).shared += 1
        else:
            if request.hash not in self._flights:
                answer = await self._store.get(request.hash)
            if answer is None:
                answer = await self._flight(agent, request, context)
            else:
                self._counts(context).reused += 1
                self._use(agent, request, answer, context.bill)
        self._counts(context).logical += 1
        completion = self._completion(agent, request, answer)
        context.enter(place, completion)
        return completion

    async def close(self, grace_s: float = GRACE_S) -> None:
        """Give calls on the wire `grace_s` seconds, so that what was paid is kept, cancel the others, close the pool.

        When a run ends well none is in flight; when it is interrupted nothing more is sent, and nobody waits out
        retries.
        """
        self._closing = True
        flights = dict(self._flights)
        sent = [flight for request_hash, flight in flights.items() if request_hash in self._on_wire]
        for flight in flights.values():
            if flight not in sent:
                flight.cancel()
        if sent:
            _, late = await asyncio.wait(sent, timeout=grace_s)
            for flight in late:
                flight.cancel()
        await asyncio.gather(*flights.values(), return_exceptions=True)
        await self.pool.close()

    def _request(self, agent: Agent, messages: Sequence[Message], context: Context) -> Request:
        _, template = self._templates.get(id(agent)) or self._new_template(agent)
        if agent.deterministic:
            return template.request(messages, None)
        return template.request(messages, context.replicate, context.next_sample)

    def _new_template(self, agent: Agent) -> tuple[Agent, Template]:
        """What the agent's requests share; the agent is kept with it, so that its id stays its own."""
        if len(self._templates) >= RECENT_AGENTS:
            self._templates.clear()
        endpoint_id = self.pool.transport(agent).endpoint_id
        made = self._templates[id(agent)] = agent, Template(endpoint_id, agent.model, agent.sampling, agent.extra_body)
        return made

    def _counts(self, context: Context) -> CallCounts:
        """Where a call is counted: `counts` is of episodes alone, what grades is counted nowhere."""
        return CallCounts() if context.bill == GRADING else self.counts

    def _reserve(self, agent: Agent, request: Request, context: Context) -> int:
        """A place in the episode's bill, if its own cap allows the call; what grades is no part of the episode."""
        if not self._episode_capped or context.bill == GRADING:
            return context.reserve()
        worst = worst_case(agent, request.messages)
        if not fits_episode(self._rules.episode, context.spend(), worst):
            context.at_cap = True
            raise EpisodeCapError(f"agent {agent.name}: the call could pass the episode's cap {self._rules.episode}")
        return context.reserve(worst)

    async def _flight(self, agent: Agent, request: Request, context: Context) -> Answer:
        """The answer that is being bought, by a call that may already be in flight."""
        task = self._flights.get(request.hash)
        if task is None:
            task = asyncio.create_task(self._buy(agent, request, context))
            self._flights[request.hash] = task
            task.add_done_callback(_retrieve)
        else:
            self._counts(context).shared += 1
        return await asyncio.shield(task)

    async def _buy(self, agent: Agent, request: Request, context: Context) -> Answer:
        """Claim, ask, keep, note. The flight ends here and not in a callback, so that no failure is found again."""
        counts = self._counts(context)
        try:
            answer = await self._claim(request)
            if answer is None:
                answer = await self._ask(agent, request, context.bill, context.order)
                counts.paid += 1
            else:
                counts.reused += 1
            self._use(agent, request, answer, context.bill)
        except TrinityError:
            counts.failed += 1
            raise
        finally:
            del self._flights[request.hash]
        return answer

    async def _claim(self, request: Request) -> Answer | None:
        """The right to ask, or the answer that another process was given meanwhile."""
        try:
            return await self._store.claim(request.hash)
        except OfflineError:
            if self._ledger is not None:
                self._ledger.note_miss(request.hash, request.to_json())
            raise

    async def _ask(self, agent: Agent, request: Request, bill: Bill, order: int) -> Answer:
        """Ask until there is an answer, and keep it: it is the store's before anybody sees it."""

        async def attempt(number: int, seed: int) -> Answered:
            return await self._attempt(_Try(agent, request, number, seed, bill, order))

        try:
            answered = await send_with_retries(request, attempt, self._rules.retries, self._sleep)
            self._health.answered(agent)
            return await self._keep(agent, request, self._answer(request, answered), bill)
        except TransportError as error:
            await self._store.release(request.hash)
            self._refuse_long_wait(agent, error)
            raise self._health.failure(agent, error) from error
        except BaseException:
            await self._store.release(request.hash)
            raise

    async def _keep(self, agent: Agent, request: Request, answer: Answer, bill: Bill) -> Answer:
        """Put an answer into the store; where that fails the run's own ledger keeps it, for it was paid."""
        try:
            return await self._store.put(answer, request.to_json())
        except LedgerError:
            self._note(agent, request, answer, bill)
            if self._ledger is not None:
                with suppress(LedgerError):
                    await self._ledger.flushed()
            raise

    def _refuse_long_wait(self, agent: Agent, error: TransportError) -> None:
        """Stop where a provider wants to be left alone for longer than the user will wait (a quota is used up, say)."""
        retries = self._rules.retries
        if error.kind != "rate_limit" or not retries.is_too_long(error):
            return
        told = (
            f"agent {agent.name}: {error}; it asks for a wait of {error.retry_after:.0f} s, longer than "
            f"retry.longest_retry_after_s={retries.longest_retry_after_s:g}; resume the run then, or raise the limit"
        )
        raise self._health.stop(agent, EndpointError(told))

    async def _attempt(self, one: _Try) -> Answered:
        """One attempt within budget and limits, entered in the ledger before and after."""
        tokens = worst_usage(one.agent, one.request.messages)
        worst = worst_spend(one.agent, tokens)
        limiter = self._limiter(one.agent)
        reserved = self._rules.budget.attempt(worst, one.bill, one.order)
        async with reserved as charge, limiter.turn(tokens.total_tokens):
            try:
                self._health.check(one.agent)
                answered = await self._send(one, worst, charge)
            except TransportError as error:
                if error.kind == "rate_limit":
                    limiter.throttled(None if self._rules.retries.is_too_long(error) else error.retry_after)
                raise
            except EndpointError as error:
                self._health.stop(one.agent, error)
                charge.settle(NOTHING)
                raise
            limiter.answered()
        return await self._with_usage(one.request, answered)

    async def _send(self, one: _Try, worst: Spend, charge: Charge) -> Answered:
        """Ask; whatever comes is entered and settled."""
        if self._closing:
            raise EndpointError(f"agent {one.agent.name}: the run is ending, nothing more is asked")
        entry = await self._begin(one, worst)
        start = time.perf_counter()
        self._on_wire.add(one.request.hash)
        try:
            reply = checked(await self.pool.transport(one.agent).send(one.request, one.seed))
        except TransportError as error:
            self._health.heard(one.agent, error)
            charge.settle(failed_spend(error, worst))
            self._end(entry, error.kind, error.status, str(error), charge.spend, one.request)
            raise
        except EndpointError as error:
            self._end(entry, "not sent", None, str(error), NOTHING, one.request)
            raise
        finally:
            self._on_wire.discard(one.request.hash)
        latency_s = time.perf_counter() - start
        charge.settle(worst if reply.usage is None else actual(one.agent, reply.usage))
        self._end(entry, "empty" if is_empty(reply) else "answered", None, "", charge.spend)
        self._refuse_broken_promise(one.agent, worst, charge.spend)
        return Answered(reply, one.number, latency_s)

    def _refuse_broken_promise(self, agent: Agent, worst: Spend, spend: Spend) -> None:
        """Ask an endpoint nothing more whose answers are longer than `max_tokens` allows: no cap could be kept."""
        if self._rules.budget.capped and output_limit(agent) and spend.weighted_tokens > worst.weighted_tokens:
            self._health.stop(
                agent,
                EndpointError(
                    f"agent {agent.name}: an answer was billed {spend.weighted_tokens} weighted tokens where at most "
                    f"{worst.weighted_tokens} were possible, so no budget can be kept; check max_tokens"
                ),
            )

    def _limiter(self, agent: Agent) -> Limiter:
        known = self._limiters.get(agent.endpoint)
        if known is None:
            limit = self.pool.limit(agent.endpoint, self._rules.concurrency)
            known = Limiter(limit, clock=asyncio.get_running_loop().time)
            self._limiters[agent.endpoint] = known
        return known

    async def _begin(self, one: _Try, worst: Spend) -> int:
        """Enter an attempt; where a cap counts it, it is durable before anything is sent."""
        if self._ledger is None:
            return 0
        entry = self._ledger.begin_attempt(one.request.hash, one.number, one.bill, worst)
        if self._durable is not None:
            await self._durable()
        return entry

    def _end(
        self,
        entry: int,
        kind: str,
        status: int | None,
        detail: str,
        spend: Spend,
        failed: Request | None = None,
    ) -> None:
        if self._ledger is not None:
            self._ledger.end_attempt(entry, kind, status, detail, spend, None if failed is None else failed.to_json())

    async def _with_usage(self, request: Request, answered: Answered) -> Answered:
        """An answer whose usage is known, or counted (a tokenizer may have to be loaded) and marked so."""
        reply = answered.reply
        if reply.usage is not None:
            return answered
        texts = (request.messages, reply.text, reply.reasoning)
        usage = await asyncio.to_thread(estimated_usage, *texts, self._count_tokens)
        return replace(answered, reply=replace(reply, usage=usage))

    def _answer(self, request: Request, answered: Answered) -> Answer:
        reply = answered.reply
        return Answer(
            request_hash=request.hash,
            text=reply.text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            latency_s=answered.latency_s,
            attempts=answered.attempts,
            buyer=self._buyer,
        )

    def _use(self, agent: Agent, request: Request, answer: Answer, bill: Bill) -> None:
        self._health.known(agent)
        self._note(agent, request, answer, bill)
        self._recent[answer.request_hash] = answer
        if len(self._recent) > RECENT_CALLS:
            self._recent.popitem(last=False)

    def _note(self, agent: Agent, request: Request, answer: Answer, bill: Bill) -> None:
        """Tell the ledger that an answer was used, and whether this run bought it."""
        if self._ledger is not None:
            paid, grading = answer.buyer == self._buyer, bill == GRADING
            self._ledger.note_call(answer, request.to_json(), paid=paid, price=agent.price, grading=grading)

    def _completion(self, agent: Agent, request: Request, answer: Answer) -> Completion:
        usage = answer.usage
        if usage is None:
            usage = estimated_usage(request.messages, answer.text, answer.reasoning, self._count_tokens)
        return Completion(
            text=answer.text,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason,
            usage=usage,
            cost_usd=cost_usd(agent.price, usage),
            gflop=gflop(agent, usage),
            latency_s=answer.latency_s,
            call_id=answer.call_id,
        )


@dataclass(frozen=True, slots=True)
class _Try:
    """One attempt to be made: its number counts from 1; `order` is its episode's."""

    agent: Agent
    request: Request
    number: int
    seed: int
    bill: Bill
    order: int


def _retrieve(task: asyncio.Task[Answer]) -> None:
    """Look at a failure that no waiter may be left to see, lest asyncio complains."""
    if not task.cancelled():
        task.exception()
