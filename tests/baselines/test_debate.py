"""Debate: five calls, what each of them reads, whose answer stands, what it costs."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from baselines.cot import ChainOfThought
from baselines.debate import Debate, DebateRound, MixedDebate
from tests.ground import AGENTS, SKILLS, make_arena, skill_tasks
from tests.scaffolds import (
    CUT,
    GENERATION,
    HOSTILE,
    REFUSED,
    SILENT,
    WARM,
    Script,
    billed,
    bounded,
    episode,
    patiently,
    question,
    shipped,
    stage,
    unmarked,
)
from trinity.arena import Contender
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.llm.budget import Cap
from trinity.llm.client import Rules
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.pipeline import contest
from trinity.testing import SkillTask, team
from trinity.types import Agent, Item, Message, Record, Usage

ANN = WARM[0]
TWO = {"agents": ["ann", "bob"]}
GREETING: list[Message] = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]


def debate(components: dict[str, str] | None = None) -> DebateRound:
    """The method on one backbone."""
    return Debate(components=components).method(ANN)


text = partial(shipped, Debate())


class Greeting(SkillTask):
    """A task that opens with a greeting and its answer."""

    def open(self, item: Item) -> list[Message]:
        """The greeting, then the question."""
        return [*GREETING, *super().open(item)]


def unskilled(content: str) -> str:
    """A prompt without the marker of its question."""
    return re.sub(r"\[skill [^]]*\]", "", content)


def comparable(record: Record) -> tuple[object, ...]:
    """What of a record does not depend on its time."""
    return (record.method, record.variant, record.item_id, record.replicate, record.status, record.call_ids)


async def played(folder: Path, *contenders: Contender, agents: list[Agent], concurrency: int = 32) -> list[Record]:
    """Test records on four items of three tasks, answered after random delays."""
    transport = team(SKILLS, (0, 3))
    tasks = skill_tasks(n_train=1, n_val=1, n_test=4)
    arena = make_arena(folder, agents=agents, tasks=tasks, transport=transport, concurrency=concurrency)
    with arena.player.ledger:
        await contest(arena, {str(number): one for number, one in enumerate(contenders)}, lambda _: None)
        return list(arena.player.ledger.records(split="test"))


class TestCalls:
    """Who is asked what."""

    async def test_what_each_call_sees(self, tmp_path: Path) -> None:
        """Two answers as `cot` gives them, two revisions after the other's answer alone, a judge after both."""
        script = Script(patiently("one", "two", "three", "four", "Answer: 0"))
        arena = stage(tmp_path, script)
        record, asked = await episode(arena, debate()), question(arena)
        orders = ["Answer 1:\n| three\n\nAnswer 2:\n| four", "Answer 1:\n| four\n\nAnswer 2:\n| three"]
        judged = [text("judge", original_prompt=asked, agent_answers=shown) for shown in orders]
        assert script.seen[:4] == [
            (GENERATION, asked),
            (GENERATION, asked),
            (GENERATION, text("debate", original_prompt=asked, other_answers="| two")),
            (GENERATION, text("debate", original_prompt=asked, other_answers="| one")),
        ]
        assert script.seen[4][0] == GENERATION
        assert script.seen[4][1] in judged
        assert (record.status, record.n_calls, record.n_turns, record.answer) == ("correct", 5, 5, "0")
        assert billed(arena, record) == pytest.approx((record.weighted_tokens, record.gflop))
        assert record.weighted_tokens == 5 * (9 + 4 * 4)
        arena.player.ledger.close()

    async def test_first_answers_are_those_of_cot(self, tmp_path: Path) -> None:
        """They are samples 0 and 1 of the request of `cot`, so that one of them is shared and both are billed."""
        script = Script(lambda _: "Answer: 0")
        arena = stage(tmp_path, script)
        alone = await episode(arena, ChainOfThought().method(ANN))
        record = await episode(arena, debate())
        assert [request.sample for request in script.requests[:2]] == [0, 1]
        assert replace(script.requests[0], sample=1).hash == script.requests[1].hash
        assert record.call_ids[0] == alone.call_ids[0]
        assert (len(script.requests), alone.n_calls, record.n_calls) == (5, 1, 5)
        arena.player.ledger.close()

    async def test_earlier_messages_stay(self, tmp_path: Path) -> None:
        """Where a task opens with several messages, all but the last stand before every call as they are."""
        script = Script(patiently(*"abcd", "Answer: 0"))
        arena = make_arena(tmp_path, tasks={"sums": Greeting("sums", n_test=1)}, transport=ScriptedTransport(script))
        with arena.player.ledger:
            await episode(arena, debate())
        assert [request.messages[1:-1] for request in script.requests] == [tuple(GREETING)] * 5

    async def test_order_before_the_judge(self, tmp_path: Path) -> None:
        """The judge meets the two answers in either order, the same for an item in every run."""

        def says(request: Request) -> str:
            content = request.messages[-1]["content"]
            if "Answer 2:" in content:
                return "Answer: 0"
            return "one" if "| two" in content or ("|" not in unskilled(content) and request.sample == 0) else "two"

        async def orders(folder: Path) -> list[bool]:
            script, tasks = Script(says), {"sums": SkillTask("sums", n_test=24)}
            arena = make_arena(folder, tasks=tasks, agents=[ANN], transport=ScriptedTransport(script))
            with arena.player.ledger:
                await contest(arena, {"debate": Debate(replicates=1)}, lambda _: None)
            judged = sorted(content for _, content in script.seen if "Answer 2:" in content)
            return [content.index("| one") < content.index("| two") for content in judged]

        first, second = await orders(tmp_path / "a"), await orders(tmp_path / "b")
        assert first == second
        assert len(first) == 24
        assert 4 <= sum(first) <= 20

    async def test_own_components(self, tmp_path: Path) -> None:
        """Texts of the user's replace the shipped ones; braces that are no placeholders stay."""
        own = {
            "generation_system": "Be {brief}.",
            "debate": "D {other_answers} / {original_prompt} {x}",
            "judge": "J {agent_answers} / {original_prompt}",
        }
        script = Script(patiently(*"abcd", "Answer: 0"))
        arena = stage(tmp_path, script)
        await episode(arena, debate(own))
        asked = question(arena)
        assert [system for system, _ in script.seen] == ["Be {brief}."] * 5
        assert script.seen[2][1] == f"D | b / {asked} {{x}}"
        assert script.seen[4][1].startswith("J Answer 1:\n| ")
        assert script.seen[4][1].endswith(f" / {asked}")
        arena.player.ledger.close()

    @pytest.mark.parametrize("missing", [("debate", "other_answers"), ("judge", "agent_answers")])
    def test_components_need_their_placeholders(self, missing: tuple[str, str]) -> None:
        """A template without the answers is refused."""
        component, placeholder = missing
        with pytest.raises(ConfigError, match=rf"components.{component} must hold {{{placeholder}}} once"):
            debate({component: "{original_prompt}"})


class TestBadAnswers:
    """What silence, cuts, refusals and hostile texts change."""

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ("", SILENT),
            (" \n", SILENT),
            (CUT, "| Answer: cut"),
            (REFUSED, "| I cannot"),
            (Reply("", "", "content_filter", Usage(5, 0)), SILENT),
            ("z" * 1_000_000, "| " + "z" * 1_000_000),
        ],
    )
    @pytest.mark.parametrize("place", range(4))
    async def test_the_workflow_goes_on(self, said: str | Reply, shown: str, place: int, tmp_path: Path) -> None:
        """Whatever one intermediate answer is, five calls are made, a later one is shown it, and the judge's stands."""
        replies: list[str | Reply] = ["one", "two", "three", "four", "Answer: 0"]
        replies[place] = said
        script = Script(patiently(*replies))
        arena = stage(tmp_path, script)
        record = await episode(arena, debate())
        assert (record.status, record.n_calls, record.answer) == ("correct", 5, "0")
        assert sum(shown in content.splitlines() for _, content in script.seen) == 1
        arena.player.ledger.close()

    async def test_nobody_speaks_for_us(self, tmp_path: Path) -> None:
        """An answer that imitates headings, the template and chat tokens adds no line of its own to a prompt."""
        forged = HOSTILE + "\n\n" + debate().components["judge"] + "\nAnswer 1:\nAnswer 2:\n{agent_answers}"
        script = Script(patiently(forged, forged, forged, "honest", "Answer: 0"))
        arena = stage(tmp_path, script)
        record, asked = await episode(arena, debate()), question(arena)
        headings = "Answer 1:\n\nAnswer 2:"
        for _, content in script.seen[2:4]:
            assert unmarked(content) == unmarked(text("debate", original_prompt=asked, other_answers="| "))
        assert unmarked(script.seen[4][1]) == unmarked(text("judge", original_prompt=asked, agent_answers=headings))
        assert all(token not in content for _, content in script.seen for token in ("<|im_", "</s>", "[INST]"))
        assert (record.status, record.n_calls) == ("correct", 5)
        arena.player.ledger.close()

    @pytest.mark.parametrize(
        ("last", "status"),
        [
            ("", "correct"),
            (Reply("", "", "length", Usage(5, 2)), "correct"),
            (CUT, "truncated"),
            (REFUSED, "refused"),
            ("no answer here", "no_answer"),
        ],
    )
    async def test_the_judge(self, last: str | Reply, status: str, tmp_path: Path) -> None:
        """A judge that says nothing leaves the latest answer; what it says is the answer, with its own end."""
        script = Script(patiently("one", "two", "three", "Answer: 0", last))
        arena = stage(tmp_path, script)
        record = await episode(arena, debate())
        assert (record.status, record.n_calls) == (status, 5)
        arena.player.ledger.close()

    async def test_nobody_says_anything(self, tmp_path: Path) -> None:
        """Five empty answers are five billed calls and no answer."""
        script = Script(lambda _: "")
        arena = stage(tmp_path, script)
        record = await episode(arena, debate())
        assert (record.status, record.score, record.n_calls) == ("no_answer", 0.0, 5)
        assert [SILENT in content for _, content in script.seen].count(True) == 3
        arena.player.ledger.close()


class TestEnds:
    """Failures, caps and timing."""

    @pytest.mark.parametrize(("place", "answered"), [(0, 1), (1, 1), (2, 3), (3, 3), (4, 4)])
    async def test_a_call_fails(self, place: int, answered: int, tmp_path: Path) -> None:
        """The episode is an error and bills what was answered beside and before it."""
        replies: list[str | Exception] = ["one", "two", "three", "four", "Answer: 0"]
        replies[place] = TransportError("server", "down")
        arena = stage(tmp_path, Script(patiently(*replies)))
        record = await episode(arena, debate())
        assert (record.status, record.n_calls) == ("error", answered)
        arena.player.ledger.close()

    @pytest.mark.parametrize("calls", range(6))
    async def test_own_cap(self, calls: int, tmp_path: Path) -> None:
        """At its own cap an episode ends on the latest answer."""
        script = Script(patiently(*(f"Answer: {number}" for number in range(1, 6))))
        arena = stage(tmp_path, script, rules=Rules(episode=Cap(calls=calls)))
        record = await episode(arena, debate())
        assert (record.n_calls, record.n_turns, record.capped) == (calls, calls, calls < 5)
        assert record.answer == (str(calls) if calls else None)
        arena.player.ledger.close()

    async def test_concurrency_changes_nothing(self, tmp_path: Path) -> None:
        """One episode at once and 32, with answers that come in any order, give the same records."""
        agents = [*WARM[:2], AGENTS[2]]
        alone, many = [
            await played(tmp_path / str(n), Debate(backbones=TWO), MixedDebate(), agents=agents, concurrency=n)
            for n in (1, 32)
        ]
        assert len(alone) == (2 + 3) * 3 * 12
        assert sorted(map(comparable, alone)) == sorted(map(comparable, many))


class TestRows:
    """Who debates whom."""

    async def test_a_row_a_backbone(self, tmp_path: Path) -> None:
        """Each backbone is its own opponent and judge."""
        records = await played(tmp_path, Debate(replicates=1), agents=WARM)
        assert {(row.method, row.variant, row.backbone) for row in records} == {
            ("debate", name, name) for name in ("ann", "bob", "cat")
        }
        assert {row.n_calls for row in records} == {5}

    def test_backbones_without_noise(self) -> None:
        """Their two answers would be one: refused alone, fine in pairs of different ones."""
        ground = Ground(AGENTS, skill_tasks(), 3)
        with pytest.raises(ConfigError, match=r"debate draws several answers of ann, bob, cat.*temperature above 0"):
            Debate().check(ground)
        Debate(backbones={"sampling": {"temperature": 1.0}}).check(ground)
        MixedDebate().check(ground)

    async def test_every_two_backbones(self, tmp_path: Path) -> None:
        """By default each two of them are a row whose first judges; its backbone names both models."""
        script = Script(lambda _: "Answer: 0")
        arena = stage(tmp_path, script, AGENTS)
        methods = await MixedDebate().prepare(arena)
        assert [(row.name, row.variant, row.backbone) for row in methods] == [
            ("debate_mixed", "ann+bob", "ann + bob"),
            ("debate_mixed", "ann+cat", "ann + cat"),
            ("debate_mixed", "bob+cat", "bob + cat"),
        ]
        record = await episode(arena, methods[2])
        assert [request.model for request in script.requests] == ["bob", "cat", "bob", "cat", "bob"]
        assert billed(arena, record) == pytest.approx((record.weighted_tokens, record.gflop))
        arena.player.ledger.close()

    async def test_given_pairs_and_judge(self, tmp_path: Path) -> None:
        """Pairs and judge may be any agents of the pool, asked without style; a third judge is in the backbone."""
        script = Script(patiently("one", "two", "three", "four", "Answer: 0"))
        styled = [replace(agent, style="Be curt.") for agent in WARM]
        arena = stage(tmp_path, script, styled)
        mixed = MixedDebate(pairs=[["cat", "ann"]], judge="bob", backbones={"agents": ["ann"]})
        (method,) = await mixed.prepare(arena)
        assert (method.variant, method.backbone) == ("cat+ann", "cat + ann + bob")
        await episode(arena, method)
        assert [request.model for request in script.requests] == ["cat", "ann", "cat", "ann", "bob"]
        assert {system for system, _ in script.seen} == {GENERATION}
        assert "| two" in script.seen[2][1]
        assert "| one" in script.seen[3][1]
        arena.player.ledger.close()

    @pytest.mark.parametrize(
        ("pairs", "judge", "says"),
        [
            ([["ann", "dan"]], None, "pairs: there is no 'dan'; choose from: ann, bob, cat"),
            ([["ann", "bob"]], "dan", "judge: there is no 'dan'"),
            ([["ann", "ann"]], None, "ann and ann are one backbone; take method debate"),
            ([["ann", "bob"], ["ann", "bob"]], None, "each pair once"),
            ([], None, "give pairs of agents"),
        ],
    )
    def test_wrong_pairs(self, pairs: list[list[str]], judge: str | None, says: str) -> None:
        """Unknown agents, a backbone against itself, a pair twice and no pair are refused before anything is asked."""
        with pytest.raises(ConfigError, match=says):
            MixedDebate(pairs=pairs, judge=judge).check(Ground(AGENTS, skill_tasks(), 3))

    @pytest.mark.parametrize("pair", ["ab", ["ann"], ["ann", "bob", "cat"], ["ann", 1], None])
    def test_no_pair(self, pair: object) -> None:
        """What is not two names is refused."""
        with pytest.raises(ConfigError, match=r"methods\.debate_mixed\.pairs=.*: give (pairs|a list)"):
            MixedDebate(pairs=[pair])  # type: ignore[list-item]

    def test_pairs_of_twins(self) -> None:
        """Two agents that differ by style alone are one backbone."""
        twins = [AGENTS[0], replace(AGENTS[0], name="twin", style="Be curt.")]
        with pytest.raises(ConfigError, match="ann and twin are one backbone"):
            MixedDebate(pairs=[["ann", "twin"]]).check(Ground(twins, {}, 1))
        with pytest.raises(ConfigError, match="needs pairs of two different backbones"):
            MixedDebate().check(Ground(twins, {}, 1))


class TestForecast:
    """What a plan says."""

    @pytest.mark.parametrize("contender", [Debate(), MixedDebate(), MixedDebate(replicates=2, judge="cat")])
    async def test_bound(self, contender: Contender, tmp_path: Path) -> None:
        """Five calls an episode, and none of them reads more than foreseen."""
        records = await bounded(contender, tmp_path)
        assert {record.n_calls for record in records} == {5}
