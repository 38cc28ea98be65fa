"""Reads the rows of a benchmark, from the Hugging Face hub or from a local copy, the same way for both."""

from __future__ import annotations

import csv
import gzip
import json
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from trinity.canonical import sha256
from trinity.errors import ConfigError, DataError, TrinityError

T = TypeVar("T")

Wanted = Callable[[Sequence[str]], list[str]]
"""Which of the columns found are to be read."""

Reader = Callable[[Path, Wanted, int], Iterator[dict[str, Any]]]
"""Rows of a file, of which none has more characters than the number says."""

_SHOWN_COLUMNS = 30
_SHOWN_ERROR = 200
_MAX_ROW = 10_000_000
"""Characters of a row; a compressed file of a few kilobytes can hold a line that fills the memory."""
_MAX_LIST = 200_000_000
"""Characters of a JSON list, which is read as a whole."""
_MAX_GROUP = 2**32
"""Bytes of a row group of a parquet file, unpacked."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `origin` and `index` (from 1) say in errors where it stands."""

    values: Mapping[str, Any]
    origin: str
    index: int

    def text(self, column: str, default: str | None = None) -> str:
        """The text of a column without white space at its ends; a number as text (27.0 as `27`).

        Raises:
            DataError: there is none, and no `default` for that.
        """
        value = self.values.get(column)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        text = str(value).strip() if _is_scalar(value) else ""
        if text or default is not None:
            return text or str(default)
        raise self.wrong(column, "a text")

    def number(self, column: str) -> float:
        """The finite number of a column; a text that spells one, as in a CSV file, is one.

        Raises:
            DataError: it holds no finite number.
        """
        value: Any = self.values.get(column)
        try:
            number = float(value) if _is_scalar(value) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise self.wrong(column, "a number")
        return number

    def words(self, column: str) -> tuple[str, ...]:
        """The words of a column that holds a list of them or a text that white space parts."""
        value = self.values.get(column)
        return tuple(map(str, value)) if isinstance(value, list) else tuple(self.text(column, "").split())

    def made(self, make: Callable[[Row], T]) -> T:
        """What `make` makes of the row.

        Raises:
            TrinityError: as `make` raises it; whatever else it raises is a `DataError` that names the place, since a
                row may hold anything.
        """
        try:
            return make(self)
        except TrinityError:
            raise
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise self.error(f"can not be read: {_brief(error)}") from error

    def wrong(self, column: str, wanted: str) -> DataError:
        """An error that names the place, what is there and what should be."""
        value = repr(self.values.get(column))[:60]
        return self.error(f"{column} is {value}, not {wanted}")

    def error(self, what: object) -> DataError:
        """An error that names the place."""
        place = f"{self.origin}: row {self.index}: "
        return DataError(place + str(what).removeprefix(place))


def _each(config: str | tuple[str, ...] | None) -> tuple[str | None, ...]:
    return config if isinstance(config, tuple) else (config,)


def _builder(file: str) -> str:
    """The builder of `datasets` that reads a file of this name."""
    suffix = Path(file.removesuffix(".gz")).suffix.lstrip(".")
    return {"jsonl": "json"}.get(suffix, suffix)


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of a task are.

    Attributes:
        task: name of the task, for what errors say to set.
        repo: `owner/name` on the hub; a URL where the rows are on no hub and only `path` can be read.
        config: configuration of the data set there; several are read one after another.
        revision: commit, tag or branch there; None = the newest.
        path: a local copy instead: a file of rows (`.jsonl`, `.json`, `.csv`, each also `.gz`, or `.parquet`), which
            is then every split, or a folder with a file per split (`eval.jsonl`, `eval-00000-of-00001.parquet`).
        files: split -> paths in the hub's repository of its files, read in their order, for a data set whose own
            loading code is not run or does not tell its splits apart. In a local folder they stand at these paths, or
            directly in it.
        max_row: characters that a row may have; None = 10 million. A source that allows more is read in small batches.
    """

    task: str
    repo: str
    config: str | tuple[str, ...] | None = None
    revision: str | None = None
    path: str | Path | None = None
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    max_row: int | None = None

    def __post_init__(self) -> None:
        """Refuse an empty path, which would be the current folder.

        Raises:
            ConfigError: `path` is empty.
        """
        if self.path is not None and not str(self.path).strip():
            raise ConfigError(f"tasks.{self.task}.path is empty; give a file or a folder, or null to read from the hub")

    def rows(self, split: str, columns: Collection[str], optional: Collection[str] = ()) -> Iterator[Row]:
        """The rows of a split in their order there, streamed; of their columns only those named.

        Raises:
            DataError: nothing is there, it can not be read, or it lacks one of `columns`; says what to set.
        """
        wanted = partial(_wanted, columns, optional)
        parts = self._hub(split, wanted) if self.path is None else self._local(split, wanted)
        empty = True
        for origin, rows in parts:
            for index, values in enumerate(rows, start=1):
                _check_columns(origin, index, columns, values)
                empty = False
                yield Row(values, origin, index)
        if empty:
            raise DataError(f"{self._name(split)} holds no rows; {self._remedy()}")

    def _hub(self, split: str, wanted: Wanted) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
        """The hub's split, kept by `datasets` in its cache and read from there row by row."""
        name = self._name(split)
        if "://" in self.repo:
            raise DataError(f"task {self.task}: its rows are on no hub; {self._remedy()}")
        for part in self.files.get(split) or _each(self.config):
            yield name, _guarded(name, self._hub_rows(name, split, part, wanted), self._remedy())

    def _hub_rows(self, name: str, split: str, part: str | None, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Rows of one configuration, or of one file where `files` names them."""
        try:
            import datasets
        except ImportError as error:
            raise DataError(f"{name}: datasets is not installed; pip install datasets, or {self._remedy()}") from error
        with _quiet(datasets):
            if part is not None and part in self.files.get(split, ()):
                url = f"hf://datasets/{self.repo}@{self.revision or 'main'}/{part}"
                rows = datasets.load_dataset(_builder(part), data_files=url, split="train")
            else:
                rows = datasets.load_dataset(self.repo, part, split=split, revision=self.revision)
        # As Arrow tables: an order of magnitude faster than row by row, which tells where there are millions.
        read = rows.select_columns(wanted(rows.column_names)).with_format("arrow")
        for table in read.iter(batch_size=1000 if self.max_row is None else 10):
            yield from table.to_pylist()

    def _local(self, split: str, wanted: Wanted) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
        for file in self._files(split):
            reader = _reader(file)
            if reader is None:
                raise DataError(f"{file}: is no .jsonl, .json, .csv or .parquet file; {self._remedy()}")
            yield str(file), _guarded(str(file), reader(file, wanted, self.max_row or _MAX_ROW), self._remedy())

    def _files(self, split: str) -> list[Path]:
        try:
            path = Path(str(self.path)).expanduser()
            if path.is_dir():
                return self._split_files(path, split)
            regular, there = path.is_file(), path.exists()
        except (OSError, RuntimeError) as error:
            raise DataError(f"{self._name(split)}: can not be read: {_brief(error)}; {self._remedy()}") from error
        if not regular:
            wrong = "is no regular file or folder" if there else "there is no such file or folder"
            raise DataError(f"{self._name(split)}: {wrong}; {self._remedy()}")
        return [path]

    def _split_files(self, folder: Path, split: str) -> list[Path]:
        if split in self.files:
            return [self._named_file(folder, file) for file in self.files[split]]
        found = sorted(file for file in folder.iterdir() if _reader(file) and file.is_file())
        files = [file for file in found if file.name.startswith((f"{split}.", f"{split}-"))]
        if not files:
            names = ", ".join(file.name for file in found[:_SHOWN_COLUMNS]) or "nothing to read"
            raise DataError(
                f"{folder}: has no file of the split {split} ({split}.jsonl, {split}-*.parquet, ...); found: {names}; "
                f"{self._remedy()}"
            )
        return files

    def _named_file(self, folder: Path, file: str) -> Path:
        places = (folder / file, folder / Path(file).name)
        if found := [place for place in places if place.is_file()]:
            return found[0]
        raise DataError(f"{folder}: has no file {file}; {self._remedy()}")

    def _name(self, split: str) -> str:
        if self.path is not None:
            return str(self.path)[:_SHOWN_ERROR]
        config = self.config if isinstance(self.config, str) else None
        parts = (self.repo, config, f"split {split}", self.revision and f"revision {self.revision}")
        return f"hub data set {', '.join(part for part in parts if part)}"

    def _remedy(self) -> str:
        if self.path is not None:
            return f"tasks.{self.task}.path names the file or folder that is read (docs/tasks.md)"
        return f"set tasks.{self.task}.path=FILE to read a copy of {self.repo} (docs/tasks.md)"


def shuffled(
    rows: Iterator[Row],
    seed: str,
    identity: Callable[[Row], str],
    limit: int | None = None,
    keep: Callable[[Row], Row] = lambda row: row,
) -> list[Row]:
    """Rows in the order that `seed` gives them, each identity once, at most the first `limit`.

    A row's place depends on seed and identity alone: the order is the same on every machine and for rows that come in
    any order. Memory: about twice `limit` rows as `keep` makes them, however many come.
    """
    kept: dict[str, Row] = {}
    last: str | None = None
    for row in rows:
        place = sha256(f"{seed}/{identity(row)}")
        if last is not None and place > last:
            continue
        one, other = keep(row), kept.get(place)
        kept[place] = one if other is None else min(one, other, key=_content)
        if limit is not None and len(kept) > 2 * limit + 1000:
            kept = dict(sorted(kept.items())[:limit])
            last = max(kept, default="")
    return [row for _, row in sorted(kept.items())[:limit]]


def _content(row: Row) -> str:
    return repr(sorted(row.values.items()))


def _wanted(columns: Collection[str], optional: Collection[str], found: Sequence[str]) -> list[str]:
    """Which of the columns found are read; all where one is missing, for the error that names them."""
    complete = all(column in found for column in columns)
    return [column for column in found if not complete or column in columns or column in optional]


def _check_columns(origin: str, index: int, columns: Collection[str], found: Mapping[str, Any]) -> None:
    if missing := [column for column in columns if column not in found]:
        names = ", ".join(map(str, list(found)[:_SHOWN_COLUMNS])) or "none"
        raise DataError(
            f"{origin}: row {index} has no column {', '.join(missing)}; expected {', '.join(columns)}, found {names}"
        )


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Without the bars and warnings of the hub's libraries: what matters is in the error that they raise."""
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    datasets.disable_progress_bars()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _guarded(origin: str, rows: Iterator[dict[str, Any]], remedy: str) -> Iterator[dict[str, Any]]:
    """The rows; whatever goes wrong in reading them is a `DataError`."""
    try:
        yield from rows
    except TrinityError:
        raise
    except Exception as error:
        gated = " (gated: accept its terms on its page and set HF_TOKEN)" if "gated" in str(error) else ""
        raise DataError(f"{origin}: can not be read{gated}: {_brief(error)}; {remedy}") from error


def _reader(file: Path) -> Reader | None:
    name = file.name.lower()
    return _READERS.get(Path(name.removesuffix(".gz")).suffix) if not name.endswith(".parquet.gz") else None


class _Lines:
    """The lines of a file, none longer than a row may be, and no more of them to a row than it may hold."""

    def __init__(self, file: Path, stream: IO[str], most: int) -> None:
        self.file, self.stream, self.most = file, stream, most
        self.number = 0
        self.left = most

    def __iter__(self) -> Iterator[str]:
        while line := self.stream.readline(self.left + 1):
            self.number += 1
            self.left -= len(line)
            if self.left < 0:
                raise DataError(
                    f"{self.file}:{self.number}: a row of more than {self.most:,} characters is not read; shorten it"
                )
            yield line

    def next_row(self) -> None:
        """What is read from here on belongs to the next row."""
        self.left = self.most


def _json_rows(file: Path, _: Wanted, most: int) -> Iterator[dict[str, Any]]:
    """A list of objects, or one object a line, whatever the file is called: the hub's names do not tell either."""
    with _opened(file) as stream:
        first = _first_char(stream)
        stream.seek(0)
        yield from _listed(file, stream) if first == "[" else _json_lines(_Lines(file, stream, most))


def _first_char(stream: IO[str]) -> str:
    """The first character that is no white space, if it stands where a row may begin."""
    return next((char for _ in range(_MAX_ROW) if not (char := stream.read(1)).isspace()), "")


def _listed(file: Path, stream: IO[str]) -> Iterator[dict[str, Any]]:
    text = stream.read(_MAX_LIST + 1)
    if len(text) > _MAX_LIST:
        raise DataError(f"{file}: a list of more than {_MAX_LIST:,} characters is not read; write one object a line")
    for index, row in enumerate(json.loads(text), start=1):
        yield _object(f"{file}: row {index}", row)


def _json_lines(lines: _Lines) -> Iterator[dict[str, Any]]:
    for line in lines:
        lines.next_row()
        if line.strip():
            where = f"{lines.file}:{lines.number}"
            yield _object(where, _parsed(where, line))


def _parsed(where: str, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{where}: no JSON ({line_fault(error)}); expected is a list of objects or one object a line"
        ) from error


def line_fault(error: Exception) -> str:
    """What is wrong with a line that is no JSON; the decoder itself would count lines from 1 within it."""
    return f"{error.msg}, character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else _brief(error)


def _object(where: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError(f"{where}: is no JSON object with the columns as its keys")
    return row


def _csv_rows(file: Path, _: Wanted, most: int) -> Iterator[dict[str, Any]]:
    with _opened(file) as stream:
        lines = _Lines(file, stream, most)
        for row in csv.DictReader(iter(lines), restkey="(beyond the header)"):
            lines.next_row()
            yield row


def _parquet_rows(file: Path, wanted: Wanted, _: int) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet

    with parquet.ParquetFile(file) as table:
        for index in range(table.num_row_groups):
            if (size := table.metadata.row_group(index).total_byte_size) > _MAX_GROUP:
                raise DataError(f"{file}: row group {index} has {size:,} bytes; more than {_MAX_GROUP:,} are not read")
        for batch in table.iter_batches(columns=wanted(table.schema_arrow.names)):
            yield from batch.to_pylist()


def _opened(file: Path) -> IO[str]:
    if file.name.lower().endswith(".gz"):
        return gzip.open(file, "rt", encoding="utf-8-sig", newline="")
    return file.open(encoding="utf-8-sig", newline="")


def _brief(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    return ": ".join(part for part in (type(error).__name__, text) if part)[:_SHOWN_ERROR]


_READERS = {".jsonl": _json_rows, ".json": _json_rows, ".csv": _csv_rows, ".parquet": _parquet_rows}
