"""The summary of records made by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evals.report.summary import build_summary
from evals.report.tally import COLUMNS
from trinity.runs.records import columns_of
from trinity.types import Record


def summarise(records: Iterable[Record], **parts: Any) -> dict[str, Any]:
    """The summary of `records` with these parts (manifest, choices, effort, totals), the others empty."""
    empty: dict[str, Any] = {"manifest": {}, "choices": {}, "effort": {}, "totals": {}}
    return build_summary(columns_of(records, COLUMNS), **{**empty, **parts})
