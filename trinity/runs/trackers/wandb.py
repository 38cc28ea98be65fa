"""A tracker for Weights & Biases; its library runs in a process of its own, which can hang and die without the run."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from trinity.errors import ConfigError, TrinityError
from trinity.naming import check_choice
from trinity.runs.files import read_json, write_json
from trinity.runs.sharing import open_tasks
from trinity.runs.trackers.base import RunStart
from trinity.runs.trackers.wandb_worker import Mode

START_S = 30.0
"""Seconds for the library to load and begin; a cold file system of a cluster needs many of them."""
SEND_S = 2.0
"""Seconds that a message may wait for the worker to read it."""
REST_S = 5.0
"""Seconds of `finish_s` that are kept for writing what W&B did not take to the disk."""
ABANDON_S = 3.0
"""Seconds for the worker to put everything away when the run failed."""
LAST_S = 1.0
"""Seconds for it to end once it has done all it had to."""

FOLDER, STATE = "wandb", "tracked.json"
DIED = "its library has died"
MODULE = "trinity.runs.trackers.wandb_worker"
_KEPT = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_ENTITY"),
)
"""All of the environment that the worker sees; the library would send more of it than anybody asked for."""


class WorkerError(TrinityError):
    """The worker failed, or did not answer in time."""


class WandbTracker:
    """Config, generations, summary, tables, figures and artifacts of a run as one run of W&B.

    A resumed run goes on under the same id, which `wandb/tracked.json` in the run's folder keeps; a sweep is a group.
    Without a key or a network the files are written to the run's folder only, from where `wandb sync` takes them.
    """

    def __init__(
        self,
        mode: str | None = None,
        project: str = "trinity",
        entity: str | None = None,
        base_url: str | None = None,
        finish_s: float = 10.0,
        records: int = 2000,
        transcripts: int = 300,
    ) -> None:
        """See `conf/tracker/wandb.yaml`.

        Raises:
            ConfigError: a mode that does not exist, or a number that is too small.
        """
        wanted = mode or os.environ.get("WANDB_MODE") or None
        if wanted is not None:
            check_choice("tracker.mode", wanted, (*get_args(Mode), "disabled"))
        least = (("finish_s", finish_s, REST_S), ("records", records, 0), ("transcripts", transcripts, 0))
        for name, value, bound in least:
            if value < bound:
                raise ConfigError(f"tracker.{name}={value}: must be at least {bound:g}")
        self._mode, self._finish_s = wanted, finish_s
        self._settings = {"project": project, "entity": entity, "base_url": base_url}
        self._caps = {"records": records, "transcripts": transcripts}
        self._run: _Tracked | None = None

    def start(self, run: RunStart) -> None:
        """Begin a run of W&B, or go on with the one that the run's folder knows.

        Raises:
            WorkerError: the library cannot even write files.
            LedgerError: the folder cannot be written.
        """
        if self._mode != "disabled":
            self._run = _Tracked(run, self._settings)
            self._run.begin(self._mode, START_S)

    def generation(self, number: int, metrics: Mapping[str, Any]) -> None:
        """One step.

        Raises:
            WorkerError: the library has died.
        """
        if self._run is not None:
            self._run.generation(number, metrics)

    def finish(self, summary: Mapping[str, Any], folder: Path) -> None:
        """Hand over results, tables, figures and artifacts; what W&B does not take in time stays in the folder.

        Raises:
            WorkerError: they could not be written either.
        """
        if self._run is not None:
            self._run.finish({"do": "finish", "summary": summary, "caps": self._caps}, self._finish_s)
            self._run = None

    def abandon(self, why: str) -> None:
        """Mark the run as failed and let it end; nothing that was tracked is lost."""
        if self._run is not None:
            self._run.close(ABANDON_S)
            self._run = None


class _Tracked:
    """A run, what `wandb/tracked.json` in its folder keeps of it, and the worker that tracks it now."""

    def __init__(self, run: RunStart, settings: Mapping[str, Any]) -> None:
        """`settings` are the project and the like.

        Raises:
            LedgerError: the folder cannot be written.
        """
        self._run, self._settings = run, settings
        self._folder = run.folder / FOLDER
        self._folder.mkdir(exist_ok=True)
        state = self._folder / STATE
        new = {"id": secrets.token_hex(8), "generations": {}, "ends": 0}
        self._state: dict[str, Any] = read_json(state) if state.exists() else new
        self._keep()
        self._worker: _Worker | None = None

    def begin(self, mode: str | None, seconds: float, *, quiet: bool = False) -> None:
        """Start a worker; where it cannot go online, one that writes files.

        Raises:
            WorkerError: it cannot do that either.
        """
        until = time.monotonic() + seconds
        self._worker = worker = _Worker(self._folder)
        try:
            started = worker.ask(self._first_message(mode), seconds)
        except WorkerError as error:
            self.close(0.0)
            if mode == "offline":
                raise
            self._run.say(f"W&B: {error}")
            self.begin("offline", until - time.monotonic())
            return
        worker.online = started["mode"] == "online"
        if not quiet:
            where = started["url"] if worker.online else f"send it later: {self._sync}"
            self._run.say(f"W&B: {started['mode']}{started['why']}; {where}")

    def generation(self, number: int, metrics: Mapping[str, Any]) -> None:
        """Track one, unless an earlier process did: its step comes after those of the trainers before it."""
        trainer, done = metrics["trainer"], self._state["generations"]
        if self._worker is not None and number > done.get(trainer, -1):
            before = sum(last + 1 for name, last in done.items() if name != trainer)
            self._worker.send({"do": "generation", "number": number, "step": before + number, "metrics": metrics})
            done[trainer] = number
            self._keep()

    def finish(self, message: dict[str, Any], seconds: float) -> None:
        """Let the worker take the results and end; where it went online and cannot, one that writes files.

        Raises:
            WorkerError: that one cannot either.
        """
        until = time.monotonic() + seconds
        message["step"] = sum(last + 1 for last in self._state["generations"].values()) + self._state["ends"]
        try:
            self._hand_over(message, seconds - REST_S if self._online else seconds)
        except WorkerError as error:
            was_online = self._online
            self.close(0.0)
            if not was_online:
                raise
            self._run.say(f"W&B: {error}; what it did not take is kept: {self._sync}")
            self.begin("offline", until - time.monotonic(), quiet=True)
            self._hand_over(message, until - time.monotonic())
        self._end(until)

    def close(self, seconds: float) -> None:
        """Let the worker end."""
        if self._worker is not None:
            self._worker.close(seconds)
            self._worker = None

    @property
    def _online(self) -> bool:
        return self._worker is not None and self._worker.online

    def _hand_over(self, message: Mapping[str, Any], seconds: float) -> None:
        for line in self._worker.ask(message, seconds)["lines"] if self._worker else ():
            self._run.say(f"W&B: {line}")
        self._state["ends"] += 1
        self._keep()

    def _end(self, until: float) -> None:
        """Everything is in the library's file; let it send that as long as there is time."""
        try:
            if self._worker is not None:
                self._worker.ask({"do": "end"}, until - time.monotonic())
            self.close(LAST_S)
        except WorkerError:
            self.close(0.0)
            self._run.say(f"W&B: not everything was sent in time; what is left is kept: {self._sync}")

    def _first_message(self, mode: str | None) -> dict[str, Any]:
        run, manifest = self._run, self._run.manifest
        facts = {name: manifest.get(name) for name in ("run_id", "pool_kind", "seeds", "git", "graders")}
        return {
            "do": "start",
            "mode": mode,
            **self._settings,
            "id": self._state["id"],
            "group": run.sweep,
            "name": run.folder.name if run.sweep else manifest["run_id"],
            "folder": str(run.folder.absolute()),
            "config": {**manifest["config"], "run": facts},
            "restricted": sorted({str(task["name"]) for task in manifest["tasks"]} - open_tasks(manifest)),
        }

    def _keep(self) -> None:
        write_json(self._folder / STATE, self._state)

    @property
    def _sync(self) -> str:
        """The command that sends everything that is kept here."""
        return f"wandb sync --include-online {self._folder}/*run-*"


class _Worker:
    """The process with the library, which reads a JSON line a message and answers some; it ends when we hang up."""

    def __init__(self, folder: Path) -> None:
        """Start it; its files go below `folder`, temporary ones into a folder that ends with it."""
        self.online = False
        self._temporary = tempfile.mkdtemp(prefix="trinity-")
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and a module of ours
                [sys.executable, "-P", "-m", MODULE],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=worker_environment(folder.absolute(), self._temporary),
                start_new_session=True,  # Ctrl-C is for us, who let it end in order
            )

    def send(self, message: Mapping[str, Any], seconds: float = SEND_S) -> None:
        """Hand over a message.

        Raises:
            WorkerError: it is not read in time, or the worker is gone.
        """
        self._socket.settimeout(max(seconds, 0.001))
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except TimeoutError as error:
            raise WorkerError("its library does not listen") from error
        except OSError as error:
            raise WorkerError(DIED) from error

    def ask(self, message: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Its answer to a message.

        Raises:
            WorkerError: it failed, says so, or did not answer in time.
        """
        until = time.monotonic() + seconds
        self.send(message, seconds)
        answer = b""
        while not answer.endswith(b"\n"):
            self._socket.settimeout(max(until - time.monotonic(), 0.001))
            try:
                part = self._socket.recv(1 << 16)
            except TimeoutError as error:
                raise WorkerError(f"no end within {seconds:.0f} s") from error
            except OSError as error:
                raise WorkerError(DIED) from error
            if not part:
                raise WorkerError(DIED)
            answer += part
        found: dict[str, Any] = json.loads(answer)
        if "error" in found:
            raise WorkerError(found["error"])
        return found

    def close(self, seconds: float) -> None:
        """Hang up, wait so long for its end, then kill it: W&B's own process ends with it."""
        self._socket.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._temporary, ignore_errors=True)


def worker_environment(folder: Path, temporary: str) -> dict[str, str]:
    """What the worker sees of the environment: nothing of it leads to files outside `folder`, but `.netrc` to a key."""
    own = folder / "local"
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    places = {f"WANDB_{name}_DIR": str(own / name.lower()) for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT")}
    return {
        **kept,
        **places,
        "WANDB_DIR": str(folder.parent),
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
        "HOME": str(own),
        "TMPDIR": temporary,
        "NETRC": os.environ.get("NETRC", str(Path("~/.netrc").expanduser())),
        "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
