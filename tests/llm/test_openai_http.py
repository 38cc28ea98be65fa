"""The HTTP transport against a real server that answers, fails and misbehaves as told."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.llm.support import (
    QUESTION,
    Server,
    Sleeps,
    Step,
    answer,
    completion,
    make_agent,
    make_context,
    make_pool,
    make_request,
    running_server,
)
from trinity.errors import CallError, ConfigError, EndpointError, TrinityError
from trinity.llm.client import Client, Rules
from trinity.llm.retry import RetryPolicy
from trinity.llm.store import MemoryStore, Store
from trinity.llm.transports.base import Reply, TransportError
from trinity.llm.transports.openai_http import OpenAIHTTP
from trinity.runs.ledger import Ledger
from trinity.types import FinishReason, Usage

CANARY = "sk-canary-4711-0815"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A running server."""
    async with running_server() as one:
        yield one


async def send(server: Server, *steps: Step, **options: Any) -> Reply:
    """One attempt."""
    server.steps = list(steps)
    transport = OpenAIHTTP(server.url, **options)
    try:
        return await transport.send(make_request(), seed=7)
    finally:
        await transport.close()


async def failure(server: Server, step: Step, **options: Any) -> TransportError:
    """The failure of one attempt."""
    with pytest.raises(TransportError) as caught:
        await send(server, step, **options)
    return caught.value


async def test_request_body_holds_everything_and_nothing_else(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Model, messages, sampling, extra body and seed go on the wire; the key only as a header."""
    monkeypatch.setenv("SOME_KEY", f"{CANARY}\n")
    server.steps = [answer(completion("3"))]
    transport = OpenAIHTTP(server.url + "/", api_key_env="SOME_KEY", headers={"X-Title": "trinity"})
    request = make_request(sampling={"temperature": 0.5, "stop": ["\n"]}, extra_body={"cache_prompt": False})
    await transport.send(request, request.seed)
    await transport.close()
    assert server.bodies == [
        {
            "model": "m",
            "messages": QUESTION,
            "temperature": 0.5,
            "stop": ["\n"],
            "cache_prompt": False,
            "seed": request.seed,
        }
    ]
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["Authorization"] == f"Bearer {CANARY}"
    assert server.headers[0]["X-Title"] == "trinity"
    assert server.headers[0]["X-Client-Request-Id"] == request.hash
    assert server.headers[0]["Content-Type"] == "application/json"


async def test_seed_and_key_can_be_left_out(server: Server) -> None:
    """An endpoint that refuses `seed` or wants no key gets none."""
    await send(server, answer(completion("3")), send_seed=False)
    assert "seed" not in server.bodies[0]
    assert "Authorization" not in server.headers[0]


async def test_user_info_and_query_go_on_the_wire(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query stands in the config and its secret part in the environment; the name of the endpoint holds neither."""
    monkeypatch.setenv("URL_CODE", f" {CANARY}/+1\n")
    server.steps = [answer({"error": {"message": f"no {CANARY}/+1, no {CANARY}%2F%2B1"}}, 401)]
    query: dict[str, Any] = {"api-version": "2024-10-21", "v": 5}
    url = server.url.replace("http://", "http://me:s%20ecret@")
    transport = OpenAIHTTP(url, query=query, query_env={"code": "URL_CODE"})
    with pytest.raises(TransportError, match=r"no \*\*\*, no \*\*\*; check the key .* variable URL_CODE$"):
        await transport.send(make_request(), 0)
    await transport.close()
    assert server.paths == [f"/v1/chat/completions?api-version=2024-10-21&v=5&code={CANARY}/%2B1"]
    assert server.headers[0]["Authorization"] == "Basic bWU6cyBlY3JldA=="
    told = transport.settings()
    assert transport.endpoint_id == told["url"] == server.url
    assert (told["query"], told["query_env"]) == ({"api-version": "2024-10-21", "v": "5"}, {"code": "URL_CODE"})


def test_the_endpoint_is_named_by_its_url_or_as_configured() -> None:
    """The name is part of the request hash, so it holds no secret and is the same on every machine."""
    url = "https://me:secret@Host:8443/v1/"
    assert OpenAIHTTP(url).endpoint_id == "https://host:8443/v1"
    assert OpenAIHTTP(url, endpoint_id="mine").endpoint_id == "mine"


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "Proxy-Authorization",
        "api-key",
        "X-Goog-Api-Key",
        "X-Auth",
        "PRIVATE-TOKEN",
        "Cookie",
        "x-secret",
    ],
)
def test_secrets_in_headers_are_refused(name: str) -> None:
    """A config is stored with the run, so no header whose name speaks of a secret may stand in it."""
    with pytest.raises(ConfigError, match=f"headers: {name} is a secret .*; use api_key_env or header_env") as caught:
        OpenAIHTTP("http://h/v1", headers={"X-Title": "trinity", name: f"Bearer {CANARY}"})
    assert CANARY not in str(caught.value)


async def test_a_token_in_the_place_of_the_users_name_is_not_shown(server: Server) -> None:
    """What a provider echoes of the URL's user name is redacted, encoded or not."""
    for step in (answer({"error": {"message": f"no {CANARY}%2B here"}}, 500), answer({"error": f"no {CANARY}+"}, 400)):
        server.steps = [step]
        transport = OpenAIHTTP(server.url.replace("http://", f"http://{CANARY}%2B@"))
        with pytest.raises(TransportError, match=r": no \*\*\*( here)?$"):
            await transport.send(make_request(), 0)
        await transport.close()


async def test_secret_headers_come_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure's `api-key` and the like: the value goes on the wire, its variable's name into the settings."""
    monkeypatch.setenv("AZURE_KEY", f" {CANARY}\n")
    echo = answer({"error": {"message": f"no such key: {CANARY}"}}, 401)
    error = await failure(server, echo, header_env={"api-key": "AZURE_KEY"})
    assert server.headers[0]["api-key"] == CANARY
    assert "Authorization" not in server.headers[0]
    assert str(error).endswith("no such key: ***; check the key in the environment variable AZURE_KEY")
    shown = OpenAIHTTP(server.url, header_env={"api-key": "AZURE_KEY"}).settings()
    assert shown["header_env"] == {"api-key": "AZURE_KEY"}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"api_key_env": CANARY}, "api_key_env must be the name of an environment variable"),
        ({"header_env": {"api-key": CANARY}}, "header_env: api-key must be the name"),
        ({"header_env": {"api-key": "0123abcd"}}, "header_env: api-key must be the name"),
        ({"query_env": {"code": CANARY}}, "query_env: code must be the name"),
        ({"query": {"access_token": CANARY}}, "query: access_token is a secret .* use query_env"),
        ({"query": {"a": "1"}, "query_env": {"a": "B"}}, "set one parameter twice"),
        ({"api_key_env": "A", "header_env": {"authorization": "B"}}, "set one header twice"),
        ({"headers": {"X-A": "1"}, "header_env": {"x-a": "B"}}, "set one header twice"),
        ({"headers": {"X A": "1"}}, "a header's name holds letters"),
        ({"headers": {"X-A": f"1\r\nX-B: {CANARY}"}}, "a header's value is one line"),
    ],
)
def test_a_key_in_the_place_of_a_name_is_refused_unshown(options: dict[str, Any], line: str) -> None:
    """Whoever pastes a key where a variable's name belongs reads a line that does not repeat it."""
    with pytest.raises(ConfigError, match=line) as caught:
        OpenAIHTTP("http://h/v1", **options)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "none", None, True])
def test_a_time_limit_is_a_number_of_seconds(value: Any) -> None:
    """A limit that is none would wait for ever, or fail at the first call."""
    with pytest.raises(ConfigError, match=f"read_timeout_s is {value!r}; it must be a number of seconds above 0"):
        OpenAIHTTP("http://h/v1", read_timeout_s=value)


@pytest.mark.parametrize("body", [b"", b"{", b"<html>oops</html>", b"[" * 100_000, '{"ä": 1}'.encode("latin-1")])
async def test_a_body_that_is_no_json_is_malformed_and_shown(server: Server, body: bytes) -> None:
    """A proxy's page in the place of an answer is an attempt to be made again, and a person sees what it was."""
    error = await failure(server, answer(body))
    assert (error.kind, error.status) == ("malformed", 200)
    assert f"{server.url}: no JSON but '{body[:20].decode('utf-8', 'replace')}" in str(error)


async def test_an_answer_without_its_parts_is_malformed(server: Server) -> None:
    """JSON that is no completion names the endpoint that sent it."""
    error = await failure(server, answer({"choices": []}))
    assert (error.kind, str(error)) == ("malformed", f"{server.url}: no complete chat completion (IndexError)")


async def test_a_failure_holds_status_words_and_wait(server: Server) -> None:
    """What the retry rules need and what a person needs: kind, status, Retry-After, URL, the provider's words."""
    step = answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "17"})
    error = await failure(server, step)
    assert (error.kind, error.status, error.retry_after) == ("rate_limit", 429, 17.0)
    assert str(error) == f"{server.url}: HTTP 429: slow down"
    assert str(await failure(server, answer({}, 500))) == f"{server.url}: HTTP 500: no error text"


async def test_long_prompts_and_refusals_are_answers(server: Server) -> None:
    """A prompt that does not fit and a prompt that is refused cost nothing and are not retried."""
    kinds: dict[str, FinishReason] = {"context_length_exceeded": "context", "content_filter": "content_filter"}
    for code, finish in kinds.items():
        assert await send(server, answer({"error": {"code": code}}, 400)) == Reply("", "", finish, Usage())


@pytest.mark.parametrize(
    ("status", "options", "line"),
    [
        (401, {}, "set api_key_env"),
        (401, {"api_key_env": "SOME_KEY"}, "check the key in the environment variable SOME_KEY"),
        (403, {"header_env": {"api-key": "SOME_KEY"}}, "check the key in the environment variable SOME_KEY"),
        (402, {}, "top up the account"),
        (404, {}, "check base_url"),
        (302, {}, "set base_url to where it leads"),
        (308, {}, "set base_url to where it leads"),
    ],
)
async def test_fatal_failures_say_what_to_set(
    server: Server, status: int, options: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the line knows which setting to change; no redirect is followed with the key."""
    monkeypatch.setenv("SOME_KEY", CANARY)
    step = answer({}, status, {"Location": server.url})
    error = await failure(server, step, **options)
    assert error.kind == "fatal"
    assert line in str(error)
    assert len(server.bodies) == 1


OK = json.dumps(completion("3")).encode()


def head(*lines: str, status: str = "200 OK") -> bytes:
    """Head of a response."""
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


def whole(body: bytes = OK) -> bytes:
    """A complete response that leaves the connection open."""
    return head(f"Content-Length: {len(body)}") + body


class Stub:
    """A server on a thread that answers each request with the next pieces: bytes, or seconds to wait.

    After the pieces of one request it hangs up, unless they are followed by `None`.
    """

    def __init__(self, *answers: list[bytes | float | None]) -> None:
        self.answers = list(answers)
        self.closed = threading.Semaphore(0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        """Wait for its end."""
        self.answers.clear()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while self.answers:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            with connection:
                while self._received(connection) and self._answered(connection, self.answers.pop(0)):
                    pass
            self.closed.release()

    @staticmethod
    def _received(connection: socket.socket) -> bool:
        data = b""
        while not (found := re.search(rb"(?s)Content-Length: (\d+).*?\r\n\r\n(.*)", data)) or (
            len(found[2]) < int(found[1])
        ):
            more = connection.recv(2**16)
            if not more:
                return False
            data += more
        return True

    @staticmethod
    def _answered(connection: socket.socket, pieces: list[bytes | float | None]) -> bool:
        for piece in pieces:
            try:
                if isinstance(piece, bytes):
                    connection.sendall(piece)
                elif piece is not None:
                    time.sleep(piece)
            except OSError:
                return False
        return pieces[-1] is None


@contextmanager
def stub(*answers: list[bytes | float | None]) -> Iterator[Stub]:
    """A running stub."""
    server = Stub(*answers)
    try:
        yield server
    finally:
        server.stop()


async def broken(*pieces: bytes | float, **options: Any) -> TransportError:
    """The failure of one attempt at a stub that answers with these pieces and hangs up."""
    with stub(list(pieces)) as server:
        transport = OpenAIHTTP(server.url, **options)
        try:
            with pytest.raises(TransportError) as caught:
                await transport.send(make_request(), 0)
        finally:
            await transport.close()
    return caught.value


CHUNKED = head("Transfer-Encoding: chunked")
BOMB = gzip.compress(bytes(2**21))


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([b""], "connection"),
        ([b"HTTP/1.1 200 O"], "connection"),
        ([head(f"Content-Length: {len(OK)}")], "connection"),
        ([head(f"Content-Length: {len(OK)}"), OK[:20]], "connection"),
        ([head(f"Content-Length: {len(OK) + 1}"), OK], "connection"),
        ([CHUNKED, b"5\r\n" + OK[:5]], "connection"),
        ([CHUNKED, b"5\r\n" + OK[:5] + b"\r\n"], "connection"),
        ([head(f"Content-Length: {len(OK) - 1}"), OK], "malformed"),
        ([head("Content-Length: -1"), OK], "malformed"),
        ([b"SSH-2.0-OpenSSH_9.6\r\n\r\n"], "malformed"),
        ([head("Content-Length: 0", status="204 No Content")], "malformed"),
        ([head(status="304 Not Modified")], "malformed"),
        ([head("Upgrade: x", "Connection: upgrade", status="101 Switching Protocols"), OK], "malformed"),
        ([head("Content-Encoding: gzip", "Content-Length: 20"), OK[:20]], "connection"),
        ([head("Content-Encoding: gzip", f"Content-Length: {len(BOMB)}"), BOMB], "malformed"),
    ],
    ids=[
        "nothing",
        "half a head",
        "no body",
        "half a body",
        "too large a length",
        "half a chunk",
        "no last chunk",
        "too small a length",
        "negative length",
        "another protocol",
        "204",
        "304",
        "101",
        "no gzip",
        "gzip bomb",
    ],
)
async def test_an_answer_that_is_cut_or_garbled_is_tried_again(
    pieces: list[bytes | float], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a server breaks off or lies about its body, it is a failed attempt of a kind that is retried."""
    monkeypatch.setattr("trinity.llm.transports.openai_http.MAX_BODY_BYTES", 2**20)
    error = await broken(*pieces)
    assert (error.kind, error.refused) == (kind, False)


@pytest.mark.parametrize(
    "pieces",
    [
        [whole()],
        [head(), OK],
        [head("Content-Length: 0", status="100 Continue").replace(b"Content-Length: 0\r\n", b"") + whole()],
        [head("Link: </x>", status="103 Early Hints"), 0.01, whole()],
        [CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(OK), OK)],
        [head("Content-Encoding: gzip", f"Content-Length: {len(gzip.compress(OK))}"), gzip.compress(OK)],
        [whole("\ufeff".encode() + OK)],
        [head("Content-Length: 2", status="201 Created").replace(b"2\r", b"%d\r" % len(OK)) + OK],
    ],
    ids=["length", "until the end", "100", "103", "chunked", "gzip", "byte order mark", "201"],
)
async def test_every_way_of_sending_an_answer_is_read(pieces: list[bytes | float | None]) -> None:
    """With a length or without, in chunks, compressed though nobody asked for it, after interim responses."""
    with stub(pieces) as server:
        transport = OpenAIHTTP(server.url)
        assert (await transport.send(make_request(), 0)).text == "3"
        await transport.close()


async def test_endless_body_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body above the cap is malformed and does not fill the memory."""
    monkeypatch.setattr("trinity.llm.transports.openai_http.MAX_BODY_BYTES", 1000)
    error = await failure(server, answer(completion("x" * 2000)))
    assert (error.kind, str(error)) == ("malformed", f"{server.url}: body of more than 1000 bytes")


@pytest.mark.parametrize(
    ("pieces", "limit"),
    [
        ([0.3, whole()], {"read_timeout_s": 0.05}),
        ([head("Content-Length: 99"), 0.3, OK], {"read_timeout_s": 0.05}),
        ([0.3, whole()], {"total_timeout_s": 0.05}),
        ([head("Content-Length: 99"), *([b" ", 0.04] * 10)], {"total_timeout_s": 0.2, "read_timeout_s": 0.15}),
        ([CHUNKED, 0.05, b"zz\r\n" + OK], {"total_timeout_s": 0.2}),
    ],
    ids=["no answer", "answer stalls", "total", "drip by drip", "garbled chunk, which aiohttp never reports"],
)
async def test_a_late_answer_is_a_timeout(pieces: list[bytes | float], limit: dict[str, float]) -> None:
    """`read` bounds each wait for the next piece, `total` all of them together."""
    error = await broken(*pieces, **limit)
    assert (error.kind, error.refused) == ("timeout", False)


@contextmanager
def full_listener() -> Iterator[int]:
    """A port that takes no further connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(address)
        yield address[1]
        for one in waiting:
            one.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_late_connection_is_a_refused_one(scheme: str) -> None:
    """`connect` bounds the TCP connection and the TLS handshake: in the end nobody was there."""
    with full_listener() if scheme == "http" else socket_that_is_silent() as port:
        transport = OpenAIHTTP(f"{scheme}://127.0.0.1:{port}/v1", connect_timeout_s=0.1)
        with pytest.raises(TransportError, match="ConnectionTimeoutError") as caught:
            await transport.send(make_request(), 0)
        await transport.close()
    assert (caught.value.kind, caught.value.refused) == ("connection", True)


@contextmanager
def socket_that_is_silent() -> Iterator[int]:
    """A port that takes a connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("blocked", [True, False], ids=["loop was busy", "loop has heard of it"])
async def test_a_connection_closed_while_idle_costs_no_attempt(blocked: bool) -> None:
    """A server that hangs up between two requests loses none, though the loop had no time to notice."""
    with stub([whole()], [whole()]) as server:
        transport = OpenAIHTTP(server.url)
        assert (await transport.send(make_request(), 0)).text == "3"
        if blocked:
            server.closed.acquire()
        else:
            await asyncio.to_thread(server.closed.acquire)
            await asyncio.sleep(0.01)
        assert (await transport.send(make_request(), 0)).text == "3"
        await transport.close()


async def test_one_connection_serves_one_request_after_the_other() -> None:
    """A connection that is alive is used again: making one costs more than a request."""
    with stub([whole(), None], [whole(), None], [whole(), None]) as server:
        transport = OpenAIHTTP(server.url)
        for _ in range(3):
            assert (await transport.send(make_request(), 0)).text == "3"
        assert not server.closed.acquire(blocking=False)
        await transport.close()


async def test_too_few_file_handles_are_no_missing_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that this machine cannot open says which limit to change, and never that nobody listens."""

    def refuse(*_: object, **__: object) -> socket.socket:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socket", refuse)
    error = await failure(server, answer(completion("3")))
    assert (error.kind, error.refused) == ("connection", False)
    assert "lower `concurrency`, or raise the limit of `ulimit -n`" in str(error)


def unused_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_refused_connection_is_marked_and_stops_the_run() -> None:
    """Nobody listening is one line with the URL, once the attempts are used up."""
    transport = OpenAIHTTP(f"http://127.0.0.1:{unused_port()}/v1")
    with pytest.raises(TransportError) as caught:
        await transport.send(make_request(), 0)
    assert (caught.value.kind, caught.value.refused) == ("connection", True)
    client = Client(make_pool(transport), MemoryStore(), None, sleep=Sleeps())
    with pytest.raises(EndpointError, match=r"http://127.0.0.1:\d+/v1: .*; it cannot be reached; start the server"):
        await client.complete(make_agent(), QUESTION, make_context())
    await client.close()


async def test_a_host_that_is_not_known_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that nobody can resolve says so, and speaks of no encryption that was not asked for."""

    def unknown(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    transport = OpenAIHTTP("http://no.such.host:1/v1")
    with pytest.raises(TransportError) as caught:
        await transport.send(make_request(), 0)
    await transport.close()
    assert (caught.value.kind, caught.value.refused) == ("connection", True)
    assert str(caught.value).endswith("Cannot connect to host no.such.host:1 [Name or service not known]")


@pytest.mark.parametrize("value", [None, "", "  "])
async def test_missing_key_names_its_variable(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the key nothing is sent, and the line says which variable to set."""
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(EndpointError, match="set the environment variable SOME_KEY"):
        await OpenAIHTTP("http://127.0.0.1:9/v1", api_key_env="SOME_KEY").send(make_request(), 0)


async def test_key_that_no_header_can_hold_is_refused_unshown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with a line break inside is named by its variable, not by its value."""
    monkeypatch.setenv("SOME_KEY", "sk-canary\nX-Evil: 1")
    with pytest.raises(EndpointError, match="SOME_KEY") as caught:
        await OpenAIHTTP("http://127.0.0.1:9/v1", api_key_env="SOME_KEY").send(make_request(), 0)
    assert "canary" not in str(caught.value)


def files_of(folder: Path) -> bytes:
    """All bytes below a folder."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


def texts_of(error: BaseException | None) -> list[str]:
    """The texts of an exception and of what caused it."""
    found = []
    while error is not None:
        found += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    return found


async def test_canary_key_is_found_nowhere(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A provider that echoes the key in errors and answers puts it in no file, exception, log or setting."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SOME_KEY", CANARY)
    echo = "x" * 290 + f" Bearer {CANARY} is wrong"
    server.steps = [
        answer({"error": {"message": echo}}, 500),
        answer(f"<p>{CANARY}</p>".encode(), 429),
        answer(completion(f"You sent {CANARY}.", reasoning=CANARY)),
        answer({"error": {"message": echo}}, 400),
        answer({"error": {"message": f"Incorrect API key provided: {CANARY}"}}, 401),
    ]
    url = server.url.replace("http://", f"http://me:{CANARY}-url@")
    pool = make_pool(OpenAIHTTP(url, api_key_env="SOME_KEY", query_env={"code": "SOME_KEY"}))
    store, ledger = Store.open(tmp_path / "store.sqlite"), Ledger.create(tmp_path / "ledger.sqlite")
    client = Client(pool, store, ledger, sleep=Sleeps())
    answered = await client.complete(make_agent(), QUESTION, make_context())
    raised: list[str] = []
    for index in (1, 2):
        with pytest.raises(TrinityError) as caught:
            await client.complete(make_agent(), QUESTION, make_context(index=index))
        raised += texts_of(caught.value)
    files = files_of(tmp_path)
    await client.close()
    store.close()
    ledger.close()
    files += files_of(tmp_path)
    assert answered.text == "You sent ***."
    assert b"You sent" in files
    assert CANARY[:9] not in "".join([*raised, repr(answered), repr(pool.settings()), caplog.text])
    assert CANARY[:9].encode() not in files
    assert CANARY in server.headers[0]["Authorization"]


async def test_ledger_says_who_paid_and_what_failed(server: Server, tmp_path: Path) -> None:
    """Over HTTP, store and ledger hold the answer, who bought it and the failed attempt; a resume keeps it paid."""
    details = {"prompt_tokens_details": {"cached_tokens": 32}, "completion_tokens_details": {"reasoning_tokens": 100}}
    usage = {"prompt_tokens": 50, "completion_tokens": 120, "total_tokens": 170, **details}
    server.steps = [answer({}, 503), answer(completion("3") | {"usage": usage})]
    store, ledger = Store.open(tmp_path / "store.sqlite"), Ledger.create(tmp_path / "ledger.sqlite")
    for _ in range(2):  # the second client finds the answer in the store, as a resumed run does
        client = Client(make_pool(OpenAIHTTP(server.url)), store, ledger, sleep=Sleeps())
        bought = await client.complete(make_agent(), QUESTION, make_context())
        await client.close()
    row = ledger.calls.get_by_prefix(bought.call_id)
    assert row is not None
    assert row == await store.get(row.request_hash)
    assert (row.attempts, row.usage) == (2, Usage(50, 20, 100, 32))
    assert [(one.attempt, one.kind, one.status) for one in ledger.attempts()] == [(1, "server", 503)]
    assert (ledger.totals().paid_calls, ledger.totals().reused_calls) == (1, 0)
    assert len(server.bodies) == 2
    store.close()
    ledger.close()


async def test_a_server_that_stays_broken_fails_the_call(server: Server) -> None:
    """Retries end; the line holds agent, URL and the provider's words."""
    server.steps = [answer({"error": {"message": "out of memory"}}, 500)]
    rules = Rules(retries=RetryPolicy(2))
    client = Client(make_pool(OpenAIHTTP(server.url)), MemoryStore(), None, rules, sleep=Sleeps())
    with pytest.raises(CallError, match=r"agent a: http://127.0.0.1:\d+/v1: HTTP 500: out of memory"):
        await client.complete(make_agent(), QUESTION, make_context())
    await client.close()
    assert len(server.bodies) == 2
