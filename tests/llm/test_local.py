"""The embedded server answers the same twice, knows its identity without running, and never outlives us."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from trinity.errors import ConfigError, EndpointError, WeightsError
from trinity.llm.models import MODELS
from trinity.llm.transports import local
from trinity.llm.transports.base import Request, TransportError
from trinity.llm.transports.local import LocalServer
from trinity.llm.weights import Weights

NAME = "smollm2-135m-instruct"
NOTHING = Weights(sources=(), cache="/nonexistent")


def ask(text: str, temperature: float = 0.0, max_tokens: int = 12) -> Request:
    """A request of one user message."""
    sampling = {"temperature": temperature, "max_tokens": max_tokens}
    return Request("local", "model", ({"role": "user", "content": text},), sampling, {})


def engine_of(server: LocalServer) -> subprocess.Popen[bytes]:
    """The child process of a running server."""
    assert server._engine is not None
    assert server._engine._process is not None
    return server._engine._process


async def port_of(server: LocalServer) -> int:
    """The port of a running server."""
    port = urlsplit((await server._http())._shown_url).port
    assert port is not None
    return port


def listens(port: int) -> bool:
    """Whether anything takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for somebody to fetch its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def soon(condition: Callable[[], bool], within_s: float = 20.0) -> bool:
    """Whether a condition comes true within some seconds."""
    limit = time.monotonic() + within_s
    while not condition() and time.monotonic() < limit:
        time.sleep(0.05)
    return condition()


# --- identity ---------------------------------------------------------------------------------------------------------


def test_the_identity_needs_neither_file_nor_server() -> None:
    """Weights, engine and chat template stand in the endpoint id, also when the weights are gone."""
    server = LocalServer(NAME, store=NOTHING)
    version = importlib.metadata.version("xllamacpp")
    registered = MODELS[NAME]
    assert server.endpoint_id == f"local:{registered.sha256[:16]}:{version}:{registered.template_sha256[:16]}"
    assert server._engine is None


def test_settings_tell_what_shapes_the_answers() -> None:
    """Threads, slots, cache, context and engine are in the settings; only what names the answer is in the id."""
    one = LocalServer(NAME, store=NOTHING, threads=1)
    other = LocalServer(NAME, store=NOTHING, threads=3, slots=4, prompt_cache=True, context=512)
    assert other.settings() == {
        "engine": "xllamacpp",
        "engine_version": importlib.metadata.version("xllamacpp"),
        "weights": NAME,
        "weights_sha256": MODELS[NAME].sha256,
        "licence": MODELS[NAME].licence,
        "chat_template_sha256": MODELS[NAME].template_sha256,
        "threads": 3,
        "slots": 4,
        "prompt_cache": True,
        "context": 512,
    }
    assert one.endpoint_id == other.endpoint_id
    assert one.kind == "live"


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (4, 1), (6, 1), (8, 2), (16, 4), (64, 4)])
def test_threads_follow_the_cores(monkeypatch: pytest.MonkeyPatch, cores: int, threads: int) -> None:
    """One thread on small machines, a quarter of the cores but at most four on larger ones."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert LocalServer(NAME, store=NOTHING).settings()["threads"] == threads


@pytest.mark.parametrize("key", ["threads", "slots", "context"])
def test_numbers_below_one_are_refused(key: str) -> None:
    """The line names the model, the key and the value."""
    options: dict[str, Any] = {key: 0}
    with pytest.raises(ConfigError, match=f"local model {NAME}: {key} is 0; it must be at least 1"):
        LocalServer(NAME, store=NOTHING, **options)


def test_the_context_is_what_the_engine_makes_of_it() -> None:
    """A number of tokens that the engine would round up is refused, so that the settings are true."""
    with pytest.raises(ConfigError, match="context is 1000; it must be a multiple of 256"):
        LocalServer(NAME, store=NOTHING, context=1_000)


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the engine the line names the extra that brings it."""

    def missing(_: str) -> str:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(EndpointError, match=r"trinity-suite\[local\]"):
        LocalServer(NAME, store=NOTHING).prepare()


# --- files that must not or cannot be loaded --------------------------------------------------------------------------


async def test_a_damaged_file_never_reaches_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the wrong hash is refused before any process starts."""
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    monkeypatch.setattr(local, "_Engine", None)
    server = LocalServer(NAME, store=Weights(paths={NAME: str(path)}, cache=str(tmp_path / "cache")))
    with pytest.raises(WeightsError, match=f"damaged weights file {path}"):
        await server.send(ask("Hi"), 1)
    await server.close()


async def test_a_file_that_the_engine_refuses_is_one_line(tmp_path: Path) -> None:
    """A GGUF header without a model ends the child, not us, and the line names the file."""
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(16) + os.urandom(1_000))
    server = LocalServer("own", store=Weights(paths={"own": str(path)}, cache=str(tmp_path / "cache")))
    for _ in range(2):
        with pytest.raises(EndpointError, match=f"xllamacpp could not load {path}: Failed to init server") as caught:
            await server.send(ask("Hi"), 1)
        assert "\n" not in str(caught.value)
    await server.close()


# --- a real model -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def store() -> Weights:
    """SmolLM2's weights, fetched if this machine has none."""
    store = Weights()
    store.locate(NAME)
    return store


@pytest.mark.weights
@pytest.mark.timeout(600)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
async def test_equal_requests_give_equal_texts(store: Weights, temperature: float) -> None:
    """Alone, queued together with others, and after a restart a request gives the same answer."""
    server = LocalServer(NAME, store=store)
    requests = [ask(f"Name {word} of the world.", temperature) for word in ("rivers", "cities", "birds", "kings")]
    alone = [(await server.send(request, 7)).text for request in requests]
    queued = await asyncio.gather(*(server.send(request, 7) for request in reversed(requests)))
    await server.close()
    again = [(await server.send(request, 7)).text for request in requests]
    await server.close()
    assert len(set(alone)) == len(requests)
    assert [reply.text for reply in reversed(queued)] == alone
    assert again == alone


@pytest.mark.weights
@pytest.mark.timeout(600)
async def test_the_prompt_cache_is_off_unless_asked_for(store: Weights) -> None:
    """A repeated prompt is computed again; with the prompt cache most of it is reused."""
    for prompt_cache in (False, True):
        server = LocalServer(NAME, store=store, prompt_cache=prompt_cache)
        replies = [await server.send(ask("Name three rivers.", max_tokens=2), 1) for _ in range(2)]
        await server.close()
        usage = replies[1].usage
        assert usage is not None
        assert usage.input_tokens > 0
        assert (usage.cached_tokens > 0) is prompt_cache


@pytest.mark.weights
@pytest.mark.timeout(600)
async def test_two_servers_stand_side_by_side(store: Weights) -> None:
    """Two servers have two processes and ports, answer at once, and closing one leaves the other."""
    one, other = (LocalServer(NAME, store=store) for _ in range(2))
    first, second = await asyncio.gather(
        one.send(ask("Name three rivers."), 1), other.send(ask("Name three rivers."), 1)
    )
    assert first == second
    assert await port_of(one) != await port_of(other)
    await one.close()
    assert (await other.send(ask("Name three rivers."), 1)) == first
    await other.close()


@pytest.mark.weights
@pytest.mark.timeout(600)
async def test_what_does_not_fit_is_told_apart(store: Weights) -> None:
    """A prompt beyond the context ends as `context`, an answer that fills it as `length`."""
    server = LocalServer(NAME, store=store, context=256)
    assert (await server.send(ask("word " * 500), 1)).finish_reason == "context"
    reply = await server.send(ask("Tell a long story about a river and a city.", max_tokens=500), 1)
    await server.close()
    assert reply.finish_reason == "length"
    assert reply.usage is not None
    assert reply.usage.total_tokens <= 256


@pytest.mark.weights
@pytest.mark.timeout(600)
async def test_the_first_requests_share_one_start(store: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four first requests start one process while the loop goes on, and a cancelled one does not stop it."""
    started: list[int] = []
    spawn = local._Engine._spawn

    def counted(engine: local._Engine, *arguments: object) -> subprocess.Popen[bytes]:
        started.append(1)
        return spawn(engine, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(local._Engine, "_spawn", counted)
    server = LocalServer(NAME, store=store, slots=4)
    cancelled, *others = (asyncio.create_task(server.send(ask("Hi", max_tokens=2), 1)) for _ in range(4))
    turns = 0
    while server._starting is None or not server._starting.done():
        await asyncio.sleep(0.01)
        turns += 1
        if turns == 2:
            cancelled.cancel()
    replies = await asyncio.gather(*others)
    await server.close()
    assert cancelled.cancelled()
    assert all(reply.usage is not None for reply in replies)
    assert started == [1]
    assert turns > 5


@pytest.mark.weights
@pytest.mark.timeout(600)
async def test_close_frees_port_and_process(store: Weights) -> None:
    """After `close` nothing listens and no child is left, also when a request was under way; twice is once."""
    server = LocalServer(NAME, store=store)
    await server.send(ask("Hi", max_tokens=1), 1)
    port, process = await port_of(server), engine_of(server)
    assert listens(port)
    under_way = asyncio.create_task(server.send(ask("Tell a long story.", max_tokens=1_000), 1))
    await asyncio.sleep(0.2)
    await server.close()
    await server.close()
    assert not listens(port)
    assert process.returncode is not None
    with pytest.raises(TransportError):
        await under_way


@pytest.mark.weights
@pytest.mark.timeout(600)
async def test_close_while_it_starts_leaves_nothing(store: Weights) -> None:
    """The waiting request fails as a broken connection, and the child that was loading is gone."""
    server = LocalServer(NAME, store=store)
    waiting = asyncio.create_task(server.send(ask("Hi"), 1))
    while server._engine is None or server._engine._process is None:  # noqa: ASYNC110 - nothing tells when it is there
        await asyncio.sleep(0.01)
    process = engine_of(server)
    await server.close()
    with pytest.raises(TransportError, match="closed while it started") as caught:
        await waiting
    assert caught.value.kind == "connection"
    assert process.returncode is not None


@pytest.mark.weights
@pytest.mark.timeout(600)
async def test_a_dead_server_is_started_anew(store: Weights) -> None:
    """When the engine's process dies, the attempt fails as a broken connection and a later one gets its answer."""
    server = LocalServer(NAME, store=store)
    before = await server.send(ask("Name three rivers."), 1)
    under_way = asyncio.create_task(server.send(ask("Tell a long story.", max_tokens=1_000), 1))
    await asyncio.sleep(0.2)
    engine_of(server).kill()
    with pytest.raises(TransportError) as caught:
        await under_way
    assert caught.value.kind == "connection"
    engine_of(server).wait()
    assert await server.send(ask("Name three rivers."), 1) == before
    await server.close()


FORGETFUL = textwrap.dedent(
    """
    import asyncio, os, sys
    from urllib.parse import urlsplit
    from trinity.llm.transports.base import Request
    from trinity.llm.transports.local import LocalServer
    from trinity.llm.weights import Weights

    async def main():
        await server.send(Request("x", "x", ({"role": "user", "content": "Hi"},), {"max_tokens": 1}, {}), 1)
        http = await server._http()
        await http.close()
        print(server._engine._process.pid, urlsplit(http._shown_url).port, flush=True)
        if sys.argv[1] == "hang":
            await asyncio.sleep(600)

    server = LocalServer("smollm2-135m-instruct", store=Weights())
    asyncio.run(main())
    """
)


@pytest.mark.weights
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("end", ["exit", "SIGKILL", "SIGTERM", "SIGINT"])
def test_the_server_ends_with_us(end: str) -> None:
    """However the process ends that forgot to close, it ends at once and takes server and port with it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", FORGETFUL, "exit" if end == "exit" else "hang"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid, port = map(int, process.stdout.readline().split())
        if end != "exit":
            assert listens(port)
            process.send_signal(signal.Signals[end])
        _, noise = process.communicate(timeout=60)
    assert process.returncode == (0 if end == "exit" else -signal.Signals[end]), noise
    assert soon(lambda: has_ended(pid) and not listens(port))
    assert "xllamacpp" not in noise
