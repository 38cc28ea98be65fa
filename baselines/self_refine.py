"""Self-Refine: generate, criticise, refine, each by the same model (arXiv 2303.17651, as set up in arXiv 2608.00685).

As in the study: at most two rounds and so 2 to 5 calls (2 where the first criticism ends it, 4 where the second does, 5
where none does); the criticism itself says whether to go on, in a line `Is further refinement needed: no`; the
components `generation_system`, `feedback` {input} {current_output} and `refine` {input} {history}, where the history
holds every output and criticism so far.

Ours, where the study says nothing: the texts of the prompts; outputs and criticisms are quoted under headings; only
calls that answer the question get the generation's system message; without a readable verdict it goes on; a verdict on
an output without a text ends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Unpack

from baselines.backbones import Common, PerBackbone, whole_number
from baselines.components import Components, Parts
from baselines.cot import GENERATION
from baselines.workflow import Scaffold, Workflow, shown
from trinity.types import Agent, Completion

_WIDEST = 200
"""Characters of a line that are looked at: a verdict needs few."""
_VERDICT = re.compile(
    r"[\s*_#`\"'-]*(?:is )?further refinement needed[\s*_`\"':?=-]*(yes|no)\b(?!.*\b(?:yes|no)\b)", re.IGNORECASE
)


def read_needed(text: str) -> bool | None:
    """Whether the last verdict line of a criticism asks for refinement; None without one.

    A line counts from its start only: one that quotes begins with the quotation's mark, or with Markdown's `>`, and
    says nothing, and neither does one that repeats both choices.
    """
    verdict, choice = None, False
    for line in filter(str.strip, text.splitlines()):
        found = _VERDICT.match(line[:_WIDEST])
        if found is not None:
            verdict = None if choice else found[1].lower() == "yes"
        choice = line.strip().lower() == "or" or (choice and found is None)
    return verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Refining(Scaffold):
    """Method: `agent` answers, then criticises and refines its answer at most `rounds` times."""

    agent: Agent
    components: Components
    rounds: int

    async def play(self, flow: Workflow) -> None:
        """Answer; until a criticism is content, criticise and refine."""
        generator = replace(self.agent, style=self.components[GENERATION])
        (output,) = await flow.ask_all([(generator, flow.solve_as(generator))])
        history: list[str] = []
        for number in range(1, self.rounds + 1):
            feedback = await self._criticised(flow, output)
            if read_needed(feedback.text) is False and output.text.strip():
                return
            history += [f"Answer {number}:\n{shown(output)}", f"Feedback {number}:\n{shown(feedback)}"]
            told = self.components.fill("refine", input=flow.question, history="\n\n".join(history))
            (output,) = await flow.ask_all([(generator, flow.briefed(generator.style, told))])

    async def _criticised(self, flow: Workflow, output: Completion) -> Completion:
        told = self.components.fill("feedback", input=flow.question, current_output=shown(output))
        return await flow.ask(self.agent, "verifier", flow.briefed("", told))


class SelfRefine(PerBackbone):
    """Each backbone refines its own answers, at most `rounds` times: 2 to 2 x rounds + 1 calls."""

    name = "self_refine"
    parts: ClassVar[Parts] = {GENERATION: (), "feedback": ("input", "current_output"), "refine": ("input", "history")}

    def __init__(self, *, rounds: int = 2, **rest: Unpack[Common]) -> None:
        """At most `rounds` of criticism and refinement; the others as in `PerBackbone`."""
        super().__init__(**rest)
        self.rounds = whole_number(self.name, "rounds", rounds)

    def method(self, agent: Agent) -> Refining:
        """Refining on one backbone."""
        return Refining(agent=agent, components=self.components, rounds=self.rounds, **self.row(agent))

    def reads(self) -> Sequence[int]:
        """A criticism reads one output, a refinement the outputs and criticisms of all rounds so far."""
        return [0, *(read for number in range(1, self.rounds + 1) for read in (1, 2 * number))]
