"""Five times the context: who is asked, with what room, and who has no room to multiply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baselines.five_times_context import FiveTimesContext
from baselines.single import Single
from tests.ground import AGENTS, make_arena, skill_tasks
from tests.scaffolds import (
    CUT,
    HOSTILE,
    LAVISH,
    REFUSED,
    WARM,
    Script,
    billed,
    bounded,
    contested,
    episode,
    patiently,
    question,
    stage,
)
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.llm.budget import Cap, output_limit
from trinity.llm.client import Rules
from trinity.llm.transports.base import Reply, TransportError
from trinity.types import Agent

STYLED = replace(WARM[0], style="Be curt.")


def wide(sampling: Mapping[str, Any], extra_body: Mapping[str, Any] | None = None, **knobs: Any) -> Agent:
    """The agent that is asked where the pool has one of these settings."""
    agent = replace(AGENTS[0], sampling=sampling, extra_body=extra_body or {})
    (found,) = FiveTimesContext(**knobs).backbones.of([agent])
    return found


class TestCalls:
    """Who is asked what."""

    async def test_as_single_with_more_room(self, tmp_path: Path) -> None:
        """One call: the agent's own style and settings as `single` sends them, but for a cap five times as large."""
        script = Script(lambda _: "Answer: 0")
        arena = stage(tmp_path, script, [STYLED])
        with arena.player.ledger:
            alone = (await Single().prepare(arena))[0]
            (method,) = await FiveTimesContext().prepare(arena)
            await episode(arena, alone)
            record, asked = await episode(arena, method), question(arena)
            tokens, gflop = billed(arena, record)
        single, ours = script.requests
        assert script.seen == [("Be curt.", asked)] * 2
        assert (single.sampling, ours.sampling) == (
            {"temperature": 1.0, "max_tokens": 40},
            {"temperature": 1.0, "max_tokens": 200},
        )
        assert (ours.model, ours.extra_body, ours.replicate) == (single.model, single.extra_body, single.replicate)
        assert (record.method, record.variant, record.backbone) == ("five_times_context", "ann", "ann")
        assert (record.status, record.n_calls, record.n_turns) == ("correct", 1, 1)
        assert record.weighted_tokens == tokens
        assert record.gflop == pytest.approx(gflop)

    async def test_a_row_an_agent(self, tmp_path: Path) -> None:
        """Every agent of the pool once, also two that differ by style alone; one without noise in one replicate."""
        pool = [STYLED, replace(STYLED, name="other", style="Be kind."), replace(AGENTS[1], sampling={"max_tokens": 8})]
        tasks = skill_tasks(n_train=1, n_val=1, n_test=1)
        arena = make_arena(tmp_path, agents=pool, tasks=tasks)
        records = await contested(arena, one=FiveTimesContext())
        counts = {name: sum(row.variant == name for row in records) for name in ("ann", "other", "bob")}
        assert counts == {"ann": 9, "other": 9, "bob": 3}

    @pytest.mark.parametrize(
        ("said", "status"),
        [("", "no_answer"), (CUT, "truncated"), (REFUSED, "refused"), (HOSTILE, "correct"), ("z" * 10**6, "no_answer")],
    )
    async def test_its_answer(self, said: str | Reply, status: str, tmp_path: Path) -> None:
        """What the one call says is the answer, whatever it is."""
        arena = stage(tmp_path, Script(patiently(said)), [STYLED])
        with arena.player.ledger:
            record = await episode(arena, (await FiveTimesContext().prepare(arena))[0])
        assert (record.status, record.n_calls) == (status, 1)

    @pytest.mark.parametrize(("calls", "status"), [(0, "no_answer"), (1, "error")])
    async def test_ends(self, calls: int, status: str, tmp_path: Path) -> None:
        """At its own cap it is silent, a failed call is an error; neither is billed."""
        arena = stage(
            tmp_path,
            Script(patiently(TransportError("server", "down"))),
            [STYLED],
            rules=Rules(episode=Cap(calls=calls)),
        )
        with arena.player.ledger:
            record = await episode(arena, (await FiveTimesContext().prepare(arena))[0])
        assert (record.status, record.n_calls, record.capped) == (status, 0, calls == 0)


class TestRoom:
    """What grows."""

    @pytest.mark.parametrize("place", ["sampling", "extra_body"])
    @pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
    def test_the_cap(self, name: str, place: str) -> None:
        """By whatever name and wherever it stands, the most that an attempt can write is five times as much."""
        agent = wide(**{"sampling": {}, place: {name: 4096}})
        assert output_limit(agent) == 20_480

    def test_thinking_stays(self) -> None:
        """Efforts and budgets of thoughts stay as they are; what comes on top of the cap comes on top once."""
        body = {"thinkingConfig": {"thinkingBudget": 128, "includeThoughts": False}, "thinking_budget": 100}
        agent = wide({"max_tokens": 50, "reasoning_effort": "minimal", "temperature": 0.1}, body)
        assert agent.sampling == {"max_tokens": 250, "reasoning_effort": "minimal", "temperature": 0.1}
        assert agent.extra_body == body
        assert output_limit(agent) == 350

    def test_the_room_of_ollama(self) -> None:
        """`num_ctx`, into which prompt and answer must fit, grows with the answer."""
        assert wide({"max_tokens": 2048, "num_ctx": 8192}).sampling == {"max_tokens": 10_240, "num_ctx": 40_960}

    def test_settings(self) -> None:
        """Another factor, other agents and sampling parameters, which are multiplied as well."""
        assert wide({"max_tokens": 7}, factor=2).sampling == {"max_tokens": 14}
        set_to = wide({"max_tokens": 7, "stop": ["x"]}, backbones={"sampling": {"max_tokens": 100, "stop": None}})
        assert set_to.sampling == {"max_tokens": 500}
        method = FiveTimesContext(backbones={"agents": ["cat"]})
        assert [agent.name for agent in method.backbones.of(WARM)] == ["cat"]

    @pytest.mark.parametrize("factor", [0, 1, 2.5, True, "5"])
    def test_factor(self, factor: object) -> None:
        """It is a whole number from 2 on."""
        with pytest.raises(ConfigError, match=r"five_times_context\.factor="):
            FiveTimesContext(factor=factor)  # type: ignore[arg-type]

    @pytest.mark.parametrize("body", [{}, {"max_tokens": 0}, {"max_tokens": 9, "enable_thinking": True}])
    def test_no_cap(self, body: dict[str, Any]) -> None:
        """An agent whose output nothing bounds has nothing to multiply: named, with what to set, before any call."""
        pool = [WARM[0], replace(WARM[1], sampling=body)]
        with pytest.raises(
            ConfigError, match=r"agent bob has no bound of its output.*give it max_tokens .*backbones.agents"
        ):
            FiveTimesContext().check(Ground(pool, skill_tasks(), 3))
        FiveTimesContext(backbones={"agents": ["ann"]}).check(Ground(pool, skill_tasks(), 3))

    async def test_bound(self, tmp_path: Path) -> None:
        """Five times the output is foreseen, after the agents' own styles."""
        styled = [replace(agent, style=f"Be {agent.name}.") for agent in LAVISH]
        records = await bounded(FiveTimesContext(), tmp_path, agents=styled)
        assert {(record.n_calls, record.output_tokens) for record in records} == {(1, 20_000)}
