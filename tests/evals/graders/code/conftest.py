"""Sandboxes for the graders of code: one that isolates, and one for programs of ours that works everywhere."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator

import pytest

from evals.sandbox.base import Limits, Sandbox
from evals.sandbox.build import sandbox
from tests.sandboxes import TRUSTED
from trinity.errors import ConfigError


@functools.cache
def _isolated() -> tuple[Sandbox, str]:
    """The sandbox under bubblewrap, and why it can not be used; "" where it can."""
    made = sandbox({"kind": "bubblewrap"})
    try:
        asyncio.run(made.ready())
    except ConfigError as error:
        return made, str(error)
    return made, ""


@pytest.fixture(scope="session", autouse=True)
def _closed() -> Iterator[None]:
    """At the end no worker is left."""
    yield
    asyncio.run(sandbox(TRUSTED).close())
    if _isolated.cache_info().currsize:
        asyncio.run(_isolated()[0].close())


@pytest.fixture
def isolated() -> Sandbox:
    """A sandbox for programs that may do anything."""
    made, reason = _isolated()
    if reason:
        pytest.skip(reason)
    return made


@pytest.fixture
def trusted() -> Sandbox:
    """A sandbox that isolates nothing, for programs of ours."""
    return sandbox(TRUSTED)


@pytest.fixture
def limits() -> Limits:
    """Bounds that a right program does not come near, and that end others soon."""
    return Limits(cpu_s=1.0, idle_s=1.0, wall_s=60.0)
