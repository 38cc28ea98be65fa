"""What passes between the client and whatever answers: request, reply, failure and the two-method transport."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from trinity.runs.calls import CALL_ID_DIGITS, message_json
from trinity.runs.sqlite import pack
from trinity.types import FinishReason, Message, PoolKind, Replicate, Usage

ErrorKind = Literal["rate_limit", "server", "timeout", "connection", "malformed", "bad_request", "fatal"]

LARGEST_SEED = 0x7FFF_FFFF
MOST_TOKENS = 2**40
_FINISH_REASONS = get_args(FinishReason)


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that shapes an answer, so that equal requests are one call.

    `replicate` and `sample` are None for deterministic agents, whose answer they cannot change. Mappings and
    messages must be plain JSON values and must not change after the request was made: the hash is kept.
    """

    endpoint_id: str
    model: str
    messages: tuple[Message, ...]
    sampling: Mapping[str, Any]
    extra_body: Mapping[str, Any]
    replicate: Replicate | None = None
    sample: int | None = None
    _hash: str = field(default="", init=False, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """The hashed content as plain JSON values."""
        return {
            "endpoint_id": self.endpoint_id,
            "model": self.model,
            "messages": list(self.messages),
            "sampling": self.sampling,
            "extra_body": self.extra_body,
            "replicate": None if self.replicate is None else list(self.replicate),
            "sample": self.sample,
        }

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of the canonical JSON of `to_json()`."""
        if not self._hash:
            object.__setattr__(self, "_hash", Template.of(self).hash(self))
        return self._hash

    @property
    def call_id(self) -> str:
        """The first 16 hex digits of the hash."""
        return self.hash[:CALL_ID_DIGITS]

    @property
    def seed(self) -> int:
        """Seed for the wire: the hash's first four bytes without the sign bit, so that it fits any server's integer.

        llama.cpp reads 2**32 - 1 as "draw a seed", which 31 bits cannot hit.
        """
        return int(self.hash[:8], 16) & LARGEST_SEED


@dataclass(frozen=True, slots=True)
class Template:
    """What all requests of one agent share, with its canonical JSON made once: it is hashed at every call."""

    endpoint_id: str
    model: str
    sampling: Mapping[str, Any]
    extra_body: Mapping[str, Any]
    _parts: tuple[bytes, bytes, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Write the parts before, between and after what differs; keys are sorted."""
        head = pack({"endpoint_id": self.endpoint_id, "extra_body": dict(self.extra_body)})
        model = pack({"model": self.model})
        tail = pack({"sampling": dict(self.sampling)})
        parts = (b'%b,"messages":[' % head[:-1], b'],%b,"replicate":' % model[1:-1], b",%b" % tail[1:])
        object.__setattr__(self, "_parts", parts)

    @classmethod
    def of(cls, request: Request) -> Template:
        """The template that `request` could have been made from."""
        return cls(request.endpoint_id, request.model, request.sampling, request.extra_body)

    def hash(self, request: Request) -> str:
        """As `Request.hash` of a request that has these settings."""
        return self._hash(self._begun(request.messages, request.replicate), request.sample)

    def _begun(self, messages: Iterable[Message], replicate: Replicate | None) -> hashlib._Hash:
        """The hash of canonical JSON up to the sample number, made once: transcripts are long."""
        head, model, _ = self._parts
        place = "null" if replicate is None else f'["{replicate[0]}",{replicate[1]}]'
        listed = b",".join([message_json(message["role"], message["content"]) for message in messages])
        return hashlib.sha256(b'%b%b%b%b,"sample":' % (head, listed, model, place.encode()))

    def _hash(self, begun: hashlib._Hash, sample: int | None) -> str:
        begun.update((b"null" if sample is None else b"%d" % sample) + self._parts[2])
        return begun.hexdigest()

    def request(
        self,
        messages: Iterable[Message],
        replicate: Replicate | None,
        number: Callable[[str], int] | None = None,
    ) -> Request:
        """A request, with messages of its own, so that a caller may go on changing its list.

        `number` gives the sample number of what equal requests have in common; None leaves it out.
        """
        own: tuple[Message, ...] = tuple([{"role": one["role"], "content": one["content"]} for one in messages])
        begun = self._begun(own, replicate)
        sample = None if number is None else number(begun.hexdigest() + self._parts[2].decode())
        request = Request(self.endpoint_id, self.model, own, self.sampling, self.extra_body, replicate, sample)
        object.__setattr__(request, "_hash", self._hash(begun, sample))
        return request


@dataclass(frozen=True, slots=True)
class Reply:
    """One complete answer. `usage` is None when the provider reported none."""

    text: str
    reasoning: str
    finish_reason: FinishReason
    usage: Usage | None


def checked(reply: Any) -> Reply:
    """`reply`, if it is one that can be kept: a transport may be somebody else's.

    Raises:
        TransportError: it is none, or one of its parts is not what it must be.
    """
    if not isinstance(reply, Reply):
        raise TransportError("bad_request", f"the transport returned a {type(reply).__name__}, not a Reply")
    told: tuple[Any, ...] = (reply.text, reply.reasoning, reply.usage)  # whatever their annotations say
    text, reasoning, usage = told
    if type(text) is not str or type(reasoning) is not str or reply.finish_reason not in _FINISH_REASONS:
        raise TransportError("bad_request", "the transport returned a Reply whose text or finish reason is none")
    if usage is not None and not (type(usage) is Usage and _is_possible(usage)):
        raise TransportError("bad_request", "the transport returned a usage that is not whole numbers of at least 0")
    return reply


def _is_possible(usage: Usage) -> bool:
    counts = (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cached_tokens)
    return all(type(count) is int and 0 <= count < MOST_TOKENS for count in counts) and counts[3] <= counts[0]


class TransportError(Exception):
    """One attempt failed.

    Attributes:
        kind: what decides whether and how it is tried again. `bad_request`: this request can never succeed.
            `fatal`: no request to this endpoint can (credentials, model name, URL); the text says what to set.
        retry_after: seconds that the provider asked to wait.
        status: HTTP status, where there was one.
        refused: no connection came about at all, so it may be that nobody listens.
    """

    def __init__(
        self,
        kind: ErrorKind,
        detail: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        refused: bool = False,
    ) -> None:
        """`detail` is for a person and holds neither keys nor headers."""
        super().__init__(detail)
        self.kind: ErrorKind = kind
        self.retry_after = retry_after
        self.status = status
        self.refused = refused


class Transport(Protocol):
    """Whatever answers requests: two methods and the facts that runs record about it."""

    kind: PoolKind

    @property
    def endpoint_id(self) -> str:
        """Stable name of what answers, a part of the request hash; never holds a secret."""
        ...

    def settings(self) -> dict[str, Any]:
        """Threads, slots, engine and the like for the manifest: plain JSON values without secrets."""
        ...

    async def send(self, request: Request, seed: int) -> Reply:
        """One attempt at an answer; `seed` goes on the wire where the endpoint takes one.

        Raises:
            TransportError: the attempt failed; its kind says how.
            EndpointError: nothing can be asked here before a person changes something.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and processes; a second call does nothing."""
        ...
