"""Puts a program where it can reach nothing: namespaces, mounts and limits of its own, and a first process that reaps.

Two processes come of one start. The first is number 1 in new namespaces: it waits for the second, the program, tells
how it ended, and takes all that is left with it.
"""

# A worker starts without pathlib, which takes as long to import as all that is here.
# ruff: noqa: PTH101, PTH102, PTH103, PTH120, PTH123

from __future__ import annotations

import atexit
import builtins
import contextlib
import errno
import gc
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from evals.sandbox.inside import linux
from evals.sandbox.inside.link import unpack

HOME, CODE, SCRATCH = "/sandbox", "/program", "/tmp"  # noqa: S108 - these lie in the program's own file system
USER = 1000
STACK = 64 * 2**20
OWN_FOLDERS = 5
"""Inodes of the scratch file system that are not the program's: its root, four folders, and one for its source."""

STATUS = 3
HIGHEST = 1024
"""Above every descriptor that a worker opens; it is started with none but the standard streams."""

OUR_FRAMES = 2
LONGEST = 4000
FLUSH_FAILED = 120

STREAMS = (
    ("stdin", "r", -1, "surrogateescape"),
    ("stdout", "w", -1, "surrogateescape"),
    ("stderr", "w", 1, "backslashreplace"),
)
"""Of each standard stream: name, mode, buffering, what becomes of what is no UTF-8; as an interpreter sets them up."""


class Job:
    """A program, its bounds, and where it runs.

    Attributes:
        isolated: whether it gets namespaces of its own; otherwise the caller's walls are all there are.
        uid: whom to become where there are no namespaces of its own; None to stay.
        limits: as in `Limits`.
        source: what is run.
        files: what lies in its working folder.
        folder, code, scratch: where it works, where it lies, and where its temporary files go.
    """

    def __init__(self, settings: dict[str, Any], header: dict[str, Any], blobs: list[bytes]) -> None:
        self.isolated: bool = settings["isolated"]
        self.uid: int | None = settings.get("uid_of_program")
        self.filter = bytes.fromhex(settings["filters"].get(os.uname().machine, ""))
        self.limits: dict[str, float] = header["limits"]
        self.source, *contents = blobs
        self.files: dict[str, bytes] = dict(zip(header["files"], contents))  # noqa: B905 - `strict` is younger than 3.9
        self.folder, self.code, self.scratch = HOME, CODE, SCRATCH
        if not self.isolated:
            self.folder, self.code, self.scratch = (f"{header['folder']}/{name}" for name in ("home", "code", "free"))


def start(settings: dict[str, Any], descriptors: list[int]) -> Job | None:
    """Start a program: None in the process that this is, the program in the one that is to become it.

    The program's own process has every wall up when this returns.

    Args:
        settings: of the worker.
        descriptors: where the first process reports, where it reads the job, the program's standard streams, and its
            channel if it has one.
    """
    status = socket.socket(fileno=descriptors[0])
    try:
        child = linux.fork_into(linux.NEW_ALL) if settings["isolated"] else os.fork()
    except OSError as error:
        tell(status, error)
        child = None
    if child == 0:
        try:
            job = enter(settings, descriptors[1], status)
            settle(job, status, descriptors[2:])
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told, and nothing unbounded runs
            fail(status, error)
        return job
    status.close()
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    if child is not None:
        os.waitpid(child, 0)
    return None


def fail(status: socket.socket, error: BaseException) -> NoReturn:
    """Tell that the sandbox failed, and end."""
    tell(status, error)
    os._exit(1)


def tell(status: socket.socket, error: BaseException) -> None:
    """Tell that the sandbox failed; nobody may be listening any more."""
    with contextlib.suppress(OSError):
        status.send(f"f{type(error).__name__}: {error}"[:LONGEST].encode("utf-8", "replace"))


def enter(settings: dict[str, Any], source: int, status: socket.socket) -> Job:
    """Furnish what the program is to find, then fork it: returns in its process, while this one waits and reports."""
    job = Job(settings, *unpack(read_all(source)))
    if job.isolated:
        linux.prctl(linux.SET_DUMPABLE, 1)
        become_user(*settings["user"])
        furnish(job, status)
        linux.drop_capabilities()
    else:
        furnish_folder(job)
        linux.prctl(linux.SET_CHILD_SUBREAPER, 1)
    linux.prctl(linux.SET_DUMPABLE, 0)
    program = os.fork()
    if program:
        report(program, status)
    linux.prctl(linux.SET_DUMPABLE, 1)
    return job


def read_all(stream: int) -> bytes:
    """Everything up to the end of a pipe."""
    with open(stream, "rb", buffering=0) as file:
        return file.read()


def become_user(user: int, group: int) -> None:
    """Be the only user that the new namespace knows; the numbers are those outside."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{USER} {user} 1"), ("gid_map", f"{USER} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def furnish(job: Job, status: socket.socket) -> None:
    """Mount what the program may write to, show it its own processes only, and lay out its files."""
    limits = job.limits
    bounds = f"size={int(limits['scratch_bytes'])},nr_inodes={int(limits['scratch_files']) + OWN_FOLDERS},mode=0755"
    linux.mount("none", "/", flags=linux.RECURSIVE | linux.PRIVATE)
    linux.mount("tmpfs", SCRATCH, "tmpfs", linux.NOSUID | linux.NODEV, bounds)
    scratch = os.open(SCRATCH, os.O_RDONLY)
    socket.send_fds(status, [b"d"], [scratch])
    os.close(scratch)
    for name, target in (("home", HOME), ("code", CODE), ("shared", "/dev/shm"), ("free", SCRATCH)):  # noqa: S108
        os.mkdir(f"{SCRATCH}/{name}", 0o755)
        linux.mount(f"{SCRATCH}/{name}", target, flags=linux.BIND)
    show_processes()
    linux.raise_loopback()
    socket.sethostname("sandbox")
    lay_out(job)


def show_processes() -> None:
    """Mount a /proc of the new namespace; an empty folder where the kernel allows none."""
    flags = linux.NOSUID | linux.NODEV | linux.NOEXEC
    try:
        linux.mount("proc", "/proc", "proc", flags)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        linux.mount("tmpfs", "/proc", "tmpfs", flags, "size=4k,nr_inodes=2,mode=0555")


def furnish_folder(job: Job) -> None:
    """Lay out the program's files in ordinary folders, where there are no mounts of its own."""
    for path in (job.folder, job.code, job.scratch):
        os.mkdir(path)
    lay_out(job)
    for path in (os.path.dirname(job.folder), job.folder, job.scratch) if job.uid is not None else ():
        os.chmod(path, 0o777)  # noqa: S103 - whoever the program is to be, it owns nothing


def lay_out(job: Job) -> None:
    """Write the program and its files."""
    for path, content in (
        (f"{job.code}/main.py", job.source),
        *((f"{job.folder}/{p}", c) for p, c in job.files.items()),
    ):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


def report(program: int, status: socket.socket) -> NoReturn:
    """Reap until the program has ended, tell how it did and what all of them cost, and end everything with oneself."""
    status = keep_only(status)
    cpu = 0.0
    while True:
        child, ended, used = os.wait4(-1, 0)
        cpu += used.ru_utime + used.ru_stime
        if child == program:
            break
    status.send(b"s" + json.dumps({"status": ended, "cpu": cpu}).encode())
    os._exit(0)


def keep_only(sock: socket.socket) -> socket.socket:
    """Close every other descriptor, so that pipes end when the program closes its ends."""
    kept = os.dup2(sock.fileno(), STATUS)
    sock.detach()
    os.closerange(0, STATUS)
    os.closerange(STATUS + 1, HIGHEST)
    return socket.socket(fileno=kept)


def settle(job: Job, status: socket.socket, streams: list[int]) -> None:
    """Take on the limits, keep the program's descriptors alone, and bolt the door."""
    os.setsid()
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    os.chdir(job.folder)
    os.umask(0o022)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
    if job.uid is not None and os.getuid() == 0:
        os.setgroups([])
        os.setresgid(job.uid, job.uid, job.uid)
        os.setresuid(job.uid, job.uid, job.uid)
    limit(job.limits)
    linux.prctl(linux.SET_NO_NEW_PRIVS, 1)
    if job.filter:
        linux.install_filter(job.filter)
    status.send(b"o")
    os.closerange(len(streams), HIGHEST)
    status.detach()


def limit(limits: dict[str, float]) -> None:
    """Set the kernel's limits of one process, those that bound all processes together as a backstop."""
    with open("/proc/self/statm") as file:
        virtual = int(file.read().split()[0]) * resource.getpagesize()
    bounds = {
        # Not 0, which would leave the memory of a crashed program to whoever collects crashes on this machine.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_CPU: int(limits["cpu_s"]) + 2,
        resource.RLIMIT_FSIZE: int(limits["file_bytes"]),
        resource.RLIMIT_NOFILE: int(limits["open_files"]),
        resource.RLIMIT_AS: virtual + int(limits["memory_bytes"]),
        resource.RLIMIT_NPROC: int(limits["processes"]) + 1,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for kind, bound in bounds.items():
        hard = resource.getrlimit(kind)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)  # noqa: PLW2901 - lowered to what is allowed
        resource.setrlimit(kind, (bound, bound))
    # Programs for contests ask for more themselves, and the bound on memory holds for stacks, too.
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (STACK if hard == resource.RLIM_INFINITY else min(STACK, hard), hard))


def become_main(job: Job) -> None:
    """Run the program as `__main__` of this interpreter, as if it had been started with it."""
    path = f"{job.code}/main.py"
    for name in [name for name in sys.modules if name.partition(".")[0] == "evals"]:
        del sys.modules[name]
    sys.path[0] = job.folder
    os.environ.update(HOME=job.folder, TMPDIR=job.scratch)
    sys.argv[:] = [path]
    for stream, (name, mode, buffering, errors) in enumerate(STREAMS):
        file = open(stream, mode, buffering, "utf-8", errors, closefd=False)  # noqa: SIM115 - open to the end
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = module
    leave(outcome_of(lambda: exec(compile(job.source, path, "exec", dont_inherit=True), module.__dict__)), module)  # noqa: S102


def outcome_of(program: Callable[[], None]) -> int:
    """Exit code of a program; what it raises is shown as the interpreter shows it, without our frames."""
    try:
        program()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
    except BaseException as error:  # noqa: BLE001 - as the interpreter does
        trace = error.__traceback__
        for _ in range(OUR_FRAMES):
            trace = trace.tb_next if trace else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    else:
        return 0
    return 1


def leave(code: int, module: ModuleType) -> NoReturn:
    """End as an interpreter does, but for taking itself apart, which would copy every page that the worker shares."""
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - waits for the program's threads
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.modules.pop("__main__", None)
    if threading.active_count() == 1:
        module.__dict__.clear()
        gc.collect()
    for stream in (sys.stdout, sys.stderr):
        try:
            if not getattr(stream, "closed", False):
                stream.flush()
        except Exception:  # noqa: BLE001 - closed, replaced, or nobody reads
            code = code or FLUSH_FAILED
    os._exit(code)
