"""Programs in namespaces of their own, put up by bubblewrap without any privilege."""

from __future__ import annotations

import itertools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evals.sandbox import seccomp
from evals.sandbox.interpreter import Interpreter, interpreter
from evals.sandbox.launch import ENVIRONMENT, INSIDE, PROJECT, SCRIPT, Launcher, filters
from trinity.errors import ConfigError

HOME, CODE, OURS = "/sandbox", "/program", "/worker"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32")
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")
DEVICES = ("null", "random", "urandom")
LINKS = (
    ("/proc/self/fd", "/dev/fd"),
    *((f"/proc/self/fd/{n}", f"/dev/std{s}") for n, s in enumerate(("in", "out", "err"))),
)
NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")

FIRST_USER, USERS = 200_000, 100_000
INSTALL = "install bubblewrap (apt install bubblewrap)"


class Bubblewrap(Launcher):
    """Starts workers under bubblewrap.

    Started by root, a worker gives root up for a user number of its own: the kernel exempts root from its limit of
    processes. Started by anybody else, it gets a user namespace.

    Args:
        python: interpreter; None is the one that runs this.
        readonly: further files and folders that programs may read.
    """

    kind = "bubblewrap"

    def __init__(self, python: str | None, readonly: Sequence[str] = ()) -> None:
        self._python = python
        self._readonly = tuple(readonly)
        self._users = itertools.count(os.getpid() * 97)

    def interpreter(self) -> Interpreter:
        """The Python of its workers, at the path it has outside."""
        return interpreter(self._python)

    def command(self, name: str) -> list[str]:
        """The command line of bubblewrap."""
        program = shutil.which("bwrap")
        if program is None:
            raise ConfigError(self.refusal(f"there is no bwrap on PATH; {INSTALL}"))
        if platform.machine() not in seccomp.MACHINES:
            raise ConfigError(self.refusal(f"the filter of system calls does not know {platform.machine()}"))
        own_user = [] if spare_user(0) is not None else ["--unshare-user"]
        walls = [*own_user, *NAMESPACES, "--as-pid-1", "--die-with-parent", "--new-session"]
        python = [self.interpreter().executable, "-S", "-s", "-B", f"{OURS}/{SCRIPT}"]
        return [program, *walls, *self._files(bool(own_user)), "--chdir", "/", "--", *python]

    def _files(self, own_user: bool) -> Iterator[str]:  # noqa: FBT001 - one caller
        """Everything that a worker sees.

        Raises:
            ConfigError: a whole home or the whole system is among it.
        """
        shown = outermost((*self.interpreter().roots, *self._readonly))
        for path in {"/", str(Path.home())} & set(shown):
            raise ConfigError(f"sandbox: generated code would see all of {path}; name a narrower readonly, or a python")
        for folder in parents(("/dev/null", "/etc/ld.so.cache", f"{OURS}/{INSIDE}", *shown)):
            yield from ("--dir", folder)
        for path in (*SYSTEM, *SETTINGS):
            yield from self._system(path)
        for path in shown:
            yield from ("--ro-bind", path, path)
        yield from ("--ro-bind", str(PROJECT / INSIDE), f"{OURS}/{INSIDE}")
        for device in DEVICES:
            yield from ("--dev-bind", f"/dev/{device}", f"/dev/{device}")
        for target, link in LINKS:
            yield from ("--symlink", target, link)
        for folder in (HOME, CODE, "/tmp", "/dev/shm"):  # noqa: S108 - places to mount the program's own
            yield from ("--dir", folder)
        yield from (("--proc", "/proc") if own_user else ("--dir", "/proc"))
        yield from ("--remount-ro", "/")

    def _system(self, path: str) -> Iterator[str]:
        """A part of the system: a link stays a link, what is missing is left out."""
        if Path(path).is_symlink():
            yield from ("--symlink", str(Path(path).readlink()), path)
        elif Path(path).exists():
            yield from ("--ro-bind", path, path)

    def environment(self) -> dict[str, str]:
        """The environment of every program."""
        return {**ENVIRONMENT, "HOME": HOME, "TMPDIR": "/tmp"}  # noqa: S108 - as above

    def settings(self) -> dict[str, Any]:
        """Programs are isolated, below a user that no other worker has."""
        user = spare_user(next(self._users))
        return {"isolated": True, "uid": user, "filters": filters(), "paths": self.interpreter().paths}

    def facts(self) -> dict[str, object]:
        """Kind and version of bubblewrap."""
        return {"kind": self.kind, "version": version()}


def outermost(paths: Sequence[str]) -> list[str]:
    """Existing paths that lie neither in the system's folders nor in one another."""
    shown = list(SYSTEM)
    for path in sorted({str(path) for path in paths if Path(path).exists()}, key=len):
        if not any(Path(path).is_relative_to(other) for other in shown):
            shown.append(path)
    return shown[len(SYSTEM) :]


def parents(paths: Sequence[str]) -> list[str]:
    """Folders above these paths, the root left out: bubblewrap itself would make them for its own eyes only."""
    return sorted({str(folder) for path in paths for folder in Path(path).parents} - {"/"})


def spare_user(number: int) -> int | None:
    """A user number that nobody has, the same for the same number; None for all but root, and where there is none."""
    if os.geteuid() != 0:
        return None
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= FIRST_USER and first + count >= FIRST_USER + USERS:
            return FIRST_USER + number % USERS
    return None


def version() -> str:
    """Version of the bubblewrap on PATH; empty where there is none."""
    program = shutil.which("bwrap")
    if program is None:
        return ""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"\d[\d.]*", done.stdout)
    return found.group() if found else ""
