"""Sandboxes for tests: one that isolates, where this machine has one, and one for programs of ours."""

from __future__ import annotations

from typing import Any

import pytest

from evals.sandbox.base import Sandbox
from evals.sandbox.build import RISK, sandbox
from trinity.errors import ConfigError

ISOLATED: dict[str, Any] = {"kind": "bubblewrap", "workers": 1, "python": None}
TRUSTED: dict[str, Any] = {"kind": "none", RISK: True}
"""Works everywhere and isolates nothing."""


async def isolated() -> Sandbox:
    """A sandbox that isolates, ready; skips the test where there is none."""
    made = sandbox(ISOLATED)
    try:
        await made.ready()
    except ConfigError as error:
        pytest.skip(str(error))
    return made
