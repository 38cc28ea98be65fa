"""Runs to be tracked, without a run: folders as one leaves them, and servers that W&B's library could meet."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.runs.conftest import call, record_row
from trinity.runs.ledger import Ledger
from trinity.runs.records import write_records
from trinity.runs.trackers.base import RunStart
from trinity.types import Replicate

SUMMARY: dict[str, Any] = {
    "experiment": "x",
    "pool": "p",
    "pool_kind": "scripted",
    "cost_axis": "usd",
    "rows": [
        {
            "method": "single",
            "variant": "qwen-2.5/7b",
            "task": task,
            "n_episodes": n,
            "accuracy": 0.1 + 0.2,
            "ci_low": None,
        }
        for task, n in (("all", 6), ("sums", 3), ("secret", 3))
    ],
    "totals": {"paid_calls": 12345678901234567, "spent_usd": None},
    "effort": {},
}
"""Of the episodes in `folder_of_a_run`."""

PAYLOAD = {"fitness": [0.0, 0.5, 1.0, 1.0, 0.5], "sigma": 0.25, "val": None, "episodes": 5, "logical_calls": 9}
METRICS: dict[str, Any] = {
    "trainer": "coordinator",
    "fitness": {"mean": 0.6, "best": 1.0, "q25": 0.5, "q50": 0.5, "q75": 1.0},
    "sigma": 0.25,
    "validation": None,
    "episodes": 5,
    "logical_calls": 9,
    "paid_calls": 0,
    "status": {"correct": 3, "wrong": 2},
    "agents": {"big": 4, "small": 1},
    "roles": {"thinker": 0, "worker": 5, "verifier": 0},
}
MANIFEST: dict[str, Any] = {
    "run_id": "x/run",
    "experiment": "x",
    "pool": "p",
    "pool_kind": "scripted",
    "seeds": {"seed": 0},
    "git": {"commit": None, "dirty": None},
    "graders": {"sums": "exact/1"},
    "config": {"name": "x", "seed": 3, "data": {"n_test": 3}, "note": None},
    "tasks": [{"name": "sums", "redistribute": "yes"}, {"name": "secret", "redistribute": "ids-only"}],
}
PRIVATE = "the answer that must stay"


def folder_of_a_run(folder: Path) -> Path:
    """A finished run's folder: ledger, records, a picture and a checkpoint; one of its two tasks is restricted."""
    folder.mkdir(parents=True, exist_ok=True)
    with Ledger.create(folder / "ledger.sqlite") as ledger:
        for index in range(3):
            for task in ("sums", "secret"):
                answer, request = call(f"{task} question {index}", text=PRIVATE if task == "secret" else "four")
                ledger.note_call(answer, request, paid=True, price=None)
                ledger.add_record(
                    record_row(
                        variant="qwen-2.5/7b",
                        task=task,
                        item_id=f"{task}-{index}",
                        replicate=Replicate("test", 0),
                        answer=answer.text,
                        call_ids=(answer.call_id,),
                    )
                )
        write_records(folder / "records.parquet", ledger.records())
    (folder / "checkpoint" / "coordinator").mkdir(parents=True)
    (folder / "checkpoint" / "coordinator" / "best.safetensors").write_bytes(b"theta")
    (folder / "report_images").mkdir()
    (folder / "report_images" / "cost.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "report.html").write_text("<p>report</p>")
    return folder


def started(folder: Path, said: list[str] | None = None, *, resumed: bool = False) -> RunStart:
    """The start of that run; what it says goes to `said`."""
    return RunStart(folder, MANIFEST, resumed, (said if said is not None else []).append)


def forget_account(monkeypatch: pytest.MonkeyPatch, netrc: Path) -> None:
    """No key, setting or proxy of whoever runs the tests, until the test ends; `netrc` is the only file with keys."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


@contextmanager
def silent() -> Iterator[str]:
    """URL of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


class Dying(ThreadingHTTPServer):
    """A server of W&B's kind that takes a run, and says nothing more from then on; or refuses everybody."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), DyingHandler)
        self.refuses, self.dead, self.closed = refuses, False, threading.Event()
        self.asked: list[str] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is none of ours."""


class DyingHandler(BaseHTTPRequestHandler):
    """Answers the two questions with which a run begins."""

    server: Dying

    def do_GET(self) -> None:
        """Answer whoever looks whether anybody is there."""
        self._answer({})

    def do_POST(self) -> None:
        """Answer what a run needs to begin."""
        question = self.rfile.read(int(self.headers["Content-Length"])).decode("utf-8", "replace")
        self.server.asked.append(question)
        owner = {"id": "p", "name": "trinity", "entity": {"id": "e", "name": "us"}}
        bucket = {"id": "b", "name": "run", "displayName": "run", "config": "{}", "project": owner}
        new = "UpsertBucket" in question
        self._answer({"upsertBucket": {"bucket": bucket, "inserted": True}} if new else {"model": None})
        self.server.dead |= new

    def _answer(self, data: dict[str, Any]) -> None:
        if self.server.dead:
            self.server.closed.wait()
            return
        body = json.dumps({"data": data}).encode()
        self.send_response(401 if self.server.refuses else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def dying(*, refuses: bool = False) -> Iterator[tuple[str, Dying]]:
    """A running `Dying` and its URL."""
    with Dying(refuses=refuses) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", server
        finally:
            server.closed.set()
            server.shutdown()
            thread.join()
