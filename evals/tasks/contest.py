"""What contest problems share: how they are asked, and how their tests are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evals.graders.code import StdioTest
from evals.tasks.hub import Row


def statement(row: Row, parts: Sequence[tuple[str, str]], examples: Sequence[tuple[str, str]]) -> str:
    """A problem in its usual order: `parts` (heading, column) that are not empty, then the examples."""
    shown = [(heading, row.text(column, "")) for heading, column in parts]
    lines = [f"{heading}\n{text}".strip() for heading, text in shown if text]
    for number, (given, wanted) in enumerate(examples, start=1):
        lines.append(f"Example {number}, input:\n{given.strip()}\nExample {number}, output:\n{wanted.strip()}")
    return "\n\n".join(lines)


def paired(row: Row, column: str, inputs: Any, outputs: Any) -> list[StdioTest]:
    """Tests of inputs and outputs.

    Raises:
        DataError: they are no two lists of texts of one length; names `column`.
    """
    lists = isinstance(inputs, list) and isinstance(outputs, list) and len(inputs) == len(outputs)
    if not lists or not all(isinstance(text, str) for text in (*inputs, *outputs)):
        raise row.wrong(column, "inputs and outputs, as many of each")
    return [StdioTest(given, wanted) for given, wanted in zip(inputs, outputs, strict=True)]
