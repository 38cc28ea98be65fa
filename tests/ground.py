"""An arena of scripted specialists for the tests of everything that plays episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trinity.arena import Arena
from trinity.coordinator.policy import LivePolicies
from trinity.episodes import Player, Stamp
from trinity.llm.client import Client, Rules
from trinity.llm.pool import Pool
from trinity.llm.retry import RetryPolicy
from trinity.llm.store import MemoryStore
from trinity.llm.transports.base import Transport
from trinity.progress import Silence
from trinity.runs.ledger import Ledger
from trinity.testing import HashedEncoder, SkillTask, team
from trinity.types import SPLITS, Agent, Phase, Task

TASKS = ("sums", "words", "plans")
SKILLS: Mapping[str, Mapping[str, float]] = {
    "ann": {"sums": 1.0, "words": 0.2, "plans": 0.2},
    "bob": {"sums": 0.2, "words": 1.0, "plans": 0.2},
    "cat": {"sums": 0.2, "words": 0.2, "plans": 1.0},
}
AGENTS = [
    Agent(name, "script", name, {"temperature": 0}, active_params=1e9, deterministic=True)
    for name in ("ann", "bob", "cat")
]


def skill_tasks(n_train: int = 12, n_val: int = 8, n_test: int = 10, *, comparable: bool = True) -> dict[str, Task]:
    """Three tasks, each the speciality of one agent."""
    return {name: SkillTask(name, n_train=n_train, n_val=n_val, n_test=n_test, comparable=comparable) for name in TASKS}


def make_arena(
    folder: Path,
    *,
    tasks: Mapping[str, Task] | None = None,
    transport: Transport | None = None,
    agents: list[Agent] | None = None,
    seed: int = 0,
    concurrency: int = 32,
    rules: Rules | None = None,
) -> Arena:
    """An arena over a fresh ledger in `folder`; close `arena.player.ledger` after use."""
    tasks = skill_tasks() if tasks is None else tasks
    agents = AGENTS if agents is None else agents
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger.create(folder / "ledger.sqlite")
    for name, task in tasks.items():
        for split in SPLITS:
            ledger.add_items(split, [item for item in task.items(split) if item.task == name])
    pool = Pool("team", agents, {"script": transport or team(SKILLS)})
    rules = replace(rules or Rules(), retries=RetryPolicy(attempts=1))
    client = Client(pool, MemoryStore(), ledger, rules)
    stamp = Stamp("run", "test", "team", pool.kind, seed)
    seeds: dict[Phase, int] = {"train": seed, "val": seed, "reeval": seed, "test": 0}
    player = Player(client, ledger, stamp, seeds, concurrency)
    policies = LivePolicies(lambda: HashedEncoder(64), ledger)
    return Arena(
        agents=agents,
        tasks=tasks,
        player=player,
        progress=Silence(),
        seed=seed,
        replicates=3,
        pool="team",
        policies=policies,
        folder=folder,
        counts=client.counts,
    )
