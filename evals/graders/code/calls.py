"""Grades functions by what they return: called in the sandbox, compared outside of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evals.graders.code.candidate import GoneError, asked, load, program
from evals.graders.code.compare import same_value
from evals.graders.code.harness import RECURSION, STARTER, message, read
from evals.graders.code.inside.wire import encode
from evals.graders.code.verdict import CallTest, Verdict, ended, failed, numbered, passed, require
from evals.sandbox.base import Limits, Sandbox, Session
from trinity.errors import GraderError

_NO_MEMORY = "raised MemoryError"
_MARGIN = 4096
_STRETCH = 16
"""Times as long as the expected value a message may be that holds the same one: tuples, digits of floats."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A test as it is sent; `longest` is how many bytes an answer may have that can be right."""

    line: bytes
    expected: object
    longest: int


async def grade_calls(
    sandbox: Sandbox,
    source: str,
    function: str,
    tests: Sequence[CallTest],
    limits: Limits,
    *,
    starter: str = STARTER,
) -> Verdict:
    """Whether a function returns what each test wants; it ends with the first test that it fails.

    The candidate answers calls one after the other in one process; each call is made on a new `Solution`, or on the
    function of that name where there is no such class. Arguments are its own copies and expected values never enter
    the sandbox: values come out as JSON and are compared here (see `compare.same_value`).

    Each test has all of `limits`: where a bound is met after some tests have been answered, which share it, the rest
    go on in a new process.

    Args:
        sandbox: where it runs.
        source: the candidate; what it prints is dropped.
        function: name of the method or function.
        tests: arguments and expected values.
        limits: bounds of one test.
        starter: what is run before the candidate, as its imports; "" = nothing.

    Raises:
        GraderError: there are no tests, a test is no plain value, or the sandbox failed.
    """
    require(tests)
    calls = [_call(function, test) for test in tests]
    done = 0
    while done < len(calls):
        room = limits.output_bytes + sum(call.longest for call in calls[done:])
        async with sandbox.session(program(), replace(limits, output_bytes=room)) as session:
            right, fault = await _tried(session, source, starter, calls[done:])
        done += right
        if fault is not None:
            return failed(numbered(done + 1, tests, fault))
    return passed(len(tests))


async def _tried(session: Session, source: str, starter: str, calls: Sequence[_Call]) -> tuple[int, str | None]:
    """Load a candidate and call it: what `_answered` says, or what was wrong with its loading."""
    try:
        fault = await load(session, source, starter=starter, recursion=RECURSION)
    except GoneError:
        fault = ended(await session.outcome())
    return (0, fault) if fault else await _answered(session, calls)


async def _answered(session: Session, calls: Sequence[_Call]) -> tuple[int, str | None]:
    """How many calls were answered rightly, and what was wrong with the next one; None = nothing.

    Nothing is wrong where there is no next one, nor where a bound was met that the earlier ones had used up.
    """
    for number, call in enumerate(calls):
        try:
            fault = await _fault(session, call)
        except GoneError:
            outcome = await session.outcome()
            met_bound = outcome.end not in ("exited", "signalled")
            return number, None if number and met_bound else ended(outcome)
        if fault is not None:
            return number, None if number and fault == _NO_MEMORY else fault
    return len(calls), None


async def _fault(session: Session, call: _Call) -> str | None:
    """What is wrong with the answer to a call.

    Raises:
        GoneError: there is none.
    """
    told = read(await asked(session, call.line), call.longest) or {}
    if "value" in told:
        return None if same_value(told["value"], call.expected) else "wrong result"
    if "missing" in told:
        return "there is no such function"
    return f"raised {str(told['raised'])[:100]}" if "raised" in told else "wrong result"


def _call(function: str, test: CallTest) -> _Call:
    """A test as it is sent.

    Raises:
        GraderError: it holds what is no plain value.
    """
    try:
        arguments: Any = [encode(argument) for argument in test.arguments]
        expected = message(value=encode(test.expected))
    except Exception as error:
        raise GraderError(f"a test of {function} can not be sent to the sandbox: {error}") from error
    return _Call(
        message(call=function, arguments=arguments, named={}), test.expected, _STRETCH * len(expected) + _MARGIN
    )
