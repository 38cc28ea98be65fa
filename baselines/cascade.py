"""Cascade with a verifier: agents from cheap to dear until an answer is accepted (FrugalGPT, AutoMix).

FrugalGPT (arXiv 2305.05176) asks a list of models one after another and stops at the first answer that a scorer finds
reliable; AutoMix (arXiv 2310.12963) lets the answering model verify itself. As there: cheap models first, each answer
judged, the first accepted one returned, and the last model's answer final without a judgement.

Not as there: FrugalGPT learns its list and thresholds on a trained scorer, AutoMix decides with a learnt policy on the
share of several few-shot verifications. Here nothing is learnt: the order is that of mean cost on validation items (or
given), and one verification decides, by the first word of its reply, ACCEPT or REVISE, as in the coordinator's loop. A
reply without a verdict accepts nothing, and neither does ACCEPT of an answer without a text. Prompts are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, Unpack

from baselines.backbones import Common, Orchestrated, asked_as, joint_row, names
from baselines.components import Components, Parts
from baselines.cot import GENERATION, alone_on_validation
from baselines.workflow import Scaffold, Workflow, shown
from trinity.arena import Arena, mean_cost
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground, dearest, less
from trinity.types import Agent, Completion, CostAxis, Method, Spend, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascading(Scaffold):
    """Method: `chain` holds pairs of who answers and who judges that, in the order in which they are asked."""

    chain: Sequence[tuple[Agent, Agent]]
    components: Components

    async def play(self, flow: Workflow) -> None:
        """Ask one after another until an answer is accepted; the last one's is not judged."""
        *judged, (last, _) = self.chain
        for agent, verifier in judged:
            answer = await self._answered(flow, agent)
            if await self._accepted(flow, verifier, answer) and answer.text.strip():
                return
        await self._answered(flow, last)

    async def _answered(self, flow: Workflow, agent: Agent) -> Completion:
        generator = replace(agent, style=self.components[GENERATION])
        (answer,) = await flow.ask_all([(generator, flow.solve_as(generator))])
        return answer

    async def _accepted(self, flow: Workflow, verifier: Agent, answer: Completion) -> bool:
        told = self.components.fill("verifier", original_prompt=flow.question, answer=shown(answer))
        await flow.ask(verifier, "verifier", flow.briefed(self.components["verifier_system"], told))
        return flow.turns[-1].verdict == "accept"


class Cascade(Orchestrated):
    """The backbones together, one row."""

    name = "cascade"
    parts: ClassVar[Parts] = {GENERATION: (), "verifier_system": (), "verifier": ("original_prompt", "answer")}

    def __init__(
        self, *, order: Sequence[str] | None = None, verifier: str | None = None, **rest: Unpack[Common]
    ) -> None:
        """Names of agents in their order (None: by cost), and of who judges (None: who answered)."""
        super().__init__(**rest)
        self.order = None if order is None else names(f"methods.{self.name}.order", order)
        self.verifier = verifier

    def check(self, ground: Ground) -> None:
        """Refuse names of no agent, and a backbone that stands twice in the order."""
        self._judges(self._asked(ground.agents), ground.agents)

    async def prepare(self, arena: Arena) -> Sequence[Method]:
        """Order the backbones, say how."""
        asked, axis = self._asked(arena.agents), arena.axis
        costs = {} if self.order else await self._costs(arena, asked, axis)
        unknown = [name for name, cost in costs.items() if cost is None]
        if unknown:
            arena.notes.append(
                f"{self.name}: n/a, no cost in {axis} is known of {', '.join(unknown)} on validation items; "
                f"set methods.{self.name}.order"
            )
            return ()
        asked.sort(key=lambda agent: costs.get(agent.name) or 0.0)
        arena.choices[self.name] = {
            "order": [agent.name for agent in asked],
            "verifier": self.verifier,
            "axis": axis,
            "cost_val": costs,
        }
        judges = self._judges(asked, arena.agents)
        once = all(agent.deterministic for agent in (*asked, *judges[:-1]))
        row = joint_row(self.name, "", asked, 1 if once else self.replicates)
        chain = list(zip(asked, judges, strict=True))
        return [Cascading(chain=chain, components=self.components, **row)]

    def forecast(self, ground: Ground) -> Forecast:
        """One answer of each on validation where that decides the order; on test every answer, judged but the last."""
        asked = self._asked(ground.agents)
        judges = self._judges(asked, ground.agents)
        times = ground.times([*asked, *judges[:-1]], self.replicates)
        validated = [] if self.order else [self._worst(ground, "val", [agent], 0) for agent in asked]
        answers = [self._worst(ground, "test", [agent], 0, times) for agent in asked]
        checks = [self._worst(ground, "test", list(pair), 1, times) for pair in zip(asked, judges, strict=True)]
        whole = reduce(Spend.plus, [part.spend for part in (*answers, *checks)])
        last = checks[-1:] if self.order else checks
        worst = dearest([less(whole, check.spend) for check in last])
        return Forecast.total([*validated, Forecast(answers[0].episodes, worst)])

    def _worst(self, ground: Ground, split: Split, agents: Sequence[Agent], read: int, times: int = 1) -> Forecast:
        return ground.worked(agents, split, [read], self.components.n_bytes, times=times)

    def _asked(self, pool: Sequence[Agent]) -> list[Agent]:
        if self.order is None:
            return self.backbones.of(pool)
        asked = self.named(pool, "order", *self.order)
        if len({asked_as(agent) for agent in asked}) < len(asked):
            raise ConfigError(f"methods.{self.name}.order={self.order}: name each backbone once")
        return asked

    def _judges(self, asked: Sequence[Agent], pool: Sequence[Agent]) -> list[Agent]:
        """Who judges each one's answer."""
        return self.named(pool, "verifier", self.verifier) * len(asked) or list(asked)

    async def _costs(self, arena: Arena, asked: Sequence[Agent], axis: CostAxis) -> dict[str, float | None]:
        records = await alone_on_validation(arena, self.name, asked, self.components[GENERATION])
        return {name: mean_cost(rows, axis) for name, rows in records.items()}
