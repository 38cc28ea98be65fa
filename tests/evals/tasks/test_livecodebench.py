"""LiveCodeBench: its hidden tests are unpacked without running anything, its releases and dates choose the items."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest

from evals.tasks import hidden_tests
from evals.tasks.hidden_tests import read_tests
from evals.tasks.livecodebench import LiveCodeBench
from tests.evals.tasks.rows import write
from tests.evals.tasks.rows_code import livecodebench, packed
from tests.sandboxes import TRUSTED
from trinity.errors import DataError
from trinity.types import Split

TESTS = [{"input": "1 2\n", "output": "ä\n", "testtype": "stdin"}]


def make(path: Path, **changed: Any) -> LiveCodeBench:
    """A task of all test items."""
    return LiveCodeBench(**{
        "data_seed": 0, "n_train": 0, "n_val": 0, "n_test": None, "path": path, "sandbox": TRUSTED,
        **changed,
    })  # fmt: skip


def shut(data: bytes) -> str:
    """Bytes as hidden tests are packed."""
    return base64.b64encode(zlib.compress(data)).decode()


class Payload:
    """Unpickled freely, it would make a file."""

    def __reduce__(self) -> Any:
        """What `pickle` would call."""
        return open, ("made-by-a-pickle", "w")


@pytest.mark.parametrize("text", [json.dumps(TESTS), packed(TESTS), shut(pickle.dumps(TESTS)), f"\n{packed(TESTS)}\n"])
def test_tests_come_as_json_or_packed(text: str) -> None:
    """JSON, a pickle of JSON and a pickle of lists and texts give the same."""
    assert read_tests(text) == TESTS


@pytest.mark.parametrize("protocol", range(6))
def test_every_protocol_is_read(protocol: int) -> None:
    """Whatever protocol packed them, tests are texts, lists and dictionaries."""
    assert read_tests(shut(pickle.dumps(TESTS, protocol))) == TESTS


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Payload()),
        pickle.dumps([{"input": Payload(), "output": ""}]),
        b"cos\nsystem\n(S'touch made-by-a-pickle'\ntR.",
        b"Pmade-by-a-pickle\n.",
        b"\x80\x04X\x01\x00\x00\x00ar\xff\xff\xff\x7f.",
        b"\x80\x04]\x94h\x05.",
        pickle.dumps(3),
        pickle.dumps(bytearray(b"[]")),
        pickle.dumps({"input": "1", "output": "2"}),
        pickle.dumps(json.dumps([{"input": 1, "output": "2"}])),
        pickle.dumps("[" * 100_000),
        pickle.dumps("no JSON"),
        b"",
        b".",
    ],
)
def test_a_pickle_of_anything_else_is_refused(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No class, function, number or outside object is built, and nothing is run."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"."):
        read_tests(shut(data))
    assert list(tmp_path.iterdir()) == []


def test_the_unpickler_itself_knows_nothing() -> None:
    """Also behind the check of what a pickle holds, no name and no outside object is looked up."""
    for data in (pickle.dumps(Payload()), b"Pmade\n."):
        with pytest.raises(pickle.UnpicklingError, match="the tests name"):
            hidden_tests._Unpickler(io.BytesIO(data)).load()


@pytest.mark.parametrize("text", ["[]", packed([]), "", "%%%", "AAAA", packed(TESTS)[:-8], "[1]", "{}", "[[[["])
def test_what_can_not_be_read_or_is_empty_is_refused(text: str) -> None:
    """Broken, cut off, or no tests at all."""
    with pytest.raises(ValueError, match=r"."):
        read_tests(text)


def test_a_bomb_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that unpack to more than the bound are refused before they fill the memory."""
    monkeypatch.setattr(hidden_tests, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        read_tests(shut(b"\0" * 10_000_000))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"private_test_cases": "broken"}, "its tests can not be read"),
        ({"private_test_cases": shut(pickle.dumps(Payload()))}, "its tests can not be read"),
        ({"private_test_cases": packed([]), "public_test_cases": "[]"}, "has no tests"),
        ({"private_test_cases": "", "public_test_cases": ""}, "has no tests"),
        ({"private_test_cases": packed([{"input": "1\n{", "output": "1"}])}, "its tests can not be read"),
    ],
)
def test_problems_without_readable_tests_are_counted(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    """They become no items, under a reason."""
    data = livecodebench(4)
    made = make(write(tmp_path / "rows.jsonl", [data[1] | change, *data[2:]]))
    assert len(list(made.items("test"))) == 2
    assert made.facts()["left_out"] == {"test": {reason: 1}}


def test_metadata_that_is_none_is_named(tmp_path: Path) -> None:
    """`metadata` that is no JSON object is a DataError with file and row."""
    with pytest.raises(DataError, match=r"row 1: metadata is '\[\]', not a JSON object"):
        list(make(write(tmp_path / "rows.jsonl", [livecodebench(1)[0] | {"metadata": "[]"}])).items("test"))


def test_releases_are_files(tmp_path: Path) -> None:
    """Training items come from what v1 added and test items from what v6 added, or from the releases named."""
    for number, name in enumerate(["test.jsonl", "test2.jsonl", "test6.jsonl"]):
        write(tmp_path / name, livecodebench(6, first=10 * number))
    made = make(tmp_path, n_train=2, n_val=2)

    def numbers(task: LiveCodeBench, split: Split) -> set[int]:
        return {int(item.meta["question_id"].removeprefix("own_")) for item in task.items(split)}

    assert numbers(made, "test") == set(range(20, 26))
    assert numbers(made, "train") | numbers(made, "val") < set(range(6))
    assert numbers(make(tmp_path, test_releases=["v1", "v2"]), "test") == {*range(6), *range(10, 16)}
    with pytest.raises(DataError, match=r"has no file test5\.jsonl"):
        numbers(make(tmp_path, test_releases=["v5"]), "test")


def test_dates_choose_test_items(tmp_path: Path) -> None:
    """Both ends are counted in, training items are of any date, and what is outside is counted."""
    path = write(tmp_path / "rows.jsonl", livecodebench(12))
    made = make(path, n_train=8, date_from="2025-02-01", date_to="2025-04-01")
    assert {item.meta["date"] for item in made.items("test")} == {f"2025-0{month}-01" for month in (2, 3, 4)}
    assert len(list(made.items("train"))) == 8
    assert made.facts()["left_out"] == {"test": {"outside of date_from and date_to": 9}}


def test_what_an_item_says(tmp_path: Path) -> None:
    """Platform, level and date are the contest's; a function is asked for with its starter code, a program without."""
    made = make(write(tmp_path / "rows.jsonl", livecodebench(6)))
    for item in made.items("test"):
        k = int(item.meta["question_id"].removeprefix("own_"))
        assert (item.domain, item.meta["function"]) == (("leetcode", "add") if k % 2 else ("atcoder", None))
        assert (item.difficulty, item.difficulty_kind) == (1.0 + k % 3, "human")
        assert ("class Solution" in item.prompt) == (k % 2 == 1)
        assert ("standard input" in item.prompt) == (k % 2 == 0)
        assert len(item.meta["tests"]) == 64


def test_long_rows_are_read(tmp_path: Path) -> None:
    """Hidden tests of more than ten million characters are nothing unusual here."""
    row = livecodebench(1)[0] | {"private_test_cases": json.dumps([{"input": "1" * 11_000_000, "output": "2"}])}
    made = make(write(tmp_path / "rows.jsonl", [row]))
    (item,) = made.items("test")
    assert len(made.heavy_columns(item.meta["tests"])[1]) > 11_000_000
