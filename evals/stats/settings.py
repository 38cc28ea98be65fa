"""What a run's configuration says of its own statistics: `analysis`, which its manifest keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from evals.stats.methods import BEST_SINGLE


class Settings(NamedTuple):
    """The method that differences are taken to, those that mixed models leave out, others that costs are told by."""

    reference: str = BEST_SINGLE
    models_without: tuple[str, ...] = ()
    ratios_to: tuple[str, ...] = ()


def settings_of(manifest: Mapping[str, Any]) -> Settings:
    """The settings of a run; what an earlier version did not write down is as by default."""
    found = (manifest.get("config") or {}).get("analysis") or {}
    lists = (tuple(map(str, found.get(key) or ())) for key in ("models_without", "ratios_to"))
    return Settings(str(found.get("reference") or BEST_SINGLE), *lists)
