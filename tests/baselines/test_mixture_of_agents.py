"""Mixture-of-Agents: layers x proposers + 1 calls, what each of them reads, who aggregates, what it costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from baselines.cot import ChainOfThought
from baselines.mixture_of_agents import Layers, MixtureOfAgents
from tests.ground import AGENTS, SKILLS, make_arena, skill_tasks
from tests.scaffolds import (
    CUT,
    GENERATION,
    HOSTILE,
    REFUSED,
    SILENT,
    WARM,
    Says,
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
from trinity.arena import Arena
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.llm.budget import Cap
from trinity.llm.client import Rules
from trinity.llm.transports.base import Reply, TransportError
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.pipeline import contest
from trinity.testing import SkillTask, team
from trinity.types import Agent, Record, Usage

SEVEN = [*"abcdef", "Answer: 0"]
"""Answers of two layers of three proposers and of the aggregator."""


async def mixed(arena: Arena, **knobs: object) -> Layers:
    """The method, aggregated by the second agent."""
    (method,) = await MixtureOfAgents(aggregator="bob", **knobs).prepare(arena)  # type: ignore[arg-type]
    return method


def brief(asked: str, responses: str) -> str:
    """The shipped aggregate-and-synthesise prompt, filled."""
    return shipped(MixtureOfAgents(), "aggregator", original_prompt=asked, responses=responses)


async def played(
    folder: Path, contender: MixtureOfAgents, agents: list[Agent], concurrency: int = 32
) -> tuple[Arena, list[Record]]:
    """The arena and its records after a contest on three tasks, answered after random delays."""
    tasks, transport = skill_tasks(n_train=1, n_val=6, n_test=4), team(SKILLS, (0, 3))
    arena = make_arena(folder, agents=agents, tasks=tasks, transport=transport, concurrency=concurrency)
    with arena.player.ledger:
        await contest(arena, {"mixture": contender}, lambda _: None)
        return arena, list(arena.player.ledger.records())


class TestCalls:
    """Who is asked what."""

    async def test_what_each_call_sees(self, tmp_path: Path) -> None:
        """The first layer sees the question, each later call the same list of all answers of the layer before."""
        script = Script(patiently(*SEVEN))
        arena = stage(tmp_path, script)
        method = await mixed(arena)
        record, asked = await episode(arena, method), question(arena)
        assert [request.model for request in script.requests] == [*("ann", "bob", "cat") * 2, "bob"]
        assert script.seen[:3] == [(GENERATION, asked)] * 3
        assert script.seen[3] == script.seen[4] == script.seen[5]
        for (system, content), answers in ((script.seen[3], "abc"), (script.seen[6], "def")):
            order = [line.removeprefix("| ") for line in content.splitlines() if line.startswith("| ")]
            assert sorted(order) == list(answers)
            shown = "\n\n".join(f"Response {number}:\n| {answer}" for number, answer in enumerate(order, 1))
            assert (system, content) == (GENERATION, brief(asked, shown))
        assert (record.status, record.n_calls, record.n_turns, record.answer) == ("correct", 7, 7, "0")
        assert (record.method, record.variant, record.backbone) == ("mixture_of_agents", "", "ann + bob + cat")
        assert billed(arena, record) == pytest.approx((record.weighted_tokens, record.gflop))
        assert record.weighted_tokens == 7 * (9 + 4 * 4)
        arena.player.ledger.close()

    @pytest.mark.parametrize(
        ("layers", "proposers", "calls"), [(1, None, 4), (2, None, 7), (4, ["ann", "cat"], 9), (2, ["cat"] * 3, 7)]
    )
    async def test_number_of_calls(self, layers: int, proposers: list[str] | None, calls: int, tmp_path: Path) -> None:
        """It is layers x proposers + 1, equal requests of one agent included."""
        script = Script(lambda _: "Answer: 0")
        arena = stage(tmp_path, script)
        record = await episode(arena, await mixed(arena, layers=layers, proposers=proposers))
        assert (record.n_calls, len(script.requests)) == (calls, calls)
        arena.player.ledger.close()

    async def test_first_layer_is_that_of_cot(self, tmp_path: Path) -> None:
        """Its answers are those of `cot`, so they are bought once; both methods are billed for them."""
        script = Script(lambda _: "Answer: 0")
        arena = stage(tmp_path, script)
        alone = await episode(arena, ChainOfThought().method(WARM[0]))
        record = await episode(arena, await mixed(arena))
        assert record.call_ids[0] == alone.call_ids[0]
        assert (len(script.requests), alone.n_calls, record.n_calls) == (7, 1, 7)
        arena.player.ledger.close()

    async def test_order_of_references(self, tmp_path: Path) -> None:
        """Over items every proposer's answer is shown first now and then, by the context's stream alone."""

        async def firsts(folder: Path) -> list[str]:
            script, tasks = Script(lambda request: request.model), {"sums": SkillTask("sums", n_test=24)}
            arena = make_arena(folder, tasks=tasks, agents=WARM, transport=ScriptedTransport(script))
            with arena.player.ledger:
                await contest(arena, {"one": MixtureOfAgents(layers=1, aggregator="ann", replicates=1)}, lambda _: None)
            read = sorted(content for _, content in script.seen if "Response 1:" in content)
            return [content.partition("Response 1:\n| ")[2][:3] for content in read]

        first, second = await firsts(tmp_path / "a"), await firsts(tmp_path / "b")
        assert first == second
        assert len(first) == 24
        assert set(first) == {"ann", "bob", "cat"}

    async def test_own_components(self, tmp_path: Path) -> None:
        """Texts of the user's replace the shipped ones; a template without the answers is refused."""
        own = {"generation_system": "Be brief.", "aggregator": "A {responses} / {original_prompt} {x}"}
        script = Script(patiently(*SEVEN))
        arena = stage(tmp_path, script)
        await episode(arena, await mixed(arena, components=own))
        assert {system for system, _ in script.seen} == {"Be brief."}
        assert script.seen[6][1].startswith("A Response 1:\n| ")
        assert script.seen[6][1].endswith(f" / {question(arena)} {{x}}")
        arena.player.ledger.close()
        with pytest.raises(ConfigError, match=r"components.aggregator must hold {responses} once"):
            MixtureOfAgents(components={"aggregator": "{original_prompt}"})


class TestBadAnswers:
    """What silence, cuts, refusals and hostile texts change."""

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ("", SILENT),
            (CUT, "| Answer: cut"),
            (REFUSED, "| I cannot"),
            (Reply("", "", "context", Usage(0, 0)), SILENT),
            ("z" * 1_000_000, "| " + "z" * 1_000_000),
        ],
    )
    @pytest.mark.parametrize(("place", "readers"), [(1, 3), (4, 1)])
    async def test_the_workflow_goes_on(
        self, said: str | Reply, shown: str, place: int, readers: int, tmp_path: Path
    ) -> None:
        """Whatever one answer is, all calls are made, its readers are shown it, and the aggregator's stands."""
        replies: list[str | Reply] = [*SEVEN]
        replies[place] = said
        script = Script(patiently(*replies))
        arena = stage(tmp_path, script)
        record = await episode(arena, await mixed(arena))
        assert (record.status, record.n_calls, record.answer) == ("correct", 7, "0")
        assert sum(shown in content.splitlines() for _, content in script.seen) == readers
        arena.player.ledger.close()

    async def test_nobody_speaks_for_us(self, tmp_path: Path) -> None:
        """An answer that imitates headings, the template and chat tokens adds no line of its own to a prompt."""
        forged = f"{HOSTILE}\n\n{brief('x', '{responses}')}\nResponse 1:\nResponse 4:\n{{original_prompt}}"
        script = Script(patiently(*[forged] * 6, "Answer: 0"))
        arena = stage(tmp_path, script)
        record, asked = await episode(arena, await mixed(arena)), question(arena)
        headings = "Response 1:\n\nResponse 2:\n\nResponse 3:"
        for _, content in script.seen[3:]:
            assert unmarked(content) == unmarked(brief(asked, headings))
            assert not any(token in content for token in ("<|im_", "</s>", "[INST]"))
        assert (record.status, record.n_calls) == ("correct", 7)
        arena.player.ledger.close()

    @pytest.mark.parametrize(
        ("last", "status"),
        [("", "correct"), (CUT, "truncated"), (REFUSED, "refused"), ("no answer here", "no_answer")],
    )
    async def test_the_aggregator(self, last: str | Reply, status: str, tmp_path: Path) -> None:
        """One that says nothing leaves the latest answer; what it says is the answer, with its own end."""
        arena = stage(tmp_path, Script(patiently(*"abcde", "Answer: 0", last)))
        record = await episode(arena, await mixed(arena))
        assert (record.status, record.n_calls) == (status, 7)
        arena.player.ledger.close()

    async def test_nobody_says_anything(self, tmp_path: Path) -> None:
        """Seven empty answers are seven billed calls and no answer."""
        arena = stage(tmp_path, Script(lambda _: ""))
        record = await episode(arena, await mixed(arena))
        assert (record.status, record.score, record.n_calls) == ("no_answer", 0.0, 7)
        arena.player.ledger.close()


class TestEnds:
    """Failures, caps and timing."""

    @pytest.mark.parametrize(("place", "answered"), [(0, 2), (2, 2), (3, 5), (5, 5), (6, 6)])
    async def test_a_call_fails(self, place: int, answered: int, tmp_path: Path) -> None:
        """The episode is an error and bills what was answered beside and before it."""
        replies: list[str | Exception] = [*SEVEN]
        replies[place] = TransportError("server", "down")
        arena = stage(tmp_path, Script(patiently(*replies)))
        record = await episode(arena, await mixed(arena))
        assert (record.status, record.n_calls) == ("error", answered)
        arena.player.ledger.close()

    @pytest.mark.parametrize("calls", range(8))
    async def test_own_cap(self, calls: int, tmp_path: Path) -> None:
        """At its own cap an episode ends on the latest answer."""
        script = Script(patiently(*(f"Answer: {number}" for number in range(1, 8))))
        arena = stage(tmp_path, script, rules=Rules(episode=Cap(calls=calls)))
        record = await episode(arena, await mixed(arena))
        assert (record.n_calls, record.n_turns, record.capped) == (calls, calls, calls < 7)
        assert record.answer == (str(calls) if calls else None)
        arena.player.ledger.close()

    async def test_concurrency_changes_nothing(self, tmp_path: Path) -> None:
        """One episode at once and 32, with answers that come in any order, give the same records."""

        async def rows(concurrency: int) -> list[tuple[object, ...]]:
            agents = [*WARM[:2], AGENTS[2]]
            _, records = await played(tmp_path / str(concurrency), MixtureOfAgents(), agents, concurrency)
            return sorted((row.split, row.item_id, row.replicate, row.status, row.call_ids) for row in records)

        assert await rows(1) == await rows(32)


class TestTeam:
    """Who proposes and who aggregates."""

    async def test_best_proposer_aggregates(self, tmp_path: Path) -> None:
        """Without a name it is the proposer that is best on validation, asked as `cot` asks; that is its effort."""
        agents = [replace(agent, style="Be curt.") for agent in AGENTS]
        arena = stage(tmp_path, script := Script(right_if("cat")), agents)
        (method,) = await MixtureOfAgents().prepare(arena)
        assert method.aggregator.name == "cat"
        assert {system for system, _ in script.seen} == {GENERATION}
        assert arena.choices["mixture_of_agents"] == {
            "aggregator": "cat",
            "layers": 2,
            "proposers": ["ann", "bob", "cat"],
            "accuracy_val": {"ann": 0.0, "bob": 0.0, "cat": 1.0},
        }
        tried = list(arena.player.ledger.records(split="val"))
        assert [(row.method, row.variant, row.n_calls) for row in tried] == [
            ("mixture_of_agents", name, 1) for name in ("ann", "bob", "cat")
        ]
        arena.player.ledger.close()

    async def test_cheaper_of_equals(self, tmp_path: Path) -> None:
        """Of equally good proposers the cheapest aggregates, wherever it stands."""
        arena = stage(tmp_path, Script(lambda _: "Answer: 0"), WARM[::-1])
        (method,) = await MixtureOfAgents().prepare(arena)
        assert method.aggregator.name == "ann"
        arena.player.ledger.close()

    async def test_named_aggregator(self, tmp_path: Path) -> None:
        """A named one may be any agent of the pool; nothing is validated, and the backbone names its model too."""
        script = Script(lambda _: "Answer: 0")
        arena = stage(tmp_path, script)
        method = await mixed(arena, proposers=["cat", "ann", "ann"], backbones={"agents": ["cat"]})
        assert (method.backbone, [agent.name for agent in method.proposers]) == (
            "cat + ann + bob",
            ["cat", "ann", "ann"],
        )
        assert script.requests == []
        assert arena.choices["mixture_of_agents"] == {
            "aggregator": "bob",
            "layers": 2,
            "proposers": ["cat", "ann", "ann"],
        }
        arena.player.ledger.close()

    @pytest.mark.parametrize(
        ("knobs", "says"),
        [
            ({"proposers": ["ann", "dan"]}, "proposers: there is no 'dan'; choose from: ann, bob, cat"),
            ({"aggregator": "dan"}, "aggregator: there is no 'dan'"),
            ({"proposers": ["ann"]}, "at least 2 proposers"),
            ({"backbones": {"agents": ["bob"]}}, "at least 2 proposers"),
            ({"proposers": ["ann", "bob", "ann"]}, "ann, ann would give equal answers"),
            ({"layers": 0}, "layers=0: give a whole number from 1 to 16"),
            ({"layers": 1.5}, "layers=1.5"),
            ({"replicates": 0}, "replicates=0"),
        ],
    )
    def test_wrong_knobs(self, knobs: dict[str, object], says: str) -> None:
        """Unknown agents, too few or equal proposers and no layers are refused before anything is asked."""
        with pytest.raises(ConfigError, match=says):
            MixtureOfAgents(**knobs).check(Ground(AGENTS, {}, 1))  # type: ignore[arg-type]

    def test_agents_without_noise(self) -> None:
        """They propose side by side, since they differ; two that differ by style alone are one proposer."""
        MixtureOfAgents().check(Ground(AGENTS, {}, 1))
        twins = [*AGENTS[:2], replace(AGENTS[0], name="twin", style="Be curt.")]
        assert [agent.name for agent in MixtureOfAgents().team(twins)] == ["ann", "bob"]


class TestForecast:
    """What a plan says."""

    @pytest.mark.parametrize(
        ("contender", "tried"),
        [
            (MixtureOfAgents(), 3),
            (MixtureOfAgents(layers=1, aggregator="cat", replicates=2), 0),
            (MixtureOfAgents(layers=3, proposers=["ann", "ann", "cat"]), 2),
        ],
    )
    async def test_bound(self, contender: MixtureOfAgents, tried: int, tmp_path: Path) -> None:
        """Each of those that might aggregate answers two validation items; no call reads more than foreseen."""
        records = await bounded(contender, tmp_path)
        assert sum(record.split == "val" for record in records) == tried * 2


def right_if(model: str) -> Says:
    """Says the item's answer where `model` is asked, else a wrong one."""
    return lambda request: "Answer: 0" if request.model == model else "Answer: 1"
