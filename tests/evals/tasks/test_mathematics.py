"""The benchmarks of mathematics: GSM8K, MATH-500, AIME, RLPR."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from evals.graders.algebra.pool import checkers
from evals.graders.mathematics import check
from evals.tasks.aime import AIME
from evals.tasks.gsm8k import GSM8K
from evals.tasks.math500 import Math500
from evals.tasks.rlpr import RLPR
from tests.evals.tasks.rows import write
from tests.evals.tasks.rows_mathematics import aime, gsm8k, math500, math_train, rlpr
from trinity.config import build
from trinity.errors import ConfigError, DataError
from trinity.splits import check_disjoint
from trinity.types import SPLITS, Episode, Item, Task

SHARED = Path(__file__).parents[4] / "shared" / "data" / "items"
Make = Callable[..., Any]
Rows = Callable[[int], list[dict[str, Any]]]
TASKS: list[tuple[Make, Rows]] = [(GSM8K, gsm8k), (Math500, math500), (AIME, aime), (RLPR, rlpr)]


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    """The shared processes end with this file's tests."""
    yield
    checkers().close()


def make(task: Make, path: Path, **changed: Any) -> Any:
    """A task of 6 training, 4 validation and 10 test items."""
    return task(**{"data_seed": 0, "n_train": 6, "n_val": 4, "n_test": 10, "path": path, **changed})


def everything(task: Any) -> list[tuple[Any, Item]]:
    """Items of all splits with their split."""
    return [(split, item) for split in SPLITS for item in task.items(split)]


@pytest.mark.parametrize(("task", "rows"), TASKS)
async def test_one_file_makes_disjoint_splits_that_grade(tmp_path: Path, task: Make, rows: Rows) -> None:
    """A file of rows serves all splits without overlap; solutions are right, other answers wrong, echoes none."""
    made: Task = make(task, write(tmp_path / "rows.jsonl", rows(24)))
    items = everything(made)
    assert [sum(split == name for split, _ in items) for name in SPLITS] == [6, 4, 10]
    check_disjoint(items)
    for _, item in items:
        solution = made.solution(item)  # type: ignore[attr-defined]
        assert (await made.grade(item, Episode(solution), None)).score == 1.0
        assert (await made.grade(item, Episode("Answer: 123456789 or so"), None)).score == 0.0
        assert (await made.grade(item, Episode(None), None)).answer is None
        [message] = made.open(item)
        assert item.prompt in message["content"]
        assert item.target not in message["content"].replace(item.prompt, "") or len(item.target) == 1


@pytest.mark.parametrize("task", [task for task, _ in TASKS])
def test_other_columns_are_refused_by_name(tmp_path: Path, task: Make) -> None:
    """A file of something else says what was expected."""
    with pytest.raises(DataError, match=r"other\.jsonl: row 1:? has no column (question|problem|prompt)"):
        everything(make(task, write(tmp_path / "other.jsonl", [{"colour": "red"}])))


@pytest.mark.parametrize("name", ["gsm8k", "math500", "aime", "rlpr"])
def test_its_configuration_builds_it(compose_config: Any, name: str) -> None:
    """The file in conf/task makes the task of that name, reading the hub unless a path is set."""
    cfg = compose_config(f"task=[{name}]", "data.n_test=7", f"tasks.{name}.path=copy.jsonl")
    made = build(cfg.tasks[name])
    assert (made.name, made.sizes["test"], made.source.path) == (name, 7, "copy.jsonl")
    assert compose_config(f"task=[{name}]").tasks[name].path is None


def test_gsm8k_counts_steps_and_reads_the_last_number(tmp_path: Path) -> None:
    """Difficulty is the number of calculations; the target is what stands behind the marks, without separators."""
    made = make(GSM8K, write(tmp_path / "rows.jsonl", gsm8k(20)))
    for _, item in everything(made):
        start = int(item.prompt.split()[2])
        bags = start % 3 + 1
        assert (item.difficulty, item.difficulty_kind) == (bags, "constructed")
        assert item.target == str(start + 1000 * bags)
        assert made.key(item, f"Answer: ${start + 1000 * bags:,}.00") == item.target
    with pytest.raises(DataError, match="row 1: answer is 'twelve', not a solution that ends with ####"):
        everything(make(GSM8K, write(tmp_path / "bad.jsonl", [{"question": "?", "answer": "twelve"}] * 1), n_test=1,
                        n_val=0, n_train=0))  # fmt: skip


async def test_math500_accepts_equal_forms(tmp_path: Path) -> None:
    """Another form of the answer is right; level and subject are difficulty and domain."""
    made = make(Math500, write(tmp_path / "rows.jsonl", math500(20)))
    item = next(made.items("test"))
    power = int(item.prompt.split("{x^{")[1].split("}")[0])
    assert (item.difficulty, item.difficulty_kind) == ((power - 2) % 5 + 1, "human")
    assert item.domain in {"Algebra", "Precalculus"}
    assert (await made.grade(item, Episode(rf"\boxed{{x \cdot x^{{{power - 2}}}}}"), None)).score == 1.0
    assert (await made.grade(item, Episode(rf"\boxed{{x^{{{power}}}}}"), None)).score == 0.0


def test_math500_trains_on_problems_of_math(tmp_path: Path) -> None:
    """With a training set, test items come from the 500 alone, and answers from the boxes of the solutions."""
    write(tmp_path / "test.jsonl", math500(12))
    write(tmp_path / "train.jsonl", math_train(12))
    made = make(Math500, tmp_path, train_repo="EleutherAI/hendrycks_math")
    assert all("x" in item.prompt for item in made.items("test"))
    trained = list(made.items("train"))
    assert all("y" in item.prompt and item.target.startswith("y^") for item in trained)
    assert {(item.domain, item.difficulty_kind) for item in trained} == {("Algebra", "human")}
    assert made.source_of("train").repo == "EleutherAI/hendrycks_math"
    assert len(made.source_of("train").config) == 7
    with pytest.raises(ConfigError, match="train_repo is 'x/y'; give one of DigitalLearningGmbH"):
        make(Math500, tmp_path, train_repo="x/y")


@pytest.mark.parametrize(
    ("year", "repo", "expected"),
    [
        (2024, None, ("HuggingFaceH4/aime_2024", None, "train")),
        (2025, None, ("opencompass/AIME2025", ("AIME2025-I", "AIME2025-II"), "test")),
        (2025, "math-ai/aime25", ("math-ai/aime25", None, "test")),
    ],
)
def test_aime_reads_the_copy_of_the_year(year: int, repo: str | None, expected: tuple[Any, ...]) -> None:
    """Year and copy decide where the rows are."""
    made = AIME(data_seed=0, n_train=0, n_val=0, n_test=None, year=year, repo=repo)
    assert (made.source.repo, made.source.config, made.hub_splits["test"]) == expected


def test_aime_knows_the_spellings_of_its_columns(tmp_path: Path) -> None:
    """Columns of each copy are read; leading zeros go; the number in the paper is the difficulty."""
    rows = aime(20)
    plain = [{"question": row["problem"], "answer": int(row["answer"])} for row in rows]
    named = [{"Problem": row["problem"], "Answer": float(row["answer"]), "ID": f"2024-II-{index % 15 + 1}"}
             for index, row in enumerate(rows)]  # fmt: skip
    found = [
        {item.item_id: (item.target, item.difficulty) for _, item in everything(make(AIME, write(path, data)))}
        for path, data in (
            (tmp_path / "a.jsonl", rows),
            (tmp_path / "b.jsonl", named),
            (tmp_path / "c.jsonl", plain),
        )
    ]
    assert found[0] == found[1]
    assert {key: target for key, (target, _) in found[0].items()} == {key: value[0] for key, value in found[2].items()}
    assert all(difficulty is None for _, difficulty in found[2].values())
    assert {target for target, _ in found[0].values()} <= {str(index) for index in range(20)}


def test_aime_names_a_damaged_text_and_refuses_other_answers(tmp_path: Path) -> None:
    """The pentagon without its lengths stays an item that `facts` names; an answer beyond 999 is an error."""
    whole = "A convex pentagon has sides 14, 7, 24, 13, 26 and angles of 60 degrees."
    rows = [{"problem": whole, "answer": "60"}, {"problem": "A convex pentagon has side 14.", "answer": "60"}]
    made = make(AIME, write(tmp_path / "rows.jsonl", rows), n_train=0, n_val=0, n_test=2)
    damaged = [item.item_id for item in made.items("test") if "side 14" in item.prompt]
    assert made.facts()["damaged_texts"] == damaged
    assert len(damaged) == 1
    with pytest.raises(DataError, match="row 1: the answer is '1000', not a whole number from 0 to 999"):
        everything(make(AIME, write(tmp_path / "x.jsonl", [{"problem": "?", "answer": 1000}]), n_train=0, n_val=0,
                        n_test=1))  # fmt: skip


@pytest.mark.parametrize(
    ("task", "option", "complaint"),
    [
        (AIME, {"year": 1999}, "year is '1999'; give 2024 or 2025"),
        (AIME, {"repo": "x/y"}, "repo is 'x/y'; of 2025 there are opencompass"),
        (RLPR, {"benchmarks": ["Zzz"]}, "there is no 'Zzz'; they are Math-500"),
        (RLPR, {"benchmarks": "TheoremQA_Avg2"}, "give a list"),
        (RLPR, {"test_from": "moon"}, "test_from is 'moon'; give one of evaluation, train"),
    ],
)
def test_a_wrong_option_says_what_to_give(tmp_path: Path, task: Make, option: dict[str, Any], complaint: str) -> None:
    """Options with another value are refused before anything is read."""
    with pytest.raises(ConfigError, match=complaint):
        make(task, tmp_path, **option)


async def test_rlpr_grades_each_kind_by_its_own_rule(tmp_path: Path) -> None:
    """Formulas by value, options by letter, words by their text; the authors' request for a form is taken off."""
    made = make(RLPR, write(tmp_path / "rows.jsonl", rlpr(24)), n_test=14)
    seen = set()
    for item in made.items("test"):
        assert "step by step" not in item.prompt
        seen.add(item.domain)
        right = {
            "Math-500_Avg2": rf"\boxed{{{item.target} + 0}}",
            "MMLUPro-1000_Avg2": r"Answer: (B) this one",
            "TheoremQA_Avg2": rf"\boxed{{\text{{{item.target.removeprefix('The ')}.}}}}",
        }[item.domain]
        assert (await made.grade(item, Episode(right), None)).score == 1.0
        assert (await made.grade(item, Episode(r"\boxed{C}"), None)).score == 0.0
    assert len(seen) == 3


def test_rlpr_counts_rows_of_benchmarks_that_were_not_chosen(tmp_path: Path) -> None:
    """Rows of others are left out and counted; only with GPQA nothing may leave a run."""
    path = write(tmp_path / "rows.jsonl", rlpr(24))
    made = make(RLPR, path, benchmarks=["TheoremQA_Avg2"], n_test=5, n_val=0, n_train=3)
    assert {item.domain for item in made.items("test")} == {"TheoremQA_Avg2"}
    assert made.facts()["left_out"]["test"] == {"of another benchmark": 16}
    assert made.redistribute == "ids-only"
    assert make(RLPR, path).redistribute == "never"
    assert make(RLPR, path, test_from="train").hub_splits["test"] == "train"
    assert made.source.files == {"test": ("TheoremQA_Avg2.parquet",)}
    assert made.source_of("train").repo == "openbmb/RLPR-Train-Dataset"


def test_rlpr_names_a_broken_row(tmp_path: Path) -> None:
    """A row without a user's message or a reference is an error that names it."""
    good = rlpr(1)[0]
    for change, complaint in (
        ({"prompt": []}, "row 1: prompt is .*, not a list of messages"),
        ({"reward_model": {"style": "rule"}}, "row 1: reward_model is .*, not an object with ground_truth"),
    ):
        path = write(tmp_path / "bad.jsonl", [{**good, **change}])
        with pytest.raises(DataError, match=complaint):
            everything(make(RLPR, path, n_train=0, n_val=0, n_test=1))


async def test_facts_name_the_version_that_compares(tmp_path: Path) -> None:
    """The manifest learns which Math-Verify graded, and that it is there is known before anything is asked."""
    made = make(Math500, write(tmp_path / "rows.jsonl", math500(20)))
    await made.ready()
    assert made.facts()["math_verify"][0].isdigit()
    await made.close()


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not here")
@pytest.mark.parametrize(
    ("task", "file", "count"),
    [(GSM8K, "gsm8k_main_test", 300), (Math500, "math500_test", 500), (RLPR, "rlpr_evaluation_schema_sample", 29)],
)
async def test_real_solutions_are_right(task: Make, file: str, count: int) -> None:
    """Every worked solution of the real rows is graded right, and so is every reference in a box."""
    made = make(task, SHARED / f"{file}.jsonl", n_train=0, n_val=0, n_test=None)
    items = list(made.items("test"))
    assert len(items) == count
    for item in items:
        assert (await made.grade(item, Episode(made.solution(item)), None)).score == 1.0, item
        boxed = f"Answer: {item.target}" if task is GSM8K else rf"So \boxed{{{item.target}}}."
        assert (await made.grade(item, Episode(boxed), None)).score == 1.0, item


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not here")
async def test_golds_of_other_problems_are_wrong() -> None:
    """No answer of MATH-500 is accepted for a neighbouring problem unless both are one number."""
    rows = [json.loads(line) for line in (SHARED / "math500_test.jsonl").read_text("utf-8").splitlines()]
    answers = [row["answer"] for row in rows]
    wrong = [pair for pair in pairwise(answers) if len({answer.removeprefix("x=") for answer in pair}) == 2]
    accepted = [pair for pair in wrong if (await check(*pair)).right]
    assert accepted == []
