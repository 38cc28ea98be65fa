"""The script that makes the environment takes PyTorch from where it can be had."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CPU_INDEX = "--index-url https://download.pytorch.org/whl/cpu"
PYTHON = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in
    -c*) exit "$UNREACHABLE" ;;
    *--index-url*) exit "$WITHOUT_TORCH" ;;
esac
"""


def calls(folder: Path, **environment: str) -> list[str]:
    """Install calls for PyTorch of a run of the script with a Python that only writes down how it was called."""
    python, log = folder / "venv" / "bin" / "python", folder / "calls"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    settings = {"UNREACHABLE": "0", "WITHOUT_TORCH": "0", "GPU": "", **environment, "CALLS": str(log)}
    command = ["bash", "scripts/make_env.sh", str(folder / "venv")]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=True, capture_output=True)
    lines = log.read_text().splitlines()
    assert any("--group dev" in line for line in lines)
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


def test_the_environment_can_be_made_alone() -> None:
    """`make env` makes what every target needs, runs nothing, and says how to enter it."""
    planned = subprocess.run(
        ["make", "--no-print-directory", "-n", "-B", "env"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert "bash scripts/make_env.sh .venv >&2" in planned
    assert planned[-1] == 'echo "ready; now: source .venv/bin/activate"'
    assert "-m" not in " ".join(planned)


def test_what_a_run_starts_with_is_compiled(tmp_path: Path) -> None:
    """At the end byte code is written for the libraries of every short process, each of which is installed."""
    calls(tmp_path)
    (line,) = [line for line in (tmp_path / "calls").read_text().splitlines() if "compileall" in line]
    names = [Path(word).name for word in line.split() if "site-packages/" in word]
    assert {"hydra", "pandas", "matplotlib"} <= set(names)
    assert all(find_spec(name) for name in names)
