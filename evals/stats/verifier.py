"""How often a verifier accepts what is right, and how often what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from evals.stats.intervals import wilson


class VerifierRow(NamedTuple):
    """One verdict on a candidate answer: whether it was accepted, and whether it would have been graded correct."""

    task: str
    method: str
    accepted: bool
    correct: bool


def verifier_rates(rows: Iterable[VerifierRow]) -> list[dict[str, Any]]:
    """True and false accept rates a method, in the order of their names.

    `true_accept` is the share of right candidates that were accepted, `false_accept` that of wrong ones, `precision`
    the share of right ones among the accepted; each with Wilson's 95 % interval (`_low`, `_high`), None where there
    was no such candidate. Several verdicts on one item are counted as if they were independent.
    """
    counts: dict[str, Counter[tuple[bool, bool]]] = {}
    for row in rows:
        counts.setdefault(row.method, Counter())[row.accepted, row.correct] += 1
    return [{"method": method, **_rates(counts[method])} for method in sorted(counts)]


def _rates(count: Counter[tuple[bool, bool]]) -> dict[str, Any]:
    """Rates of one method; keys are (accepted, correct)."""
    right, wrong = count[True, True] + count[False, True], count[True, False] + count[False, False]
    return {
        "n": right + wrong,
        "n_correct": right,
        **_rate("true_accept", count[True, True], right),
        **_rate("false_accept", count[True, False], wrong),
        **_rate("precision", count[True, True], count[True, True] + count[True, False]),
    }


def _rate(name: str, part: int, n: int) -> dict[str, float | None]:
    """A share of n with its interval."""
    ends = wilson(part, n)
    low, high = ends or (None, None)
    return {name: part / n if n else None, f"{name}_low": low, f"{name}_high": high}
