"""What W&B gets of a finished run: summary values, tables, figures and artifacts, without restricted texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trinity.runs.files import replacing
from trinity.runs.ledger import Ledger
from trinity.runs.records import record_from_json
from trinity.types import Record

COLUMNS = (
    *("method", "variant", "backbone", "task", "item_id", "domain", "difficulty", "replicate", "status", "score"),
    *("answer", "n_turns", "n_calls", "input_tokens", "output_tokens", "reasoning_tokens", "weighted_tokens"),
    *("cost_usd", "gflop", "latency_s"),
)
"""Of the table of records."""
CALL_COLUMNS = (
    *("method", "variant", "task", "item_id", "replicate", "call", "model", "prompt", "text", "finish_reason"),
    *("status", "score"),
)
"""Of the table of transcripts, a row a call."""
PLAIN = ("experiment", "pool", "pool_kind", "cost_axis")
Key = tuple[str, str, str]
"""Method, variant, task."""
LONGEST = 20_000
"""Characters of a prompt or text in a table; longer ones are cut in the middle, and say so."""
LARGEST_HTML = 25 * 2**20
"""Bytes of a report that is sent as a panel."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What may be shown, and how much: of `restricted` tasks ids, scores and counts leave, no text.

    `records` and `transcripts` are the most test episodes in either table.
    """

    restricted: frozenset[str]
    records: int
    transcripts: int


def flattened(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Every value of a summary's rows as `method/variant/task/metric` ("-" for no variant), totals and effort too."""
    values = {name: summary.get(name) for name in PLAIN}
    for row in summary["rows"]:
        place = f"{row['method']}/{row['variant'] or '-'}/{row['task']}"
        metrics = {name: value for name, value in row.items() if name not in ("method", "variant", "task")}
        values |= _leaves(place, metrics)
    return values | _leaves("totals", summary["totals"]) | _leaves("effort", summary["effort"])


def _leaves(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {place: value}
    return {name: leaf for key, entry in value.items() for name, leaf in _leaves(f"{place}/{key}", entry).items()}


def tables(folder: Path, shown: Shown, summary: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The tables of records and of transcripts, and a line for each that does not show everything."""
    import wandb

    sizes = {(row["method"], row["variant"], row["task"]): row["n_episodes"] for row in summary["rows"]}
    whole = {key: n for key, n in sizes.items() if key[2] != "all"}
    few = Quota(whole, shown.records)
    texts = Quota({key: n for key, n in whole.items() if key[2] not in shown.restricted}, shown.transcripts)
    rows, told = picked(folder / "records.parquet", few, texts)
    data: list[Any] = [_row(record, shown) for record in rows]
    found = {"records": wandb.Table(columns=[*COLUMNS], data=data)}
    with Ledger.open(folder / "ledger.sqlite", read_only=True) as ledger:
        calls: list[Any] = [row for record in told for row in _calls(record, ledger)]
    if calls:
        found["transcripts"] = wandb.Table(columns=[*CALL_COLUMNS], data=calls)
    left = [few.left("records", "the artifact records"), texts.left("transcripts", "ledger.sqlite in the run's folder")]
    return found, [line for line in left if line]


class Quota:
    """Lets so many test episodes through, as evenly over methods, variants and tasks as their numbers allow."""

    def __init__(self, sizes: Mapping[Key, int], most: int) -> None:
        """`sizes` are the episodes that there are."""
        self._all, left = sum(sizes.values()), most
        self._room: dict[Key, int] = {}
        for done, (key, size) in enumerate(sorted(sizes.items(), key=lambda entry: entry[1])):
            self._room[key] = min(size, left // (len(sizes) - done))
            left -= self._room[key]
        self._most = sum(self._room.values())

    def takes(self, key: Key) -> bool:
        """Whether there is room for one more of these."""
        room = self._room.get(key, 0)
        self._room[key] = max(room - 1, 0)
        return room > 0

    @property
    def methods(self) -> set[str]:
        """The methods of which more is taken."""
        return {key[0] for key, room in self._room.items() if room}

    def left(self, table: str, where: str) -> str:
        """A line if there is more than a table shows, with the place where all is; else nothing."""
        if self._most == self._all:
            return ""
        return f"the table of {table} shows {self._most} of {self._all} test episodes; all are in {where}"


def picked(path: Path, *quotas: Quota) -> list[list[Record]]:
    """For each quota the first test records of a parquet file that it takes; only those become objects.

    Raises:
        pyarrow.ArrowException: the file is damaged.
    """
    import pyarrow.parquet as pq

    found: list[list[Record]] = [[] for _ in quotas]
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            heads = file.read_row_group(group, columns=["method"])
            if not set(heads["method"].unique().to_pylist()) & {name for quota in quotas for name in quota.methods}:
                continue
            rows = file.read_row_group(group)
            keys = [*zip(*(rows[name].to_pylist() for name in ("method", "variant", "task", "split")), strict=True)]
            for records, quota in zip(found, quotas, strict=True):
                places = [place for place, key in enumerate(keys) if key[3] == "test" and quota.takes(key[:3])]
                records.extend(map(record_from_json, rows.take(places).to_pylist()) if places else ())
    return found


def _row(record: Record, shown: Shown) -> list[Any]:
    values = {name: getattr(record, name) for name in COLUMNS}
    values["replicate"] = record.replicate.index
    values["answer"] = None if record.task in shown.restricted else _cut(record.answer or "")
    return list(values.values())


def _calls(record: Record, ledger: Ledger) -> Iterator[list[Any]]:
    """A row for each call of an episode whose answer the ledger keeps."""
    place = [record.method, record.variant, record.task, record.item_id, record.replicate.index]
    for number, call_id in enumerate(record.call_ids):
        answer = ledger.calls.get_by_prefix(call_id)
        request = ledger.calls.request(answer.request_hash) if answer else None
        if answer and request:
            prompt = "\n\n".join(f"[{message['role']}] {message['content']}" for message in request["messages"])
            said = [request["model"], _cut(prompt), _cut(answer.text), answer.finish_reason]
            yield [*place, number, *said, record.status, record.score]


def _cut(text: str) -> str:
    """`text` in valid Unicode, its middle left out where it is long."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def figures(folder: Path) -> dict[str, Any]:
    """The report's pictures, and the report itself where there is one that is not too large."""
    import wandb

    pictures = sorted((folder / "report_images").glob("*"))
    found = {f"figures/{file.stem}": wandb.Image(str(file)) for file in pictures if file.suffix == ".png"}
    found |= {f"figures/{file.stem}": _html(file) for file in pictures if file.suffix == ".svg"}
    report = folder / "report.html"
    if report.exists() and report.stat().st_size <= LARGEST_HTML:
        found["report"] = _html(report)
    return found


def _html(file: Path) -> Any:
    import wandb

    return wandb.Html(file.read_text("utf-8", "replace"), inject=False)


def artifacts(folder: Path, shown: Shown, run_id: str) -> Iterator[Any]:
    """The records, without what may not leave, and the checkpoints."""
    import wandb

    records = wandb.Artifact(f"records-{run_id}", type="records")
    records.add_file(str(_publishable(folder, shown)), name="records.parquet")
    yield records
    if any((folder / "checkpoint").glob("*")):
        checkpoint = wandb.Artifact(f"checkpoint-{run_id}", type="checkpoint")
        checkpoint.add_dir(str(folder / "checkpoint"))
        yield checkpoint


def _publishable(folder: Path, shown: Shown) -> Path:
    """The records as they may leave: where a task's answers must stay, a copy without them."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    path, stripped = folder / "records.parquet", folder / "wandb" / "local" / "records.parquet"
    if not shown.restricted:
        return path
    nothing = pa.scalar(None, pa.string())
    with pq.ParquetFile(path) as file, replacing(stripped) as temporary:
        schema = file.schema_arrow
        with pq.ParquetWriter(temporary, schema, compression="zstd", write_page_checksum=True) as writer:
            for batch in file.iter_batches():
                stays = pa.array([task in shown.restricted for task in batch["task"].to_pylist()], pa.bool_())
                answers = pc.if_else(stays, nothing, batch["answer"])
                writer.write_batch(batch.set_column(schema.get_field_index("answer"), schema.field("answer"), answers))
    return stripped
