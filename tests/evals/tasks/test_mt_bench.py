"""MT-Bench: both copies on the hub, two turns, both rated, and references that are known to be wrong."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evals.tasks.mt_bench import MTBench, published, scaled
from tests.conftest import Compose
from tests.evals.graders.judges import Scripted
from tests.evals.graders.told import shared
from tests.evals.tasks.rows import write
from tests.evals.tasks.rows_judge import mt_bench, mt_bench_h4
from trinity.config import build
from trinity.errors import ConfigError, DataError, GraderError
from trinity.types import Episode, Item

SHARED = Path(__file__).parents[4] / "shared" / "data" / "items"
HAS_SHARED = pytest.mark.skipif(not SHARED.exists(), reason=f"no {SHARED}")


def make(path: Path, **changed: Any) -> MTBench:
    """All rows of a file as test items, unless told otherwise."""
    return MTBench(**{"data_seed": 0, "n_train": 0, "n_val": 0, "n_test": None, "path": path, **changed})


def one(tmp_path: Path, **changed: Any) -> tuple[MTBench, Item]:
    """The task of one question of mathematics, with changes to its row, and its item."""
    task = make(write(tmp_path / "rows.jsonl", [mt_bench(2)[1] | changed]))
    return task, next(task.items("test"))


def answered(*replies: str) -> Episode:
    """An episode with an answer a turn."""
    return Episode(replies[-1], replies=replies)


def test_both_copies_are_the_same_questions(tmp_path: Path) -> None:
    """Rows in either set of columns give items of equal ids, texts and references; only the numbers are the copy's."""
    items = [
        {item.item_id: item for item in make(write(tmp_path / f"{rows.__name__}.jsonl", rows(12))).items("test")}
        for rows in (mt_bench, mt_bench_h4)
    ]
    assert items[0].keys() == items[1].keys()
    for name, item in items[0].items():
        other = items[1][name]
        assert (item.prompt, item.domain) == (other.prompt, other.domain)
        assert {**item.meta, "number": 0} == {**other.meta, "number": 0}
        assert other.meta["number"] == 7919 * item.meta["number"]


def test_references_are_for_three_categories(tmp_path: Path) -> None:
    """Mathematics, reasoning and coding are judged with references, the others without what the data holds."""
    items = make(write(tmp_path / "rows.jsonl", mt_bench(8))).items("test")
    assert {item.domain: len(item.meta["references"]) for item in items} == {
        "writing": 0,
        "math": 2,
        "coding": 2,
        "stem": 0,
    }


def test_the_question_is_all_that_is_asked(tmp_path: Path) -> None:
    """Models see both questions as they are, the second after the first answer, and never a reference."""
    task, item = one(tmp_path)
    assert task.open(item) == [{"role": "user", "content": "What is 1 plus 1?"}]
    assert task.reply(item, answered("2")) == [{"role": "user", "content": "And 1 times two?"}]
    assert task.reply(item, answered("2", "2")) is None


async def test_the_score_is_the_mean_of_both_ratings(tmp_path: Path) -> None:
    """Each turn is rated, the second with the first before it; 1 to 10 becomes 0 to 1, and back for tables."""
    task, item = one(tmp_path)
    judge = Scripted(["Rating: [[10]]", "Rating: [[4]]"])
    grade = await task.grade(item, answered("It is 2.", "Still 2."), judge)
    assert grade.score == pytest.approx(6 / 9)
    assert grade.answer == "ratings 10, 4"
    assert published(grade.score) == pytest.approx(7.0)
    first, second = (asked[-1]["content"] for asked in judge.asked)
    assert "| 2." in first
    assert "Still" not in first
    assert all(part in second for part in ("| What is 1 plus 1?", "| It is 2.", "| Also 2.", "| Still 2."))
    assert "| 2.\n" not in second


@pytest.mark.parametrize(("replies", "score", "asked"), [(("It is 2.",), 0.5, 1), ((" ", "Still 2."), 0.5, 1)])
async def test_a_turn_without_an_answer_has_the_lowest_rating(
    tmp_path: Path, replies: tuple[str, ...], score: float, asked: int
) -> None:
    """It is not asked about, whether it was not reached or is empty; the other turn counts as it is."""
    task, item = one(tmp_path)
    judge = Scripted(["Rating: [[10]]"])
    assert (await task.grade(item, answered(*replies), judge)).score == score
    assert len(judge.asked) == asked


async def test_a_judge_without_a_rating_is_an_error(tmp_path: Path) -> None:
    """Neither -1 nor 0: the episode has no grade; nor has it without a judge."""
    task, item = one(tmp_path)
    for judge in (Scripted(["Rating: [[9]]", "Good.", "Good."]), None):
        with pytest.raises(GraderError):
            await task.grade(item, answered("2", "2"), judge)


def test_the_scale_goes_there_and_back() -> None:
    """Its ends and its middle; a mean of scores gives the mean of ratings."""
    assert [scaled(rating) for rating in (1, 5.5, 10)] == [0.0, 0.5, 1.0]
    assert published((scaled(9) + scaled(4)) / 2) == pytest.approx(6.5)


def test_what_counts_as_correct_is_set(tmp_path: Path) -> None:
    """The threshold is a rating; scores do not depend on it."""
    path = write(tmp_path / "rows.jsonl", mt_bench(2))
    assert make(path).threshold == scaled(8)
    assert make(path, good_from=9.5).threshold == scaled(9.5)
    assert make(path, good_from=9.5).fingerprint() == make(path).fingerprint()


@pytest.mark.parametrize("changed", [{"good_from": 0.5}, {"good_from": 11}, {"doubted": "flag"}])
def test_wrong_settings_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    """The line names the key and what to give."""
    with pytest.raises(ConfigError, match=rf"^tasks\.mt_bench\.{next(iter(changed))} is .*; give "):
        make(tmp_path, **changed)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"turns": ["One?"]}, r"turns is \['One\?'\], not a list of two questions"),
        ({"turns": "One?"}, "turns is 'One\\?', not a list of two questions"),
        ({"turns": ["One?", "x" * 5000]}, "the second question has more than 4032 bytes"),
        ({"reference": ["One."]}, r"reference is \['One\.'\], not a list of two references"),
    ],
)
def test_broken_rows_are_named(tmp_path: Path, changed: dict[str, Any], told: str) -> None:
    """File, row and what is wrong with it."""
    with pytest.raises(DataError, match=rf"rows\.jsonl: row 1: {told}"):
        one(tmp_path, **changed)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    """A file of something else: what was expected and what is there."""
    rows = [{"category": "math", "question": "One?"}]
    with pytest.raises(DataError, match="row 1: has no column turns or prompt; found category, question"):
        list(make(write(tmp_path / "rows.jsonl", rows)).items("test"))


@pytest.mark.parametrize(("doubted", "references"), [("drop", []), ("keep", ["One.", "One."])])
def test_a_doubted_reference_is_told(tmp_path: Path, doubted: str, references: list[str]) -> None:
    """A reported question is flagged, in its item and in the manifest, and judged with its reference only on demand."""
    row = mt_bench(2)[1] | {"question_id": 104, "category": "reasoning", "reference": ["One.", "One."]}
    task = make(write(tmp_path / "rows.jsonl", [row]), doubted=doubted)
    (item,) = task.items("test")
    assert item.meta["doubted"]
    assert item.meta["references"] == references
    assert task.facts()["doubted_references"] == {"handled": doubted, "questions": [104]}


def test_doubted_questions_can_be_left_out(tmp_path: Path) -> None:
    """They become no items, and are counted with the reason."""
    rows = [*mt_bench(4), mt_bench(2)[1] | {"question_id": 104, "turns": ["One?", "Two?"]}]
    task = make(write(tmp_path / "rows.jsonl", rows), doubted="leave_out")
    assert len(list(task.items("test"))) == 4
    assert task.facts()["left_out"] == {"train": {"its reference was reported wrong": 1}}


def test_the_configuration_makes_the_task(compose_config: Compose, tmp_path: Path) -> None:
    """`task=mt_bench` with a local file, settings laid over it."""
    path = write(tmp_path / "rows.jsonl", mt_bench(8))
    cfg = compose_config(
        *("task=mt_bench", f"tasks.mt_bench.path={path}", "tasks.mt_bench.good_from=7", "tasks.mt_bench.doubted=keep"),
        *("data.n_train=2", "data.n_val=1", "data.n_test=5"),
    )
    task = build(cfg.tasks.mt_bench)
    assert [len(list(task.items(split))) for split in ("train", "val", "test")] == [2, 1, 5]
    assert (task.rounds, task.judged, task.judge_calls, task.grader) == (2, True, 4, "judge/1")


@pytest.mark.shared_data
@HAS_SHARED
@pytest.mark.parametrize("file", ["mtbench_fastchat_question", "mtbench_h4_prompts"])
def test_the_real_questions(file: str) -> None:
    """All 80 load from either copy, ten a category; the authors' own references are none of those reported wrong."""
    task = make(SHARED / f"{file}.jsonl")
    items = list(task.items("test"))
    assert set(Counter(item.domain for item in items).values()) == {10}
    assert len(items) == 80
    assert sum(bool(item.meta["references"]) for item in items) == 29
    assert task.facts()["doubted_references"]["questions"] == []


@pytest.mark.parametrize("case", shared("judge_reference"))
def test_wrong_references_are_flagged(case: dict[str, Any], tmp_path: Path) -> None:
    """With GPT-4's references exactly the questions that were reported are flagged, whatever the copy numbers them."""
    read = [json.loads(line) for line in (SHARED / "mtbench_fastchat_question.jsonl").read_text("utf-8").splitlines()]
    written = (SHARED / "mtbench_reference_answer_gpt4.jsonl").read_text("utf-8").splitlines()
    by_gpt4 = {row["question_id"]: row["choices"][0]["turns"] for row in map(json.loads, written)}
    for number in ("question_id", "prompt_id"):
        rows = [
            {number: row["question_id"] + (number == "prompt_id"), "turns": row["turns"], "category": row["category"]}
            | {"reference": by_gpt4.get(row["question_id"])}
            for row in read
        ]
        task = make(write(tmp_path / f"{number}.jsonl", rows))
        flagged = [item.meta["number"] - (number == "prompt_id") for item in task.items("test") if item.meta["doubted"]]
        assert sorted(flagged) == [int(one) for one in case["prompt"].removeprefix("MT-Bench questions ").split(",")]
        assert case["right_outcome"] == "flag"
