"""Heads and policies: logits, noise, choices, and what the ledger keeps of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trinity.context import Context
from trinity.coordinator.heads import LinearHead
from trinity.coordinator.policy import HeadPolicy, RandomPolicy, RecordedPolicy, draw_noise, pick
from trinity.errors import LedgerError
from trinity.runs.ledger import Ledger
from trinity.testing import HashedEncoder, SkillTask
from trinity.types import ROLES, Replicate

NAMES = ("ann", "bob")
TASK = SkillTask("sums", n_test=2)
ITEM, OTHER = TASK.items("test")


def context(index: int = 0, seed: int = 0) -> Context:
    """An episode on the first item."""
    return Context(TASK, ITEM, Replicate("test", index), seed)


class TestLinearHead:
    """The paper's head."""

    def test_size_is_the_papers(self) -> None:
        """Seven agents at d = 1024 make 10,240 parameters."""
        assert LinearHead(1024, 7).size == 10_240

    def test_logits_are_a_product(self) -> None:
        """Row i of theta times the state, agents before roles."""
        theta, state = np.arange(10.0), np.array([1.0, 2.0], dtype=np.float32)
        assert LinearHead(2, 2).logits(theta, state).tolist() == [2.0, 8.0, 14.0, 20.0, 26.0]


class TestNoise:
    """The context's noise."""

    def test_another_agent_moves_nobody(self) -> None:
        """Adding an agent leaves the others' and the roles' noise where it was."""
        few = draw_noise(["ann", "bob"], 1, context(), sampled=True)
        more = draw_noise(["ann", "new", "bob"], 1, context(), sampled=True)
        assert np.delete(more, 1).tolist() == few.tolist()

    def test_depends_on_place(self) -> None:
        """Turn, replicate and seed each give other noise."""
        base = draw_noise(NAMES, 0, context(), sampled=True)
        for other in (
            draw_noise(NAMES, 1, context(), sampled=True),
            draw_noise(NAMES, 0, context(1), sampled=True),
            draw_noise(NAMES, 0, context(0, seed=1), sampled=True),
        ):
            assert not np.any(other == base)

    def test_sampling_is_the_softmax(self) -> None:
        """Over many replicates an agent is chosen as often as its softmax says."""
        logits = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
        chosen = Counter(pick(logits, draw_noise(NAMES, 0, context(index), sampled=True))[0] for index in range(4000))
        expected = np.e / (np.e + 1)
        assert chosen[0] / 4000 == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 4000))

    def test_roles_are_independent_of_agents(self) -> None:
        """The role's draw does not follow the agent's."""
        draws = [pick(np.zeros(5), draw_noise(NAMES, 0, context(index), sampled=True)) for index in range(6000)]
        for role in range(3):
            share = np.mean([agent == 0 for agent, drawn in draws if drawn == role])
            assert share == pytest.approx(0.5, abs=0.05)


class TestLedgered:
    """Decisions and their ledger."""

    async def test_recorded_repeats(self, tmp_path: Path) -> None:
        """A recorded policy gives the choice that was written, and needs no encoder."""
        with Ledger.create(tmp_path / "a.sqlite") as ledger, Ledger.create(tmp_path / "b.sqlite") as copy:
            theta = np.random.default_rng(0).normal(size=5 * 8)
            live = HeadPolicy("p", NAMES, HashedEncoder(8), LinearHead(8, 2), theta, sampled=True, ledger=ledger)
            choice = await live.choose(("question",), 0, context())
            assert await RecordedPolicy("p", NAMES, True, ledger, copy).choose(("question",), 0, context()) == choice
            row = next(copy.decisions())
            assert (row.agent, row.role) == (NAMES[choice.agent], choice.role)

    async def test_other_transcript_is_refused(self, tmp_path: Path) -> None:
        """A decision made on another transcript, or never made, is an error and not a guess."""
        with Ledger.create(tmp_path / "a.sqlite") as ledger:
            live = HeadPolicy("p", NAMES, HashedEncoder(8), LinearHead(8, 2), np.zeros(40), sampled=True, ledger=ledger)
            await live.choose(("question",), 0, context())
            recorded = RecordedPolicy("p", NAMES, True, ledger, ledger)
            with pytest.raises(LedgerError, match="another transcript"):
                await recorded.choose(("other",), 0, context())
            with pytest.raises(LedgerError, match="no decision of p on sums"):
                await recorded.choose(("question",), 1, context())

    @pytest.mark.parametrize("part", ["logits", "noise", "agent", "role"])
    async def test_changed_decision_is_refused(self, part: str, tmp_path: Path) -> None:
        """A stored decision whose logits, noise or choice were changed does not replay."""
        with Ledger.create(tmp_path / "a.sqlite") as ledger:
            theta = np.random.default_rng(0).normal(size=5 * 8)
            live = HeadPolicy("p", NAMES, HashedEncoder(8), LinearHead(8, 2), theta, sampled=True, ledger=ledger)
            await live.choose(("question",), 0, context())
            row = next(ledger.decisions())
            others: dict[str, Any] = {
                "logits": -row.logits,
                "noise": row.noise * 0,
                "agent": next(name for name in NAMES if name != row.agent),
                "role": next(role for role in ROLES if role != row.role),
            }
            ledger.add_decision(replace(row, **{part: others[part]}))
            with pytest.raises(LedgerError, match="does not follow"):
                await RecordedPolicy("p", NAMES, True, ledger, ledger).choose(("question",), 0, context())

    async def test_argmax_has_no_noise(self, tmp_path: Path) -> None:
        """An argmax policy takes the largest logit in every replicate."""
        with Ledger.create(tmp_path / "a.sqlite") as ledger:
            theta = np.random.default_rng(1).normal(size=40)
            policy = HeadPolicy("p", NAMES, HashedEncoder(8), LinearHead(8, 2), theta, sampled=False, ledger=ledger)
            choices = {await policy.choose(("question",), 0, context(index)) for index in range(20)}
            assert len(choices) == 1

    async def test_random_is_uniform(self, tmp_path: Path) -> None:
        """The random policy takes each agent and role equally often, and writes every choice down."""
        with Ledger.create(tmp_path / "a.sqlite") as ledger:
            policy = RandomPolicy("random", NAMES, ledger)
            choices = [await policy.choose(("q",), 0, context(index)) for index in range(3000)]
            assert sum(1 for _ in ledger.decisions()) == 3000
        for role in ROLES:
            assert sum(choice.role == role for choice in choices) / 3000 == pytest.approx(1 / 3, abs=0.04)
