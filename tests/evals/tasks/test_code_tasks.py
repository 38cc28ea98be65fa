"""The benchmarks of programs: how their rows become items, what is shown of them, and what is graded right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evals.tasks.bigcodebench import BigCodeBench
from evals.tasks.code import ProgramTask, fenced
from evals.tasks.codeforces import Codeforces
from evals.tasks.cruxeval import CRUXEval
from evals.tasks.easy2hard_codeforces import Easy2HardCodeforces
from evals.tasks.humaneval import HumanEval
from evals.tasks.livecodebench import LiveCodeBench
from evals.tasks.mbpp import MBPP
from tests.evals.tasks import rows_code
from tests.evals.tasks.rows import write
from tests.sandboxes import TRUSTED
from trinity.config import build
from trinity.errors import ConfigError, DataError, GraderError
from trinity.splits import check_disjoint
from trinity.types import SPLITS, Episode, Item

Rows = Callable[[int], list[dict[str, Any]]]


class Case(NamedTuple):
    """A benchmark, rows of ours for it, and a text that is hidden in every one of them."""

    task: Callable[..., Any]
    rows: Rows
    hidden: str


CASES = [
    Case(HumanEval, rows_code.humaneval, "300"),
    Case(MBPP, rows_code.mbpp, "7000"),
    Case(CRUXEval, rows_code.cruxeval, "'n': 3"),
    Case(LiveCodeBench, rows_code.livecodebench, "7000"),
    Case(BigCodeBench, rows_code.bigcodebench, "7000"),
    Case(Codeforces, rows_code.codeforces, "7000"),
    Case(Easy2HardCodeforces, rows_code.e2h_codeforces, "7000"),
]
NAMES = [case.task.name for case in CASES]  # type: ignore[attr-defined]


def make(task: Callable[..., Any], path: Path, **changed: Any) -> Any:
    """A task of 4 training, 3 validation and 6 test items."""
    settings = {"data_seed": 0, "n_train": 4, "n_val": 3, "n_test": 6, "path": path, "sandbox": TRUSTED}
    return task(**{**settings, **changed})


def right(task: ProgramTask, item: Item) -> str:
    """An answer that is right: the data's own, or the sum that the question asks for."""
    if answer := task.solution(item):
        return answer
    number = re.search(r"\+ (\d+)", item.prompt)
    assert number is not None
    if "def add" in item.prompt:
        return fenced(f"class Solution:\n    def add(self, x, y):\n        return x + y + {number[1]}")
    return fenced(f"print(sum(map(int, input().split())) + {number[1]})")


def wrong(answer: str) -> str:
    """The same answer, off by one."""
    return re.sub(r"(\+ |n': |append\(|STEP = )(\d+)", lambda found: f"{found[1]}{int(found[2]) + 1}", answer)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_one_file_is_cut_into_disjoint_splits(tmp_path: Path, case: Case) -> None:
    """A copy of one split serves all three, rows that stand twice count once, and test items do not move."""
    data = case.rows(16)
    path = write(tmp_path / "rows.jsonl", [*data, *data[:5]])
    made = make(case.task, path)
    assert [len(list(made.items(split))) for split in SPLITS] == [4, 3, 6]
    check_disjoint((split, item) for split in SPLITS for item in made.items(split))
    assert list(make(case.task, path, n_train=0, n_val=0).items("test")) == list(made.items("test"))
    assert made.fingerprint() == make(case.task, write(tmp_path / "back.jsonl", data[::-1])).fingerprint()


@pytest.mark.parametrize("case", CASES, ids=NAMES)
async def test_a_right_program_is_right_and_a_wrong_one_is_not(tmp_path: Path, case: Case) -> None:
    """The right answer scores 1, one off by one 0, and words without a program have no answer."""
    made = make(case.task, write(tmp_path / "rows.jsonl", case.rows(16)))
    await made.ready()
    for item in list(made.items("test"))[:3]:
        answer = right(made, item)
        assert wrong(answer) != answer
        grades = [await made.grade(item, Episode(text), None) for text in (answer, wrong(answer), "")]
        assert [grade.score for grade in grades] == [1.0, 0.0, 0.0]
        assert grades[0].answer == made.key(item, answer)
        assert grades[2].answer is None
        assert (await made.grade(item, Episode(None), None)).score == 0.0
    await made.close()


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_hidden_tests_stay_hidden(tmp_path: Path, case: Case) -> None:
    """What is hidden in each row is in no prompt, and every prompt says how to answer."""
    made = make(case.task, write(tmp_path / "rows.jsonl", case.rows(16)))
    for split in SPLITS:
        for item in made.items(split):
            (message,) = made.open(item)
            assert case.hidden not in message["content"]
            assert item.prompt in message["content"]
            assert re.search(r"```python block|Answer: ", message["content"].rsplit("\n\n", 1)[-1])


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_other_columns_are_named(tmp_path: Path, case: Case) -> None:
    """A file of something else is refused with the columns expected and those found."""
    made = make(case.task, write(tmp_path / "other.jsonl", [{"colour": "red"}]))
    with pytest.raises(DataError, match=r"other\.jsonl: row 1 has no column .*; expected .*, found colour$"):
        list(made.items("test"))


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_its_configuration_builds_it(compose_config: Any, case: Case) -> None:
    """The file in conf/task makes the task, with the run's sandbox, reading the hub unless a path is set."""
    name = case.task.name  # type: ignore[attr-defined]
    cfg = compose_config(
        f"task=[{name}]", "data.n_test=7", f"tasks.{name}.limits.cpu_s=3", f"tasks.{name}.path=a.jsonl"
    )
    made = build(cfg.tasks[name])
    assert (made.name, made.sizes["test"], made.source.path, made.limits.cpu_s) == (name, 7, "a.jsonl", 3)
    assert made.comparable == (name == "cruxeval")
    assert compose_config(f"task=[{name}]").tasks[name].path is None


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        ({"cpu": 3}, r"tasks\.humaneval\.limits\.cpu: there is no such bound; the bounds are cpu_s, idle_s, "),
        ({"cpu_s": 0}, r"limits\.cpu_s is 0; give a number above 0"),
        ({"processes": 1.5}, r"limits\.processes is 1\.5; give a whole number above 0"),
        ({"memory_bytes": True}, "limits.memory_bytes is True; give a whole number"),
    ],
)
def test_a_bound_that_is_none_is_named(tmp_path: Path, limits: dict[str, Any], complaint: str) -> None:
    """Limits are checked before anything is read."""
    with pytest.raises(ConfigError, match=complaint):
        make(HumanEval, tmp_path, limits=limits)


@pytest.mark.parametrize(
    ("task", "option", "complaint"),
    [
        (MBPP, {"config": "small"}, r"tasks\.mbpp\.config is 'small'; give one of sanitized, full"),
        (MBPP, {"shown_tests": -1}, r"tasks\.mbpp\.shown_tests is -1; give a whole number"),
        (CRUXEval, {"direction": "both"}, r"tasks\.cruxeval\.direction is 'both'; give one of output, input"),
        (BigCodeBench, {"subset": "easy"}, "subset is 'easy'; give one of full, hard"),
        (Codeforces, {"config": "all"}, r"tasks\.codeforces\.config is 'all'"),
        (Codeforces, {"time_factor": 0}, r"tasks\.codeforces\.time_factor is 0; give a number above 0"),
        (LiveCodeBench, {"test_releases": ["v7"]}, r"test_releases is \['v7'\]; give some of \[v1, v2"),
        (LiveCodeBench, {"train_releases": []}, r"train_releases is \[\]; give some of"),
        (LiveCodeBench, {"date_from": "May"}, r"date_from is 'May'; give a day as 2025-01-31"),
    ],
)
def test_a_wrong_option_says_what_to_give(tmp_path: Path, task: Any, option: dict[str, Any], complaint: str) -> None:
    """Options of another shape are refused before anything is read."""
    with pytest.raises(ConfigError, match=complaint):
        make(task, tmp_path, **option)


@pytest.mark.parametrize("body", ["    return [x + {k} for x in xs]", "return [x + {k} for x in xs]"])
async def test_humaneval_takes_the_body_alone(tmp_path: Path, body: str) -> None:
    """A completion goes after the prompt, with the indentation that it may have lost."""
    made = make(HumanEval, write(tmp_path / "rows.jsonl", rows_code.humaneval(16)))
    for item in made.items("test"):
        answer = fenced(body.format(k=item.meta["function"].removeprefix("add_")))
        assert (await made.grade(item, Episode(answer), None)).score == 1.0


async def test_humaneval_gives_the_whole_function_the_helpers_of_the_prompt(tmp_path: Path) -> None:
    """An answer may use what the prompt imports and defines without writing it again."""
    made = make(HumanEval, write(tmp_path / "rows.jsonl", rows_code.humaneval(16)))
    (item, *_) = made.items("test")
    name = item.meta["function"]
    code = (
        f"from __future__ import annotations\n\ndef {name}(xs: List[int]):\n"
        f"    return [(double(x) + 2 * {name[4:]}) // 2 for x in xs]"
    )
    assert (await made.grade(item, Episode(fenced(code)), None)).score == 1.0


def test_humaneval_refuses_a_prompt_without_its_function(tmp_path: Path) -> None:
    """A row whose prompt opens another function is a DataError with file and row."""
    row = {**rows_code.humaneval(1)[0], "entry_point": "multiply"}
    made = make(HumanEval, write(tmp_path / "rows.jsonl", [row]), n_train=0, n_val=0, n_test=1)
    with pytest.raises(DataError, match=r"rows\.jsonl: row 1: the prompt does not open the function multiply"):
        made.items("test")


@pytest.mark.parametrize("shown", [0, 1, 2, 9])
def test_mbpp_shows_as_many_tests_as_it_is_told(tmp_path: Path, shown: int) -> None:
    """The first tests are shown, none where none is asked for; the name is always said and all tests are graded."""
    made = make(MBPP, write(tmp_path / "rows.jsonl", rows_code.mbpp(16)), shown_tests=shown)
    for item in made.items("test"):
        assert item.prompt.count("assert ") == min(shown, 3)
        assert f"Name the function `{item.meta['functions'][0]}`." in item.prompt
        assert item.meta["checker"].count("assert ") == 3


async def test_mbpp_full_has_other_columns_and_tests(tmp_path: Path) -> None:
    """Classes of the solution make a row unusable, which is counted; challenge tests are graded where asked for."""
    path = write(tmp_path / "rows.jsonl", rows_code.mbpp_full(12))
    sizes = {"n_train": 0, "n_val": 0, "n_test": None}
    made, stricter = (make(MBPP, path, config="full", challenge_tests=further, **sizes) for further in (False, True))
    (item, *_) = items = list(made.items("test"))
    assert (len(items), made.source.config) == (8, "full")
    assert made.facts()["left_out"] == {"test": {"its tests make objects of the solution's classes": 4}}
    name = item.meta["functions"][0]
    answer = fenced(f"def {name}(x):\n    return x + {name[4:]} + (x == 9)")
    (harder,) = (one for one in stricter.items("test") if one.item_id == item.item_id)
    assert (await made.grade(item, Episode(answer), None)).score == 1.0
    assert (await stricter.grade(harder, Episode(answer), None)).score == 0.0


def test_bigcodebench_counts_what_can_not_be_solved_here(tmp_path: Path) -> None:
    """Missing libraries, the network and ids named in `skip` make rows unusable; a mocked network does not."""
    data = rows_code.bigcodebench(6)
    mocked = data[3]["test"].replace("import unittest", "import unittest\nfrom unittest.mock import patch")
    data[1]["libs"] = "['no_such_library', 'random']"
    data[2]["libs"] = "['socket']"
    data[3] |= {"libs": "['socket']", "test": mocked}
    data[4]["canonical_solution"] = "    nltk.download('words')\n    return x + STEP"
    path = write(tmp_path / "rows.jsonl", data)
    made = make(BigCodeBench, path, n_train=0, n_val=0, n_test=None, skip=["BigCodeBench/5"])
    assert {item.meta["source"] for item in made.items("test")} == {"BigCodeBench/0", "BigCodeBench/3"}
    reasons = {"needs no_such_library": 1, "needs the network": 2, "named in skip": 1}
    assert made.facts()["left_out"] == {"v0.1.4": reasons}


async def test_bigcodebench_refuses_a_sandbox_without_the_libraries(tmp_path: Path) -> None:
    """A library that the settings promise and the sandbox lacks stops the run before it starts."""
    data = [{**row, "libs": "['random', 'no_such_library']"} for row in rows_code.bigcodebench(3)]
    path = write(tmp_path / "rows.jsonl", data)
    made = make(BigCodeBench, path, n_train=0, n_val=0, n_test=2, libraries=["no_such_library"])
    with pytest.raises(ConfigError, match=r"lacks no_such_library; install them there, or set tasks\.bigcodebench\.l"):
        await made.ready()


async def test_bigcodebench_rows_may_need_libraries(tmp_path: Path) -> None:
    """A library that is there is found, in the sandbox too, and programs that use it are graded."""
    row = rows_code.bigcodebench(2)[1]
    row |= {"libs": "['numpy']", "canonical_solution": "    return int(numpy.add(x, STEP))"}
    row["code_prompt"] = row["code_prompt"].replace("import random", "import random, numpy")
    made = make(BigCodeBench, write(tmp_path / "rows.jsonl", [row]), n_train=0, n_val=0, n_test=1)
    (item,) = made.items("test")
    await made.ready()
    answers = (right(made, item), fenced("def task_func(x):\n    return numpy.subtract(x, 1)"))
    assert [(await made.grade(item, Episode(answer), None)).score for answer in answers] == [1.0, 0.0]
    await made.close()


@pytest.mark.parametrize("libs", ["__import__('os')", "['a', 3]", "[" * 300, {"a": 1}, "x" * 20_000])
def test_bigcodebench_reads_the_list_of_libraries_without_running_it(tmp_path: Path, libs: Any) -> None:
    """What is no list of names is a DataError with the place."""
    row = {**rows_code.bigcodebench(1)[0], "libs": libs}
    made = make(BigCodeBench, write(tmp_path / "rows.jsonl", [row]), n_train=0, n_val=0, n_test=1)
    with pytest.raises(DataError, match=r"row 1: libs is .*, not a list of texts"):
        made.items("test")


def test_bigcodebench_asks_in_two_ways_from_two_places(tmp_path: Path) -> None:
    """Prompt, subset and version are settings; each has its place on the hub."""
    path = write(tmp_path / "rows.jsonl", rows_code.bigcodebench(16))
    made = make(BigCodeBench, path, prompt="instruct", subset="hard", version="v0.1.3")
    assert made.facts()["repo"] == made.source.repo == "bigcode/bigcodebench-hard"
    assert made.hub_splits["test"] == "v0.1.3"
    assert all(item.prompt.startswith("Add ") for item in made.items("test"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"interaction_format": "Ask for x."}, "is interactive"),
        ({"input_mode": "file"}, "works on files"),
        ({"official_tests": []}, "has no official tests"),
        ({"official_tests_complete": False}, "its official tests are cut off"),
        ({"executable": False}, "has no checker that it needs"),
        ({"description": None}, "has no text"),
    ],
)
def test_codeforces_counts_what_can_not_be_graded(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    """Each such problem is left out under its reason."""
    data = rows_code.codeforces(4)
    path = write(tmp_path / "rows.jsonl", [data[0] | change, *data[1:]])
    made = make(Codeforces, path, n_train=0, n_val=0, n_test=None)
    assert len(list(made.items("test"))) == 3
    assert made.facts()["left_out"] == {"test": {reason: 1}}


def test_codeforces_items_keep_the_limits_of_the_contest(tmp_path: Path) -> None:
    """Time is multiplied for Python, memory has a floor, and `limits` goes before both."""
    path = write(tmp_path / "rows.jsonl", rows_code.codeforces(4))
    sizes = {"n_train": 0, "n_val": 0, "n_test": None}
    for changed, expected in (
        ({}, (6.0, 2**28)),
        ({"time_factor": 1.5, "limits": {"memory_bytes": 2**29}}, (3.0, 2**29)),
        ({"limits": {"cpu_s": 1}}, (1, 2**28)),
    ):
        made = make(Codeforces, path, **sizes, **changed)
        found = {(bounds.cpu_s, bounds.memory_bytes) for bounds in map(made.bounds, made.items("test"))}
        assert found == {expected}
    ratings = {item.meta["source"]: (item.difficulty, item.difficulty_kind) for item in made.items("test")}
    assert ratings["99990/A"] == (None, None)
    assert ratings["99993/A"] == (1100.0, "human")


def test_incomplete_tests_are_used_where_that_is_asked_for(tmp_path: Path) -> None:
    """The option lets in what is cut off."""
    data = [row | {"official_tests_complete": False} for row in rows_code.codeforces(4)]
    path = write(tmp_path / "rows.jsonl", data)
    made = make(Codeforces, path, n_train=0, n_val=0, n_test=None, incomplete_tests=True)
    assert len(list(made.items("test"))) == 4


async def test_an_item_of_another_task_has_no_tests_here(tmp_path: Path) -> None:
    """Tests that were never read are an error of the grader, never a score."""
    path = write(tmp_path / "rows.jsonl", rows_code.codeforces(16))
    (item, *_) = make(Codeforces, path).items("test")
    with pytest.raises(GraderError, match="are of no row that was read; load its items first"):
        await make(Codeforces, path).grade(item, Episode(fenced("print(1)")), None)


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"problem_main": ""}, "has no text"), ({"input_output": None, "inputs": [], "answers": []}, "has no tests")],
)
def test_easy2hard_counts_what_can_not_be_asked(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    """A problem without text or tests is left out, and that is counted."""
    data = rows_code.e2h_codeforces(7)
    path = write(tmp_path / "rows.jsonl", [data[0] | change, *data[1:]])
    made = make(Easy2HardCodeforces, path, n_train=0, n_val=0)
    assert len(list(made.items("test"))) == 6
    assert made.facts()["left_out"] == {"eval": {reason: 1}}


def test_what_easy2hard_items_say(tmp_path: Path) -> None:
    """The statement stands in its usual order; difficulty is the rating, the domain the tag."""
    made = make(Easy2HardCodeforces, write(tmp_path / "rows.jsonl", rows_code.e2h_codeforces(30)))
    for item in made.items("test"):
        k = int(item.prompt.split("\n", 1)[0].removeprefix("Add "))
        assert item.prompt == (
            f"Add {k}\n\nAdd {k} to a number.\n\nInput:\nThe only line contains x.\n\nOutput:\nPrint the sum.\n\n"
            f"Example 1, input:\n1\nExample 1, output:\n{1 + k}"
        )
        assert (item.difficulty, item.difficulty_kind) == (k / 30, "human")
        assert item.domain == ("Implement" if k % 2 else "Math")


def test_problems_that_accept_several_outputs_are_told_by_accepted_programs(tmp_path: Path) -> None:
    """Where one of them printed something else than the answer, the problem is left out unless it is asked for."""
    data = rows_code.e2h_codeforces(8)
    data[0] |= {"outputs_0": data[0]["answers"], "outputs_1": ["1", "6999"]}
    data[1] |= {"outputs_2": [" 2 \n", "7001.0000"]}
    path = write(tmp_path / "rows.jsonl", data)
    made = make(Easy2HardCodeforces, path, n_train=0, n_val=0, n_test=7)
    assert {item.meta["source"] for item in made.items("test")} == {f"{9000 + k}A" for k in range(1, 8)}
    assert made.facts()["left_out"] == {"eval": {"accepts several outputs": 1}}
    assert (
        len(list(make(Easy2HardCodeforces, path, n_train=0, n_val=0, n_test=8, several_outputs=True).items("test")))
        == 8
    )
