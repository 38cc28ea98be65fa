"""The HTTP transport against a real server that answers, fails and misbehaves as told."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
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
    hang_up,
    make_agent,
    make_context,
    make_pool,
    make_request,
    running_server,
    stall,
)
from trinity.errors import CallError, ConfigError, EndpointError, TrinityError
from trinity.llm.client import Client
from trinity.llm.retry import RetryPolicy
from trinity.llm.store import MemoryStore, Store
from trinity.llm.transports.base import Reply, TransportError
from trinity.llm.transports.openai_http import OpenAIHTTP, read_reply, read_retry_after, read_usage, stable_url
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


async def test_seed_and_key_can_be_left_out(server: Server) -> None:
    """An endpoint that refuses `seed` or wants no key gets none."""
    await send(server, answer(completion("3")), send_seed=False)
    assert "seed" not in server.bodies[0]
    assert "Authorization" not in server.headers[0]


async def test_user_info_and_query_go_on_the_wire_only(server: Server) -> None:
    """A URL with user info and query works, and its stable form holds neither."""
    server.steps = [answer(completion("3"))]
    url = server.url.replace("http://", "http://me:s%20ecret@") + "?api-version=5"
    transport = OpenAIHTTP(url)
    await transport.send(make_request(), 0)
    await transport.close()
    assert server.paths == ["/v1/chat/completions?api-version=5"]
    assert server.headers[0]["Authorization"] == "Basic bWU6cyBlY3JldA=="
    assert transport.endpoint_id == transport.settings()["url"] == server.url


@pytest.mark.parametrize(
    ("url", "stable"),
    [
        ("https://Host.example/v1/", "https://host.example/v1"),
        ("https://me:secret@host:8443/v1?key=secret#x", "https://host:8443/v1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_stable_url_is_the_same_everywhere_and_no_secret(url: str, stable: str) -> None:
    """User info, query, fragment, closing slash and case of the host do not reach the request hash."""
    assert stable_url(url) == stable
    assert OpenAIHTTP(url).endpoint_id == stable
    assert OpenAIHTTP(url, endpoint_id="mine").endpoint_id == "mine"


@pytest.mark.parametrize("url", ["", "host/v1", "ftp://host/v1", "http:///v1", "http://h:port/sk-canary", "http://[x"])
def test_a_wrong_url_is_refused_unshown(url: str) -> None:
    """A URL may hold a secret, so the line that refuses it does not repeat it."""
    with pytest.raises(ConfigError, match="base_url must look like") as caught:
        OpenAIHTTP(url)
    assert "canary" not in str(caught.value)


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
    with pytest.raises(ConfigError, match=f"headers: {name} is a secret .*; use api_key_env") as caught:
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


OPENAI_BODY = completion("3", refusal=None) | {
    "usage": {
        "prompt_tokens": 50,
        "completion_tokens": 120,
        "total_tokens": 170,
        "prompt_tokens_details": {"cached_tokens": 32, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 100, "accepted_prediction_tokens": 0},
    }
}
LLAMA_CPP_BODY = completion("3", reasoning_content="1+2") | {
    "usage": {"prompt_tokens": 50, "completion_tokens": 12, "total_tokens": 62},
    "timings": {"prompt_n": 50, "predicted_n": 12},
}
VLLM_BODY = completion("3", reasoning="1+2", reasoning_content=None, tool_calls=[]) | {
    "usage": {"prompt_tokens": 50, "completion_tokens": 12, "total_tokens": 62, "prompt_tokens_details": None}
}
XAI_BODY = completion("3", reasoning_content="1+2") | {
    "usage": {
        "prompt_tokens": 50,
        "completion_tokens": 12,
        "total_tokens": 162,
        "completion_tokens_details": {"reasoning_tokens": 100},
    }
}


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (OPENAI_BODY, Reply("3", "", "stop", Usage(50, 20, 100, 32))),
        (LLAMA_CPP_BODY, Reply("3", "1+2", "stop", Usage(50, 12, 0, 0))),
        (VLLM_BODY, Reply("3", "1+2", "stop", Usage(50, 12, 0, 0))),
        (XAI_BODY, Reply("3", "1+2", "stop", Usage(50, 12, 100, 0))),
        (completion("3"), Reply("3", "", "stop", None)),
        (completion("3") | {"usage": {"prompt_tokens": "many"}}, Reply("3", "", "stop", None)),
    ],
    ids=["openai", "llama.cpp", "vllm", "xai", "no usage", "broken usage"],
)
async def test_each_providers_answer_is_read_as_documented(server: Server, body: dict[str, Any], reply: Reply) -> None:
    """Text, reasoning, finish reason and the split of tokens, per provider shape."""
    assert await send(server, answer(body)) == reply


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 0}, Usage(5, 0)),
        ({"prompt_tokens": 5, "completion_tokens": True}, None),
        ({"prompt_tokens": 5, "completion_tokens": -1}, None),
        ({"prompt_tokens": 5}, None),
        (
            {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}},
            Usage(5, 1, 0, 5),
        ),
        ({"prompt_tokens": 5, "completion_tokens": 1, "completion_tokens_details": [3]}, Usage(5, 1)),
        (None, None),
    ],
)
def test_strange_usage_never_becomes_a_wrong_bill(usage: Any, read: Usage | None) -> None:
    """Counts that are no counts are taken as not reported; cached tokens stay within the input."""
    assert read_usage(usage) == read


@pytest.mark.parametrize(
    ("finish", "read"),
    [
        ("stop", "stop"),
        (None, "stop"),
        ("tool_calls", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
    ],
)
def test_finish_reasons(finish: str | None, read: FinishReason) -> None:
    """Each known finish reason has one meaning."""
    assert read_reply(completion("3", finish)).finish_reason == read


def test_refusal_without_text_is_a_content_filter() -> None:
    """A refusal that the provider declares is no empty answer."""
    assert read_reply(completion(None, refusal="I cannot help.")).finish_reason == "content_filter"


def test_content_parts_are_joined_and_broken_unicode_replaced() -> None:
    """A list of parts is one text; half a surrogate pair, which no file can hold, is not kept."""
    parts: Any = [{"type": "text", "text": "a\ud800"}, {"type": "image"}, {"type": "text", "text": "🙂"}]
    assert read_reply(completion(parts)).text == "a\ufffd🙂"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"<html>oops</html>",
        b"[" * 100_000,
        b"null",
        b'"text"',
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": null, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": 3}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": "3"}, "finish_reason": "error"}]}',
        b'{"choices": [{"message": {"content": "3"}, "finish_reason": ["stop"]}]}',
        b'{"error": {"message": "no code"}}',
    ],
)
async def test_a_body_that_is_no_answer_is_malformed(server: Server, body: bytes) -> None:
    """Whatever nonsense comes with status 200 is an attempt to be made again, never an answer."""
    assert (await failure(server, answer(body))).kind == "malformed"


async def test_endless_body_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body above the cap is malformed and does not fill the memory."""
    monkeypatch.setattr("trinity.llm.transports.openai_http.MAX_BODY_BYTES", 1000)
    error = await failure(server, answer(completion("x" * 2000)))
    assert (error.kind, str(error)) == ("malformed", "body of more than 1000 bytes")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, "fatal"),
        (400, "bad_request"),
        (401, "fatal"),
        (402, "fatal"),
        (403, "fatal"),
        (404, "fatal"),
        (405, "bad_request"),
        (408, "timeout"),
        (409, "timeout"),
        (413, "bad_request"),
        (422, "bad_request"),
        (429, "rate_limit"),
        (500, "server"),
        (503, "server"),
        (529, "server"),
    ],
)
async def test_status_decides_the_kind(server: Server, status: int, kind: str) -> None:
    """Every HTTP status fails in the one way that belongs to it."""
    error = await failure(server, answer({"error": {"message": "told why"}}, status))
    assert (error.kind, error.status) == (kind, status)
    assert f"{server.url}: HTTP {status}: told why" in str(error)


async def test_an_error_inside_a_success_counts_as_its_own_code(server: Server) -> None:
    """Routers that send status 200 with an error object are understood."""
    error = await failure(server, answer({"error": {"code": 429, "message": "slow down"}}))
    assert error.kind == "rate_limit"


@pytest.mark.parametrize(
    ("status", "options", "line"),
    [
        (401, {}, "set api_key_env"),
        (401, {"api_key_env": "SOME_KEY"}, "check the key in the environment variable SOME_KEY"),
        (402, {}, "top up the account"),
        (404, {}, "check base_url"),
        (308, {}, "set base_url to where it leads"),
    ],
)
async def test_fatal_failures_say_what_to_set(
    server: Server, status: int, options: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads the line knows which setting to change."""
    monkeypatch.setenv("SOME_KEY", CANARY)
    assert line in str(await failure(server, answer({}, status, {"Location": "http://other"}), **options))


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize(
    ("error", "finish"),
    [
        ({"code": "context_length_exceeded", "message": "too long"}, "context"),
        ({"code": 400, "type": "exceed_context_size_error", "message": "request (9 tokens) exceeds"}, "context"),
        ({"message": "This model's maximum context length is 4096 tokens.", "type": "BadRequestError"}, "context"),
        ({"message": "the request exceeds the available context size"}, "context"),
        ({"code": "content_filter", "message": "The response was filtered"}, "content_filter"),
        ({"code": "x", "message": "m", "innererror": {"code": "ResponsibleAIPolicyViolation"}}, "content_filter"),
    ],
    ids=["openai", "llama.cpp", "vllm", "llama-cpp-python", "filter", "azure"],
)
async def test_long_prompts_and_refusals_are_answers(
    server: Server, status: int, error: dict[str, Any], finish: FinishReason
) -> None:
    """A prompt that does not fit and a prompt that is refused cost nothing and are not retried."""
    assert await send(server, answer({"error": error}, status)) == Reply("", "", finish, Usage())


async def test_flat_and_textual_errors_are_read_too(server: Server) -> None:
    """Older servers put the error at the top of the body, or a text in its place."""
    flat = {"object": "error", "message": "maximum context length is 8", "code": 400}
    assert (await send(server, answer(flat, 400))).finish_reason == "context"
    assert "HTTP 400: plain words" in str(await failure(server, answer({"error": "plain words"}, 400)))
    assert "HTTP 500: <html>" in str(await failure(server, answer(b"<html>", 500)))


async def test_retry_after_is_read_in_seconds_and_as_a_date(server: Server) -> None:
    """Both forms of the header give seconds; nonsense gives none."""
    error = await failure(server, answer({}, 429, {"Retry-After": "17"}))
    assert error.retry_after == 17.0
    assert 50 < (read_retry_after(formatdate(time.time() + 60, usegmt=True)) or 0) <= 60
    assert read_retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    assert read_retry_after("soon") is None


async def test_broken_connection_and_timeouts(server: Server) -> None:
    """A connection that breaks and an answer that is late are told apart, and neither is a refused connection."""
    broken = await failure(server, hang_up())
    assert (broken.kind, broken.refused) == ("connection", False)
    for limit in ({"read_timeout_s": 0.05}, {"total_timeout_s": 0.05}):
        late = await failure(server, stall(0.3), **limit)
        assert (late.kind, late.refused) == ("timeout", False)


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
    with pytest.raises(EndpointError, match=r"http://127.0.0.1:\d+/v1: .*; nobody listens; start the server"):
        await client.complete(make_agent(), QUESTION, make_context())
    await client.close()


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
    url = server.url.replace("http://", f"http://me:{CANARY}-url@") + f"?key={CANARY}-query"
    pool = make_pool(OpenAIHTTP(url, api_key_env="SOME_KEY"))
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
    server.steps = [answer({}, 503), answer(OPENAI_BODY)]
    store, ledger = Store.open(tmp_path / "store.sqlite"), Ledger.create(tmp_path / "ledger.sqlite")
    for _ in range(2):  # the second client finds the answer in the store, as a resumed run does
        client = Client(make_pool(OpenAIHTTP(server.url)), store, ledger, sleep=Sleeps())
        bought = await client.complete(make_agent(), QUESTION, make_context())
        await client.close()
    row = ledger.calls.get_by_prefix(bought.call_id)
    assert row is not None
    assert row == store.get(row.request_hash)
    assert (row.attempts, row.usage) == (2, Usage(50, 20, 100, 32))
    assert [(one.attempt, one.kind, one.status) for one in ledger.attempts()] == [(1, "server", 503)]
    assert (ledger.totals().paid_calls, ledger.totals().reused_calls) == (1, 0)
    assert len(server.bodies) == 2
    store.close()
    ledger.close()


async def test_a_server_that_stays_broken_fails_the_call(server: Server) -> None:
    """Retries end; the line holds agent, URL and the provider's words."""
    server.steps = [answer({"error": {"message": "out of memory"}}, 500)]
    client = Client(make_pool(OpenAIHTTP(server.url)), MemoryStore(), None, retries=RetryPolicy(2), sleep=Sleeps())
    with pytest.raises(CallError, match=r"agent a: http://127.0.0.1:\d+/v1: HTTP 500: out of memory"):
        await client.complete(make_agent(), QUESTION, make_context())
    await client.close()
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("inf", None),
        ("nan", None),
        ("-3", 0.0),
        ("1e3", 1000.0),
        ("Mon, 01 Jan 9999999 00:00:00 GMT", None),
        ("x", None),
    ],
)
def test_retry_after_of_any_kind(value: str, seconds: float | None) -> None:
    """A Retry-After that is no finite time is taken as none, never as an error."""
    assert read_retry_after(value) == seconds


def test_absurd_counts_are_not_reported_ones() -> None:
    """Negative, fractional and gigantic token counts are as good as none, so they are estimated."""
    for count in (-1, 1.5, 2**31, 10**400, True, "7"):
        assert read_usage({"prompt_tokens": count, "completion_tokens": 1}) is None
