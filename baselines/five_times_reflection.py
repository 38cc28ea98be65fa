"""Five rounds of self-reflection, TRINITY's control 5xSR (arXiv 2512.04695, section 4): one agent, five answers.

The paper says "five times" and prints neither prompt nor protocol. We count answers: the first, then four times a
reflection on the latest answer that ends in a new one, five calls in all. The output tokens in its appendix agree: over
its 7 models and 4 benchmarks they are 5.0 times those of the single answer in the median (quartiles 3.9 and 6.4).
It always plays all its rounds: there is no verdict.

Ours: the texts of the prompts; a reflection sees the question and the latest answer alone, so that a prompt does not
grow with the rounds; and every call has the generation's system message, which the paper does not mention, so that the
first answer is that of chain of thought and the difference to it is what reflection brings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Unpack

from baselines.backbones import Common, PerBackbone, whole_number
from baselines.components import Components, Parts
from baselines.cot import GENERATION
from baselines.workflow import Scaffold, Workflow, shown
from trinity.types import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflecting(Scaffold):
    """Method: `agent` answers `rounds` times, each time but the first after its answer before."""

    agent: Agent
    components: Components
    rounds: int

    async def play(self, flow: Workflow) -> None:
        """Answer, then reflect and answer anew."""
        agent = replace(self.agent, style=self.components[GENERATION])
        (answer,) = await flow.ask_all([(agent, flow.solve_as(agent))])
        for _ in range(self.rounds - 1):
            told = self.components.fill("reflection", input=flow.question, current_output=shown(answer))
            (answer,) = await flow.ask_all([(agent, flow.briefed(agent.style, told))])


class FiveTimesReflection(PerBackbone):
    """Each backbone reflects on its own answers; `rounds` counts answers, the first included."""

    name = "five_times_reflection"
    parts: ClassVar[Parts] = {GENERATION: (), "reflection": ("input", "current_output")}

    def __init__(self, *, rounds: int = 5, **rest: Unpack[Common]) -> None:
        """Play `rounds` of them; the others as in `PerBackbone`."""
        super().__init__(**rest)
        self.rounds = whole_number(self.name, "rounds", rounds)

    def method(self, agent: Agent) -> Reflecting:
        """Reflecting on one backbone."""
        return Reflecting(agent=agent, components=self.components, rounds=self.rounds, **self.row(agent))

    def reads(self) -> Sequence[int]:
        """Each call but the first reads the answer before."""
        return [0, *(1 for _ in range(self.rounds - 1))]
