"""The analysis of a run's test episodes: difficulty, differences, cost and verdicts, from its ledger."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from evals.report.analysis import build_analysis
from evals.stats.settings import settings_of
from evals.stats.study import COLUMNS, studies
from trinity.runs.ledger import Ledger
from trinity.runs.records import columns_of
from trinity.types import Task
from trinity.verdicts import verdicts

MODELS_UP_TO = 50_000
"""Test episodes of a task up to which its mixed models, minutes of work beyond, are fitted at the end of a run."""

NO_MODELS = "No mixed models"
ROUNDING, OPTIMUM = 1e-9, 1e-3
"""Largest difference, relative or absolute, of two analyses of the same records; that of optimised models."""


async def analysed(
    records: Ledger,
    calls: Ledger,
    tasks: Mapping[str, Task],
    manifest: Mapping[str, Any],
    *,
    most: int | None = MODELS_UP_TO,
) -> dict[str, Any]:
    """The content of a run's `analysis.json`.

    Args:
        records: the ledger that has the run's records.
        calls: the one that has its calls and decisions; the same but in a replay.
        tasks: by name, whose graders tell which verdicts were true.
        manifest: of the run; its `config.analysis` says what differences and costs are taken to.
        most: no mixed models for a task of more test episodes; None: for every task.

    Raises:
        LedgerError: a row of a ledger is damaged.
    """
    agents = {str(agent["name"]): str(agent["model"]) for agent in manifest["agents"]}
    found = studies(columns_of(records.records(split="test"), COLUMNS), agents)
    judged = [row async for row in verdicts(calls, tasks, manifest["seeds"]["seed"], records)]
    large = {study.task for study in found if most is not None and study.score.size > most}
    settings = settings_of(manifest)
    analysis = build_analysis(
        found,
        reference=settings.reference,
        verifier=judged,
        models=lambda study: study.task not in large,
        models_without=settings.models_without,
        ratios_to=settings.ratios_to,
    )
    for task in large:
        note = f"{NO_MODELS} of more than {most:,} episodes before somebody asks for them."
        analysis["tasks"][task]["not_identified"].append(note)
    return analysis


def analysis_differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """The places where two analyses of the same records differ by more than another processor's rounding.

    Mixed models, which stop within a tolerance, may differ a little more. Where one side has none and says why, as
    without gpboost, neither they nor what they leave untold are compared.
    """
    yield from _unequal(was, now, "", ROUNDING)


def _without_models(task: Mapping[str, Any]) -> bool:
    """Whether a task's analysis has no models and says so."""
    told = task.get("not_identified") or ()
    return task.get("models") is None and any(str(line).startswith(NO_MODELS) for line in told)


def _unequal(was: Any, now: Any, place: str, tolerance: float) -> Iterator[str]:
    if isinstance(was, dict) and isinstance(now, dict):
        yield from (f"{place}/{key}" for key in sorted(was.keys() ^ now.keys()))
        without = {"models", "not_identified"} if _without_models(was) != _without_models(now) else set()
        for key in sorted(was.keys() & now.keys() - without):
            yield from _unequal(was[key], now[key], f"{place}/{key}", OPTIMUM if key == "models" else tolerance)
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for number, (before, after) in enumerate(zip(was, now, strict=True)):
            yield from _unequal(before, after, f"{place}/{number}", tolerance)
    elif isinstance(was, float) and isinstance(now, float | int):
        if not math.isclose(was, now, rel_tol=tolerance, abs_tol=tolerance):
            yield place
    elif was != now:
        yield place
