"""The graded test episodes of one benchmark as arrays: what every analysis over methods, backbones and items reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evals.stats.axes import AXES
from evals.stats.exact import Names, means_of
from trinity.errors import LedgerError
from trinity.types import UNGRADED

if TYPE_CHECKING:
    from trinity.runs.records import Columns

_COSTS = tuple(axis.column for axis in AXES)
COLUMNS = (
    *("task", "split", "status", "method", "variant", "backbone", "pool_kind", "item_id", "replicate_index"),
    *("difficulty", "difficulty_kind", "score", "raw_score", *_COSTS),
)
"""Columns that `studies` reads."""
N_QUARTILES = 4
_ROWS = ("method", "backbone", "item", "score", "correct", "truncated")


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """n graded episodes; `method`, `backbone` and `item` index the tuples of names.

    Attributes:
        task: the benchmark.
        pool_kind: live, recorded, simulated or scripted.
        methods: their names.
        backbones: agents behind every call, or the pool where several answer.
        items: their ids.
        method: shape (n,).
        backbone: shape (n,).
        item: shape (n,).
        score: shape (n,), in [0, 1].
        correct: shape (n,), whether the score reaches the task's threshold.
        truncated: shape (n,), whether the answering call hit its length cap.
        costs: column of a cost axis to shape (n,), NaN where unknown.
        difficulty: shape (n_items,), NaN where unknown.
        difficulty_kind: human, irt or constructed.
        raw_score: shape (n,), what grading the text alone gives, NaN where unknown; None where nobody kept it.
    """

    task: str
    pool_kind: str
    methods: tuple[str, ...]
    backbones: tuple[str, ...]
    items: tuple[str, ...]
    method: NDArray[np.int32]
    backbone: NDArray[np.int32]
    item: NDArray[np.int32]
    score: NDArray[np.float64]
    correct: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    costs: Mapping[str, NDArray[np.float64]]
    difficulty: NDArray[np.float64]
    difficulty_kind: str | None
    raw_score: NDArray[np.float64] | None = None

    @property
    def z(self) -> NDArray[np.float64]:
        """Difficulty standardised within the task, shape (n_items,): mean 0, standard deviation 1 (n - 1 below).

        Over the items whose difficulty is known; NaN for the others, 0 where the known ones do not differ.
        """
        known = self.difficulty[np.isfinite(self.difficulty)]
        if not known.size:
            return self.difficulty.copy()
        spread = float(np.std(known, ddof=1)) if np.ptp(known) > 0 else 1.0
        return (self.difficulty - float(np.mean(known))) / spread

    @property
    def quartile(self) -> NDArray[np.int32]:
        """`quarters` of the items' difficulties, shape (n_items,)."""
        return quarters(self.difficulty)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of methods, backbones and items."""
        return len(self.methods), len(self.backbones), len(self.items)

    @property
    def replicates(self) -> NDArray[np.int64]:
        """Graded replicates of each method, backbone and item, shape (n_methods, n_backbones, n_items)."""
        return np.bincount(self._places(), minlength=int(np.prod(self.shape))).reshape(self.shape)

    def cube(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Mean of `values`, shape (n,), over replicates: shape (n_methods, n_backbones, n_items).

        NaN where nothing was graded, and where one of the values is NaN.
        """
        counts = self.replicates
        sums = np.bincount(self._places(), weights=values, minlength=counts.size)
        return means_of(sums.reshape(self.shape), counts)

    def subset(self, kept: NDArray[np.bool_]) -> Study:
        """The study of some of its episodes, `kept` of shape (n,); the names stay."""
        rows = {name: getattr(self, name)[kept] for name in _ROWS}
        raw_score = None if self.raw_score is None else self.raw_score[kept]
        costs = {axis: values[kept] for axis, values in self.costs.items()}
        return replace(self, **rows, raw_score=raw_score, costs=costs)

    def _places(self) -> NDArray[np.int64]:
        """Place of each episode in a flat cube."""
        _, n_backbones, n_items = self.shape
        cells = self.method.astype(np.int64) * n_backbones + self.backbone
        return cells * n_items + self.item


def quarters(difficulty: NDArray[np.float64]) -> NDArray[np.int32]:
    """Quarter of the known difficulties, shape (n_items,) as they are: 0 (easiest) to 3, -1 where unknown.

    Equal difficulties share a quarter, which may leave the others uneven or empty.
    """
    finite = np.isfinite(difficulty)
    places = np.full(difficulty.size, -1, dtype=np.int32)
    if finite.any():
        known = difficulty[finite]
        edges = np.quantile(known, np.arange(1, N_QUARTILES) / N_QUARTILES)
        places[finite] = np.searchsorted(edges, known, side="left")
    return places


def cells(study: Study) -> list[tuple[int, int]]:
    """Methods and backbones with a graded episode, as places of their names."""
    return [(int(method), int(backbone)) for method, backbone in np.argwhere(study.replicates.any(axis=2))]


def mean_over(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the known values of each row of shape (n, k), NaN where there is none."""
    known = np.isfinite(values)
    return means_of(np.where(known, values, 0.0).sum(axis=1), known.sum(axis=1))


def studies(batches: Iterable[Columns], agents: Mapping[str, str]) -> list[Study]:
    """One study a task, in the order of their names, the same for records in any order.

    Only the test split counts, and of it the graded episodes. An episode's backbone is the agent that its variant
    names, up to an `@` (one model at two settings is two agents; `large@T=0.8` is `large`); else the only agent of the
    record's model; else what the record calls it: a pool, several models, or a model of several agents. Its method
    carries in its name what else the variant says (`coordinator sampled`, `vote T=0.8`). Memory: about 60 bytes an
    episode.

    Args:
        batches: columns of records, `COLUMNS` among them (see `trinity.runs.records.read_columns`).
        agents: names of the pool's agents, each with its model.

    Raises:
        LedgerError: an episode is there twice or without a score in [0, 1], a task's records are of several kinds
            of pool, or an item has two difficulties.
    """
    codes: dict[str, Names[Any]] = {name: Names() for name in ("task", "item", "cell", "kind")}
    parts = [_encoded(batch, codes) for batch in batches]
    if not parts:
        return []
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    parts.clear()
    known = {name: list(found) for name, found in codes.items()}
    order = sorted(codes["task"], key=str)
    return [_study(whole, codes["task"][task], known, agents) for task in order]


def _encoded(batch: Columns, codes: Mapping[str, Names[Any]]) -> dict[str, NDArray[Any]]:
    """The graded test episodes of a batch, texts as numbers."""
    rows = zip(batch["split"], batch["status"], strict=True)
    kept = np.flatnonzero([split == "test" and status not in UNGRADED for split, status in rows])

    def text(name: str) -> NDArray[Any]:
        return np.asarray(batch[name], dtype=object)[kept]

    numbers = ("replicate_index", "difficulty", "score", "raw_score", *_COSTS)
    return {
        "task": codes["task"].codes(text("task")),
        "item": codes["item"].codes(zip(text("task"), text("item_id"), strict=True)),
        "cell": codes["cell"].codes(zip(text("method"), text("variant"), text("backbone"), strict=True)),
        "kind": codes["kind"].codes(zip(text("pool_kind"), text("difficulty_kind"), strict=True)),
        "correct": (text("status") == "correct").astype(bool),
        "truncated": (text("status") == "truncated").astype(bool),
        **{name: np.asarray(batch[name], dtype=np.float64)[kept] for name in numbers},
    }


def _study(
    whole: Mapping[str, NDArray[Any]], task: int, known: Mapping[str, list[Any]], agents: Mapping[str, str]
) -> Study:
    """The study of one task."""
    rows = {name: column[whole["task"] == task] for name, column in whole.items()}
    name = known["task"][task]
    cells = [row_names(method, variant, backbone, agents) for method, variant, backbone in known["cell"]]
    methods, rows["method"] = _indexed(rows["cell"], [method for method, _ in cells])
    backbones, rows["backbone"] = _indexed(rows["cell"], [backbone for _, backbone in cells])
    items, rows["item"] = _indexed(rows["item"], [item for _, item in known["item"]])
    kinds = [known["kind"][code] for code in np.unique(rows["kind"])]
    _check_scores(name, rows["score"])
    rows = _in_order(name, rows)
    return Study(
        task=name,
        pool_kind=_only(name, {pool_kind for pool_kind, _ in kinds}),
        methods=methods,
        backbones=backbones,
        items=items,
        **{column: rows[column] for column in _ROWS},
        costs={column: rows[column] for column in _COSTS},
        difficulty=_difficulty(name, rows, items),
        difficulty_kind=" and ".join(sorted({kind for _, kind in kinds if kind})) or None,
        raw_score=rows["raw_score"],
    )


def row_names(method: str, variant: str, backbone: str, agents: Mapping[str, str]) -> tuple[str, str]:
    """Method and backbone of a row, from what its records call them; how, says `studies`."""
    agent, _, setting = (variant, "", "") if variant in agents else variant.partition("@")
    if agent not in agents:
        alone = [name for name, model in agents.items() if model == backbone]
        agent, setting = alone[0] if len(alone) == 1 else backbone, variant
    return (f"{method} {setting}" if setting else method), agent


def _indexed(codes: NDArray[np.int32], names: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """The names in use, sorted, and each row's place among them."""
    used = sorted({names[code] for code in np.unique(codes)})
    place = {name: number for number, name in enumerate(used)}
    return tuple(used), np.array([place.get(name, -1) for name in names], dtype=np.int32)[codes]


def _check_scores(task: str, score: NDArray[np.float64]) -> None:
    """LedgerError for a graded episode whose score cannot be one."""
    wrong = ~((score >= 0) & (score <= 1))
    if wrong.any():
        raise LedgerError(f"task {task}: a graded record has score {score[wrong][0]}; grade the run again")


def _in_order(task: str, rows: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The rows by method, backbone, item and replicate, so that sums do not depend on how they came."""
    keys = [rows[name] for name in ("replicate_index", "item", "backbone", "method")]
    order = np.lexsort(keys)
    if order.size and np.any(np.logical_and.reduce([np.diff(key[order]) == 0 for key in keys])):
        raise LedgerError(f"task {task}: an episode is recorded twice; rebuild the run's records from its ledger")
    return {name: column[order] for name, column in rows.items()}


def _only(task: str, kinds: set[str]) -> str:
    """The one kind of pool."""
    if len(kinds) > 1:
        raise LedgerError(f"task {task}: records of kinds of pool {', '.join(sorted(kinds))} do not go into one table")
    return next(iter(kinds), "")


def _difficulty(task: str, rows: Mapping[str, NDArray[Any]], items: Sequence[str]) -> NDArray[np.float64]:
    """Difficulty of each item, NaN where no record tells."""
    told = np.isfinite(rows["difficulty"])
    place, value = rows["item"][told], rows["difficulty"][told]
    difficulty = np.full(len(items), np.nan)
    difficulty[place] = value
    wrong = place[difficulty[place] != value]
    if wrong.size:
        raise LedgerError(f"task {task}: item {items[wrong[0]]} has two difficulties; compare runs of one data set")
    return difficulty
