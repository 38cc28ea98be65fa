"""`python -m trinity.run +experiment=NAME`: train and evaluate as `conf/` and the command line say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trinity.cli import hydra_command, main_guard

if TYPE_CHECKING:
    from omegaconf import DictConfig


def task(cfg: DictConfig) -> int:
    """Run one composed configuration; its exit code."""
    from trinity.experiment import run

    return run(cfg)


def main() -> int:
    """The command; its exit code."""
    return main_guard(lambda: hydra_command(task))


if __name__ == "__main__":
    sys.exit(main())
