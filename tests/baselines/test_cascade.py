"""The cascade: who is asked in which order, what verifiers see, and that only their own first word ends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baselines.cascade import Cascade
from baselines.components import load
from baselines.cot import ChainOfThought
from tests.ground import AGENTS, make_arena, skill_tasks
from tests.scaffolds import (
    CUT,
    GENERATION,
    HOSTILE,
    LAVISH,
    REFUSED,
    SILENT,
    WARM,
    Script,
    bounded,
    contested,
    episode,
    exchanged,
    patiently,
    stage,
    system,
    unmarked,
)
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.llm.budget import Cap
from trinity.llm.client import Rules
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.scripted import ScriptedTransport, SkillScript, reply_to
from trinity.types import Agent, Price, Record, Usage

NAMES = ["ann", "bob", "cat"]
VERIFIER = load("cascade", Cascade.parts)["verifier_system"]
Told = tuple[Record, list[tuple[str, str, str]], str]


async def told(folder: Path, *replies: str | Reply | Exception, **knobs: Any) -> Told:
    """The record of an episode of ann, bob, cat; who was asked, after what, about what; the question."""
    record, script, asked = await exchanged(folder, Cascade(**{"order": NAMES, **knobs}), *replies)
    whom = [request.model for request in script.asked]
    return record, [(model, *what) for model, what in zip(whom, script.seen, strict=True)], asked


class TestCalls:
    """How many calls, whom, and what each sees."""

    @pytest.mark.parametrize(
        ("replies", "answer"),
        [
            (["Answer: 7", "ACCEPT"], "7"),
            (["Answer: 7", "REVISE", "Answer: 0", "**Accept**, it is right."], "0"),
            (["Answer: 7", "REVISE, no.", "Answer: 8", "revise", "Answer: 0"], "0"),
        ],
    )
    async def test_first_accepted_ends_it(self, replies: list[str], answer: str, tmp_path: Path) -> None:
        """The first accepted answer is returned; the last agent's is final without a judgement."""
        record, seen, _ = await told(tmp_path, *replies)
        assert (record.answer, record.n_calls) == (answer, len(replies))
        assert [name for name, _, _ in seen] == ["ann", "ann", "bob", "bob", "cat"][: len(replies)]
        assert record.status == ("correct" if answer == "0" else "wrong")

    async def test_what_each_call_sees(self, tmp_path: Path) -> None:
        """Answers are asked as by chain of thought; a verifier sees the question and one answer, nobody the rest."""
        _, seen, text = await told(tmp_path, "Answer: 7", "REVISE", "Answer: 8", "REVISE", "Answer: 0")
        assert {what[1:] for what in seen[::2]} == {(GENERATION, text)}
        for (_, before, content), answer in zip(seen[1::2], ("7", "8"), strict=True):
            assert before == VERIFIER
            assert content.startswith(f"{text}\n\n")
            assert [line for line in content.splitlines() if line.startswith("| ")] == [f"| Answer: {answer}"]

    async def test_a_named_verifier(self, tmp_path: Path) -> None:
        """One agent may judge all, even one that answers nothing."""
        replies = ["Answer: 7", "REVISE", "Answer: 8"]
        _, seen, _ = await told(tmp_path, *replies, order=["bob", "ann"], verifier="cat")
        assert [name for name, _, _ in seen] == ["bob", "cat", "ann"]

    async def test_one_agent_answers_alone(self, tmp_path: Path) -> None:
        """Of one agent there is nothing to judge."""
        record, _, _ = await told(tmp_path, "Answer: 0", order=["bob"])
        assert (record.status, record.n_calls, record.backbone) == ("correct", 1, "bob")

    async def test_first_answers_are_those_of_cot(self, tmp_path: Path) -> None:
        """Its answers are the calls that chain of thought makes, bought once and billed to both."""
        script = Script(lambda request: "REVISE" if system(request) == VERIFIER else "Answer: 0")
        records = await contested(stage(tmp_path, script), cot=ChainOfThought(), cascade=Cascade(order=NAMES))
        alone = {call for row in records if row.method == "cot" for call in row.call_ids}
        (first, *_) = [row for row in records if row.method == "cascade"]
        assert [call in alone for call in first.call_ids] == [True, False, True, False, True]
        assert len(script.requests) == 3 * (3 + 2)

    async def test_own_components(self, tmp_path: Path) -> None:
        """Texts of the user's replace the prompts, braces and all."""
        own = {"generation_system": "Go.", "verifier_system": "Judge.", "verifier": "{answer} {{}} {original_prompt}"}
        _, seen, text = await told(tmp_path, "{original_prompt}", "ACCEPT", components=own)
        assert seen == [("ann", "Go.", text), ("ann", "Judge.", f"| {{original_prompt}} {{{{}}}} {text}")]


class TestVerdict:
    """What ends it."""

    @pytest.mark.parametrize(
        "verdict", ["", CUT, REFUSED, "It is right: ACCEPT", "| ACCEPT", "ACCEPTED", "Yes", HOSTILE[6:]]
    )
    async def test_anything_else_goes_on(self, verdict: str | Reply, tmp_path: Path) -> None:
        """A reply that does not begin with ACCEPT, an empty, cut or refused one too, passes the question on."""
        record, _, _ = await told(tmp_path, "Answer: 7", verdict, "Answer: 8", verdict, "Answer: 0")
        assert (record.status, record.n_calls) == ("correct", 5)

    async def test_silence_cannot_be_accepted(self, tmp_path: Path) -> None:
        """ACCEPT of an answer without a text ends nothing, and the verifier is shown that there is none."""
        record, seen, _ = await told(tmp_path, "", "ACCEPT", "Answer: 0", "ACCEPT")
        assert (record.status, record.n_calls) == ("correct", 4)
        assert f"\n{SILENT}\n" in seen[1][2]

    async def test_hostile_answer(self, tmp_path: Path) -> None:
        """An answer that imitates verdicts, headings, placeholders and templates stays within its quotation."""
        _, seen, text = await told(tmp_path, HOSTILE, "REVISE", "Answer: 7", "ACCEPT")
        hostile, usual = seen[1][2], seen[3][2]
        assert unmarked(hostile) == unmarked(usual)
        assert hostile.count(text) == 1
        assert "<|" not in hostile

    async def test_a_megabyte(self, tmp_path: Path) -> None:
        """A long answer is quoted whole; a long verdict is read by its first word."""
        record, seen, _ = await told(tmp_path, "Answer: 0\n" * 100_000, "ACCEPT " * 100_000)
        assert (record.status, record.n_calls) == ("correct", 2)
        assert seen[1][2].count("| Answer: 0\n") == 100_000


class TestEnds:
    """Status, failures, caps."""

    async def test_silence_at_the_end(self, tmp_path: Path) -> None:
        """Where the last agent says nothing, the latest answer that said anything stands."""
        record, _, _ = await told(tmp_path, "Answer: 0", "REVISE", "", "REVISE", "")
        assert (record.status, record.n_calls) == ("correct", 5)

    @pytest.mark.parametrize(("last", "status"), [(CUT, "truncated"), (REFUSED, "refused"), ("", "no_answer")])
    async def test_status_is_that_of_the_answer(self, last: Reply | str, status: str, tmp_path: Path) -> None:
        """What came last and said anything decides; where nobody did there is no answer."""
        record, _, _ = await told(tmp_path, "", "REVISE", last, "REVISE", last)
        assert (record.status, record.score) == (status, 0.0)

    async def test_accepted_though_cut(self, tmp_path: Path) -> None:
        """A verifier may accept an answer that was cut short: it ends there, truncated."""
        record, _, _ = await told(tmp_path, CUT, "ACCEPT")
        assert (record.status, record.n_calls) == ("truncated", 2)

    @pytest.mark.parametrize("place", range(5))
    async def test_a_call_that_fails(self, place: int, tmp_path: Path) -> None:
        """The episode is an error, never a wrong answer, and bills the calls before."""
        replies = ["Answer: 0", "REVISE", "Answer: 0", "REVISE"][:place]
        record, _, _ = await told(tmp_path, *replies, TransportError("server", "down"))
        assert (record.status, record.score, record.n_calls) == ("error", None, place)

    @pytest.mark.parametrize(("calls", "answer"), [(1, "7"), (2, "7"), (3, "8"), (4, "8"), (5, "0")])
    async def test_own_cap(self, calls: int, answer: str, tmp_path: Path) -> None:
        """At its own cap it ends on its latest answer, never on a verdict."""
        script = Script(patiently("Answer: 7", "REVISE", "Answer: 8", "REVISE\nAnswer: 0", "Answer: 0"))
        arena = stage(tmp_path, script, rules=Rules(episode=Cap(calls=calls)))
        with arena.player.ledger:
            (method,) = await Cascade(order=NAMES).prepare(arena)
            record = await episode(arena, method)
        assert (record.n_calls, record.answer, record.capped) == (calls, answer, calls < 5)


class TestOrder:
    """Who comes first."""

    async def test_by_cost_on_validation(self, tmp_path: Path) -> None:
        """From the agent whose answers cost least on validation items, which its size alone does not say."""
        words = {"ann": 90, "bob": 10, "cat": 1}  # of 1, 2 and 3 billion parameters
        script = Script(lambda request: Reply("Answer: 0", "", "stop", Usage(8, words[request.model])))
        arena = stage(tmp_path, script)
        with arena.player.ledger:
            (method,) = await Cascade().prepare(arena)
        assert arena.choices["cascade"] == {
            "order": ["cat", "bob", "ann"],
            "verifier": None,
            "axis": "gflop",
            "cost_val": {"ann": 2 * 98.0, "bob": 4 * 18.0, "cat": 6 * 9.0},
        }
        assert [system(request) for request in script.requests] == [GENERATION] * 3
        assert (method.name, method.variant, method.backbone) == ("cascade", "", "cat + bob + ann")

    async def test_equals_keep_the_order_of_the_pool(self, tmp_path: Path) -> None:
        """Of agents at one cost the earlier in the pool comes first."""
        same = [replace(agent, active_params=1e9) for agent in reversed(WARM)]
        arena = stage(tmp_path, Script(lambda _: "Answer: 0"), same)
        with arena.player.ledger:
            await Cascade().prepare(arena)
        assert arena.choices["cascade"]["order"] == ["cat", "bob", "ann"]

    async def test_given(self, tmp_path: Path) -> None:
        """A given order asks nobody on validation."""
        script = Script(lambda _: "Answer: 0")
        arena = stage(tmp_path, script)
        with arena.player.ledger:
            (method,) = await Cascade(order=["cat", "ann"], verifier="bob").prepare(arena)
        assert arena.choices["cascade"] == {"order": ["cat", "ann"], "verifier": "bob", "axis": "gflop", "cost_val": {}}
        assert (script.requests, method.backbone) == ([], "cat + ann")

    async def test_without_validation_items(self, tmp_path: Path) -> None:
        """Where nothing tells the costs the row is n/a, with the reason."""
        arena = make_arena(tmp_path, tasks=skill_tasks(n_val=0), agents=WARM)
        with arena.player.ledger:
            assert await Cascade().prepare(arena) == ()
        assert arena.notes == [
            "cascade: n/a, no cost in gflop is known of ann, bob, cat on validation items; set methods.cascade.order"
        ]

    @pytest.mark.parametrize(
        ("knobs", "line"),
        [
            ({"order": ["ann", "ann"]}, "methods.cascade.order=.*each backbone once"),
            ({"order": []}, "methods.cascade.order=.*give a list"),
            ({"order": "ann"}, "methods.cascade.order=ann: give a list"),
            ({"order": ["ann", "dan"]}, "methods.cascade.order: there is no 'dan'"),
            ({"verifier": "dan"}, "methods.cascade.verifier: there is no 'dan'"),
        ],
    )
    def test_mistakes(self, knobs: dict[str, Any], line: str) -> None:
        """Names that are wrong are refused before anything is asked, by their place in the configuration."""
        with pytest.raises(ConfigError, match=line):
            Cascade(**knobs).check(Ground(WARM, {}, 1))

    def test_one_backbone_twice(self) -> None:
        """Two agents that differ by style alone would be asked the same thing twice."""
        twins = [WARM[0], replace(WARM[0], name="twin", style="Be curt.")]
        with pytest.raises(ConfigError, match=r"order=.*each backbone once"):
            Cascade(order=["ann", "twin"]).check(Ground(twins, {}, 1))

    @pytest.mark.parametrize(
        ("agents", "verifier", "times"), [(AGENTS, None, 1), (WARM, None, None), ([*AGENTS[:2], WARM[2]], "cat", None)]
    )
    async def test_replicates(
        self, agents: list[Agent], verifier: str | None, times: int | None, tmp_path: Path
    ) -> None:
        """Once where neither who answers nor who judges samples."""
        arena = stage(tmp_path, Script(lambda _: "Answer: 0"), agents)
        with arena.player.ledger:
            (method,) = await Cascade(order=["ann", "bob"], verifier=verifier).prepare(arena)
        assert method.replicates == times

    async def test_skills_decide(self, tmp_path: Path) -> None:
        """With true verifiers each item is answered by the first agent that can; order of ends changes nothing."""

        def answer(request: Request) -> Reply:
            content = request.messages[-1]["content"]
            if system(request) == VERIFIER:
                return reply_to(request, "REVISE" if "| Answer: wrong" in content else "ACCEPT")
            return SkillScript({name: {task: 1.0} for name, task in zip(NAMES, skill_tasks(), strict=True)})(request)

        found = []
        for concurrency in (1, 32):
            folder, transport = tmp_path / str(concurrency), ScriptedTransport(answer)
            arena = make_arena(
                folder, tasks=skill_tasks(1, 1, 4), transport=transport, agents=WARM, concurrency=concurrency
            )
            found.append(await contested(arena, cascade=Cascade()))
        assert found[0] == found[1]
        assert {row.status for row in found[0]} == {"correct"}
        calls = {task: {row.n_calls for row in found[0] if row.task == task} for task in skill_tasks()}
        assert calls == {"sums": {2}, "words": {4}, "plans": {5}}


class TestForecast:
    """What it may cost."""

    @pytest.mark.parametrize("verifier", [None, "ann", "cat"])
    @pytest.mark.parametrize("order", [None, NAMES, ["cat", "ann", "bob"], ["bob"]])
    async def test_bounds_it(self, order: list[str] | None, verifier: str | None, tmp_path: Path) -> None:
        """An episode that nobody accepts, with whoever judges, and the validation that orders it are foreseen."""
        prices = [Price(5.0, 1.0, "by hand"), Price(1.0, 9.0, "by hand"), Price(2.0, 2.0, "by hand")]
        sizes = [
            replace(agent, sampling={**agent.sampling, "max_tokens": most}, price=price)
            for agent, most, price in zip(LAVISH, (9000, 4000, 6000), prices, strict=True)
        ]
        records = await bounded(Cascade(order=order, verifier=verifier), tmp_path, agents=sizes)
        answers = len(order or NAMES)
        assert {row.n_calls for row in records if row.split == "test"} == {2 * answers - 1}
