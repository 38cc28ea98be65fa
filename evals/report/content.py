"""What a report says, part by part, before it becomes Markdown or HTML."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from evals.report.blocks import Block, Bullets, Command, Grid, Part, Text
from evals.report.canvas import Picture, pool_caption
from evals.report.content_analysis import analysis_parts, over_backbones
from evals.report.data import ReportData
from evals.report.plots_use import GRADES
from evals.report.rows import ALL, Row
from evals.report.summary import label, rows_of, tasks_of
from evals.report.table import columns_for, findings, format_row, grading_sentence, reading, title
from evals.report.text import clean, number, percent
from evals.stats.methods import is_trained
from trinity.types import Status

Pictures = Mapping[str, Picture]


def parts(data: ReportData, pictures: Pictures) -> list[Part]:
    """All parts of a report but its transcripts; `pictures` by name, those that were drawn."""
    summary, manifest = data.summary, data.manifest
    found = [
        *_results(summary, over_backbones(data.analysis)),
        *_pictured("Accuracy and cost", pictures, "accuracy_cost"),
        *analysis_parts(data.analysis, pictures),
        _headroom(summary),
        *_pictured("Who was asked", pictures, "use"),
        *_training(pictures),
        *_effort(summary),
        Part("How the controls were chosen", _choices(summary)),
        _failures(summary, pictures),
        *_pictured("Call latency", pictures, "latency"),
        *_models(summary, manifest),
        Part("Replay", _replay(manifest)),
    ]
    return [part for part in found if part.blocks]


def lead(summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """What was run, on what; the first sentence names the kind of pool."""
    methods = list(dict.fromkeys(row["method"] for row in summary["rows"]))
    tasks = ", ".join(f"{name} ({rows_of(summary, name)[0]['n_items']})" for name in tasks_of(summary))
    agents = ", ".join(str(agent.get("name")) for agent in manifest.get("agents") or ())
    sentences = [
        f"Run {summary['run_id']} asked the {summary['pool_kind']} pool {summary['pool']}"
        + (f" ({agents})" if agents else ""),
        f"Test items per task: {tasks or 'none'}",
        f"Methods: {', '.join(methods) or 'none'}",
        f"Seeds: {_pairs(summary['seeds'])}" if summary["seeds"] else "",
        _judge(manifest.get("judge") or {}),
        _machine(manifest.get("machine") or {}),
        _commit(manifest.get("git") or {}),
    ]
    return " ".join(f"{clean(sentence, 2000)}." for sentence in sentences if sentence)


def _pairs(value: Any) -> str:
    """Names and values in one line."""
    return ", ".join(f"{name} {entry}" for name, entry in value.items()) if isinstance(value, Mapping) else str(value)


def _judge(judge: Mapping[str, Any]) -> str:
    """Which model graded what a task does not grade by itself."""
    agent = judge.get("agent") or {}
    return f"Judge: agent {agent.get('name')} ({agent.get('model')}), {judge.get('kind')}" if agent else ""


def _machine(machine: Mapping[str, Any]) -> str:
    """Processor and cores."""
    return f"Machine: {machine['cpu']}, {machine.get('usable_cores')} cores usable" if machine.get("cpu") else ""


def _commit(git: Mapping[str, Any]) -> str:
    """The code's version."""
    dirty = " with uncommitted changes" if git.get("dirty") else ""
    return f"Code: commit {git['commit']}{dirty}" if git.get("commit") else ""


def _results(summary: Mapping[str, Any], first: Sequence[str]) -> Iterator[Part]:
    """The table over all tasks, what it says after what is to be said `first`, and a table per task."""
    tasks = tasks_of(summary)
    yield Part(
        "Results",
        [results_grid(summary), Text(" ".join(reading(summary))), *map(Text, grading_sentence(summary["totals"]))],
    )
    yield Part("What this run can and cannot say", [Bullets([*first, *findings(summary)])], 3)
    for name in tasks if len(tasks) > 1 else ():
        yield Part(name, [Text(title(summary, name)), results_grid(summary, name)], 3)


def results_grid(summary: Mapping[str, Any], task: str = ALL) -> Grid:
    """The results of one task, or of all."""
    rows = rows_of(summary, task)
    columns = columns_for(rows)
    strong = frozenset(place for place, row in enumerate(rows) if is_trained(row["method"]))
    return Grid([column.title for column in columns], [format_row(row, columns) for row in rows], strong=strong)


def _pictured(heading: str, pictures: Pictures, name: str) -> list[Part]:
    """A part with one picture, when it was drawn."""
    return [Part(heading, [pictures[name]])] if name in pictures else []


def _training(pictures: Pictures) -> list[Part]:
    """How policies were trained, one after another."""
    found = [picture for name, picture in pictures.items() if name.startswith(("training", "choices"))]
    return [Part("Training", found)]


def _headroom(summary: Mapping[str, Any]) -> Part:
    """What there is to gain over the best single agent."""
    found = summary["headroom"]
    if all(found[key] is None for key in ("oracle", "best_single", "best_agents_accuracy")):
        return Part("Headroom", [])
    titles = ["task", "best agent\non test", "its accuracy %", "best single %", "oracle %", "oracle −\nbest single"]
    chances = {row["task"]: row["chance"] for row in summary["rows"]}
    rows = [
        [*_headroom_cells(name, entry), percent(chances.get(name))]
        for name, entry in [(ALL, found), *found["tasks"].items()]
    ]
    chosen = "The best single agent was chosen on validation items; " if found["best_single"] is not None else ""
    text = (
        f"{pool_caption(summary['pool_kind'])}. The oracle picks the right agent for every item after the "
        f"fact. {chosen}{'the' if chosen else 'The'} best agent on test is shown to describe the pool, nothing is "
        "chosen by it."
    )
    return Part("Headroom", [Grid([*titles, "guessing %"], rows, 2), Text(text)])


def _headroom_cells(name: str, entry: Mapping[str, Any]) -> list[str]:
    """One line of the headroom table."""
    shares = [percent(entry[key]) for key in ("best_agents_accuracy", "best_single", "oracle")]
    return [name, ", ".join(entry["best_agents"]) or "n/a", *shares, percent(entry["gap"], signed=True)]


def _effort(summary: Mapping[str, Any]) -> list[Part]:
    """What methods were played for before the test, trained or not."""
    effort = summary["effort"]
    if not effort:
        return []
    kinds = list(dict.fromkeys(key for entry in effort.values() if isinstance(entry, Mapping) for key in entry))
    rows = [
        [name, *(_leaf(entry.get(key)) for key in kinds)]
        if isinstance(entry, Mapping)
        else [name, _leaf(entry), *[""] * (len(kinds) - 1)]
        for name, entry in effort.items()
    ]
    titles = ["method", *(key.replace("_", " ") for key in kinds or ["spent"])]
    kind = Text(f"{pool_caption(summary['pool_kind'])}. Episodes on training and validation items.")
    return [Part("Effort before the test", [Grid(titles, rows), kind])]


def _choices(summary: Mapping[str, Any]) -> list[Block]:
    """What each control was chosen on, a line per fact."""
    rows = [
        [name, " · ".join(path), value]
        for name, entry in summary["choices"].items()
        if name != "notes"
        for path, value in _facts(entry)
    ]
    if not rows:
        return [Text("None.")]
    kind = Text(f"{pool_caption(summary['pool_kind'])}. Chosen before the test, on training and validation items.")
    return [Grid(["method", "what", "value"], rows, 3), kind]


def _facts(entry: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Nested choices as names and values; a flat object below the first level is one line."""
    if not isinstance(entry, Mapping) or not entry:
        yield path, _leaf(entry)
    elif path and not any(isinstance(value, Mapping) for value in entry.values()):
        yield path, ", ".join(f"{key} {_leaf(value)}" for key, value in entry.items())
    else:
        for key, value in entry.items():
            yield from _facts(value, (*path, str(key)))


def _leaf(value: Any) -> str:
    """A number, text or list in one line."""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    if isinstance(value, Sequence):
        return ", ".join(_leaf(entry) for entry in value) or "none"
    return "n/a" if value is None else "none"


def _failures(summary: Mapping[str, Any], pictures: Pictures) -> Part:
    """Episodes that did not end as right or wrong, per row and status, and those that met their own cap."""
    statuses = [name for name in get_args(Status) if name not in GRADES]
    rows = [
        [label(row), *(f"{count:,}" for count in (row["n_episodes"], *_counts(row, statuses), row["n_capped"]))]
        for row in rows_of(summary)
    ]
    text = (
        f"{pool_caption(summary['pool_kind'])}, episodes by status. error and over_budget were never graded "
        "and are left out of accuracy; the others score 0. Capped is no failure by itself: episodes that ended at "
        "their own cap and were graded on their latest answer, whatever their status."
    )
    blocks: list[Block] = [Grid(["method", "episodes", *statuses, "capped"], rows), Text(text)]
    return Part("Failures", [*([pictures["failures"]] if "failures" in pictures else []), *blocks])


def _counts(row: Row, statuses: Sequence[str]) -> list[int]:
    """Episodes per status."""
    return [row["statuses"].get(name, 0) for name in statuses]


def _models(summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[Part]:
    """Agents and weights with their licences, as far as the manifest names them."""
    agents = [
        [str(agent.get("name")), str(agent.get("model") or "unknown"), number(agent.get("active_params"))]
        for agent in manifest.get("agents") or ()
    ]
    weights = [
        [str(entry.get(key) or "unknown") for key in ("name", "licence", "source", "sha256")]
        for entry in manifest.get("weights") or ()
    ]
    kind = Text(f"{pool_caption(summary['pool_kind'])} {clean(summary['pool'])}.")
    blocks: list[Block] = [Grid(["agent", "model", "active parameters"], agents, 2), kind] if agents else []
    blocks += [Grid(["weights", "licence", "source", "SHA-256"], weights, 4)] if weights else []
    return [Part("Models", blocks)]


def _replay(manifest: Mapping[str, Any]) -> list[Block]:
    """How to make the same once more."""
    run = shlex.quote(clean(manifest.get("folder") or "RUN", 1000))
    return [
        Text("This rebuilds records, tables and report from the run's ledger, without asking a model:"),
        Command(f"python -m trinity.replay {run}"),
    ]
