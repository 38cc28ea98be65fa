"""A GGUF file as a transformers folder, converted once and kept: the folder loads ten times faster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from trinity.canonical import canonical_json
from trinity.errors import LedgerError, WeightsError
from trinity.runs.files import file_sha256

Dtype = Literal["bfloat16", "float32"]

_MANIFEST = "conversion.json"
_MAGIC = b"GGUF"
_NO_DOWNLOADS = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def converted(path: Path, cache_dir: Path, dtype: Dtype) -> Path:
    """Folder under `cache_dir` that `from_pretrained` reads, made from the GGUF file `path` unless it is there.

    Keyed by the file's SHA-256, the version of transformers and `dtype`. Every file of a folder is checked against
    its manifest before use and a damaged folder is made again. Two processes at once convert once. No network.

    Raises:
        WeightsError: `path` is missing or no readable GGUF file, or the folder cannot be written.
    """
    source = _checked_sha256(path)
    folder = cache_dir / f"{source[:16]}-transformers-{version('transformers')}-{dtype}"
    try:
        _ensure(path, source, folder, dtype)
    except (OSError, LedgerError) as error:
        raise WeightsError(f"{folder}: the converted weights cannot be kept there ({error})") from error
    return folder


def source_sha256(folder: Path) -> str:
    """SHA-256 (hex) of the GGUF file that a converted folder was made from."""
    return str(json.loads((folder / _MANIFEST).read_text("utf-8"))["source"])


def _checked_sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        if magic != _MAGIC:
            raise WeightsError(f"{path}: not a GGUF file (it does not start with 'GGUF'); fetch it again")
        return file_sha256(path)
    except (OSError, LedgerError) as error:
        raise WeightsError(f"{path}: cannot be read ({error}); check the path of the weights") from error


def _ensure(path: Path, source: str, folder: Path, dtype: Dtype) -> None:
    from filelock import FileLock

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        if _intact(folder):
            return
        # Whoever holds the lock is the only writer: what else lies here was left by a process that was killed.
        for left in folder.parent.glob(f".{folder.name}-*"):
            shutil.rmtree(left)
        _replace(path, source, folder, dtype)


def _replace(path: Path, source: str, folder: Path, dtype: Dtype) -> None:
    sys.stderr.write(f"converting {path.name} to {dtype} for the encoder (once, up to a minute) ...\n")
    sys.stderr.flush()
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _convert(path, made, dtype)
        (made / _MANIFEST).write_text(canonical_json({"source": source, "files": _listing(made)}), "utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _listing(folder: Path) -> dict[str, list[Any]]:
    """File name -> [size in bytes, SHA-256]."""
    files = sorted(file for file in folder.iterdir() if file.name != _MANIFEST)
    return {file.name: [file.stat().st_size, file_sha256(file)] for file in files}


def _intact(folder: Path) -> bool:
    try:
        expected = json.loads((folder / _MANIFEST).read_text("utf-8"))["files"]
        return bool(expected) and _listing(folder) == expected
    except (OSError, LedgerError, ValueError, KeyError, TypeError):
        return False


def _convert(path: Path, target: Path, dtype: Dtype) -> None:
    """Convert in a process of its own: its noise, its settings and its memory peak end with it."""
    command = [sys.executable, "-P", "-W", "ignore", "-m", __name__, str(path.resolve()), str(target), dtype]
    environment = {**os.environ, **_NO_DOWNLOADS, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(  # noqa: S603 - our own interpreter and module
        command, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise WeightsError(f"{path}: cannot be converted (exit status {done.returncode}): {last}")


def _write(path: Path, target: Path, dtype: Dtype) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    place: dict[str, Any] = {"gguf_file": path.name, "local_files_only": True}
    model = AutoModel.from_pretrained(path.parent, dtype=getattr(torch, dtype), **place)
    # The weights are plain tensors by now, but transformers refuses to save a model that remembers a GGUF quantiser.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(path.parent, **place).save_pretrained(target)


if __name__ == "__main__":
    _write(Path(sys.argv[1]), Path(sys.argv[2]), "float32" if sys.argv[3] == "float32" else "bfloat16")
