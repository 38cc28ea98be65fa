"""The axes on which costs are told."""

from __future__ import annotations

from typing import NamedTuple


class Axis(NamedTuple):
    """One cost: its name in files, its column in records, and how a reader calls it."""

    name: str
    column: str
    label: str


AXES = (
    Axis("usd", "cost_usd", "USD"),
    Axis("gflop", "gflop", "GFLOP"),
    Axis("weighted_tokens", "weighted_tokens", "weighted tokens"),
)
"""In the order in which a table of one cost prefers them: the last is always known."""
