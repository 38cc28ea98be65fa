"""Programs as ordinary processes, which can do whatever their user can: for machines that may be lost."""

from __future__ import annotations

from typing import Any

from evals.sandbox.interpreter import interpreter
from evals.sandbox.launch import ENVIRONMENT, PROJECT, SCRIPT, Launcher


class Plain(Launcher):
    """Starts workers that isolate nothing; limits and an empty environment are all that they give.

    Args:
        python: interpreter; None is the one that runs this.
    """

    kind = "none"

    def __init__(self, python: str | None) -> None:
        self._python = python

    def command(self, name: str) -> list[str]:
        """The interpreter and the worker's script."""
        return [interpreter(self._python).executable, "-S", "-s", "-B", str(PROJECT / SCRIPT)]

    def environment(self) -> dict[str, str]:
        """The environment of every program; each gets folders of its own besides."""
        return dict(ENVIRONMENT)

    def settings(self) -> dict[str, Any]:
        """Nothing is isolated."""
        return {"isolated": False, "uid": None, "filters": {}, "paths": interpreter(self._python).paths}
