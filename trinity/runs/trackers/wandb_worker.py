"""The process in which W&B's library runs: reads a JSON line a message from its standard input, a socket.

`start`, `finish` and `end` are answered with a line, `generation` is not. When the other side hangs up before `end`,
the run is marked as failed and ends.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

Mode = Literal["online", "offline"]

REACH_S = 2.0
"""Seconds in which a server must answer anything at all before the library is let loose on it."""
INIT_S = 8.0
"""Seconds in which it must take the run."""
GRACE_S = 10.0
"""Seconds for the library to end after the other side has hung up."""


LONGEST = 300
"""Characters of an error that are told."""
OLD_HOSTS = ("api.wandb.ai",)
"""Where else `wandb login` may have left the key of W&B's own server."""


class Choice(NamedTuple):
    """How a run is tracked, and why otherwise than wanted ("" or ", " and a reason)."""

    mode: Mode
    why: str = ""


def chosen_mode(wanted: str | None, url: str, key: str | None, answers: Callable[[str, float], bool]) -> Choice:
    """Online where it is wanted or nothing was said, there is a key, and the server answers."""
    if wanted == "offline":
        return Choice("offline")
    if not key:
        return Choice("offline", ", for there is no API key (WANDB_API_KEY)")
    if not answers(url, REACH_S):
        return Choice("offline", f", for {url} does not answer")
    return Choice("online")


def api_key(*hosts: str) -> str | None:
    """The key in the environment, else the one that `wandb login` left in `.netrc` for one of `hosts`."""
    from netrc import NetrcParseError, netrc

    if os.environ.get("WANDB_API_KEY"):
        return os.environ["WANDB_API_KEY"]
    try:
        known = netrc(os.environ.get("NETRC"))
    except (OSError, NetrcParseError):
        return None
    found = [entry[2] for host in hosts if (entry := known.authenticators(host))]
    return found[0] if found else None


def answers(url: str, seconds: float) -> bool:
    """Whether a server says anything, an error included; asked from a thread, for looking up a name may take long."""
    import urllib.error
    import urllib.request

    heard = threading.Event()

    def ask() -> None:
        try:
            urllib.request.urlopen(url, timeout=seconds).close()  # noqa: S310 - the user's own server
        except urllib.error.HTTPError:
            heard.set()
        except (OSError, ValueError):
            return
        else:
            heard.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return heard.is_set()


class Session:
    """One run of W&B, from `start` to `finish`."""

    def __init__(self) -> None:
        """Nothing is loaded before `start`."""
        self._run: Any = None
        self._start: dict[str, Any] = {}
        self._server = ""
        self._trainers: set[str] = set()

    def handle(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """What to answer to a message, if anything."""
        doings = {"start": self.start, "generation": self.generation, "finish": self.finish, "end": self.end}
        return doings[message["do"]](message)

    def start(self, message: dict[str, Any]) -> dict[str, Any]:
        """Begin the run."""
        from urllib.parse import urlsplit

        import wandb

        self._start = message
        default = wandb.Settings().base_url
        url = message["base_url"] or os.environ.get("WANDB_BASE_URL") or default
        key = api_key(urlsplit(url).netloc, *(OLD_HOSTS if url == default else ()))
        choice = chosen_mode(message["mode"], url, key, answers)
        os.environ["WANDB_API_KEY"] = key or ""
        settings = wandb.Settings(mode=choice.mode, base_url=url, **SILENT)
        self._run = wandb.init(
            id=message["id"],
            name=message["name"],
            group=message["group"],
            project=message["project"],
            entity=message["entity"],
            config=message["config"],
            resume="allow",
            settings=settings,
        )
        self._server = url if choice.mode == "online" else ""
        return {"mode": choice.mode, "why": choice.why, "url": self._run.url if self._server else ""}

    def generation(self, message: dict[str, Any]) -> None:
        """Log one."""
        metrics, trainer = message["metrics"], message["metrics"]["trainer"]
        if trainer not in self._trainers:
            self._trainers.add(trainer)
            self._run.define_metric(f"{trainer}/generation")
            self._run.define_metric(f"{trainer}/*", step_metric=f"{trainer}/generation")
        values = {f"{trainer}/generation": message["number"], **logged(metrics)}
        self._run.log(values, step=message["step"], commit=True)

    def finish(self, message: dict[str, Any]) -> dict[str, Any]:
        """Hand everything that the folder holds to the library.

        Raises:
            TimeoutError: the server has fallen silent, which the library would wait for.
        """
        from trinity.runs.trackers import wandb_results as results

        if self._server and not answers(self._server, REACH_S):
            raise TimeoutError(f"{self._server} does not answer any more")
        folder = Path(self._start["folder"])
        shown = results.Shown(frozenset(self._start["restricted"]), **message["caps"])
        self._run.summary.update(results.flattened(message["summary"]))
        tables, lines = results.tables(folder, shown, message["summary"])
        self._run.log({**results.figures(folder), **tables}, step=message["step"], commit=True)
        for artifact in results.artifacts(folder, shown, self._start["id"]):
            self._run.log_artifact(artifact)
        return {"lines": lines}

    def end(self, message: dict[str, Any]) -> dict[str, Any]:
        """Let the library send what it has, and end."""
        import wandb

        self._run.finish()
        wandb.teardown()
        self._run = None
        return {}

    def abandon(self) -> None:
        """End the run as a failed one."""
        if self._run is not None:
            import wandb

            self._run.finish(exit_code=1)
            wandb.teardown()


SILENT: dict[str, Any] = {
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "host": "",
    "init_timeout": INIT_S,
    "program": "",
    "save_code": False,
    "silent": True,
    "symlink": False,
    "username": "",
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "x_transaction_log_flush_interval": 1.0,
}
"""Settings with which the library takes nothing from machine, user, code, command line and console."""


def logged(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """A generation's metrics with a name each, and two histograms whose n-th bar is the n-th agent or role."""
    import numpy as np
    import wandb

    trainer = metrics["trainer"]
    values: dict[str, Any] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            values |= {f"{trainer}/{name}/{key}": entry for key, entry in value.items()}
        elif name != "trainer":
            values[f"{trainer}/{name}"] = value
    for name in ("agents", "roles"):
        counts = np.array(list(metrics[name].values()))
        values[f"{trainer}/choice/{name}"] = wandb.Histogram(np_histogram=(counts, np.arange(len(counts) + 1)))
    return {name: value for name, value in values.items() if value is not None}


def told(error: BaseException) -> str:
    """An error in a line, without the key that it may quote."""
    from trinity.secrets import forms, replaced

    text, key = " ".join(f"{type(error).__name__}: {error}".split()), os.environ.get("WANDB_API_KEY")
    return replaced(text, sorted(forms(key), key=len, reverse=True) if key else ())[:LONGEST]


def serve(channel: socket.socket) -> None:
    """Handle messages until one fails or the other side hangs up; what is not finished then is abandoned."""
    session = Session()
    with channel.makefile("rb") as lines:
        for line in lines:
            try:
                answer = session.handle(json.loads(line))
            except Exception as error:  # noqa: BLE001 - the other side decides what becomes of it
                answer = {"error": told(error)}
            if answer is not None:
                channel.sendall(json.dumps(answer).encode() + b"\n")
            if answer is not None and "error" in answer:
                break
    watchdog = threading.Timer(GRACE_S, os._exit, (1,))
    watchdog.daemon = True
    watchdog.start()
    session.abandon()


def main() -> int:
    """The process; its exit code."""
    # Before the library registers its own, so that it comes after them; the other side may have been killed.
    atexit.register(shutil.rmtree, os.environ["TMPDIR"], ignore_errors=True)
    channel = socket.socket(fileno=os.dup(0))
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # what we start must not hold the socket
    serve(channel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
