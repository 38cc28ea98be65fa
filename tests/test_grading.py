"""Graders that fail: their reasons are told once, and a run whose answers cannot be graded stops early."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baselines.single import SingleAgent
from tests.ground import AGENTS, make_arena
from trinity.arena import Arena
from trinity.episodes import Player
from trinity.errors import GraderError, UngradedError
from trinity.grading import ERRORS_SHOWN, GRADINGS_IN_A_ROW, GraderWatch, judge_calls, judged, shown
from trinity.testing import SkillTask
from trinity.types import UNGRADED, Episode, Grade, Item

TASK = SkillTask("sums", n_test=40)
ITEMS = list(TASK.items("test"))


class Failing(SkillTask):
    """Grades the items whose number is in `graded`."""

    graded: frozenset[int] = frozenset()
    reason = "no sandbox here"

    async def grade(self, item: Item, episode: Episode, judge: object) -> Grade:
        """Fail, or not."""
        if int(item.target) not in self.graded:
            raise GraderError(f"{self.reason} for {item.item_id}")
        return await super().grade(item, episode, None)


def arena_of(folder: Path, task: SkillTask, heard: list[str], concurrency: int = 1) -> Arena:
    """An arena whose player tells `heard` what it says."""
    arena = make_arena(folder, tasks={"sums": task}, concurrency=concurrency)
    player, seeds = arena.player, dict.fromkeys(("train", "val", "reeval", "test"), 0)
    told: Any = seeds
    return replace(
        arena, player=Player(player.client, player.ledger, player.stamp, told, concurrency, say=heard.append)
    )


@pytest.mark.parametrize("concurrency", [1, 16])
async def test_a_run_stops_when_no_answer_can_be_graded(concurrency: int, tmp_path: Path) -> None:
    """After the first three gradings of a task have failed nothing is asked on; the line says why and how to go on."""
    heard: list[str] = []
    arena = arena_of(tmp_path, Failing("sums", n_test=40), heard, concurrency)
    with arena.player.ledger as ledger:
        with pytest.raises(UngradedError, match=r"task sums: 3 gradings in a row failed .*no sandbox here.*resume=RUN"):
            await arena.test(SingleAgent(AGENTS[0]))
        assert {row.status for row in ledger.records()} <= UNGRADED
        assert sum(1 for _ in ledger.records()) <= 2 + concurrency
    assert heard == ["task sums: an answer could not be graded, its episode is an error: no sandbox here for an item"]


async def test_a_grader_that_fails_now_and_then_stops_nothing(tmp_path: Path) -> None:
    """Once answers were graded it takes twenty failures in a row."""

    class Spotty(Failing):
        graded = frozenset({0, 1, *range(21, 40)})

    heard: list[str] = []
    arena = arena_of(tmp_path, Spotty("sums", n_test=40), heard)
    with arena.player.ledger as ledger:
        await arena.test(SingleAgent(AGENTS[0]))
        assert sum(row.status == "error" for row in ledger.records()) == GRADINGS_IN_A_ROW - 1
    assert len(heard) == 1


async def test_a_grader_that_dies_later_stops_the_run(tmp_path: Path) -> None:
    """Twenty failures in a row after a success do."""

    class Dying(Failing):
        graded = frozenset({0})

    arena = arena_of(tmp_path, Dying("sums", n_test=40), [])
    with arena.player.ledger, pytest.raises(UngradedError, match="20 gradings in a row failed"):
        await arena.test(SingleAgent(AGENTS[0]))


class TestWatch:
    """Who keeps count of failing graders."""

    def test_tasks_are_counted_apart(self) -> None:
        """One task's failures are not another's, and a success begins the count anew."""
        watch, other = GraderWatch(None), SkillTask("words", n_test=1)
        for task in (TASK, other, TASK, other):
            watch.failed(task, ITEMS[0], GraderError("x"))
        watch.worked(TASK)
        for _ in range(GRADINGS_IN_A_ROW - 1):
            watch.failed(TASK, ITEMS[0], GraderError("x"))
        with pytest.raises(UngradedError, match="task words: 3 gradings"):
            watch.failed(other, ITEMS[0], GraderError("x"))

    def test_each_reason_is_told_once(self) -> None:
        """The item's name makes no new reason, and so many are enough."""
        heard: list[str] = []
        watch = GraderWatch(heard.append)
        for number in range(8):
            watch.worked(TASK)
            for item in ITEMS[:2]:
                watch.failed(TASK, item, GraderError(f"reason {number} on {item.item_id}"))
        assert len(heard) == ERRORS_SHOWN
        assert heard[0].endswith("reason 0 on an item")

    def test_reasons_are_short_printable_lines(self) -> None:
        """What a grader says of an answer may hold the answer."""
        assert shown("a\x1b[31mred\x07\n b" + 400 * "c") == "a [31mred b" + 288 * "c" + "…"


def test_tasks_without_attributes_are_not_judged() -> None:
    """A task that does not speak of judges asks none; one that does asks once at least."""
    judging: Any = type("Judging", (SkillTask,), {"judged": True})("a")
    often: Any = type("Often", (SkillTask,), {"judged": True, "judge_calls": 4})("a")
    assert [(judged(task), judge_calls(task)) for task in (TASK, judging, often)] == [(False, 0), (True, 1), (True, 4)]
