"""Rows of benchmarks: the same from the hub and from every local format, and one clear line where there are none."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.tasks import hub
from evals.tasks.hub import Row, Source, shuffled
from tests.evals.tasks.rows import write
from trinity.errors import ConfigError, DataError

ROWS = [{"id": "a", "question": "One?", "level": 1}, {"id": "b", "question": 'Zwei: ä, "b"\n?', "level": 2}]
COLUMNS = ("question", "level")
FORMATS = ("rows.jsonl", "rows.json", "rows.csv", "rows.jsonl.gz", "rows.json.gz", "rows.csv.gz", "rows.parquet")


def source(path: Path | None = None, **changed: Any) -> Source:
    """A source whose rows are in `path`."""
    return Source(**{"task": "quiz", "repo": "lab/quiz", "path": path, **changed})


def read(source: Source, split: str = "test", columns: tuple[str, ...] = COLUMNS) -> list[tuple[str, float]]:
    """Question and level of each row."""
    return [(row.text("question"), row.number("level")) for row in source.rows(split, columns)]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    """Text and numbers come out alike, whatever kind of file holds them."""
    assert read(source(write(tmp_path / name, ROWS))) == [("One?", 1.0), ('Zwei: ä, "b"\n?', 2.0)]


def test_lines_may_be_called_json(tmp_path: Path) -> None:
    """A file of one object a line is read as that even where its name promises one document, as on the hub."""
    write(tmp_path / "rows.jsonl", ROWS).rename(tmp_path / "rows.json")
    assert len(read(source(tmp_path / "rows.json"))) == 2


def test_a_folder_holds_a_file_or_several_per_split(tmp_path: Path) -> None:
    """A split is the files that begin with its name, in the order of their names."""
    write(tmp_path / "test-00001-of-00002.parquet", ROWS[1:])
    write(tmp_path / "test-00000-of-00002.parquet", ROWS[:1])
    write(tmp_path / "train.jsonl", ROWS[:1])
    (tmp_path / "test.txt").write_text("no rows")
    assert [level for _, level in read(source(tmp_path))] == [1.0, 2.0]
    assert [level for _, level in read(source(tmp_path), "train")] == [1.0]


def test_the_hub_is_read_by_the_same_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `datasets` loads gives the rows that the same files give as a local copy."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "copy"
    folder.mkdir()
    write(folder / "train.jsonl", ROWS[:1])
    write(folder / "test.jsonl", ROWS)
    (row, _) = Source("quiz", str(folder)).rows("test", COLUMNS)
    assert read(Source("quiz", str(folder))) == read(source(folder))
    assert set(row.values) == {"question", "level"}
    with pytest.raises(DataError, match=r"row 1 has no column answer; expected answer, found id, question, level$"):
        read(Source("quiz", str(folder)), columns=("answer",))


def failing(error: Exception, asked: list[Any] | None = None) -> Any:
    """A package `datasets` that cannot load."""

    def load_dataset(*words: Any, **named: Any) -> None:
        if asked is not None:
            asked.append((words, named))
        raise error

    return SimpleNamespace(load_dataset=load_dataset, disable_progress_bars=lambda: None)


def test_nothing_but_name_split_and_revision_is_asked_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """No code from the hub is ever allowed to run, and a pinned revision is the one that is loaded."""
    asked: list[Any] = []
    monkeypatch.setitem(sys.modules, "datasets", failing(ConnectionError("no route"), asked))
    with pytest.raises(DataError, match="hub data set lab/quiz, hard, split test, revision abc: "):
        read(source(config="hard", revision="abc"))
    assert asked == [(("lab/quiz", "hard"), {"split": "test", "revision": "abc"})]


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConnectionError("Couldn't reach\nthe hub"), "ConnectionError: Couldn't reach; set tasks.quiz.path=FILE"),
        (ValueError("'lab/quiz' is a gated dataset"), r"\(gated: accept its terms on its page and set HF_TOKEN\)"),
        (
            RuntimeError("Dataset scripts are no longer supported"),
            "scripts are no longer supported; set tasks.quiz.path",
        ),
        (ValueError("x" * 9000), r"can not be read: ValueError: x{188}; set"),
    ],
)
def test_a_hub_that_does_not_give_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, says: str) -> None:
    """Any failure of the hub names the data set, the reason and what to set instead."""
    monkeypatch.setitem(sys.modules, "datasets", failing(error))
    with pytest.raises(DataError, match=says) as caught:
        read(source())
    assert "hub data set lab/quiz, split test" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_datasets_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing package is named with both ways out."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install datasets, or set tasks\.quiz\.path=FILE"):
        read(source())


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.jsonl", b'{"question": "a", "level": 1}\n\n{', r"rows\.jsonl:3: no JSON \(Expecting .*, character 2\);"),
        ("rows.jsonl", b"[" * 100_000, r"rows\.jsonl: can not be read: RecursionError"),
        ("rows.json", b'{\n "question": "a"\n}', "1: no JSON .*; expected is a list of objects or one object a line$"),
        ("rows.jsonl", b"3\n", r"rows\.jsonl:1: is no JSON object"),
        ("rows.json", b"[1]", r"rows\.json: row 1: is no JSON object"),
        ("rows.jsonl", b"\xff\xfe", r"rows\.jsonl: can not be read: UnicodeDecodeError"),
        ("rows.jsonl", b"", r"rows\.jsonl holds no rows; tasks\.quiz\.path names"),
        ("rows.csv", b"question,level\n", "holds no rows"),
        ("rows.csv", b"question\na\n", "row 1 has no column level; expected question, level, found question$"),
        ("rows.csv.gz", b"question", "can not be read: BadGzipFile"),
        ("rows.parquet", b"PAR1", "can not be read: ArrowInvalid"),
        ("rows.txt", b"a", r"is no \.jsonl, \.json, \.csv or \.parquet file"),
        ("rows.jsonl", b'{"question": "a", "level": "high"}', r"rows\.jsonl: row 1: level is 'high', not a number"),
        ("rows.jsonl", b'{"question": "a", "level": NaN}', "level is nan, not a number"),
        ("rows.jsonl", b'{"question": "a", "level": true}', "level is True, not a number"),
        ("rows.jsonl", b'{"question": " ", "level": 1}', "question is ' ', not a text"),
        ("rows.jsonl", b'{"question": ["a"], "level": 1}', r"question is \['a'\], not a text"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    """What is wrong is said with the file and, where one is to blame, the line or row."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=says):
        read(source(tmp_path / name))


LONG = b"x" * 500


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "rows.jsonl",
            b'{"question": "a", "level": 1}\n{"question": "' + LONG + b'"}',
            r"rows\.jsonl:2: a row of more",
        ),
        ("rows.csv", b"question,level\na,1\n" + LONG, r"rows\.csv:3: a row of more than 100 characters is not read"),
        ("rows.csv", b"question,level\n" + b'"a\n",' * 99, r"rows\.csv:\d+: a row of more than 100 characters"),
        ("rows.csv", LONG, r"rows\.csv:1: a row of more"),
        (
            "rows.json",
            b"\n [" + LONG,
            r"rows\.json: a list of more than 200 characters is not read; write one object a l",
        ),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_row_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, says: str, *, packed: bool
) -> None:
    """A line, a row of many lines and a list are read up to a bound, and no further, packed or not."""
    monkeypatch.setattr(hub, "_MAX_ROW", 100)
    monkeypatch.setattr(hub, "_MAX_LIST", 200)
    file = tmp_path / (f"{name}.gz" if packed else name)
    file.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match=says.replace(":", r"(?:\.gz)?:", 1)):
        read(source(file))


def test_many_rows_may_be_longer_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is one of a row, not of a file."""
    monkeypatch.setattr(hub, "_MAX_ROW", 100)
    for name in ("rows.jsonl", "rows.csv"):
        assert len(read(source(write(tmp_path / name, ROWS[:1] * 50)))) == 50


def test_a_row_group_too_large_for_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a parquet file says of the size of its parts is looked at before they are unpacked."""
    monkeypatch.setattr(hub, "_MAX_GROUP", 10)
    with pytest.raises(DataError, match=r"rows\.parquet: row group 0 has [\d,]+ bytes; more than 10 are not read"):
        read(source(write(tmp_path / "rows.parquet", ROWS)))


def test_an_error_without_a_text_is_named_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an error that says nothing the name is shown, without a colon that leads nowhere."""
    monkeypatch.setitem(sys.modules, "datasets", failing(MemoryError()))
    with pytest.raises(DataError, match="can not be read: MemoryError; set"):
        read(source())


@pytest.mark.parametrize("path", ["", " "])
def test_an_empty_path_is_refused(path: str) -> None:
    """An empty path is a slip, and not the current folder."""
    with pytest.raises(ConfigError, match=r"tasks\.quiz\.path is empty; give a file or a folder, or null"):
        source(path)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["x" * 5000, "~nobody-of-this-name/rows.jsonl", "a\0b"])
def test_a_path_that_can_be_none_is_one_short_line(path: str) -> None:
    """What the system does not take as a path is a DataError that shows no more than its beginning."""
    with pytest.raises(DataError, match=r"(?:can not be read: |there is no such file or folder; )") as caught:
        read(source(path))  # type: ignore[arg-type]
    assert len(str(caught.value)) < 600


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """What is neither file nor folder is refused and not opened."""
    os.mkfifo(tmp_path / "rows.jsonl")
    with pytest.raises(DataError, match=r"rows\.jsonl: is no regular file or folder"):
        read(source(tmp_path / "rows.jsonl"))


def test_a_place_is_said_once() -> None:
    """An error of a row that is told again as the row's error has its place once."""
    row = Row({"level": "high"}, "f.jsonl", 6)
    assert str(row.error(row.wrong("level", "a number"))) == "f.jsonl: row 6: level is 'high', not a number"
    assert str(row.error("odd")) == "f.jsonl: row 6: odd"


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing file, and a folder without the split, are named with what was found instead."""
    with pytest.raises(DataError, match=r"none: there is no such file or folder; tasks"):
        read(source(tmp_path / "none"))
    write(tmp_path / "train.jsonl", ROWS)
    with pytest.raises(DataError, match=r"no file of the split test .*; found: train\.jsonl; tasks"):
        read(source(tmp_path))


def test_numbers_and_lists_as_text() -> None:
    """A whole float is written as an integer, words are a list's or a text's, and a default stands for nothing."""
    row = Row({"a": 27.0, "b": ["x", "y"], "c": " x  y ", "d": None, "e": 0}, "f", 1)
    assert (row.text("a"), row.text("e"), row.text("d", "-"), row.text("none", "")) == ("27", "0", "-", "")
    assert row.words("b") == row.words("c") == ("x", "y")
    assert row.words("d") == ()


@given(st.lists(st.integers(0, 50)), st.integers(0, 20), st.randoms())
def test_a_shuffle_depends_on_content_alone(numbers: list[int], limit: int, random: Any) -> None:
    """Rows in any order, with any repetition, give one order of distinct rows; a limit is its beginning."""
    rows = [Row({"n": number}, "f", index) for index, number in enumerate(numbers)]

    def order(rows: list[Row], limit: int | None = None) -> list[int]:
        return [row.values["n"] for row in shuffled(iter(rows), "seed", lambda row: row.text("n"), limit)]

    full = order(rows)
    assert sorted(full) == sorted(set(numbers))
    assert order(random.sample(rows, len(rows))) == full
    assert order(rows, limit) == full[:limit]


def test_a_limit_keeps_few_rows_of_many() -> None:
    """Of many rows the first in the order are kept, the same as without a limit; another seed keeps others."""
    rows = [Row({"n": number}, "f", number) for number in range(5000)]
    kept = [
        shuffled(iter(rows), seed, lambda row: row.text("n"), limit)
        for seed, limit in (("a", 7), ("a", None), ("b", 7))
    ]
    assert kept[0] == kept[1][:7] != kept[2]


def test_of_two_rows_with_one_identity_the_same_is_kept_in_any_order() -> None:
    """Which of two rows that differ elsewhere is kept does not depend on which came first."""
    rows = [Row({"n": 1, "rating": rating}, "f", index) for index, rating in enumerate((0.3, 0.2))]
    kept = [shuffled(iter(order), "seed", lambda row: row.text("n")) for order in (rows, rows[::-1])]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 1


def test_what_can_not_be_among_the_first_is_not_kept() -> None:
    """Of many rows the first few are those that a full shuffle gives, and most others are never kept for a while."""
    rows = [Row({"id": str(index)}, "f", index) for index in range(20_000)]
    kept: list[Row] = []

    def keep(row: Row) -> Row:
        kept.append(row)
        return row

    few = shuffled(iter(rows), "seed", lambda row: row.text("id"), 5, keep)
    assert few == shuffled(iter(rows), "seed", lambda row: row.text("id"))[:5]
    assert len(kept) < 2000
