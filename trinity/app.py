"""A command whose configuration Hydra composes, once or as a sweep."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from trinity.cli import print_text, report, told
from trinity.config import check, find_configs, group_options, register_schema
from trinity.errors import BudgetError, ConfigError
from trinity.explain import explain, hydra_raises
from trinity.plugins import check_clashes, name_folders, plugins
from trinity.words import SEARCH_PATH, Line, joined_paths, quoted, read_line, search_paths

Task = Callable[[DictConfig], int]


def job_folder(overrides: Any) -> str:
    """The name of a job's folder in a sweep, for `hydra.sweep.subdir`."""
    from trinity.runs.sweep import job_name

    return job_name(str(word) for word in overrides)


# Where a launcher starts processes, they load this module before Hydra asks them for a job's folder.
OmegaConf.register_new_resolver("job_folder", job_folder, replace=True)


class Outcome(NamedTuple):
    """How a job ended: its exit code, its line on stderr, and whether it reached a cap and can be gone on with."""

    code: int
    line: str = ""
    capped: bool = False


def hydra_command(task: Task, usage: str, name: str = "config") -> int:
    """Compose the configuration `name` from the command line and run `task` on it, once or for every job of a sweep.

    `--help` prints `usage` instead, with the groups of `conf/` and of plug-ins at `{groups}`.

    Returns:
        The task's exit code; of a sweep see `trinity.multirun.play_sweep`.

    Raises:
        ConfigError: the command line, a file or a plug-in makes no sense.
        KeyboardInterrupt: the task was stopped; says how to go on.
    """
    if {"--help", "-h"} & set(sys.argv[1:]):
        return _print_help(usage)
    register_schema()
    with hydra_raises():
        check_clashes(find_configs())
        line = read_line(sys.argv[1:])
        name_folders(search_paths(line.words))
        if line.multirun:
            from trinity.multirun import play_sweep

            return play_sweep(task, line, name)
        return _play_once(task, line, name)


def call_hydra(job: Callable[[DictConfig], None], line: Line, name: str) -> None:
    """Let Hydra run `job` on what `line` says.

    Raises:
        Exception: whatever Hydra, its launcher or `job` raises.
    """
    import hydra

    main = hydra.main(config_path=str(find_configs()), config_name=name, version_base="1.3")(job)
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


def attempt(task: Task, cfg: DictConfig) -> Outcome:
    """Check `cfg` and run `task` on it; an error becomes its line on stderr and its exit code."""
    from omegaconf.errors import OmegaConfBaseException

    failed: Exception
    try:
        check(cfg)
        return Outcome(task(cfg))
    except OmegaConfBaseException as error:
        failed = ConfigError(explain(error)).with_traceback(error.__traceback__)
    except Exception as error:  # noqa: BLE001 - Hydra would print two lines of its own around it
        failed = error
    report(failed, debug=cfg.debug)
    return Outcome(*told(failed), isinstance(failed, BudgetError))


def from_here(folder: Path) -> Path:
    """`folder` from where the user stands, if it lies below; what is written down then names no machine's path."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _play_once(task: Task, line: Line, name: str) -> int:
    codes: list[int] = []

    def job(cfg: DictConfig) -> None:
        from hydra.core.hydra_config import HydraConfig

        folder = from_here(Path(HydraConfig.get().runtime.output_dir))
        try:
            codes.append(attempt(_not_on_sweeps(task), cfg).code)
        except KeyboardInterrupt as stop:
            begun = Path(cfg.resume) if cfg.resume else folder
            if not (begun / "manifest.json").exists():
                raise
            raise KeyboardInterrupt(f"stopped; go on with: python -m trinity.run resume={begun}") from stop
        finally:
            remove_empty(folder)

    call_hydra(job, line, name)
    return max(codes, default=0)


def _not_on_sweeps(task: Task) -> Task:
    """`task`, but `resume=` of a sweep's folder is refused."""

    def checked(cfg: DictConfig) -> int:
        if cfg.resume and (Path(cfg.resume) / "sweep.json").exists():
            raise ConfigError(f"{cfg.resume} is a sweep; go on with: python -m trinity.run -m resume={cfg.resume}")
        return task(cfg)

    return checked


def remove_empty(folder: Path) -> None:
    """Hydra makes the run folder before the run can refuse to start."""
    with suppress(OSError):
        folder.rmdir()


def _print_help(usage: str) -> int:
    """Hydra's own help composes everything first and takes longer with every group."""
    groups = [f"  {group}: {', '.join(group_options(group))}" for group in group_options("")]
    print_text(usage.replace("{groups}", "\n".join(groups)))
    return 0
