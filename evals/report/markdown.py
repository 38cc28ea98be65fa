"""`report.md` and its pictures: what a run found, for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from evals.report.plots import Use, accuracy_cost_png, training_png, use_png
from evals.report.rows import ALL, Row
from evals.report.summary import label, rows_of, tasks_of
from evals.report.table import findings, markdown_grid, markdown_table, reading, title
from evals.report.text import fenced, markdown, number, percent
from trinity.runs.files import write_atomic
from trinity.types import Status

IMAGES = "report_images"
GRADES = ("correct", "wrong")


def write_report(
    run_dir: Path,
    summary: Mapping[str, Any],
    generations: Iterable[Mapping[str, Any]],
    uses: Iterable[Use],
    *,
    manifest: Mapping[str, Any],
) -> Path:
    """Write `report.md` and `report_images/*.png` into a run folder; every text of items and answers stays out.

    Args:
        run_dir: the run's folder.
        summary: as `build_summary` made it.
        generations: the trainer's generations, see `training_png`; none where nothing was trained.
        uses: one (variant, agent, role) per choice of a policy in a test episode.
        manifest: of the run; read here: `folder, seeds, machine, git`, `agents` (`name, model, style, active_params`)
            and `weights` (objects with `name, licence, sha256, source`). Each may be missing.

    Returns:
        The path of `report.md`.

    Raises:
        LedgerError: it could not be written; an older report is as before.
    """
    pictures = {
        "accuracy_cost": accuracy_cost_png(summary),
        "training": training_png(generations, summary),
        "use": use_png(uses, summary),
    }
    folder = run_dir / IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    for name, png in pictures.items():
        if png is None:
            (folder / f"{name}.png").unlink(missing_ok=True)
        else:
            write_atomic(folder / f"{name}.png", png)
    shown = {name for name, png in pictures.items() if png is not None}
    path = run_dir / "report.md"
    write_atomic(path, report_text(summary, manifest, shown).encode())
    return path


def report_text(summary: Mapping[str, Any], manifest: Mapping[str, Any], pictures: Iterable[str]) -> str:
    """The report; `pictures` names those of `accuracy_cost, training, use` that were drawn."""
    shown = frozenset(pictures)
    blocks = [
        f"# {markdown(summary['experiment'])}: report",
        _paragraph(summary, manifest),
        *_results(summary),
        *_picture("Accuracy and cost", "accuracy_cost", shown),
        *_picture("Who was asked", "use", shown),
        *_headroom(summary),
        *_picture("Training", "training", shown),
        *_effort(summary),
        "## How the controls were chosen",
        _tree({key: value for key, value in summary["choices"].items() if key != "notes"}),
        *_failures(summary),
        *_models(manifest),
        "## Replay",
        "This rebuilds records, tables and report from the run's ledger, without asking a model:",
        fenced(f"python -m trinity.replay {shlex.quote(manifest.get('folder') or 'RUN')}"),
    ]
    return "\n\n".join(blocks) + "\n"


def bullets(sentences: Iterable[str]) -> str:
    """A list of plain sentences."""
    return "\n".join(f"- {markdown(sentence)}" for sentence in sentences)


def _paragraph(summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """What was run, on what."""
    methods = list(dict.fromkeys(row["method"] for row in summary["rows"]))
    tasks = ", ".join(f"{name} ({rows_of(summary, name)[0]['n_items']})" for name in tasks_of(summary))
    agents = ", ".join(str(agent.get("name")) for agent in manifest.get("agents") or ())
    sentences = [
        f"Run {summary['run_id']} asked the {summary['pool_kind']} pool {summary['pool']}"
        + (f" ({agents})" if agents else ""),
        f"Test items per task: {tasks or 'none'}",
        f"Methods: {', '.join(methods) or 'none'}",
        f"Seeds: {_pairs(summary['seeds'])}" if summary["seeds"] else "",
        _machine(manifest.get("machine") or {}),
        _commit(manifest.get("git") or {}),
    ]
    return " ".join(f"{markdown(sentence, 2000)}." for sentence in sentences if sentence)


def _pairs(value: Any) -> str:
    """Names and values in one line."""
    return ", ".join(f"{name} {entry}" for name, entry in value.items()) if isinstance(value, Mapping) else str(value)


def _machine(machine: Mapping[str, Any]) -> str:
    """Processor and cores."""
    return f"Machine: {machine['cpu']}, {machine.get('usable_cores')} cores usable" if machine.get("cpu") else ""


def _commit(git: Mapping[str, Any]) -> str:
    """The code's version."""
    dirty = " with uncommitted changes" if git.get("dirty") else ""
    return f"Code: commit {git['commit']}{dirty}" if git.get("commit") else ""


def _results(summary: Mapping[str, Any]) -> list[str]:
    """The table over all tasks, what it says, and a table per task."""
    tasks = tasks_of(summary)
    blocks = ["## Results", markdown_table(summary), markdown(" ".join(reading(summary)), 1000)]
    blocks += ["### What this run can and cannot say", bullets(findings(summary))]
    for name in tasks if len(tasks) > 1 else ():
        blocks += [f"### {markdown(name)}", markdown(title(summary, name)), markdown_table(summary, name)]
    return blocks


def _picture(heading: str, name: str, shown: frozenset[str]) -> list[str]:
    """A section with one picture, when it was drawn."""
    return [f"## {heading}", f"![{heading}]({IMAGES}/{name}.png)"] if name in shown else []


def _headroom(summary: Mapping[str, Any]) -> list[str]:
    """What there is to gain over the best single agent."""
    found = summary["headroom"]
    titles = ["task", "best agent on test", "its accuracy %", "best single %", "oracle %", "oracle − best single"]
    chances = {row["task"]: row["chance"] for row in summary["rows"]}
    rows = [
        [*_headroom_cells(name, entry), percent(chances.get(name))]
        for name, entry in [(ALL, found), *found["tasks"].items()]
    ]
    text = (
        "The oracle picks the right agent for every item after the fact. The best single agent was chosen on "
        "validation items; the best agent on test is shown to describe the pool, nothing is chosen by it."
    )
    return ["## Headroom", markdown_grid([*titles, "guessing %"], rows), text]


def _headroom_cells(name: str, entry: Mapping[str, Any]) -> list[str]:
    """One line of the headroom table."""
    shares = [percent(entry[key]) for key in ("best_agents_accuracy", "best_single", "oracle")]
    return [name, ", ".join(entry["best_agents"]) or "n/a", *shares, percent(entry["gap"], signed=True)]


def _effort(summary: Mapping[str, Any]) -> list[str]:
    """What methods were played for before the test, trained or not."""
    return ["## Effort before the test", _tree(summary["effort"])] if summary["effort"] else []


def _tree(value: Mapping[str, Any], depth: int = 0) -> str:
    """Nested choices or sums as a nested list."""
    lines = []
    for key, entry in value.items():
        start = f"{'  ' * depth}- {markdown(key)}:"
        if isinstance(entry, Mapping) and entry:
            lines += [start, _tree(entry, depth + 1)]
        else:
            lines.append(f"{start} {markdown(_leaf(entry))}")
    return "\n".join(lines) or "None."


def _leaf(value: Any) -> str:
    """A number, text or list in one line."""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    if isinstance(value, Sequence):
        return ", ".join(_leaf(entry) for entry in value) or "none"
    return "n/a" if value is None else "none"


def _failures(summary: Mapping[str, Any]) -> list[str]:
    """Episodes that were neither right nor wrong, per row and status."""
    statuses = [name for name in get_args(Status) if name not in GRADES]
    rows = [
        [label(row), *(str(count) for count in (row["n_episodes"], *_counts(row, statuses), row["n_capped"]))]
        for row in rows_of(summary)
    ]
    text = (
        "Episodes by status. error and over_budget were never graded and are left out of accuracy; the others score 0. "
        "Capped episodes ended at their own cap and were graded on their latest answer."
    )
    titles = ["method", "episodes", *statuses, "capped"]
    return ["## Failures", markdown_grid(titles, rows), markdown(text)]


def _counts(row: Row, statuses: Sequence[str]) -> list[int]:
    """Episodes per status."""
    return [row["statuses"].get(name, 0) for name in statuses]


def _models(manifest: Mapping[str, Any]) -> list[str]:
    """Agents and weights with their licences, as far as the manifest names them."""
    agents = [
        [str(agent.get("name")), str(agent.get("model") or "unknown"), number(agent.get("active_params"))]
        for agent in manifest.get("agents") or ()
    ]
    weights = [
        [str(entry.get(key) or "unknown") for key in ("name", "licence", "source", "sha256")]
        for entry in manifest.get("weights") or ()
    ]
    blocks = ["## Models"] if agents or weights else []
    if agents:
        blocks.append(markdown_grid(["agent", "model", "active parameters"], agents))
    if weights:
        blocks.append(markdown_grid(["weights", "licence", "source", "SHA-256"], weights))
    return blocks
