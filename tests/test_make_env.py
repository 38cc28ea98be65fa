"""The script that makes the environment takes PyTorch from where it can be had."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CPU_INDEX = "--index-url https://download.pytorch.org/whl/cpu"
PYTHON = """#!/bin/sh
echo "$UV_COMPILE_BYTECODE $*" >> "$CALLS"
case "$*" in
    -c*) exit "$UNREACHABLE" ;;
    *--index-url*) exit "$WITHOUT_TORCH" ;;
esac
"""


def calls(folder: Path, **environment: str) -> list[str]:
    """Install lines for PyTorch of a run of the script with a Python that only writes down how it was called."""
    python, log = folder / "venv" / "bin" / "python", folder / "calls"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    settings = {"UNREACHABLE": "0", "WITHOUT_TORCH": "0", "GPU": "", **environment, "CALLS": str(log)}
    command = ["bash", "scripts/make_env.sh", str(folder / "venv")]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=True, capture_output=True)
    lines = log.read_text().splitlines()
    assert "--constraint constraints.txt" in lines[-1]
    return [line for line in lines if "torch==" in line]


@pytest.mark.parametrize(
    ("environment", "indexes"),
    [
        ({}, [True]),
        ({"GPU": "1"}, [False]),
        ({"UNREACHABLE": "1"}, [False]),
        # By uv, by pip, and then by uv from the default index.
        ({"WITHOUT_TORCH": "1"}, [True, True, False]),
    ],
)
def test_pytorch_comes_from_its_cpu_index_or_the_default_one(
    tmp_path: Path, environment: dict[str, str], indexes: list[bool]
) -> None:
    """The CPU index is used unless a GPU is wanted, nobody answers there, or it lacks the pinned version."""
    assert [CPU_INDEX in line for line in calls(tmp_path, **environment)] == indexes


def test_packages_are_compiled_when_they_are_installed(tmp_path: Path) -> None:
    """Byte code is asked of uv, for unlike pip it writes none by itself."""
    (line,) = calls(tmp_path)
    assert line.startswith("1 -m uv pip install ")
