"""Programs in containers: slower than bubblewrap, for machines whose users may not make namespaces themselves."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from typing import Any

from evals.sandbox.base import Limits
from evals.sandbox.launch import ENVIRONMENT, INSIDE, PROJECT, SCRIPT, Launcher, filters
from trinity.errors import ConfigError

IMAGE = "python:3.11-slim"
OURS = "/worker"
FIRST_USER, USERS = 200_000, 100_000
PATIENCE_S = 30
OVERHEAD = 2
"""How far the container's own bounds lie above those that programs usually get: they are a second wall."""


class Docker(Launcher):
    """Starts every worker in a container of its own, which ends with its one program.

    The worker is the container's first process and root in it, with no right but to become somebody else; programs run
    as a user that owns nothing. The container has no network, a system that cannot be written to, and a small /tmp.

    Args:
        image: an image with Python 3.9 or later.
        python: its interpreter.
    """

    kind = "docker"
    once = True

    def __init__(self, image: str = IMAGE, python: str = "python3") -> None:
        self.image, self._python = image, python
        self._users = itertools.count(os.getpid() * 97)

    def command(self, name: str) -> list[str]:
        """The command line of docker."""
        usual = Limits()
        memory = f"{OVERHEAD * (usual.memory_bytes + usual.scratch_bytes)}b"
        scratch = f"size={usual.scratch_bytes},nr_inodes={usual.scratch_files},mode=1777,nosuid,nodev,exec"
        environment = [f"--env={key}={value}" for key, value in ENVIRONMENT.items() if key != "PATH"]
        return [
            *(self._program(), "run", "--rm", "--interactive", f"--name={name}", "--pull=missing", "--init=false"),
            *("--network=none", "--ipc=private", "--read-only", "--user=0:0", "--workdir=/", "--log-driver=none"),
            *("--cap-drop=ALL", "--cap-add=SETUID", "--cap-add=SETGID", "--cap-add=KILL"),
            *("--security-opt=no-new-privileges", f"--pids-limit={OVERHEAD * usual.processes}"),
            *(f"--memory={memory}", f"--memory-swap={memory}", "--ulimit=core=0", "--oom-score-adj=500"),
            *(f"--tmpfs=/tmp:{scratch}", f"--shm-size={usual.scratch_bytes}b"),
            f"--volume={PROJECT / INSIDE}:{OURS}/{INSIDE}:ro",
            *environment,
            *(f"--entrypoint={self._python}", self.image, "-S", "-s", "-B", f"{OURS}/{SCRIPT}"),
        ]

    def settings(self) -> dict[str, Any]:
        """Programs are another user than the worker, a new one in each container."""
        user = FIRST_USER + next(self._users) % USERS
        return {"isolated": False, "uid": None, "uid_of_program": user, "filters": filters(), "paths": []}

    def check(self) -> None:
        """See whether a daemon answers.

        Raises:
            ConfigError: none does.
        """
        command = [self._program(), "version", "--format", "{{.Server.Version}}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)  # noqa: S603
        except (OSError, subprocess.SubprocessError) as error:
            raise ConfigError(self.refusal(f"docker does not answer ({error})")) from error
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise ConfigError(self.refusal(f"docker has no daemon to run containers ({reason})"))

    def facts(self) -> dict[str, object]:
        """Kind and image."""
        return {"kind": self.kind, "image": self.image}

    def release(self, name: str) -> None:
        """Remove the container, which outlives a command that was killed."""
        try:
            subprocess.run(  # noqa: S603 - the command is ours
                [self._program(), "rm", "--force", name], capture_output=True, check=False, timeout=PATIENCE_S
            )
        except (ConfigError, OSError, subprocess.SubprocessError):
            return

    def _program(self) -> str:
        """Path of docker's command."""
        program = shutil.which("docker")
        if program is None:
            raise ConfigError(self.refusal("there is no docker on PATH"))
        return program
