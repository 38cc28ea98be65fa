"""Answers that graders got wrong, with the right outcome: those of the shared folder, where it is, and our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "cases" / "grader_cases.jsonl"
OWN = Path(__file__).parent / "cases"


def shared(*graders: str) -> list[Any]:
    """The shared cases of these graders as test parameters; one that says why it is skipped where they are missing."""
    if not SHARED.exists():
        return [pytest.param(None, id="none", marks=[pytest.mark.shared_data, pytest.mark.skip(f"no {SHARED}")])]
    return [pytest.param(case, id=case["id"], marks=pytest.mark.shared_data) for case in _chosen(SHARED, graders)]


def own(file: str) -> list[Any]:
    """Our cases in `cases/FILE.jsonl`, in the columns of the shared ones, as test parameters."""
    return [pytest.param(case, id=case["id"]) for case in _chosen(OWN / f"{file}.jsonl", ())]


def _chosen(file: Path, graders: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for line in file.read_text("utf-8").splitlines():
        case = json.loads(line)
        if not graders or case["grader"] in graders:
            yield case
