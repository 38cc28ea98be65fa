"""Programs that graders of code got wrong, with the right outcome: those of the shared folder and our own."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from evals.graders.code import (
    CallTest,
    StdioTest,
    Verdict,
    extract_code,
    grade_asserts,
    grade_calls,
    grade_stdio,
)
from evals.sandbox.base import Limits, Sandbox
from tests.evals.graders.told import own, shared
from trinity.errors import GraderError

KINDS = ("code_stdio", "code_stdio_checker", "code_call", "code_assert", "code_extract")


async def grade(case: dict[str, Any], sandbox: Sandbox, limits: Limits) -> Verdict:
    """The verdict on a case by the grader that it names."""
    expected, program = case["expected"], case["response"]
    if case["grader"] == "code_assert":
        return await grade_case_by_asserts(expected, program, sandbox, limits)
    if case["grader"] == "code_call":
        calls = [CallTest(arguments(test["input"]), json.loads(test["output"])) for test in expected["tests"]]
        return await grade_calls(sandbox, program, expected["fn_name"], calls, limits)
    tests = [StdioTest(test["input"], test["output"]) for test in expected["tests"]]
    match = "any_order" if case["grader"] == "code_stdio_checker" else "lines"
    return await grade_stdio(sandbox, program, tests, limits, match=match)  # type: ignore[arg-type]


async def grade_case_by_asserts(expected: dict[str, Any], program: str, sandbox: Sandbox, limits: Limits) -> Verdict:
    """The verdict by assertions: on all functions that the program defines and the prompt does not."""
    helpers = expected.get("prompt_code", "")
    names = functions(program) - functions(helpers)
    call = f"\ncheck({expected['entry_point']})\n" if "entry_point" in expected else ""
    checker = f"{helpers}\n{expected['tests']}{call}"
    return await grade_asserts(sandbox, f"{helpers}\n{program}", checker, names, limits)


def functions(source: str) -> set[str]:
    """Functions that a program defines, also where it does not end as a program should."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {line.partition("(")[0][4:] for line in source.splitlines() if line.startswith("def ")}
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def arguments(text: str) -> tuple[Any, ...]:
    """A JSON value a line."""
    return tuple(json.loads(line) for line in text.splitlines())


@pytest.mark.parametrize("case", [*shared(*KINDS), *own("code")])
async def test_case(case: dict[str, Any], isolated: Sandbox, limits: Limits) -> None:
    """A case comes out as it must; one that nobody can grade is an error, and not a wrong answer."""
    if case["grader"] == "code_extract":
        assert (extract_code(case["response"]) == case["expected"]) is (case["right_outcome"] == "accept")
    elif case["right_outcome"] in ("error", "skip"):
        with pytest.raises(GraderError):
            await grade(case, isolated, limits)
    else:
        verdict = await grade(case, isolated, limits)
        assert verdict.passed is (case["right_outcome"] == "accept"), verdict
