"""All hostile programs by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.evals.sandbox.hostile.base import Hostile
from tests.evals.sandbox.hostile.bombs import BOMBS
from tests.evals.sandbox.hostile.kernel import KERNEL
from tests.evals.sandbox.hostile.liars import LIARS
from tests.evals.sandbox.hostile.network import NETWORK
from tests.evals.sandbox.hostile.spies import SPIES
from tests.evals.sandbox.hostile.stubborn import STUBBORN

EVERY: Mapping[str, Hostile] = {**BOMBS, **STUBBORN, **LIARS, **SPIES, **NETWORK, **KERNEL}
