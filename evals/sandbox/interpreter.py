"""The Python that programs run on: where it lies and what it can import."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from trinity.errors import ConfigError

ASK = """
import json, site, sys, sysconfig
standard = sysconfig.get_path("stdlib")
paths = [path for path in sys.path if path.startswith(standard) and "-packages" not in path]
print(json.dumps({
    "executable": sys.executable, "version": sys.version.split()[0], "paths": paths + site.getsitepackages(),
    "roots": sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}),
}))
"""
PATIENCE_S = 60


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter.

    Attributes:
        executable: its path, which may be a link in a virtual environment.
        version: as `3.11.7`.
        roots: folders that hold it and what it imports.
        paths: its import path: standard library and installed packages; no user folder, no working folder.
    """

    executable: str
    version: str
    roots: tuple[str, ...]
    paths: tuple[str, ...]


@functools.lru_cache(maxsize=16)
def interpreter(python: str | None) -> Interpreter:
    """Ask an interpreter about itself; None is the one that runs this.

    Raises:
        ConfigError: it cannot be run.
    """
    command = [python or sys.executable, "-I", "-c", ASK]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)  # noqa: S603
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise ConfigError(
            f"sandbox.python: {command[0]} does not run ({reason}); name a Python 3.9 or later"
        ) from error
    paths = tuple(dict.fromkeys(path for path in found["paths"] if Path(path).exists()))
    return Interpreter(found["executable"], found["version"], tuple(found["roots"]), paths)
