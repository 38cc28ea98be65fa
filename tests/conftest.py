"""Fixtures for every test: configurations composed as the commands compose them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hypothesis import HealthCheck, settings
from omegaconf import DictConfig

from trinity.config import find_configs, register_schema

Compose = Callable[..., DictConfig]

# How long a busy machine takes is nothing that a test may fail on.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# As in an environment that is active: commands that are printed begin with `python`.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells let jobs in the background ignore interrupts, which every process that a test starts would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def compose_config() -> Iterator[Compose]:
    """`compose_config("seed=1", ...)`: the configuration that the command line would give."""
    register_schema()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(find_configs()), version_base="1.3"):
        yield lambda *overrides: compose("config", list(overrides))
