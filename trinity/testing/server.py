"""An OpenAI-compatible server on the loopback interface that fails exactly as it is told to.

In a test it lives in the loop of its client (`async with FaultServer(...) as server`); as a process of its own it is

    python -m trinity.testing.server --port 0 --faults mixed --seed 1 --log events.jsonl

which prints its port on a line, and its counts as one line of JSON when it is ended (SIGTERM, SIGINT) or asked by
`GET /stats` (`GET /stats/requests`: by request hash).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from trinity.canonical import digest
from trinity.errors import ConfigError, TrinityError
from trinity.llm.transports.base import Reply, Request
from trinity.testing.counts import Counts, Event, Kind, Log
from trinity.testing.faults import PRESETS, REFUSALS, WASTED, Fault, Faults, altered
from trinity.types import Message, Usage

if TYPE_CHECKING:
    from aiohttp import web

Script = Callable[[Request], Reply]

ID_HEADER = "X-Client-Request-Id"
"""Where a client says the hash of its request, so that server and client speak of the same thing."""

_MAX_BODY_BYTES = 64 * 2**20
_HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
_WRONG_SHAPE = b'{"object": "chat.completion", "choices": []}'
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Received(Request):
    """A request as it came over the wire, with the hash that its client gave it."""

    request_id: str = ""

    @property
    def hash(self) -> str:
        """The client's request hash; without one, the SHA-256 of the canonical body."""
        return self.request_id

    @classmethod
    def read(cls, body: Any, request_id: str | None) -> Self:
        """The request in a decoded body; `sampling` is all but model, messages and seed.

        Raises:
            ValueError: it is no chat completion request.
        """
        try:
            messages = tuple(
                Message(role=message["role"], content=_content(message["content"])) for message in body["messages"]
            )
            model = body["model"]
        except (TypeError, KeyError) as error:
            raise ValueError(f"no chat completion request ({error!r})") from error
        rest = {key: value for key, value in body.items() if key not in ("model", "messages", "seed")}
        return cls("", str(model), messages, rest, {}, request_id=request_id or digest(body))


def _content(content: Any) -> str:
    """Text of a message, whose content may be a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or () if isinstance(part, dict))


class Alike(Mapping[str, _T]):
    """A mapping in which every key has the same value."""

    def __init__(self, value: _T) -> None:
        self._value = value

    def __getitem__(self, key: str) -> _T:
        return self._value

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def skill_script(skills: Mapping[str, Mapping[str, float]] | None = None) -> Script:
    """Agents of known skill in all roles; without `skills` every model is right half of the time."""
    from trinity.testing.skill import TeamScript

    return TeamScript(Alike(Alike(0.5)) if skills is None else skills)


class FaultServer:
    """`POST {url}/chat/completions` on 127.0.0.1: answers from a script, faults from a function.

    Equal requests are known by `ID_HEADER`, else by their canonical body; the attempt is how often a request came
    before. What an attempt gets is a function of these two and the request alone.

    Args:
        faults: which attempt meets what; by default only markers in prompts count.
        script: what the model answers, with its true usage; by default `skill_script()`.
        latency: draws the seconds that each attempt takes before anything is answered.
        max_in_flight: attempts beyond are refused with 429 and are no attempts to `faults`. This depends on what
            else is asked, so it is off where outcomes are to be foretold.
        log: a file to which every event is appended; what it holds from an earlier server is counted on.
        port: 0 takes a free one.

    Attributes:
        counts: what came of all attempts so far.
        url: the base URL, once it runs.
        overloaded: attempts that `max_in_flight` refused.
    """

    def __init__(
        self,
        faults: Faults | None = None,
        script: Script | None = None,
        *,
        latency: Callable[[], float] | None = None,
        max_in_flight: int | None = None,
        log: Path | None = None,
        port: int = 0,
    ) -> None:
        self.faults = faults or Faults()
        self.script = script or skill_script()
        self.counts = _earlier(log)
        self.overloaded = 0
        self.port = port
        self._latency = latency
        self._max_in_flight = max_in_flight
        self._log = None if log is None else Log(log)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """What a client takes for its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the port is taken.
        """
        from aiohttp import web

        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_get("/stats", self._stats)
        app.router.add_get("/stats/requests", self._stats_by_request)
        # A hang lasts until its client leaves: that is when its handler is cancelled.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.01)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=4096).start()
        except OSError as error:
            await self.close()
            raise ConfigError(f"port {self.port}: {error.strerror}; choose another one, or 0") from error
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening; open attempts are cancelled. A second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        log, self._log = self._log, None
        if log is not None:
            log.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _stats(self, _: web.Request) -> web.Response:
        return _json_response(200, {**self.counts.to_json(), "overloaded": self.overloaded})

    async def _stats_by_request(self, _: web.Request) -> web.Response:
        return _json_response(200, self.counts.by_request())

    async def _complete(self, wire: web.Request) -> web.StreamResponse:
        try:
            asked = Received.read(json.loads(await wire.read()), wire.headers.get(ID_HEADER))
        except ValueError as error:
            return _json_response(400, _error("invalid_request_error", str(error)))
        if self._max_in_flight is not None and self.counts.in_flight >= self._max_in_flight:
            self.overloaded += 1
            return _json_response(429, _error("rate_limit_exceeded", "Too many requests at once."))
        tally = self.counts.tallies.get(asked.hash)
        attempt = 0 if tally is None else tally.received
        fault = self.faults.on(asked, attempt)
        note = partial(self._note, asked, attempt, fault)
        note("received")
        return await self._answer(wire, asked, fault, note)

    async def _answer(
        self, wire: web.Request, asked: Received, fault: Fault, note: Callable[..., None]
    ) -> web.StreamResponse:
        """Do what `fault` says, and note how it ended whatever happens."""
        response, usage = self._work(asked, fault)
        ended: Kind = "refused" if fault in REFUSALS else "wasted"
        try:
            await self._wait(fault)
            response = await _send(wire, fault, response)
            if fault not in REFUSALS and fault not in WASTED:
                ended = "answered"
        except ConnectionError:
            pass  # the client left, or was cut off as told: nobody is to be told
        finally:
            note(ended, usage)
        return response

    def _work(self, asked: Received, fault: Fault) -> tuple[web.Response, Usage]:
        """The response before `fault` breaks it on the wire, and the tokens that the model spent on it."""
        if fault in REFUSALS:
            return self._refusal(fault), Usage()
        reply = altered(fault, self.script(asked))
        body = completion(asked, reply, usage=fault is not Fault.NO_USAGE)
        return _json_response(200, body), reply.usage or Usage()

    async def _wait(self, fault: Fault) -> None:
        if self._latency is not None:
            await asyncio.sleep(self._latency())
        if fault is Fault.SLOW:
            await asyncio.sleep(self.faults.slow_s)

    def _refusal(self, fault: Fault) -> web.Response:
        status, code, message = REFUSALS[fault]
        response = _json_response(status, _error(code, message))
        if fault is Fault.RATE_LIMIT_AFTER:
            response.headers["Retry-After"] = str(self.faults.retry_after_s)
        return response

    def _note(self, asked: Received, attempt: int, fault: Fault, kind: Kind, usage: Usage | None = None) -> None:
        event = Event(time.monotonic(), kind, asked.hash, attempt, asked.model, fault, usage or Usage())
        self.counts.note(event)
        if self._log is not None:
            self._log.write(event)


def _earlier(log: Path | None) -> Counts:
    """What earlier servers wrote to this log; what they left open has ended with them."""
    counts = Counts.read(log) if log is not None and log.exists() else Counts()
    counts.in_flight = 0
    return counts


async def _send(wire: web.Request, fault: Fault, good: web.Response) -> web.Response:
    """Write the good response, or what `fault` makes of it, to its last byte.

    Raises:
        ConnectionError: the connection has ended, by the client or as told.
    """
    from aiohttp import web

    body = good.body if isinstance(good.body, bytes) else b""
    match fault:
        case Fault.HANG:
            await asyncio.get_running_loop().create_future()
        case Fault.CLOSED:
            _abort(wire)
        case Fault.CUT:
            await _cut(wire, body)
        case Fault.HALF_JSON:
            good = web.Response(body=body[: len(body) // 2], content_type="application/json")
        case Fault.HTML:
            good = web.Response(body=_HTML, content_type="text/html")
        case Fault.WRONG_SHAPE:
            good = web.Response(body=_WRONG_SHAPE, content_type="application/json")
        case _:
            pass
    await good.prepare(wire)
    await good.write_eof()
    return good


def _abort(wire: web.Request) -> NoReturn:
    """End the connection before an answer."""
    if wire.transport is not None:
        wire.transport.abort()
    raise ConnectionResetError("closed as told")


async def _cut(wire: web.Request, body: bytes) -> NoReturn:
    """Half of the body under a header that promises all of it, then the end of the connection."""
    from aiohttp import web

    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    await response.prepare(wire)
    await response.write(body[: len(body) // 2])
    if wire.transport is not None:
        wire.transport.close()
    raise ConnectionResetError("cut as told")


def completion(asked: Request, reply: Reply, *, usage: bool = True) -> dict[str, Any]:
    """A reply as OpenAI forms it: hidden tokens are a part of the completion's."""
    message = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    body: dict[str, Any] = {
        "id": f"chatcmpl-{asked.hash[:16]}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
    }
    if usage and reply.usage is not None:
        body["usage"] = _wire_usage(reply.usage)
    return body


def _wire_usage(usage: Usage) -> dict[str, Any]:
    written = usage.output_tokens + usage.reasoning_tokens
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": written,
        "total_tokens": usage.input_tokens + written,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": code, "code": code}}


def _json_response(status: int, content: Any) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, body=json.dumps(content).encode(), content_type="application/json")


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trinity.testing.server", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0 (default) takes a free one")
    parser.add_argument("--faults", default="none", help=f"a JSON file, or one of {', '.join(PRESETS)} (default none)")
    parser.add_argument("--seed", type=int, default=0, help="of the fault function")
    parser.add_argument("--skills", type=Path, help="JSON file {MODEL: {TASK: probability of a right answer}}")
    parser.add_argument("--latency-ms", type=float, nargs=2, metavar=("LOW", "HIGH"), help="drawn for each attempt")
    parser.add_argument("--max-in-flight", type=int, help="more are refused with 429")
    parser.add_argument("--log", type=Path, help="file to append every event to")
    return parser.parse_args(words)


def _configured(options: argparse.Namespace) -> FaultServer:
    """The server that the command line asks for.

    Raises:
        ConfigError: a file is missing or holds something else.
    """
    latency = None
    if options.latency_ms is not None:
        low, high = (ms / 1000 for ms in options.latency_ms)
        latency = partial(random.SystemRandom().uniform, low, high)
    try:
        skills = None if options.skills is None else json.loads(options.skills.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"--skills {options.skills}: {error}") from error
    return FaultServer(
        Faults.read(options.faults, options.seed),
        skill_script(skills),
        latency=latency,
        max_in_flight=options.max_in_flight,
        log=options.log,
        port=options.port,
    )


def _say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _serve(server: FaultServer) -> None:
    """Run until SIGTERM or SIGINT."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with server:
        _say(server.port)
        await ended.wait()
    _say(json.dumps({**server.counts.to_json(), "overloaded": server.overloaded}))


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    try:
        asyncio.run(_serve(_configured(_arguments(words))))
    except TrinityError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
