"""Five times the context, TRINITY's control 5xCTX (arXiv 2512.04695, section 4): one call with a fivefold output cap.

As in the paper: the single agents of the pool, each asked as `single` asks it (model, style, temperature and all other
settings), with five times its cap of output tokens, 20,480 instead of 4,096 in `pool=trinity7`. So the difference to
`single` is what the room brings. The study of orchestration (arXiv 2608.00685) has no such method, so its backbones
without style are not the default here; `backbones` may set other sampling parameters.

What an agent is told to think stays: `reasoning_effort`, `thinking.budget_tokens` and Gemini's `thinkingBudget` are
within the cap and are not raised, for the paper names the cap alone, and its agents write hardly more tokens with five
times the cap (GPT-5 218 and 221, Claude 382 and 367 on MATH500; most is gained by Gemini on LiveCodeBench, 2,396 and
5,753). A `thinking_budget` on top of the cap (Qwen at DashScope) stays as well. `num_ctx`, Ollama's room for
prompt and answer, grows with the cap, for Ollama cuts what is longer without a word. What a provider or a local server
(`context`) allows is not raised: an answer that ends there is truncated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from baselines.backbones import Backbones, Common, whole_number
from baselines.task_only import TaskOnly
from trinity.errors import ConfigError
from trinity.llm.budget import OUTPUT_KEYS, output_limit
from trinity.types import Agent

GROWING = (*OUTPUT_KEYS, "num_ctx")
"""Parameters that are multiplied: the names of an output cap, and the room in which it has to fit."""


@dataclass(frozen=True)
class Roomier(Backbones):
    """The pool's agents, each with its style and `factor` times its output cap."""

    factor: int = 5

    def one(self, agent: Agent) -> Agent:
        """`agent` with more room."""
        agent = self._set(agent)
        if output_limit(agent) is None:
            raise ConfigError(
                f"methods.five_times_context.backbones: agent {agent.name} has no bound of its output to multiply; "
                "give it max_tokens (and thinking_budget, where it has enable_thinking), or name others in "
                "backbones.agents"
            )
        return replace(agent, sampling=self._times(agent.sampling), extra_body=self._times(agent.extra_body))

    def _times(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value * self.factor if key in GROWING and value else value for key, value in body.items()}


class FiveTimesContext(TaskOnly):
    """Each agent of the pool with more room for its answer."""

    name = "five_times_context"

    def __init__(self, *, factor: int = 5, **rest: Unpack[Common]) -> None:
        """`factor` times the output cap; the others as in `PerBackbone`."""
        super().__init__(**rest)
        times = whole_number(self.name, "factor", factor, least=2)
        self.backbones = Roomier(self.backbones.agents, self.backbones.sampling, times)

    def asked(self, pool: Sequence[Agent]) -> Sequence[Agent]:
        """The chosen agents with more room."""
        return self.backbones.of(pool)
