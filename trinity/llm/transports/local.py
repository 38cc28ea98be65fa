"""A model served on this machine: one embedded llama.cpp server, started by us and spoken to over HTTP.

The engine (`xllamacpp`) runs in a child process of its own. Within this process its constructor would hold the
interpreter's lock until the weights are loaded, so that no other call could go on; its destructor can wait for ever
when it comes right after the constructor; and whatever ends the engine would end the run. The child ends when its
standard input closes, which the operating system does however this process ends.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from trinity.errors import ConfigError, EndpointError
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.weights import Identity, Weights, licence
from trinity.types import PoolKind

if TYPE_CHECKING:
    from trinity.llm.transports.openai_http import OpenAIHTTP

ENGINE = "xllamacpp"

_HOST = "127.0.0.1"
_ANSWER_LIMIT_S = 1800.0
"""For one answer once it has a slot: a slow machine is no reason to ask again."""
_START_LIMIT_S = 300.0
_STOP_LIMIT_S = 5.0
_HASH_DIGITS = 16
_FEW_CORES = 4
_CONTEXT_STEP = 256
"""The engine rounds up to it, and the settings must not say otherwise."""


class LocalServer:
    """One model behind one embedded server; the server starts with the first request and ends with `close`.

    `weights` is a name of the registry or of `store.paths`. `threads` are the engine's (default: `default_threads`),
    `slots` the requests it works on at once, `context` the tokens each slot holds, prompt and answer together. Answers
    are repeatable with one slot and without a prompt cache: batches of changing size, and states computed in other
    chunks, round differently. Requests wait for a slot on our side, so that no time-out runs while they wait.

    `prompt_log` is a folder, made if need be, into which the engine writes each prompt that it is asked, a file each.
    """

    kind: PoolKind = "live"

    def __init__(
        self,
        weights: str,
        *,
        store: Weights,
        threads: int | None = None,
        slots: int = 1,
        prompt_cache: bool = False,
        context: int = 2048,
        prompt_log: str | None = None,
    ) -> None:
        self._weights = weights
        self._store = store
        self._threads = default_threads() if threads is None else threads
        self._slots = slots
        self._prompt_cache = prompt_cache
        self._context = context
        self._prompt_log = prompt_log
        for key, value in (("threads", self._threads), ("slots", slots), ("context", context)):
            if value < 1:
                raise ConfigError(f"local model {weights}: {key} is {value}; it must be at least 1")
        if context % _CONTEXT_STEP:
            raise ConfigError(f"local model {weights}: context is {context}; it must be a multiple of {_CONTEXT_STEP}")
        self._identity: Identity | None = None
        self._engine: _Engine | None = None
        self._starting: asyncio.Task[OpenAIHTTP] | None = None
        self._free_slots = asyncio.Semaphore(slots)

    @property
    def endpoint_id(self) -> str:
        """`local:` weights `:` engine version `:` chat template, hashes cut to 16 digits.

        Known without a server, and for registered weights without their file.

        Raises:
            WeightsError: unregistered weights without a readable file.
            EndpointError: the engine is not installed.
        """
        weights, template = (part[:_HASH_DIGITS] for part in (self._hashes.sha256, self._hashes.template_sha256))
        return f"local:{weights}:{engine_version()}:{template}"

    @property
    def _hashes(self) -> Identity:
        if self._identity is None:
            self._identity = self._store.identity(self._weights)
        return self._identity

    def settings(self) -> dict[str, Any]:
        """What shapes speed and rounding."""
        return {
            "engine": ENGINE,
            "engine_version": engine_version(),
            "weights": self._weights,
            "weights_sha256": self._hashes.sha256,
            "licence": licence(self._weights),
            "chat_template_sha256": self._hashes.template_sha256,
            "threads": self._threads,
            "slots": self._slots,
            "prompt_cache": self._prompt_cache,
            "context": self._context,
        }

    def prepare(self) -> Path:
        """Verified weights file, fetched if need be; `send` does it too, but a run wants to know before it starts.

        Raises:
            WeightsError: no source has it, or the file is damaged.
            EndpointError: the engine is not installed.
        """
        engine_version()
        return self._store.locate(self._weights)

    async def send(self, request: Request, seed: int) -> Reply:
        """One attempt.

        Raises:
            TransportError: it failed; a server that has died is started anew by the next attempt.
            EndpointError: the engine is not installed or does not take these weights.
            WeightsError: as `prepare`.
        """
        async with self._free_slots:
            http = await self._http()
            return await http.send(self._wire(request), seed)

    def _wire(self, request: Request) -> Request:
        """The request with the engine's switch, which is not part of its hash."""
        return replace(request, extra_body={**request.extra_body, "cache_prompt": self._prompt_cache})

    async def _http(self) -> OpenAIHTTP:
        """The way to the running server; whoever comes first starts it, and may be cancelled without stopping it."""
        if self._starting is not None and self._starting.done() and self._engine is not None and self._engine.died():
            await self._stop()
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if starting.cancelled():
                raise TransportError("connection", "the local server was closed while it started") from None
            raise

    async def _start(self) -> OpenAIHTTP:
        from trinity.llm.transports.openai_http import OpenAIHTTP

        path = await asyncio.to_thread(self.prepare)
        self._engine = _Engine(self._options(path))
        address = await asyncio.to_thread(self._engine.start)
        return OpenAIHTTP(
            f"{address}/v1",
            endpoint_id=self.endpoint_id,
            read_timeout_s=_ANSWER_LIMIT_S,
            total_timeout_s=_ANSWER_LIMIT_S,
        )

    def _options(self, path: Path) -> dict[str, Any]:
        return {
            "path": str(path),
            "threads": self._threads,
            "slots": self._slots,
            "prompt_cache": self._prompt_cache,
            "context": self._context,
            "prompt_log": self._prompt_log,
        }

    async def close(self) -> None:
        """Stop the server and free its port; a later request starts it anew."""
        await self._stop()
        self._free_slots = asyncio.Semaphore(self._slots)

    async def _stop(self) -> None:
        starting, self._starting = self._starting, None
        engine, self._engine = self._engine, None
        if starting is not None:
            starting.cancel()
            await asyncio.wait([starting])
            if not starting.cancelled() and starting.exception() is None:
                await starting.result().close()
        if engine is not None:
            await asyncio.to_thread(engine.stop)


def default_threads() -> int:
    """One on machines of up to four cores, else a quarter of the cores, at most four.

    llama.cpp's threads spin while they wait for each other: with as many as cores, one more busy process made two
    threads ten times slower than one.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1 if cores <= _FEW_CORES else min(_FEW_CORES, cores // 4)


def engine_version() -> str:
    """Version of the installed engine.

    Raises:
        EndpointError: there is none.
    """
    try:
        return importlib.metadata.version(ENGINE)
    except importlib.metadata.PackageNotFoundError:
        raise EndpointError("local models need the package xllamacpp: pip install 'trinity-suite[local]'") from None


class _Engine:
    """The child process: started once, stopped once."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def start(self) -> str:
        """Address (`http://host:port`) of the server once its weights are loaded.

        Raises:
            EndpointError: it did not come up; says what the engine said.
        """
        with tempfile.TemporaryFile() as log:
            process = self._spawn(log)
            alarm = threading.Timer(_START_LIMIT_S, process.kill)
            alarm.daemon = True
            alarm.start()
            assert process.stdout is not None  # noqa: S101 - a pipe, as `_spawn` says
            address = process.stdout.readline().decode().strip()
            alarm.cancel()
            if address:
                return address
            self.stop()
            raise EndpointError(f"{ENGINE} could not load {self._options['path']}: {_last_line(log)}")

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the child, unless `stop` came first. It finds the packages where this process does."""
        command = [sys.executable, "-m", __name__, json.dumps(self._options)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with self._lock:
            if self._stopped:
                raise EndpointError("the local server was closed while it started")
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
            return self._process

    def died(self) -> bool:
        """Whether the child has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> None:
        """End the child; wait until its port is free."""
        with self._lock:
            self._stopped = True
        process = self._process
        if process is None:
            return
        assert process.stdin is not None  # noqa: S101 - pipes, as `_spawn` says
        assert process.stdout is not None  # noqa: S101
        process.stdin.close()
        try:
            process.wait(timeout=_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it ended without a word")


def _serve(options: Mapping[str, Any]) -> None:
    """Body of the child: load, say where it listens, serve until standard input ends."""
    # Ctrl-C reaches the whole group; this process ends when its parent lets go of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import xllamacpp

    try:
        server = xllamacpp.Server(_parameters(xllamacpp.CommonParams(), options))
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        os._exit(1)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    # Nobody reads this pipe any more; nothing that the engine prints may ever fill it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdin.buffer.read()
    # Not by way of the engine's destructor, which can wait for ever.
    os._exit(0)


def _parameters(parameters: Any, options: Mapping[str, Any]) -> Any:
    """The engine's parameters; `n_ctx` is the sum over slots, port 0 any free one, verbosity 0 silent."""
    parameters.model.path = options["path"]
    parameters.hostnames = [_HOST]
    parameters.port = 0
    parameters.n_parallel = options["slots"]
    parameters.n_ctx = options["slots"] * options["context"]
    parameters.cpuparams.n_threads = options["threads"]
    parameters.cpuparams_batch.n_threads = options["threads"]
    parameters.cache_prompt = options["prompt_cache"]
    if not options["prompt_cache"]:
        parameters.cache_ram_mib = 0
        parameters.cache_idle_slots = False
    if options["prompt_log"] is not None:
        Path(options["prompt_log"]).mkdir(parents=True, exist_ok=True)
        parameters.path_prompts_log_dir = options["prompt_log"]
    # It would shrink the context to what it guesses to fit.
    parameters.fit_params = False
    parameters.offline = True
    parameters.warmup = False
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.verbosity = 0
    return parameters


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
