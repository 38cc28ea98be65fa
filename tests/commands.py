"""Running the commands as a user does: as processes, in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

TINY = (
    "+experiment=scripted",
    "data.n_train=6",
    "data.n_val=3",
    "data.n_test=4",
    "trainer.generations=2",
    "trainer.trajectories=3",
    "trainer.optimiser.popsize=4",
    "trainer.reeval_replicates=1",
    "coordinator.max_turns=3",
    "methods.vote.most=3",
)
"""The scripted experiment at the smallest size that still walks the whole path."""


def environment(**extra: str) -> dict[str, str]:
    """The environment of a command: this checkout importable, nothing coloured, wide output."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "200", **extra}


def command(module: str, *words: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m module words` to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def only_run(folder: Path, experiment: str = "scripted") -> Path:
    """The single run folder of an experiment below `folder`."""
    (run,) = (folder / "outputs" / experiment).iterdir()
    return run
