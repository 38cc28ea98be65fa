"""Public fakes for tests: the shapes of the real thing, without weights, providers or money.

Names are loaded when they are first used, so that the fault server imports neither an encoder nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trinity.testing.clock import SkippingLoop
    from trinity.testing.counts import Counts, Event, Tally
    from trinity.testing.encoder import HashedEncoder
    from trinity.testing.faults import PRESETS, Expected, Fault, Faults, expected, fault_marker
    from trinity.testing.server import FaultServer
    from trinity.testing.skill import SkillTask, TeamScript, team

__all__ = [
    "PRESETS",
    "Counts",
    "Event",
    "Expected",
    "Fault",
    "FaultServer",
    "Faults",
    "HashedEncoder",
    "SkillTask",
    "SkippingLoop",
    "Tally",
    "TeamScript",
    "expected",
    "fault_marker",
    "team",
]

_MODULES = {
    "clock": ("SkippingLoop",),
    "counts": ("Counts", "Event", "Tally"),
    "encoder": ("HashedEncoder",),
    "faults": ("PRESETS", "Expected", "Fault", "Faults", "expected", "fault_marker"),
    "server": ("FaultServer",),
    "skill": ("SkillTask", "TeamScript", "team"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

# Hidden from the type checker, which would otherwise believe in every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
