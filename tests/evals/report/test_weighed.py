"""Weights of cost in the plane of accuracy and cost: whose they are, how rows are named, what is joined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from evals.report.plots import accuracy_cost
from evals.report.weighed import READING, draw_weights, weighed, weights_of
from tests.evals.report.support import summarise
from trinity.types import Record

MakeRecord = Callable[..., Record]

WEIGHTS = {"c_w0": 0.0, "c_w0.1": 0.1, "c_w10": 10.0}


def told(weights: dict[str, Any]) -> dict[str, Any]:
    """A summary's choices, of other methods too."""
    chosen = {name: {"weight": weight, "unit": 3.0} for name, weight in weights.items()}
    return {"choices": {"notes": ["a note"], "lookup": {"sums": {"agent": "ann"}}, "vote": None, **chosen}}


def test_weights_rise() -> None:
    """Weights are in the order of their size, not of their names; choices without one are no part."""
    assert list(weights_of(told({"c_w10": 10, "c_w0": 0, "c_w0.1": 0.1})).items()) == list(WEIGHTS.items())


@pytest.mark.parametrize("weights", [{}, {"c_w0": 0}, {"c_w0": 0, "d_w0": 0}, {"c_w0": 0, "c_w1": None}])
def test_no_tradeoff(weights: dict[str, Any]) -> None:
    """One weight is none to trade, and of two trade-offs `w 0` would not say which: their rows keep their names."""
    assert weights_of(told(weights)) == {}


@pytest.mark.parametrize(("variant", "name"), [("argmax", "w 0.1 argmax"), ("", "w 0.1")])
def test_name_of_a_row(variant: str, name: str) -> None:
    """A row is called by its weight and its variant."""
    assert weighed({"method": "c_w0.1", "variant": variant}, WEIGHTS) == name


def test_lines_join_in_the_order_of_weights() -> None:
    """Each variant has its own line, from the smallest weight to the largest, whatever costs more; others have none."""
    costs = {"c_w10": 1.0, "c_w0": 5.0, "c_w0.1": 7.0}
    points = [
        (cost + shift, {"method": name, "variant": variant, "accuracy": cost / 10})
        for variant, shift in (("argmax", 0.0), ("sampled", 0.5))
        for name, cost in costs.items()
    ]
    points.append((2.0, {"method": "vote", "variant": "argmax", "accuracy": 0.5}))
    axes = Figure().add_subplot()
    draw_weights(axes, points, WEIGHTS)
    drawn = [np.asarray(line.get_xydata()).tolist() for line in axes.lines]
    assert drawn == [[[5.0, 50.0], [7.0, 70.0], [1.0, 10.0]], [[5.5, 50.0], [7.5, 70.0], [1.5, 10.0]]]
    assert axes.lines[0].get_linestyle() != axes.lines[1].get_linestyle()


def records(make_record: MakeRecord) -> Iterator[Record]:
    """A trade-off of two weights beside the best single agent."""
    for method, right, cost in (("best_single", 3, 100), ("coordinator_w0", 4, 90), ("coordinator_w1", 2, 30)):
        for number in range(5):
            score = float(number < right)
            yield make_record(score, method=method, variant="argmax", item_id=f"sums-{number}", gflop=float(cost))


def test_picture(make_record: MakeRecord) -> None:
    """The picture names rows by their weights and its caption says what they are; without weights it does neither."""
    found = list(records(make_record))
    chosen: list[dict[str, Any]] = [told({"coordinator_w0": 0, "coordinator_w1": 1})["choices"], {}]
    drawn = [accuracy_cost(summarise(found, choices=choices)) for choices in chosen]
    for picture, named in zip(drawn, (True, False), strict=True):
        assert picture is not None
        texts = set(re.findall(r">([^<>]+)</text>", picture.svg))
        assert ({"w 0 argmax", "w 1 argmax"} <= texts) is named
        assert ("coordinator_w0 argmax" in texts) is not named
        assert (READING in picture.caption) is named
