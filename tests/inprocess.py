"""Running the commands without a new interpreter: in this process, or in one forked from a warm one."""

from __future__ import annotations

import io
import multiprocessing
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from importlib import import_module
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest.mock import patch

from tests.commands import ROOT

PLAIN = {"NO_COLOR": "1", "COLUMNS": "200"}
WARM = (
    *("trinity.launch.app", "trinity.experiment", "trinity.launch.multirun", "trinity.llm.transports.openai_http"),
    *("evals.report.reports", "evals.report.table", "hydra.main", "matplotlib.figure"),
    *("matplotlib.backends.backend_svg", "scipy.special", "pandas", "pyarrow.parquet", "cma", "aiohttp", "uvloop"),
)
"""What a run would load; nothing of it starts a thread."""


def played(module: str, *words: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    """What `tests.commands.command` gives: exit code, stdout and stderr of `python -m module words`."""
    told, errors = io.StringIO(), io.StringIO()
    with (
        chdir(cwd),
        patch.dict(os.environ, {**PLAIN, **extra}),
        patch.object(sys, "argv", [module, *words]),
        redirect_stdout(told),
        redirect_stderr(errors),
    ):
        code = import_module(module).main()
    return subprocess.CompletedProcess([module, *words], code, told.getvalue(), errors.getvalue())


def forked(module: str, *words: str, cwd: Path) -> ForkServerProcess:
    """`python -m module words` as a process of its own that has its libraries already; its words are lost."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*WARM])
    process = context.Process(target=_run, args=(module, words, str(cwd)))
    with patch.dict(os.environ, {"PYTHONPATH": str(ROOT)}):  # for the server, which the first process starts
        process.start()
    return process


def _run(module: str, words: tuple[str, ...], cwd: str) -> None:
    """Body of a forked process."""
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    os.chdir(cwd)
    os.environ.update(PLAIN)
    sys.argv = [module, *words]
    sys.exit(import_module(module).main())
