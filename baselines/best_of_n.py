"""Best-of-N (arXiv 2608.00685, "BoN"): n samples of one agent, then one call in which the same agent selects.

As in the study: 3 samples by default and n + 1 calls always, the components `generation_system`, `selector_system` and
`selector`, the pick read from the last line `Selected candidate: k` of the selector's reply, and an empty answer ends
nothing. The selected candidate's own text is the answer; the selector writes none.

Ours: the wording; candidates are quoted line by line and shuffled by the context's stream; a reply that picks none of
the candidates takes the one shown first, which is a random one; a pick that says nothing leaves the latest sample that
said anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Unpack

from baselines.backbones import Common, PerBackbone, whole_number
from baselines.components import Parts
from baselines.cot import GENERATION
from baselines.sampling import SELECTOR, Selector, draws
from baselines.workflow import Scaffold, Workflow
from trinity.types import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Best(Scaffold):
    """Method: `samples` answers of `agent`, and the selector's pick among them."""

    agent: Agent
    samples: int
    selector: Selector

    async def play(self, flow: Workflow) -> None:
        """Sample together, then select."""
        answers = await flow.ask_all(draws(flow, self.agent, self.samples))
        flow.offer(await self.selector.select(flow, answers))


class BestOfN(PerBackbone):
    """Each backbone selects among its own samples."""

    name = "best_of_n"
    parts: ClassVar[Parts] = {GENERATION: (), "selector_system": (), **SELECTOR}
    samples = True

    def __init__(self, *, samples: int = 3, **rest: Unpack[Common]) -> None:
        """Select among `samples`; the others as in `PerBackbone`."""
        super().__init__(**rest)
        self.n = whole_number(self.name, "samples", samples)

    def method(self, agent: Agent) -> Best:
        """Best-of-N on one backbone."""
        solver, selector = (replace(agent, style=self.components[name]) for name in (GENERATION, "selector_system"))
        return Best(
            agent=solver,
            samples=self.n,
            selector=Selector(agent=selector, components=self.components),
            **self.row(agent),
        )

    def reads(self) -> Sequence[int]:
        """Samples read nothing, the selector reads them all."""
        return [*([0] * self.n), self.n]
