"""Benchmarks as tasks: rows are cut into splits that share nothing, and nothing is left out in silence."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from evals.tasks.benchmark import REPEATED, Benchmark, filled, prompt_text
from evals.tasks.hub import Row, Source
from tests.evals.tasks.rows import write
from trinity.errors import ConfigError, DataError
from trinity.types import Item, Split


class Sums(Benchmark):
    """Sums whose answers stand beside them."""

    name = "sums"
    repo: ClassVar[str] = "lab/sums"
    columns: tuple[str, ...] = ("question", "answer")
    optional = ("flag",)
    citation: ClassVar[str] = "nobody"
    grader = "equal/1"

    def item(self, row: Row) -> Item:
        """A sum."""
        prompt = row.text("question")
        return Item(prompt, self.name, prompt, row.text("answer"), "sums")

    def unusable(self, row: Row) -> str | None:
        """Flagged rows are none."""
        return row.text("flag", "") or None

    def key(self, item: Item, text: str) -> str | None:
        """The text."""
        return text


class Parted(Sums):
    """The same with a hub split for each of ours."""

    hub_splits: Mapping[Split, str] = {"train": "train", "val": "train", "test": "test"}


class Named(Sums):
    """The same with a name before the question."""

    columns = ("id", "question", "answer")


def rows(count: int, start: int = 0, **more: Any) -> list[dict[str, Any]]:
    """Sums `start` to `start + count`."""
    return [{"question": f"{n} + 1?", "answer": n + 1, **more} for n in range(start, start + count)]


def task(path: Path, kind: type[Sums] = Sums, *, train: int = 2, val: int = 2, test: int | None = 3) -> Sums:
    """A task on the rows at `path`."""
    return kind(data_seed=0, n_train=train, n_val=val, n_test=test, path=path)


def ids(task: Sums, split: Split) -> list[str]:
    """The ids of a split's items."""
    return [item.item_id for item in task.items(split)]


def test_one_file_is_cut_without_overlap(tmp_path: Path) -> None:
    """Three splits of the same rows share no item and have the sizes asked for."""
    cut = task(write(tmp_path / "rows.jsonl", rows(9)))
    splits = [ids(cut, split) for split in ("train", "val", "test")]
    assert [len(split) for split in splits] == [2, 2, 3]
    assert len(set().union(*splits)) == 7


def test_test_items_stay_where_they_are(tmp_path: Path) -> None:
    """Other sizes of the other splits, and another order of the rows, leave the test items as they are."""
    path = write(tmp_path / "rows.jsonl", rows(9))
    turned = write(tmp_path / "turned.jsonl", rows(9)[::-1])
    assert ids(task(path), "test") == ids(task(turned, train=4, val=0), "test")


def test_all_rows_may_be_test_items(tmp_path: Path) -> None:
    """Without a size the test split is all that there is."""
    whole = task(write(tmp_path / "rows.jsonl", rows(9)), train=0, val=0, test=None)
    assert len(ids(whole, "test")) == 9
    with pytest.raises(ConfigError, match="2 val items asked for, 0 rows are left for them of 9 read; lower n_val"):
        ids(task(tmp_path / "rows.jsonl", train=0, test=None), "test")


def test_splits_may_come_from_splits_of_the_source(tmp_path: Path) -> None:
    """Where the source has a split of its own for tests, training and validation items come from the other."""
    write(tmp_path / "train.jsonl", rows(4))
    write(tmp_path / "test.jsonl", rows(3, start=100))
    parted = task(tmp_path, Parted)
    assert {item.split()[0] for item in ids(parted, "test")} == {"100", "101", "102"}
    assert len({*ids(parted, "train"), *ids(parted, "val")}) == 4


def test_a_test_item_is_no_training_item_even_where_the_source_holds_it_twice(tmp_path: Path) -> None:
    """A question that stands in both of the source's splits is a test item only."""
    write(tmp_path / "train.jsonl", rows(5))
    write(tmp_path / "test.jsonl", rows(3))
    parted = task(tmp_path, Parted, train=1, val=1)
    assert set(ids(parted, "train") + ids(parted, "val")) == {"3 + 1?", "4 + 1?"}


def test_rows_that_can_be_no_item_are_counted(tmp_path: Path) -> None:
    """They are in no split, and the manifest says how many there were and why."""
    path = write(tmp_path / "rows.jsonl", [*rows(7), *rows(2, start=50, flag="wrong label")])
    flagged = task(path)
    drawn = [*ids(flagged, "train"), *ids(flagged, "val"), *ids(flagged, "test")]
    assert sorted(drawn) == [f"{n} + 1?" for n in range(7)]
    assert flagged.facts()["left_out"] == {"test": {"wrong label": 2}}


def test_missing_columns_are_named(tmp_path: Path) -> None:
    """A file with other columns is refused with those expected and those found."""
    path = write(tmp_path / "rows.jsonl", [{"q": "1 + 1?", "answer": 2}])
    with pytest.raises(DataError, match=r"no column question; expected question, answer, found q, answer"):
        ids(task(path), "test")


def test_named_files_of_the_hub_are_read_from_a_local_folder(tmp_path: Path) -> None:
    """Files that the hub keeps in folders are found at those paths, or directly in the folder."""

    class Filed(Sums):
        """Rows in two named files."""

        files: Mapping[str, tuple[str, ...]] = {"test": ("data/a.jsonl", "data/b.jsonl")}

    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / "a.jsonl", rows(4))
    write(tmp_path / "b.jsonl", rows(4, start=10))
    whole = task(tmp_path, Filed, train=0, val=0, test=None)
    assert len(ids(whole, "test")) == 8
    (tmp_path / "b.jsonl").unlink()
    with pytest.raises(DataError, match=r"has no file data/b\.jsonl"):
        ids(task(tmp_path, Filed), "test")


def test_several_configurations_are_one_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the hub the configurations are read one after another, and named files by their builder."""
    import datasets

    asked: list[tuple[Any, ...]] = []

    def load(*given: Any, **named: Any) -> Any:
        asked.append((*given, named))
        return datasets.Dataset.from_list(rows(3, start=10 * len(asked)))

    monkeypatch.setattr(datasets, "load_dataset", load)

    class Subjects(Sums):
        """Two configurations."""

        config = ("algebra", "logic")

    class Filed(Sums):
        """A named file."""

        files: Mapping[str, tuple[str, ...]] = {"test": ("data/a.jsonl.gz",)}

    both = Subjects(data_seed=0, n_train=0, n_val=0, n_test=None)
    assert len(ids(both, "test")) == 6
    filed = Filed(data_seed=0, n_train=0, n_val=0, n_test=None, revision="abc")
    assert len(ids(filed, "test")) == 3
    assert asked == [
        ("lab/sums", "algebra", {"split": "test", "revision": None}),
        ("lab/sums", "logic", {"split": "test", "revision": None}),
        ("json", {"data_files": "hf://datasets/lab/sums@abc/data/a.jsonl.gz", "split": "train"}),
    ]


def test_a_source_that_is_on_no_hub_says_where_it_is() -> None:
    """Without a copy the line names the place to get one from."""

    class Elsewhere(Sums):
        """Rows on no hub."""

        repo: ClassVar[str] = "https://example.org/sums"

    with pytest.raises(DataError, match=r"on no hub; set tasks\.sums\.path=FILE to read a copy of https://example"):
        ids(Elsewhere(data_seed=0, n_train=0, n_val=0, n_test=1), "test")


def test_a_question_fills_a_prompt_and_nothing_more() -> None:
    """Braces in a question stay what they are, also those that name another part."""
    assert filled("Q: {question} {x}", question="{a} {question}") == "Q: {a} {question} {x}"
    with pytest.raises(ConfigError, match=r"has no \{question\}"):
        filled("Q:", question="1 + 1?")


def test_prompt_files_hold_the_question_once() -> None:
    """Every task's prompt has one place for the question, and asks for something after it."""
    folder = Path(__file__).parents[3] / "evals" / "tasks" / "prompts"
    for file in folder.glob("*.txt"):
        assert prompt_text(file.stem).count("{question}") == 1, file.name


def test_a_repeated_question_is_counted(tmp_path: Path) -> None:
    """Of two rows that ask the same one becomes an item; the other is told like any row that does not."""
    path = write(tmp_path / "rows.jsonl", [*rows(5), *rows(1)])
    whole = task(path, train=1, val=1, test=3)
    assert len({*ids(whole, "train"), *ids(whole, "val"), *ids(whole, "test")}) == 5
    reason = "another row has the same question"
    assert whole.facts()["left_out"] == {"test": {reason: 1}}
    assert whole.facts()["left_out_rows"] == {"test": {reason: "rows 1 and 6"}}


def test_questions_under_one_name_are_told_by_what_decided(tmp_path: Path) -> None:
    """Where a name stands first it decides: the reason says so with rows, and what is missing is told with all."""
    path = write(tmp_path / "rows.jsonl", [{"id": n // 2, **row} for n, row in enumerate([*rows(9), *rows(1, 90)])])
    named = task(path, Named, train=0, val=0, test=None)
    assert len(ids(named, "test")) == 5
    reason = "another row has the same id"
    assert named.facts()["left_out"] == {"test": {reason: 5}}
    assert named.facts()["left_out_rows"] == {"test": {reason: "rows 1 and 2, 3 and 4, 5 and 6, ..."}}
    told = (
        "task sums: 2 train items asked for, 1 rows are left for them of 10 read, 5 left out (another row has the same "
        "id: rows 1 and 2, 3 and 4, 5 and 6, ...); lower n_train, or n_test and n_val, which are drawn before"
    )
    with pytest.raises(ConfigError, match=rf"^{re.escape(told)}$"):
        ids(task(path, Named, train=2, val=2, test=2), "train")


def test_a_task_that_tells_rows_apart_itself_names_no_column(tmp_path: Path) -> None:
    """With an `identity` of the task's own the reason says that another row asks the same; an unusable row is named."""

    class Signed(Sums):
        """Sums are the same whose first numbers have the same last digit."""

        def identity(self, row: Row) -> str:
            """The digit."""
            return row.text("question").split()[0][-1]

    path = write(tmp_path / "rows.jsonl", [*rows(3), *rows(1, flag="odd"), *rows(1, start=12)])
    signed = task(path, Signed, train=0, val=0, test=None)
    assert ids(signed, "test")
    assert signed.facts()["left_out_rows"] == {"test": {"odd": "row 4", REPEATED: "rows 3 and 5"}}


def test_two_rows_that_become_one_item_are_named(tmp_path: Path) -> None:
    """Rows with two names and one question stop the run with both rows, across splits too."""
    path = write(tmp_path / "rows.jsonl", [{"id": n, **row} for n, row in enumerate([*rows(3), *rows(1, start=1)])])
    clash = r"rows\.jsonl: row [24]: becomes the item 1 \+ 1\?, as row [24] does, though id tells them apart; take one"
    with pytest.raises(DataError, match=clash):
        ids(task(path, Named, train=0, val=0, test=4), "test")
    parted = task(path, Named, train=1, val=1, test=2)
    with pytest.raises(DataError, match=clash):
        [*ids(parted, "test"), *ids(parted, "val"), *ids(parted, "train")]


@pytest.mark.parametrize(
    "error", [TypeError("no list"), KeyError("x"), UnicodeEncodeError("utf-8", "\ud800", 0, 1, "-")]
)
def test_whatever_a_row_makes_fail_names_its_place(tmp_path: Path, error: Exception) -> None:
    """A row that a task's own code stumbles over stops with its file and number, not with a traceback."""

    class Stumbling(Sums):
        """Fails at one row."""

        def item(self, row: Row) -> Item:
            """A sum, but for one."""
            if row.text("question") == "2 + 1?":
                raise error
            return super().item(row)

    path = write(tmp_path / "rows.jsonl", rows(9))
    with pytest.raises(DataError, match=r"rows\.jsonl: row 3: can not be read"):
        ids(task(path, Stumbling, train=0, val=0, test=None), "test")


def test_a_task_of_another_package_has_its_prompt_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt is looked for beside the task's own module; where there is none, the line says where to write it."""
    module = ModuleType("acme_sums")
    module.__file__ = str(tmp_path / "acme_sums.py")
    monkeypatch.setitem(sys.modules, "acme_sums", module)
    path = write(tmp_path / "rows.jsonl", rows(9))
    kinds = [type(name, (Sums,), {"name": name, "__module__": "acme_sums"}) for name in ("acme_with", "acme_without")]
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "acme_with.txt").write_text("Sum up: {question}")
    item = Item("1", "sums", "1 + 1?", "2", "")
    assert task(path, kinds[0]).open(item)[0]["content"] == "Sum up: 1 + 1?"
    with pytest.raises(ConfigError, match=r"no prompt .*prompts.acme_without\.txt; write one"):
        task(path, kinds[1]).open(item)


def test_training_rows_may_be_in_another_data_set(tmp_path: Path) -> None:
    """A split there is read from the source that the task names for it."""
    files = {
        "train": write(tmp_path / "others.jsonl", rows(4, start=100)),
        "test": write(tmp_path / "own.jsonl", rows(3)),
    }

    class Elsewhere(Parted):
        """Its training rows stand in a file of their own."""

        def source_of(self, there: str) -> Source:
            """One of two files."""
            return Source(self.name, self.repo, None, None, files[there])

    parted = task(tmp_path, Elsewhere)
    assert {item.split()[0] for item in (*ids(parted, "train"), *ids(parted, "val"))} == {"100", "101", "102", "103"}
    assert len(ids(parted, "test")) == 3
