"""A command whose configuration Hydra composes, once or as a sweep."""

from __future__ import annotations

import sys
from pathlib import Path

from omegaconf import DictConfig

from trinity.cli import print_text
from trinity.config import find_configs, group_options, register_schema
from trinity.errors import ConfigError
from trinity.hydra_errors import hydra_raises
from trinity.jobs import Task, attempt, call_hydra, from_here, remove_empty
from trinity.overrides import Line, read_line, search_paths
from trinity.plugins import check_clashes, name_folders


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


def _play_once(task: Task, line: Line, name: str) -> int:
    from trinity.runs.sweep import can_resume, is_whole

    codes: list[int] = []

    def job(cfg: DictConfig) -> None:
        from hydra.core.hydra_config import HydraConfig

        folder = from_here(Path(HydraConfig.get().runtime.output_dir))
        try:
            codes.append(attempt(_not_on_sweeps(task), cfg).code)
        except KeyboardInterrupt as stop:
            begun = Path(cfg.resume) if cfg.resume else folder
            if not can_resume(begun) or is_whole(begun):
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


def _print_help(usage: str) -> int:
    """Hydra's own help composes everything first and takes longer with every group."""
    groups = [f"  {group}: {', '.join(group_options(group))}" for group in group_options("")]
    print_text(usage.replace("{groups}", "\n".join(groups)))
    return 0
