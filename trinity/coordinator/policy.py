"""Policies: how a coordinator picks an agent and a role from a transcript, and how that is written down.

A sampled choice is argmax(logits + Gumbel noise) with the context's noise, agent and role apart (two independent
softmaxes, as in the authors' code), so the policy is the softmax and near-equal parameters choose alike.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trinity.canonical import digest
from trinity.context import Context
from trinity.coordinator.encoder import Encoder
from trinity.coordinator.heads import Head
from trinity.coordinator.protocol import Choice, Policy
from trinity.errors import LedgerError
from trinity.runs.ledger import Ledger
from trinity.runs.rows import DecisionKey, DecisionRow
from trinity.types import ROLES

ROUNDING = 1e-5
"""Relative; the ledger keeps logits in single precision."""


def draw_noise(agents: Sequence[str], turn: int, context: Context, *, sampled: bool) -> NDArray[np.float64]:
    """Gumbel noise for agents and roles, shape (L + 3,); zeros for an argmax policy."""
    labels = [*(f"agent:{name}" for name in agents), *(f"role:{role}" for role in ROLES)]
    return context.gumbel(turn, labels) if sampled else np.zeros(len(labels))


def pick(logits: NDArray[np.float64], noise: NDArray[np.float64]) -> tuple[int, int]:
    """Indices of the chosen agent and role; the first of equals."""
    total = logits + noise
    n_agents = len(total) - len(ROLES)
    return int(np.argmax(total[:n_agents])), int(np.argmax(total[n_agents:]))


def decision_key(policy: str, turn: int, context: Context) -> DecisionKey:
    """Where a decision of this policy at a turn of the round stands in the ledger."""
    return DecisionKey(policy, context.item.task, context.item.item_id, context.replicate, context.turn(turn))


@dataclass(frozen=True)
class HeadPolicy:
    """Encoder + head + theta; every decision goes to the ledger."""

    name: str
    agents: Sequence[str]
    encoder: Encoder
    head: Head
    theta: NDArray[np.float64]
    sampled: bool
    ledger: Ledger

    async def choose(self, chunks: tuple[str, ...], turn: int, context: Context) -> Choice:
        """Encode, score, add noise, take the largest."""
        state = await self.encoder.encode(chunks)
        logits = self.head.logits(self.theta, state.vector)
        noise = draw_noise(self.agents, turn, context, sampled=self.sampled)
        return _decided(self, chunks, decision_key(self.name, turn, context), logits, noise, state.tokens)


@dataclass(frozen=True)
class RandomPolicy:
    """Uniform over agents and roles: equal logits under the context's noise."""

    name: str
    agents: Sequence[str]
    ledger: Ledger

    async def choose(self, chunks: tuple[str, ...], turn: int, context: Context) -> Choice:
        """Draw agent and role."""
        noise = draw_noise(self.agents, turn, context, sampled=True)
        return _decided(self, chunks, decision_key(self.name, turn, context), np.zeros_like(noise), noise, 0)


def _decided(
    policy: HeadPolicy | RandomPolicy,
    chunks: tuple[str, ...],
    key: DecisionKey,
    logits: NDArray[np.float64],
    noise: NDArray[np.float64],
    tokens: int,
) -> Choice:
    """The choice that logits and noise give, written to the policy's ledger."""
    agent, role = pick(logits, noise)
    chosen = policy.agents[agent], ROLES[role]
    policy.ledger.add_decision(DecisionRow(key, digest(chunks), logits.astype(np.float32), noise, *chosen, tokens))
    return Choice(agent, ROLES[role], tokens)


@dataclass(frozen=True)
class RecordedPolicy:
    """Decisions of an earlier run, taken from its ledger `source` and copied to `ledger`.

    `checked` hears of every decision and its transcript.
    """

    name: str
    agents: Sequence[str]
    sampled: bool
    source: Ledger
    ledger: Ledger
    checked: Callable[[DecisionRow, tuple[str, ...]], Awaitable[None]] | None = None

    async def choose(self, chunks: tuple[str, ...], turn: int, context: Context) -> Choice:
        """Look the decision up.

        Raises:
            LedgerError: it is not there, or was made on another transcript.
        """
        key = decision_key(self.name, turn, context)
        row = self.source.decision(key)
        place = (
            f"{self.name} on {key.task}/{key.item_id} {key.replicate.phase}#{key.replicate.index} turn {key.turn + 1}"
        )
        if row is None:
            raise LedgerError(f"the ledger has no decision of {place}; the run is unfinished or its ledger was changed")
        if row.transcript_hash != digest(chunks):
            raise LedgerError(f"the decision of {place} was made on another transcript; prompts or ledger have changed")
        if not self._follows(row, draw_noise(self.agents, turn, context, sampled=self.sampled)):
            raise LedgerError(f"the decision of {place} does not follow from its logits and noise; it was changed")
        if self.checked is not None:
            await self.checked(row, chunks)
        self.ledger.add_decision(row)
        return Choice(list(self.agents).index(row.agent), row.role, row.encoder_tokens)

    def _follows(self, row: DecisionRow, noise: NDArray[np.float64]) -> bool:
        """Whether the stored choice is the largest sum, up to the rounding of the stored logits."""
        if row.agent not in self.agents or row.role not in ROLES or not np.array_equal(row.noise, noise):
            return False
        total, n_agents = row.logits + noise, len(self.agents)
        agent, role = list(self.agents).index(row.agent), n_agents + ROLES.index(row.role)
        slack = ROUNDING * max(1.0, float(np.max(np.abs(total))))
        return bool(
            total[agent] >= np.max(total[:n_agents]) - slack and total[role] >= np.max(total[n_agents:]) - slack
        )


class Policies(Protocol):
    """Makes policies over one encoder."""

    @property
    def d(self) -> int:
        """Size of the encoder's state."""
        ...

    def make(
        self, name: str, agents: Sequence[str], head: Head, theta: NDArray[np.float64], *, sampled: bool
    ) -> Policy:
        """A policy that writes its decisions down, or takes them from where they are written."""
        ...


class LivePolicies:
    """Policies that encode and decide; the encoder is built when it is first needed."""

    def __init__(self, build: Callable[[], Encoder], ledger: Ledger) -> None:
        """`build` gives the encoder and is called at most once."""
        self._build, self._ledger = build, ledger

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder that all policies share."""
        return self._build()

    @property
    def d(self) -> int:
        """Size of the encoder's state."""
        return self.encoder.d

    def make(
        self, name: str, agents: Sequence[str], head: Head, theta: NDArray[np.float64], *, sampled: bool
    ) -> HeadPolicy:
        """A deciding policy."""
        return HeadPolicy(name, agents, self.encoder, head, theta, sampled, self._ledger)


@dataclass(frozen=True)
class RecordedPolicies:
    """Policies that repeat the decisions of a ledger."""

    d: int
    source: Ledger
    ledger: Ledger

    def make(
        self, name: str, agents: Sequence[str], head: Head, theta: NDArray[np.float64], *, sampled: bool
    ) -> RecordedPolicy:
        """A repeating policy; theta does not matter to it."""
        del head, theta
        return RecordedPolicy(name, agents, sampled, self.source, self.ledger)


class RecomputingPolicies:
    """Policies that repeat a ledger's decisions and hold encoder and head of today against them.

    Attributes:
        largest: the largest difference between a stored and a recomputed logit.
        flipped: decisions that would be others today, of `decisions`.
    """

    def __init__(self, encoder: Encoder, source: Ledger, ledger: Ledger) -> None:
        """Nothing is compared yet."""
        self.encoder, self._source, self._ledger = encoder, source, ledger
        self.largest, self.flipped, self.decisions = 0.0, 0, 0

    @property
    def d(self) -> int:
        """Size of the encoder's state."""
        return self.encoder.d

    def make(
        self, name: str, agents: Sequence[str], head: Head, theta: NDArray[np.float64], *, sampled: bool
    ) -> RecordedPolicy:
        """A repeating policy that counts what differs."""

        async def compare(row: DecisionRow, chunks: tuple[str, ...]) -> None:
            state = await self.encoder.encode(chunks)
            logits = head.logits(theta, state.vector)
            agent, role = pick(logits, row.noise)
            self.decisions += 1
            self.flipped += (agents[agent], ROLES[role]) != (row.agent, row.role)
            self.largest = max(self.largest, float(np.max(np.abs(logits.astype(np.float32) - row.logits))))

        return RecordedPolicy(name, agents, sampled, self._source, self._ledger, compare)
