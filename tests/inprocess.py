"""Running the commands in this process: what needs no process of its own costs a tenth so."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from unittest.mock import patch


def played(module: str, *words: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """What `tests.commands.command` gives: exit code, stdout and stderr of `python -m module words`."""
    told, errors = io.StringIO(), io.StringIO()
    with (
        chdir(cwd),
        patch.dict(os.environ, {"NO_COLOR": "1", "COLUMNS": "200", **extra}),
        patch.object(sys, "argv", [module, *words]),
        redirect_stdout(told),
        redirect_stderr(errors),
    ):
        code = import_module(module).main()
    return subprocess.CompletedProcess([module, *words], code, told.getvalue(), errors.getvalue())
