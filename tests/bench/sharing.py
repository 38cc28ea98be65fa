"""What common items, replicates and noise save in one generation, beside candidates with noise of their own.

The case: 32 candidates, 7 deterministic agents, 3 turns, 16 episodes a candidate, logits of standard deviation 0.5.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import numpy as np

from tests.ground import make_arena, skill_tasks
from trinity.arena import Arena
from trinity.coordinator.heads import LinearHead
from trinity.coordinator.policy import HeadPolicy, LivePolicies
from trinity.coordinator.protocol import Coordinator
from trinity.episodes import Play, Player
from trinity.testing import HashedEncoder, team
from trinity.trainers.fitness import drawn, train_plays
from trinity.types import Agent, Phase

POPSIZE, AGENTS, TURNS, TRAJECTORIES, D, LOGIT_SD = 32, 7, 3, 16, 64, 0.5


async def shares(*, common: bool) -> tuple[float, float]:
    """Paid over logical calls and states over decisions of one generation."""
    names = [f"agent{number}" for number in range(AGENTS)]
    agents = [Agent(name, "script", name, {"temperature": 0}, deterministic=True) for name in names]
    skills = {name: {"sums": 0.5, "words": 0.5, "plans": 0.5} for name in names}
    with tempfile.TemporaryDirectory() as folder:
        arena = make_arena(Path(folder), tasks=skill_tasks(n_train=16), transport=team(skills), agents=agents)
        encoder = HashedEncoder(D)
        arena.policies = LivePolicies(lambda: encoder, arena.player.ledger)
        with arena.player.ledger as ledger:
            items = drawn(list(arena.items("train")), 0, 0, TRAJECTORIES)
            for number, method in enumerate(_candidates(arena, encoder, names)):
                player = arena.player if common else _with_own_noise(arena, number + 1)
                await player.play_all(train_plays(method, items, 0, "fresh"), _ignore)
            decisions = sum(1 for _ in ledger.decisions())
    return arena.counts.paid / arena.counts.logical, encoder.counters.states / decisions


def _candidates(arena: Arena, encoder: HashedEncoder, names: list[str]) -> list[Coordinator]:
    """Candidates around zero whose logits have the standard deviation of the case (a state's norm is sqrt(d))."""
    head = LinearHead(D, AGENTS)
    thetas = np.random.default_rng(0).normal(scale=LOGIT_SD / np.sqrt(D), size=(POPSIZE, head.size))
    ledger = arena.player.ledger
    return [
        Coordinator(
            HeadPolicy(f"c{number:02d}", names, encoder, head, theta, sampled=True, ledger=ledger),
            arena.agents,
            TURNS,
            variant=f"c{number:02d}",
        )
        for number, theta in enumerate(thetas)
    ]


def _with_own_noise(arena: Arena, seed: int) -> Player:
    seeds: dict[Phase, int] = {"train": seed, "val": seed, "reeval": seed, "test": seed}
    return Player(arena.player.client, arena.player.ledger, arena.player.stamp, seeds, 32)


def _ignore(play: Play, record: object) -> None:
    del play, record


def main() -> None:
    """Print both shares as JSON lines."""
    common, own = (asyncio.run(shares(common=which)) for which in (True, False))
    for bench, value, rival, target in (
        ("sharing: paid / logical calls", common[0], own[0], 0.30),
        ("sharing: states / decisions", common[1], own[1], 0.15),
    ):
        line = {"bench": bench, "value": round(value, 3), "unit": "share", "rival": "noise of each candidate's own"}
        line |= {"rival_value": round(rival, 3), "ratio": round(value / rival, 3)}
        print(json.dumps({**line, "target": f"value <= {target}", "ok": value <= target}))
