"""One job that Hydra composes: called, checked, run, and its end put into a line and a code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from trinity.cli import report, told
from trinity.config import check, find_configs
from trinity.errors import BudgetError, ConfigError
from trinity.launch.hydra_errors import explain
from trinity.launch.overrides import SEARCH_PATH, Line, joined_paths, keep_chosen, quoted
from trinity.launch.plugins import plugins
from trinity.runs.sweep import job_name

Main = Callable[[DictConfig], int]
"""What a command does with a composed configuration; its exit code."""

CONFIG = "config"
"""The file in `conf/` from which everything is composed."""


def job_folder(overrides: Any) -> str:
    """The name of a job's folder in a sweep, for `hydra.sweep.subdir`."""
    return job_name(str(word) for word in overrides)


# Where a launcher starts processes, they load this module before Hydra asks them for a job's folder.
OmegaConf.register_new_resolver("job_folder", job_folder, replace=True)


class Ending(NamedTuple):
    """How a job ended: its exit code, its line on stderr, and whether it reached a cap and can be gone on with."""

    code: int
    line: str = ""
    capped: bool = False


def call_hydra(job: Callable[[DictConfig], None], line: Line) -> None:
    """Let Hydra run `job` on what `line` says.

    Raises:
        Exception: whatever Hydra, its launcher or `job` raises.
    """
    import hydra

    main = hydra.main(config_path=str(find_configs()), config_name=CONFIG, version_base="1.3")(job)
    before = sys.argv
    sys.argv = [before[0], *line.flags, *with_plugins(line.words)]
    try:
        main()
    except SystemExit as stop:  # flags that print something leave so
        if stop.code:
            raise ConfigError("Hydra stopped without saying why; --hydra-help explains its flags") from stop
    finally:
        sys.argv = before


def with_plugins(words: tuple[str, ...]) -> list[str]:
    """`words` with the plug-ins' folders behind those that they name themselves."""
    places = ",".join(quoted(f"file://{plugin.folder}") for plugin in plugins())
    return joined_paths([*words, f"{SEARCH_PATH}=[{places}]"] if places else words)


def attempt(main: Main, cfg: DictConfig) -> Ending:
    """Check `cfg` and run `main` on it; an error becomes its line on stderr and its exit code."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf.errors import OmegaConfBaseException

    failed: Exception
    try:
        words: Any = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)
        keep_chosen(cfg, map(str, words))
        check(cfg)
        return Ending(main(cfg))
    except OmegaConfBaseException as error:
        failed = ConfigError(explain(error)).with_traceback(error.__traceback__)
    except Exception as error:  # noqa: BLE001 - Hydra would print two lines of its own around it
        failed = error
    report(failed, debug=cfg.debug)
    return Ending(*told(failed), isinstance(failed, BudgetError))


def from_here(folder: Path) -> Path:
    """`folder` from where the user stands, if it lies below; what is written down then names no machine's path."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def remove_empty(folder: Path) -> None:
    """Hydra makes the run folder before the run can refuse to start."""
    with suppress(OSError):
        folder.rmdir()
