"""Checkpoints of a training run and the policies that come of it; nothing is pickled."""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trinity.canonical import canonical_json, sha256
from trinity.errors import LedgerError
from trinity.runs.files import write_atomic
from trinity.runs.sqlite import pack, unpack

Arrays = dict[str, NDArray[Any]]

KEPT = 2
"""Generations that stay in the folder: the newest and, should that be damaged, the one before."""

_NAME = re.compile(r"generation-(\d{6,})\.npz")
_STATE = "state"
_PREFIX = "array."
_THETA = "theta"
_DIGEST = "theta_sha256"
_NOTED = "trinity"


class Checkpoint:
    """A folder with one file a generation: small arrays and JSON state, the fitness vectors so far among them."""

    def __init__(self, folder: Path) -> None:
        """`folder` is made by the first save."""
        self.folder = folder

    def save(self, index: int, arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> None:
        """Write generation `index` in one step, then delete all but the last two.

        Generations after `index` belong to a past that was given up; they are deleted too.

        Raises:
            LedgerError: it could not be written; the earlier generations are as before.
            ValueError: an array holds objects, or `state` NaN or infinity.
        """
        _make(self.folder)
        write_atomic(self.folder / f"generation-{index:06d}.npz", _pack(arrays, state))
        self._prune(index)

    def latest(self) -> tuple[int, Arrays, dict[str, Any]] | None:
        """Index, arrays and state of the newest generation that is whole; None when there is none at all.

        Raises:
            LedgerError: there are generations and all are damaged.
        """
        files = self._files()
        for index in sorted(files, reverse=True):
            try:
                return index, *_load(files[index])
            except LedgerError as error:
                damage = error
        if files:
            raise LedgerError(f"{damage}; so are all in that folder, delete it to train again from the start")
        return None

    def _files(self) -> dict[int, Path]:
        if not self.folder.is_dir():
            return {}
        found = ((_NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return {int(match[1]): path for match, path in found if match}

    def _prune(self, index: int) -> None:
        files = self._files()
        kept = sorted(number for number in files if number <= index)[-KEPT:]
        for number in files.keys() - set(kept):
            files[number].unlink(missing_ok=True)


def _pack(arrays: Mapping[str, NDArray[Any]], state: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    entries = {_PREFIX + name: np.asarray(array) for name, array in arrays.items()}
    np.savez(buffer, allow_pickle=False, **entries, **{_STATE: np.frombuffer(pack(state), np.uint8)})
    return buffer.getvalue()


def _load(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and state of a checkpoint file; its zip checksums show damage.

    Raises:
        LedgerError: it is damaged.
    """
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            state = unpack(file[_STATE].tobytes())
            arrays = {name.removeprefix(_PREFIX): file[name] for name in file.files if name != _STATE}
    except (OSError, ValueError, LookupError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise LedgerError(f"{path} is damaged: {error}") from error
    return arrays, state


def save_policy(path: Path, theta: NDArray[Any], metadata: Mapping[str, str]) -> None:
    """Write `theta` (n,) and `metadata` as safetensors, in one step; equal content gives equal bytes.

    Raises:
        LedgerError: it could not be written; an older file is as before.
    """
    from safetensors.numpy import save

    _make(path.parent)
    theta = np.ascontiguousarray(theta)
    # One entry: safetensors writes several in an order that changes from process to process.
    noted = canonical_json({**metadata, _DIGEST: sha256(theta.tobytes())})
    write_atomic(path, save({_THETA: theta}, {_NOTED: noted}))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(f"cannot make {folder}: {error.strerror or error}") from error


def load_policy(path: Path) -> tuple[NDArray[Any], dict[str, str]]:
    """`theta` (n,) with its dtype, and the metadata.

    Raises:
        LedgerError: the file is missing or damaged, or holds no row of parameters.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata: dict[str, str] = json.loads((file.metadata() or {})[_NOTED])
            theta = file.get_tensor(_THETA)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise LedgerError(f"{path} is missing or no policy: {error}") from error
    if metadata.pop(_DIGEST, None) != sha256(theta.tobytes()):
        raise LedgerError(f"{path} is damaged: theta is not what was stored")
    if theta.ndim != 1:
        raise LedgerError(f"{path} holds theta of shape {theta.shape}, and no row of parameters")
    return theta, metadata
