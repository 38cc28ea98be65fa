"""What `analysis.json` says about cost, as tables: per correct answer, beside the reference, at the same cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from evals.report.blocks import (
    BACKBONE,
    METHOD,
    P_VALUES,
    POINTS,
    TASK,
    Column,
    Entry,
    Grid,
    Part,
    Text,
    grid,
    in_order,
    interval_of,
    number_of,
    share_of,
)
from evals.report.text import number, percent
from evals.stats.axes import AXES
from evals.stats.methods import spoken, titled

LABELS = {axis.name: axis.label for axis in AXES}
AXIS: Column = ("cost in", lambda row: LABELS[row["axis"]])
Tasks = Mapping[str, Mapping[str, Any]]


def cost_parts(tasks: Tasks, reference: str) -> list[Part]:
    """The parts on cost, on every axis on which some row's cost is known; those without a row are empty."""
    return [
        Part("Accuracy and mean cost", _means(tasks)),
        Part("Cost per correct answer", _per_correct(tasks)),
        Part(f"Cost beside that of {reference}", _ratios(tasks, reference), 3),
        Part("Accuracy at the same cost", _matched(tasks), 3),
        Part("What a budget buys", _areas(tasks), 3),
    ]


def _means(tasks: Tasks) -> list[Grid | Text]:
    """Each row's accuracy and mean cost, one column an axis."""
    rows = [row for row in _rows(tasks, "rows", "pooled") if _measured(row)]
    if not rows:
        return []
    accuracy: Column = ("accuracy %\n(95 % CI)", lambda row: interval_of("accuracy", "accuracy")(_measured(row)))
    return [
        grid(rows, (TASK, METHOD, BACKBONE, accuracy, *_columns(_axes(rows), "mean", "mean")), 3),
        Text("Mean cost of an episode, every call billed. All: over the method's backbones, which count the same."),
    ]


def _measured(row: Entry) -> Entry:
    """What some axis says of a row's accuracy, which is the same on all."""
    return next((row[axis] for axis in LABELS if (row.get(axis) or {}).get("accuracy") is not None), {})


def _per_correct(tasks: Tasks) -> list[Grid | Text]:
    """Each row's cost per correct answer, one column an axis, and where nothing else is better."""
    rows = _rows(tasks, "rows", "pooled")
    axes = _axes(rows)
    if not axes:
        return []
    best: Column = ("on the frontier of", lambda row: ", ".join(LABELS[axis] for axis in axes if _is_best(row, axis)))
    return [
        grid(rows, (TASK, METHOD, BACKBONE, *_columns(axes, "per_correct"), best), 3),
        Text(
            "Mean cost over mean score, so that wrong answers are paid for as well; ∞: there may be no correct answer. "
            "On the frontier: no other row is as cheap and as accurate, and better in one of both."
        ),
    ]


def _ratios(tasks: Tasks, reference: str) -> list[Grid | Text]:
    """How many times the reference's cost, and that of further methods, one column an axis and method."""
    bases = dict.fromkeys(
        str(entry["to"]) for _, _, found in _found(tasks) for entry in found.get("ratios") or () if entry.get("to")
    )
    if len(bases) > 1:
        return _ratios_to(tasks, list(bases))
    rows = _rows(tasks, "ratios")
    if not rows:
        return []
    reading = f"Cost as a multiple of that of {reference} on the same items: below 1 is cheaper."
    return [grid(rows, (TASK, METHOD, BACKBONE, *_columns(_axes(rows), "ratio")), 3), Text(reading)]


def _ratios_to(tasks: Tasks, bases: Sequence[str]) -> list[Grid | Text]:
    """Ratios to several methods."""
    by_base = {base: _rows(tasks, "ratios", only=base) for base in bases}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for base, found in by_base.items():
        for row in found:
            key = tuple(row[name] for name in ("task", "method", "backbone"))
            merged = rows.setdefault(key, dict(zip(("task", "method", "backbone"), key, strict=True)))
            merged.update({f"{axis} {base}": row[axis] for axis in LABELS if axis in row})
    columns: list[Column] = [
        (f"{label}\n÷ {titled(base)}", _ratio_to(axis, base))
        for axis, label in LABELS.items()
        for base in bases
        if any(f"{axis} {base}" in row for row in rows.values())
    ]
    names = " and of ".join(map(spoken, bases))
    reading = f"Cost as a multiple of that of {names}, each on the same items: below 1 is cheaper."
    return [grid(in_order(rows.values()), (TASK, METHOD, BACKBONE, *columns), 3), Text(reading)]


def _ratio_to(axis: str, base: str) -> Callable[[Entry], str]:
    """A cell with a ratio to a method; a dash in its own rows."""
    ratio = _number(f"{axis} {base}", "ratio")
    return lambda row: "–" if row["method"] == base else ratio(row)


def _rows(tasks: Tasks, *keys: str, only: str | None = None) -> list[Entry]:
    """One row a task, method and backbone, each axis under its name; `only` those to one method.

    A row over all backbones (None) follows those of its method, where these are several.
    """
    groups: dict[tuple[str, str], dict[str | None, dict[str, Any]]] = {}
    for name, axis, found in _found(tasks):
        for entry in chain.from_iterable(found.get(key) or () for key in keys):
            if only not in (None, entry.get("to")):
                continue
            method, backbone = str(entry["method"]), entry["backbone"]
            row = groups.setdefault((name, method), {}).setdefault(backbone, {})
            row.update({"task": name, "method": method, "backbone": backbone, axis: entry})
    return in_order(
        row
        for group in groups.values()
        for backbone, row in sorted(group.items(), key=lambda each: each[0] is None)
        if backbone is not None or len(group) > 2  # noqa: PLR2004 - two backbones and both together
    )


def _found(tasks: Tasks) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Task, axis and what is told of them."""
    every = [(name, task.get("cost") or {}) for name, task in tasks.items()]
    return [(name, axis, costs[axis]) for name, costs in every for axis in LABELS if costs.get(axis)]


def _axes(rows: list[Entry]) -> list[str]:
    """The axes that some row has."""
    return [axis for axis in LABELS if any(axis in row for row in rows)]


def _columns(axes: list[str], key: str, ends: str = "ci") -> list[Column]:
    """A number and its interval, one column an axis."""
    return [(f"{LABELS[axis]}\n(95 % CI)", _number(axis, key, ends)) for axis in axes]


def _is_best(row: Entry, axis: str) -> bool:
    return bool((row.get(axis) or {}).get("on_frontier"))


def _number(axis: str, name: str, ends: str = "ci") -> Callable[[Entry], str]:
    """A cell with a number of an axis and its interval."""

    def cell(row: Entry) -> str:
        value, low, high = ((row.get(axis) or {}).get(key) for key in (name, f"{ends}_low", f"{ends}_high"))
        if value is None:
            return "n/a"
        return f"{number(value)}\n({_end(low)} to {_end(high)})" if low is not None else number(value)

    return cell


def _end(value: float | None) -> str:
    """An end of an interval; a row that may have no right answer at all has no upper one."""
    return "∞" if value is None else number(value)


def _matched(tasks: Tasks) -> list[Grid | Text]:
    """Differences to what the same cost buys from controls."""
    rows = in_order(
        {"task": name, "axis": axis, **row} for name, axis, found in _found(tasks) for row in found.get("matched") or ()
    )
    if not rows:
        return []
    mixture: Column = (
        "best mixture of controls",
        lambda row: "\n".join(map(_share, row["mixture"])) or "none as cheap",
    )
    costs: tuple[Column, ...] = (("its cost", number_of("mixture_mean")), ("method's\ncost", number_of("mean")))
    return [
        grid(rows, (TASK, METHOD, BACKBONE, AXIS, mixture, *costs, POINTS, *P_VALUES), 5),
        Text(
            "Against the best mixture of one or two controls (simple methods) at the same mean cost or less: is a "
            "method worth its price? Mixtures are chosen on the items shown, which favours the controls. Holm's p "
            "allows for all rows of a task and a kind of cost."
        ),
    ]


def _share(part: Entry) -> str:
    """One part of a mixture."""
    name = f"{part['method']} · {part['backbone']}"
    return name if part["share"] == 1 else f"{percent(part['share'])} % {name}"


def _areas(tasks: Tasks) -> list[Grid | Text]:
    """The areas under the frontiers."""
    rows = [{"task": name, "axis": axis, **found} for name, axis, found in _found(tasks) if found.get("area")]
    if not rows:
        return []
    budgets: Column = ("budgets", lambda row: f"{number(row['low'])} to {number(row['high'])}, {row['scale']}")
    areas: tuple[Column, ...] = (("all rows %", share_of("area")), ("controls alone %", share_of("area_controls")))
    return [
        grid(rows, (TASK, AXIS, budgets, *areas), 3),
        Text(
            "Accuracy of the best row that a budget affords, averaged over budgets from the cheapest row's to the "
            "dearest's (log: evenly over their logarithm); what all rows have more than the controls alone is what "
            "the other methods add."
        ),
    ]
