"""Taking a run up again: its folder, the configuration that rules it, and whether it is still the same run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from trinity.config import RESUMABLE, within
from trinity.errors import ConfigError, LedgerError
from trinity.runs.files import held
from trinity.runs.ledger import ungraded_in
from trinity.runs.manifest import read_manifest, redact_url, resuming


def saved_run(cfg: DictConfig, overrides: list[str]) -> tuple[Path, DictConfig, list[str]]:
    """Folder and configuration of the run that `cfg.resume` names, and what the command line changes in it.

    Raises:
        LedgerError: there is no run in that folder, or nothing is left to do in it.
        ConfigError: it is a sweep, or the command line asks for something that the saved configuration rules.
    """
    folder = Path(cfg.resume)
    if (folder / "sweep.json").exists():
        raise ConfigError(f"{folder} is a sweep; go on with: {resuming(folder, sweep=True)}")
    manifest = read_manifest(folder / "manifest.json")
    if manifest["finished"] and not ungraded_in(folder):
        raise LedgerError(f"{folder}: this run is finished; look at its report.md or replay it")
    saved = OmegaConf.create({**_added_since(manifest["recipe"], cfg), **manifest["recipe"]})
    saved.plan = cfg.plan
    named = {word.split("=")[0].lstrip("+~"): word for word in overrides if not word.startswith(("resume=", "plan="))}
    if not all(within(key, RESUMABLE) for key in named):
        _refuse_difference(saved, cfg, named.keys())
    changed = [key for key in named if within(key, RESUMABLE)]
    whole = [branch for branch in RESUMABLE if any(branch.startswith(f"{key}.") for key in named)]
    for key in [*whole, *changed]:
        OmegaConf.update(saved, key, OmegaConf.select(cfg, key), merge=False, force_add=True)
    return folder, saved, [word for key, word in named.items() if key in changed or whole]


def _added_since(saved: Mapping[str, Any], cfg: DictConfig) -> dict[str, Any]:
    """The keys that shape no result and that an earlier version did not write down yet."""
    return {key: cfg[key] for key in RESUMABLE if key in cfg and key not in saved}


def check_unused(folder: Path) -> None:
    """Refuse a folder that holds a run: a new one would write over its ledger, which has what was paid for.

    Raises:
        LedgerError: it does; says how to go on with that run.
    """
    if any((folder / name).exists() for name in ("manifest.json", "ledger.sqlite")):
        raise LedgerError(
            f"{folder} holds a run already; go on with: {resuming(folder)}, or give another hydra.run.dir"
        )


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a run's folder, which one process at a time may work in; the system lets go however the process ends.

    What a killed process left half written is taken away.

    Raises:
        LedgerError: another process holds it.
    """
    with held(folder / "lock", f"{folder}: another process works in this run; wait for it or stop it"):
        for part in [*folder.glob(".tmp-*"), *folder.glob("*/.tmp-*")]:
            part.unlink(missing_ok=True)
        yield


def changes_since(manifest: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for everything that shapes results and is not what it was when the run began.

    Both are manifests; `now` is the one that the same run would get today.
    """
    for part, name in (("prompts", "prompt file"), ("data", "data of task"), ("graders", "grader of task")):
        # A run can have used no prompt file that came later.
        later = set() if part == "prompts" else now[part].keys()
        for key in sorted(manifest[part].keys() | later):
            if manifest[part].get(key) != now[part].get(key):
                yield f"{name} {key} has changed"
    before, after = ({agent["name"]: agent for agent in one["agents"]} for one in (manifest, now))
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            yield f"agent {key} has changed or is missing"
    for key in sorted(manifest["endpoints"].keys() & now["endpoints"].keys()):
        if manifest["endpoints"][key]["endpoint_id"] != now["endpoints"][key]["endpoint_id"]:
            yield f"endpoint {key} is another one"
    if _judged_by(manifest) != _judged_by(now):
        yield "the judge is another one"


def _judged_by(manifest: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The judge's agent and who serves it; what a machine says of an endpoint besides may change."""
    judge = manifest.get("judge")
    if judge is None:
        return None
    return judge["agent"], [endpoint["endpoint_id"] for endpoint in judge["endpoints"].values()]


def moved_facts(manifest: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for everything that a task tells of this machine and that it told otherwise when the run began."""
    before = {task["name"]: _flat(task.get("facts") or {}) for task in manifest["tasks"]}
    for task in now["tasks"]:
        facts, was = _flat(task.get("facts") or {}), before.get(task["name"], {})
        for key in sorted(facts.keys() | was.keys()):
            if facts.get(key) != was.get(key):
                yield f"task {task['name']}: {key} was {was.get(key)} and is {facts.get(key)}"


def _refuse_difference(saved: DictConfig, cfg: DictConfig, named: Iterable[str]) -> None:
    """Compare the configurations, the keys that the command line names first."""
    before, now = (_flat(OmegaConf.to_container(config, resolve=True)) for config in (saved, cfg))
    keys = before.keys() | now.keys()
    for key in [*sorted(keys & set(named)), *sorted(keys)]:
        if key not in ("resume", "plan") and not within(key, RESUMABLE) and before.get(key) != now.get(key):
            was, wanted = (redact_url(str(flat.get(key))) for flat in (before, now))
            raise ConfigError(
                f"resume={cfg.resume}: {key} was {was} and cannot become {wanted}; "
                f"a resumed run may change {', '.join(RESUMABLE)} only; start a new run instead"
            )


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    parts: dict[str, Any] = {}
    for key, entry in value.items():
        parts |= _flat(entry, f"{prefix}.{key}".lstrip("."))
    return parts
