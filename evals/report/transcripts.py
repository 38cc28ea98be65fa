"""Transcripts of test episodes for the report's page: compressed in chunks, each text once in its chunk."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from evals.report.data import Names, Source, agent_names
from evals.report.summary import rows_of, tasks_of
from trinity.runs.calls import Answer
from trinity.runs.rows import RecordKey
from trinity.runs.sharing import open_tasks
from trinity.types import Item, Record, Replicate

CHUNK_CHARACTERS = 2_000_000
"""A chunk is closed when its texts are so long together; one of a single episode may be longer."""
CHUNK_EPISODES = 2_000
INDEX_EPISODES = 5_000
MOST_SHARED = 64
"""Texts of system prompts that all chunks share; more of them are kept in each chunk."""
LONGEST_SHARED = 20_000

Json = dict[str, Any]


class Chunk(NamedTuple):
    """Texts of `n` episodes from the `first` one on, packed."""

    first: int
    n: int
    data: str


class Index(NamedTuple):
    """What the list shows of episodes in their order, packed."""

    data: str


def packed(value: Any) -> str:
    """JSON as gzip as base64; texts that are no valid Unicode stay what they are."""
    raw = json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    return base64.b64encode(gzip.compress(raw, 6, mtime=0)).decode("ascii")


@dataclass
class _Texts:
    """The texts of a chunk by their numbers; those that all chunks share have negative ones."""

    shared: dict[str, int]
    own: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def number(self, text: str | None) -> int | None:
        """The number of a text of this chunk."""
        if text is None or text in self.shared:
            return None if text is None else self.shared[text]
        if text not in self.own:
            self.own[text] = len(self.own)
            self.size += len(text)
        return self.own[text]

    def number_system(self, text: str) -> int | None:
        """The number of a system prompt, which many episodes have."""
        if text not in self.shared and len(self.shared) < MOST_SHARED and len(text) <= LONGEST_SHARED:
            self.shared[text] = -1 - len(self.shared)
        return self.number(text)


class Transcripts:
    """The test episodes of a run, item by item, so that what methods share on an item is in one chunk."""

    def __init__(self, source: Source, summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
        """`manifest` says which tasks' texts may leave the run's folder; of the others there is only the list."""
        self._source, self._summary = source, summary
        self._seed = int((manifest.get("seeds") or {}).get("seed") or 0)
        self._names: Names = agent_names(manifest)
        self._open = open_tasks(manifest)
        self._shared: dict[str, int] = {}
        self._asked: dict[str, tuple[Json | None, Answer | None]] = {}
        self.n_episodes = 0

    @property
    def shared(self) -> list[str]:
        """Texts that chunks name by -1, -2, ...; complete after the last of `blocks`."""
        return list(self._shared)

    @property
    def withheld(self) -> list[str]:
        """Tasks whose texts are left out."""
        return [task for task in tasks_of(self._summary) if task not in self._open]

    def blocks(self) -> Iterator[Chunk | Index]:
        """Chunks and indices, streamed: at most one of each is in memory.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        texts, episodes, rows = _Texts(self._shared), [], []
        for item, record in self._records():
            rows.append(_row(record))
            episodes.append(self._episode(item, record, texts) if record.task in self._open else None)
            self.n_episodes += 1
            if texts.size >= CHUNK_CHARACTERS or len(episodes) >= CHUNK_EPISODES:
                yield self._chunk(texts, episodes)
                texts, episodes = _Texts(self._shared), []
            if len(rows) >= INDEX_EPISODES:
                yield _index(rows)
                rows = []
        if episodes:
            yield self._chunk(texts, episodes)
        if rows:
            yield _index(rows)

    def _chunk(self, texts: _Texts, episodes: Sequence[Json | None]) -> Chunk:
        first = self.n_episodes - len(episodes)
        return Chunk(first, len(episodes), packed({"texts": list(texts.own), "episodes": episodes}))

    def _records(self) -> Iterator[tuple[Item, Record]]:
        """Every test record with its item, by item in the run's order, then in the order of the table."""
        for task in tasks_of(self._summary):
            rows = rows_of(self._summary, task)
            for item in self._source.ledger.items(task, "test"):
                self._asked.clear()
                for row in rows:
                    yield from ((item, record) for record in self._replicates(item, row))

    def _replicates(self, item: Item, row: Mapping[str, Any]) -> Iterator[Record]:
        """The records of one row on an item."""
        for index in range(row["n_replicates"]):
            place = Replicate("test", index)
            key = RecordKey(row["method"], row["variant"], item.task, "test", item.item_id, place, self._seed)
            record = self._source.ledger.record(key)
            if record is not None:
                yield record

    def _episode(self, item: Item, record: Record, texts: _Texts) -> Json:
        """What is shown of an episode when it is opened."""
        roles = self._roles(record)
        return {
            "question": texts.number(item.prompt),
            "target": texts.number(item.target),
            "answer": texts.number(record.answer),
            "raw_score": record.raw_score,
            "calls": [self._call(call_id, role, texts) for call_id, role in zip_longest(record.call_ids, roles)],
        }

    def _roles(self, record: Record) -> list[str]:
        """The roles that a policy chose, a turn each; none where no policy did."""
        return [row.role for row in islice(self._source.ledger.decisions_of(record), record.n_calls)]

    def _call(self, call_id: str, role: str | None, texts: _Texts) -> Json:
        """One call: who was asked in which role, what was said, what came back."""
        request, answer = self._found(call_id)
        if answer is None or request is None:
            return {"id": call_id}
        usage = answer.usage
        return {
            "id": call_id,
            "agent": self._names(request),
            "role": role,
            "verdict": self._source.verdict(answer.text) if role == "verifier" else None,
            "messages": [
                [said["role"], (texts.number_system if said["role"] == "system" else texts.number)(said["content"])]
                for said in request["messages"]
            ],
            "text": texts.number(answer.text),
            "reasoning": texts.number(answer.reasoning) if answer.reasoning else None,
            "finish": answer.finish_reason,
            "tokens": None if usage is None else [usage.input_tokens, usage.output_tokens, usage.reasoning_tokens],
            "latency": _digits(answer.latency_s),
        }

    def _found(self, call_id: str) -> tuple[Json | None, Answer | None]:
        """A stored call; those of the item at hand are kept, for methods share them."""
        if call_id not in self._asked:
            calls = self._source.calls.calls
            answer = calls.get_by_prefix(call_id)
            self._asked[call_id] = (None if answer is None else calls.request(answer.request_hash)), answer
        return self._asked[call_id]


def _row(record: Record) -> tuple[Any, ...]:
    """What the list shows of an episode."""
    return (
        *(record.method, record.variant, record.task, record.item_id, record.replicate.index, record.status),
        *(record.score, record.weighted_tokens, _digits(record.latency_s), record.n_calls),
    )


def _digits(value: float) -> float:
    """Three significant digits."""
    return float(f"{value:.3g}")


COLUMNS = (
    *("method", "variant", "task", "item", "replicate", "status"),
    *("score", "tokens", "latency", "calls"),
)
"""Columns of an index, in the order of `_row`."""


def _index(rows: Sequence[tuple[Any, ...]]) -> Index:
    """Rows as columns, which pack better."""
    return Index(packed(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))))
