"""Backbones and the two single calls: who is asked, with which words and settings, how often, at what price."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from baselines.backbones import Backbones, PerBackbone, whole_number
from baselines.cot import ChainOfThought
from baselines.task_only import TaskOnly
from tests.ground import AGENTS, skill_tasks
from tests.scaffolds import (
    CUT,
    GENERATION,
    REFUSED,
    WARM,
    Script,
    billed,
    episode,
    patiently,
    question,
    stage,
)
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.llm.budget import Cap, actual
from trinity.llm.client import Rules
from trinity.llm.transports.base import Reply, TransportError
from trinity.types import Agent, Usage


class TestBackbones:
    """Agents of the pool as the study asks them."""

    def test_style_is_left_out(self) -> None:
        """A backbone has no worker's style."""
        assert [agent.style for agent in Backbones().of([replace(AGENTS[0], style="Be curt.")])] == [""]

    def test_sampling_is_laid_over(self) -> None:
        """Given parameters replace the agent's, null takes one away, the others stay."""
        agent = replace(AGENTS[0], sampling={"temperature": 0, "max_tokens": 16, "stop": ["\n"]})
        (made,) = Backbones(None, {"temperature": 1.0, "stop": None}).of([agent])
        assert made.sampling == {"temperature": 1.0, "max_tokens": 16}

    @pytest.mark.parametrize(
        ("was", "sampling", "deterministic"),
        [(True, {}, True), (True, {"temperature": 0}, True), (True, {"temperature": 0.7}, False), (False, {}, False)],
    )
    def test_noise(self, was: bool, sampling: dict[str, float], deterministic: bool) -> None:
        """A temperature above 0 makes an agent one that samples."""
        (made,) = Backbones(None, sampling).of([replace(AGENTS[0], deterministic=was)])
        assert made.deterministic is deterministic

    def test_named_alone(self) -> None:
        """Only named agents are asked, in the pool's order."""
        assert [agent.name for agent in Backbones(["cat", "ann"]).of(AGENTS)] == ["ann", "cat"]

    def test_unknown_name(self) -> None:
        """An unknown name is refused with those that there are."""
        with pytest.raises(ConfigError, match=r"backbones\.agents: there is no 'dan'; choose from: ann, bob, cat"):
            Backbones(["dan"]).of(AGENTS)

    def test_twins_are_asked_once(self) -> None:
        """Two agents that differ by style and cap alone are one backbone once both are laid over."""
        direct = replace(AGENTS[0], name="direct", style="Be curt.", sampling={"max_tokens": 16})
        steps = replace(AGENTS[0], name="steps", style="Be slow.", sampling={"max_tokens": 96})
        assert [agent.name for agent in Backbones(None, {"max_tokens": 64}).of([direct, steps])] == ["direct"]
        assert len(Backbones().of([direct, steps])) == 2


class TestOneCall:
    """task_only and cot."""

    @pytest.mark.parametrize(("contender", "system"), [(TaskOnly(), ""), (ChainOfThought(), GENERATION)])
    async def test_what_is_seen(self, contender: PerBackbone, system: str, tmp_path: Path) -> None:
        """One call that sees the question, after its system message, billed as the ledger has it."""
        script = Script(patiently("so\nAnswer: 0"))
        arena = stage(tmp_path, script)
        with arena.player.ledger:
            record = await episode(arena, contender.method(WARM[0]))
            assert billed(arena, record) == (record.weighted_tokens, record.gflop)
            assert script.seen == [(system, question(arena))]
        assert (record.status, record.n_calls, record.n_turns, record.variant) == ("correct", 1, 1, "ann")
        assert record.method == contender.name

    async def test_own_component(self, tmp_path: Path) -> None:
        """A text of one's own is the system message."""
        script = Script(patiently("Answer: 0"))
        arena = stage(tmp_path, script)
        with arena.player.ledger:
            await episode(arena, ChainOfThought(components={"generation_system": "Hm {x}."}).method(WARM[0]))
        assert script.seen[0][0] == "Hm {x}."

    @pytest.mark.parametrize(
        ("reply", "status"),
        [("", "no_answer"), (CUT, "truncated"), (REFUSED, "refused"), (TransportError("server", "down"), "error")],
    )
    async def test_what_becomes_of_it(self, reply: str | Reply | Exception, status: str, tmp_path: Path) -> None:
        """No text, a text cut short, a refusal and a failed call are what the design's table says."""
        arena = stage(tmp_path, Script(lambda _: reply))
        with arena.player.ledger:
            record = await episode(arena, ChainOfThought().method(WARM[0]))
        assert record.status == status

    async def test_no_call_is_allowed(self, tmp_path: Path) -> None:
        """An episode whose own cap allows no call ends capped and without an answer."""
        arena = stage(tmp_path, Script(patiently()), rules=Rules(episode=Cap(calls=0)))
        with arena.player.ledger:
            record = await episode(arena, TaskOnly().method(WARM[0]))
        assert (record.status, record.capped, record.n_calls) == ("no_answer", True, 0)

    async def test_a_row_a_backbone(self, tmp_path: Path) -> None:
        """Every backbone has a method, which is played once where it has no noise, else as often as told."""
        arena = stage(tmp_path, Script(patiently()), [AGENTS[0], WARM[1]])
        with arena.player.ledger:
            methods = await ChainOfThought(replicates=2).prepare(arena)
        assert [(m.name, m.variant, m.backbone, m.replicates) for m in methods] == [
            ("cot", "ann", "ann", 1),
            ("cot", "bob", "bob", 2),
        ]

    def test_forecast_is_a_bound(self) -> None:
        """No episode is dearer than foreseen: the longest question and system message, the longest answer."""
        agent = WARM[0]
        ground = Ground([agent], skill_tasks(n_test=3), 2)
        foreseen = ChainOfThought().forecast(ground)
        asked = [task.open(item)[-1]["content"] for task, item in ground.items("test")]
        worst = [Usage(len((GENERATION + text).encode()), agent.sampling["max_tokens"]) for text in asked]
        assert (foreseen.episodes, foreseen.spend.calls) == (18, 18)
        assert foreseen.spend.weighted_tokens >= 2 * sum(actual(agent, usage).weighted_tokens for usage in worst)


class _Several(ChainOfThought):
    """A method that draws several answers of one backbone."""

    name = "several"
    samples = True


class TestRefused:
    """What does not start."""

    def test_samples_without_noise(self) -> None:
        """Backbones without noise would answer alike: refused before anything is asked, and said how to mend it."""
        agents: list[Agent] = [AGENTS[0], WARM[1]]
        with pytest.raises(ConfigError, match=r"several draws several answers of ann, .*backbones\.sampling"):
            _Several().check(Ground(agents, {}, 1))
        _Several(backbones={"sampling": {"temperature": 1.0}}).check(Ground(agents, {}, 1))

    @pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", None, 10**9])
    def test_no_count(self, value: object) -> None:
        """A knob that is no whole number in its range is refused by name."""
        with pytest.raises(ConfigError, match=r"methods\.m\.rounds="):
            whole_number("m", "rounds", value)

    @pytest.mark.parametrize("value", [0, 2.5, "two"])
    def test_replicates(self, value: object) -> None:
        """So are replicates."""
        with pytest.raises(ConfigError, match=r"methods\.cot\.replicates="):
            ChainOfThought(replicates=value)  # type: ignore[arg-type]  # YAML may hold anything
