"""Faults as a function of (request hash, attempt), and what must come of a request that meets them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Self

from trinity.errors import ConfigError
from trinity.llm.pricing import CountTokens, estimated_usage, rough_tokens
from trinity.llm.transports.base import Reply, Request
from trinity.naming import did_you_mean
from trinity.types import Usage


class Fault(StrEnum):
    """What the server does to one attempt; the value is its name in files and in prompts."""

    OK = "ok"
    RATE_LIMIT = "rate_limit"  # 429
    RATE_LIMIT_AFTER = "rate_limit_after"  # 429 with Retry-After
    SERVER_ERROR = "server_error"  # 500
    REQUEST_TIMEOUT = "request_timeout"  # 408
    CONFLICT = "conflict"  # 409
    HANG = "hang"  # no byte until the client leaves
    CLOSED = "closed"  # the connection ends before any answer
    CUT = "cut"  # it ends in the middle of the body
    HALF_JSON = "half_json"  # a whole body of status 200 that holds half of the JSON
    HTML = "html"  # a gateway's page with status 200
    WRONG_SHAPE = "wrong_shape"  # JSON of status 200 that is no completion
    EMPTY = "empty"  # hidden tokens only, finish reason stop
    TRUNCATED = "truncated"  # the first half of the text, finish reason length
    FILTERED = "filtered"  # the first half of the text, finish reason content_filter
    NO_USAGE = "no_usage"  # a good answer that does not say what it cost
    SLOW = "slow"  # a good answer after a wait
    TOO_LONG = "too_long"  # 400, the context is too long
    TOO_LARGE = "too_large"  # 413
    FILTERED_REQUEST = "filtered_request"  # 400, the content filter
    BAD_REQUEST = "bad_request"  # 400 for any other reason
    UNPROCESSABLE = "unprocessable"  # 422
    UNAUTHORIZED = "unauthorized"  # 401
    PAYMENT_REQUIRED = "payment_required"  # 402
    FORBIDDEN = "forbidden"  # 403
    NOT_FOUND = "not_found"  # 404


REFUSALS: Mapping[Fault, tuple[int, str, str]] = {
    Fault.RATE_LIMIT: (429, "rate_limit_exceeded", "Rate limit reached."),
    Fault.RATE_LIMIT_AFTER: (429, "rate_limit_exceeded", "Rate limit reached."),
    Fault.SERVER_ERROR: (500, "server_error", "The server had an error."),
    Fault.REQUEST_TIMEOUT: (408, "timeout", "Request timed out."),
    Fault.CONFLICT: (409, "conflict", "Locked by another request."),
    Fault.TOO_LONG: (400, "context_length_exceeded", "This model's maximum context length is 8 tokens."),
    Fault.TOO_LARGE: (413, "", "Request Entity Too Large"),
    Fault.FILTERED_REQUEST: (400, "content_filter", "The prompt was filtered."),
    Fault.BAD_REQUEST: (400, "invalid_request_error", "Unknown parameter."),
    Fault.UNPROCESSABLE: (422, "validation_error", "Input should be a valid integer."),
    Fault.UNAUTHORIZED: (401, "invalid_api_key", "Incorrect API key provided."),
    Fault.PAYMENT_REQUIRED: (402, "insufficient_balance", "Insufficient balance."),
    Fault.FORBIDDEN: (403, "forbidden", "Your country is not supported."),
    Fault.NOT_FOUND: (404, "model_not_found", "The model does not exist."),
}
"""HTTP status, error code and message of faults in which no model is asked."""

WASTED = frozenset({Fault.HANG, Fault.CLOSED, Fault.CUT, Fault.HALF_JSON, Fault.HTML, Fault.WRONG_SHAPE})
"""The model worked, but its answer never arrives whole; a provider may bill it all the same."""

_RETRIED = WASTED | {
    *(Fault.RATE_LIMIT, Fault.RATE_LIMIT_AFTER, Fault.SERVER_ERROR, Fault.REQUEST_TIMEOUT, Fault.CONFLICT),
}
_STOPPING = frozenset({Fault.UNAUTHORIZED, Fault.PAYMENT_REQUIRED, Fault.FORBIDDEN, Fault.NOT_FOUND})

PRESETS: Mapping[str, Mapping[Fault, float]] = {
    "none": {},
    "mixed": {
        Fault.RATE_LIMIT: 0.05,
        Fault.RATE_LIMIT_AFTER: 0.05,
        Fault.SERVER_ERROR: 0.05,
        Fault.HANG: 0.02,
        Fault.CLOSED: 0.01,
        Fault.CUT: 0.01,
        Fault.HALF_JSON: 0.01,
        Fault.HTML: 0.005,
        Fault.WRONG_SHAPE: 0.005,
        Fault.EMPTY: 0.02,
        Fault.TRUNCATED: 0.03,
        Fault.NO_USAGE: 0.03,
    },
}
"""Rates by name. `mixed`: about every fourth attempt meets what providers do on a bad day."""

_MARKER = re.compile(r"\[fault ([a-z_]+)(?: (\d+))?\]")
_UNIT = float(2**64)

Predicate = Callable[[Request, int], Fault | None]


def fault_marker(fault: Fault, attempts: int | None = None) -> str:
    """A text for a prompt that makes its first `attempts` attempts (None: all) meet `fault`."""
    return f"[fault {fault}]" if attempts is None else f"[fault {fault} {attempts}]"


def marked(request: Request, attempt: int) -> Fault | None:
    """The fault that the first marker in the request's messages asks for at this attempt (from 0)."""
    found = _MARKER.search("\n".join(message["content"] for message in request.messages))
    if found is None or found[1] not in set(Fault):
        return None
    return Fault(found[1]) if found[2] is None or attempt < int(found[2]) else None


@dataclass(frozen=True, slots=True)
class Faults:
    """Which attempt meets which fault: a function of request hash and attempt, and of nothing else.

    `rates` are probabilities, `seed` makes another function of the same rates. `scripted` is asked first: by default
    it reads `fault_marker` in the prompt. `retry_after_s` and `slow_s` are in seconds.
    """

    rates: Mapping[Fault, float] = field(default_factory=dict)
    seed: int = 0
    scripted: Predicate = marked
    retry_after_s: float = 0.01
    slow_s: float = 0.05

    def __post_init__(self) -> None:
        """Refuse rates that are no probabilities."""
        if any(rate < 0 for rate in self.rates.values()) or sum(self.rates.values()) > 1 + 1e-9:
            raise ConfigError("faults: rates must be at least 0 and add up to at most 1")

    def of(self, request_hash: str, attempt: int) -> Fault:
        """The fault of the `attempt`-th (from 0) receipt of a request."""
        drawn = blake2b(f"{self.seed}:{request_hash}:{attempt}".encode(), digest_size=8).digest()
        left = int.from_bytes(drawn, "big") / _UNIT
        for fault, rate in self.rates.items():
            left -= rate
            if left < 0:
                return fault
        return Fault.OK

    def on(self, request: Request, attempt: int) -> Fault:
        """What the server does: the scripted fault where there is one, else the drawn one."""
        return self.scripted(request, attempt) or self.of(request.hash, attempt)

    @classmethod
    def read(cls, source: str, seed: int = 0) -> Self:
        """From the name of a preset, or from a JSON file `{"rates": {FAULT: RATE}, "retry_after_s": ...}`.

        Raises:
            ConfigError: there is no such preset or file, or the file holds something else.
        """
        if source in PRESETS:
            return cls(PRESETS[source], seed)
        try:
            content = json.loads(Path(source).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"faults: no preset and no JSON file {source} ({error}); {_presets()}") from None
        return cls._from_json(source, content, seed)

    @classmethod
    def _from_json(cls, source: str, content: Any, seed: int) -> Self:
        if not isinstance(content, dict) or not isinstance(content.get("rates", {}), dict):
            raise ConfigError(f'faults: {source} must hold an object like {{"rates": {{"hang": 0.02}}}}')
        rates = {_fault(source, name): _number(source, rate) for name, rate in content.get("rates", {}).items()}
        rest = {name: value for name, value in content.items() if name != "rates"}
        for name in rest:
            if name not in ("retry_after_s", "slow_s"):
                keys = ("rates", "retry_after_s", "slow_s")
                raise ConfigError(f"faults: {source}: unknown key {name!r}; {did_you_mean(name, keys)}")
        waits: dict[str, Any] = {name: _number(source, value) for name, value in rest.items()}
        return cls(rates, seed, **waits)


def _presets() -> str:
    return f"presets are {', '.join(PRESETS)}"


def _fault(source: str, name: str) -> Fault:
    if name not in set(Fault):
        raise ConfigError(f"faults: {source}: unknown fault {name!r}; {did_you_mean(name, list(Fault))}")
    return Fault(name)


def _number(source: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ConfigError(f"faults: {source}: {value!r} must be a number of at least 0")
    return float(value)


def altered(fault: Fault, reply: Reply) -> Reply:
    """What the model answers, changed where `fault` touches the answer itself; its usage is the true one."""
    usage = replace(reply.usage or Usage(), estimated=False)
    half = reply.text[: len(reply.text) // 2]
    match fault:
        case Fault.EMPTY:
            hidden = usage.output_tokens + usage.reasoning_tokens
            return Reply("", "", "stop", replace(usage, output_tokens=0, reasoning_tokens=hidden))
        case Fault.TRUNCATED:
            return replace(reply, text=half, finish_reason="length", usage=_half(usage, half))
        case Fault.FILTERED:
            return replace(reply, text=half, finish_reason="content_filter", usage=_half(usage, half))
        case _:
            return replace(reply, usage=usage)


def _half(usage: Usage, text: str) -> Usage:
    return replace(usage, output_tokens=min(usage.output_tokens, rough_tokens(text)))


Outcome = Literal["answered", "no_answer", "truncated", "refused", "error", "stopped"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come of one call.

    `outcome`: `answered` (to be graded), `stopped` (the run ends with a line that helps), else the status of an
    episode that is this one call. `reply` is what the episode is given and billed (None: nothing), `faults` what each
    attempt met, and `billed` the true tokens of all complete answers, an empty one that was asked again included.
    """

    outcome: Outcome
    reply: Reply | None
    faults: tuple[Fault, ...]
    billed: Usage

    @property
    def attempts(self) -> int:
        """How often the request is received."""
        return len(self.faults)


def expected(
    request: Request,
    script: Callable[[Request], Reply],
    faults: Faults,
    attempts: int,
    *,
    count_tokens: CountTokens = rough_tokens,
) -> Expected:
    """The outcome of `request` for a client that makes at most `attempts` attempts, as the design's table has it.

    `count_tokens` is what the client counts with where no usage is reported. Agents whose every request fails are the
    client's business: here each request stands alone.
    """
    met: list[Fault] = []
    spent, billed, emptied = Usage(), Usage(), False
    while True:
        fault = faults.on(request, len(met))
        met.append(fault)
        if fault in _RETRIED:
            if len(met) < attempts:
                continue
            return Expected("error", None, tuple(met), billed)
        if fault in REFUSALS:
            return _refused(fault, tuple(met), spent, billed)
        reply = altered(fault, script(request))
        billed += reply.usage or Usage()
        if fault is Fault.NO_USAGE:
            guess = estimated_usage(request.messages, reply.text, reply.reasoning, count_tokens)
            reply = replace(reply, usage=guess)
        spent += reply.usage or Usage()
        if emptied or not _is_empty(reply):
            return Expected(_outcome(reply), replace(reply, usage=spent), tuple(met), billed)
        emptied = True


def _is_empty(reply: Reply) -> bool:
    return reply.finish_reason == "stop" and not reply.text.strip()


def _outcome(reply: Reply) -> Outcome:
    outcomes: Mapping[str, Outcome] = {"length": "truncated", "context": "truncated", "content_filter": "refused"}
    return outcomes.get(reply.finish_reason, "no_answer" if _is_empty(reply) else "answered")


def _refused(fault: Fault, met: tuple[Fault, ...], spent: Usage, billed: Usage) -> Expected:
    """The end of a request that a status refuses and that is not sent again."""
    if fault in _STOPPING:
        return Expected("stopped", None, met, billed)
    if fault in (Fault.TOO_LONG, Fault.TOO_LARGE):
        return Expected("truncated", Reply("", "", "context", spent), met, billed)
    if fault is Fault.FILTERED_REQUEST:
        return Expected("refused", Reply("", "", "content_filter", spent), met, billed)
    return Expected("error", None, met, billed)
