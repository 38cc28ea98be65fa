"""Finished runs made by hand: records, the summary that belongs to them, and a small manifest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.evals.report.conftest import record
from trinity.runs.records import write_records
from trinity.types import UNGRADED, Record

Scores = Mapping[str, Sequence[float | None]]
"""Item id to the score of each replicate; None was never graded."""

ROW_KEYS = (
    *("bound_low", "bound_high", "ci_low", "ci_high", "diff", "diff_low", "diff_high"),
    *("weighted_tokens_mean", "cost_usd_mean", "gflop_mean", "calls_mean", "encoder_tokens_mean"),
)
COUNTS = ("n_truncated", "n_no_answer", "n_capped", "n_estimated")
NOTHING_SPENT = {"episodes": 0, "logical_calls": 0, "weighted_tokens": 0, "encoder_tokens": 0}


def episodes(scores: Scores, method: str = "coordinator", variant: str = "sampled", **changes: Any) -> list[Record]:
    """Records of one row; `changes` of a cost may be a function of the item's id."""
    rows = []
    for item, replicates in scores.items():
        for index, score in enumerate(replicates):
            facts = {key: value(item) if callable(value) else value for key, value in changes.items()}
            rows.append(record(score, index, method=method, variant=variant, item_id=item, **facts))
    return rows


def summary_of(records: Sequence[Record], effort: Mapping[str, Any]) -> dict[str, Any]:
    """What a run says of its own records, as far as a comparison reads it."""
    keys = dict.fromkeys((row.method, row.variant) for row in records)
    tasks = ["all", *sorted({row.task for row in records})]
    rows = [_row([row for row in records if (row.method, row.variant) == key], task) for key in keys for task in tasks]
    common = {name: getattr(records[0], name) for name in ("run_id", "experiment", "pool", "pool_kind")}
    return {**common, "rows": rows, "effort": dict(effort)}


def _row(records: Sequence[Record], task: str) -> dict[str, Any]:
    """One row, its accuracy the mean over items of the mean over replicates."""
    own = [row for row in records if task in ("all", row.task)]
    items: dict[tuple[str, str], list[float]] = {}
    for row in own:
        if row.status not in UNGRADED and row.score is not None:
            items.setdefault((row.task, row.item_id), []).append(row.score)
    accuracy = fmean(map(fmean, items.values())) if items else None
    names = {"method": records[0].method, "variant": records[0].variant, "task": task, "reference": False}
    sizes = {"n_items": len({(row.task, row.item_id) for row in own}), "n_graded": len(items), "n_episodes": len(own)}
    statuses = dict(Counter(row.status for row in own))
    empty: dict[str, Any] = {
        **dict.fromkeys(ROW_KEYS),
        **dict.fromkeys(COUNTS, 0),
        "unknown_price": [],
        "unknown_params": [],
    }
    return {**names, **sizes, **empty, "n_replicates": 3, "accuracy": accuracy, "statuses": statuses}


def manifest_of(run_id: str, kind: str = "live", **changes: Any) -> dict[str, Any]:
    """A manifest as far as a comparison reads it."""
    agent = {"name": "small", "endpoint": "e", "model": "m", "sampling": {"temperature": 0.5}, "style": "Be brief."}
    return {
        "format": 1,
        "run_id": run_id,
        "experiment": "quickstart",
        "pool": "local",
        "pool_kind": kind,
        "config": {"seed": 0, "eval": {"replicates": 3}, "budget": {"run": {"calls": 9}}, "trainer": {"sigma0": 0.1}},
        "recipe": {},
        "seeds": {"seed": 0, "data.seed": 1, "eval.seed": 0},
        "graders": {"sums": "number/1", "words": "letter/1"},
        "data": {"sums": "a" * 64, "words": "b" * 64},
        "prompts": {"coordinator/worker.txt": "c" * 64},
        "endpoints": {"e": {"endpoint_id": "local:1"}},
        "agents": [
            {**agent, "extra_body": {}, "price": None, "active_params": 1e9, "deterministic": True, "profile": ""}
        ],
        "encoder": {"encoder": "hashed/64/0"},
        "git": {"commit": "d" * 40, "dirty": False},
        "packages": {"numpy": "2.0"},
        "machine": {"cpu": "abacus", "usable_cores": 2},
        "started": "2030-01-01T00:00:00+00:00",
        "finished": True,
        **changes,
    }


def write_run(
    folder: Path,
    records: Iterable[Record],
    *,
    effort: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> Path:
    """A run folder with these records, all given the folder's name as their run; its path."""
    folder.mkdir(parents=True)
    facts = manifest_of(folder.name, **(manifest or {}))
    own = [Record(**{**_fields(row), "run_id": facts["run_id"], "pool_kind": facts["pool_kind"]}) for row in records]
    write_records(folder / "records.parquet", own)
    (folder / "summary.json").write_text(json.dumps(summary_of(own, effort or {})), "utf-8")
    (folder / "manifest.json").write_text(json.dumps(facts), "utf-8")
    return folder


def _fields(row: Record) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Record.__dataclass_fields__}


def change(path: Path, **values: Any) -> None:
    """Set keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **values}), "utf-8")
