"""Objects from a resolved configuration, the same for a live run and a replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from trinity.arena import Contender
from trinity.canonical import sha256
from trinity.config import build
from trinity.errors import ConfigError
from trinity.grading import judged
from trinity.llm.budget import Budget, Caps
from trinity.llm.client import Rules
from trinity.llm.retry import RetryPolicy
from trinity.prepared import facts_of
from trinity.runs.manifest import circumstances
from trinity.splits import check_disjoint
from trinity.types import SPLITS, Agent, Bill, Item, Phase, Price, Spend, Split, Task


def node(config: Mapping[str, Any]) -> DictConfig:
    """A plain configuration as the node that `build` reads."""
    return OmegaConf.create(dict(config))


def build_at(config: DictConfig, group: str, name: str) -> Any:
    """What an entry of a group describes.

    Raises:
        ConfigError: it is null, no mapping, or wrong.
    """
    entry = config[group][name]
    if not isinstance(entry, DictConfig):
        raise ConfigError(f"{group}.{name}={entry}: must be a mapping with a _target_; ~{group}.{name} leaves it out")
    return build(entry)


def build_tasks(config: DictConfig) -> dict[str, Task]:
    """Task name -> task, in config order.

    Raises:
        ConfigError: no task, or one is configured wrongly.
    """
    tasks: dict[str, Task] = {name: build_at(config, "tasks", name) for name in config.tasks}
    if not tasks:
        raise ConfigError("no task is chosen; give task=[NAME, ...]")
    for name, task in tasks.items():
        if task.name != name:
            raise ConfigError(f"tasks.{name}: the task calls itself {task.name}; give it that key")
    return tasks


def build_contenders(config: DictConfig) -> dict[str, Contender]:
    """Method name -> contender, in config order.

    Raises:
        ConfigError: no method, or one is configured wrongly.
    """
    contenders: dict[str, Contender] = {name: build_at(config, "methods", name) for name in config.methods}
    if not contenders:
        raise ConfigError("no method is chosen; give method=[NAME, ...]")
    return contenders


def all_items(tasks: Mapping[str, Task]) -> Iterator[tuple[Split, Item]]:
    """Every item with its split, streamed."""
    for task in tasks.values():
        for split in SPLITS:
            for item in task.items(split):
                yield split, item


def shown_texts(agents: Iterable[Agent]) -> Iterator[tuple[Split, Item]]:
    """What agents are told before they answer, line by line: worked examples and profiles count as training."""
    for agent in agents:
        for number, line in enumerate(f"{agent.style}\n{agent.profile}".splitlines()):
            if line.strip():
                text = line.removeprefix("Question:")
                yield "train", Item(f"{agent.name}-{number}", "(texts shown to agents)", text, "", "")


def checked_items(tasks: Mapping[str, Task], agents: Iterable[Agent] = ()) -> dict[str, dict[str, list[str]]]:
    """Item ids by task and split, after a look at every item and at what `agents` are shown.

    Raises:
        SplitError: two splits share an item.
        ConfigError: a split is empty, or an item belongs to another task.
        DataError: a task's data is missing or broken.
    """
    check_disjoint(chain(shown_texts(agents), all_items(tasks)))
    return {name: {split: _ids(task, split) for split in SPLITS} for name, task in tasks.items()}


def _ids(task: Task, split: Split) -> list[str]:
    """Ids of a split's items, which are all the task's own."""
    found = [(item.task, item.item_id) for item in task.items(split)]
    names = {name for name, _ in found}
    if names != {task.name}:
        raise ConfigError(f"task {task.name}: its {split} split holds items of {', '.join(names) or 'nothing'}")
    return [item_id for _, item_id in found]


def rules(config: DictConfig, spent: Mapping[Bill, Spend]) -> Rules:
    """What bounds a run's calls; `spent` is what it has spent before it was resumed.

    Raises:
        ConfigError: a cap or a limit is wrong.
    """
    caps = Caps.from_config(config.budget)
    return Rules(
        budget=Budget(caps.run, caps.phases, spent),
        episode=caps.episode,
        retries=RetryPolicy(**config.retry),
        concurrency=config.concurrency,
    )


def phase_seeds(config: DictConfig) -> dict[Phase, int]:
    """The noise seed of each phase: training's own, and the test's, which all training seeds share."""
    return {"train": config.seed, "val": config.seed, "reeval": config.seed, "test": config.eval.seed}


def prompt_hashes() -> dict[str, str]:
    """SHA-256 of every prompt file, by package path."""
    hashes: dict[str, str] = {}
    for package in ("trinity.coordinator", "baselines", "evals.tasks", "evals.graders"):
        root = Path(str(resources.files(package).joinpath("prompts")))
        for file in sorted(root.rglob("*.txt")):
            hashes[f"{package}/{file.relative_to(root).as_posix()}"] = sha256(file.read_bytes())
    return hashes


def describe(agent: Agent) -> dict[str, Any]:
    """An agent as the manifest keeps it: every field, so that `agent_from` needs no other file."""
    return asdict(replace(agent, sampling=dict(agent.sampling), extra_body=dict(agent.extra_body)))


def agent_from(described: Mapping[str, Any]) -> Agent:
    """The agent that `describe` described."""
    price = described["price"]
    return Agent(**{**described, "price": None if price is None else Price(**price)})


def new_manifest(
    config: DictConfig,
    folder: Path,
    pool: Mapping[str, Any],
    agents: list[Agent],
    tasks: Mapping[str, Task],
    splits: Mapping[str, Mapping[str, list[str]]],
    judge: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The manifest of a run that starts now; `pool` is what `Pool.settings()` says, `judge` that of `Seat.facts()`."""
    resolved = cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True))
    asked = [*agents, agent_from(judge["agent"])] if judge else agents
    priced = sorted({agent.price.source for agent in asked if agent.price})
    return {
        "config": resolved,
        "pool_kind": pool["kind"],
        "seeds": {"seed": config.seed, "data.seed": config.data.seed, "eval.seed": config.eval.seed},
        "threads": {name: engine["threads"] for name, engine in pool["endpoints"].items() if "threads" in engine},
        "endpoints": pool["endpoints"],
        "data": {name: task.fingerprint() for name, task in tasks.items()},
        "graders": {name: task.grader for name, task in tasks.items()},
        "prompts": prompt_hashes(),
        "splits": splits,
        "price_table": "; ".join(priced) or None,
        **circumstances(),
        "run_id": "/".join(folder.parts[-2:]),
        "folder": str(folder),
        "recipe": OmegaConf.to_container(config, resolve=False),
        "experiment": config.name,
        "pool": pool["name"],
        "agents": [describe(agent) for agent in agents],
        "missing_agents": dict(pool["missing"]),
        "judge": judge,
        "tasks": [_task_facts(name, task) for name, task in tasks.items()],
        "weights": _weights(pool["endpoints"].values()),
        "private": any(task.redistribute != "yes" for task in tasks.values()),
        "encoder": None,
        "finished": False,
    }


def _task_facts(name: str, task: Task) -> dict[str, Any]:
    told = {"name": name, "chance": task.chance, "licence": task.licence, "redistribute": task.redistribute}
    if judged(task):
        told["judged"] = True
    facts = facts_of(task)
    return told if facts is None else {**told, "facts": facts}


def _weights(engines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"name": engine["weights"], "licence": engine["licence"], "sha256": engine["weights_sha256"]}
        for engine in engines
        if "weights" in engine
    ]
