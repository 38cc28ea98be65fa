"""Finished runs with transcripts, made by hand: a ledger with items, calls, decisions and records, and what is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evals.report.data import ReportData, Source, gathered
from tests.evals.report.conftest import record
from tests.evals.report.support import summarise
from trinity.canonical import digest
from trinity.runs.calls import CALL_ID_DIGITS, Answer
from trinity.runs.ledger import Ledger
from trinity.runs.rows import DecisionKey, DecisionRow
from trinity.types import Item, Message, Record, Replicate, Role, Usage

TURNS: tuple[tuple[str, Role], ...] = (("small", "thinker"), ("large", "worker"), ("large", "verifier"))
"""What the coordinator of these runs does with every item."""
SYSTEM = "You check the work of others."


def manifest(**changes: Any) -> dict[str, Any]:
    """The manifest of a run of two agents on one endpoint; the task `sums` may be shown."""
    agent = {"endpoint": "e", "sampling": {"temperature": 0}, "extra_body": {}, "active_params": 1e9}
    return {
        "run_id": "told/1",
        "experiment": "told",
        "pool_kind": "scripted",
        "seeds": {"seed": 0},
        "endpoints": {"e": {"endpoint_id": "told"}},
        "agents": [{**agent, "name": name, "model": f"m-{name}"} for name in ("small", "large")],
        "tasks": [{"name": "sums", "chance": 0.0, "redistribute": "yes"}],
        **changes,
    }


@dataclass(frozen=True)
class Texts:
    """What is asked and said: by item number, and by item number and role."""

    prompt: Callable[[int], str] = lambda number: f"What is {number} + {number}?"
    reply: Callable[[int, str], str] = lambda number, role: f"{role} says {2 * number}"


def told_run(path: Path, n_items: int, texts: Texts | None = None, **changes: Any) -> ReportData:
    """The data of a run with two agents alone and a coordinator on `n_items` items; its ledger stays open.

    `changes` are of the manifest.
    """
    facts = manifest(**changes)
    ledger = Ledger.create(path)
    items = [_item(number, texts or Texts()) for number in range(n_items)]
    ledger.add_items("test", items)
    records = list(_played(ledger, items, texts or Texts(), facts["pool_kind"]))
    ledger.flush()
    source = Source(ledger, ledger, lambda text: "accept" if text.startswith("verifier") else None)
    return gathered(source, summarise(records, manifest=facts), facts, {})


def _item(number: int, texts: Texts) -> Item:
    return Item(f"sums-{number:05d}", "sums", texts.prompt(number), f"target {2 * number}", "arithmetic")


def _played(ledger: Ledger, items: list[Item], texts: Texts, kind: str) -> Iterator[Record]:
    """Every episode, entered in the ledger."""
    for number, item in enumerate(items):
        question: Message = {"role": "user", "content": item.prompt}
        for name in ("small", "large"):
            call = _call(ledger, name, [question], texts.reply(number, f"alone {name}"))
            yield _recorded(ledger, item, "single", name, [call], number % 2, kind)
        calls = []
        for turn, (agent, role) in enumerate(TURNS):
            messages: list[Message] = [{"role": "system", "content": SYSTEM}, question]
            calls.append(_call(ledger, agent, messages, texts.reply(number, role)))
            key = DecisionKey("coordinator/sampled", "sums", item.item_id, Replicate("test", 0), turn)
            none = np.zeros(5)
            ledger.add_decision(DecisionRow(key, "0" * 64, none.astype(np.float32), none, agent, role, 3))
        yield _recorded(ledger, item, "coordinator", "sampled", calls, 1, kind)


def _call(ledger: Ledger, agent: str, messages: list[Message], text: str) -> str:
    """One answered call; its id."""
    request: Mapping[str, Any] = {
        "endpoint_id": "told",
        "model": f"m-{agent}",
        "sampling": {"temperature": 0},
        "extra_body": {},
        "messages": [dict(message) for message in messages],
        "replicate": ["test", 0],
        "sample": len(text) % 7,
    }
    answer = Answer(digest(request), text, "", "stop", Usage(12, 7), 0.25, 1, ledger.uid)
    ledger.note_call(answer, request, paid=True, price=None)
    return answer.request_hash[:CALL_ID_DIGITS]


def _recorded(
    ledger: Ledger, item: Item, method: str, variant: str, calls: list[str], score: float, kind: str
) -> Record:
    """The record of one episode."""
    made = record(
        float(score), method=method, variant=variant, item_id=item.item_id, call_ids=tuple(calls), n_calls=len(calls),
        answer=f"graded {item.target}", experiment="told", run_id="told/1", pool_kind=kind, cost_usd=None,
        weighted_tokens=40 * len(calls),
    )  # fmt: skip
    ledger.add_record(replace(made, task="sums"))
    return made
