"""What truncated answers do to accuracies and differences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evals.stats.sensitivity import truncation_rows
from evals.stats.study import Study
from tests.evals.stats.making import make_study, with_truncated

CUT = [("cot", "a", 2), ("cot", "a", 3)]


def study(raw: float | None) -> Study:
    """A method that answers 3 of 4, and one that answers 1 of 2 and runs into its cap on two more."""
    made = make_study({("cot", "a"): [1, 0, 0, 0], ("vote", "a"): [1, 1, 1, 0]})
    return with_truncated(made, CUT, raw)


def of(rows: list[dict[str, Any]], method: str) -> dict[str, Any]:
    """The row of a method."""
    return next(row for row in rows if row["method"] == method)


def test_three_ways_of_counting() -> None:
    """Of 4 items two are truncated: accuracy 1/4, 1/2 without them, 3/4 by their texts; the gain goes from .5 to 0."""
    rows = truncation_rows(study(1.0), "cot")
    cot, vote = of(rows, "cot"), of(rows, "vote")
    assert (cot["n_episodes"], cot["n_truncated"], vote["n_truncated"]) == (4, 2, 0)
    assert (cot["accuracy"], cot["accuracy_without"], cot["accuracy_raw"]) == (0.25, 0.5, 0.75)
    assert (vote["accuracy"], vote["accuracy_without"], vote["accuracy_raw"]) == (0.75, 0.75, 0.75)
    assert (vote["difference"], vote["difference_without"], vote["difference_raw"]) == (0.5, 0.5, 0.0)
    assert cot["difference"] is None


def test_unknown_texts_are_unknown() -> None:
    """Where a truncated answer was never graded, the row has no raw accuracy, and nothing compared to it either."""
    rows = truncation_rows(study(None), "cot")
    assert (of(rows, "cot")["accuracy_raw"], of(rows, "vote")["difference_raw"]) == (None, None)
    assert of(rows, "vote")["accuracy_raw"] == 0.75
    assert of(rows, "cot")["accuracy_without"] == 0.5


def test_everything_truncated() -> None:
    """A row of truncated answers alone has accuracy 0, and none without them."""
    made = with_truncated(
        make_study({("cot", "a"): [0, 0], ("vote", "a"): [1, 0]}), [("cot", "a", 0), ("cot", "a", 1)], 0.0
    )
    rows = truncation_rows(made, "cot")
    assert (of(rows, "cot")["accuracy"], of(rows, "cot")["accuracy_without"]) == (0.0, None)
    assert (of(rows, "vote")["difference"], of(rows, "vote")["difference_without"]) == (0.5, None)
    assert of(rows, "vote")["difference_raw"] == pytest.approx(0.5)


def test_replicates_of_an_item() -> None:
    """Leaving one truncated replicate out leaves the item with its others."""
    made = make_study({("cot", "a"): [1, 0, 0]})
    made = replace(made, item=np.array([0, 0, 1], dtype=np.int32), items=("0", "1"), difficulty=np.full(2, np.nan))
    row = truncation_rows(replace(made, truncated=np.arange(3) == 1), "none")[0]
    assert (row["accuracy"], row["accuracy_without"]) == (0.25, 0.5)


def test_a_row_by_hand() -> None:
    """Every column, of the reference and of a method."""
    numbers = {"n_episodes": 4, "n_truncated": 0}
    accuracy = {"accuracy": 0.75, "accuracy_without": 0.75, "accuracy_raw": 0.75}
    difference = {"difference": 0.5, "difference_without": 0.5, "difference_raw": 0.0}
    assert truncation_rows(study(1.0), "cot") == [
        {
            "method": "cot",
            "backbone": "a",
            "n_episodes": 4,
            "n_truncated": 2,
            "accuracy": 0.25,
            "accuracy_without": 0.5,
            "accuracy_raw": 0.75,
            **dict.fromkeys(difference),
        },
        {"method": "vote", "backbone": "a", **numbers, **accuracy, **difference},
    ]
