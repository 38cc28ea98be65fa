"""Self-Refine: its calls, what each saw, when it stops, and that nothing but its own verdict stops it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.cot import ChainOfThought
from baselines.self_refine import SelfRefine, read_needed
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

YES = "Step 2 is wrong.\nIs further refinement needed: yes"
NO = "All right.\nIs further refinement needed: no"


Seen = list[tuple[str, str]]


async def refined(folder: Path, *replies: str | Reply | Exception, **knobs: object) -> tuple[Record, Seen, str]:
    """The record of an episode on the first agent, what its calls saw, and the question; uses all replies."""
    record, script, asked = await exchanged(folder, SelfRefine(**knobs), *replies)  # type: ignore[arg-type]
    return record, script.seen, asked


class TestCalls:
    """How many calls, and what each sees."""

    @pytest.mark.parametrize(
        ("replies", "answer"),
        [
            (["Answer: 7", NO], "7"),
            (["Answer: 7", YES, "Answer: 8", NO], "8"),
            (["Answer: 7", YES, "Answer: 8", YES, "Answer: 0"], "0"),
        ],
    )
    async def test_two_four_or_five(self, replies: list[str], answer: str, tmp_path: Path) -> None:
        """The first criticism that is content ends it; after two rounds it ends anyway."""
        record, _, _ = await refined(tmp_path, *replies)
        assert (record.n_calls, record.n_turns, record.answer) == (len(replies), len(replies), answer)
        assert record.status == ("correct" if answer == "0" else "wrong")

    @pytest.mark.parametrize(("rounds", "calls"), [(1, 3), (3, 7)])
    async def test_other_sizes(self, rounds: int, calls: int, tmp_path: Path) -> None:
        """A round more is two calls more."""
        replies = ["Answer: 1", *[YES, "Answer: 0"] * rounds]
        record, _, _ = await refined(tmp_path, *replies, rounds=rounds)
        assert record.n_calls == calls

    async def test_what_each_call_sees(self, tmp_path: Path) -> None:
        """Criticisms see the latest output, refinements all outputs and criticisms; both see the question first."""
        replies = ["Answer: 7", YES, "Answer: 8", "Good.\nFurther refinement needed: yes", "Answer: 0"]
        _, seen, text = await refined(tmp_path, *replies)
        (first, feedback, refine, again, last) = seen
        assert first == (GENERATION, text)
        assert (feedback[0], again[0]) == ("", "")
        assert feedback[1].startswith(f"{text}\n\n")
        assert feedback[1].count("| Answer:") == again[1].count("| Answer:") == 1
        assert "\n| Answer: 7\n" in feedback[1]
        assert "\n| Answer: 8\n" in again[1]
        assert (refine[0], last[0]) == (GENERATION, GENERATION)
        assert last[1].startswith(f"{text}\n\n")
        history = (
            "Answer 1:\n| Answer: 7\n\nFeedback 1:\n| Step 2 is wrong.\n| Is further refinement needed: yes\n\n"
            "Answer 2:\n| Answer: 8\n\nFeedback 2:\n| Good.\n| Further refinement needed: yes\n"
        )
        assert history in last[1]
        assert history.partition("\n\nAnswer 2")[0] in refine[1]
        assert "Answer 2" not in refine[1]

    async def test_first_answer_is_that_of_cot(self, tmp_path: Path) -> None:
        """Its first call is the one that chain of thought makes, bought once and billed to both."""
        script = Script(lambda request: NO if "quoted" in request.messages[-1]["content"] else "Answer: 0")
        records = await contested(stage(tmp_path, script), cot=ChainOfThought(), self_refine=SelfRefine())
        firsts = {(row.variant, row.replicate, row.call_ids[0]) for row in records}
        assert len(records) == 2 * 9
        assert len(firsts) == 9
        assert len(script.requests) == 2 * 9

    async def test_own_components(self, tmp_path: Path) -> None:
        """Texts of the user's replace the prompts, braces and all."""
        own = {
            "generation_system": "Go.",
            "feedback": "{x} {current_output} of {input}",
            "refine": "{history} {{}} {input}",
        }
        _, seen, text = await refined(tmp_path, "Answer: {input}", YES, "Answer: 0", rounds=1, components=own)
        quoted = "Answer 1:\n| Answer: {input}\n\nFeedback 1:\n| Step 2 is wrong.\n| Is further refinement needed: yes"
        assert seen == [
            ("Go.", text),
            ("", f"{{x}} | Answer: {{input}} of {text}"),
            ("Go.", f"{quoted} {{{{}}}} {text}"),
        ]

    @pytest.mark.parametrize("rounds", [0, -1, True, "2", 1001])
    def test_rounds_are_whole(self, rounds: object) -> None:
        """Other numbers of rounds are refused by name."""
        with pytest.raises(ConfigError, match=r"methods\.self_refine\.rounds"):
            SelfRefine(rounds=rounds)  # type: ignore[arg-type]


class TestVerdict:
    """The line that stops it."""

    @pytest.mark.parametrize(
        ("text", "needed"),
        [
            (NO, False),
            (YES, True),
            ("**Is further refinement needed:** No.", False),
            ("- is further refinement needed? `no`, it is right", False),
            ("Further refinement needed: NO", False),
            ("Is further refinement needed: yes\nOn reflection:\nIs further refinement needed: no", False),
            ("Is further refinement needed: yes or no", None),
            ("Is further refinement needed: no/yes", None),
            ("| Is further refinement needed: no", None),
            ("> | Is further refinement needed: no", None),
            ("> Is further refinement needed: no", None),
            ("Is further refinement needed: yes\n> Is further refinement needed: no", True),
            ("I wonder: is further refinement needed: no", None),
            ("Is further refinement needed: nobody knows", None),
            ("No further refinement is needed.", None),
            ("ACCEPT", None),
            ("no", None),
            ("", None),
        ],
    )
    def test_read(self, text: str, needed: bool | None) -> None:
        """The last line that is a verdict and nothing else counts; a quoted or double one does not."""
        assert read_needed(text) is needed

    @given(st.text())
    def test_quoted_lines_say_nothing(self, text: str) -> None:
        """Whatever is quoted, no verdict can be read from it."""
        lines = (*text.splitlines(), "Is further refinement needed: no")
        assert read_needed("\n".join(f"| {line}" for line in lines)) is None

    @pytest.mark.parametrize(
        "line", ["*" * 1_000_000, "is further refinement needed" + ":" * 1_000_000, "\n" * 1_000_000]
    )
    def test_long_lines(self, line: str) -> None:
        """A megabyte of what a verdict might begin with holds none and costs no more than reading it."""
        assert read_needed(line) is None
        assert read_needed(f"{line}\n{NO}") is False

    async def test_without_a_verdict_it_goes_on(self, tmp_path: Path) -> None:
        """Criticisms that are empty, cut short, refused or silent on the matter end nothing."""
        spoilt: list[str | Reply] = ["", CUT, REFUSED, "Looks fine."]
        for number, feedback in enumerate(spoilt):
            replies = ["Answer: 7", feedback, "Answer: 8", feedback, "Answer: 0"]
            record, seen, _ = await refined(tmp_path / str(number), *replies)
            assert (record.status, record.n_calls) == ("correct", 5)
            assert seen[-1][1].count(SILENT) == (0 if feedback else 2)


class TestSpoiltAnswers:
    """Outputs that are none, and outputs that want to rule."""

    async def test_silent_then_content(self, tmp_path: Path) -> None:
        """A verdict on an output without a text ends nothing, and the output is shown as silent."""
        record, seen, _ = await refined(tmp_path, "", NO, "Answer: 0", NO)
        assert (record.status, record.n_calls) == ("correct", 4)
        assert f"\n{SILENT}\n" in seen[1][1]
        assert f"Answer 1:\n{SILENT}\n" in seen[2][1]

    async def test_silence_does_not_take_an_answer_back(self, tmp_path: Path) -> None:
        """Where refinements say nothing, the answer before them stands."""
        record, _, _ = await refined(tmp_path, "Answer: 0", YES, "", YES, " \n")
        assert (record.status, record.n_calls) == ("correct", 5)

    @pytest.mark.parametrize(("last", "status"), [(CUT, "truncated"), (REFUSED, "refused"), ("", "no_answer")])
    async def test_status_is_that_of_the_answer(self, last: Reply | str, status: str, tmp_path: Path) -> None:
        """What came last and said anything decides; where nobody did there is no answer."""
        record, _, _ = await refined(tmp_path, "", YES, last, YES, last)
        assert (record.status, record.score, record.n_calls) == (status, 0.0, 5)

    async def test_cut_on_the_way(self, tmp_path: Path) -> None:
        """An output that was cut short or refused is refined like any other, and a good one after it is right."""
        record, _, _ = await refined(tmp_path, CUT, YES, REFUSED, YES, "Answer: 0")
        assert (record.status, record.n_calls) == ("correct", 5)

    async def test_hostile_output(self, tmp_path: Path) -> None:
        """An output that imitates verdicts, headings, placeholders and templates stays within its quotation."""
        record, seen, text = await refined(tmp_path, HOSTILE, "| Is further refinement needed: no", "x", YES, HOSTILE)
        assert record.n_calls == 5
        for _, content in seen[1:]:
            own = unmarked(content.removeprefix(text))
            assert not any(line.startswith(("ACCEPT", "Obey", "Candidate", "{")) for line in own)
            assert sum(line.startswith("Feedback 1:") for line in own) <= 1
            assert "<|" not in content
            assert content.count(text) == 1
        assert "| {input} {history}" in seen[-1][1]

    async def test_a_megabyte(self, tmp_path: Path) -> None:
        """Long outputs and criticisms are quoted whole."""
        long = "Answer: 1\n" * 100_000
        record, seen, _ = await refined(tmp_path, long, long + YES, "Answer: 0", NO)
        assert (record.status, record.n_calls) == ("correct", 4)
        assert seen[2][1].count("| Answer: 1\n") == 200_000


class TestEnds:
    """Failures, caps, cost."""

    @pytest.mark.parametrize("place", range(5))
    async def test_a_call_that_fails(self, place: int, tmp_path: Path) -> None:
        """The episode is an error, never a wrong answer, and bills the calls before."""
        good = ["Answer: 7", YES, "Answer: 8", YES][:place]
        record, _, _ = await refined(tmp_path, *good, TransportError("server", "down"))
        assert (record.status, record.score, record.n_calls) == ("error", None, place)

    @pytest.mark.parametrize(
        ("calls", "status"), [(1, "wrong"), (2, "wrong"), (3, "correct"), (4, "correct"), (5, "wrong")]
    )
    async def test_own_cap(self, calls: int, status: str, tmp_path: Path) -> None:
        """At its own cap it ends on its latest answer, never on a criticism."""
        script = Script(patiently("Answer: 7", YES, "Answer: 0", YES + "\nAnswer: 0", "Answer: 8"))
        arena = stage(tmp_path, script, rules=Rules(episode=Cap(calls=calls)))
        with arena.player.ledger:
            record = await episode(arena, SelfRefine().method(WARM[0]))
        assert (record.n_calls, record.status, record.capped) == (calls, status, calls < 5)

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
            found.append(await contested(arena, self_refine=SelfRefine()))
        assert found[0] == found[1]
        assert {row.n_calls for row in found[0]} == {5}

    @pytest.mark.parametrize("rounds", [1, 2, 4])
    async def test_forecast_bounds_it(self, rounds: int, tmp_path: Path) -> None:
        """An episode that is never content makes two calls a round, and none of them reads more than foreseen."""
        records = await bounded(SelfRefine(rounds=rounds), tmp_path)
        assert {record.n_calls for record in records} == {2 * rounds + 1}
