"""Counts that a report takes of a whole ledger, streamed without the texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from trinity.runs.calls import PART_BYTES
from trinity.runs.ledger import SCHEMA, Ledger
from trinity.runs.rows import PHASES
from trinity.runs.sqlite import from_text, open_database
from trinity.types import Phase

_CHOICES = """SELECT policy, phase, turn, agent, role, COUNT(*) FROM decisions GROUP BY policy, phase, turn, agent, role
    ORDER BY 1, 2, 3, 4, 5"""
_TIMES = "SELECT substr(parts, 1, ?), latency_s FROM calls JOIN requests USING (id) ORDER BY id"


class Choices(NamedTuple):
    """How often a policy (method/variant) chose an agent in a role at a turn (from 0) of a phase's episodes."""

    policy: str
    phase: Phase
    turn: int
    agent: str
    role: str
    number: int


class CallTime(NamedTuple):
    """Seconds that an answered call took; `settings` is the key of its request's settings (`CallTable.part`)."""

    settings: bytes
    latency_s: float


def choices(ledger: Ledger) -> Iterator[Choices]:
    """The decisions of a ledger, counted.

    Raises:
        LedgerError: it cannot be read.
    """
    ledger.flush()
    with closing(open_database(ledger.path, SCHEMA, "read")) as database:
        for policy, phase, turn, agent, role, number in database.query(_CHOICES):
            yield Choices(from_text(policy), PHASES[phase], turn, from_text(agent), role, number)


def call_times(ledger: Ledger) -> Iterator[CallTime]:
    """How long each answered call took, in the order in which they were noted.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    ledger.flush()
    with closing(open_database(ledger.path, SCHEMA, "read")) as database:
        yield from map(CallTime._make, database.query(_TIMES, (PART_BYTES,)))
