"""The litellm transport against a real server that answers as each provider does, in its own words."""

from __future__ import annotations

import asyncio
import copy
import importlib.metadata
import logging
import re
import threading
import traceback
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.llm.support import (
    Server,
    Step,
    answer,
    completion,
    hang_up,
    make_agent,
    make_context,
    make_pool,
    make_request,
    messages,
    running_server,
    stall,
)
from trinity.errors import ConfigError, EndpointError
from trinity.llm.client import Client
from trinity.llm.store import MemoryStore
from trinity.llm.transports.base import ErrorKind, Reply, TransportError
from trinity.llm.transports.litellm_api import ITS_WARNING, LiteLLM
from trinity.types import FinishReason, Usage

pytestmark = pytest.mark.filterwarnings(f"ignore:{ITS_WARNING}")  # pytest keeps no filter from test to test

CANARY = "sk-canary-4711-0815"
CLAUDE = "anthropic/claude-sonnet-4-5"
GEMINI = "gemini/gemini-2.5-pro"
OLLAMA = "ollama_chat/qwen3:8b"
DEEPSEEK = "deepseek/deepseek-reasoner"
ROUTER = "openrouter/qwen/qwen3-32b"
VLLM = "hosted_vllm/Qwen/Qwen3-32B"

ANTHROPIC_BODY: dict[str, Any] = {
    "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [
        {"type": "thinking", "thinking": "Two and one make three, as a look shows.", "signature": "EqQBCgIYAhIM"},
        {"type": "text", "text": "Three."},
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 12,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 2000,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 57,
        "service_tier": "standard",
    },
}
GEMINI_BODY: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "parts": [{"text": "Two and one.", "thought": True}, {"text": "Three."}],
                "role": "model",
            },
            "finishReason": "STOP",
            "index": 0,
            "avgLogprobs": -0.1,
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 1050,
        "candidatesTokenCount": 3,
        "totalTokenCount": 1153,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1050}],
        "cachedContentTokenCount": 1000,
        "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}],
        "thoughtsTokenCount": 100,
    },
    "modelVersion": "gemini-2.5-pro",
    "responseId": "5f3aaM",
}
GEMINI_BLOCKED: dict[str, Any] = {
    "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
    "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7},
    "modelVersion": "gemini-2.5-pro",
}
OLLAMA_BODY: dict[str, Any] = {
    "model": "qwen3:8b",
    "created_at": "2026-08-04T19:22:45.499127Z",
    "message": {"role": "assistant", "content": "Three.", "thinking": "Two and one."},
    "done": True,
    "done_reason": "stop",
    "total_duration": 4883583458,
    "load_duration": 1334875,
    "prompt_eval_count": 26,
    "prompt_eval_duration": 342546000,
    "eval_count": 282,
    "eval_duration": 4535599000,
}
OPENAI_USAGE = {"prompt_tokens": 50, "completion_tokens": 120, "total_tokens": 170}


def openai_body(usage: Any, finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion as OpenAI's imitators send it."""
    body = completion("Three.", finish, **message)
    return {"id": "gen-1", "object": "chat.completion", "created": 1, "model": "m", **body, "usage": usage}


DEEPSEEK_BODY = openai_body(
    OPENAI_USAGE
    | {
        "prompt_tokens_details": {"cached_tokens": 32},
        "completion_tokens_details": {"reasoning_tokens": 100},
        "prompt_cache_hit_tokens": 32,
        "prompt_cache_miss_tokens": 18,
    },
    reasoning_content="Two and one.",
)
ROUTER_BODY = openai_body(
    OPENAI_USAGE
    | {
        "cost": 0.00014,
        "is_byok": False,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 100, "image_tokens": 0},
    },
    refusal=None,
    reasoning="Two and one.",
    reasoning_details=[{"type": "reasoning.text", "text": "Two and one.", "format": "unknown", "index": 0}],
)
VLLM_BODY = openai_body(
    OPENAI_USAGE | {"prompt_tokens_details": None}, tool_calls=[], reasoning="Two and one.", refusal=None
)


def changed(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy of `body`; a key `a__0__b` leads into it, and the value None takes it out."""
    body = copy.deepcopy(body)
    for path, value in changes.items():
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("__")]
        place: Any = body
        for step in steps:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return body


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A running server."""
    async with running_server() as one:
        yield one


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A key in the environment variable SOME_KEY."""
    monkeypatch.setenv("SOME_KEY", CANARY)
    return CANARY


async def send(server: Server, model: str, step: Step, options: dict[str, Any] | None = None, **request: Any) -> Reply:
    """One attempt."""
    server.steps = [step]
    settings: dict[str, Any] = {"api_base": server.url.removesuffix("/v1"), "api_key_env": "SOME_KEY"}
    transport = LiteLLM(**settings | (options or {}))
    fields = {"sampling": {"temperature": 1.0, "max_tokens": 500}, **request}
    try:
        return await transport.send(make_request(model=model, **fields), seed=7)
    finally:
        await transport.close()


async def failure(server: Server, model: str, step: Step, options: dict[str, Any] | None = None) -> TransportError:
    """The failure of one attempt."""
    with pytest.raises(TransportError) as caught:
        await send(server, model, step, options)
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.usefixtures("key")
class TestAnswers:
    """What each provider's answer becomes; usage is input, visible output, hidden reasoning, cached input."""

    @pytest.mark.parametrize(
        ("model", "body", "reply", "weighted"),
        [
            (
                CLAUDE,
                ANTHROPIC_BODY,
                Reply("Three.", "Two and one make three, as a look shows.", "stop", Usage(2112, 57, 0, 2000)),
                2112 + 4 * 57,
            ),
            (
                CLAUDE,
                changed(ANTHROPIC_BODY, usage__output_tokens_details={"thinking_tokens": 40}),
                Reply("Three.", "Two and one make three, as a look shows.", "stop", Usage(2112, 17, 40, 2000)),
                2112 + 4 * 57,
            ),
            (GEMINI, GEMINI_BODY, Reply("Three.", "Two and one.", "stop", Usage(1050, 3, 100, 1000)), 1050 + 4 * 103),
            (OLLAMA, OLLAMA_BODY, Reply("Three.", "Two and one.", "stop", Usage(26, 282)), 26 + 4 * 282),
            (DEEPSEEK, DEEPSEEK_BODY, Reply("Three.", "Two and one.", "stop", Usage(50, 20, 100, 32)), 530),
            (ROUTER, ROUTER_BODY, Reply("Three.", "Two and one.", "stop", Usage(50, 20, 100)), 530),
            (VLLM, VLLM_BODY, Reply("Three.", "Two and one.", "stop", Usage(50, 120)), 530),
        ],
        ids=["anthropic", "anthropic counts thinking", "gemini", "ollama", "deepseek", "openrouter", "vllm"],
    )
    async def test_each_providers_answer_is_read_as_documented(
        self, server: Server, model: str, body: dict[str, Any], reply: Reply, weighted: int
    ) -> None:
        """Cached input is a part of input, hidden tokens stand apart where they are counted, and none is lost."""
        read = await send(server, model, answer(body))
        assert read == reply
        assert read.usage is not None
        assert read.usage.weighted_tokens == weighted

    @pytest.mark.parametrize(
        ("model", "body", "finish"),
        [
            (CLAUDE, changed(ANTHROPIC_BODY, stop_reason="max_tokens"), "length"),
            (CLAUDE, changed(ANTHROPIC_BODY, stop_reason="stop_sequence"), "stop"),
            (CLAUDE, changed(ANTHROPIC_BODY, stop_reason="refusal", content=[]), "content_filter"),
            (GEMINI, changed(GEMINI_BODY, candidates__0__finishReason="MAX_TOKENS"), "length"),
            (GEMINI, GEMINI_BLOCKED, "content_filter"),
            (OLLAMA, changed(OLLAMA_BODY, done_reason="length"), "length"),
            (DEEPSEEK, openai_body(OPENAI_USAGE, "length"), "length"),
            (DEEPSEEK, openai_body(OPENAI_USAGE, "content_filter"), "content_filter"),
            (VLLM, openai_body(OPENAI_USAGE, None), "stop"),
        ],
    )
    async def test_finish_reasons(self, server: Server, model: str, body: dict[str, Any], finish: FinishReason) -> None:
        """Length, refusal and a regular end are told apart in every provider's words."""
        assert (await send(server, model, answer(body))).finish_reason == finish

    async def test_thinking_of_a_refusal_is_paid(self, server: Server) -> None:
        """Gemini bills what it thought before it refused; litellm's own usage has lost it."""
        body = changed(GEMINI_BODY, candidates__0__finishReason="SAFETY", candidates__0__content=None)
        assert await send(server, GEMINI, answer(body)) == Reply("", "", "content_filter", Usage(1050, 3, 100))

    @pytest.mark.parametrize(
        ("model", "body", "usage"),
        [
            (DEEPSEEK, changed(DEEPSEEK_BODY, usage=None), None),
            (OLLAMA, changed(OLLAMA_BODY, prompt_eval_count=None, eval_count=None), None),
        ],
    )
    async def test_usage_that_nobody_reported_is_none(
        self, server: Server, model: str, body: dict[str, Any], usage: None
    ) -> None:
        """Neither zeros nor litellm's own silent count pass for a provider's bill."""
        assert (await send(server, model, answer(body))).usage is usage

    async def test_half_a_usage_is_marked_as_estimated(self, server: Server) -> None:
        """Ollama leaves the prompt's count out when it had the prompt already: the rest is kept and says so."""
        usage = (await send(server, OLLAMA, answer(changed(OLLAMA_BODY, prompt_eval_count=None)))).usage
        assert usage is not None
        assert usage == Usage(usage.input_tokens, 282, 0, 0, estimated=True)

    async def test_a_prompt_alone_is_a_usage(self, server: Server) -> None:
        """What was refused before a word was written has cost its prompt."""
        assert await send(server, GEMINI, answer(GEMINI_BLOCKED)) == Reply("", "", "content_filter", Usage(7))

    @pytest.mark.parametrize(
        ("model", "body"),
        [
            (DEEPSEEK, openai_body(OPENAI_USAGE, "insufficient_system_resource")),
            (VLLM, openai_body(OPENAI_USAGE, "abort")),
            (OLLAMA, changed(OLLAMA_BODY, done_reason="load")),
            (GEMINI, changed(GEMINI_BODY, candidates__0__finishReason="MALFORMED_FUNCTION_CALL")),
            (GEMINI, changed(GEMINI_BODY, candidates=[])),
            *((model, b"{") for model in (CLAUDE, GEMINI, OLLAMA, DEEPSEEK, "openai/m")),
            *((model, b"null") for model in (CLAUDE, GEMINI, VLLM)),
            (CLAUDE, b"{}"),
            (ROUTER, b"[]"),
        ],
    )
    async def test_what_is_no_complete_answer_is_malformed(self, server: Server, model: str, body: Any) -> None:
        """An end that litellm takes for a regular one, and a body that is none, are attempts to be made again."""
        error = await failure(server, model, answer(body))
        assert (error.kind, error.status) == ("malformed", 200)
        assert re.match(r"litellm:http://[\d.:]+: no complete ", str(error)), error

    async def test_an_error_inside_a_success_counts_as_its_own_code(self, server: Server) -> None:
        """Routers that send status 200 with an error object are understood."""
        body = {"error": {"code": 429, "message": "slow down"}}
        assert (await failure(server, ROUTER, answer(body))).kind == "rate_limit"

    async def test_an_answer_that_echoes_the_key_is_redacted(self, server: Server) -> None:
        """No key reaches the store by way of an answer."""
        body = changed(OLLAMA_BODY, message__content=f"Your key is {CANARY}.", message__thinking=CANARY)
        reply = await send(server, OLLAMA, answer(body))
        assert (reply.text, reply.reasoning) == ("Your key is ***.", "***")


def error_body(model: str, message: str) -> Any:
    """A provider's error in its own form."""
    if model == CLAUDE:
        return {"type": "error", "error": {"type": "some_error", "message": message}, "request_id": "req_1"}
    return {"error": message} if model == OLLAMA else {"error": {"code": None, "message": message}}


@pytest.mark.usefixtures("key")
class TestFailures:
    """How failures are read."""

    @pytest.mark.parametrize("model", [CLAUDE, GEMINI, OLLAMA, DEEPSEEK, ROUTER, VLLM, "openai/m"])
    async def test_429_brings_its_retry_after(self, server: Server, model: str) -> None:
        """Every provider's 429 is one, with the wait that it asked for, one request and no key in the text."""
        step = answer(error_body(model, f"slow down, {CANARY}"), 429, {"Retry-After": "17"})
        error = await failure(server, model, step)
        assert (error.kind, error.status, error.retry_after) == ("rate_limit", 429, 17.0)
        assert "HTTP 429: slow down, ***" in str(error)
        assert len(server.paths) == 1

    @pytest.mark.parametrize("model", [CLAUDE, DEEPSEEK])
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            (400, "bad_request"),
            (401, "fatal"),
            (402, "fatal"),
            (403, "fatal"),
            (404, "fatal"),
            (408, "timeout"),
            (409, "timeout"),
            (413, "bad_request"),
            (422, "bad_request"),
            (500, "server"),
            (503, "server"),
            (529, "server"),
        ],
    )
    async def test_status_decides_the_kind(self, server: Server, model: str, status: int, kind: ErrorKind) -> None:
        """The provider's own status counts, not what litellm made of it, and nobody asked twice."""
        error = await failure(server, model, answer(error_body(model, "told why"), status))
        assert (error.kind, error.status) == (kind, status)
        assert f"HTTP {status}: told why" in str(error)
        assert len(server.paths) == 1

    @pytest.mark.parametrize(
        ("model", "message", "finish"),
        [
            (CLAUDE, "prompt is too long: 215000 tokens > 200000 maximum", "context"),
            (CLAUDE, "Output blocked by content filtering policy", "content_filter"),
            (GEMINI, "The input token count (2000000) exceeds the maximum number of tokens allowed", "context"),
            (DEEPSEEK, "This model's maximum context length is 4096 tokens.", "context"),
        ],
    )
    async def test_long_prompts_and_refusals_are_answers(
        self, server: Server, model: str, message: str, finish: FinishReason
    ) -> None:
        """A prompt that does not fit and a prompt that is refused cost nothing and are not retried."""
        read = await send(server, model, answer(error_body(model, message), 400))
        assert read == Reply("", "", finish, Usage())

    async def test_a_wrong_key_is_fatal_though_gemini_answers_400(self, server: Server) -> None:
        """The line says where to look."""
        body = {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}
        error = await failure(server, GEMINI, answer(body, 400))
        assert error.kind == "fatal"
        assert str(error).endswith("API key not valid.; check the key in the environment variable SOME_KEY")

    @pytest.mark.parametrize("model", [CLAUDE, GEMINI, "openai/m"])
    async def test_broken_connections_and_late_answers(self, server: Server, model: str) -> None:
        """They are told apart, neither is a refused connection, and neither is asked again by litellm."""
        broken = await failure(server, model, hang_up())
        assert (broken.kind, broken.refused, len(server.paths)) == ("connection", False, 1)
        assert f"{server.url.removesuffix('/v1')}: the connection broke: " in str(broken)
        late = await failure(server, model, stall(0.5), {"read_timeout_s": 0.05})
        assert (late.kind, len(server.paths)) == ("timeout", 2)
        assert re.search(r": no answer in time: \w*Time[Oo]ut\w*: ", str(late)), late
        late = await failure(server, model, stall(0.5), {"total_timeout_s": 0.05})
        assert late.kind == "timeout"
        assert len(server.paths) <= 3  # the time may be over before the request is out

    async def test_nobody_listening_is_a_refused_connection(self, server: Server) -> None:
        """The client can stop a run whose endpoint does not exist."""
        error = await failure(server, CLAUDE, answer({}), {"api_base": "http://127.0.0.1:9"})
        assert (error.kind, error.refused) == ("connection", True)
        assert str(error).startswith("litellm:http://127.0.0.1:9: no connection: Connect")

    @pytest.mark.parametrize(
        ("model", "options", "line"),
        [
            ("nonsense", {}, "LLM Provider NOT provided"),
            (CLAUDE, {"send_seed": True}, r"\['seed'\].*remove the parameter \(`send_seed: false` for seed\)"),
            (CLAUDE, {"api_key_env": None}, "set api_key_env to the environment variable"),
        ],
    )
    async def test_what_litellm_does_not_send_stops_the_run(
        self, server: Server, model: str, options: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A mistake that every request would make again is fatal at once, and nobody is asked."""
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        error = await failure(server, model, answer(ANTHROPIC_BODY), options)
        assert error.kind == "fatal"
        assert re.search(line, str(error)), error
        assert server.paths == []


@pytest.mark.usefixtures("key")
class TestRequests:
    """What reaches the wire."""

    @pytest.mark.parametrize(
        ("model", "sampling", "extra_body", "sent"),
        [
            (
                CLAUDE,
                {"max_tokens": 4096},
                {"thinking": {"type": "enabled", "budget_tokens": 1024}},
                {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 1024}},
            ),
            (
                GEMINI,
                {"max_tokens": 4096},
                {"thinkingConfig": {"thinkingBudget": 128, "includeThoughts": True}},
                {
                    "generationConfig": {
                        "max_output_tokens": 4096,
                        "thinkingConfig": {"thinkingBudget": 128, "includeThoughts": True},
                    }
                },
            ),
            (
                GEMINI,
                {"reasoning_effort": "low"},
                {},
                {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True}}},
            ),
            ("openai/gpt-5", {"max_tokens": 4096, "temperature": 1, "reasoning_effort": "minimal"}, {}, None),
            (
                DEEPSEEK,
                {"max_tokens": 4096},
                {"thinking": {"type": "disabled"}},
                {"max_tokens": 4096, "thinking": {"type": "disabled"}},
            ),
            (
                ROUTER,
                {"max_tokens": 4096, "top_k": 20},
                {"reasoning": {"effort": "low"}, "provider": {"order": ["x"], "allow_fallbacks": False}},
                {"top_k": 20, "reasoning": {"effort": "low"}, "provider": {"order": ["x"], "allow_fallbacks": False}},
            ),
            (
                VLLM,
                {"max_tokens": 4096, "top_k": 20, "presence_penalty": 1.0},
                {"chat_template_kwargs": {"enable_thinking": False}},
                {"top_k": 20, "presence_penalty": 1.0, "chat_template_kwargs": {"enable_thinking": False}},
            ),
            (
                OLLAMA,
                {"max_tokens": 4096, "num_ctx": 8192, "temperature": 0.5},
                {"think": False},
                {"think": False, "options": {"num_predict": 4096, "num_ctx": 8192, "temperature": 0.5}},
            ),
        ],
    )
    async def test_effort_and_thinking_reach_the_provider(
        self, server: Server, model: str, sampling: dict[str, Any], extra_body: dict[str, Any], sent: Any
    ) -> None:
        """Each provider's own way to say how much to think arrives as documented in docs/agents.md."""
        bodies = {CLAUDE: ANTHROPIC_BODY, GEMINI: GEMINI_BODY, OLLAMA: OLLAMA_BODY}
        step = answer(bodies.get(model, DEEPSEEK_BODY))
        await send(server, model, step, sampling=sampling, extra_body=extra_body)
        sent = sent or {"max_completion_tokens": 4096, "temperature": 1, "reasoning_effort": "minimal"}
        assert {name: server.bodies[0].get(name) for name in sent} == sent

    @pytest.mark.parametrize("model", [CLAUDE, GEMINI, OLLAMA, DEEPSEEK, VLLM, "openai/m"])
    async def test_nothing_else_is_sent(self, server: Server, model: str) -> None:
        """None of litellm's switches and no key is a part of any body; the key goes out as a header alone."""
        bodies = {CLAUDE: ANTHROPIC_BODY, GEMINI: GEMINI_BODY, OLLAMA: OLLAMA_BODY}
        await send(server, model, answer(bodies.get(model, DEEPSEEK_BODY)))
        allowed = {"model", "messages", "max_tokens", "temperature", "stream", "options", "contents"}
        assert set(server.bodies[0]) <= allowed | {"generationConfig"}
        assert CANARY not in f"{server.bodies}{server.paths}"
        assert CANARY in str(dict(server.headers[0]))

    async def test_seed_goes_where_it_is_wanted(self, server: Server) -> None:
        """`send_seed` hands the client's seed on."""
        await send(server, DEEPSEEK, answer(DEEPSEEK_BODY), {"send_seed": True})
        assert server.bodies[0]["seed"] == 7
        await send(server, OLLAMA, answer(OLLAMA_BODY), {"send_seed": True})
        assert server.bodies[1]["options"]["seed"] == 7

    async def test_a_parameter_can_be_dropped(self, server: Server) -> None:
        """`drop_params` leaves out what a provider does not take."""
        await send(server, CLAUDE, answer(ANTHROPIC_BODY), {"send_seed": True, "drop_params": True})
        assert "seed" not in server.bodies[0]

    @pytest.mark.parametrize(
        "name",
        [
            "mock_response",
            "mock_anything",
            "litellm_anything",
            "fallbacks",
            "api_base",
            "num_retries",
            "metadata",
            "timeout",
        ],
    )
    async def test_nothing_may_steer_litellm(self, server: Server, name: str) -> None:
        """An argument that would fake, redirect or repeat a call stops the run before anybody is asked."""
        with pytest.raises(EndpointError, match=f"`{name}` in sampling or extra_body steers litellm"):
            await send(server, CLAUDE, answer(ANTHROPIC_BODY), extra_body={name: "http://elsewhere"})
        assert server.paths == []


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize("model", [CLAUDE, GEMINI, OLLAMA, DEEPSEEK, ROUTER, VLLM, "openai/gpt-4o", "azure/gpt-4o"])
async def test_no_redirect_is_followed(server: Server, model: str, status: int) -> None:
    """Another host gets neither key nor question: what is sent there in headers of its own would go along."""
    async with running_server() as other:
        other.steps = [answer({}, 500)]
        step = answer({}, status, {"Location": f"{other.url}/chat/completions"})
        error = await failure(server, model, step, {"options": {"api_version": "5"}} if "azure" in model else None)
        assert (other.paths, len(server.paths)) == ([], 1)
    assert error.kind == "fatal"
    assert str(error).endswith("it is a redirect; set api_base to where it leads")


class TestSettings:
    """What a config says, and what is refused in one."""

    def test_endpoint_ids_hold_no_secret(self) -> None:
        """The base URL without user info, or nothing but the engine."""
        transport = LiteLLM(api_base=f"https://me:{CANARY}@Host.example/v1/", api_key_env="SOME_KEY")
        assert transport.endpoint_id == "litellm:https://host.example/v1"
        assert CANARY not in repr(transport.settings())
        assert transport.settings()["engine_version"]
        assert LiteLLM().endpoint_id == "litellm"
        assert LiteLLM(endpoint_id="mine").endpoint_id == "mine"

    def test_settings_say_what_is_sent_where(self) -> None:
        """Everything that a manifest needs to know of the endpoint, under one name each."""
        transport = LiteLLM(
            api_base="http://h/v1", api_key_env="SOME_KEY", options={"api_version": "5"}, drop_params=True
        )
        assert transport.settings() == {
            "engine": "litellm",
            "engine_version": importlib.metadata.version("litellm"),
            "url": "http://h/v1",
            "api_key_env": "SOME_KEY",
            "options": {"api_version": "5"},
            "send_seed": False,
            "drop_params": True,
            "timeouts": {"connect_s": 10.0, "read_s": 600.0, "total_s": 600.0},
        }
        times = LiteLLM(connect_timeout_s=1, read_timeout_s=2, total_timeout_s=3, send_seed=True).settings()
        assert times["timeouts"] == {"connect_s": 1, "read_s": 2, "total_s": 3}
        assert (times["url"], times["api_key_env"], times["options"]) == (None, None, {})
        assert (times["send_seed"], times["drop_params"]) == (True, False)

    @pytest.mark.parametrize("name", ["temperature", "num_ctx", "max_tokens", "thinking", "mock_response", "fallbacks"])
    def test_what_shapes_an_answer_is_no_option(self, name: str) -> None:
        """Options are no part of the request hash: two values of one would share their stored answers."""
        with pytest.raises(ConfigError, match=f"options: {name} does not say where .* agent's sampling or extra_body"):
            LiteLLM(options={name: 1})

    @pytest.mark.parametrize("name", ["api_version", "aws_region_name", "vertex_project", "azure_scope", "space_id"])
    def test_where_an_endpoint_is_may_be_an_option(self, name: str) -> None:
        """What says where one asks is taken, shown in the settings, and shapes no id."""
        transport = LiteLLM(options={name: "x"})
        assert (transport.settings()["options"], transport.endpoint_id) == ({name: "x"}, "litellm")

    @pytest.mark.parametrize(
        ("settings", "line"),
        [
            ({"api_key_env": CANARY}, "api_key_env must be the name of an environment variable"),
            ({"options": {"aws_secret_access_key": CANARY}}, "options: aws_secret_access_key is a secret"),
            ({"options": {"api_base": "http://h"}}, "options: api_base has a setting of its own"),
            ({"api_base": CANARY}, "api_base must look like"),
            ({"api_base": f"http://h?key={CANARY}"}, "api_base has a query, .* write it under options"),
            ({"api_key_env": "canary4711"}, "api_key_env must be .* in capitals"),
        ],
    )
    def test_secrets_in_a_config_are_refused_unshown(self, settings: dict[str, Any], line: str) -> None:
        """A config is stored with the run."""
        with pytest.raises(ConfigError, match=line) as caught:
            LiteLLM(**settings)
        assert CANARY not in str(caught.value)

    @pytest.mark.parametrize("name", ["connect_timeout_s", "read_timeout_s", "total_timeout_s"])
    def test_a_time_limit_is_a_number_of_seconds(self, name: str) -> None:
        """As in `OpenAIHTTP`: what is none is named before anything is asked."""
        settings: dict[str, Any] = {name: "none"}
        with pytest.raises(ConfigError, match=f"{name} is 'none'; it must be a number of seconds above 0"):
            LiteLLM(**settings)

    async def test_the_key_is_read_at_the_first_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A transport can be built without a key; asking without one says which variable to set."""
        monkeypatch.delenv("SOME_KEY", raising=False)
        transport = LiteLLM(api_key_env="SOME_KEY")
        with pytest.raises(EndpointError, match="no API key; set the environment variable SOME_KEY"):
            await transport.send(make_request(model=CLAUDE), 0)
        await transport.close()


@pytest.mark.usefixtures("key")
class TestThread:
    """The thread in which litellm works."""

    async def test_it_ends_with_the_last_transport(self, server: Server) -> None:
        """One thread serves all transports; it is gone when the last one is closed, and comes back when asked."""
        server.steps = [answer(DEEPSEEK_BODY)]
        first, second = (LiteLLM(api_base=server.url, api_key_env="SOME_KEY") for _ in range(2))
        for transport in (first, second, first):
            await transport.send(make_request(model=DEEPSEEK), 0)
        assert workers() == 1
        await first.close()
        await second.send(make_request(model=DEEPSEEK), 0)
        await second.close()
        await second.close()
        assert workers() == 0
        await first.send(make_request(model=DEEPSEEK), 0)
        await first.close()
        assert workers() == 0

    async def test_many_calls_at_once_are_kept_apart(self, server: Server) -> None:
        """Sixteen calls in flight through the client each get the answer to their own question."""

        async def echo(request: Any) -> Any:
            body = await request.json()
            await asyncio.sleep(0.05)
            return await answer(changed(OLLAMA_BODY, message__content=body["messages"][-1]["content"]))(request)

        server.steps = [echo]
        pool = make_pool(LiteLLM(api_base=server.url, api_key_env="SOME_KEY"), make_agent(model=OLLAMA))
        client = Client(pool, MemoryStore(), None)
        asked = [str(number) for number in range(16)]
        calls = [client.complete(make_agent(model=OLLAMA), messages(text), make_context(text)) for text in asked]
        assert [done.text for done in await asyncio.gather(*calls)] == asked
        await client.close()

    async def test_a_cancelled_call_is_cancelled_there_too(self, server: Server) -> None:
        """Nobody goes on waiting for an answer that nobody wants."""
        arrived, released = asyncio.Event(), asyncio.Event()

        async def hold(_: Any) -> Any:
            arrived.set()
            await released.wait()

        server.steps = [hold]
        transport = LiteLLM(api_base=server.url, api_key_env="SOME_KEY")
        call = asyncio.create_task(transport.send(make_request(model=DEEPSEEK), 0))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await transport.close()
        released.set()
        assert workers() == 0

    async def test_litellm_says_nothing(self, server: Server, capfd: pytest.CaptureFixture[str]) -> None:
        """Neither banner nor log: they hold prompts and keys."""
        with pytest.raises(TransportError):
            await send(server, CLAUDE, answer({}, 500))
        await send(server, VLLM, answer(VLLM_BODY))
        assert capfd.readouterr() == ("", "")
        assert logging.getLogger("LiteLLM").disabled


def workers() -> int:
    """Threads of litellm's name."""
    return sum(thread.name == "litellm" for thread in threading.enumerate())
