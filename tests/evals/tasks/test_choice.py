"""The multiple-choice benchmarks: MMLU, MMLU-Pro, MMLU-Redux, GPQA, and ZebraLogic's questions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest

from evals.tasks.benchmark import REPEATED
from evals.tasks.choice import ChoiceTask, is_misread, place_of
from evals.tasks.gpqa import GPQA
from evals.tasks.mmlu import MMLU, SUBJECTS
from evals.tasks.mmlu_pro import MMLUPro
from evals.tasks.mmlu_redux import MMLURedux
from evals.tasks.zebralogic import ZebraLogic
from tests.evals.tasks import rows_choice
from tests.evals.tasks.rows import write
from trinity.config import build
from trinity.errors import ConfigError, DataError
from trinity.splits import check_disjoint
from trinity.types import SPLITS, Episode, Item

Make = Callable[..., ChoiceTask]
Rows = list[dict[str, Any]]
SHARED = Path(__file__).parents[4] / "shared" / "data" / "items"
ZebraCells = partial(ZebraLogic, mode="mc")
TASKS: list[tuple[Make, Rows]] = [
    (MMLU, rows_choice.mmlu(60)),
    (MMLUPro, rows_choice.mmlu_pro(60)),
    (partial(MMLURedux, labels="all"), rows_choice.mmlu_redux(60)),
    (GPQA, rows_choice.gpqa(60)),
    (ZebraCells, rows_choice.zebra_mc()),
]


def make(task: Callable[..., Any], path: Path, **changed: Any) -> Any:
    """A task of 12 training, 8 validation and 20 test items."""
    return task(**{"data_seed": 0, "n_train": 12, "n_val": 8, "n_test": 20, "path": path, **changed})


def alone(task: Callable[..., Any], path: Path, **changed: Any) -> Any:
    """A task with all rows of a file as test items."""
    return make(task, path, n_train=0, n_val=0, n_test=None, **changed)


def everything(task: ChoiceTask) -> list[tuple[Any, Item]]:
    """Items of all splits with their split."""
    return [(split, item) for split in SPLITS for item in task.items(split)]


@pytest.mark.parametrize(("task", "rows"), TASKS)
def test_one_file_is_cut_into_disjoint_splits(tmp_path: Path, task: Make, rows: Rows) -> None:
    """A copy of one split serves all three; none shares an item, also not where rows stand twice."""
    made = make(task, write(tmp_path / "rows.jsonl", [*rows, *rows[:30]]))
    assert [len(list(made.items(split))) for split in SPLITS] == [12, 8, 20]
    check_disjoint(everything(made))


@pytest.mark.parametrize(("task", "rows"), TASKS)
def test_equal_settings_give_equal_items_from_rows_in_any_order(tmp_path: Path, task: Make, rows: Rows) -> None:
    """The fingerprint is a function of rows and settings, whatever the file's kind, and moves with the seed."""
    paths = [write(tmp_path / "a.jsonl", rows), write(tmp_path / "b.parquet", rows[::-1])]
    assert len({make(task, path).fingerprint() for path in paths}) == 1
    assert make(task, paths[0]).fingerprint() != make(task, paths[0], data_seed=1).fingerprint()


@pytest.mark.parametrize(("task", "rows"), TASKS)
async def test_the_right_letter_is_right_and_nothing_else(tmp_path: Path, task: Make, rows: Rows) -> None:
    """The solution scores 1; every other letter 0; a letter beyond the options is no answer; the option's text is."""
    made = make(task, write(tmp_path / "rows.jsonl", rows))
    for _, item in everything(made):
        options = item.meta["options"]
        assert (await made.grade(item, Episode(made.solution(item)), None)).score == 1
        for letter, option in zip(ascii_uppercase, options, strict=False):
            grade = await made.grade(item, Episode(f"So.\nAnswer: {letter}"), None)
            assert (grade.score, grade.answer) == (float(letter == item.target), letter)
            assert f"\n{letter}) {option}" in item.prompt
        beyond = await made.grade(item, Episode(f"Answer: {ascii_uppercase[len(options)]}"), None)
        named = await made.grade(item, Episode(f"It is {options[0]}.\nAnswer: {options[0]}"), None)
        assert (beyond.score, beyond.answer, named.answer) == (0, None, "A")


@pytest.mark.parametrize(("task", "rows"), TASKS)
def test_the_prompt_asks_for_a_letter_and_shows_no_answer(tmp_path: Path, task: Make, rows: Rows) -> None:
    """One message holds the question and asks for `Answer: <letter>`; an echo of it is no answer."""
    made = make(task, write(tmp_path / "rows.jsonl", rows))
    for _, item in everything(made):
        (message,) = made.open(item)
        assert item.prompt in message["content"]
        assert "Answer: <letter>" in message["content"].splitlines()[-1]
        assert made.key(item, message["content"].splitlines()[-1]) is None


@pytest.mark.parametrize("task", [task for task, _ in TASKS])
def test_other_columns_are_named(tmp_path: Path, task: Make) -> None:
    """A file of something else is refused with the columns expected and found."""
    with pytest.raises(DataError, match=r"other\.jsonl: row 1 has no column .*; expected .*, found colour$"):
        everything(make(task, write(tmp_path / "other.jsonl", [{"colour": "red"}])))


@pytest.mark.parametrize("task", [MMLU, MMLUPro, MMLURedux])
def test_options_keep_the_order_of_the_data_unless_told_otherwise(tmp_path: Path, task: Make) -> None:
    """Shuffled options are the same ones in another order, with the target moved along, under the same id."""
    rows = {MMLU: rows_choice.mmlu, MMLUPro: rows_choice.mmlu_pro, MMLURedux: rows_choice.mmlu_redux}[task](60)  # type: ignore[index]
    path = write(tmp_path / "rows.jsonl", rows)
    plain = {item.item_id: item for item in alone(task, path).items("test")}
    shown = [row.get("choices", row.get("options")) for row in rows]
    assert all(item.meta["options"] in shown for item in plain.values())
    moved = 0
    for item in alone(task, path, shuffle_options=True).items("test"):
        before = plain[item.item_id]
        assert sorted(item.meta["options"]) == sorted(before.meta["options"])
        right = [one.meta["options"][ascii_uppercase.index(one.target)] for one in (item, before)]
        assert right[0] == right[1]
        moved += item.meta["options"] != before.meta["options"]
    assert moved > len(plain) / 2


@pytest.mark.parametrize("option", ["All of the above", "Both A and B", "Neither of them", "A, or C"])
def test_options_that_speak_of_others_are_not_shuffled(tmp_path: Path, option: str) -> None:
    """Where an option names others by place, the data's order is kept."""
    rows = [{**row, "choices": [*row["choices"][:3], option]} for row in rows_choice.mmlu(40)]
    path = write(tmp_path / "rows.jsonl", rows)
    assert alone(MMLU, path, shuffle_options=True).fingerprint() == alone(MMLU, path).fingerprint()


def test_mmlu_splits_come_from_those_of_the_hub(tmp_path: Path) -> None:
    """Test from test, validation from validation, training from dev or what `train_split` says; no text in two."""
    rows = rows_choice.mmlu(90)
    for name, part in {"test": rows[:30], "validation": rows[20:50], "dev": rows[40:70]}.items():
        write(tmp_path / f"{name}.jsonl", part)
    write(tmp_path / "auxiliary_train.jsonl", [{**row, "subject": ""} for row in rows[70:]])
    made = make(MMLU, tmp_path, n_test=None, n_val=20, n_train=20)
    ids = {split: {item.prompt.partition("\n")[0] for item in made.items(split)} for split in SPLITS}
    assert ids["test"] == {row["question"] for row in rows[:30]}
    assert ids["val"] == {row["question"] for row in rows[30:50]}
    assert ids["train"] == {row["question"] for row in rows[50:70]}
    auxiliary = make(MMLU, tmp_path, train_split="auxiliary_train", n_train=20)
    assert {item.domain for item in auxiliary.items("train")} == {"auxiliary"}
    with pytest.raises(ConfigError, match="task mmlu: 21 train items asked for, 20 rows are left"):
        make(MMLU, tmp_path, n_test=None, n_val=20, n_train=21).items("train")


def test_mmlu_subjects(tmp_path: Path) -> None:
    """Rows of other subjects are left out and counted; the domain is the subject."""
    made = alone(MMLU, write(tmp_path / "rows.jsonl", rows_choice.mmlu(60)), subjects=["anatomy"])
    assert {item.domain for item in made.items("test")} == {"anatomy"}
    assert made.facts()["left_out"] == {"test": {"another subject": 30}}
    assert len(set(SUBJECTS)) == 57


@pytest.mark.parametrize(
    ("task", "option", "complaint"),
    [
        (MMLU, {"train_split": "train"}, "tasks.mmlu.train_split is 'train'; give one of dev, validation, auxiliary_t"),
        (MMLU, {"subjects": "anatomy"}, r"tasks\.mmlu\.subjects is 'anatomy'; give a list, as subjects=\[anatomy\]"),
        (MMLU, {"subjects": ["cooking"]}, "there is no subject 'cooking'; they are: abstract_algebra, anatomy"),
        (MMLU, {"shuffle_options": "yes"}, "tasks.mmlu.shuffle_options is 'yes'; give true or false"),
        (MMLUPro, {"train_split": "dev"}, "tasks.mmlu_pro.train_split is 'dev'; give one of test, validation"),
        (MMLURedux, {"labels": None}, "tasks.mmlu_redux.labels is None; give one of ok_only, all, corrected"),
        (GPQA, {"subset": "gpqa_main"}, "tasks.gpqa.subset is 'gpqa_main'; give one of diamond, main, extended"),
        (ZebraLogic, {"mode": ["grid"]}, r"tasks.zebralogic.mode is \['grid'\]; give one of grid, mc"),
    ],
)
def test_a_wrong_option_says_what_to_give(tmp_path: Path, task: Make, option: dict[str, Any], complaint: str) -> None:
    """Options that there are not are refused before anything is read."""
    with pytest.raises(ConfigError, match=complaint):
        make(task, tmp_path, **option)


def test_pro_has_up_to_ten_options_and_its_own_chance(tmp_path: Path) -> None:
    """Chance is the mean of one over the number of options: here half threes, half tens."""
    made = alone(MMLUPro, write(tmp_path / "rows.jsonl", rows_choice.mmlu_pro(60)))
    items = list(made.items("test"))
    assert Counter(len(item.meta["options"]) for item in items) == {3: 30, 10: 30}
    assert made.chance == pytest.approx((1 / 3 + 1 / 10) / 2)
    assert {item.domain for item in items} == {"math", "physics"}
    assert {item.difficulty for item in items} == {None}


def test_pro_drops_padding_and_refuses_a_contradiction(tmp_path: Path) -> None:
    """`N/A` behind the last option is none; a letter and an index that differ are a DataError with the place."""
    row = rows_choice.mmlu_pro(1)[0]
    padded = {**row, "options": [*row["options"], "N/A", "N/A"]}
    (item,) = alone(MMLUPro, write(tmp_path / "a.jsonl", [padded])).items("test")
    assert item.meta["options"] == row["options"]
    made = alone(MMLUPro, write(tmp_path / "b.jsonl", [{**row, "answer_index": 2}]))
    with pytest.raises(DataError, match=r"b\.jsonl: row 1: answer is A, but answer_index is 2"):
        made.items("test")


def test_pro_takes_the_other_splits_from_test_or_validation(tmp_path: Path) -> None:
    """The 70 rows of `validation` are used only where told."""
    rows = rows_choice.mmlu_pro(60)
    write(tmp_path / "test.jsonl", rows[:40])
    write(tmp_path / "validation.jsonl", rows[40:])
    cut = {item.prompt for item in make(MMLUPro, tmp_path).items("train")}
    held = {item.prompt for item in make(MMLUPro, tmp_path, train_split="validation").items("train")}
    everywhere = {item.prompt for item in alone(MMLUPro, write(tmp_path / "all.jsonl", rows[:40])).items("test")}
    assert cut <= everywhere
    assert not held & everywhere


@pytest.mark.parametrize(
    ("labels", "domains", "left_out"),
    [
        ("ok_only", {"anatomy": 18, "elementary_mathematics": 18}, {"wrong_groundtruth": 12, "no_correct_answer": 12}),
        ("all", {"ok": 36, "wrong_groundtruth": 12, "no_correct_answer": 12}, {}),
        (
            "corrected",
            {"ok": 36, "wrong_groundtruth": 6},
            {"wrong_groundtruth without a right option named": 6, "no_correct_answer": 12},
        ),
    ],
)
def test_redux_tells_flagged_questions_apart(
    tmp_path: Path, labels: str, domains: dict[str, int], left_out: dict[str, int]
) -> None:
    """What is left out is counted by its error; where flagged ones are asked, the domain is the error."""
    made = alone(MMLURedux, write(tmp_path / "rows.jsonl", rows_choice.mmlu_redux(60)), labels=labels)
    items = list(made.items("test"))
    assert Counter(item.domain for item in items) == domains
    assert made.facts()["left_out"] == ({"test": left_out} if left_out else {})
    assert {item.meta["subject"] for item in items} == {"anatomy", "elementary_mathematics"}
    for item in items:
        sum_of = int(item.prompt.split()[2]) + 1
        right = item.meta["options"][ascii_uppercase.index(item.target)] == str(sum_of)
        assert right == (labels != "all" or item.meta["error_type"] != "wrong_groundtruth")


@pytest.mark.parametrize(
    ("given", "letter"),
    [("C", "C"), ("c", "C"), ("C)", "C"), ("2", None), (1, "B"), (1.0, "B"), ("two", "B"), ("E", None), ("nine", None)],
)
def test_redux_reads_a_correction_by_letter_index_or_text(tmp_path: Path, given: object, letter: str | None) -> None:
    """A correction that says two things (`2`: the third option, or the text of the first) is none."""
    row = {**rows_choice.mmlu_redux(2)[1], "choices": ["2", "two", "4", "5"], "answer": 3, "correct_answer": given}
    made = alone(MMLURedux, write(tmp_path / "rows.jsonl", [row]), labels="corrected")
    assert [item.target for item in made.items("test")] == ([letter] if letter else [])


def test_redux_reads_its_subjects_from_the_configurations_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the hub a subject is a configuration; each asked for is read, and its items say it."""
    import datasets

    asked = []

    def load(repo: str, config: str, *, split: str, revision: str | None) -> Any:
        asked.append((repo, config, split, revision))
        rows = rows_choice.mmlu_redux(20)[10:] if config == "virology" else rows_choice.mmlu_redux(10)
        return datasets.Dataset.from_list([{key: row[key] for key in row if key != "subject"} for row in rows])

    monkeypatch.setattr(datasets, "load_dataset", load)
    made = alone(MMLURedux, None, subjects=["virology", "anatomy"], revision="abc")  # type: ignore[arg-type]
    assert Counter(item.domain for item in made.items("test")) == {"anatomy": 6, "virology": 6}
    repo = "edinburgh-dawg/mmlu-redux-2.0"
    assert asked == [(repo, "anatomy", "test", "abc"), (repo, "virology", "test", "abc")]


def test_gpqa_letters_are_even_and_another_seed_orders_anew(tmp_path: Path) -> None:
    """The right answer, first in the data, stands at every place about equally often."""
    path = write(tmp_path / "rows.jsonl", rows_choice.gpqa(400))
    orders = [
        {item.item_id: item.target for item in alone(GPQA, path, data_seed=seed).items("test")} for seed in (0, 1)
    ]
    assert all(70 <= count <= 130 for order in orders for count in Counter(order.values()).values())
    same = sum(orders[1][name] == letter for name, letter in orders[0].items())
    assert 70 <= same <= 130


def test_gpqa_stays_in_the_folder_and_reads_no_canary(tmp_path: Path) -> None:
    """Texts may never leave, and columns that are not asked for are nowhere in an item."""
    made = alone(GPQA, write(tmp_path / "rows.jsonl", rows_choice.gpqa(8)))
    assert made.redistribute == "never"
    assert all("canary" not in repr(item).casefold() and "copied" not in repr(item) for item in made.items("test"))
    assert {item.domain for item in made.items("test")} == {"Physics"}


def test_gpqa_says_what_a_refusal_of_the_hub_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gated data set is one line: its terms, HF_TOKEN, and the way with a copy."""
    import datasets

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("Dataset 'Idavidrein/gpqa' is a gated dataset on the Hub")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    line = r"Idavidrein/gpqa, gpqa_main, split train: can not be read \(gated: .*HF_TOKEN\).*tasks\.gpqa\.path=FILE"
    with pytest.raises(DataError, match=line):
        alone(GPQA, None, subset="main").items("test")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"answer": 4}, r"rows\.jsonl: row 1: answer is 4, not the index or letter of one of 4 options"),
        ({"answer": None}, "row 1: answer is None, not the index"),
        ({"choices": "a, b"}, "row 1: choices is 'a, b', not a list of 2 to 26 options"),
        ({"choices": ["a"]}, "row 1: choices is"),
        ({"choices": ["a", None]}, "row 1: choices is"),
        ({"question": " "}, "row 1: question is ' ', not a text"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    """A row that is no question with options and an answer is a DataError with file and row."""
    made = alone(MMLU, write(tmp_path / "rows.jsonl", [{**rows_choice.mmlu(1)[0], **change}]))
    with pytest.raises(DataError, match=complaint):
        made.items("test")


def test_options_of_a_csv_file(tmp_path: Path) -> None:
    """In a CSV file options are a JSON list, and the answer an index or a letter."""
    rows = rows_choice.mmlu(8)
    texts = [{**row, "choices": json.dumps(row["choices"]), "answer": "ABCD"[row["answer"]]} for row in rows]
    paths = write(tmp_path / "a.jsonl", rows), write(tmp_path / "b.csv", texts)
    assert len({alone(MMLU, path).fingerprint() for path in paths}) == 1


@pytest.mark.parametrize(
    ("value", "place"),
    [(0, 0), ("3", 3), (2.0, 2), ("b", 1), (4, None), ("E", None), (True, None), (-1, None), ("", None)],
)
def test_places(value: object, place: int | None) -> None:
    """An index from 0 or a letter names a place among four options."""
    assert place_of(value, 4) == place


@pytest.mark.parametrize(
    ("text", "misread"),
    [
        ("don\u00e2\u20ac\u2122t", True),
        ("caf\u00c3\u00a9", True),
        ("20 \u00c2\u00b0C", True),
        ("\u00e2\u0080\u0099", True),
        ("don\u2019t, café, 20 °C, 中文, « ça »", False),
        ("plain", False),
        ("\u0416\u0416", False),
    ],
)
def test_utf_8_read_as_latin_1_is_noticed(text: str, misread: bool) -> None:
    """What a wrong decoder makes of UTF-8 is told from text in other languages."""
    assert is_misread(text) == misread


def test_repeated_questions_are_counted(tmp_path: Path) -> None:
    """A question of two rows, its options in any order, is one item, and the manifest counts the other."""
    rows = rows_choice.mmlu(12)
    again = {**rows[4], "subject": "virology", "choices": rows[4]["choices"][::-1], "answer": 3 - rows[4]["answer"]}
    made = make(MMLU, write(tmp_path / "rows.jsonl", [*rows, again]), n_train=2, n_val=2, n_test=8)
    assert sum(len(list(made.items(split))) for split in SPLITS) == 12
    assert made.facts()["left_out"] == {"test": {REPEATED: 1}}


def test_misread_texts_are_counted_and_asked_as_they_are(tmp_path: Path) -> None:
    """The manifest says how many loaded items have such a text; none is changed or left out."""
    rows = rows_choice.mmlu(10)
    rows[3] = {**rows[3], "question": "What doesn\u00e2\u20ac\u2122t fit?"}
    made = alone(MMLU, write(tmp_path / "rows.jsonl", rows))
    assert sum("\u00e2\u20ac\u2122" in item.prompt for item in made.items("test")) == 1
    assert made.facts()["misread_texts"] == 1


def test_the_same_question_is_the_same_text_in_mmlu_and_redux(tmp_path: Path) -> None:
    """So a run that trains on one and tests on the other is refused where they share a question."""
    one = alone(MMLU, write(tmp_path / "a.jsonl", rows_choice.mmlu(20)))
    other = alone(MMLURedux, write(tmp_path / "b.jsonl", rows_choice.mmlu_redux(20)))
    assert {item.prompt for item in other.items("test")} < {item.prompt for item in one.items("test")}


@pytest.mark.parametrize("name", ["mmlu", "mmlu_pro", "mmlu_redux", "gpqa", "zebralogic"])
def test_its_configuration_builds_it(compose_config: Any, name: str) -> None:
    """The file in conf/task makes the task of that name, reading the hub unless a path is set."""
    cfg = compose_config(
        f"task=[{name}]", "data.n_test=7", f"tasks.{name}.path=copy.jsonl", f"tasks.{name}.revision=abc"
    )
    made = build(cfg.tasks[name])
    assert (made.name, made.sizes["test"], made.source.path, made.source.revision) == (name, 7, "copy.jsonl", "abc")
    assert compose_config(f"task=[{name}]").tasks[name].path is None
    assert made.citation
    assert made.licence


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not here")
@pytest.mark.parametrize(
    ("task", "file", "rows", "count", "chance"),
    [
        (MMLU, "mmlu_all_test", 285, 285, 0.25),
        (MMLU, "mmlu_all_dev", 285, 284, 0.25),
        (MMLUPro, "mmlu_pro_test", 280, 280, 0.1138),
        (MMLURedux, "mmlu_redux2_test", 200, 199, 0.25),
        (partial(MMLURedux, labels="all"), "mmlu_redux2_test", 300, 299, 0.25),
        (partial(MMLU, shuffle_options=True), "mmlu_all_test", 285, 285, 0.25),
        (GPQA, "gpqa_schema_sample", 3, 3, 0.25),
    ],
)
async def test_every_row_of_the_slices(task: Make, file: str, rows: int, count: int, chance: float) -> None:
    """Each row becomes an item whose solution is right and whose other letters are wrong; two ask the same."""
    made = alone(task, SHARED / f"{file}.jsonl")
    items = list(made.items("test"))
    assert len({item.item_id for item in items}) == len(items) == count
    assert made.chance == pytest.approx(chance, abs=5e-5)
    assert made.facts()["misread_texts"] == 0
    assert made.facts()["left_out"].get("test", {}).get(REPEATED, 0) == rows - count
    for item in items:
        scores = [
            (await made.grade(item, Episode(f"Answer: {letter}"), None)).score
            for letter in ascii_uppercase[: len(item.meta["options"])]
        ]
        assert [scores.index(1), sum(scores)] == [ascii_uppercase.index(item.target), 1]
        assert (await made.grade(item, Episode(made.solution(item)), None)).score == 1
