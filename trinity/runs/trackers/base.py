"""What a tracker is, what it is told of a run, and how its failures are kept from the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from trinity.runs.ledger import SCHEMA
from trinity.runs.sqlite import open_database, to_text
from trinity.types import ROLES

QUANTILES = (0.25, 0.5, 0.75)
"""Of the fitness of a generation's candidates, beside their mean and the best."""

# A generation's candidates are called TRAINER/gNNN/cNN; the primary key of the decisions begins with that name.
_CHOICES = "SELECT agent, role, COUNT(*) FROM decisions WHERE policy >= ? AND policy < ? GROUP BY agent, role"
_PAID = "SELECT COUNT(*) FROM call_use WHERE paid"


@dataclass(frozen=True, slots=True)
class RunStart:
    """A run that begins or goes on.

    `manifest` is what its `manifest.json` holds, secrets redacted; `say` prints a line for the user that stays.
    """

    folder: Path
    manifest: Mapping[str, Any]
    resumed: bool
    say: Callable[[str], None]

    @property
    def sweep(self) -> str | None:
        """The name of the folder of the sweep that this run is a job of; None where it stands alone."""
        return self.folder.parent.name if (self.folder.parent / "sweep.json").exists() else None


class Tracker(Protocol):
    """Hears of a run: `start`, then `generation` again and again, then `finish` or `abandon`.

    What it raises ends its own part only: the user reads a line, it is told to `abandon`, and the run goes on without
    it. It is called from the run's thread, between episodes, so it must not wait for long.
    """

    def start(self, run: RunStart) -> None:
        """The run begins, or goes on where an earlier process left it: what that one told is not told again."""
        ...

    def generation(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Generation `number` of a trainer was played; `metrics` are those of `generation_metrics`.

        A run that was killed plays its last generation again: a number may come twice.
        """
        ...

    def finish(self, summary: Mapping[str, Any], folder: Path) -> None:
        """The run is whole: `summary` is the content of its `summary.json`, `folder` holds everything."""
        ...

    def abandon(self, why: str) -> None:
        """The run, or this tracker, failed: let go of everything. `why` is the name of an error's class.

        It may come before `start`.
        """
        ...


class NoTracker:
    """Keeps nothing beside the run folder."""

    def start(self, run: RunStart) -> None:
        """Nothing."""

    def generation(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Nothing."""

    def finish(self, summary: Mapping[str, Any], folder: Path) -> None:
        """Nothing."""

    def abandon(self, why: str) -> None:
        """Nothing."""


class Follower:
    """Hands a run's events to its tracker, whose failure is a line and never the run's.

    Use it as a context manager: where the block ends with an error, the tracker is told to abandon.
    """

    def __init__(self, tracker: Tracker, say: Callable[[str], None]) -> None:
        """`say` prints a line that stays."""
        self._tracker, self._say = tracker, say

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._try("abandon", lambda: self._tracker.abandon(kind.__name__))

    def start(self, run: RunStart) -> None:
        """Tell it."""
        self._try("start", lambda: self._tracker.start(run))

    def generation(self, number: int, measure: Callable[[], Mapping[str, Any]]) -> None:
        """Tell it what `measure` gives, which is not called where nobody listens."""
        if not isinstance(self._tracker, NoTracker):
            self._try("generation", lambda: self._tracker.generation(number, measure()))

    def finish(self, summary: Mapping[str, Any], folder: Path) -> None:
        """Tell it."""
        self._try("finish", lambda: self._tracker.finish(summary, folder))

    def _try(self, what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever a tracker raises, the run goes on
            failed, self._tracker = self._tracker, NoTracker()
            name, why = type(failed).__name__, type(error).__name__
            self._say(" ".join(f"{name} failed at {what}, the run goes on without it: {why}: {error}".split()))
            if what != "abandon":
                with suppress(Exception):
                    failed.abandon(why)


def generation_metrics(
    trainer: str, payload: Mapping[str, Any], ledger: Path, agents: Sequence[str], number: int
) -> dict[str, Any]:
    """What a tracker hears of generation `number`, JSON-able, unknown = None.

    Returns:
        `trainer`; `fitness` (`mean, best, q25, q50, q75` over the candidates); `sigma`; `validation`, the favourite's
        mean score where it was validated; `episodes` and `logical_calls` of the generation; `paid_calls` of the run so
        far; `status`, episodes by status; `agents` and `roles`, how often the candidates chose each.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    choices, paid = _from_ledger(ledger, trainer, number)
    return {
        "trainer": trainer,
        "fitness": _spread(payload.get("fitness") or ()),
        "sigma": payload.get("sigma"),
        "validation": payload.get("val"),
        "episodes": payload.get("episodes"),
        "logical_calls": payload.get("logical_calls"),
        "paid_calls": paid,
        "status": dict(payload.get("status") or {}),
        "agents": {name: sum(n for agent, _, n in choices if agent == name) for name in agents},
        "roles": {name: sum(n for _, role, n in choices if role == name) for name in ROLES},
    }


def _spread(fitness: Sequence[float]) -> dict[str, float | None]:
    names = [f"q{round(100 * share)}" for share in QUANTILES]
    if not fitness:
        return dict.fromkeys(("mean", "best", *names))
    quantiles = zip(names, np.quantile(fitness, QUANTILES).tolist(), strict=True)
    return {"mean": float(np.mean(fitness)), "best": max(fitness), **dict(quantiles)}


def _from_ledger(path: Path, trainer: str, number: int) -> tuple[list[tuple[str, str, int]], int]:
    """How often each agent and role were chosen in a generation, and the calls that the run has bought so far."""
    candidates = f"{trainer}/g{number:03d}/"
    database = open_database(path, SCHEMA, "read")
    try:
        found = database.query(_CHOICES, (to_text(f"{candidates}c"), to_text(f"{candidates}d")))
        choices = [(str(agent), str(role), int(n)) for agent, role, n in found]
        return choices, int((database.one(_PAID) or (0,))[0])
    finally:
        database.close()
