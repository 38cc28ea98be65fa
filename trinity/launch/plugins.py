"""Configurations that other packages and the command line add to `conf/`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from trinity.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "trinity_suite.conf"
"""Entry points of this group name a package folder that is laid out as `conf/` is: `acme = "acme.conf"`."""

_named: list[Path] = []


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed package's configurations."""

    name: str
    folder: Path


@cache
def plugins() -> tuple[Plugin, ...]:
    """The installed plug-ins by name; read from the packages' metadata, none of them is imported.

    Raises:
        ConfigError: one of them leads nowhere.
    """
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return tuple(Plugin(point.name, _folder(point)) for point in found)


def name_folders(folders: Iterable[Path]) -> None:
    """Look in `folders`, which the command line names, before the plug-ins; takes the place of earlier ones."""
    _named[:] = folders


def search_folders() -> list[Path]:
    """Where options are looked for after our own `conf/`.

    Raises:
        ConfigError: a plug-in leads nowhere.
    """
    return [*_named, *(plugin.folder for plugin in plugins())]


def check_clashes(own: Path) -> None:
    """Refuse plug-ins with a file that `own` or another plug-in has: which one is meant would be chance.

    Raises:
        ConfigError: names plug-in and file.
    """
    owners = dict.fromkeys(_files(own), "the suite itself")
    for plugin in plugins():
        for file in _files(plugin.folder):
            if file in owners:
                raise ConfigError(f"plug-in {plugin.name}: {file} is already in {owners[file]}; rename one of them")
        owners |= dict.fromkeys(_files(plugin.folder), f"plug-in {plugin.name}")


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.yaml")):
        yield path.relative_to(folder).as_posix()


def _folder(point: EntryPoint) -> Path:
    """The folder that an entry point names, without importing its package."""
    top, *rest = point.value.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    for place in (spec.submodule_search_locations if spec else None) or ():
        folder = Path(place, *rest)
        if any(folder.glob("*/*.yaml")):
            return folder
    package = f" of package {point.dist.name}" if point.dist else ""
    raise ConfigError(
        f"plug-in {point.name}{package}: {GROUP} names '{point.value}', which is no folder with GROUP/OPTION.yaml; "
        "reinstall or remove that package"
    )
