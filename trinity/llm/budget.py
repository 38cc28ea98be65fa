"""Hard budgets: what an attempt may cost is reserved before it is made, so that no cap is ever passed.

**How many tokens an attempt can make.** Input: one token a UTF-8 byte, the least that a tokenizer puts into one, and 64
a message for the chat template. Output: `max_tokens` or `max_completion_tokens`, the larger where both are given. What
a model thinks is output, and providers differ in whether their cap holds it:

- OpenAI (`reasoning_effort`), Anthropic (`thinking.budget_tokens`, which must be below `max_tokens`), Gemini
  (`thinkingBudget` is a hint, `maxOutputTokens` the ceiling of thoughts and text), OpenRouter (`reasoning.max_tokens`),
  vLLM, llama.cpp and Ollama: within the cap. litellm keeps it so: a budget above a given `max_tokens` goes to Anthropic
  unchanged and is refused there, or is cut below it. Such a budget is counted only where it is not below the cap, as
  Anthropic allows with interleaved thinking: then both are counted.
- Qwen and others at DashScope and SiliconFlow: `max_tokens` is the answer alone, `thinking_budget` comes on top.
  `enable_thinking` without it leaves the output without a bound.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, NamedTuple

from trinity.errors import BudgetError, ConfigError
from trinity.llm.pricing import cost_usd
from trinity.llm.transports.base import ErrorKind, TransportError
from trinity.naming import check_keys
from trinity.types import BILLS, NOTHING, Agent, Bill, Message, Spend, Usage

MESSAGE_TOKENS = 64
"""What a chat template may add to one message."""

_AXES = Spend._fields
_UNIT_NAMES = ("USD", "weighted tokens", "calls")
OUTPUT_KEYS = ("max_tokens", "max_completion_tokens")
_NO_WORK: frozenset[ErrorKind] = frozenset({"rate_limit", "bad_request", "fatal"})
_CLIENT_ERRORS = range(400, 500)

LARGEST = 1e15
"""More than anybody has; beyond it picodollars and tokens are no longer exact."""

_PICO = 10**12
"""USD are summed as whole picodollars: a sum of floats could pass a cap, or refuse an exact fit, by rounding."""


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that may be spent; None = no cap, 0 = nothing."""

    usd: float | None = None
    weighted_tokens: int | None = None
    calls: int | None = None

    @property
    def given(self) -> bool:
        """Whether anything is capped."""
        return any(value is not None for value in (self.usd, self.weighted_tokens, self.calls))

    def __str__(self) -> str:
        return ", ".join(f"{axis}={value}" for axis, value in asdict(self).items() if value is not None) or "none"


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of a run, of its phases and gradings (bought answers alone) and of each episode (every answer).

    A live run whose worst case is above `confirm_usd` must be confirmed; None = never.
    """

    run: Cap = field(default_factory=Cap)
    phases: Mapping[Bill, Cap] = field(default_factory=dict)
    episode: Cap = field(default_factory=Cap)
    confirm_usd: float | None = None

    @classmethod
    def from_config(cls, given: Mapping[str, Any]) -> Caps:
        """The content of the group `budget`; what is left out is not capped.

        Raises:
            ConfigError: an unknown key, or a value that is no amount; names the key.
        """
        check_keys("budget", given, ("run", "phases", "episode", "confirm_usd"))
        phases = _mapping("budget.phases", given.get("phases"))
        check_keys("budget.phases", phases, BILLS)
        return cls(
            run=_cap("budget.run", given.get("run")),
            phases={bill: _cap(f"budget.phases.{bill}", phases.get(bill)) for bill in BILLS},
            episode=_above_nothing("budget.episode", _cap("budget.episode", given.get("episode"))),
            confirm_usd=_amount("budget.confirm_usd", given.get("confirm_usd")),
        )

    def entries(self) -> Iterator[tuple[str, str, float]]:
        """Key (`budget.run.usd`), axis (`usd`) and value of every cap that is set."""
        phases = [(f"budget.phases.{bill}", cap) for bill, cap in self.phases.items()]
        for place, cap in [("budget.run", self.run), *phases, ("budget.episode", self.episode)]:
            for axis, value in asdict(cap).items():
                if value is not None:
                    yield f"{place}.{axis}", axis, value


def _mapping(place: str, given: Any) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place}={given!r}: must be a mapping")
    return given


def _cap(place: str, given: Any) -> Cap:
    values = _mapping(place, given)
    check_keys(place, values, _AXES)
    tokens, calls = (_amount(f"{place}.{axis}", values.get(axis), whole=True) for axis in _AXES[1:])
    return Cap(
        usd=_amount(f"{place}.usd", values.get("usd")),
        weighted_tokens=None if tokens is None else int(tokens),
        calls=None if calls is None else int(calls),
    )


def _above_nothing(place: str, cap: Cap) -> Cap:
    """An episode that may make no call at all has no answer, whatever is asked."""
    for axis, value in asdict(cap).items():
        if value == 0:
            raise ConfigError(f"{place}.{axis}=0: no episode could make a call; null for no cap")
    return cap


def _amount(key: str, value: Any, *, whole: bool = False) -> float | None:
    if value is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    if not number or (whole and value % 1):
        raise ConfigError(f"{key}={value}: must be a {'whole ' if whole else ''}number of at least 0, or null for none")
    if value > LARGEST:
        raise ConfigError(f"{key}={value}: must be at most {LARGEST:g}, or null for none")
    return float(value)


def output_limit(agent: Agent) -> int | None:
    """Most output tokens of one attempt, hidden ones included; None = nothing bounds them (see the module's text)."""
    visible = _cap_on_wire(agent)
    given = {**agent.sampling, **agent.extra_body}  # as on the wire
    on_top = _count(given.get("thinking_budget"))
    if visible is None or (given.get("enable_thinking") and on_top is None):
        return None
    within = _inner(given, "thinking", "budget_tokens") or _inner(given, "reasoning", "max_tokens") or 0
    return visible + (on_top or 0) + (within if within >= visible else 0)


def _cap_on_wire(agent: Agent) -> int | None:
    """The largest of what the request names as its output cap."""
    named = (_count(body.get(key)) for body in (agent.sampling, agent.extra_body) for key in OUTPUT_KEYS)
    return max((cap for cap in named if cap), default=None)


def _count(value: Any) -> int | None:
    """A positive number of tokens, rounded up; None for anything else."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return math.ceil(value) if number else None


def _inner(given: Mapping[str, Any], key: str, inner: str) -> int | None:
    value = given.get(key)
    return _count(value.get(inner)) if isinstance(value, Mapping) else None


def bounded(agents: Iterable[Agent], caps: Caps) -> None:
    """Refuse to start where a cap could not be kept.

    Raises:
        ConfigError: USD or tokens are capped and an agent's output has no bound, or USD are and it has no price.
    """
    given = [(axis, f"{key}={value}") for key, axis, value in caps.entries() if axis != "calls"]
    in_usd = next((cap for axis, cap in given if axis == "usd"), None)
    for agent in agents:
        if given and output_limit(agent) is None:
            need = "`max_tokens`" if _cap_on_wire(agent) is None else "`thinking_budget`"
            raise ConfigError(
                f"agent {agent.name}: its output has no bound, so {given[0][1]} could be passed; set {need}"
            )
        if in_usd and agent.price is None:
            hint = "give it a `price`, or cap weighted_tokens instead"
            raise ConfigError(f"agent {agent.name}: its `price` is not known, so {in_usd} could be passed; {hint}")


def worst_usage(agent: Agent, messages: Sequence[Message]) -> Usage:
    """Most tokens of one attempt, all output as visible; none where it has no bound."""
    content = sum(_utf8_bytes(message["content"]) for message in messages)
    return Usage(content + MESSAGE_TOKENS * len(messages), output_limit(agent) or 0)


def worst_case(agent: Agent, messages: Sequence[Message]) -> Spend:
    """Most that one attempt can cost. USD are None where no price is known or nothing bounds the output.

    Without such a bound the weighted tokens are those of the input alone; `bounded` keeps caps away from such agents.
    """
    return worst_spend(agent, worst_usage(agent, messages))


def worst_spend(agent: Agent, usage: Usage) -> Spend:
    """As `worst_case`, of the `worst_usage`."""
    price = agent.price
    if price is not None and (price.cached_usd or 0.0) > price.input_usd:
        usage = replace(usage, cached_tokens=usage.input_tokens)
    spend = actual(agent, usage)
    return spend if usage.output_tokens else spend._replace(usd=None)


def actual(agent: Agent, usage: Usage) -> Spend:
    """What one attempt with this usage cost; USD None where no price is known."""
    return Spend(cost_usd(agent.price, usage), usage.weighted_tokens, 1)


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def failed_spend(error: TransportError, worst: Spend) -> Spend:
    """What an attempt cost that gave no answer.

    Refused before any work was done (429 and other 4xx; nobody listened): one call and no tokens. After anything else
    (timeout, 5xx, broken connection, malformed answer; 408 and 409 too, which gateways send for timeouts) nobody knows
    what the provider bills: the worst case.
    """
    no_work = error.refused or error.kind in _NO_WORK or (error.kind != "timeout" and error.status in _CLIENT_ERRORS)
    return Spend(0.0, 0, 1) if no_work else worst


def fits_episode(cap: Cap, used: Spend, worst: Spend) -> bool:
    """Whether an episode may make a call: `used` and `worst` together within its cap.

    A function of logical usage alone, so a rerun decides alike wherever its answers come from. USD that are not known
    do not fit a cap in USD.
    """
    both = used.plus(worst)
    known = cap.usd is None or both.usd is not None
    limits = zip(_limits(cap), _units(used), _units(worst), strict=True)
    return known and all(limit is None or before + more <= limit for limit, before, more in limits)


_Units = tuple[int, int, int]
"""A `Spend` in whole numbers, USD first; those that are not known are 0."""


def _units(spend: Spend) -> _Units:
    usd, tokens, calls = spend
    return round((usd or 0.0) * _PICO), tokens, calls


def _rounded(spend: Spend) -> Spend:
    """A sum of many floats without their dust, which would refuse an exact fit: to a billionth of a dollar."""
    return spend if spend.usd is None else spend._replace(usd=round(spend.usd, 9))


def _limits(cap: Cap) -> tuple[int | None, int | None, int | None]:
    return None if cap.usd is None else round(cap.usd * _PICO), cap.weighted_tokens, cap.calls


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a budget is exhausted: the cap's key, its value, what was spent of it, and what the next attempt could cost.

    `usd` amounts are floats, the others whole numbers.
    """

    key: str
    unit: str
    cap: float
    spent: float
    needed: float

    @property
    def least(self) -> float:
        """The smallest cap, USD rounded up to 1e-4, with which that attempt can be made."""
        total = self.spent + self.needed
        return total if isinstance(total, int) else math.ceil(total * 1e4 - 1e-9) / 1e4

    def line(self, run: str = "RUN") -> str:
        """What to tell a person; `run` is the run's folder."""
        gone = f"{_plain(self.spent)} {self.unit} spent, the next attempt could cost {_plain(self.needed)}"
        more = f"resume={run} {self.key}=MORE (at least {_plain(self.least, digits=12)})"
        return f"{self.key}={_plain(self.cap, digits=12)} is reached: {gone}; go on with {more}"


def _plain(amount: float, digits: int = 6) -> str:
    """Whole numbers in full, USD to so many digits."""
    return str(amount) if isinstance(amount, int) else f"{amount:.{digits}g}"


class _Account:
    """One cap, what is gone from it (settled or reserved), and how many reservations are open."""

    __slots__ = ("_capped", "_limits", "_place", "calls", "open", "pico_usd", "priced", "shortfall", "weighted_tokens")

    def __init__(self, place: str, cap: Cap) -> None:
        self.pico_usd = 0
        self.weighted_tokens = 0
        self.calls = 0
        self.priced = True
        self.open = 0
        self.shortfall: Shortfall | None = None
        self._place = place
        self._capped = cap.given
        self._limits = _limits(cap)

    @property
    def gone(self) -> Spend:
        return Spend(self.pico_usd / _PICO if self.priced else None, self.weighted_tokens, self.calls)

    def check_priced(self, spend: Spend) -> None:
        if spend.usd is None and self._limits[0] is not None:
            hint = "its price is not known; give every agent a `price`, or cap weighted_tokens instead"
            raise ConfigError(f"{self._place}.usd cannot hold what was or would be spent: {hint}")

    def short_of(self, units: _Units) -> int | None:
        """The first axis on which `units` do not fit."""
        if self._capped:
            gone = self.pico_usd, self.weighted_tokens, self.calls
            for axis, limit in enumerate(self._limits):
                if limit is not None and gone[axis] + units[axis] > limit:
                    return axis
        return None

    def add(self, pico_usd: int, weighted_tokens: int, calls: int) -> None:
        self.pico_usd += pico_usd
        self.weighted_tokens += weighted_tokens
        self.calls += calls

    def exhaust(self, axis: int, units: _Units) -> Shortfall:
        """From now on nothing is bought on this account."""
        gone = self.pico_usd, self.weighted_tokens, self.calls
        amounts = self._limits[axis] or 0, gone[axis], units[axis]
        cap, spent, needed = amounts if axis else (amount / _PICO for amount in amounts)
        self.shortfall = Shortfall(f"{self._place}.{_AXES[axis]}", _UNIT_NAMES[axis], cap, spent, needed)
        return self.shortfall


class Charge:
    """An open reservation."""

    __slots__ = ("_spend",)

    def __init__(self, worst: Spend) -> None:
        self._spend = worst

    @property
    def spend(self) -> Spend:
        """What the attempt is taken to have cost."""
        return self._spend

    def settle(self, spend: Spend) -> None:
        """Say what the attempt did cost. USD that are not known stay at the reserve."""
        self._spend = spend if spend.usd is not None else spend._replace(usd=self._spend.usd)


class _Need(NamedTuple):
    """What an attempt needs, and from where."""

    units: _Units
    accounts: tuple[_Account, _Account]


class _Waiter(NamedTuple):
    """A heap's entry: by order, then by arrival. Its future gets None when it may go, else why it may not."""

    order: int
    arrival: int
    turn: asyncio.Future[Shortfall | None]
    need: _Need


class Budget:
    """What a run may pay, all of it, in each phase, and for grading. Belongs to one event loop.

    Settled spends and open reservations together never pass a cap, as long as no attempt costs more than its worst
    case. Where a reservation does not fit it waits until open ones have settled; those who wait are served strictly in
    their order, an earlier episode before a later one. When the first of them can hope for nothing more, the cap is
    exhausted: it, all others that draw on the cap, and all that come later are refused.

    Args:
        run: for everything that is bought.
        phases: for what each phase, and grading, buys; one that is not named has no cap.
        spent: what was bought before, of a resumed run.

    Raises:
        ConfigError: USD are capped and it is not known how many were spent.
    """

    def __init__(self, run: Cap, phases: Mapping[Bill, Cap], spent: Mapping[Bill, Spend]) -> None:
        self.capped = run.given or any(cap.given for cap in phases.values())
        self._run = _Account("budget.run", run)
        self._accounts = {
            bill: (self._run, _Account(f"budget.phases.{bill}", phases.get(bill, Cap()))) for bill in BILLS
        }
        self._waiting: list[_Waiter] = []
        self._arrivals = itertools.count()
        for bill, spend in spent.items():
            for account in self._accounts[bill]:
                account.check_priced(spend)
                account.priced &= spend.usd is not None
                account.add(*_units(_rounded(spend)))

    @asynccontextmanager
    async def attempt(self, worst: Spend, bill: Bill, order: int) -> AsyncIterator[Charge]:
        """The right to make one attempt that costs at most `worst`, for the `order`-th episode of the run.

        `Charge.settle` says what it did cost; without that it counts as `worst` for good.

        Raises:
            BudgetError: a cap is exhausted; names its key and how to go on.
            ConfigError: USD are capped and `worst` has none.
        """
        accounts = self._accounts[bill]
        for account in accounts:
            account.check_priced(worst)
        need = _Need(_units(worst), accounts)
        await self._reserve(need, order)
        charge = Charge(worst)
        try:
            yield charge
        finally:
            self._settle(need, charge.spend)

    def spent(self, bill: Bill | None = None) -> Spend:
        """What is gone, reserves of open attempts included: of one phase, of grading, or of the run."""
        return (self._accounts[bill][1] if bill else self._run).gone

    @property
    def shortfall(self) -> Shortfall | None:
        """Why something was refused: of the run's cap, else of a phase's."""
        accounts = (self._run, *(own for _, own in self._accounts.values()))
        return next((account.shortfall for account in accounts if account.shortfall), None)

    async def _reserve(self, need: _Need, order: int) -> None:
        run, own = need.accounts
        refusal = run.shortfall or own.shortfall
        if refusal is None:
            if not self._waiting and not _short(need):
                self._take(need)
                return
            refusal = await self._wait(need, order)
        if refusal is not None:
            raise BudgetError(refusal.line())

    async def _wait(self, need: _Need, order: int) -> Shortfall | None:
        turn: asyncio.Future[Shortfall | None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, _Waiter(order, next(self._arrivals), turn, need))
        self._serve()
        try:
            return await turn
        except asyncio.CancelledError:
            # It may have been served in the tick in which it was cancelled: nothing was asked, so all is given back.
            if not turn.cancelled() and turn.result() is None:
                self._settle(need, NOTHING)
            else:
                self._serve()
            raise

    def _serve(self) -> None:
        """Let in, or refuse, all whose turn it is."""
        while self._waiting:
            first = self._waiting[0]
            if not first.turn.done():
                short = _short(first.need)
                if short and all(account.open for account, _ in short):
                    return
                if short:
                    self._refuse(*next((account, axis) for account, axis in short if not account.open), first.need)
                else:
                    self._take(first.need)
                    first.turn.set_result(None)
            heappop(self._waiting)

    def _refuse(self, account: _Account, axis: int, need: _Need) -> None:
        """Nothing is open that could make room: send everybody away who draws on this account."""
        shortfall = account.exhaust(axis, need.units)
        for waiter in self._waiting:
            if account in waiter.need.accounts and not waiter.turn.done():
                waiter.turn.set_result(shortfall)

    def _take(self, need: _Need) -> None:
        for account in need.accounts:
            account.open += 1
            account.add(*need.units)

    def _settle(self, need: _Need, spend: Spend) -> None:
        """Put what was spent in the place of what was reserved."""
        (usd, tokens, calls), (reserved_usd, reserved_tokens, reserved_calls) = _units(spend), need.units
        for account in need.accounts:
            account.open -= 1
            account.priced &= spend.usd is not None
            account.add(usd - reserved_usd, tokens - reserved_tokens, calls - reserved_calls)
        self._serve()


def _short(need: _Need) -> list[tuple[_Account, int]]:
    """Accounts that have no room for it, each with its first axis."""
    run, own = need.accounts
    axes = ((run, run.short_of(need.units)), (own, own.short_of(need.units)))
    return [(account, axis) for account, axis in axes if axis is not None]
