"""Records as JSON, as `records.parquet`, and in the form in which two runs are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

from trinity.errors import LedgerError
from trinity.runs.files import replacing
from trinity.types import Record, Replicate

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


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write `records` as parquet in one step; they are streamed, so memory stays flat. Page checksums are on.

    UTF-8 has no form for lone surrogates; they are written as backslash escapes.

    Raises:
        LedgerError: it could not be written; an older file is as before.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema()
    rows = map(_printable, records)
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        while group := list(islice(rows, ROWS_PER_GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))


def read_records(path: Path) -> Iterator[Record]:
    """Records of a parquet file in its order, streamed; the file is checked before this returns.

    Raises:
        LedgerError: the file is missing, damaged (also while it is read) or has other columns.
    """
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
    return _rows(path, file)


def _rows(path: Path, file: Any) -> Iterator[Record]:
    """Records of an open parquet file."""
    import pyarrow as pa

    try:
        with file:
            missing = file.metadata.num_rows
            for batch in file.iter_batches(batch_size=ROWS_PER_GROUP):
                missing -= batch.num_rows
                yield from map(record_from_json, batch.to_pylist())
    except (OSError, ValueError, TypeError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    if missing:  # pyarrow takes some damaged page headers for the end of the data
        raise LedgerError(f"{path} is damaged: {missing} of its rows are missing")


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
    """The pyarrow schema: one field a column."""
    import pyarrow as pa

    types = {
        "replicate": pa.struct([("phase", pa.string()), ("index", pa.int32())]),
        "call_ids": pa.list_(pa.string()),
        **dict.fromkeys(("seed", *_COUNTS), pa.int64()),
        **dict.fromkeys(_NUMBERS, pa.float64()),
        **dict.fromkeys(_FLAGS, pa.bool_()),
    }
    return pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])
