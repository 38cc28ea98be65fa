"""The words of a command line, before Hydra sees them: read, put right, and refused in plain words."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, open_dict

from trinity.config import find_configs, group_options, schema_keys, within
from trinity.errors import ConfigError
from trinity.launch.plugins import search_folders
from trinity.naming import did_you_mean

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

SEARCH_PATH = "hydra.searchpath"
_LARGEST = 2**63 - 1
_PLUS, _EMPTY_IS_A_VALUE = "experiment", "weights.sources"
_OPEN = re.compile(r"(backbones\.sampling|methods\.[^.=]+\.(?:components|backbones|name))[.=]")
"""Branches whose keys are their owner's and not in the configuration: a word may bring a new one without a plus."""
LISTED = {"methods": "method", "tasks": "task"}
"""Branches of the configuration with an entry per chosen option, and the groups that these are chosen from."""


@dataclass(frozen=True, slots=True)
class Line:
    """A command line: `flags` are Hydra's own, `words` the overrides `key=value`."""

    flags: tuple[str, ...]
    words: tuple[str, ...]
    multirun: bool


def read_line(argv: Sequence[str]) -> Line:
    """The command line with its words put right; `--config-dir DIR` becomes a word, so that a sweep remembers it.

    Raises:
        ConfigError: a flag or a word makes no sense; says what to write.
        hydra.errors.OverrideParseException: a word is not of Hydra's grammar.
    """
    from hydra._internal.utils import get_args_parser

    said = io.StringIO()
    try:
        with redirect_stderr(said):
            args = get_args_parser().parse_intermixed_args(argv)
    except SystemExit as stop:
        raise ConfigError(said.getvalue().rpartition("error: ")[2] or "cannot read the command line") from stop
    if args.experimental_rerun is not None:  # which --experiment is taken for; it would unpickle the file
        raise ConfigError("there is no flag --experimental-rerun; an experiment is chosen with +experiment=NAME")
    waiting, flags = list(args.overrides), []
    for token in argv:
        if waiting and token == waiting[0]:
            waiting.pop(0)
        else:
            flags.append(token)
    multirun = args.multirun or "hydra.mode=MULTIRUN" in args.overrides
    words = [mended(word, multirun=multirun) for word in args.overrides]
    _check_added_once(words)
    if args.config_dir is not None:
        flags = _without_folder(flags, args.config_dir)
        words.append(f"{SEARCH_PATH}=[{quoted(f'file://{args.config_dir}')}]")
        words = joined_paths(words)
    return Line(tuple(flags), tuple(words), multirun)


def mended(word: str, *, multirun: bool = False) -> str:
    """`word` as Hydra has to read it: `store=PATH` is short for `store.path=PATH`, open branches take any key.

    Raises:
        ConfigError: the word lacks its plus or its value, or has several outside a multirun.
        hydra.errors.OverrideParseException: it is not of Hydra's grammar.
    """
    if "=" not in word and not word.startswith("~"):
        raise ConfigError(f"{word} has no value; {_write(word.lstrip('+'))}")
    override = parsed(word)
    key = override.key_or_group
    if key == _PLUS and not word.startswith(("+", "~")):
        raise ConfigError(f"{word}: write +{word}, with a plus")
    if not word.startswith("~") and _is_empty(override) and _wants_value(key):
        raise ConfigError(f"{word} has no value; {_write(key)}")
    if any(abs(number) > _LARGEST for number in _numbers(override)):
        raise ConfigError(f"{word}: a whole number must stay below 2**63")
    if override.is_sweep_override() and not multirun:
        raise ConfigError(f"{word}: several values make a sweep, add -m; a list is written with [ and ]")
    if key == "store" and not isinstance(override.value(), dict) and not word.startswith("~"):
        return word.replace("store=", "store.path=", 1)
    return f"++{word}" if _OPEN.match(word) else word


def keep_chosen(cfg: DictConfig, words: Iterable[str]) -> None:
    """Take out of `cfg` what files say of methods and tasks that are not chosen: an experiment outlives its list.

    Raises:
        ConfigError: one of `words`, the command line, speaks of such a one, or nothing is called so.
    """
    said = {parsed(word).key_or_group: word for word in words}
    for branch, group in LISTED.items():
        blocks = cfg[branch]
        bare = [name for name in blocks if isinstance(blocks[name], DictConfig) and "_target_" not in blocks[name]]
        for name in map(str, bare):
            if not _describes_one(group, name):
                hint = did_you_mean(name, group_options(group))
                raise ConfigError(f"{branch}.{name}: has no _target_, and no {group} of that name is chosen; {hint}")
            for key, word in said.items():
                if within(key, [f"{branch}.{name}"]):
                    raise ConfigError(f"{word.removeprefix('++')}: {not_chosen(group, name)}")
            with open_dict(blocks):
                del blocks[name]


def not_chosen(group: str, name: str) -> str:
    """What to say of settings of an option that the run does not have."""
    return f"{group} {name} is not chosen; name it in {group}=[...], or add it with +{group}=[{name}]"


def _describes_one(group: str, name: str) -> bool:
    """Whether an option would bring its own class, so that an entry without one cannot come from it."""
    files = [folder / group / f"{name}.yaml" for folder in (find_configs(), *search_folders())]
    return any(re.search(r"^_target_:", file.read_text("utf-8"), re.MULTILINE) for file in files if file.is_file())


def _check_added_once(words: Iterable[str]) -> None:
    """Hydra takes one word that adds to a list, and calls two of them something else.

    Raises:
        ConfigError: there are two for one group; says how to write them as one.
    """
    added: dict[str, str] = {}
    for word in words:
        group, _, value = word.partition("=")
        if group in ("+method", "+task", f"+{_PLUS}"):
            several = value.strip("[]")
            if group in added:
                raise ConfigError(f"{group} stands twice; write {group}=[{added[group]},{several}]")
            added[group] = several


def joined_paths(words: Sequence[str]) -> list[str]:
    """`words` with every `hydra.searchpath=[...]` among them made one, in their order; Hydra takes the last alone.

    Raises:
        ConfigError: one of them is no list, or names a folder that is not there.
    """
    rest = [word for word in words if not word.startswith(f"{SEARCH_PATH}=")]
    places = [place for word in words if word.startswith(f"{SEARCH_PATH}=") for place in _places(word)]
    if not places:
        return rest
    return [*rest, f"{SEARCH_PATH}=[{','.join(quoted(place) for place in dict.fromkeys(places))}]"]


def search_paths(words: Iterable[str]) -> list[Path]:
    """The folders among the places of `hydra.searchpath`."""
    places = [place for word in words if word.startswith(f"{SEARCH_PATH}=") for place in _places(word)]
    return [Path(place.removeprefix("file://")) for place in places if "://" not in place.removeprefix("file://")]


def value_of(words: Iterable[str], key: str) -> str | None:
    """The last value that `words` give to `key`, None where there is none or it is null.

    Raises:
        ConfigError: it is a sweep over several.
    """
    value = None
    for word in words:
        if word.startswith(f"{key}="):
            override = parsed(word)
            if override.is_sweep_override():
                raise ConfigError(f"{word}: {key} takes one value")
            value = override.value()
    return None if value is None else str(value)


def parsed(word: str) -> Override:
    """An override as Hydra's grammar reads it.

    Raises:
        hydra.errors.OverrideParseException: it cannot.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_overrides([word])[0]


def quoted(text: str) -> str:
    """`text` as one value of Hydra's grammar."""
    doubled = re.sub(r"\\+(?='|\Z)", lambda run: 2 * run[0], text)  # before a quote alone a backslash escapes
    return "'" + doubled.replace("'", "\\'") + "'"


def _places(word: str) -> list[str]:
    value = parsed(word).value()
    if not isinstance(value, list):
        raise ConfigError(f"{word}: must be a list, {SEARCH_PATH}=[file://FOLDER]")
    places = [str(place) for place in value]
    for place in places:
        folder = Path(place.removeprefix("file://"))
        if "://" not in str(place).removeprefix("file://") and not folder.is_dir():
            raise ConfigError(f"{folder}: there is no such folder to look for configurations in")
    return places


def _without_folder(flags: Sequence[str], folder: str) -> list[str]:
    """`flags` without `--config-dir FOLDER` in any of its spellings."""
    left: list[str] = []
    for flag in flags:
        if flag == folder and left and left[-1].startswith(("--config-d", "-cd")):
            left.pop()
        elif not (flag.endswith(folder) and flag.startswith(("--config-d", "-cd"))):
            left.append(flag)
    return left


def _numbers(override: Override) -> list[int]:
    value = override.value()
    values = value if isinstance(value, list) else getattr(value, "list", None) or [value]
    return [one for one in values if isinstance(one, int)]


def _is_empty(override: Override) -> bool:
    value = override.value()
    return not override.is_sweep_override() and isinstance(value, str) and not value.strip()


def _wants_value(key: str) -> bool:
    """Whether an empty text makes no sense for `key`: groups, and keys whose values the suite itself reads."""
    return key != _EMPTY_IS_A_VALUE and key in {*group_options(""), *schema_keys()}


def _write(key: str) -> str:
    options = {group: group_options(group) for group in group_options("")}
    if key in options:  # a group may have another's name among its options
        return f"write {_signed(key)}=NAME with one of: {', '.join(options[key])}"
    for group, names in options.items():
        if key in names:
            return f"did you mean {_signed(group)}={key}?"
    if key == "resume":
        return "write resume=FOLDER with the folder of a run, or leave it out"
    if key in schema_keys():
        return f"write {key}=VALUE"
    return f"write KEY=VALUE; {did_you_mean(key, [*options, *schema_keys()])}"


def _signed(group: str) -> str:
    """A group as a word begins that chooses from it."""
    return f"+{group}" if group == _PLUS else group
