"""The axis of a run's costs: what it is by default, what is refused, and where the setting arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.ground import AGENTS, TASKS, make_arena
from trinity.arena import cost_axis
from trinity.errors import ConfigError
from trinity.types import Agent, CostAxis, Price

PRICE = Price(1.0, 2.0, "test")
UNKNOWN = replace(AGENTS[0], name="who", active_params=None)
PRICED = replace(UNKNOWN, name="sold", price=PRICE)


@pytest.mark.parametrize(
    ("agents", "axis"),
    [
        ([PRICED, replace(AGENTS[0], price=PRICE)], "usd"),
        ([PRICED, UNKNOWN], "weighted_tokens"),
        ([replace(AGENTS[0], price=PRICE), AGENTS[1]], "gflop"),
        ([], "usd"),
    ],
)
def test_default(agents: Sequence[Agent], axis: CostAxis) -> None:
    """USD where all prices are known, else GFLOP where all sizes are, else weighted tokens."""
    assert cost_axis(agents) == axis


def test_what_is_wanted() -> None:
    """An axis that all agents know is taken, whatever the default would be."""
    agents = [replace(agent, price=PRICE) for agent in AGENTS]
    assert [cost_axis(agents, axis) for axis in ("usd", "gflop", "weighted_tokens")] == [
        "usd",
        "gflop",
        "weighted_tokens",
    ]


@pytest.mark.parametrize(
    ("axis", "line"), [("usd", "no price is known of ann, who"), ("gflop", "no active_params is known of who, sold")]
)
def test_what_is_unknown(axis: Any, line: str) -> None:
    """An axis on which agents are unknown is refused, and they are named."""
    with pytest.raises(ConfigError, match=f"cost_axis={axis}: {line}; give it in the pool"):
        cost_axis([AGENTS[0], UNKNOWN, PRICED], axis)


class TestNotedCosts:
    """What methods left about their cost for others."""

    def test_of_a_method(self, tmp_path: Path) -> None:
        """They are given back by task, others than the run's left out."""
        arena = make_arena(tmp_path)
        arena.choices["one"] = {"cost_val": {**dict.fromkeys(TASKS, 2.0), "other": 1.0}}
        with arena.player.ledger:
            assert arena.noted_costs("one", "me") == dict.fromkeys(TASKS, 2.0)
        assert arena.notes == []

    @pytest.mark.parametrize("noted", [{}, {"one": None}, {"one": "text"}, {"one": {"agent": "ann"}}])
    def test_without(self, noted: dict[str, Any], tmp_path: Path) -> None:
        """A method that says nothing about its cost is named in a note of the one who asks."""
        arena = make_arena(tmp_path)
        arena.choices |= noted
        with arena.player.ledger:
            assert arena.noted_costs("one", "me") is None
        assert arena.notes == ["me: n/a, there is no method one before it that says what it costs"]

    def test_unknown_on_a_task(self, tmp_path: Path) -> None:
        """So are the tasks on which the cost is unknown, with the axis."""
        arena = replace(make_arena(tmp_path), cost_axis="weighted_tokens")
        arena.choices["one"] = {"cost_val": {"sums": 1.0, "words": None}}
        with arena.player.ledger:
            assert arena.noted_costs("one", "me") is None
        assert arena.notes == ["me: n/a, no cost in weighted_tokens is known of one on words, plans"]
