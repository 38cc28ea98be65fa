"""Which part of an answer is taken for the program."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.graders.code import extract_code

F = "def f():\n    return 1"


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        (f"Sure:\n```python\n{F}\n```\nDone.", F),
        (f"```python\n{F}\n    # draft\n```\nBetter:\n```python\n{F}\n```", F),
        (f"```py\n{F}\n```", F),
        (f"```Python3\n{F}\n```", F),
        (f"``` python\n{F}\n```", F),
        (f"```python3.11\n{F}\n```", F),
        (f"```{{.python .numberLines}}\n{F}\n```", F),
        (f'```python title="f.py"\n{F}\n```', F),
        (f"```python:f.py\n{F}\n```", F),
        (f"```\n{F}\n```", F),
        (f"~~~python\n{F}\n~~~", F),
        (f"````python\n{F}\n````", F),
        (f"[PYTHON]\n{F}\n[/PYTHON]", F),
        (f"Here it is: ```python\n{F}\n```", F),
        (f"```python\n{F}```", F),
        ("```python print(1)```", "print(1)"),
        (f"```python {F}\n```", F),
        ("1. So:\n   ```python\n   def f():\n       return 1\n   ```", F),
        ("```python\r\ndef f():\r\n    return 1\r\n```\r\n", F),
        (f"```python\n\n{F}\n\n\n```", F),
        (f"```python\n{F}", F),
        ("```python\n    return sorted(x)\n```", "    return sorted(x)"),
    ],
)
def test_fences(answer: str, program: str) -> None:
    """Every way of fencing a block gives the same program."""
    assert extract_code(answer) == program


@pytest.mark.parametrize(
    "answer",
    [
        f"{F}\n```",
        f"python\n{F}\n```\nIt returns 1.",
        f"{F}\n```\nFor example:\n```python\nprint(f())\n```",
        f"{F}\n~~~\n",
    ],
)
def test_fence_of_the_prompt(answer: str) -> None:
    """Where the prompt has opened the fence, the first word of the code is no mark of a language."""
    assert extract_code(answer) == F


@pytest.mark.parametrize(
    "after",
    [
        "Output:\n```\n1\n```",
        "Output:\n```\nThe result, for all of them: 1\n```",
        "```text\nprint this\n```",
        "```bash\npython f.py\n```",
        '```json\n{"f": 1}\n```',
        "```cpp\nint f() { return 1; }\n```",
        "Use it so:\n```python\nprint(f())\n```",
        "```python\nx = [f() for _ in range(3)]\nprint(x)\n```",
        "The time is `O(1)` and ```this``` is nothing.",
    ],
)
def test_what_follows_the_program(after: str) -> None:
    """Output, other languages and uses of the program are not the program."""
    assert extract_code(f"```python\n{F}\n```\n{after}") == F


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        (f"<think>\n```python\nwrong()\n```\n</think>\n```python\n{F}\n```", F),
        (f"so\n```python\nwrong()\n```\nhm.</think>```python\n{F}\n```", F),
        ("<think>\n```python\nwrong()\n```", None),
        ("```python\ndef f(s):\n    return s.split('</think>')\n```", "def f(s):\n    return s.split('</think>')"),
    ],
)
def test_thoughts(answer: str, program: str | None) -> None:
    """What a model thinks is no answer, and one that ends in its thoughts has given none."""
    assert extract_code(answer) == program


def test_fences_within_the_program() -> None:
    """A fence that is indented further than the block's own belongs to the code."""
    code = 'def f():\n    """\n    ```\n    f()\n    ```\n    """\n    return 1'
    assert extract_code(f"```python\n{code}\n```") == code
    assert extract_code("````python\nprint('''\n```\n''')\n````") == "print('''\n```\n''')"


@pytest.mark.parametrize("program", [F, "n = int(input())\nprint(n + 1)", "import sys\nx = 1", "    return sorted(x)"])
def test_no_fence(program: str) -> None:
    """A text without fences that reads as Python which does something is the program."""
    assert extract_code(f"\n{program}\n") == program


@pytest.mark.parametrize(
    "answer", ["", " \n", "I do not know.", "Answer: 5", "5", "x = 5", "yes", "```python\n```", "```\n```", "f(x) = 2"]
)
def test_no_program(answer: str) -> None:
    """Prose, values and empty blocks are no program."""
    assert extract_code(answer) is None


def test_wanted_names() -> None:
    """Of several blocks the last one that defines what is asked for counts, a method too; without any, the last."""
    helper = "def g():\n    return f()"
    answer = f"```python\n{F}\n```\n```python\n{helper}\n```"
    assert extract_code(answer, ["f"]) == F
    assert extract_code(answer, ["g"]) == helper
    assert extract_code(f"```python\n{F}\n```\n```python\nx = 2 + g()\n```", ["h"]) == "x = 2 + g()"
    solution = "class Solution:\n    def pair(self, a):\n        return a"
    assert extract_code(f"```python\n{solution}\n```\n```python\ndef main():\n    pass\n```", ["pair"]) == solution


@given(st.text(st.sampled_from("`~\n adef():\t=1[]<>/PYTHONthink"), max_size=200))
def test_any_text(text: str) -> None:
    """No text makes it fail, and what it gives holds something and ends with it."""
    program = extract_code(text)
    assert program is None or (program.strip() and program == program.rstrip())


def test_long_answers() -> None:
    """An answer of 10 MB is read: its last block is found among half a million."""
    assert extract_code("```python\nx = f(1)\n```\n" * 450_000 + f"```\n{F}\n```") == F


@pytest.mark.parametrize("piece", ["`", "</think>", "<think>", " ", "~~~ a", "\r", "[", "for a ", "'", "```\n", "a\n"])
def test_time_is_linear(piece: str) -> None:
    """Nothing is read again and again: an answer of 2 MB that is made of one piece is read at all."""
    assert extract_code(piece * (2_000_000 // len(piece))) is None
