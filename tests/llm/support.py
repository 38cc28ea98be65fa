"""What the tests of this folder share: agents, contexts, a log, and a real HTTP server that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import web

from trinity.context import Context
from trinity.llm.pool import Pool
from trinity.llm.transports.base import Request
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.runs.calls import Answer
from trinity.types import Agent, Bill, Item, Message, Phase, Price, Replicate, Spend, Task

Step = Callable[[web.Request], Awaitable[web.StreamResponse]]

QUESTION: list[Message] = [{"role": "user", "content": "How many?"}]


def make_context(item_id: str = "item", phase: Phase = "train", index: int = 0) -> Context:
    """The context of one episode."""
    item = Item(item_id=item_id, task="task", prompt="How many?", target="3", domain="numbers")
    return Context(task=cast("Task", None), item=item, replicate=Replicate(phase, index), seed=0)


def make_agent(name: str = "a", endpoint: str = "e", model: str = "m", **changes: Any) -> Agent:
    """A sampling agent; `changes` replace fields."""
    fields: dict[str, Any] = {"sampling": {"temperature": 1.0}, **changes}
    return Agent(name=name, endpoint=endpoint, model=model, **fields)


def make_request(**changes: Any) -> Request:
    """A small request; `changes` replace fields."""
    fields: dict[str, Any] = {
        "endpoint_id": "e",
        "model": "m",
        "messages": ({"role": "user", "content": "How many?"},),
        "sampling": {"temperature": 1.0},
        "extra_body": {},
        "replicate": Replicate("train", 0),
        "sample": 0,
    }
    return Request(**{**fields, **changes})


def make_pool(transport: Any, *agents: Agent) -> Pool:
    """A pool of agents behind one endpoint `e`."""
    return Pool("pool", agents or [make_agent()], {"e": transport})


def scripted_pool(answer: Callable[[Request], Any], *agents: Agent) -> tuple[Pool, ScriptedTransport]:
    """A scripted pool and its transport."""
    transport = ScriptedTransport(answer)
    return make_pool(transport, *agents), transport


@dataclass
class Log:
    """A call log in memory; `attempts` are those that gave no answer, `spent` what each attempt cost in the end."""

    uid: str = "us"
    notes: list[tuple[str, bool, Price | None]] = field(default_factory=list)
    attempts: list[tuple[str, int, str, int | None, str]] = field(default_factory=list)
    begun: list[tuple[str, int, Bill, Spend]] = field(default_factory=list)
    spent: list[Spend] = field(default_factory=list)
    grading: set[str] = field(default_factory=set)
    misses: list[str] = field(default_factory=list)
    flushes: int = 0

    def note_call(
        self, answer: Answer, request: Mapping[str, Any], *, paid: bool, price: Price | None, grading: bool = False
    ) -> None:
        """Keep it."""
        self.notes.append((answer.request_hash, paid, price))
        if grading:
            self.grading.add(answer.request_hash)

    def begin_attempt(self, request_hash: str, attempt: int, bill: Bill, reserve: Spend) -> int:
        """Keep it; its place."""
        self.begun.append((request_hash, attempt, bill, reserve))
        return len(self.begun) - 1

    def end_attempt(
        self, number: int, kind: str, status: int | None, detail: str, spend: Spend, request: Any = None
    ) -> None:
        """Keep it."""
        self.spent.append(spend)
        if kind != "answered":
            self.attempts.append((*self.begun[number][:2], kind, status, detail))

    def note_miss(self, request_hash: str, request: Mapping[str, Any]) -> None:
        """Keep it."""
        self.misses.append(request_hash)

    behind: bool = False

    async def flushed(self) -> None:
        """Count it."""
        self.flushes += 1


class Sleeps(list[float]):
    """A sleep that only writes down how long it should have been."""

    async def __call__(self, seconds: float) -> None:
        """Note and go on."""
        self.append(seconds)
        await asyncio.sleep(0)


class Server:
    """An HTTP server whose answers are set by a test: one step a request, the last one again and again."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.paths: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Note the request and take the next step."""
        self.bodies.append(await request.json() if request.can_read_body else {})
        self.headers.append(request.headers.copy())
        self.paths.append(request.path_qs)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return await step(request)


@asynccontextmanager
async def running_server() -> AsyncIterator[Server]:
    """A server on a free port of 127.0.0.1; `url` is its base URL."""
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.url = f"http://{host}:{port}/v1"
        yield server
    finally:
        await runner.cleanup()


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Step:
    """A step that answers with `body`: JSON, or raw bytes."""

    async def step(_: web.Request) -> web.StreamResponse:
        if isinstance(body, bytes):
            return web.Response(body=body, status=status, headers=headers)
        return web.json_response(body, status=status, headers=headers)

    return step


def hang_up() -> Step:
    """A step that breaks the connection without an answer."""

    async def step(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return step


def stall(seconds: float) -> Step:
    """A step that answers too late."""

    async def step(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.json_response(completion("late"))

    return step


def completion(text: str | None, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion as OpenAI forms it; without usage."""
    return {"choices": [{"message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}]}


def messages(*contents: str) -> Sequence[Message]:
    """User messages."""
    return [Message(role="user", content=content) for content in contents]
