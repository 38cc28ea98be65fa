"""Grades a module by unit tests that must share its process, since they mock what it uses and touch its objects.

Which tests there are is read from their source here. Each must tell that it starts and that it ends well, in its
order, and nothing else may be told; leaving early, skipping, and changing `unittest`, `builtins` or `os` fail. What is
told bears a sign that is handed over before the candidate's code runs.

That does not stop a candidate that searches its process for the sign, or whose results equal everything. So one that
passes is run again, with a part of the tests, chosen by chance, made decoys (see `decoys`): those must fail and the
others pass. Where another passes no more (a decoy may leave a file behind), two more runs must tell the same: all as
they are, which must pass, and all made decoys, which must fail.

Not guaranteed: a candidate that looks for what the tests expect, among the objects of its process, and tells right
from wrong by itself, passes; so does one that forges only the assertions that were not made decoys. Tests without an
assertion that is always reached have no decoy (see `decoys.sites`). A source without any is graded by the first run
alone.
"""

from __future__ import annotations

import ast
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from evals.graders.code.decoys import Test, decoy, groups_of, names_of_tests
from evals.graders.code.harness import PRELOAD, harness, message
from evals.graders.code.syntax import parse
from evals.graders.code.verdict import Verdict, ended, failed, passed, require
from evals.sandbox.base import Limits, Program, Sandbox, Session
from trinity.errors import GraderError

_GONE = "gone"
_MAX_LINE = 1000
_FORGED = "passes a test that a right program must fail: it has forged its verdict"


@dataclass(frozen=True, slots=True)
class _Ran:
    """What a run told: the tests that ended well, and what was wrong (None = nothing but that others did not)."""

    well: frozenset[Test]
    fault: str | None


@dataclass(frozen=True, slots=True)
class _Trial:
    """A candidate and where it is tried."""

    sandbox: Sandbox
    source: str
    tests: Sequence[Test]
    limits: Limits
    preload: tuple[str, ...]


async def grade_unit_tests(
    sandbox: Sandbox,
    source: str,
    tests: str,
    limits: Limits,
    *,
    preload: tuple[str, ...] = (),
    seed: int | None = None,
) -> Verdict:
    """Whether a candidate passes unit tests that run in its own process, as far as that can be told (see above).

    Args:
        sandbox: where it runs.
        source: the candidate.
        tests: trusted source with `unittest.TestCase` classes; it runs in the candidate's module.
        limits: bounds of one run of all tests.
        preload: further modules to be imported before the candidate.
        seed: chooses the decoys; None = by chance.

    Raises:
        GraderError: the source holds no tests or is no Python; the sandbox failed.
    """
    tree = _parsed(tests)
    wanted = names_of_tests(tree)
    require(wanted)
    trial = _Trial(sandbox, source, wanted, limits, (*PRELOAD, *preload))
    # Written anew even where nothing is changed, so that decoys do not stand out by their spacing.
    plain = ast.unparse(tree)
    first = await _run(trial, plain)
    fault = first.fault or _missing(first, wanted)
    if fault is not None:
        return failed(fault)
    rng = Random(secrets.randbits(64) if seed is None else seed)
    fault = await _forged(trial, tree, rng)
    return failed(fault) if fault else passed(len(wanted))


async def _forged(trial: _Trial, tree: ast.Module, rng: Random) -> str | None:
    """What is wrong with a candidate that has passed, seen by decoys; None = nothing."""
    groups, everything = groups_of(tree), frozenset(trial.tests)
    if not groups:
        return None
    some = rng.sample(groups, rng.randint((len(groups) + 1) // 2, len(groups)))
    if not any(group.literal for group in some):
        some += [group for group in groups if group.literal][:1]
    bound_to_fail = frozenset(test for group in some for test in group.tests)
    mixed = await _run(trial, decoy(tree, some, rng))
    if mixed.well & bound_to_fail:
        return _FORGED
    if mixed.well | bound_to_fail == everything:
        return None
    again = await _run(trial, ast.unparse(tree))
    if again.well != everything:
        return "does not pass again"
    all_changed = await _run(trial, decoy(tree, groups, rng))
    return _FORGED if any(all_changed.well & group.tests for group in groups) else None


async def _run(trial: _Trial, tests: str) -> _Ran:
    """Run the candidate with these tests."""
    nonce = secrets.token_hex(16)
    program = Program(harness("channel", "unit"), preload=trial.preload)
    async with trial.sandbox.session(program, trial.limits) as session:
        await session.send(message(nonce=nonce, source=trial.source, tests=tests, wanted=trial.tests))
        ran = await _heard(session, nonce, trial.tests)
        outcome = await session.outcome()
    if ran.fault == _GONE or (ran.fault is None and not outcome.ok):
        return _Ran(frozenset(), ended(outcome))
    return ran


async def _heard(session: Session, nonce: str, tests: Sequence[Test]) -> _Ran:
    """Listen to the end that is told."""
    well: set[Test] = set()
    fault = await _expect(session, nonce, "loaded")
    for number, test in enumerate(tests):
        fault = fault or await _expect(session, nonce, f"start {number}")
        told = None if fault else await session.receive()
        words = _words(told, nonce)
        if not fault and not words.startswith(f"finish {number} "):
            fault = _fault(told, words)
        if not fault and words == f"finish {number} ok":
            well.add(test)
    fault = fault or await _expect(session, nonce, "end")
    if fault is None and await session.receive() is not None:
        fault = "tells more than there is to tell"
    return _Ran(frozenset() if fault else frozenset(well), fault)


async def _expect(session: Session, nonce: str, wanted: str) -> str | None:
    """What is wrong with the next message; None = it is the one that has to come."""
    line = await session.receive()
    words = _words(line, nonce)
    return None if words == wanted else _fault(line, words)


def _words(line: bytes | None, nonce: str) -> str:
    """What a message says behind its sign; nothing where it does not bear it."""
    sign, _, words = (line or b"")[:_MAX_LINE].decode("ascii", "replace").partition(" ")
    return words if secrets.compare_digest(sign.encode(), nonce.encode()) else ""


def _fault(line: bytes | None, words: str) -> str:
    """What a message says that should have been another."""
    kind, _, what = words.partition(" ")
    if line is None:
        return _GONE
    if kind == "broken":
        return f"does not load: {what}"
    if kind == "fixture":
        return f"the tests can not be set up: {what}"
    return "has changed what tests are made of" if kind == "changed" else "tells what it has no business to tell"


def _missing(ran: _Ran, tests: Sequence[Test]) -> str | None:
    """The first test that did not end well."""
    return next((f"{method} failed" for kind, method in tests if (kind, method) not in ran.well), None)


def _parsed(tests: str) -> ast.Module:
    """The syntax tree of the tests.

    Raises:
        GraderError: they are no Python.
    """
    try:
        return parse(tests)
    except SyntaxError as error:
        raise GraderError(f"the unit tests are no Python: {error}") from error
