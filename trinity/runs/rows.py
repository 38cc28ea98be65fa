"""What a ledger holds, as shapes and as the rows that keep them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from trinity.runs.records import COLUMNS
from trinity.runs.sqlite import Row, from_text, pack, to_text, unpack
from trinity.types import NOTHING, Item, Phase, Price, Record, Replicate, Role, Spend, Split, Usage

# Phases are stored as numbers, so that the primary key gives the canonical order.
PHASES: tuple[Phase, ...] = get_args(Phase)
_TUPLES: tuple[tuple[int, Callable[[list[Any]], Any]], ...] = (
    (COLUMNS.index("replicate"), Replicate._make),
    (COLUMNS.index("call_ids"), tuple),
)
_values = attrgetter(*COLUMNS)


class CallUse(NamedTuple):
    """How this run came by a call: `paid` when it bought it, False when an earlier run had; price None = unknown.

    `grading` when it was made to grade an answer.
    """

    request_hash: str
    paid: bool
    price: Price | None
    grading: bool = False


class Totals(NamedTuple):
    """Distinct calls of a run and their tokens, by who bought them; what all attempts cost, failed ones included."""

    paid_calls: int
    reused_calls: int
    paid: Usage
    reused: Usage
    spent: Spend = NOTHING


class Attempt(NamedTuple):
    """A failed attempt: `attempt` counts from 1 within its request, `status` is the HTTP status if there was one."""

    request_hash: str
    attempt: int
    kind: str
    status: int | None
    detail: str


class DecisionKey(NamedTuple):
    """Where a policy chose: `policy` is method and variant, `turn` counts from the episode's start."""

    policy: str
    task: str
    item_id: str
    replicate: Replicate
    turn: int


@dataclass(frozen=True, slots=True, eq=False)
class DecisionRow:
    """One choice: `logits` (L + 3,) float32, `noise` (L + 3,) float64, and what came of them."""

    key: DecisionKey
    transcript_hash: str
    logits: NDArray[np.float32]
    noise: NDArray[np.float64]
    agent: str
    role: Role
    encoder_tokens: int


class RecordKey(NamedTuple):
    """What tells the records of one run apart."""

    method: str
    variant: str
    task: str
    split: Split
    item_id: str
    replicate: Replicate
    seed: int

    @classmethod
    def of(cls, record: Record) -> RecordKey:
        """The key of `record`."""
        return cls._make(getattr(record, name) for name in cls._fields)


@lru_cache
def packed_price(price: Price) -> bytes:
    """A price as JSON; a run knows few and notes them with every call."""
    return pack(asdict(price))


def item_content(item: Item) -> bytes:
    """An item as JSON."""
    return pack({field.name: getattr(item, field.name) for field in fields(Item)})


def item_from(content: bytes) -> Item:
    """The inverse of `item_content`."""
    return Item(**unpack(content))


def decision_place(key: DecisionKey) -> Row:
    """The columns of a decision's primary key."""
    phase, index = key.replicate
    return (to_text(key.policy), to_text(key.task), to_text(key.item_id), PHASES.index(phase), index, key.turn)


def decision_values(row: DecisionRow) -> Row:
    """The columns of a decision; arrays as little-endian bytes."""
    return (
        *decision_place(row.key),
        row.transcript_hash,
        np.asarray(row.logits, "<f4").tobytes(),
        np.asarray(row.noise, "<f8").tobytes(),
        to_text(row.agent),
        row.role,
        row.encoder_tokens,
    )


def decision_from(found: Row) -> DecisionRow:
    """The inverse of `decision_values`."""
    policy, task, item_id, phase, index, turn, transcript, logits, noise, agent, role, tokens = found
    return DecisionRow(
        key=DecisionKey(from_text(policy), from_text(task), from_text(item_id), Replicate(PHASES[phase], index), turn),
        transcript_hash=transcript,
        logits=np.frombuffer(logits, "<f4").astype(np.float32),
        noise=np.frombuffer(noise, "<f8").astype(np.float64),
        agent=from_text(agent),
        role=role,
        encoder_tokens=tokens,
    )


def record_values(record: Record) -> Row:
    """The columns of a record."""
    return (*record_place(RecordKey.of(record)), record.status, pack(_values(record)))


def record_from(content: bytes) -> Record:
    """The record of a list of its columns, which is read twice as fast as an object."""
    values = unpack(content)
    for place, kind in _TUPLES:
        values[place] = kind(values[place])
    return Record(*values)


def record_place(key: RecordKey) -> Row:
    """The columns of a record's primary key."""
    phase, index = key.replicate
    texts = (key.method, key.variant, key.task, key.split, key.item_id)
    return (*map(to_text, texts), PHASES.index(phase), index, key.seed)
