"""Best-of-N (arXiv 2608.00685, "BoN"): n samples of one agent, then one call in which the same agent selects.

As in the study: 3 samples by default and n + 1 calls always, the components `generation_system`, `selector_system` and
`selector`, the pick read from the last line `Selected candidate: k` of the selector's reply, and an empty answer ends
nothing. The selected candidate's own text is the answer; the selector writes none.

Ours: the wording; candidates are quoted line by line and shuffled by the context's stream; a reply that picks none of
the candidates takes the one shown first, which is a random one; a pick that says nothing leaves the latest sample that
said anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from baselines.components import Parts
from baselines.cot import GENERATION
from baselines.sampling import SELECTOR, Sampling, Selector, draws
from baselines.workflow import Scaffold, Workflow
from trinity.types import Agent

_MARKUP = r"[ \t*_#`\[(]{0,8}"
# A quoted line starts with `|`, or with Markdown's `>`: no echo of a candidate is read as the selector's own word.
_PICK = re.compile(
    rf"^{_MARKUP}selected candidate{_MARKUP}:{_MARKUP}(?:candidate )?{_MARKUP}(\d{{1,4}})(?!\d)"
    r"(?![\s*_`\])]{0,8}(?:[/,.]|or|and|&)[\s*_`#\[(]{0,8}(?:candidate )?\d)",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)


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


class BestOfN(Sampling):
    """Each backbone selects among its own samples."""

    name = "best_of_n"
    usual = 3
    parts: ClassVar[Parts] = {
        GENERATION: (),
        "selector_system": (),
        SELECTOR: ("num_candidates", "original_prompt", "candidates_block"),
    }

    def method(self, agent: Agent) -> Best:
        """Best-of-N on one backbone."""
        solver, selector = (replace(agent, style=self.components[name]) for name in (GENERATION, "selector_system"))
        return Best(
            agent=solver,
            samples=self.n,
            selector=Selector(agent=selector, components=self.components, read=read_selected),
            **self.row(agent),
        )

    def reads(self) -> Sequence[int]:
        """Samples read nothing, the selector reads them all."""
        return [*([0] * self.n), self.n]


def read_selected(text: str, n: int) -> int | None:
    """Index (from 0) that the last line `Selected candidate: k` of a reply names; None where it is of none of n."""
    picks = [int(number) for number in _PICK.findall(text)]
    return picks[-1] - 1 if picks and 1 <= picks[-1] <= n else None
