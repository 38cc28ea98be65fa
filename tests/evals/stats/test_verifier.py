"""Rates of a verifier, by hand and by statsmodels."""

from __future__ import annotations

import pytest
from statsmodels.stats.proportion import proportion_confint

from evals.stats.verifier import VerifierRow, verifier_rates


def verdicts(method: str, *counts: int) -> list[VerifierRow]:
    """Right ones accepted and revised, wrong ones accepted and revised."""
    kinds = [(True, True), (False, True), (True, False), (False, False)]
    return [VerifierRow("sums", method, *kind) for kind, n in zip(kinds, counts, strict=True) for _ in range(n)]


def test_rates_by_hand() -> None:
    """Of 10 right candidates 8 pass, of 5 wrong ones 3: true accept .8, false accept .6, precision 8/11."""
    (row,) = verifier_rates(verdicts("coordinator", 8, 2, 3, 2))
    assert (row["method"], row["n"], row["n_correct"]) == ("coordinator", 15, 10)
    assert (row["true_accept"], row["false_accept"], row["precision"]) == (0.8, 0.6, 8 / 11)
    for name, part, n in (("true_accept", 8, 10), ("false_accept", 3, 5), ("precision", 8, 11)):
        assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(proportion_confint(part, n, method="wilson"))


def test_methods_apart_and_in_order() -> None:
    """Each method has its own row, in the order of the names, whatever the order of verdicts."""
    rows = verdicts("b", 1, 0, 0, 0) + verdicts("a", 0, 1, 0, 0)
    assert [(row["method"], row["true_accept"]) for row in verifier_rates(rows)] == [("a", 0.0), ("b", 1.0)]
    assert verifier_rates(rows[::-1]) == verifier_rates(rows)


def test_a_rate_of_nothing_is_unknown() -> None:
    """Without wrong candidates the false accept rate is None, without verdicts there is no row."""
    (row,) = verifier_rates(verdicts("a", 2, 1, 0, 0))
    assert (row["false_accept"], row["false_accept_low"], row["false_accept_high"]) == (None, None, None)
    assert row["precision"] == 1.0
    assert verifier_rates([]) == []
