"""Records as JSON, as `records.parquet`, as batches of columns, and in the form in which two runs are compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trinity.errors import LedgerError
from trinity.runs.files import replacing
from trinity.types import Record, Replicate

_T = TypeVar("_T")

COLUMNS = tuple(field.name for field in fields(Record))
"""The columns of `records.parquet`, in order."""

NOT_COMPARED = frozenset({"run_id", "latency_s"})
"""What may differ between two equal runs."""

ROWS_PER_GROUP = 8192

_COUNTS = (
    "n_turns",
    "n_calls",
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "encoder_tokens",
    "weighted_tokens",
)
_NUMBERS = ("difficulty", "score", "raw_score", "cost_usd", "gflop", "latency_s")
_FLAGS = ("capped", "usage_estimated")

Columns = Mapping[str, NDArray[Any]]
"""A batch of records by column: arrays of one length, shape (n,).

Numbers that may be unknown are float64, NaN where they are; other numbers int64; flags bool; texts are an array of
objects, str or None, with lone surrogates escaped. `replicate` is two columns, `call_ids` none. Do not write to them.
"""

_TYPES: Mapping[str, type[Any]] = {
    **dict.fromkeys(("replicate_index", "seed", *_COUNTS), np.int64),
    **dict.fromkeys(_NUMBERS, np.float64),
    **dict.fromkeys(_FLAGS, np.bool_),
}
"""The arrays that hold no texts."""

_MAY_BE_UNKNOWN = frozenset({"difficulty", "difficulty_kind", "score", "raw_score", "answer", "cost_usd", "gflop"})

_REPLICATE = {"replicate_phase": "phase", "replicate_index": "index"}
BATCH_COLUMNS = (*(name for name in COLUMNS if name not in {"replicate", "call_ids"}), *_REPLICATE)
"""The columns that a batch can have."""


def record_to_json(record: Record) -> dict[str, Any]:
    """`record` as JSON values by column; `replicate` is an object, `call_ids` a list."""
    row = {name: getattr(record, name) for name in COLUMNS}
    row["replicate"] = record.replicate._asdict()
    row["call_ids"] = list(record.call_ids)
    return row


def record_from_json(row: Mapping[str, Any]) -> Record:
    """The inverse of `record_to_json`.

    Raises:
        TypeError: a column is missing or unknown.
        KeyError: as TypeError.
    """
    replicate = Replicate(row["replicate"]["phase"], row["replicate"]["index"])
    return Record(**{**row, "replicate": replicate, "call_ids": tuple(row["call_ids"])})


def comparable(record: Record) -> dict[str, Any]:
    """What must be equal between two runs of the same thing, as canonical JSON values: all but run id and latency.

    Lone surrogates are escaped as in the parquet file, so that a record from there equals the one from the ledger.
    """
    return {name: value for name, value in _printable(record).items() if name not in NOT_COMPARED}


def write_records(path: Path, records: Iterable[Record], *, private: bool = False) -> None:
    """Write `records` as parquet in one step; they are streamed, so memory stays flat. Page checksums are on.

    UTF-8 has no form for lone surrogates; they are written as backslash escapes. With `private` nobody but the owner
    may read the file.

    Raises:
        LedgerError: it could not be written; an older file is as before.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema()
    rows = map(_printable, records)
    with replacing(path) as temporary:
        temporary.touch(mode=0o600 if private else 0o666)
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            while group := list(islice(rows, ROWS_PER_GROUP)):
                writer.write_table(pa.Table.from_pylist(group, schema=schema))


def read_records(path: Path) -> Iterator[Record]:
    """Records of a parquet file in its order, streamed; the file is checked before this returns.

    Raises:
        LedgerError: the file is missing, damaged (also while it is read) or has other columns.
    """
    return chain.from_iterable(_read(path, _opened(path), COLUMNS, _records))


def read_columns(path: Path, names: Collection[str]) -> Iterator[Columns]:
    """The columns `names` of a parquet file in batches, in its order, and no others; checked like `read_records`.

    Args:
        path: of a file that `write_records` wrote.
        names: one or more of `BATCH_COLUMNS`.

    Raises:
        LedgerError: the file is missing, damaged (also while it is read) or has other columns.
        ValueError: there is no such column.
    """
    _check_names(names)
    stored = sorted({"replicate" if name in _REPLICATE else name for name in names})
    return _read(path, _opened(path), stored, lambda batch: {name: _column(batch, name) for name in names})


def columns_of(records: Iterable[Record], names: Collection[str]) -> Iterator[Columns]:
    """The columns `names` of `records` in batches, as `read_columns` gives them for a file of these records.

    Raises:
        ValueError: there is no such column.
    """
    _check_names(names)
    getters = {name: attrgetter(name.replace("_", ".", 1) if name in _REPLICATE else name) for name in names}
    rows = iter(records)
    groups = iter(lambda: list(islice(rows, ROWS_PER_GROUP)), [])
    return ({name: _array(name, list(map(get, group))) for name, get in getters.items()} for group in groups)


def _check_names(names: Collection[str]) -> None:
    if unknown := sorted(set(names) - set(BATCH_COLUMNS)):
        raise ValueError(f"no column {', '.join(unknown)}; choose from: {', '.join(BATCH_COLUMNS)}")


def _array(name: str, values: Sequence[Any]) -> NDArray[Any]:
    if name in _TYPES:
        return np.array(values, dtype=_TYPES[name])
    return np.array([None if value is None else _escaped(value) for value in values], dtype=object)


def _opened(path: Path) -> Any:
    """The parquet file, open, once its end is whole and its columns are known."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        known = file.schema_arrow.equals(_schema())
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    if not known:
        file.close()
        raise LedgerError(f"{path} has other columns than the records of this version")
    return file


def _records(batch: Any) -> list[Record]:
    return list(map(record_from_json, batch.to_pylist()))


def _read(path: Path, file: Any, stored: Sequence[str], convert: Callable[[Any], _T]) -> Iterator[_T]:
    """What `convert` makes of each of Arrow's batches of an open parquet file, which is closed after them."""
    import pyarrow as pa

    try:
        with file:
            missing = file.metadata.num_rows
            for batch in file.iter_batches(batch_size=ROWS_PER_GROUP, columns=stored):
                missing -= batch.num_rows
                yield convert(batch)
    except (OSError, ValueError, TypeError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    if missing:  # pyarrow takes some damaged page headers for the end of the data
        raise LedgerError(f"{path} is damaged: {missing} of its rows are missing")


def _column(batch: Any, name: str) -> NDArray[Any]:
    """One column of a batch; a text that occurs more than once there is one object."""
    part = _REPLICATE.get(name)
    column = batch.column("replicate").field(part) if part else batch.column(name)
    if column.null_count and name not in _MAY_BE_UNKNOWN:
        raise ValueError(f"{column.null_count} rows have no {name}")
    if name in _TYPES:
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=_TYPES[name])
    texts = column.dictionary_encode()
    known = np.array([*texts.dictionary.to_pylist(), None], dtype=object)
    values: NDArray[Any] = known[texts.indices.fill_null(-1).to_numpy()]
    return values


def _unreadable(path: Path, error: Exception) -> LedgerError:
    if isinstance(error, FileNotFoundError):
        return LedgerError(f"{path} does not exist")
    return LedgerError(f"{path} is damaged or no parquet file: {error}")


def _printable(record: Record) -> dict[str, Any]:
    """The JSON form with every text in valid Unicode."""
    row = record_to_json(record)
    return {name: _escaped(value) if isinstance(value, str) else value for name, value in row.items()}


def _escaped(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _schema() -> Any:
    import pyarrow as pa

    types = {
        "replicate": pa.struct([("phase", pa.string()), ("index", pa.int32())]),
        "call_ids": pa.list_(pa.string()),
        **dict.fromkeys(("seed", *_COUNTS), pa.int64()),
        **dict.fromkeys(_NUMBERS, pa.float64()),
        **dict.fromkeys(_FLAGS, pa.bool_()),
    }
    return pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])
