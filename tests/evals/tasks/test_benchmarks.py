"""The benchmarks with rated items: AMC and Lichess of Easy2Hard-Bench, and the open puzzles of Lichess."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import pytest

from evals.tasks.base import SplitTask
from evals.tasks.easy2hard_amc import Easy2HardAMC
from evals.tasks.easy2hard_lichess import Easy2HardLichess
from evals.tasks.lichess import LichessPuzzles, motif
from tests.evals.tasks.rows import e2h_amc, e2h_lichess, lichess, write
from trinity.config import build
from trinity.errors import ConfigError, DataError
from trinity.splits import check_disjoint
from trinity.types import SPLITS, Episode, Item, Task

Make = Callable[..., SplitTask]
Rows = Callable[[int], list[dict[str, Any]]]
BENCHMARKS: list[tuple[Make, Rows]] = [
    (Easy2HardAMC, e2h_amc),
    (Easy2HardLichess, e2h_lichess),
    (LichessPuzzles, lichess),
]


def make(task: Make, path: Path, **changed: Any) -> Any:
    """A task of 12 training, 8 validation and 20 test items."""
    return task(**{"data_seed": 0, "n_train": 12, "n_val": 8, "n_test": 20, "path": path, **changed})


def everything(task: SplitTask) -> list[tuple[Any, Item]]:
    """Items of all splits with their split."""
    return [(split, item) for split in SPLITS for item in task.items(split)]


@pytest.mark.parametrize(("task", "rows"), BENCHMARKS)
def test_one_file_is_cut_into_disjoint_splits(tmp_path: Path, task: Make, rows: Rows) -> None:
    """A copy of one split serves all three; none shares an item, also not where rows stand twice."""
    data = rows(60)
    made: Task = make(task, write(tmp_path / "rows.jsonl", [*data, *data[:30]]))
    assert [len(list(made.items(split))) for split in SPLITS] == [12, 8, 20]
    check_disjoint((split, item) for split, item in everything(made))  # type: ignore[arg-type]


@pytest.mark.parametrize(("task", "rows"), BENCHMARKS)
def test_test_items_do_not_move_with_the_other_sizes(tmp_path: Path, task: Make, rows: Rows) -> None:
    """Test items depend on the seed and their own number alone; validation items do not move with training's."""
    path = write(tmp_path / "rows.jsonl", rows(60))
    made = make(task, path)
    assert list(make(task, path, n_train=0, n_val=0).items("test")) == list(made.items("test"))
    assert list(make(task, path, n_train=3).items("val")) == list(made.items("val"))
    assert list(make(task, path, data_seed=1).items("test")) != list(made.items("test"))


@pytest.mark.parametrize(("task", "rows"), BENCHMARKS)
def test_formats_and_order_of_rows_do_not_matter(tmp_path: Path, task: Make, rows: Rows) -> None:
    """The same rows as lines, table or CSV, forwards or backwards, have one fingerprint."""
    data = rows(60)
    paths = [
        write(tmp_path / "a.jsonl", data),
        write(tmp_path / "b.parquet", data[::-1]),
        write(tmp_path / "c.csv.gz", data),
    ]
    assert len({make(task, path).fingerprint() for path in paths}) == 1


@pytest.mark.parametrize(("task", "rows"), BENCHMARKS)
def test_too_few_rows_and_other_columns_are_refused(tmp_path: Path, task: Make, rows: Rows) -> None:
    """Asking for more than there is says what to lower, and a file of something else what was expected."""
    with pytest.raises(ConfigError, match=rf"task {make(task, tmp_path).name}: .*lower n_t"):
        everything(make(task, write(tmp_path / "few.jsonl", rows(39))))
    with pytest.raises(DataError, match=r"other\.jsonl: row 1 has no column .*; expected .*, found colour$"):
        everything(make(task, write(tmp_path / "other.jsonl", [{"colour": "red"}])))


@pytest.mark.parametrize(("task", "rows"), BENCHMARKS)
async def test_the_target_is_right_and_nothing_else(tmp_path: Path, task: Make, rows: Rows) -> None:
    """The target in the form that is asked for scores 1, another answer 0, and the request for it is no answer."""
    made = make(task, write(tmp_path / "rows.jsonl", rows(60)))
    for _, item in everything(made):
        request = made.open(item)[0]["content"].rpartition("\n")[2]
        right, wrong, none = [
            await made.grade(item, Episode(text), None)
            for text in (f"Let me see.\nAnswer: {item.target}", "Answer: 3h1", request)
        ]
        assert (right.score, right.answer) == (1.0, item.target)
        assert wrong.score == none.score == 0.0
        assert none.answer is None


@pytest.mark.parametrize(("task", "rows"), BENCHMARKS[:2])
def test_test_items_come_from_eval_and_the_others_from_train(tmp_path: Path, task: Make, rows: Rows) -> None:
    """Of a folder with both splits each gives its items, and a question in both is a test item only."""
    data = rows(60)
    write(tmp_path / "eval.jsonl", data[:30])
    write(tmp_path / "train.jsonl", [*data[:5], *data[30:]])
    made = make(task, tmp_path, n_test=30)
    ids = {split: {item.item_id for item in made.items(split)} for split in SPLITS}
    alone = make(task, write(tmp_path / "rows.jsonl", data[:30]), n_train=0, n_val=0, n_test=30)
    assert ids["test"] == {item.item_id for item in alone.items("test")}
    assert not ids["test"] & (ids["train"] | ids["val"])
    with pytest.raises(ConfigError, match="train: 23 items asked for, there are 22 different ones; lower n_train"):
        list(make(task, tmp_path, n_test=30, n_train=23).items("train"))


@pytest.mark.parametrize(("task", "rows"), BENCHMARKS[:2])
def test_each_decile_gives_its_share(tmp_path: Path, task: Make, rows: Rows) -> None:
    """Of 60 rows, two in each of 30 cells, 30 items take one of each: three of every decile."""
    made = make(task, write(tmp_path / "rows.jsonl", rows(60)), n_test=30)
    assert Counter(int((item.difficulty or 0) * 10) for item in made.items("test")) == dict.fromkeys(range(10), 3)


@pytest.mark.parametrize(
    ("answer", "target", "right", "wrong"),
    [
        ("240", "240", "Answer: $240$ grams", "Answer: 24"),
        (27.0, "27", "Answer: 27", "Answer: 270"),
        (r"\frac{3}{4}", "3/4", "Answer: 0.75", "Answer: 3"),
        (r"$2\sqrt{3}$", r"2\sqrt{3}", r"Answer: \(2\sqrt3\)", r"Answer: 2"),
        ("2", "2", "Answer: 2", r"Answer: 2\pi"),
        (r"\textbf{(B)}", "B", "Answer: (B)", "Answer: A"),
        ("C", "C", "Answer: C, since 3 + 4 = 7", "Answer: B or C"),
        ("(1, 2)", "(1,2)", "Answer: $(1,2)$", "Answer: $(2,1)$"),
    ],
)
async def test_amc_answers_are_letters_numbers_or_latex(
    tmp_path: Path, answer: object, target: str, right: str, wrong: str
) -> None:
    """The kind of the answer in the row decides how a text is read."""
    row = {**e2h_amc(1)[0], "answer": answer}
    made = make(Easy2HardAMC, write(tmp_path / "rows.jsonl", [row]), n_train=0, n_val=0, n_test=1)
    (item,) = made.items("test")
    assert item.target == target
    assert [(await made.grade(item, Episode(text), None)).score for text in (right, wrong)] == [1.0, 0.0]


def test_what_amc_items_say(tmp_path: Path) -> None:
    """Asked is the problem alone; difficulty is the rating, the domain the contest; texts stay in the run's folder."""
    made = make(Easy2HardAMC, write(tmp_path / "rows.jsonl", e2h_amc(60)))
    items = list(made.items("test"))
    assert made.redistribute == "ids-only"
    assert {item.difficulty_kind for item in items} == {"irt"}
    assert {item.domain for item in items} == {"AMC10", "AMC12"}
    assert all(0 <= (item.difficulty or 0) < 1 for item in items)
    for item in items:
        (message,) = made.open(item)
        request = "End with a line `Answer: <result>`, in LaTeX where the result is no plain number."
        assert message["content"] == f"What is ${int(item.target) - 1} + 1$?\n{request}"


def test_an_answer_that_is_empty_is_named(tmp_path: Path) -> None:
    """A row whose answer says nothing is a DataError with file and row."""
    row = {**e2h_amc(1)[0], "answer": "$$"}
    made = make(Easy2HardAMC, write(tmp_path / "rows.jsonl", [row]), n_train=0, n_val=0, n_test=1)
    with pytest.raises(DataError, match=r"rows\.jsonl: row 1: answer is '\$\$', not an answer"):
        made.items("test")


@pytest.mark.parametrize(("task", "rows"), BENCHMARKS[1:])
async def test_a_chess_item_asks_for_the_reply(tmp_path: Path, task: Make, rows: Rows) -> None:
    """The prompt shows the position with White to move, asks for the mate there is, and takes it in SAN and UCI.

    Nothing of what is asked shows the move itself.
    """
    made = make(task, write(tmp_path / "rows.jsonl", rows(60)))
    for item in made.items("test"):
        lines = item.prompt.splitlines()
        board = chess.Board(lines[1].removeprefix("FEN: "))
        assert (board.turn, lines[2]) == (chess.WHITE, "To move: White")
        assert lines[-1] == "White can give checkmate in one move. Which move?"
        assert [board.san(move) for move in board.legal_moves if "#" in board.san(move)] == ["Ra8#"]
        scores = [
            (await made.grade(item, Episode(f"Answer: {text}"), None)).score for text in ("Ra8#", item.target, "Kf1")
        ]
        assert scores == [1.0, 1.0, 0.0]
        assert item.difficulty_kind == "human"
        (message,) = made.open(item)
        assert message["content"].startswith(item.prompt)
        assert not [move for move in (item.target, "Ra8") if move in message["content"]]


def test_the_game_is_shown_where_there_is_one(tmp_path: Path) -> None:
    """E2H-Lichess gives the moves before the position; domain and licence are the source's."""
    made = make(Easy2HardLichess, write(tmp_path / "rows.jsonl", e2h_lichess(60)))
    (item, *_) = made.items("test")
    assert item.prompt.splitlines()[3] == f"Game so far: 1. e4 e5 2. Nf3 Nc6 {int(item.meta['puzzle'][1:])}"
    assert (item.domain, made.licence, made.redistribute) == ("backRankMate", "CC-BY-SA-4.0", "yes")


def test_puzzles_are_chosen_by_theme_and_rating(tmp_path: Path) -> None:
    """Themes and a range of ratings, each end of which may be open, leave only what fits."""
    path = write(tmp_path / "rows.jsonl", lichess(60))
    sizes = {"n_train": 0, "n_val": 0, "n_test": 5}
    forks = list(make(LichessPuzzles, path, themes=["fork", "pin"], **sizes).items("test"))
    assert {item.domain for item in forks} == {"fork"}
    assert {item.domain for item in make(LichessPuzzles, path, themes=["mateIn1"], **sizes).items("test")} == {
        "mateIn1"
    }
    low = [item.difficulty for item in make(LichessPuzzles, path, ratings=[None, 1040], **sizes).items("test")]
    assert sorted(value or 0 for value in low) == [1000.0, 1010.0, 1020.0, 1030.0, 1040.0]
    with pytest.raises(ConfigError, match="5 items asked for, 2 puzzles have these themes and ratings; lower n_train"):
        list(make(LichessPuzzles, path, themes=["fork"], ratings=[1000, 1030], **sizes).items("test"))


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ({"themes": "fork"}, r"give a list, as themes=\[fork\]"),
        ({"ratings": [1000]}, "give two numbers"),
        ({"ratings": ["low", "high"]}, "give two numbers"),
        ({"ratings": "1000"}, "give two numbers"),
        ({"ratings": 3}, r"tasks\.lichess_puzzles\.ratings is 3; give two numbers"),
        ({"ratings": [math.nan, 1]}, "give two numbers"),
        ({"ratings": [True, False]}, "give two numbers"),
        ({"ratings": {"a": 1, "b": 2}}, "give two numbers"),
        ({"ratings": [2000, 1000]}, r"tasks\.lichess_puzzles\.ratings is \[2000, 1000\]; give the lower rating first"),
        ({"themes": 3}, r"tasks\.lichess_puzzles\.themes is 3; give a list, as themes=\[fork,pin\]"),
        ({"themes": [["x"]]}, r"tasks\.lichess_puzzles\.themes is \[\['x'\]\]; give a list"),
        ({"themes": [""]}, "give a list"),
        ({"themes": {"fork": 1}}, "give a list"),
        ({"themes": ["x" * 9000, 3]}, r"themes is \['x{98}; give a list"),
    ],
)
def test_a_wrong_option_says_what_to_give(tmp_path: Path, option: dict[str, Any], complaint: str) -> None:
    """Options of another shape are refused before anything is read."""
    with pytest.raises(ConfigError, match=complaint):
        make(LichessPuzzles, tmp_path, **option)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"Moves": "b7b6"}, "Moves is 'b7b6', not the set-up move and the solution"),
        ({"Moves": "b7b4 a1a8"}, "'b7b4' is no move in the position"),
        ({"Moves": "b7b6 a1h8"}, "'a1h8' is no move in the position"),
        ({"FEN": "nothing"}, "'nothing' is no chess position"),
        ({"FEN": " "}, "FEN is ' ', not a text"),
        ({"FEN": "kkkkkkkk/8/8/8/8/8/8/K7 b - - 0 1"}, r".*no legal chess position \(too many kings\)"),
    ],
)
def test_a_broken_puzzle_is_named(tmp_path: Path, change: dict[str, str], complaint: str) -> None:
    """A puzzle that can not be played is a DataError with file and row."""
    path = write(tmp_path / "rows.jsonl", [{**lichess(1)[0], **change}])
    with pytest.raises(DataError, match=rf"^[^:]*rows\.jsonl: row 1: {complaint}"):
        make(LichessPuzzles, path, n_train=0, n_val=0, n_test=1).items("test")


@pytest.mark.parametrize(
    ("themes", "expected"),
    [
        ("crushing fork middlegame short", "fork"),
        ("backRankMate endgame mate mateIn1 oneMove", "backRankMate"),
        ("mate mateIn1 middlegame oneMove", "mateIn1"),
        ("advantage endgame long", "endgame"),
        ("short", "other"),
        ("", "other"),
    ],
)
def test_what_a_puzzle_is_about(themes: str, expected: str) -> None:
    """A motif goes before a plain mate in n, and that before the phase of the game."""
    assert motif(themes.split()) == expected


@pytest.mark.parametrize("name", ["easy2hard_amc", "easy2hard_lichess", "lichess_puzzles"])
def test_its_configuration_builds_it(compose_config: Any, name: str) -> None:
    """The file in conf/task makes the task of that name, reading the hub unless a path is set."""
    cfg = compose_config(
        f"task=[{name}]", "data.n_test=7", f"tasks.{name}.path=copy.jsonl", f"tasks.{name}.revision=abc"
    )
    made = build(cfg.tasks[name])
    assert (made.name, made.sizes["test"], made.source.path, made.source.revision) == (name, 7, "copy.jsonl", "abc")
    assert compose_config(f"task=[{name}]").tasks[name].path is None


@pytest.mark.parametrize(("task", "rows"), BENCHMARKS[:2])
def test_the_manifest_says_where_items_come_from(tmp_path: Path, task: Make, rows: Rows) -> None:
    """Citation, data set, revision and what was left out, as of every benchmark."""
    made = make(task, write(tmp_path / "rows.jsonl", rows(60)), revision="abc")
    everything(made)
    facts = made.facts()
    assert facts["citation"].startswith("Ding et al. 2024")
    assert (facts["repo"], facts["revision"], facts["left_out"]) == ("furonghuang-lab/Easy2Hard-Bench", "abc", {})
