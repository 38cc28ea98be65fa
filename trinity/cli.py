"""What every command shares: mistakes become one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import errno
import functools
import io
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from trinity.errors import ConfigError, TrinityError

if TYPE_CHECKING:
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf import DictConfig
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError

EXIT_BUG, EXIT_MISTAKE, EXIT_INTERRUPTED, EXIT_PIPE = 1, 2, 130, 141
_USERS_MATTER = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EMFILE),
}
"""Errors of the disk and of paths: nothing that a traceback would explain better."""


def main_guard(command: Callable[[], int], argv: Sequence[str] | None = None) -> int:
    """Exit code of `command`; its errors become one line on stderr.

    0 done, 1 a bug (or what the command says), 2 something the user can mend, 130 interrupted. The token
    `debug=true` among `argv` (default: the process's) prints the traceback before the line.
    """
    words = sys.argv[1:] if argv is None else argv
    debug = any(word.lower() == "debug=true" for word in words)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a table must not end a run whose terminal knows few letters
    try:
        return command()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a command's last line of defence
        return report(error, debug=debug)


class LineParser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{message}; {self.format_usage()}")


def report(error: BaseException, *, debug: bool) -> int:
    """Print `error` as one line on stderr and return the exit code that belongs to it."""
    error = _leaf(error)
    if debug:
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        return _say("interrupted", EXIT_INTERRUPTED)
    if isinstance(error, BrokenPipeError):
        return EXIT_PIPE
    if isinstance(error, TrinityError):
        return _say(f"error: {error}", error.exit_code)
    if isinstance(error, OSError) and error.errno in _USERS_MATTER:
        where = f": {error.filename}" if error.filename else ""
        return _say(f"error: {error.strerror}{where}", EXIT_MISTAKE)
    hint = "" if debug else " (debug=true shows the traceback)"
    return _say(f"internal error: {type(error).__name__}: {error}{hint}", EXIT_BUG)


def hydra_command(task: Callable[[DictConfig], int], usage: str, name: str = "config") -> int:
    """Compose the configuration `name` from the command line and run `task` on it, once or as a multirun.

    `--help` prints `usage` instead, with the groups of `conf/` at `{groups}`. A failed job does not stop the other jobs
    of a multirun; the worst exit code counts.

    Raises:
        ConfigError: Hydra or OmegaConf cannot make sense of the command line or of a file.
    """
    if {"--help", "-h"} & set(sys.argv[1:]):
        return _print_help(usage)
    import hydra
    from hydra.errors import HydraException

    from trinity.config import find_configs, register_schema

    register_schema()
    codes: list[int] = []
    terminal, said = sys.stderr, io.StringIO()

    @functools.wraps(task)
    def job(cfg: DictConfig) -> None:
        with redirect_stderr(terminal):
            codes.append(_run_job(task, cfg))

    main = hydra.main(config_path=str(find_configs()), config_name=name, version_base="1.3")(job)
    with _hydra_raises(), redirect_stderr(said):
        try:
            main()
        except SystemExit as stop:
            if stop.code:
                raise ConfigError(said.getvalue().rpartition("error: ")[2]) from stop
        except Exception as error:
            if isinstance(error, OSError) and not isinstance(error, HydraException):
                raise
            raise ConfigError(explain(error)) from error
    return max(codes, default=0)


def explain(error: BaseException) -> str:
    """A mistake that Hydra or OmegaConf found, in one line, with the nearest valid name where one is known."""
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
    return _without_advice(str(error)) + _near_group(str(error))


def _print_help(usage: str) -> int:
    """Hydra's own help composes everything first and takes longer with every group."""
    from trinity.config import group_options

    groups = [f"  {group}: {', '.join(group_options(group))}" for group in group_options("")]
    print(usage.replace("{groups}", "\n".join(groups)))
    return 0


def _run_job(task: Callable[[DictConfig], int], cfg: DictConfig) -> int:
    from hydra.core.hydra_config import HydraConfig
    from omegaconf.errors import OmegaConfBaseException

    from trinity.config import check

    try:
        check(cfg)
        return task(cfg)
    except OmegaConfBaseException as error:
        return report(ConfigError(explain(error)).with_traceback(error.__traceback__), debug=cfg.debug)
    except Exception as error:  # noqa: BLE001 - Hydra would print two lines of its own around it
        return report(error, debug=cfg.debug)
    finally:
        _remove_empty(Path(HydraConfig.get().runtime.output_dir))


@contextmanager
def _hydra_raises() -> Iterator[None]:
    """Within, Hydra raises its errors instead of printing them and leaving the process."""
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before


def _remove_empty(folder: Path) -> None:
    """Hydra makes the run folder before the run can refuse to start."""
    with suppress(OSError):
        folder.rmdir()


def _leaf(error: BaseException) -> BaseException:
    """The error inside the groups that asyncio's task groups raise; one of our own before any other."""
    if isinstance(error, BaseExceptionGroup):
        error = error.subgroup(TrinityError) or error
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _say(text: str, code: int) -> int:
    line = " ".join(text.split())
    print("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line), file=sys.stderr)
    return code


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _source(error: BaseException) -> str:
    """`conf/GROUP/FILE: ` when Hydra says which file it was composing."""
    found = re.match(r"In '(.+?)'", str(error))
    return f"conf/{found[1]}.yaml: " if found else ""


def _missing_option(error: MissingConfigException) -> str:
    from trinity.config import group_options
    from trinity.naming import did_you_mean

    group, _, option = (error.missing_cfg_file or "").removesuffix(".yaml").rpartition("/")
    options = error.options or group_options(group)
    if not group or not options:
        return _without_advice(str(error))
    return f"{group}={option}: there is no such option; {did_you_mean(option, options)}"


def _unknown_key(error: ConfigKeyError | ConfigAttributeError) -> str:
    from omegaconf import DictConfig

    from trinity.config import dotted_keys, group_options, schema_keys
    from trinity.naming import did_you_mean

    key = str(error.full_key or error.key)
    parent, dot, _ = key.rpartition(".")
    node = error.parent_node
    near = dotted_keys(node, parent + dot) if isinstance(node, DictConfig) else []
    return f"'{key}'; {did_you_mean(key, [*near, *schema_keys(), *group_options('')])}"


def _parser_said(error: OverrideParseException) -> str:
    """What Hydra's parser expected, without its first line, which repeats the override, and its pointers."""
    lines = [line for line in error.message.splitlines()[1:] if line.strip(" ^~")]
    said = _without_advice("\n".join(["", *lines]))
    return f": {said}" if said else ""


def _near_group(text: str) -> str:
    from trinity.config import group_options
    from trinity.naming import did_you_mean

    found = re.search(r"Could not override '(\w+)'\. No match in the defaults list", text)
    groups = group_options("")
    return f" {did_you_mean(found[1], groups)}" if found and found[1] not in groups else ""


def _without_advice(text: str) -> str:
    """Hydra's text without the parts that speak of its own switches and search path."""
    return " ".join(re.split(r"\n(?:Config search path|Search path|Set the environment|See https)", text)[0].split())
