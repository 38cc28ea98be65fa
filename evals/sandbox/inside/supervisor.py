"""A worker's first process: speaks with the host over its standard input and output, and follows the programs it runs.

It is started with the path of this file. Programs are forked from a process beside it (`zygote`), so that none finds in
its memory what another was given or has said.
"""

# A worker starts without pathlib, which takes as long to import as all that is here.
# ruff: noqa: PTH100

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import sys
from typing import Any

sys.path.insert(0, os.path.abspath(__file__).removesuffix("/evals/sandbox/inside/supervisor.py"))

from evals.sandbox.inside import linux
from evals.sandbox.inside.cell import Job, become_main
from evals.sandbox.inside.link import Link, pack, unpack
from evals.sandbox.inside.run import Ends, FailedError, Run
from evals.sandbox.inside.zygote import breed, prepare

FIRST_FREE = 10
"""Descriptors below stay taken, so that none that a program gets is in the way of another."""


def take_over() -> Link:
    """Keep the connection to the host out of reach of the standard streams, which lead nowhere from now on."""
    source, sink = (fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for stream in (0, 1))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 3):
        os.dup2(nowhere, stream)
    return Link(source, sink)


def settle(settings: dict[str, Any]) -> None:
    """Become who programs are to come from: nobody, with no way back.

    Raises:
        RuntimeError: this is no namespace of the worker's own.
        OSError: the kernel refuses.
    """
    if settings["isolated"] and os.getpid() != 1:
        raise RuntimeError("bubblewrap has put up no walls")
    user = settings["uid"]
    if settings["isolated"] and user is not None:
        linux.mount("proc", "/proc", "proc", linux.NOSUID | linux.NODEV | linux.NOEXEC)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    # Whoever changes its user loses the parent's death signal.
    linux.prctl(linux.SET_PDEATHSIG, signal.SIGKILL)
    linux.prctl(linux.SET_NO_NEW_PRIVS, 1)
    linux.prctl(linux.SET_DUMPABLE, 0)
    linux.prctl(linux.SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    settings["user"] = (os.getuid(), os.getgid())


def serve(link: Link, settings: dict[str, Any], zygote: socket.socket, template: int) -> None:
    """Run one program after another until the host has gone."""
    while (frame := link.wait()) is not None:
        kind, body = frame
        if kind != b"p":
            # Said of a program that had ended by then.
            continue
        try:
            link.send(b"r", run(link, settings, body, zygote, template))
        except FailedError as error:
            link.send(b"f", str(error).encode())
        link.drain()


def run(link: Link, settings: dict[str, Any], body: bytes, zygote: socket.socket, template: int) -> bytes:
    """Run one program; the body of a result frame.

    Raises:
        FailedError: the sandbox failed.
    """
    header, (source, stdin, *contents) = unpack(body)
    folder = None
    if not settings["isolated"]:
        import tempfile

        folder = header["folder"] = tempfile.mkdtemp()
    ends = Ends(stdin, channel=header["channel"])
    ends.hand_over(zygote)
    try:
        return Run(header, pack(header, [source, *contents]), ends, link, template).follow()
    finally:
        if folder is not None:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


def is_ready(zygote: socket.socket, link: Link) -> bool:
    """Wait until programs can be forked; False when there is nothing to wait for any more."""
    waited: list[Any] = [zygote, link.source]
    ready, _, _ = select.select(waited, [], [])
    return zygote in ready and bool(zygote.recv(1))


def main() -> Job:
    """Serve the host; returns in the process of a program, with nothing of this left above it."""
    link = take_over()
    frame = link.wait()
    if frame is None:
        os._exit(0)
    settings, _ = unpack(frame[1])
    settle(settings)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    template = os.fork()
    if template == 0:
        link.close()
        ours.close()
        prepare(settings)
        theirs.send(b"r")
        os.dup2(0, 2)
        return breed(theirs, settings)
    theirs.close()
    if is_ready(ours, link):
        os.dup2(0, 2)
        link.send(b"h", pack({"python": sys.version.split()[0]}, []))
        link.drain()
        serve(link, settings, ours, template)
    os._exit(0)


if __name__ == "__main__":
    become_main(main())
