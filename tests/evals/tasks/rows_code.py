"""Rows in the columns of public benchmarks of programs, made here; each asks to add its own number."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from typing import Any

from tests.evals.tasks.rows import rated


def humaneval(count: int) -> list[dict[str, Any]]:
    """Rows as in openai/openai_humaneval; the prompt defines a helper that the check uses."""
    return [
        {
            "task_id": f"HumanEval/{k}",
            "prompt": (
                "from typing import List\n\n\ndef double(x: int) -> int:\n    return 2 * x\n\n\n"
                f'def add_{k}(xs: List[int]) -> List[int]:\n    """Add {k} to each number.\n'
                f'    >>> add_{k}([1])\n    [{1 + k}]\n    """\n'
            ),
            "canonical_solution": f"    return [x + {k} for x in xs]\n",
            "test": f"\n\ndef check(candidate):\n    assert candidate([2, double(300)]) == [{2 + k}, {600 + k}]\n",
            "entry_point": f"add_{k}",
        }
        for k in range(count)
    ]


def mbpp(count: int) -> list[dict[str, Any]]:
    """Rows as in MBPP, sanitized."""
    return [
        {
            "source_file": "own",
            "task_id": 11 + k,
            "prompt": f"Write a function to add {k} to a number.",
            "code": f"def add_{k}(x):\n    return x + {k}",
            "test_imports": ["import math"] if k % 2 else [],
            "test_list": [
                f"assert add_{k}(1) == {1 + k}",
                f"assert add_{k}(7000) == {7000 + k}",
                f"assert {'math.isclose' if k % 2 else 'abs'}(add_{k}(-{k + 8000}){', -8000' if k % 2 else ''})",
            ],
        }
        for k in range(count)
    ]


def mbpp_full(count: int) -> list[dict[str, Any]]:
    """Rows as in MBPP, full; every third hands over an object of a class of the solution."""
    return [
        {
            "task_id": row["task_id"],
            "text": row["prompt"],
            "code": row["code"] + ("" if k % 3 else "\n\nclass Node:\n    pass"),
            "test_list": row["test_list"][:2],
            "test_setup_code": "start = 9" if k % 3 else "root = Node()",
            "challenge_test_list": [f"assert add_{k}(start) == {9 + k}"],
        }
        for k, row in enumerate(mbpp(count))
    ]


def cruxeval(count: int) -> list[dict[str, Any]]:
    """Rows as in cruxeval-org/cruxeval."""
    return [
        {
            "code": f"def f(xs):\n    xs.append({k})\n    return {{'n': len(xs), 'xs': xs}}",
            "input": f"[{k}, 7]",
            "output": f"{{'n': 3, 'xs': [{k}, 7, {k}]}}",
            "id": f"sample_{k}",
        }
        for k in range(count)
    ]


def bigcodebench(count: int) -> list[dict[str, Any]]:
    """Rows as in bigcode/bigcodebench, `libs` written as there."""
    return [
        {
            "task_id": f"BigCodeBench/{k}",
            "complete_prompt": (
                f'import random\n\nSTEP = {k}\n\n\ndef task_func(x):\n    """\n    Add {k} to x.\n\n'
                f'    Example:\n    >>> task_func(1)\n    {1 + k}\n    """\n'
            ),
            "instruct_prompt": f"Add {k} to x.\nStart with:\n```\nimport random\ndef task_func(x):\n```",
            "code_prompt": f"import random\nSTEP = {k}\ndef task_func(x):\n",
            "canonical_solution": "    return x + STEP",
            "test": (
                "import unittest\n\n\nclass TestCases(unittest.TestCase):\n    def test_it(self):\n"
                f"        random.seed(0)\n        self.assertEqual(task_func(7000), {7000 + k})\n"
            ),
            "entry_point": "task_func",
            "doc_struct": "{}",
            "libs": "['random', 'os.path']",
        }
        for k in range(count)
    ]


def packed(tests: Any) -> str:
    """Tests as LiveCodeBench hides them."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def livecodebench(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Rows as in livecodebench/code_generation_lite; every second is a function, every third packs no tests."""
    return [_livecodebench(k) for k in range(first, first + count)]


def _livecodebench(k: int) -> dict[str, Any]:
    called = k % 2 == 1
    kind = "functional" if called else "stdin"
    public, hidden = (
        [{"input": f"{x}\n{y}" if called else f"{x} {y}\n", "output": f"{x + y + k}", "testtype": kind}]
        for x, y in ((1, 2), (7000, 80))
    )
    return {
        "question_title": f"Add {k}",
        "question_content": f"Given x and y, find x + y + {k}.",
        "platform": "leetcode" if called else "atcoder",
        "question_id": f"own_{k}",
        "contest_id": "own",
        "contest_date": f"2025-{1 + k % 12:02}-01T00:00:00",
        "starter_code": "class Solution:\n    def add(self, x: int, y: int) -> int:\n        " if called else "",
        "difficulty": ("easy", "medium", "hard")[k % 3],
        "public_test_cases": json.dumps(public),
        "private_test_cases": json.dumps(hidden) if k % 3 == 0 else packed(hidden),
        "metadata": json.dumps({"func_name": "add"} if called else {}),
    }


def codeforces(count: int) -> list[dict[str, Any]]:
    """Rows as in open-r1/codeforces; every second accepts two outputs, which its checker knows."""
    return [
        {
            "id": f"9999{k}/A",
            "aliases": None,
            "contest_id": f"9999{k}",
            "index": "A",
            "time_limit": 2.0,
            "memory_limit": 64.0,
            "title": f"Add {k}",
            "description": f"Print x + {k}." + (" A minus sign before it does not matter." if k % 2 else ""),
            "input_format": "A number x.",
            "output_format": "One number.",
            "interaction_format": None,
            "note": None,
            "examples": [{"input": "1", "output": f"{1 + k}"}],
            "editorial": None,
            "rating": 800 + 100 * k if k % 5 else None,
            "tags": ["math", "implementation"],
            "testset_size": 2,
            "official_tests": [
                {"input": "1\n", "output": f"{1 + k}\n"},
                {"input": "7000\n", "output": f"{7000 + k}\n"},
            ],
            "official_tests_complete": True,
            "input_mode": "stdio",
            "generated_checker": CHECKER if k % 2 else None,
            "executable": True,
            "generated_tests": 0,
        }
        for k in range(count)
    ]


CHECKER = """
import sys

given, right, printed = (open(name).read() for name in sys.argv[1:4])
assert given.strip()
print(1 if abs(int(printed)) == abs(int(right)) else 0)
"""


def e2h_codeforces(count: int) -> list[dict[str, Any]]:
    """Rows as in E2H-Codeforces; tests stand in one of the three ways that are read."""
    return [{**difficulty, **_e2h_codeforces(k)} for k, difficulty in enumerate(rated(count))]


def _e2h_codeforces(k: int) -> dict[str, Any]:
    inputs, outputs = ["1\r\n", "7000\r\n"], [f"{1 + k}\r\n", f"{7000 + k}\r\n"]
    both = {"inputs": inputs, "outputs": outputs}
    return {
        "contest_id": 9000 + k,
        "problem_index": "A",
        "tag": "Implement" if k % 2 else "Math",
        "problem_name": f"Add {k}",
        "problem_main": f"Add {k} to a number.",
        "problem_note": "",
        "input_spec": "The only line contains x.",
        "output_spec": "Print the sum.",
        "sample_inputs": ["1"],
        "sample_outputs": [f"{1 + k}"],
        "inputs": inputs,
        "answers": outputs,
        "input_output": (both, json.dumps(both), None)[k % 3],
        "solution_0": f"print(int(input()) + {k})",
    }
