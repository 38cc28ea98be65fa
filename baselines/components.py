"""The named parts of a method's prompts: files that a user may replace and that can be optimised one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from trinity.errors import ConfigError
from trinity.naming import did_you_mean

Parts = Mapping[str, Sequence[str]]
"""Name of a component to the placeholders that its text must hold, written `{name}`."""


@dataclass(frozen=True, slots=True)
class Components:
    """The texts of one method's components, by name."""

    texts: Mapping[str, str]
    parts: Parts

    @property
    def n_bytes(self) -> int:
        """Of all texts together, more than any one prompt takes from them."""
        return sum(len(text.encode()) for text in self.texts.values())

    def __getitem__(self, name: str) -> str:
        return self.texts[name]

    def fill(self, name: str, **values: str) -> str:
        """A component with its placeholders filled.

        Only the component's own placeholders are looked for, in one pass: other braces stay, and so do placeholders
        that a filled-in text happens to hold.
        """
        if not self.parts[name]:
            return self.texts[name]
        wanted = "|".join(map(re.escape, self.parts[name]))
        return re.sub(rf"\{{({wanted})\}}", lambda found: values[found[1]], self.texts[name])


def load(method: str, parts: Parts, own: Mapping[str, Any] | None = None, *, folder: str | None = None) -> Components:
    """The components of `method`: a user's `own` texts, else the files in `prompts/FOLDER/` or `prompts/`.

    `folder` is the method's name where none is given.

    Raises:
        ConfigError: a text of the user's is of no component, no text, or does not hold each placeholder once.
    """
    own = own or {}
    for name in own:
        if name not in parts:
            raise ConfigError(f"methods.{method}.components.{name}: no such component, {did_you_mean(name, parts)}")
    return Components(
        {
            name: _checked(method, name, own[name], placeholders) if name in own else _shipped(folder or method, name)
            for name, placeholders in parts.items()
        },
        parts,
    )


def _checked(method: str, name: str, text: object, placeholders: Sequence[str]) -> str:
    place = f"methods.{method}.components.{name}"
    if not isinstance(text, str) or not text.strip() or text.endswith(".txt"):
        raise ConfigError(f"{place}={text!r}: give the text of the prompt itself")
    wrong = [f"{{{placeholder}}}" for placeholder in placeholders if text.count(f"{{{placeholder}}}") != 1]
    if wrong:
        raise ConfigError(f"{place} must hold {', '.join(wrong)} once: what the call has to read is put there")
    return text


def _shipped(folder: str, name: str) -> str:
    """The text of a file, without trailing white space."""
    prompts = resources.files("baselines").joinpath("prompts")
    own = prompts.joinpath(folder, f"{name}.txt")
    return (own if own.is_file() else prompts.joinpath(f"{name}.txt")).read_text("utf-8").rstrip()
