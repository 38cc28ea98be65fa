"""Chain of thought: one call after a system message that asks for steps (arXiv 2608.00685, "CoT")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from baselines.backbones import joint_row
from baselines.components import Parts
from baselines.task_only import OneCall, TaskOnly
from trinity.arena import Arena
from trinity.types import Agent, Record

GENERATION = "generation_system"
"""The component that every method of the study puts before a question."""


class ChainOfThought(TaskOnly):
    """Each backbone, told to work in steps."""

    name = "cot"
    parts: ClassVar[Parts] = {GENERATION: ()}

    def method(self, agent: Agent) -> OneCall:
        """One call with the system message."""
        return super().method(replace(agent, style=self.components[GENERATION]))


async def alone_on_validation(
    arena: Arena, method: str, agents: Sequence[Agent], system: str
) -> dict[str, list[Record]]:
    """Agent name -> its validation records at answering alone after `system`, as effort of `method`.

    Not the pool's agents with their styles, by which other controls are chosen: what is chosen here is asked without.
    """
    solos = [
        OneCall(agent=replace(agent, style=system), **joint_row(method, agent.name, [agent], 1)) for agent in agents
    ]
    records = await arena.validate(*solos)
    return {agent.name: rows for agent, rows in zip(agents, records, strict=True)}
