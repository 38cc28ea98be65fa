"""What is graded, what comes of it, and how the end of a program is told."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass

from evals.sandbox.base import Outcome
from trinity.errors import GraderError

VERSION = "code/1"

_ENDS = {
    "cpu": "took too much CPU time",
    "idle": "waited too long",
    "wall": "took too long",
    "memory": "took too much memory",
    "output": "printed too much",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a program passed.

    Attributes:
        passed: it did.
        detail: one line for people: which test, and what went wrong; never what was expected. It may hold words of the
            program.
    """

    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class StdioTest:
    """What a program reads from standard input, and what it must write to standard output."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class CallTest:
    """What a function is called with, and what it must return; plain values, as JSON or Python literals give them."""

    arguments: tuple[object, ...]
    expected: object


def passed(tests: int) -> Verdict:
    """The verdict on a program that passed them all."""
    return Verdict(passed=True, detail=f"{tests} test{'s' * (tests != 1)} passed")


def failed(detail: str) -> Verdict:
    """The verdict on a program that did not pass."""
    return Verdict(passed=False, detail=detail)


def ended(outcome: Outcome) -> str:
    """How a program ended that should not have ended so."""
    if outcome.end == "exited":
        return f"crashed (exit code {outcome.code})" if outcome.code else "ended early"
    if outcome.end == "signalled":
        return f"crashed (signal {outcome.code})"
    return _ENDS[outcome.end]


def require(tests: Sized) -> None:
    """Refuse to grade without tests: nothing would be shown by passing none.

    Raises:
        GraderError: there are none.
    """
    if not len(tests):
        raise GraderError("there are no tests to grade with; every program would pass")


def numbered(number: int, tests: Sequence[object], what: str) -> str:
    """`what` about the test of this number, counted from 1."""
    return f"test {number} of {len(tests)}: {what}"
