"""Records survive JSON and parquet, and damage to the file is found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trinity.canonical import canonical_json
from trinity.errors import LedgerError
from trinity.runs import records
from trinity.runs.records import (
    BATCH_COLUMNS,
    ROWS_PER_GROUP,
    Columns,
    columns_of,
    comparable,
    read_columns,
    read_records,
    record_from_json,
    record_to_json,
    write_records,
)
from trinity.types import Record, Replicate, Status, Usage

MakeRecord = Callable[..., Record]
ANY_TEXT = st.text(st.characters(exclude_categories=()))
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = (
    "run_id, experiment, method, variant, backbone, pool, pool_kind, task, split, item_id, domain, difficulty, "
    "difficulty_kind, replicate, seed, status, score, raw_score, capped, answer, n_turns, n_calls, input_tokens, "
    "output_tokens, reasoning_tokens, cached_tokens, encoder_tokens, usage_estimated, weighted_tokens, cost_usd, "
    "gflop, latency_s, call_ids"
)


def names(folder: Path) -> list[str]:
    """What is in the folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


CHANGES = st.lists(
    st.fixed_dictionaries(
        {
            "answer": st.none() | ANY_TEXT,
            "item_id": ANY_TEXT,
            "difficulty": NUMBERS,
            "cost_usd": NUMBERS,
            "replicate": st.builds(
                Replicate, st.sampled_from(["train", "val", "reeval", "test"]), st.integers(0, 2**31 - 1)
            ),
            "seed": st.integers(-(2**63), 2**63 - 1),
            "status": st.sampled_from(["correct", "wrong", "error"]),
            "capped": st.booleans(),
            "call_ids": st.lists(st.text("0123456789abcdef", min_size=16, max_size=16)).map(tuple),
        }
    ),
    max_size=5,
)


@settings(deadline=None, max_examples=50)
@given(CHANGES)
def test_records_survive_json_and_parquet(
    tmp_path_factory: pytest.TempPathFactory, make_record: MakeRecord, changes: list[dict[str, object]]
) -> None:
    """JSON gives equal records; parquet gives records that compare equal, in the same order."""
    rows = [make_record(**change) for change in changes]
    assert [record_from_json(record_to_json(row)) for row in rows] == rows
    path = tmp_path_factory.mktemp("records") / "records.parquet"
    write_records(path, rows)
    again = list(read_records(path))
    assert [comparable(row) for row in again] == [comparable(row) for row in rows]
    plain = [row for row in rows if is_utf8(f"{row.answer}{row.item_id}")]
    assert [row for row in again if row in plain] == plain


def is_utf8(text: str) -> bool:
    """Whether parquet can hold the text as it is."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def test_columns_are_those_of_the_contract(tmp_path: Path, make_record: MakeRecord) -> None:
    """The file has the published columns in the published order, with nested replicate and a list of calls."""
    import pyarrow.parquet as pq

    path = tmp_path / "records.parquet"
    write_records(path, [make_record()])
    schema = pq.read_schema(path)
    assert ", ".join(schema.names) == COLUMNS
    assert str(schema.field("replicate").type) == "struct<phase: string, index: int32>"
    assert str(schema.field("call_ids").type) in ("list<element: string>", "list<item: string>")
    counts = {field.name for field in fields(Usage)} - {"estimated"}
    assert {str(schema.field(name).type) for name in counts} == {"int64"}


def test_every_status_has_a_row(tmp_path: Path, make_record: MakeRecord) -> None:
    """Rows without score, cost or answer are written as missing, not as zero or text."""
    statuses: list[Status] = ["error", "over_budget"]
    rows = [make_record(status=status, score=None, raw_score=None, answer=None, gflop=None) for status in statuses]
    write_records(tmp_path / "r.parquet", rows)
    assert list(read_records(tmp_path / "r.parquet")) == rows


def test_comparison_leaves_out_run_and_latency_only(make_record: MakeRecord) -> None:
    """Two runs of one thing compare equal; any other column makes them differ; the form is canonical JSON."""
    base = comparable(make_record())
    assert comparable(make_record(run_id="other", latency_s=99.0)) == base
    assert comparable(make_record(seed=1)) != base
    assert comparable(make_record(call_ids=())) != base
    assert set(COLUMNS.split(", ")) - set(base) == {"run_id", "latency_s"}
    assert '"replicate":{"index":0,"phase":"test"}' in canonical_json(base)


def test_many_records_are_streamed(tmp_path: Path, make_record: MakeRecord) -> None:
    """Writing takes at most one row group ahead of the disk, reading gives the first row before the last is read."""
    path = tmp_path / "records.parquet"
    total = 3 * ROWS_PER_GROUP + 5
    taken: list[int] = []

    def rows() -> Iterator[Record]:
        for number in range(total):
            if number % ROWS_PER_GROUP == 0:
                taken.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
            yield make_record(item_id=str(number))

    write_records(path, rows())
    assert taken == sorted(set(taken))
    assert [row.item_id for row in read_records(path)] == [str(number) for number in range(total)]


def test_failing_source_keeps_the_old_file(tmp_path: Path, make_record: MakeRecord) -> None:
    """When the records cannot be read on, the file of before stays and no half-written one."""
    path = tmp_path / "records.parquet"
    write_records(path, [make_record()])

    def broken() -> Iterator[Record]:
        yield make_record()
        raise LedgerError("the ledger is damaged")

    with pytest.raises(LedgerError, match="the ledger is damaged"):
        write_records(path, broken())
    assert list(read_records(path)) == [make_record()]
    assert names(tmp_path) == ["records.parquet"]


@pytest.mark.usefixtures("small_files")
def test_refused_write_keeps_the_old_file(tmp_path: Path, make_record: MakeRecord) -> None:
    """Where the system refuses the write, the file of before stays and the error names it."""
    path = tmp_path / "records.parquet"
    write_records(path, [make_record()])
    rows = (make_record(answer=os.urandom(500).hex()) for _ in range(1000))
    with pytest.raises(LedgerError, match=r"cannot write .*records\.parquet"):
        write_records(path, rows)
    assert list(read_records(path)) == [make_record()]
    assert names(tmp_path) == ["records.parquet"]


@pytest.mark.parametrize("read", [read_records, lambda path: read_columns(path, ["run_id"])])
def test_missing_and_foreign_files_are_named(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """A file that is missing, no parquet or of other columns is refused before the first row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(LedgerError, match=r"none\.parquet does not exist"):
        read(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("run_id\n")
    with pytest.raises(LedgerError, match=r"text\.parquet is damaged or no parquet file"):
        read(tmp_path / "text.parquet")
    pq.write_table(pa.table({"run_id": ["r"]}), tmp_path / "other.parquet")
    with pytest.raises(LedgerError, match=r"other\.parquet has other columns"):
        read(tmp_path / "other.parquet")


def test_damaged_file_never_gives_other_records(tmp_path: Path, make_record: MakeRecord) -> None:
    """Cut short or with a byte flipped, a file gives the records as they were or a `LedgerError`."""
    path = tmp_path / "records.parquet"
    rows = [make_record(item_id=str(number), answer=f"answer {number}") for number in range(5)]
    write_records(path, rows)
    good = path.read_bytes()
    for place in range(0, len(good), 61):
        flipped = good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :]
        for content in (good[:place], flipped):
            path.write_bytes(content)
            assert read_or_none(path) in (None, rows)
            columns = columns_or_none(path)
            assert columns is None or columns == plain(columns_of(rows, BATCH_COLUMNS))


def test_rows_that_the_reader_drops_are_missed(
    tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When pyarrow ends early without an error, as it does at some damaged pages, the file is called damaged."""
    import pyarrow.parquet as pq

    path = tmp_path / "records.parquet"
    write_records(path, [make_record()] * 3)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: iter(()))
    for read in (read_records(path), read_columns(path, ["seed"])):
        with pytest.raises(LedgerError, match=r"records\.parquet is damaged: 3 of its rows are missing"):
            list(read)


@settings(deadline=None, max_examples=50)
@given(CHANGES)
def test_columns_are_those_of_the_records(
    tmp_path_factory: pytest.TempPathFactory, make_record: MakeRecord, changes: list[dict[str, object]]
) -> None:
    """Columns of records and of their file are equal, value by value those of the records in printable form."""
    rows = [make_record(**change) for change in changes]
    path = tmp_path_factory.mktemp("records") / "records.parquet"
    write_records(path, rows)
    found = plain(columns_of(rows, BATCH_COLUMNS))
    assert plain(read_columns(path, BATCH_COLUMNS)) == found
    again = list(read_records(path))
    for name, values in found.items():
        part = name.removeprefix("replicate_")
        assert values == [getattr(row if part == name else row.replicate, part) for row in again]


def test_columns_have_types(tmp_path: Path, make_record: MakeRecord) -> None:
    """Known numbers are int64, others float64 with NaN for unknown, flags bool, texts objects with None."""
    path = tmp_path / "records.parquet"
    rows = [make_record(cost_usd=None, difficulty_kind=None), make_record(cost_usd=0.5)]
    write_records(path, rows)
    names = ("replicate_index", "seed", "n_calls", "cost_usd", "latency_s", "capped", "difficulty_kind", "method")
    for source in (read_columns(path, names), columns_of(rows, names)):
        (batch,) = source
        assert tuple(batch) == names
        types = " ".join(str(column.dtype) for column in batch.values())
        assert types == "int64 int64 int64 float64 float64 bool object object"
        assert str(batch["cost_usd"]) == "[nan 0.5]"
        assert batch["difficulty_kind"].tolist() == [None, "constructed"]


def test_columns_come_in_batches(tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch holds more than a row group, the first comes before all records are taken, none is lost."""
    monkeypatch.setattr(records, "ROWS_PER_GROUP", 10)
    path = tmp_path / "records.parquet"
    write_records(path, (make_record(seed=number) for number in range(25)))
    assert [batch["seed"].tolist() for batch in read_columns(path, ["seed"])] == [
        [*range(10)], [*range(10, 20)], [*range(20, 25)],
    ]  # fmt: skip
    source = (make_record(seed=number) for number in range(25))
    assert next(columns_of(source, ["seed"]))["seed"].tolist() == [*range(10)]
    assert next(source).seed == 10


def test_other_columns_are_not_read(tmp_path: Path, make_record: MakeRecord) -> None:
    """A page that is damaged in one column does not keep another from being read, and is found where it is."""
    import pyarrow.parquet as pq

    path = tmp_path / "records.parquet"
    write_records(path, [make_record(answer=f"answer {number}") for number in range(50)])
    group = pq.read_metadata(path).row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    start, size = columns["answer"].dictionary_page_offset, columns["answer"].total_compressed_size
    content = bytearray(path.read_bytes())
    content[start + size // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    assert plain(read_columns(path, ["seed"])) == {"seed": [0] * 50}
    with pytest.raises(LedgerError, match="is damaged"):
        list(read_columns(path, ["answer"]))


def test_unknown_columns_are_named() -> None:
    """A column that no batch has is refused before anything is read, with those there are."""
    for name in ("scores", "replicate", "call_ids"):
        with pytest.raises(ValueError, match=f"no column {name}; choose from: run_id, .*replicate_index"):
            columns_of([], ["seed", name])


@pytest.mark.parametrize(
    ("name", "values"), [("n_calls", [1, None]), ("method", ["m", None]), ("capped", [True, None])]
)
def test_what_must_be_known_is_missed(tmp_path: Path, make_record: MakeRecord, name: str, values: list[object]) -> None:
    """A file with gaps where every record has a value is damaged, not read with zeros."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "records.parquet"
    write_records(path, [make_record()] * 2)
    table = pq.read_table(path)
    place = table.schema.get_field_index(name)
    pq.write_table(table.set_column(place, name, pa.array(values, table.schema.field(name).type)), path)
    with pytest.raises(LedgerError, match=f"is damaged .*1 rows have no {name}"):
        list(read_columns(path, [name]))


def plain(batches: Iterable[Columns]) -> dict[str, list[object]]:
    """All values by column; an unknown number is None."""
    found: dict[str, list[object]] = {}
    for batch in batches:
        for name, column in batch.items():
            values = [None if value != value else value for value in column.tolist()]  # noqa: PLR0124 - NaN
            found.setdefault(name, []).extend(values)
    return found


def columns_or_none(path: Path) -> dict[str, list[object]] | None:
    """The columns of a file that may be damaged."""
    try:
        return plain(read_columns(path, BATCH_COLUMNS))
    except LedgerError:
        return None


def read_or_none(path: Path) -> list[Record] | None:
    """The records of a file that may be damaged."""
    try:
        return list(read_records(path))
    except LedgerError:
        return None


@pytest.mark.parametrize(("private", "others"), [(True, 0), (False, 0o044)])
def test_private_records(make_record: MakeRecord, tmp_path: Path, others: int, *, private: bool) -> None:
    """Records that hold restricted answers are for their owner's eyes alone."""
    before = os.umask(0o022)
    try:
        write_records(tmp_path / "records.parquet", [make_record()], private=private)
    finally:
        os.umask(before)
    assert (tmp_path / "records.parquet").stat().st_mode & 0o077 == others
