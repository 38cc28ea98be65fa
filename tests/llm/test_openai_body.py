"""Bodies of OpenAI-compatible endpoints, each as its provider documents it."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.llm.support import completion
from trinity.llm.transports.base import Reply, TransportError
from trinity.llm.transports.openai_body import (
    decode,
    read_refusal,
    read_reply,
    read_retry_after,
    read_usage,
    split_thinking,
)
from trinity.types import FinishReason, Usage


def usage(given: int, written: int, total: int, **more: Any) -> dict[str, Any]:
    """A usage object."""
    return {"prompt_tokens": given, "completion_tokens": written, "total_tokens": total, **more}


def body(message: dict[str, Any], used: dict[str, Any], finish: str = "stop", **choice: Any) -> dict[str, Any]:
    """A chat completion with the fields that everybody sends and nobody here reads."""
    first = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish, **choice}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1790000000, "model": "m"}
    return {**head, "choices": [first], "usage": used}


OPENAI = body(
    {"content": "3", "refusal": None, "annotations": []},
    usage(
        50,
        120,
        170,
        prompt_tokens_details={"cached_tokens": 32, "audio_tokens": 0},
        completion_tokens_details={
            "reasoning_tokens": 100,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    ),
    logprobs=None,
) | {"service_tier": "default", "system_fingerprint": None}
DEEPSEEK = body(
    {"content": "3", "reasoning_content": "1+2"},
    usage(
        50,
        92,
        142,
        prompt_tokens_details={"cached_tokens": 48},
        completion_tokens_details={"reasoning_tokens": 81},
        prompt_cache_hit_tokens=48,
        prompt_cache_miss_tokens=2,
    ),
    logprobs=None,
) | {"system_fingerprint": "fp_7e73fd9a08"}
DEEPSEEK_OLD = body({"content": "3"}, usage(50, 2, 52, prompt_cache_hit_tokens=48, prompt_cache_miss_tokens=2))
VLLM = body(
    {"content": "3", "reasoning": "1+2", "refusal": None, "annotations": None, "audio": None, "function_call": None},
    usage(50, 12, 62, prompt_tokens_details=None),
    logprobs=None,
    stop_reason=None,
    token_ids=None,
) | {"service_tier": None, "prompt_logprobs": None, "kv_transfer_params": None}
VLLM_OLD = body({"content": "3", "reasoning_content": "1+2", "tool_calls": []}, usage(50, 12, 62), stop_reason="\n")
LLAMA_CPP = body(
    {"content": "3", "reasoning_content": "1+2"},
    usage(50, 12, 62, prompt_tokens_details={"cached_tokens": 36}),
) | {"timings": {"cache_n": 36, "prompt_n": 14, "prompt_ms": 60.1, "predicted_n": 12, "predicted_ms": 90.0}}
LLAMA_CPP_OLD = body({"content": "3"}, usage(50, 12, 62)) | {"timings": {"cache_n": 36, "prompt_n": 14}}
OLLAMA = body({"content": "3", "reasoning": "1+2"}, usage(50, 12, 62)) | {"system_fingerprint": "fp_ollama"}
OPENROUTER = body(
    {
        "content": "3",
        "refusal": None,
        "reasoning": "1+2",
        "reasoning_details": [{"type": "reasoning.text", "text": "1+2", "format": "unknown", "index": 0}],
    },
    usage(
        50,
        112,
        162,
        cost=0.0014,
        is_byok=False,
        prompt_tokens_details={"cached_tokens": 0, "audio_tokens": 0},
        cost_details={"upstream_inference_cost": None},
        completion_tokens_details={"reasoning_tokens": 100},
    ),
    native_finish_reason="end_turn",
    logprobs=None,
) | {"provider": "Anthropic"}
XAI = body(
    {"content": "3", "reasoning_content": "1+2", "refusal": None},
    usage(
        2640,
        182,
        3494,
        prompt_tokens_details={"text_tokens": 2640, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 473},
        completion_tokens_details={"reasoning_tokens": 672, "audio_tokens": 0, "accepted_prediction_tokens": 0},
        num_sources_used=0,
    ),
)
GEMINI = body({"content": "3"}, usage(20, 198, 623))
MISTRAL = body(
    {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "1+2"}], "closed": True},
            {"type": "text", "text": "3"},
        ]
    },
    usage(50, 12, 62),
)
MOONSHOT = body({"content": "3"}, usage(50, 12, 62, cached_tokens=40))


@pytest.mark.parametrize(
    ("received", "reply"),
    [
        (OPENAI, Reply("3", "", "stop", Usage(50, 20, 100, 32))),
        (DEEPSEEK, Reply("3", "1+2", "stop", Usage(50, 11, 81, 48))),
        (DEEPSEEK_OLD, Reply("3", "", "stop", Usage(50, 2, 0, 48))),
        (VLLM, Reply("3", "1+2", "stop", Usage(50, 12, 0, 0))),
        (VLLM_OLD, Reply("3", "1+2", "stop", Usage(50, 12, 0, 0))),
        (LLAMA_CPP, Reply("3", "1+2", "stop", Usage(50, 12, 0, 36))),
        (LLAMA_CPP_OLD, Reply("3", "", "stop", Usage(50, 12, 0, 36))),
        (OLLAMA, Reply("3", "1+2", "stop", Usage(50, 12, 0, 0))),
        (OPENROUTER, Reply("3", "1+2", "stop", Usage(50, 12, 100, 0))),
        (XAI, Reply("3", "1+2", "stop", Usage(2640, 182, 672, 473))),
        (GEMINI, Reply("3", "", "stop", Usage(20, 198, 405, 0))),
        (MISTRAL, Reply("3", "1+2", "stop", Usage(50, 12, 0, 0))),
        (MOONSHOT, Reply("3", "", "stop", Usage(50, 12, 0, 40))),
        (completion("3"), Reply("3", "", "stop", None)),
    ],
    ids=[
        "openai",
        "deepseek",
        "deepseek, older",
        "vllm",
        "vllm, older",
        "llama.cpp",
        "llama.cpp, older",
        "ollama",
        "openrouter",
        "xai",
        "gemini",
        "mistral",
        "moonshot",
        "no usage",
    ],
)
def test_each_providers_answer_is_read_as_documented(received: dict[str, Any], reply: Reply) -> None:
    """Text, reasoning, finish reason and the split of tokens, per provider shape."""
    assert read_refusal(200, received, b"") is None
    assert read_reply(received) == reply


@pytest.mark.parametrize(
    ("used", "read"),
    [
        (usage(5, 0, 5), Usage(5, 0)),
        ({"prompt_tokens": 5, "completion_tokens": 1}, Usage(5, 1)),
        ({"prompt_tokens": 5, "completion_tokens": None, "total_tokens": 5}, None),
        ({"prompt_tokens": 5}, None),
        (usage(5, 1, 6, prompt_tokens_details={"cached_tokens": 9}), Usage(5, 1, 0, 5)),
        (usage(5, 1, 6, completion_tokens_details=[3]), Usage(5, 1)),
        (usage(21, 0, 81, completion_tokens_details={"reasoning_tokens": 60}), Usage(21, 0, 60)),
        (usage(5, 9, 14, completion_tokens_details={"reasoning_tokens": 9}), Usage(5, 0, 9)),
        (usage(5, 9, 15, completion_tokens_details={"reasoning_tokens": 1}), Usage(5, 9, 1)),
        (usage(5, 9, 14, completion_tokens_details={"reasoning_tokens": 1}), Usage(5, 8, 1)),
        (usage(5, 9, 15), Usage(5, 9, 1)),
        (usage(5, 1, 6, prompt_tokens_details={"cached_tokens": 5}), Usage(5, 1, 0, 5)),
        (usage(0, 0, 0), Usage()),
        (usage(2**31 - 1, 2**31 - 1, 0), Usage(2**31 - 1, 2**31 - 1)),
        (usage(5, 1, 4), Usage(5, 1)),
        (usage(5, 1, 900, completion_tokens_details={"reasoning_tokens": 0}), Usage(5, 1)),
        (None, None),
        ([], None),
        ("many", None),
    ],
)
def test_strange_usage_never_becomes_a_wrong_bill(used: Any, read: Usage | None) -> None:
    """Counts that are no counts are taken as not reported; parts stay within their whole."""
    assert read_usage(used) == read


@pytest.mark.parametrize(
    ("said", "used", "read"),
    [
        ({"content": "3"}, usage(5, 0, 5), None),
        ({"content": "", "reasoning": "hm"}, usage(5, 0, 5), None),
        ({"content": ""}, usage(5, 0, 5), Usage(5, 0)),
        ({"content": ""}, usage(0, 0, 0), None),
        ({"content": "3"}, usage(0, 1, 1), None),
        ({"content": "3"}, usage(1, 1, 2), Usage(1, 1)),
        ({"content": "3"}, usage(5, 0, 6, completion_tokens_details={"reasoning_tokens": 1}), Usage(5, 0, 1)),
    ],
)
def test_zeros_where_tokens_must_have_been_are_no_usage(said: Any, used: Any, read: Usage | None) -> None:
    """A prompt is never empty, and whoever wrote something wrote tokens; silence may cost none."""
    assert read_reply(body(said, used)).usage == read


@pytest.mark.parametrize("count", [-1, 1.5, 2**31, 10**400, True, "7", None])
def test_absurd_counts_are_not_reported_ones(count: Any) -> None:
    """Negative, fractional and gigantic token counts are as good as none, so they are estimated."""
    assert read_usage(usage(count, 1, 1)) is None
    assert read_usage(usage(1, count, 1)) is None


@given(
    st.integers(0, 9999), st.integers(0, 9999), st.integers(0, 9999) | st.none(), st.integers(0, 9999), st.integers(0)
)
def test_no_token_is_lost_or_invented(given_: int, written: int, hidden: int | None, total: int, cached: int) -> None:
    """Whatever a provider reports, output and reasoning cover its completion tokens, and cached ones are input."""
    used = usage(given_, written, total, prompt_tokens_details={"cached_tokens": cached})
    if hidden is not None:
        used["completion_tokens_details"] = {"reasoning_tokens": hidden}
    read = read_usage(used)
    assert read is not None
    assert read.cached_tokens <= read.input_tokens == given_
    assert written <= read.output_tokens + read.reasoning_tokens <= written + max(hidden or 0, total)


@pytest.mark.parametrize(
    ("finish", "read"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("eos", "stop"),
        (None, "stop"),
        ("tool_calls", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("repetition", "length"),
        ("content_filter", "content_filter"),
        ("content_filter: PROHIBITED_CONTENT", "content_filter"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("refusal", "content_filter"),
        *((word, "content_filter") for word in ("blocklist", "prohibited_content", "spii")),
        *((word, "stop") for word in ("end_turn", "stop_sequence", "function_call", "Stop: \n")),
    ],
)
def test_finish_reasons(finish: str | None, read: FinishReason) -> None:
    """Each known finish reason has one meaning."""
    assert read_reply(completion("3", finish)).finish_reason == read


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource", "load", ""])
def test_an_answer_that_was_broken_off_is_none(finish: str) -> None:
    """Text that the server did not finish is an attempt to be made again, and the line says how it ended."""
    with pytest.raises(TransportError, match=f"finish reason {finish}") as caught:
        read_reply(completion("3", finish))
    assert (caught.value.kind, caught.value.status) == ("malformed", 200)
    assert str(caught.value) == f"no complete answer: finish reason {finish}"


def test_a_declared_refusal_is_a_content_filter_and_keeps_its_words() -> None:
    """A refusal is no empty answer; with text beside it the text counts."""
    assert read_reply(completion(None, refusal="I cannot help.")) == Reply("I cannot help.", "", "content_filter", None)
    assert read_reply(completion("3", refusal="I cannot help.")) == Reply("3", "", "stop", None)


def test_content_parts_are_joined_and_broken_unicode_replaced() -> None:
    """A list of parts is one text; half a surrogate pair, which no file can hold, is not kept."""
    parts: Any = [
        {"type": "text", "text": "a\ud800"},
        {"type": "image"},
        {"type": "text", "text": "🙂"},
        {"type": "thinking", "thinking": "hm"},
    ]
    assert read_reply(completion(parts)) == Reply("a\ufffd🙂", "hm", "stop", None)


@pytest.mark.parametrize(
    ("content", "field", "text", "reasoning"),
    [
        ("<think>\n1+2\n</think>\n\n3", "", "3", "1+2"),
        ("  <think>1+2</think>3", "", "3", "1+2"),
        ("1+2\n</think>\n\n3", "", "3", "1+2"),
        ("<think>\n\n</think>\n\n3", "", "3", ""),
        ("<think>1+2", "", "", "1+2"),
        ("<think>1+2</think>3", "1+2", "3", "1+2"),
        ("<think>4</think>3", "1+2", "3", "1+2\n4"),
        ("<think>a</think>b</think>c", "", "b</think>c", "a"),
        ("Put it between <think> and </think>.", "", "Put it between <think> and </think>.", ""),
        ("It opens with <think>", "", "It opens with <think>", ""),
        ("3 < 4", "1+2", "3 < 4", "1+2"),
    ],
)
def test_thinking_left_in_the_content_is_taken_apart(content: str, field: str, text: str, reasoning: str) -> None:
    """Servers without a reasoning parser send thinking as content; it is no part of the answer, and is kept."""
    assert split_thinking(content, field) == (text, reasoning)
    assert read_reply(completion(content, reasoning_content=field)) == Reply(text, reasoning, "stop", None)


@given(st.lists(st.sampled_from(["<think>", "</think>", " ", "a", "b\n"]), max_size=8).map("".join))
def test_taking_thinking_apart_loses_no_word(content: str) -> None:
    """Beside the tags and white space everything is in the text or in the reasoning, in its order."""
    text, reasoning = split_thinking(content, "")
    letters = "".join(sign for sign in reasoning + text if sign.isalpha() or sign in "<>/")
    for tag in ("<think>", "</think>"):
        letters, content = letters.replace(tag, ""), content.replace(tag, "")
    assert letters == "".join(content.split())


@pytest.mark.parametrize(
    "received",
    [
        b"null",
        b'"text"',
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": {}}',
        b'{"choices": [3]}',
        b'{"choices": [{"message": null, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": 3}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": [3]}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": [{"type": "thinking", "thinking": [[]]}]}, "finish_reason": "stop"}]}',
        b'{"choices": [{"message": {"content": "3", "reasoning": {}, "reasoning_content": 1}}]}',
        b'{"choices": [{"message": {"content": "3"}, "finish_reason": ["stop"]}]}',
    ],
)
def test_a_body_that_is_no_answer_is_malformed(received: bytes) -> None:
    """Whatever nonsense comes with status 200 is an attempt to be made again, never an answer."""
    received_body = json.loads(received)
    assert read_refusal(200, received_body, received) is None
    with pytest.raises(TransportError) as caught:
        read_reply(received_body)
    assert (caught.value.kind, caught.value.status) == ("malformed", 200)
    assert re.fullmatch(r"no complete chat completion \(\w+Error\)", str(caught.value))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "error", "code", "usage", "type", "metadata"]), inner
        )
    ),
)


@given(st.sampled_from([200, 204, 304, 400, 403, 429, 500]), JSON)
def test_no_body_makes_the_reader_stumble(status: int, received: Any) -> None:
    """A reply, a refusal or a malformed attempt: nothing else comes of any JSON."""
    refused = read_refusal(status, received, json.dumps(received).encode())
    if refused is None:
        with suppress(TransportError):
            read_reply(received)
    else:
        assert refused.status == status or 400 <= refused.status < 600


@pytest.mark.parametrize("content", [b"", b"{", b"<html>", b"[" * 100_000, b'{"a": "\xff"}', b"1" * 5000])
def test_what_is_no_json_is_none(content: bytes) -> None:
    """Neither broken nor endless nesting, nor bytes that are no text, raise anything."""
    assert decode(content) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (101, "malformed"),
        (301, "fatal"),
        (304, "malformed"),
        (308, "fatal"),
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
def test_status_decides_the_kind(status: int, kind: str) -> None:
    """Every HTTP status fails in the one way that belongs to it."""
    refused = read_refusal(status, {"error": {"message": "told why"}}, b"")
    assert refused is not None
    assert (refused.status, refused.kind, refused.words, refused.finish) == (status, kind, "told why", None)


@pytest.mark.parametrize(
    ("received", "status", "kind"),
    [
        ({"error": {"code": 429, "message": "slow"}}, 429, "rate_limit"),
        ({"error": {"code": "503", "message": "slow"}}, 503, "server"),
        ({"error": {"message": "no code"}}, 200, "malformed"),
        ({"error": {"code": True}}, 200, "malformed"),
        ({"error": {"code": 200}}, 200, "malformed"),
        ({"error": "words"}, 200, "malformed"),
        ({"error": {"code": 400}}, 400, "bad_request"),
        ({"error": {"code": 599}}, 599, "server"),
        ({"error": {"code": 399}}, 200, "malformed"),
        ({"error": {"code": 600}}, 200, "malformed"),
        ({"error": {"code": "4O4"}}, 200, "malformed"),
        ({"error": {"code": "\u0664\u0660\u0664"}}, 200, "malformed"),
        ({"error": {"code": "4" * 5000}}, 200, "malformed"),
        ({"error": {"code": 502}, "choices": [{"message": {}}]}, None, None),
        ({"error": {"code": 502}, "choices": {"a": 1}}, None, None),
        ({"error": {"code": 502, "message": "m"}, "choices": []}, 502, "server"),
        (body({"content": "3"}, usage(1, 1, 2), "error", error={"code": 502, "message": "lost"}), 502, "server"),
    ],
)
def test_an_error_inside_a_success_counts_as_its_own_code(received: Any, status: int | None, kind: str | None) -> None:
    """Routers send status 200 with an error in the body or in the choice; it is never an answer, but beside choices."""
    refused = read_refusal(200, received, b"")
    assert (refused and (refused.status, refused.kind)) == (None if status is None else (status, kind))


def test_an_answer_beside_an_empty_error_is_an_answer() -> None:
    """Servers that send every field of their schema send `error: null` with every answer."""
    assert read_refusal(200, completion("3") | {"error": None}, b"") is None
    assert read_refusal(200, completion("3") | {"error": {"message": ""}}, b"") is None


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize(
    ("error", "finish"),
    [
        ({"code": "context_length_exceeded", "message": "too long"}, "context"),
        ({"code": 400, "type": "exceed_context_size_error", "message": "request (9 tokens) exceeds"}, "context"),
        ({"message": "This model's maximum context length is 4096 tokens.", "type": "BadRequestError"}, "context"),
        ({"message": "the request exceeds the available context size"}, "context"),
        ({"message": "This model's maximum prompt length is 131072 but the request contains 140000"}, "context"),
        ({"message": "The input token count (99) exceeds the maximum number of tokens allowed (9)."}, "context"),
        (
            {
                "code": 400,
                "message": "Provider returned error",
                "metadata": {"raw": '{"message": "prompt is too long: 9 tokens > 8 maximum"}', "provider_name": "A"},
            },
            "context",
        ),
        ({"code": "content_filter", "message": "The response was filtered"}, "content_filter"),
        ({"code": "x", "message": "m", "innererror": {"code": "ResponsibleAIPolicyViolation"}}, "content_filter"),
        ({"code": "invalid_prompt", "message": "no such parameter"}, None),
    ],
    ids=["openai", "llama.cpp", "vllm", "python", "xai", "gemini", "openrouter", "filter", "azure", "other"],
)
def test_long_prompts_and_refused_ones_are_known(status: int, error: dict[str, Any], finish: FinishReason) -> None:
    """A prompt that does not fit and a prompt that is refused are told from a wrong request."""
    refused = read_refusal(status, {"error": error}, b"")
    assert refused is not None
    assert (refused.kind, refused.finish) == ("bad_request", finish)


def test_flagged_input_is_no_wrong_key() -> None:
    """OpenRouter's moderation answers 403 like a bad key; it ends this one request and not the run."""
    metadata = {"reasons": ["violence"], "flagged_input": "...", "provider_name": "OpenAI", "model_slug": "m"}
    flagged = read_refusal(403, {"error": {"code": 403, "message": "flagged", "metadata": metadata}}, b"")
    forbidden = read_refusal(403, {"error": {"code": 403, "message": "content policy: no access"}}, b"")
    assert flagged is not None
    assert forbidden is not None
    assert (flagged.finish, forbidden.finish, forbidden.kind) == ("content_filter", None, "fatal")


@pytest.mark.parametrize(
    ("received", "content", "words"),
    [
        ({"object": "error", "message": "flat", "code": 400}, b"", "flat"),
        ({"code": "denied", "error": "Incorrect API key provided"}, b"", "Incorrect API key provided"),
        (
            [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}],
            b"",
            "API key not valid.",
        ),
        ({"detail": [{"loc": ["body", "n"], "msg": "too many"}]}, b"", "[{'loc': ['body', 'n'], 'msg': 'too many'}]"),
        (
            {"error": {"message": "Provider returned error", "metadata": {"raw": "upstream"}}},
            b"",
            "Provider returned error: upstream",
        ),
        ({"error": {"type": "overloaded_error"}}, b"", "overloaded_error"),
        ({"error": {"type": "overloaded_error", "code": 529}}, b"", "529 overloaded_error"),
        (None, b"<html>\xff", "<html>\ufffd"),
        (None, b"x" * 2**16 + b"y", "x" * 2**16),
        ({}, b"{}", ""),
    ],
    ids=["older vllm", "xai", "gemini", "fastapi", "openrouter", "no message", "codes", "proxy", "long page", "empty"],
)
def test_the_words_of_an_error_are_found(received: Any, content: bytes, words: str) -> None:
    """Wherever a provider puts its explanation, a person gets to read it."""
    refused = read_refusal(400, received, content)
    assert refused is not None
    assert refused.words == words


def test_retry_after_is_read_in_seconds_and_as_a_date() -> None:
    """Both forms of the header give seconds."""
    assert read_retry_after("17") == 17.0
    assert 50 < (read_retry_after(formatdate(time.time() + 60, usegmt=True)) or 0) <= 60
    assert read_retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    assert read_retry_after(None) is None


@pytest.mark.parametrize("date", ["Thu, 01 Jan 2015 00:00:00 GMT", "Wed, 01 Jan 2200 00:00:00 GMT"])
def test_a_date_of_retry_after_is_counted_from_the_providers_clock(date: str) -> None:
    """Where the clock here is years off, the wait is the one that the provider means."""
    assert read_retry_after(date.replace("00:00 GMT", "00:17 GMT"), date) == 17.0
    assert read_retry_after(formatdate(time.time() - 60, usegmt=True), "yesterday") == 0.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("inf", None),
        ("nan", None),
        ("-3", 0.0),
        ("1e3", 1000.0),
        ("Mon, 01 Jan 9999999 00:00:00 GMT", None),
        ("soon", None),
    ],
)
def test_retry_after_of_any_kind(value: str, seconds: float | None) -> None:
    """A Retry-After that is no finite time is taken as none, never as an error."""
    assert read_retry_after(value) == seconds
