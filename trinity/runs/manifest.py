"""`manifest.json`: what a run was made of, without secrets."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from trinity.errors import LedgerError
from trinity.launch.overrides import quoted
from trinity.runs.files import read_json, write_json
from trinity.secrets import MARK, SHORTEST, forms, in_environment, replaced
from trinity.stopping import command_line

FORMAT = 1
PACKAGES = (
    "trinity-suite",
    "aiohttp",
    "cma",
    "datasets",
    "gguf",
    "huggingface-hub",
    "hydra-core",
    "litellm",
    "numpy",
    "omegaconf",
    "pandas",
    "pyarrow",
    "safetensors",
    "scipy",
    "statsmodels",
    "tokenizers",
    "torch",
    "transformers",
    "xllamacpp",
)
"""Distributions whose versions are noted; those that are not installed are left out."""

_GIT_TIMEOUT_S = 10.0
_PLAIN = re.compile(r"(?!(?i:null|true|false|inf|nan)\Z)[A-Za-z_][A-Za-z0-9_.-]*|[A-Za-z0-9_.-]*/[A-Za-z0-9_./-]*")
"""Names that mean themselves to shell and Hydra: no number, no null."""
# scheme, user info, host and path, query and fragment; user info may hold anything but the ends of an authority
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/?#]*@)?([^\s?#]*)(?:[?#]\S*)?")


def circumstances() -> dict[str, Any]:
    """What the manifest of a run that starts now says of it by itself; `wall_time_s` is 0 until `add_wall_time`."""
    commit, dirty = git_state(Path(__file__).parent)
    return {
        "format": FORMAT,
        "git": {"commit": commit, "dirty": dirty},
        "python": sys.version.split()[0],
        "packages": package_versions(),
        "machine": machine(),
        "started": _now(),
        "wall_time_s": 0.0,
        "changes": [],
    }


def write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Write `manifest` in one step, with secrets and the private parts of URLs redacted.

    What is also the name of an agent or the like is left alone: ledger and tables hold it too, and no replay would
    find a `***`.

    Raises:
        LedgerError: it could not be written, or a secret would still stand in it.
    """
    secrets = _secrets(manifest)
    clean = _redacted(manifest, sorted(secrets, key=len, reverse=True))
    text = json.dumps(clean, ensure_ascii=False)
    for form, name in secrets.items():
        if form in text:
            raise LedgerError(
                f"{path} was not written: the value of {name} would stand in it; remove it from the config"
            )
    write_json(path, clean)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run.

    Raises:
        LedgerError: it is missing, damaged or of another version.
    """
    if not path.exists():
        raise LedgerError(f"{path.parent} is no run: it has no {path.name}; give a folder such as outputs/NAME/TIME")
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise LedgerError(f"{path} is no manifest of this version (format {FORMAT})")
    return manifest


def resuming(run: Path | str, *, sweep: bool = False) -> str:
    """The shell's command line that goes on with a run's folder, or a sweep's."""
    folder = str(run) if _PLAIN.fullmatch(str(run)) else quoted(str(run))
    return command_line("trinity.run", *(["-m"] if sweep else []), f"resume={folder}")


def check_finished(run: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse the manifest of a run that may still change.

    Raises:
        LedgerError: the run is not finished; says how to go on.
    """
    if not manifest.get("finished"):
        raise LedgerError(f"{run}: this run is not finished; go on with: {resuming(run)}")


def read_finished(run: Path) -> dict[str, Any]:
    """The manifest of a finished run's folder.

    Raises:
        LedgerError: there is none, or the run is not finished.
    """
    manifest = read_manifest(run / "manifest.json")
    check_finished(run, manifest)
    return manifest


def append_change(path: Path, note: str) -> None:
    """Note in the manifest what was changed after the start, with the time.

    Raises:
        LedgerError: it could not be read or written.
    """
    manifest = read_manifest(path)
    manifest["changes"].append({"time": _now(), "note": note})
    write_manifest(path, manifest)


def add_wall_time(path: Path, seconds: float) -> None:
    """Add the time that a run, or its continuation, took.

    Raises:
        LedgerError: the manifest could not be read or written.
    """
    manifest = read_manifest(path)
    manifest["wall_time_s"] += seconds
    write_manifest(path, manifest)


def redact_url(url: str) -> str:
    """`url` without user info, query and fragment."""
    return _URL.sub(r"\1\2", url)


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout that tracks this module and whether it has changes; (None, None) outside one."""
    if _git(folder, "ls-files", "--error-unmatch", __file__) is None:
        return None, None
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain")
    return commit, None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of a git command, None when it fails."""
    program = shutil.which("git")
    if program is None:
        return None
    command = [program, "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=True)  # noqa: S603
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def package_versions() -> dict[str, str]:
    """Versions of the installed packages that shape a run."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Processor, cores (of the machine and usable here), memory in bytes, platform."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "platform": platform.platform(),
    }


def _cpu_model() -> str:
    try:
        with Path("/proc/cpuinfo").open() as lines:
            names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
            return next(names, platform.processor())
    except OSError:
        return platform.processor()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _secrets(manifest: Mapping[str, Any]) -> dict[str, str]:
    """What must not stand in `manifest`: each form of the secrets in the environment, with its variable."""
    names = _identifiers(manifest)
    written = {form: name for value, name in in_environment().items() if value not in names for form in forms(value)}
    return {form: name for form, name in written.items() if len(form) >= SHORTEST}


def _identifiers(manifest: Mapping[str, Any]) -> set[Any]:
    """What a run calls its pool, methods and agents, their endpoints and models."""
    agents = [*manifest.get("agents", ()), (manifest.get("judge") or {}).get("agent") or {}]
    named = [agent.get(key) for agent in agents for key in ("name", "endpoint", "model")]
    methods = manifest.get("config", {}).get("methods") or ()
    return {manifest.get("pool"), *methods, *named}


def _redacted(value: Any, secrets: Sequence[str]) -> Any:
    """`value` with every secret and the private part of every URL replaced, in keys and values."""
    if isinstance(value, str):
        return redact_url(replaced(value, secrets))
    if isinstance(value, Mapping):
        return {redact_url(replaced(str(key), secrets)): _redacted(entry, secrets) for key, entry in value.items()}
    if isinstance(value, Sequence):
        return [_redacted(entry, secrets) for entry in value]
    hidden = any(secret in json.dumps(value) for secret in secrets)
    return MARK if hidden else value
