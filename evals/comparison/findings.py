"""What a comparison shows, and what a reader has to know beside the numbers, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from evals.comparison.pairs import Numbers, Side
from evals.report.rows import ALL
from evals.report.summary import SMALL_RUN, label
from evals.report.table import verdict


def finding(row: Mapping[str, Any]) -> str:
    """What a comparison over all tasks shows, in a sentence."""
    names = " against ".join(f"{one['run']} {label(one)}" for one in (row, row["reference"]))
    said = verdict(row["difference"], (row["ci_low"], row["ci_high"]), row["p_holm"], row["n_paired"])
    return f"{names}: {said}"


def notes(comparisons: Sequence[Numbers], sides: Collection[Side]) -> list[str]:
    """What a reader has to know beside the numbers, each sentence once."""
    whole = [row for row in comparisons if row["task"] == ALL]
    fewest = min(row["n_paired"] for row in whole)
    found = [f"A comparison on {fewest} items shows the path, not a finding."] if fewest < SMALL_RUN else []
    found += [
        f"{row['run']} {label(row)}: {row['n_common'] - row['n_paired']} of "
        f"{row['n_common']} common items were not graded for both and are left out."
        for row in whole
        if row["n_paired"] < row["n_common"]
    ]
    for side in sides:
        told = side.run.row(side.key) or {}
        if told.get("n_estimated"):
            found.append(f"{side.name}: the usage of {told['n_estimated']} episodes is estimated.")
    return list(dict.fromkeys([*found, *_unknown(sides)]))


def _unknown(sides: Collection[Side]) -> Iterator[str]:
    """Sentences that name the agents whose price or size is unknown, by run."""
    for key, what in (("unknown_price", "price"), ("unknown_params", "number of active parameters")):
        names: dict[str, set[str]] = {}
        for side in sides:
            unknown = (side.run.row(side.key) or {}).get(key) or []
            names.setdefault(side.run.label, set()).update(unknown)
        told = [f"{', '.join(sorted(found))} in {label}" for label, found in names.items() if found]
        if told:
            yield f"The {what} is unknown for {'; '.join(told)}."
