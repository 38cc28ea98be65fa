"""What Hydra and OmegaConf found wrong, in one line, with the nearest valid name where one is known."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

from trinity.config import dotted_keys, group_options, schema_keys
from trinity.errors import ConfigError
from trinity.launch.overrides import LISTED, not_chosen
from trinity.naming import did_you_mean

if TYPE_CHECKING:
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError


@contextmanager
def hydra_raises() -> Iterator[None]:
    """Within, what Hydra and OmegaConf complain about is a ConfigError; Hydra neither prints it nor leaves the process.

    Raises:
        ConfigError: one line about their error; others stay as they are.
    """
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
        raise ConfigError(explain(error)) from error
    finally:
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before


def explain(error: BaseException) -> str:
    """The line about an error of Hydra or OmegaConf."""
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf import errors as oc

    cause = error if isinstance(error, oc.OmegaConfBaseException) else error.__cause__ or error.__context__
    if isinstance(error, MissingConfigException):
        return _missing_option(error)
    if isinstance(error, OverrideParseException):
        return f"cannot read '{error.override}' as key=value{_parser_said(error)}"
    if isinstance(cause, (oc.ConfigKeyError, oc.ConfigAttributeError)):
        return f"{_source(error)}there is no key {_unknown_key(cause)}"
    if isinstance(cause, oc.OmegaConfBaseException):
        return f"{_source(error)}{cause.full_key or 'configuration'}: {_first_line(cause)}"
    if twice := re.match(r"Multiple values for (\w+)\.", str(error)):
        return f"{twice[1]} has one option already; write {twice[1]}=NAME, without a plus, to take another"
    return _without_advice(str(error)) + _near_group(str(error))


def _first_line(error: BaseException) -> str:
    text = next(iter(str(error).splitlines()), type(error).__name__)
    variable = re.search(r"Environment variable '(\w+)' not found", text)
    return f"set the environment variable {variable[1]}, which it is taken from" if variable else text


def _source(error: BaseException) -> str:
    """`conf/GROUP/FILE: ` when Hydra says which file it was composing."""
    found = re.match(r"In '(.+?)'", str(error))
    return f"conf/{found[1]}.yaml: " if found else ""


_FEW, _NEAR = 4, 0.75


def _missing_option(error: MissingConfigException) -> str:
    group, _, option = (error.missing_cfg_file or "").removesuffix(".yaml").rpartition("/")
    options = error.options or group_options(group)
    if not group or not options:
        return _without_advice(str(error))
    # A guess among a few would name what was never meant: the sandbox that isolates nothing, for one.
    named = len(options) <= _FEW and not get_close_matches(option, options, cutoff=_NEAR)
    advice = f"choose from: {', '.join(options)}" if named else did_you_mean(option, options)
    return f"{group}={option}: there is no such option; {advice}"


def _unknown_key(error: ConfigKeyError | ConfigAttributeError) -> str:
    from omegaconf import DictConfig

    key = str(error.full_key or error.key)
    parent, dot, name = key.rpartition(".")
    if parent in LISTED and name in group_options(LISTED[parent]):
        return f"'{key}': {not_chosen(LISTED[parent], name)}"
    node = error.parent_node
    near = dotted_keys(node, parent + dot) if isinstance(node, DictConfig) else []
    return f"'{key}'; {did_you_mean(key, [*near, *schema_keys(), *group_options('')])}"


def _parser_said(error: OverrideParseException) -> str:
    """What Hydra's parser expected, without its first line, which repeats the override, and its pointers."""
    lines = [line for line in error.message.splitlines()[1:] if line.strip(" ^~")]
    said = _without_advice("\n".join(["", *lines]))
    return f": {said}" if said else ""


def _near_group(text: str) -> str:
    found = re.search(r"Could not override '(\w+)'\. No match in the defaults list", text)
    groups = group_options("")
    return f" {did_you_mean(found[1], groups)}" if found and found[1] not in groups else ""


def _without_advice(text: str) -> str:
    """Hydra's text without the parts that speak of its own switches and search path."""
    return " ".join(re.split(r"\n(?:Config search path|Search path|Set the environment|See https)", text)[0].split())
