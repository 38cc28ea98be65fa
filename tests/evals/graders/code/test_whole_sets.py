"""The solutions of public benchmarks pass, and fail the decoys of their tests: a sample of each set.

`SAMPLE=0` in the environment takes all.
"""

from __future__ import annotations

import ast
import json
import os
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from evals.graders.code import grade_asserts, grade_unit_tests
from evals.graders.code.decoys import decoy, groups_of
from evals.graders.code.syntax import parse
from evals.sandbox.base import MIB, Limits, Sandbox

ITEMS = Path(__file__).parents[5] / "shared" / "data" / "items"
SAMPLE = int(os.environ.get("SAMPLE", "20"))
LIMITS = Limits(cpu_s=60.0, idle_s=30.0, wall_s=300.0, memory_bytes=4096 * MIB)

pytestmark = [pytest.mark.shared_data, pytest.mark.skipif(not ITEMS.exists(), reason=f"no {ITEMS}")]


def rows(file: str) -> list[Any]:
    """Every n-th row of a file, as test parameters."""
    if not ITEMS.exists():
        return []
    found = [json.loads(line) for line in (ITEMS / file).read_text("utf-8").splitlines()]
    step = max(1, len(found) // SAMPLE) if SAMPLE else 1
    return [pytest.param(row, id=str(row["task_id"])) for row in islice(found, 0, None, step)]


@pytest.mark.parametrize("row", rows("humaneval_test.jsonl"))
async def test_humaneval(row: dict[str, Any], isolated: Sandbox) -> None:
    """A canonical solution passes its check, which has the prompt's helpers."""
    name = row["entry_point"]
    helpers = row["prompt"].partition(f"def {name}")[0]
    checker = f"{helpers}\n{row['test']}\ncheck({name})\n"
    verdict = await grade_asserts(isolated, row["prompt"] + row["canonical_solution"], checker, [name], LIMITS)
    assert verdict.passed, verdict


@pytest.mark.parametrize("row", rows("mbpp_sanitized_test.jsonl"))
async def test_mbpp(row: dict[str, Any], isolated: Sandbox) -> None:
    """A solution passes its assertions."""
    names = [node.name for node in parse(row["code"]).body if isinstance(node, ast.FunctionDef)]
    checker = "\n".join([*row["test_imports"], *row["test_list"]])
    verdict = await grade_asserts(isolated, row["code"], checker, names, LIMITS)
    assert verdict.passed, verdict


@pytest.mark.parametrize("row", rows("bigcodebench_stdlib.jsonl"))
async def test_bigcodebench(row: dict[str, Any], isolated: Sandbox) -> None:
    """A canonical solution passes its unit tests, decoys included, and none whose tests all are decoys."""
    source = row["code_prompt"] + row["canonical_solution"]
    verdict = await grade_unit_tests(isolated, source, row["test"], LIMITS)
    assert verdict.passed, verdict
    tree = parse(row["test"])
    groups = groups_of(tree)
    assert groups
    changed = await grade_unit_tests(isolated, source, decoy(tree, groups, Random(0)), LIMITS)
    assert not changed.passed
