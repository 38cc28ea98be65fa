"""Sandboxes for tests: made once, and skipped with the reason where the machine isolates nothing."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator

import pytest

from evals.sandbox.bubblewrap import Bubblewrap
from evals.sandbox.build import RISK, sandbox
from evals.sandbox.pool import Pool
from trinity.errors import ConfigError

WORKERS = 2


@functools.cache
def shared() -> tuple[Pool, str]:
    """The sandbox that tests share, and why it cannot be used; no reason where it can."""
    pool = Pool(Bubblewrap(None), WORKERS)
    try:
        asyncio.run(pool.ready())
    except ConfigError as error:
        return pool, str(error)
    return pool, ""


@pytest.fixture(scope="session", autouse=True)
def _ended() -> object:
    """At the end no worker is left."""
    yield
    if shared.cache_info().currsize:
        asyncio.run(shared()[0].close())


@pytest.fixture
def isolated() -> Pool:
    """A sandbox under bubblewrap."""
    pool, reason = shared()
    if reason:
        pytest.skip(reason)
    return pool


@pytest.fixture
async def own(isolated: Pool) -> AsyncIterator[Pool]:
    """A sandbox under bubblewrap that a test may damage: one program at once."""
    assert isolated.kind == "bubblewrap"
    pool = Pool(Bubblewrap(None), 1)
    await pool.ready()
    yield pool
    await pool.close()


@pytest.fixture
async def plain() -> AsyncIterator[Pool]:
    """A sandbox that isolates nothing."""
    pool = sandbox({"kind": "none", "workers": 1, RISK: True})
    assert isinstance(pool, Pool)
    await pool.ready()
    yield pool
    await pool.close()
