"""Self-consistency (Wang et al. 2023, arXiv 2203.11171): sample several chains of thought, take the majority's answer.

As in the paper: every sample is one chain of thought at the backbone's temperature, answers are compared in the task's
form whatever the reasoning before them, each counts once (the paper's unweighted sum), and one of the majority's own
texts is the answer.

Ours: chains are asked for by `cot`'s system message, the paper shows worked examples; 5 samples by default (TRINITY's
Majority@5), the paper draws up to 40; the earliest of equals wins; truncated, refused and unreadable samples do not
vote, and when none votes the first stands. Where a task's answers cannot be compared the agent is shown its samples,
quoted and shuffled, and names the most consistent one (universal self-consistency, Chen et al. 2023, arXiv 2311.17311):
one call more. The number is read as in `best_of_n`; a reply that names none takes the sample shown first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Unpack

from baselines.backbones import Common, PerBackbone, whole_number
from baselines.components import Parts
from baselines.cot import GENERATION
from baselines.sampling import SELECTOR, Consensus, Selector
from trinity.forecast import Forecast, Ground
from trinity.types import Agent


class SelfConsistency(PerBackbone):
    """Each backbone agrees with itself."""

    name = "self_consistency"
    parts: ClassVar[Parts] = {GENERATION: (), **SELECTOR}
    samples = True

    def __init__(self, *, samples: int = 5, **rest: Unpack[Common]) -> None:
        """Count `samples`; the others as in `PerBackbone`."""
        super().__init__(**rest)
        self.n = whole_number(self.name, "samples", samples)

    def method(self, agent: Agent) -> Consensus:
        """Self-consistency on one backbone."""
        return Consensus(
            agent=replace(agent, style=self.components[GENERATION]),
            samples=self.n,
            selector=Selector(agent=agent, components=self.components),
            **self.row(agent),
        )

    def reads(self) -> Sequence[int]:
        """Samples read nothing; the selector, where there is one, reads them all."""
        return [0] * self.n if self.n == 1 else [*([0] * self.n), self.n]

    def forecast(self, ground: Ground) -> Forecast:
        """Every call of every test episode; selections only where answers cannot be compared."""
        counted, selected = (
            replace(ground, tasks={name: task for name, task in ground.tasks.items() if task.comparable is comparable})
            for comparable in (True, False)
        )
        return self.worst(counted, [0] * self.n).plus(self.worst(selected, self.reads()))
