"""Answers from a script instead of a model, for tests and examples."""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trinity.canonical import sha256
from trinity.llm.pricing import estimated_usage, rough_tokens
from trinity.llm.transports.base import Reply, Request
from trinity.types import PoolKind

Answer = Callable[[Request], Reply | Exception | Awaitable[Reply | Exception]]

_MARKER = re.compile(r"\[skill (?P<domain>[^|\]]+?) *\| *right (?P<right>[^|\]]*?) *\| *wrong (?P<wrong>[^|\]]*?) *\]")
_UNIT = float(2**52)


class ScriptedTransport:
    """Answers every request by calling `answer`; an exception that it returns or raises is a failed attempt.

    Attributes:
        sent: how often each request hash was asked; `sent.total()` counts all.
    """

    kind: PoolKind = "scripted"

    def __init__(
        self, answer: Answer, latency: Callable[[], float] | None = None, *, endpoint_id: str = "scripted"
    ) -> None:
        """`latency` draws the seconds that one answer takes; without it an answer takes none."""
        self._answer = answer
        self._latency = latency
        self._endpoint_id = endpoint_id
        self.sent: Counter[str] = Counter()

    @property
    def endpoint_id(self) -> str:
        """As given."""
        return self._endpoint_id

    def settings(self) -> dict[str, Any]:
        """Nothing but the engine."""
        return {"engine": "scripted"}

    async def send(self, request: Request, seed: int) -> Reply:
        """What the script says."""
        self.sent[request.hash] += 1
        if self._latency is not None:
            await asyncio.sleep(self._latency())
        reply = self._answer(request)
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def close(self) -> None:
        """Nothing to let go of."""


def reply_to(request: Request, text: str) -> Reply:
    """A finished reply of `text` whose usage counts bytes / 4 as tokens."""
    usage = estimated_usage(request.messages, text, "", rough_tokens)
    return Reply(text, "", "stop", usage)


@dataclass(frozen=True, slots=True)
class SkillScript:
    """Answers right with the probability that `skills[model][domain]` gives, 0 where it gives none.

    The question holds a marker `[skill DOMAIN | right TEXT | wrong TEXT]`; the first one counts and its text is the
    answer as it is. Whether an answer is right is a function of the request alone.
    """

    skills: Mapping[str, Mapping[str, float]]

    def __call__(self, request: Request) -> Reply:
        """The right or the wrong text of the marker; without a marker, that there is none."""
        found = _MARKER.search("\n".join(message["content"] for message in request.messages))
        if found is None:
            return reply_to(request, "I do not know.")
        right = self.draw(request) < self.skills.get(request.model, {}).get(found["domain"], 0.0)
        return reply_to(request, found["right"] if right else found["wrong"])

    def draw(self, request: Request) -> float:
        """A number in [0, 1) that belongs to this request."""
        return int(sha256(request.hash)[:13], 16) / _UNIT


def marker(domain: str, right: str, wrong: str) -> str:
    """The marker that `SkillScript` reads; its parts must hold neither `|` nor `]`."""
    return f"[skill {domain} | right {right} | wrong {wrong}]"


def skills(
    skills: Mapping[str, Mapping[str, float]],
    latency_ms: Sequence[float] | None = None,
    endpoint_id: str = "scripted:skills",
) -> ScriptedTransport:
    """A transport of agents with known skills, for a config.

    `latency_ms` are bounds between which each latency is drawn from the operating system's randomness, so that the
    order of answers differs from run to run while their content does not.
    """
    if latency_ms is None:
        return ScriptedTransport(SkillScript(skills), endpoint_id=endpoint_id)
    low, high = latency_ms
    draw = random.SystemRandom().uniform
    return ScriptedTransport(SkillScript(skills), lambda: draw(low, high) / 1000.0, endpoint_id=endpoint_id)
