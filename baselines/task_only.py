"""The task's prompt and nothing else: one call without a system message (arXiv 2608.00685, "LLM")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baselines.backbones import PerBackbone
from baselines.workflow import Scaffold, Workflow
from trinity.types import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCall(Scaffold):
    """Method: `agent` answers once."""

    agent: Agent

    async def play(self, flow: Workflow) -> None:
        """Ask once."""
        await flow.ask_all([(self.agent, flow.solve_as(self.agent))])


class TaskOnly(PerBackbone):
    """Each backbone, asked as the task words it."""

    name = "task_only"

    def method(self, agent: Agent) -> OneCall:
        """One call."""
        return OneCall(agent=agent, **self.row(agent))

    def reads(self) -> Sequence[int]:
        """One call that reads no other."""
        return (0,)
