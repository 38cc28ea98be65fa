"""Verdicts beside the grades of the answers that they were about."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from evals.stats.verifier import VerifierRow
from tests.ground import AGENTS, SKILLS, make_arena
from trinity.arena import Arena
from trinity.coordinator.policy import RandomPolicy
from trinity.coordinator.protocol import Coordinator, prompt
from trinity.llm.transports.base import Reply, Request
from trinity.llm.transports.scripted import ScriptedTransport, reply_to
from trinity.testing import TeamScript
from trinity.verdicts import verdicts


def credulous(request: Request) -> Reply:
    """The team, but its verifiers accept whatever they see."""
    if request.messages[0]["content"] == prompt("verifier_system"):
        return reply_to(request, "ACCEPT")
    return TeamScript(SKILLS)(request)


async def judged(arena: Arena) -> list[VerifierRow]:
    """All verdicts after random choices on the test items."""
    policy = RandomPolicy("random", [agent.name for agent in AGENTS], arena.player.ledger)
    await arena.test(Coordinator(policy, AGENTS, 6, name="random", backbone="team"))
    return [verdict async for verdict in verdicts(arena.player.ledger, arena.tasks, arena.seed)]


async def test_true_verifiers_accept_right_answers_only(tmp_path: Path) -> None:
    """A verifier that knows the answer accepts what is right and nothing else."""
    arena = make_arena(tmp_path)
    found = await judged(arena)
    assert {(verdict.accepted, verdict.correct) for verdict in found} == {(True, True), (False, False)}
    assert {verdict.method for verdict in found} == {"random"}
    played = groupby(arena.player.ledger.decisions(), key=lambda row: row.key[:4])
    roles = ["".join(turn.role[0] for turn in turns).partition("w")[2] for _, turns in played]
    assert len(found) == sum(after.count("v") for after in roles) > len([after for after in roles if "v" in after])


async def test_credulous_verifiers_accept_wrong_answers_too(tmp_path: Path) -> None:
    """Where every verdict is ACCEPT each ends its episode, and is right as often as the records are."""
    arena = make_arena(tmp_path, transport=ScriptedTransport(credulous, endpoint_id="scripted:credulous"))
    found = await judged(arena)
    records = [record for record in arena.player.ledger.records(method="random") if not record.capped]
    assert all(verdict.accepted for verdict in found)
    assert len(found) == len(records)
    assert sum(verdict.correct for verdict in found) == sum(record.status == "correct" for record in records) > 0
    assert not all(verdict.correct for verdict in found)
