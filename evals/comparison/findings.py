"""What a comparison shows, and what a reader has to know beside the numbers, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from evals.comparison.pairs import Numbers, Side
from evals.comparison.runs import ALL, named
from evals.report.text import percent

SMALL = 100
"""Below this many items a comparison shows the path, not a finding."""
ALPHA = 0.05
"""Adjusted p below which a difference is called one."""
SMALLEST_P = 0.001
"""Smaller values of p are not told apart in texts."""


def p_value(p: float | None) -> str:
    """Three decimals; n/a where nothing was tested."""
    if p is None:
        return "n/a"
    return f"<{SMALLEST_P}" if p < SMALLEST_P else f"{p:.3f}"


def finding(row: Mapping[str, Any]) -> str:
    """What a comparison over all tasks shows, in a sentence."""
    names = " against ".join(
        f"{one['run']} {named((one['method'], one['variant']))}" for one in (row, row["reference"])
    )
    points = f"{percent(row['difference'], signed=True)} points on {row['n_paired']} items"
    p = f"p {p_value(row['p_holm'])} adjusted"
    if row["p_holm"] < ALPHA:
        return f"{names}: {'better' if row['difference'] > 0 else 'worse'}, {points}, {p}."
    apart = row["ci_low"] > 0 or row["ci_high"] < 0
    caution = "; the interval leaves 0 out, but the test does not confirm it" if apart else ""
    return f"{names}: no difference is shown, {points}, {p}{caution}."


def notes(comparisons: Sequence[Numbers], sides: Collection[Side]) -> list[str]:
    """What a reader has to know beside the numbers, each sentence once."""
    whole = [row for row in comparisons if row["task"] == ALL]
    fewest = min(row["n_paired"] for row in whole)
    found = [f"A comparison on {fewest} items shows the path, not a finding."] if fewest < SMALL else []
    found += [
        f"{row['run']} {named((row['method'], row['variant']))}: {row['n_common'] - row['n_paired']} of "
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
