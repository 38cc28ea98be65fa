"""`python -m trinity.run +experiment=NAME`: train and evaluate as `conf/` and the command line say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trinity.cli import main_guard

if TYPE_CHECKING:
    from omegaconf import DictConfig

USAGE = """\
Usage: python -m trinity.run [+experiment=NAME] [group=option] [key=value] [-m]

Trains a coordinator over a pool of language models and compares it with its controls:
table, records and report go to outputs/<name>/<time>/.

  python -m trinity.run +experiment=quickstart
  python -m trinity.run +experiment=quickstart seed=1 data.n_test=32

Groups and their options (group=option):

{groups}

A run that stopped goes on with resume=outputs/NAME/TIME; beside it only caps, limits, retries, store
and tracker may be set anew, and hold from then on. -m key=a,b runs every combination as a job of its
own, -m resume=outputs/NAME/TIME goes on with those that are not finished.
More: plan=true prints what it may cost and stops; --config-dir=FOLDER adds options of your own;
--cfg job prints the configuration and stops; debug=true shows tracebacks; --hydra-help explains
the remaining flags."""


def task(cfg: DictConfig) -> int:
    """Run one composed configuration; its exit code."""
    from trinity.experiment import run

    return run(cfg)


def main() -> int:
    """The command; its exit code."""
    return main_guard(command)


def command() -> int:
    """Do what the command line says."""
    from trinity.launch.app import hydra_command

    return hydra_command(task, USAGE)


if __name__ == "__main__":
    sys.exit(main())
