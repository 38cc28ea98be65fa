"""Grades functions by assertions that run apart from them, in a process that they can not reach."""

from __future__ import annotations

import ast
import secrets
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from evals.graders.code.candidate import GoneError, asked, load, program
from evals.graders.code.harness import PRELOAD, harness, message, read
from evals.graders.code.syntax import parse
from evals.graders.code.verdict import Verdict, ended, failed
from evals.sandbox.base import MIB, Limits, Program, Sandbox, Session
from trinity.errors import GraderError

_MAX_ANSWER = 8 * MIB
"""Bytes of what one call returns."""


async def grade_asserts(sandbox: Sandbox, source: str, checker: str, names: Collection[str], limits: Limits) -> Verdict:
    """Whether trusted assertions hold of a candidate's functions.

    Candidate and checker are two processes in the sandbox. In the checker's, each of `names` is a function that sends
    its arguments through this process to the candidate's, and returns, as plain values, or raises what it did. So
    neither the assertions nor what they expect are ever where the candidate is: leaving early, patched builtins,
    `__eq__`, forged lines and exit handlers reach nothing but the candidate's own answers. Its objects come out as
    values that equal nothing; its exceptions as the nearest ones that Python itself has. Arguments are copies.

    An `assert a == b` forgives a difference of 1e-6, absolute or relative, where b holds floats and a numbers in the
    same places, as EvalPlus does: the last digit depends on the order of operations. Whole numbers stay exact.

    Args:
        sandbox: where both run.
        source: the candidate.
        checker: trusted source that asserts; what it needs besides, helpers and imports, is in it.
        names: functions of the candidate that it calls.
        limits: bounds of either process, from its start to its end.

    Raises:
        GraderError: the checker asserts nothing, is no Python, or never calls the candidate; the sandbox failed.
    """
    _require_assertions(checker)
    bounds = replace(limits, output_bytes=8 * limits.output_bytes)
    async with sandbox.session(program(), bounds) as candidate:
        try:
            fault = await load(candidate, source)
            if fault is not None:
                return failed(fault)
            async with sandbox.session(Program(harness("wire", "channel", "check"), preload=PRELOAD), bounds) as tests:
                return await _refereed(candidate, tests, checker, names)
        except GoneError:
            return failed(ended(await candidate.outcome()))


async def _refereed(candidate: Session, tests: Session, checker: str, names: Collection[str]) -> Verdict:
    """Carry calls and answers between the two until the tests have told their verdict.

    Raises:
        GoneError: the candidate has ended.
    """
    nonce = secrets.token_hex(16)
    await tests.send(message(tests=checker, names=list(names), nonce=nonce))
    while (line := await tests.receive()) is not None:
        told = read(line, len(line)) or {}
        if told.get("nonce") == nonce:
            outcome = await tests.outcome()
            return _verdict(told, names) if outcome.ok else failed(f"the tests {ended(outcome)}")
        answer = await asked(candidate, line)
        if len(answer) > _MAX_ANSWER:
            return failed("returned too much")
        await tests.send(answer)
    return failed(f"the tests {ended(await tests.outcome())}")


def _verdict(told: dict[str, Any], names: Collection[str]) -> Verdict:
    """What the tests told.

    Raises:
        GraderError: they are no tests.
    """
    if fault := told.get("fault"):
        raise GraderError(str(fault))
    if told["passed"] is not True:
        return failed(f"{told['error']} on line {told['line']} of the tests")
    if not told["calls"]:
        raise GraderError(f"the tests call none of {', '.join(names)}; every program would pass")
    return Verdict(passed=True, detail="the tests passed")


def _require_assertions(checker: str) -> None:
    """Refuse tests that can not fail.

    Raises:
        GraderError: they are no Python, or assert nothing.
    """
    try:
        tree = parse(checker)
    except SyntaxError as error:
        raise GraderError(f"the tests are no Python: {error}") from error
    if not any(isinstance(node, ast.Assert | ast.Raise) or _asserts(node) for node in ast.walk(tree)):
        raise GraderError("the tests assert nothing; every program would pass")


def _asserts(node: ast.AST) -> bool:
    """Whether a node calls something that asserts, such as `self.assertEqual` or `np.testing.assert_allclose`."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name.startswith("assert")
