"""What differs between runs besides what is compared, in plain sentences."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from evals.comparison.pairs import Side
from evals.comparison.runs import Run
from evals.report.text import clean
from evals.stats.settings import settings_of
from trinity.canonical import canonical_json, digest
from trinity.runs.sweep import shaping

Difference = dict[str, str]
"""`kind` and `sentence`."""

Fact = tuple[str, str]
"""Kind of a fact, and what it is about."""

_NONE = "none"
_CLASS = "_target_"
"""Where it differs, the settings below the same branch are another class's and are not told."""
_SHOWN, _LONGEST = 80, 200
_HASH_SHOWN = 10
_SHA256 = 64
_TOLD_APART = ("name", "seed", "data.seed", "eval.seed", "eval.replicates", "pool.name", "pool.agents", "budget")
"""Branches of a configuration that other facts tell, or that shape nothing."""
_AGENT = ("endpoint", "model", "sampling", "extra_body", "active_params", "deterministic")
_OF_NAMED = frozenset({"agents", "prices", "endpoints", "prompts"})
"""Kinds of facts of which those runs alone are told that have the agent, endpoint or file; another one did without."""
_TEXTS = ("style", "profile")
"""Texts of an agent may hold worked examples, whose items may not leave: their hashes are shown."""


def run_differences(runs: Sequence[Run], tasks: Sequence[str]) -> list[Difference]:
    """Everything in which the runs differ by their manifests, a sentence each: which run has what.

    Args:
        runs: at least one.
        tasks: those that are compared; graders and data of others are left out.
    """
    facts = {run.label: {name: _shown(value) for name, value in _facts(run, tasks)} for run in runs}
    told = {}
    for name in dict.fromkeys(name for known in facts.values() for name in known):
        values = {label: known[name] for label, known in facts.items() if name in known}
        if name[0] not in _OF_NAMED:
            values = {label: values.get(label, _NONE) for label in facts}
        if len(set(values.values())) > 1:
            told[name] = values
    exchanged = [about.removesuffix(_CLASS) for _, about in told if about.endswith(f".{_CLASS}")]
    return [
        {"kind": kind, "sentence": f"{clean(about, _LONGEST)}: {_spread(values)}."}
        for (kind, about), values in told.items()
        if not any(about.startswith(branch) and about != f"{branch}{_CLASS}" for branch in exchanged)
    ] + _uncommitted(runs)


def item_differences(pairs: Iterable[tuple[Side, Side]], tasks: Sequence[str]) -> list[Difference]:
    """Sentences on test items that only one run of a pair was asked, or that are not the same in both."""
    sentences = [
        sentence for side, reference in pairs for task in tasks for sentence in _of_items(side, reference, task)
    ]
    return [{"kind": "items", "sentence": sentence} for sentence in dict.fromkeys(sentences)]


def _of_items(side: Side, reference: Side, task: str) -> Iterator[str]:
    """One task in two runs."""
    ours, theirs = (
        {item: about for item, about in zip(one.played.items, one.played.about, strict=True) if item[0] == task}
        for one in (side, reference)
    )
    a, b, name = side.run.label, reference.run.label, clean(task)
    common = ours.keys() & theirs.keys()
    if a != b and ours.keys() != theirs.keys():
        yield (
            f"Items of {name}: {len(common)} in both {b} and {a}, {len(theirs) - len(common)} only in {b}, "
            f"{len(ours) - len(common)} only in {a}; only common items are compared."
        )
    changed = sum(_about(ours[item]) != _about(theirs[item]) for item in common)
    if changed:
        yield f"Items of {name}: {changed} have one id but another domain or difficulty in {a} than in {b}."


def _about(known: tuple[Any, float]) -> tuple[Any, float | None]:
    """Domain and difficulty; NaN, which equals nothing, as None."""
    domain, difficulty = known
    return domain, None if math.isnan(difficulty) else difficulty


def _facts(run: Run, tasks: Sequence[str]) -> Iterator[tuple[Fact, Any]]:
    """What may differ, in the order in which it is told."""
    manifest = run.manifest
    settings = dict(_flat({**manifest["config"], "analysis": settings_of(manifest)._asdict()}, manifest.get("recipe")))
    for task in tasks:
        yield ("graders", f"Grader of {task}"), run.grader(task)
        yield (
            ("data", f"Data fingerprint of {task} (items of one id are taken for the same)"),
            manifest["data"].get(task),
        )
    for name, value in sorted(manifest["prompts"].items()):
        yield ("prompts", f"Prompt file {name}"), value
    yield ("pools", "Pool"), manifest["pool"]
    yield from _of_agents(manifest)
    yield ("encoders", "Encoder"), (manifest.get("encoder") or {}).get("encoder")
    for key, value in settings.items():
        if key.startswith("budget.") and key != "budget.confirm_usd":
            yield ("budgets", f"Setting {key}"), value
    for name, value in manifest["seeds"].items():
        yield ("seeds", f"Seed {name}"), value
    yield ("replicates", "Replicates of each test item (eval.replicates)"), settings.get("eval.replicates")
    for key, value in settings.items():
        if shaping([key]) and not _below(key, _TOLD_APART):
            yield ("settings", f"Setting {key}"), value
    yield ("code", "Code"), manifest["git"].get("commit")
    for name, value in manifest["packages"].items():
        yield ("packages", f"Package {name}"), value
    machine = manifest["machine"]
    yield ("machines", "Machine (latency depends on it)"), f"{machine.get('cpu')}, {machine.get('usable_cores')} cores"


def _of_agents(manifest: Mapping[str, Any]) -> Iterator[tuple[Fact, Any]]:
    """Who was in the pool, and what each was."""
    agents = {agent["name"]: agent for agent in manifest["agents"]}
    yield ("agents", "Agents"), ", ".join(sorted(agents))
    for name, agent in sorted(agents.items()):
        for field in _AGENT:
            yield ("agents", f"Agent {name}, {field}"), agent.get(field)
        for field in _TEXTS:
            yield ("agents", f"Agent {name}, {field}"), f"text {digest(agent.get(field) or '')[:_HASH_SHOWN]}"
        yield ("prices", f"Price of agent {name}"), agent.get("price")
    yield ("endpoints", "Endpoints"), ", ".join(sorted(manifest["endpoints"]))
    for name, endpoint in sorted(manifest["endpoints"].items()):
        yield ("endpoints", f"Endpoint {name}"), endpoint["endpoint_id"]


def _flat(config: Any, recipe: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a configuration, without those that repeat another key's by `${...}`."""
    if isinstance(recipe, str) and recipe.startswith("${") and not recipe.startswith("${oc."):
        return
    if not isinstance(config, Mapping) or not config:
        yield prefix, config
        return
    for key, value in config.items():
        inner = recipe.get(key) if isinstance(recipe, Mapping) else None
        yield from _flat(value, inner, f"{prefix}.{key}".lstrip("."))


def _below(key: str, branches: Sequence[str]) -> bool:
    """Whether a key is one of `branches` or lies below one."""
    return any(key == branch or key.startswith(f"{branch}.") for branch in branches)


def _shown(value: Any) -> str:
    """A value for a sentence: hashes and long texts by the beginning of their hash."""
    if value is None:
        return _NONE
    text = value if isinstance(value, str) else canonical_json(value)
    if len(text) == _SHA256 and not text.strip("0123456789abcdef"):
        return text[:_HASH_SHOWN]
    return clean(text, _SHOWN) if len(text) <= _SHOWN else f"text {digest(text)[:_HASH_SHOWN]}"


def _spread(told: Mapping[str, str]) -> str:
    """Which runs have which value."""
    runs: dict[str, list[str]] = defaultdict(list)
    for label, value in told.items():
        runs[value].append(label)
    return "; ".join(f"{value or 'empty'} in {', '.join(labels)}" for value, labels in runs.items())


def _uncommitted(runs: Sequence[Run]) -> list[Difference]:
    """Code that no commit describes may differ although its commit does not."""
    labels = [run.label for run in runs if run.manifest["git"].get("dirty")]
    if not labels:
        return []
    sentence = f"Code with uncommitted changes made {', '.join(labels)}; what was changed is not known."
    return [{"kind": "code", "sentence": sentence}]
