"""Run cards: what of a run may leave its folder, as a folder of a few files that is kept with the code."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trinity.errors import ConfigError, LedgerError
from trinity.runs.files import read_json, write_json
from trinity.runs.manifest import read_finished
from trinity.runs.records import read_records, write_records
from trinity.runs.sharing import shareable_manifest, shareable_records

FILES = ("manifest.json", "summary.json", "analysis.json", "records.parquet")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def write_card(run: Path, root: Path, name: str, *, force: bool = False) -> Path:
    """Write `root/name` with a run's manifest, summary, records and, where it has one, analysis; the card's folder.

    What may not leave the run is left out. There is the old card or the new one, never half of it; `force` replaces
    that of another run.

    Raises:
        ConfigError: the name is none for a folder.
        LedgerError: the run is not finished, something of it is missing or damaged, another run's card is there, or it
            could not be written.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!a} cannot name a card; use letters, digits, dots, dashes and underscores")
    manifest = read_finished(run)
    card = root / name
    _check_free(card, manifest, force=force)
    new = root / f".tmp-{os.getpid()}-{secrets.token_hex(6)}"
    try:
        new.mkdir(parents=True)
        write_json(new / "manifest.json", shareable_manifest(manifest))
        write_json(new / "summary.json", read_json(run / "summary.json"))
        if (run / "analysis.json").exists():
            write_json(new / "analysis.json", read_json(run / "analysis.json"))
        write_records(new / "records.parquet", shareable_records(read_records(run / "records.parquet"), manifest))
        _put(new, card)
    except OSError as error:
        raise LedgerError(f"cannot write {card}: {error.strerror or error}; choose another place") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return card


def _check_free(card: Path, manifest: Mapping[str, Any], *, force: bool) -> None:
    """LedgerError for a place that holds anything but an older card of this run, or of any run with `force`."""
    if not card.exists():
        return
    if not card.is_dir() or {file.name for file in card.iterdir()} - set(FILES):
        raise LedgerError(f"{card} is no run card and stays as it is; choose another name")
    if not (card / "manifest.json").exists() or force:
        return
    other = read_json(card / "manifest.json")
    if any(other.get(key) != manifest.get(key) for key in ("run_id", "started")):
        raise LedgerError(f"{card} is the card of run {other.get('run_id')}; choose another name, or give --force")


def _put(new: Path, card: Path) -> None:
    """Let `new` take the place of `card`; where that fails, the old card stands again."""
    old = new.with_name(f"{new.name}-old")
    if card.exists():
        card.rename(old)
    try:
        new.rename(card)
    except OSError:
        if old.exists():
            old.rename(card)
        raise
    shutil.rmtree(old, ignore_errors=True)
