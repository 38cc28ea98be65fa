"""Where a run lives and which configuration rules it: its own folder, or that of the run it goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from trinity.errors import ConfigError, LedgerError
from trinity.runs.manifest import read_manifest

CHANGEABLE = ("concurrency", "debug", "resume")
"""Keys that a resumed run may set anew: limits and what touches no result."""


def saved_run(cfg: DictConfig, overrides: list[str]) -> tuple[Path, DictConfig, list[str]]:
    """Folder and configuration of the run that `cfg.resume` names, and what the command line changes in it.

    Raises:
        LedgerError: there is no run in that folder, or it is finished.
        ConfigError: the command line asks for something that the saved configuration rules.
    """
    folder = Path(cfg.resume)
    manifest = read_manifest(folder / "manifest.json")
    if manifest["finished"]:
        raise LedgerError(f"{folder}: this run is finished; look at its report.md or replay it")
    saved = OmegaConf.create(manifest["config"])
    changes = [word for word in overrides if word.split("=")[0].lstrip("+~") not in ("resume", "debug")]
    if any(word.split("=")[0] not in CHANGEABLE for word in changes):
        _refuse_difference(saved, cfg)
    for key in CHANGEABLE:
        OmegaConf.update(saved, key, OmegaConf.select(cfg, key))
    return folder, saved, [word for word in changes if word.split("=")[0] in CHANGEABLE]


def _refuse_difference(saved: DictConfig, cfg: DictConfig) -> None:
    before, now = _flat(OmegaConf.to_container(saved)), _flat(OmegaConf.to_container(cfg, resolve=True))
    for key in sorted(before.keys() | now.keys()):
        if key not in CHANGEABLE and before.get(key) != now.get(key):
            raise ConfigError(
                f"resume={cfg.resume}: {key} was {before.get(key)} and cannot become {now.get(key)}; "
                f"a resumed run may change {', '.join(CHANGEABLE[:1])} only, start a new run instead"
            )


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    parts: dict[str, Any] = {}
    for key, entry in value.items():
        parts |= _flat(entry, f"{prefix}.{key}".lstrip("."))
    return parts
