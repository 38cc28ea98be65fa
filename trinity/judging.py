"""The judge of a run: the model that graders ask, by whom it is served, and what its calls are billed to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig

from trinity.assembly import describe
from trinity.config import build
from trinity.context import Context
from trinity.errors import CallError, ConfigError, GraderError
from trinity.grading import judge_calls, judged
from trinity.llm.pool import Pool
from trinity.naming import check_choice, check_keys
from trinity.types import GRADING, Agent, Client, Completion, Judge, Message, Task

KINDS = ("none", "pool", "own")
"""No judge, an agent of the run's pool, or one of a pool of its own."""

KEYS = ("kind", "agent", "pool", "model", "max_tokens", "price")


@dataclass(frozen=True, slots=True)
class Seat:
    """Who judges: the agent called `name` in `pool`, which is the judge's `own` or the run's."""

    pool: Pool
    name: str
    own: bool

    @property
    def agent(self) -> Agent:
        """The agent.

        Raises:
            ConfigError: the pool has none of that name, or it was dropped.
        """
        return self.pool.agent(self.name)

    def facts(self) -> dict[str, Any]:
        """What the manifest keeps: the agent with its price, the kind of its answers, and the endpoint behind it."""
        settings = self.pool.settings()
        endpoint = self.agent.endpoint
        return {
            "agent": describe(self.agent),
            "kind": self.pool.kind,
            "pool": self.pool.name,
            "own": self.own,
            "endpoints": {endpoint: settings["endpoints"][endpoint]},
        }

    async def close(self) -> None:
        """Close a pool of its own; the run's is closed by the run."""
        if self.own:
            await self.pool.close()


def read_judge(config: DictConfig, pool: Pool) -> Seat | None:
    """The judge that the group `judge` names; None where it names none, or an earlier version knew no such group.

    Raises:
        ConfigError: a key is unknown or missing, or there is no such agent.
    """
    given = config.get("judge") or {}
    check_keys("judge", given, KEYS)
    kind = str(given.get("kind", "none"))
    check_choice("judge.kind", kind, KINDS)
    if kind == "none":
        return None
    name = given.get("agent")
    if not name:
        names = f", one of: {', '.join(agent.name for agent in pool.agents)}" if kind == "pool" else ""
        raise ConfigError(f"judge={kind}: it has no agent; give judge.agent=NAME{names}")
    served_by = pool if kind == "pool" else _own_pool(given)
    served_by.agent(str(name))  # refuses what is no agent's name
    return Seat(served_by, str(name), own=kind == "own")


def _own_pool(given: Mapping[str, Any]) -> Pool:
    described = given.get("pool")
    if not isinstance(described, DictConfig):
        raise ConfigError("judge=own: it has no pool; see conf/judge/own.yaml")
    if any(isinstance(agent, Mapping) and agent.get("model") is None for agent in described.get("agents") or ()):
        raise ConfigError("judge=own: the judge has no model; give judge.model=PROVIDER/MODEL as litellm writes it")
    pool: Pool = build(described)
    return pool


def check_judge(tasks: Mapping[str, Task], seat: Seat | None) -> None:
    """Refuse tasks that a model has to grade where there is none.

    Raises:
        ConfigError: names the tasks and how to set a judge.
    """
    names = [name for name, task in tasks.items() if judged(task)]
    if names and seat is None:
        raise ConfigError(
            f"task {', '.join(names)}: its answers are graded by a model, and there is no judge; set one with "
            "judge=pool judge.agent=NAME or judge=own judge.model=PROVIDER/MODEL"
        )


@dataclass(frozen=True, slots=True)
class Judges:
    """Gives each episode its judge; `agent` is asked through `client`."""

    client: Client
    agent: Agent

    def __call__(self, context: Context) -> Judge:
        """The judge of the episode of `context`: with the episode's place in the run, and a bill of its own."""
        own = Context(context.task, context.item, context.replicate, context.seed, context.order, GRADING)
        return AgentJudge(self.client, self.agent, own)


@dataclass(slots=True)
class AgentJudge:
    """An agent that grades one episode; implements `trinity.types.Judge`."""

    client: Client
    agent: Agent
    context: Context
    _asked: int = field(default=0, init=False)

    async def ask(self, messages: Sequence[Message]) -> Completion:
        """Its answer; equal messages are as many samples.

        Raises:
            GraderError: the call failed after its retries, or the task asks more often than it announces.
            TrinityError: what stops the run: a cap is reached, the endpoint cannot be used.
        """
        self._asked += 1
        most = judge_calls(self.context.task)
        if self._asked > most:
            raise GraderError(f"task {self.context.task.name} asks its judge more than {most} times, its `judge_calls`")
        try:
            return await self.client.complete(self.agent, messages, self.context)
        except CallError as error:
            raise GraderError(f"judge {self.agent.name}: {error}") from error
