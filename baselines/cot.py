"""Chain of thought: one call after a system message that asks for steps (arXiv 2608.00685, "CoT")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from baselines.backbones import PerBackbone
from baselines.components import Parts
from baselines.task_only import OneCall
from trinity.types import Agent

GENERATION = "generation_system"
"""The component that every method of the study puts before a question."""


class ChainOfThought(PerBackbone):
    """Each backbone, told to work in steps."""

    name = "cot"
    parts: ClassVar[Parts] = {GENERATION: ()}

    def method(self, agent: Agent) -> OneCall:
        """One call with the system message."""
        return OneCall(agent=replace(agent, style=self.components[GENERATION]), **self.row(agent))

    def reads(self) -> Sequence[int]:
        """One call that reads no other."""
        return (0,)
