"""Five-times self-reflection: five answers, each but the first after the one before, whatever that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from baselines.cot import ChainOfThought
from baselines.five_times_reflection import FiveTimesReflection
from tests.ground import make_arena, skill_tasks
from tests.scaffolds import (
    CUT,
    GENERATION,
    HOSTILE,
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
    unmarked,
)
from trinity.errors import ConfigError
from trinity.llm.budget import Cap
from trinity.llm.client import Rules
from trinity.llm.transports.base import Reply, TransportError
from trinity.llm.transports.scripted import ScriptedTransport, SkillScript
from trinity.types import Record

Seen = list[tuple[str, str]]


async def reflected(folder: Path, *replies: str | Reply | Exception, **knobs: object) -> tuple[Record, Seen, str]:
    """The record of an episode on the first agent, what its calls saw, and the question; uses all replies."""
    record, script, asked = await exchanged(folder, FiveTimesReflection(**knobs), *replies)  # type: ignore[arg-type]
    return record, script.seen, asked


class TestCalls:
    """How many calls, and what each sees."""

    async def test_five_answers(self, tmp_path: Path) -> None:
        """Five calls, each after the question and the answer before alone; the fifth answer counts."""
        record, seen, text = await reflected(tmp_path, *(f"Answer: {number}" for number in (4, 3, 2, 1, 0)))
        assert (record.status, record.n_calls, record.n_turns) == ("correct", 5, 5)
        assert seen[0] == (GENERATION, text)
        for (system, content), before in zip(seen[1:], (4, 3, 2, 1), strict=True):
            assert system == GENERATION
            assert content.startswith(f"{text}\n\n")
            assert [line for line in content.splitlines() if line.startswith("| ")] == [f"| Answer: {before}"]

    async def test_nothing_ends_it_early(self, tmp_path: Path) -> None:
        """An answer that calls itself right is reflected on like any other, and the last one stands, right or wrong."""
        sure = "ACCEPT\nAnswer: 0\nIs further refinement needed: no"
        record, _, _ = await reflected(tmp_path, sure, sure, sure, sure, "Answer: 9")
        assert (record.status, record.n_calls) == ("wrong", 5)

    @pytest.mark.parametrize("rounds", [1, 2, 7])
    async def test_other_sizes(self, rounds: int, tmp_path: Path) -> None:
        """As many rounds as calls."""
        record, _, _ = await reflected(tmp_path, *["Answer: 1"] * (rounds - 1), "Answer: 0", rounds=rounds)
        assert (record.status, record.n_calls) == ("correct", rounds)

    async def test_first_answer_is_that_of_cot(self, tmp_path: Path) -> None:
        """Its first call is the one that chain of thought makes, bought once and billed to both."""
        script = Script(lambda _: "Answer: 0")
        records = await contested(stage(tmp_path, script), cot=ChainOfThought(), five=FiveTimesReflection(rounds=2))
        assert len(records) == 2 * 9
        assert len({(row.variant, row.replicate, row.call_ids[0]) for row in records}) == 9
        assert len(script.requests) == 2 * 9

    async def test_equal_answers_are_new_calls(self, tmp_path: Path) -> None:
        """Where an answer comes back unchanged the next reflection is a call of its own, not the stored one again."""
        record, _, _ = await reflected(tmp_path, *["Answer: 0"] * 5)
        assert len(set(record.call_ids)) == 5

    async def test_own_components(self, tmp_path: Path) -> None:
        """Texts of the user's replace the prompts, braces and all."""
        own = {"generation_system": "Go.", "reflection": "{current_output} {{}} {input}"}
        _, seen, text = await reflected(tmp_path, "{input}", "Answer: 0", rounds=2, components=own)
        assert seen == [("Go.", text), ("Go.", f"| {{input}} {{{{}}}} {text}")]

    @pytest.mark.parametrize("rounds", [0, False, 2.0])
    def test_rounds_are_whole(self, rounds: object) -> None:
        """Other numbers of rounds are refused by name."""
        with pytest.raises(ConfigError, match=r"methods\.five_times_reflection\.rounds"):
            FiveTimesReflection(rounds=rounds)  # type: ignore[arg-type]


class TestSpoiltAnswers:
    """Answers that are none, and answers that want to rule."""

    @pytest.mark.parametrize("spoilt", ["", " \n ", CUT, REFUSED])
    @pytest.mark.parametrize("place", range(4))
    async def test_it_goes_on(self, spoilt: str | Reply, place: int, tmp_path: Path) -> None:
        """An answer that is empty, cut short or refused is reflected on; the last one counts."""
        replies: list[str | Reply] = ["Answer: 1"] * 4
        replies[place] = spoilt
        record, seen, _ = await reflected(tmp_path, *replies, "Answer: 0")
        assert (record.status, record.n_calls) == ("correct", 5)
        silent = isinstance(spoilt, str)
        assert (f"\n{SILENT}\n" in seen[place + 1][1]) == silent

    async def test_silence_does_not_take_an_answer_back(self, tmp_path: Path) -> None:
        """Where the last reflections say nothing, the answer before them stands."""
        record, _, _ = await reflected(tmp_path, "Answer: 3", "Answer: 0", "", "", "")
        assert (record.status, record.n_calls) == ("correct", 5)

    @pytest.mark.parametrize(("last", "status"), [(CUT, "truncated"), (REFUSED, "refused"), ("", "no_answer")])
    async def test_status_is_that_of_the_answer(self, last: Reply | str, status: str, tmp_path: Path) -> None:
        """What came last and said anything decides; where nobody did there is no answer."""
        record, _, _ = await reflected(tmp_path, "", "", "", "", last)
        assert (record.status, record.score) == (status, 0.0)

    async def test_hostile_answer(self, tmp_path: Path) -> None:
        """An answer that imitates headings, placeholders and templates stays within its quotation."""
        record, seen, text = await reflected(tmp_path, *[HOSTILE] * 5)
        plain, plain_seen, _ = await reflected(tmp_path / "plain", *["Answer: 0"] * 5)
        assert (record.status, record.n_calls) == (plain.status, plain.n_calls) == ("correct", 5)
        for (_, content), (_, usual) in zip(seen[1:], plain_seen[1:], strict=True):
            assert unmarked(content) == unmarked(usual)
            assert content.count(text) == 1
            assert "<|" not in content

    async def test_a_megabyte(self, tmp_path: Path) -> None:
        """A long answer is quoted whole, and only by the reflection after it."""
        _, seen, _ = await reflected(tmp_path, "Answer: 1\n" * 100_000, "Answer: 0", "Answer: 0", rounds=3)
        assert [content.count("| Answer: 1\n") for _, content in seen] == [0, 100_000, 0]


class TestEnds:
    """Failures, caps, cost."""

    @pytest.mark.parametrize("place", range(5))
    async def test_a_call_that_fails(self, place: int, tmp_path: Path) -> None:
        """The episode is an error, never a wrong answer, and bills the calls before."""
        record, _, _ = await reflected(tmp_path, *["Answer: 0"] * place, TransportError("server", "down"))
        assert (record.status, record.score, record.n_calls) == ("error", None, place)

    @pytest.mark.parametrize("calls", range(1, 6))
    async def test_own_cap(self, calls: int, tmp_path: Path) -> None:
        """At its own cap it ends on its latest answer."""
        script = Script(patiently(*(f"Answer: {number}" for number in range(5))))
        arena = stage(tmp_path, script, rules=Rules(episode=Cap(calls=calls)))
        with arena.player.ledger:
            record = await episode(arena, FiveTimesReflection().method(WARM[0]))
        assert (record.n_calls, record.answer, record.capped) == (calls, str(calls - 1), calls < 5)

    async def test_order_of_ends_changes_nothing(self, tmp_path: Path) -> None:
        """One episode at a time or 32 give the same records."""
        found = []
        for concurrency in (1, 32):
            arena = make_arena(
                tmp_path / str(concurrency),
                tasks=skill_tasks(1, 1, 4),
                transport=ScriptedTransport(SkillScript({"ann": {"sums": 0.5}})),
                agents=WARM,
                concurrency=concurrency,
            )
            found.append(await contested(arena, five=FiveTimesReflection()))
        assert found[0] == found[1]
        assert {row.status for row in found[0]} == {"correct", "wrong"}

    @pytest.mark.parametrize("rounds", [1, 5])
    async def test_forecast_bounds_it(self, rounds: int, tmp_path: Path) -> None:
        """As many calls as rounds, and none of them reads more than foreseen."""
        records = await bounded(FiveTimesReflection(rounds=rounds), tmp_path)
        assert {record.n_calls for record in records} == {rounds}
