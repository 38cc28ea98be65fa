"""A command whose configuration Hydra composes, once or as a sweep."""

from __future__ import annotations

import sys
from pathlib import Path

from omegaconf import DictConfig

from trinity.cli import print_text
from trinity.config import find_configs, group_options, register_schema
from trinity.launch.hydra_errors import hydra_raises
from trinity.launch.jobs import Main, attempt, call_hydra, from_here, remove_empty
from trinity.launch.overrides import Line, read_line, search_paths
from trinity.launch.plugins import check_clashes, name_folders
from trinity.runs.manifest import resuming
from trinity.runs.sweep import can_resume, is_finished
from trinity.stopping import go_on_by


def hydra_command(main: Main, usage: str) -> int:
    """Compose a configuration from the command line and run `main` on it, once or for every job of a sweep.

    `--help` prints `usage` instead, with the groups of `conf/` and of plug-ins at `{groups}`.

    Returns:
        Its exit code; of a sweep see `trinity.launch.multirun.play_sweep`.

    Raises:
        ConfigError: the command line, a file or a plug-in makes no sense.
        KeyboardInterrupt: `main` was stopped.
    """
    if {"--help", "-h"} & set(sys.argv[1:]):
        return _print_help(usage)
    register_schema()
    with hydra_raises():
        check_clashes(find_configs())
        line = read_line(sys.argv[1:])
        name_folders(search_paths(line.words))
        if line.multirun:
            from trinity.launch.multirun import play_sweep

            return play_sweep(main, line)
        return _play_once(main, line)


def _play_once(main: Main, line: Line) -> int:
    codes: list[int] = []

    def job(cfg: DictConfig) -> None:
        from hydra.core.hydra_config import HydraConfig

        folder = from_here(Path(HydraConfig.get().runtime.output_dir))
        go_on_by(lambda: _way_on(Path(cfg.resume) if cfg.resume else folder))
        try:
            codes.append(attempt(main, cfg).code)
        finally:
            remove_empty(folder)

    call_hydra(job, line)
    return max(codes, default=0)


def _way_on(run: Path) -> str | None:
    """How to go on with a run that was stopped; None where it has left nothing."""
    if not can_resume(run):
        return None
    return f"{run} is finished" if is_finished(run) else f"go on with: {resuming(run)}"


def _print_help(usage: str) -> int:
    """Hydra's own help composes everything first and takes longer with every group."""
    groups = [f"  {group}: {', '.join(group_options(group))}" for group in group_options("")]
    print_text(usage.replace("{groups}", "\n".join(groups)))
    return 0
