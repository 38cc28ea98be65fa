"""What every command shares: mistakes become one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import errno
import io
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from trinity.errors import ConfigError, LedgerError, TrinityError
from trinity.stopping import stoppable, stopped

EXIT_BUG, EXIT_MISTAKE, EXIT_PIPE = 1, 2, 141

SIBLINGS = ("evals", "baselines")
"""Packages that stand beside this one and that a user's folder of the same name could hide."""

_USERS_MATTER = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
    *(errno.EMFILE, errno.ENFILE),
}
"""Errors of the disk and of paths: nothing that a traceback would explain better."""


def main_guard(command: Callable[[], int], argv: Sequence[str] | None = None) -> int:
    """Exit code of `command`; its errors become one line on stderr.

    0 done, 1 a bug (or what the command says), 2 something the user can mend, 130 interrupted, 143 terminated. The
    token `debug=true` among `argv` (default: the process's) prints the traceback before the line.
    """
    words = sys.argv[1:] if argv is None else argv
    debug = any(map(_is_debug, words))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a table must not end a run whose terminal knows few letters
    with stoppable(sys.argv):
        try:
            check_siblings()
            return command()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - a command's last line of defence
            return report(error, debug=debug)


def own_words() -> list[str]:
    """What the command line says to the command itself, and not to `main_guard`."""
    return [word for word in sys.argv[1:] if not _is_debug(word)]


def _is_debug(word: str) -> bool:
    return word.lower() == "debug=true"


@contextmanager
def readable(run: Path) -> Iterator[None]:
    """Within, what a file of another version or a damaged one leads to is said in one line.

    Raises:
        LedgerError: a file of `run` does not hold what it should.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise LedgerError(f"{run}: a file of this run is damaged or of another version ({what})") from error


def check_siblings() -> None:
    """Refuse to work with somebody else's `evals` or `baselines`; nothing is imported.

    `python -m` puts the working directory before everything that is installed.

    Raises:
        ConfigError: names the folder that hides ours.
    """
    home = Path(__file__).resolve().parent.parent
    for name in SIBLINGS:
        spec = find_spec(name)
        found = Path(spec.origin).resolve() if spec and spec.origin else None
        if found is None:
            raise ConfigError(f"the package {name} is missing beside {home / 'trinity'}; reinstall trinity-suite")
        if found not in (home / name / "__init__.py", home / f"{name}.py"):
            place = found.parent if found.name == "__init__.py" else found
            raise ConfigError(f"{place} hides the suite's own package {name}; rename it or call from another folder")


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
        print(harmless("".join(traceback.format_exception(error))), file=sys.stderr, end="")
    code, text = told(error)
    if text:
        hint = "" if debug or code != EXIT_BUG else " (debug=true shows the traceback)"
        print(one_line(f"{text}{hint}"), file=sys.stderr)
    return code


def told(error: BaseException) -> tuple[int, str]:
    """Exit code and line of an error; a closed pipe has no line."""
    error = _leaf(error)
    if isinstance(error, KeyboardInterrupt):
        code, line = stopped()
        return code, one_line(line)
    if isinstance(error, BrokenPipeError):
        return EXIT_PIPE, ""
    if isinstance(error, TrinityError):
        return error.exit_code, one_line(f"error: {error}")
    if isinstance(error, OSError) and error.errno in _USERS_MATTER:
        where = f": {error.filename}" if error.filename else ""
        return EXIT_MISTAKE, one_line(f"error: {error.strerror}{where}")
    return EXIT_BUG, one_line(f"internal error: {type(error).__name__}: {error}")


def one_line(text: str) -> str:
    """`text` folded to one line, with a replacement character for what does not print."""
    return harmless(" ".join(text.split()))


def harmless(text: str) -> str:
    """`text` without what a terminal obeys; line ends stay. Errors may quote what a provider sent."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)


def print_text(text: str) -> None:
    """Write `text` to stdout."""
    print(text)


def _leaf(error: BaseException) -> BaseException:
    """The error inside the groups that asyncio's task groups raise; one of our own before any other."""
    if isinstance(error, BaseExceptionGroup):
        error = error.subgroup(TrinityError) or error
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
