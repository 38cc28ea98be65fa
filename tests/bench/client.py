"""The client against a loopback server: calls per second beside `litellm` and `openai`, and processor time per call.

The server and each contender are a process of their own. Every line says how busy the server was (`server_busy`, a
share of a core: near 1 it is the server that was measured) and how busy the machine was when the benchmark began
(`load`: above half the cores, ratios count and absolute numbers do not).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from tests.llm.support import make_agent, make_context, make_pool, make_request
from trinity.llm.budget import Budget, Cap
from trinity.llm.client import Client, Rules
from trinity.llm.pool import Pool
from trinity.llm.store import MemoryStore, Store
from trinity.llm.transports.base import Template
from trinity.llm.transports.openai_http import OpenAIHTTP
from trinity.runs.ledger import Ledger
from trinity.types import Agent, Message, Price

ROOT = Path(__file__).parents[2]
DELAYS_S = (0.0, 0.2)
WINDOW_S, WINDOWS = 1.0, 3
"""How long and how often calls are counted."""
WARM_S = 6.0
"""Counting begins when as many calls have ended as are in flight, and at the latest after so many seconds."""
CPU_IN_FLIGHT = 32
WIDTHS = (128, 1024)
RIVAL_RATIO, CPU_TARGET_MS = 4, 0.5
QUESTION: list[Message] = [{"role": "user", "content": "How many apples are left? Explain it step by step. " * 20}]
MODEL = "m"
ROOM, ROOMY = 4096, 10**9
USAGE = {"prompt_tokens": 280, "completion_tokens": 90, "total_tokens": 370}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "There are 3. " * 30}, "finish_reason": "stop"}
BODY = json.dumps(
    {"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [CHOICE], "usage": USAGE}
).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)

Ask = Callable[[int], Awaitable[object]]
Contender = Callable[[str], AbstractAsyncContextManager[Ask]]
"""Given the base URL, a way to ask for the n-th answer."""
ClientFactory = Callable[[Pool, Path], AbstractAsyncContextManager[Client]]
"""Given a pool and a folder for files, a client; the folder is removed afterwards."""


class Answering(asyncio.Protocol):
    """As much of HTTP as a benchmark needs: read a request to its end, answer it `delay` seconds later."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer what is complete."""
        self._data += data
        while (end := self._end()) is not None:
            self._data = self._data[end:]
            if self._delay:
                asyncio.get_running_loop().call_later(self._delay, self._answer)
            else:
                self._answer()

    def _end(self) -> int | None:
        """Where the first request ends, once it is here."""
        head = self._data.find(b"\r\n\r\n")
        if head < 0:
            return None
        fields = self._data[:head].lower()
        length = fields.partition(b"content-length:")[2].partition(b"\r\n")[0]
        end = head + 4 + int(length)
        return end if end <= len(self._data) else None

    def _answer(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(ANSWER)


def serve() -> None:
    """Body of the server's process: print one URL a delay, then serve until standard input ends."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for delay in DELAYS_S:
            server = await loop.create_server(partial(Answering, delay), "127.0.0.1", 0, backlog=ROOM)
            sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)

    asyncio.run(main())


@contextmanager
def server() -> Iterator[tuple[int, dict[float, str]]]:
    """A running server: its process id, and its URL for each delay in seconds."""
    code = "from tests.bench.client import serve; serve()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.pid, {delay: process.stdout.readline().strip() for delay in DELAYS_S}
        process.stdin.close()


@asynccontextmanager
async def bare_aiohttp(url: str) -> AsyncIterator[Ask]:
    """A session and nothing else: what any client on aiohttp costs at least."""
    import aiohttp

    body = json.dumps({"model": MODEL, "messages": QUESTION}).encode()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask(_: int) -> object:
            async with session.post(f"{url}/chat/completions", data=body) as response:
                return json.loads(await response.read())

        yield ask


@asynccontextmanager
async def our_transport(url: str) -> AsyncIterator[Ask]:
    """The transport alone."""
    transport = OpenAIHTTP(url)
    first = make_request(messages=tuple(QUESTION))
    template = Template.of(first)  # what the client keeps of each agent

    async def ask(number: int) -> object:
        request = template.request(QUESTION, first.replicate, lambda _: number)
        return await transport.send(request, request.seed)

    yield ask
    await transport.close()


def our_client(factory: ClientFactory) -> Contender:
    """The client that a factory makes, every call of an episode of its own."""

    @asynccontextmanager
    async def contender(url: str) -> AsyncIterator[Ask]:
        agent = priced_agent()
        with tempfile.TemporaryDirectory() as folder:
            async with factory(make_pool(OpenAIHTTP(url), agent), Path(folder)) as client:

                async def ask(number: int) -> object:
                    return await client.complete(agent, QUESTION, make_context(index=number))

                yield ask
                await client.close()

    return contender


def priced_agent() -> Agent:
    """An agent whose every call can be billed."""
    return make_agent(model=MODEL, price=Price(1.0, 2.0, "bench"), sampling={"temperature": 1.0, "max_tokens": 256})


@asynccontextmanager
async def plain(pool: Pool, folder: Path) -> AsyncIterator[Client]:
    """A client that keeps nothing and is bounded by nothing."""
    del folder
    yield Client(pool, MemoryStore(), None, Rules(concurrency=ROOM))


@asynccontextmanager
async def full(pool: Pool, folder: Path) -> AsyncIterator[Client]:
    """A client as a run has it: store and ledger as files, caps on every axis."""
    store = Store.open(folder / "store.sqlite")
    cap = Cap(usd=float(ROOMY), weighted_tokens=ROOMY**2, calls=ROOMY)
    rules = Rules(budget=Budget(cap, {"train": cap}, {}), episode=cap, concurrency=ROOM)
    with Ledger.create(folder / "ledger.sqlite") as ledger:
        yield Client(pool, store, ledger, rules)
    store.close()


@asynccontextmanager
async def openai_aiohttp(url: str) -> AsyncIterator[Ask]:
    """`openai.AsyncOpenAI` with its aiohttp backend and room for every connection."""
    import openai

    limits = openai.DEFAULT_CONNECTION_LIMITS.__class__(max_connections=ROOM, max_keepalive_connections=ROOM)
    http = openai.DefaultAioHttpClient(limits=limits)
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=http) as client:

        async def ask(_: int) -> object:
            return await client.chat.completions.create(model=MODEL, messages=QUESTION)  # type: ignore[arg-type]

        yield ask


@asynccontextmanager
async def litellm_acompletion(url: str) -> AsyncIterator[Ask]:
    """`litellm.acompletion` over its own aiohttp transport, with room for every connection."""
    names = ("AIOHTTP_CONNECTOR_LIMIT", "AIOHTTP_CONNECTOR_LIMIT_PER_HOST")
    os.environ.update({"LITELLM_LOCAL_MODEL_COST_MAP": "True", **dict.fromkeys(names, str(ROOM))})
    import litellm

    litellm.suppress_debug_info = True
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)

    async def ask(_: int) -> object:
        return await litellm.acompletion(
            model=f"openai/{MODEL}", api_base=url, api_key="none", messages=QUESTION, num_retries=0
        )

    yield ask


CONTENDERS: dict[str, Contender] = {
    "bare aiohttp": bare_aiohttp,
    "transport": our_transport,
    "client": our_client(plain),
    "client with budget, limits, store and ledger": our_client(full),
    "openai with aiohttp": openai_aiohttp,
    "litellm.acompletion": litellm_acompletion,
}


async def steady(ask: Ask, width: int, server_pid: int) -> dict[str, float]:
    """What `width` calls in flight come to when all connections are made.

    Rates are over all windows. Processor time is that of the best one: another process on the same core, or on its
    twin, makes it longer and never shorter.
    """
    waits: list[float] = []
    warm, numbers = asyncio.Event(), iter(range(ROOMY))

    async def worker() -> None:
        while True:
            start = time.perf_counter()
            await ask(next(numbers))
            waits.append(time.perf_counter() - start)
            if len(waits) == width:
                warm.set()

    def now() -> tuple[float, ...]:
        return len(waits), time.perf_counter(), time.process_time(), _processor_s(server_pid)

    workers = [asyncio.create_task(worker()) for _ in range(width)]
    with suppress(TimeoutError):
        await asyncio.wait_for(warm.wait(), WARM_S)
    marks = [now()]
    for _ in range(WINDOWS):
        await asyncio.sleep(WINDOW_S)
        marks.append(now())
    for one in workers:
        one.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    count, wall, _, theirs = (last - first for first, last in zip(marks[0], marks[-1], strict=True))
    cpu = min((after[2] - before[2]) / (after[0] - before[0]) for before, after in pairwise(marks))
    percentiles = statistics.quantiles(waits[int(marks[0][0]) : int(marks[-1][0])], n=100)
    waited = {"p50_ms": 1000 * percentiles[49], "p99_ms": 1000 * percentiles[98]}
    return {"rate": count / wall, "cpu_ms": 1000 * cpu, "server_busy": theirs / wall, **waited}


def _processor_s(process: int) -> float:
    """Processor seconds that a process has used."""
    used = psutil.Process(process).cpu_times()
    return used.user + used.system


def contend(name: str, server_pid: int, tasks: list[tuple[str, int]]) -> None:
    """Body of a contender's process: one JSON line for each (base URL, width)."""

    async def main() -> None:
        for url, width in tasks:
            async with CONTENDERS[name](url) as ask:
                sys.stdout.write(json.dumps(await steady(ask, width, server_pid)) + "\n")

    asyncio.run(main())


def measure(name: str, server_pid: int, tasks: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """What a contender comes to in a process of its own."""
    code = f"from tests.bench.client import contend; contend({name!r}, {server_pid}, {tasks!r})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(tasks), f"{name}: {done.stdout}"
    return lines


def rate_line(width: int, ours: dict[str, float], rival: str, theirs: dict[str, float]) -> dict[str, Any]:
    """Calls per second beside a rival's; the share is of what `width` calls of 0.2 s each could be."""
    least = RIVAL_RATIO if rival.startswith("litellm") else 1
    ideal, ratio = width / DELAYS_S[1], ours["rate"] / theirs["rate"]
    return {
        "bench": f"client: {width} in flight, 200 ms",
        "value": round(ours["rate"]),
        "unit": "calls/s",
        "share_of_ideal": round(ours["rate"] / ideal, 3),
        **{key: round(ours[key]) for key in ("p50_ms", "p99_ms")},
        **{key: round(ours[key], 3) for key in ("cpu_ms", "server_busy")},
        "rival": rival,
        "rival_value": round(theirs["rate"]),
        "rival_share_of_ideal": round(theirs["rate"] / ideal, 3),
        **{f"rival_{key}": round(theirs[key]) for key in ("p50_ms", "p99_ms")},
        "ratio": round(ratio, 2),
        "target": f"ratio >= {least}",
        "ok": ratio >= least,
    }


def cpu_line(name: str, ours: dict[str, float], rival: str, theirs: dict[str, float]) -> dict[str, Any]:
    """Processor time of one call at a server that answers at once."""
    return {
        "bench": f"{name}: processor time per call, 0 ms",
        "value": round(ours["cpu_ms"], 3),
        "unit": "ms",
        "rate": round(ours["rate"]),
        "server_busy": round(ours["server_busy"], 3),
        "rival": rival,
        "rival_value": round(theirs["cpu_ms"], 3),
        "ratio": round(ours["cpu_ms"] / theirs["cpu_ms"], 2),
        "target": f"value <= {CPU_TARGET_MS}",
        "ok": ours["cpu_ms"] <= CPU_TARGET_MS,
    }


def main() -> None:
    """Print the comparisons as JSON lines."""
    load = round(os.getloadavg()[0], 2)
    with server() as (pid, urls):
        slow = [(urls[0.2], width) for width in WIDTHS]
        at_once = [(urls[0.0], CPU_IN_FLIGHT)]
        client = measure("client", pid, slow)
        for rival in ("openai with aiohttp", "litellm.acompletion"):
            for width, ours, theirs in zip(WIDTHS, client, measure(rival, pid, slow), strict=True):
                print(json.dumps({**rate_line(width, ours, rival, theirs), "load": load}))
        names = list(CONTENDERS)[:4]
        cost = {name: measure(name, pid, at_once)[0] for name in names}
        for rival, name in pairwise(names):
            print(json.dumps({**cpu_line(name, cost[name], rival, cost[rival]), "load": load}))
