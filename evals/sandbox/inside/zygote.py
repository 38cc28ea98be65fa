"""The process that programs are forked from: has their modules imported and never sees what any of them was given."""

from __future__ import annotations

import gc
import os
import signal
import site
import socket
import sys
import threading
from typing import Any

from evals.sandbox.inside import linux
from evals.sandbox.inside.cell import Job, start

MOST_DESCRIPTORS = 6


def prepare(settings: dict[str, Any]) -> None:
    """Import what programs shall find imported.

    Raises:
        RuntimeError: an import has started threads.
    """
    linux.prctl(linux.SET_PDEATHSIG, signal.SIGKILL)
    sys.path[1:] = settings["paths"] or [*sys.path[2:], *site.getsitepackages()]
    site.setquit()
    site.setcopyright()
    site.sethelper()
    for name in settings["preload"]:
        __import__(name)
    if threading.active_count() > 1:
        raise RuntimeError("a preloaded module has started threads, which no fork takes along")
    gc.collect()
    gc.freeze()


def breed(requests: socket.socket, settings: dict[str, Any]) -> Job:
    """Fork a program at each request, until the supervisor has gone; returns in the program's process."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 1, MOST_DESCRIPTORS)
        if not message:
            os._exit(0)
        job = start(settings, descriptors)
        if job is not None:
            return job
