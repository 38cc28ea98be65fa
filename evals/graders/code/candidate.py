"""A candidate's process: what runs in it, how it is loaded, and how its answers are heard."""

from __future__ import annotations

from evals.graders.code.harness import PRELOAD, harness, message, read
from evals.sandbox.base import Program, Session

_MAX_REPORT = 4096


class GoneError(Exception):
    """The process has ended, or has closed its channel."""


def program() -> Program:
    """What runs in the process: it loads a candidate and answers calls of its functions."""
    return Program(harness("wire", "channel", "serve"), preload=PRELOAD)


async def load(session: Session, source: str, *, starter: str = "", recursion: int = 0) -> str | None:
    """Load a candidate; what was wrong with it, None = nothing.

    Args:
        session: its process.
        source: the candidate.
        starter: what is run before it.
        recursion: calls within calls that it may make; 0 = as many as Python lets it.

    Raises:
        GoneError: the process has ended.
    """
    told = read(await asked(session, message(source=source, starter=starter, recursion=recursion)), _MAX_REPORT) or {}
    return None if told.get("ready") is True else f"does not load: {str(told.get('broken', 'broken message'))[:100]}"


async def asked(session: Session, line: bytes) -> bytes:
    """What the candidate says to a message.

    Raises:
        GoneError: the process has ended.
    """
    await session.send(line)
    answer = await session.receive()
    if answer is None:
        raise GoneError
    return answer
