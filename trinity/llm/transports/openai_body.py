"""What the body of an OpenAI-compatible endpoint says, in the dialects of those who serve one.

How an answer is read
    text            `message.content`; the text parts of a list are joined, null is empty; where there is none, the
                    words of `message.refusal`
    reasoning       `message.reasoning_content` (DeepSeek, xAI, llama.cpp, older vLLM) or `message.reasoning` (Ollama,
                    OpenRouter, vLLM), else the thinking parts of a list (Mistral). Servers that do not take thinking
                    apart leave it in the content: what stands there up to the first `</think>`, after a `<think>` at
                    its start or after none (templates put that tag into the prompt), is reasoning and not answer, as
                    lm-evaluation-harness, lighteval and inspect grade it. A `<think>` that is never closed is
                    reasoning to the end. A first `<think>` further on is quoted, and nothing is taken apart
    finish reason   case and what follows a colon do not count.
                    stop, eos, end_turn, stop_sequence, tool_calls, function_call, null -> `stop`;
                    length, max_tokens, model_length (Mistral), repetition (vLLM broke off a loop) -> `length`;
                    content_filter, refusal, safety, recitation, blocklist, prohibited_content, spii (Gemini's own),
                    or no content and a `message.refusal` -> `content_filter`;
                    anything else (error, abort, insufficient_system_resource) is no complete answer: malformed
    input           `usage.prompt_tokens`
    cached          a part of input: `usage.prompt_tokens_details.cached_tokens`, else `usage.prompt_cache_hit_tokens`
                    (DeepSeek), `usage.cached_tokens` (Moonshot) or `timings.cache_n` (llama.cpp)
    reasoning       `usage.completion_tokens_details.reasoning_tokens`; where it is not reported, what
                    `usage.total_tokens` has beyond prompt and completion (Gemini), else 0 (llama.cpp, vLLM, Ollama),
                    whose hidden tokens then count as output, at the same weight
    output          `usage.completion_tokens` - reasoning (OpenAI, DeepSeek and OpenRouter count hidden tokens as
                    completion tokens), or `usage.completion_tokens` where the total shows that reasoning comes on top
                    (xAI, Gemini)
    no usage        None: the client estimates
    `usage.cost` (OpenRouter) is left aside: it is in credits, and prices have one place.

How a failure is read
    429 rate_limit; 408 and 409 timeout; 5xx server; redirects and 401 to 404 fatal, but 403 for flagged input
    (OpenRouter) -> finish reason `content_filter`; any other 4xx: context too long -> `context`, content filter ->
    `content_filter`, else bad_request. Both are recognised by the error's code or type, then by its message. An error
    object in a body of status 200, or in its first choice, counts as its own `code` says. Other statuses: malformed.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from trinity.llm.transports.base import ErrorKind, Reply, TransportError
from trinity.llm.transports.common import storable
from trinity.types import FinishReason, Usage

_ABSURD_TOKENS = 2**31
"""A count that no call can have; it is taken as not reported."""

_WORDS_CHARS = 2000
"""Where a provider's words are looked at; more than that is an echo of the prompt."""
_PAGE_BYTES = 2**16
"""As much of a body that is no JSON is kept: far more than is shown, for secrets are cut out of it first."""

_REDIRECTS = frozenset({300, 301, 302, 303, 305, 307, 308})
_KINDS: dict[int, ErrorKind] = {
    **dict.fromkeys(_REDIRECTS, "fatal"),
    401: "fatal",
    402: "fatal",
    403: "fatal",
    404: "fatal",
    408: "timeout",
    409: "timeout",
    429: "rate_limit",
}
_KINDS_OF_HUNDRED: dict[int, ErrorKind] = {4: "bad_request", 5: "server"}
_ERRORS = range(400, 600)
_FORBIDDEN = 403

_FINISH: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "eos", "end_turn", "stop_sequence", "tool_calls", "function_call"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "repetition"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "safety", "recitation", "blocklist"), "content_filter"),
    **dict.fromkeys(("prohibited_content", "spii"), "content_filter"),
}

_CONTEXT_CODES = ("context_length_exceeded", "exceed_context_size_error", "string_above_max_length")
_CONTEXT_TEXTS = (
    "maximum context length",  # OpenAI, DeepSeek, OpenRouter, Mistral, vLLM
    "longer than the maximum model length",  # vLLM
    "maximum prompt length",  # xAI
    "exceeds the maximum number of tokens",  # Gemini
    "available context size",  # llama.cpp
    "exceeds the context length",  # Ollama
    "exceeds the context window",
    "reduce the length of the messages",  # Groq
    "prompt is too long",  # Anthropic
    "entity too large",  # proxies, 413
    "payload too large",
    "content too large",
)
_FILTER_CODES = ("content_filter", "content_policy_violation", "responsibleaipolicyviolation")
_FILTER_TEXTS = ("content management policy", "content policy", "content filter")

_OPEN, _CLOSE = "<think>", "</think>"


def decode(content: bytes) -> Any:
    """The body as JSON; None when it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def read_reply(body: Any) -> Reply:
    """The answer in a decoded body, read as the module says.

    Raises:
        TransportError: malformed.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text, reasoning = _said(message)
        refusal = _text(message.get("refusal"))
        finish = read_finish(choice.get("finish_reason"))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise TransportError("malformed", f"no complete chat completion ({type(error).__name__})", status=200) from None
    if refusal and not text:
        text, finish = refusal, "content_filter"
    usage = read_usage(body.get("usage"), body.get("timings"))
    if usage is not None and says_nothing(usage, text or reasoning):
        usage = None
    return Reply(text, reasoning, finish, usage)


def read_finish(reason: str | None) -> FinishReason:
    """The meaning of a finish reason.

    Raises:
        TransportError: malformed: an answer that ended so is none.
    """
    if reason is None:
        return "stop"
    finish = _FINISH.get(reason.partition(":")[0].lower())
    if finish is None:
        raise TransportError("malformed", f"no complete answer: finish reason {reason}", status=200)
    return finish


def _said(message: Any) -> tuple[str, str]:
    content = message.get("content")
    reasoning = _text(message.get("reasoning_content") or message.get("reasoning"))
    if isinstance(content, list):
        reasoning = reasoning or _text(_parts(content, "thinking"))
        content = _parts(content, "text")
    return split_thinking(_text(content), reasoning)


def _parts(content: list[Any], kind: str) -> str:
    """The texts of the parts of one kind; a thinking part holds a text or a list of text parts."""
    found = [part[kind] for part in content if part["type"] == kind]
    pieces = [[piece] if isinstance(piece, str) else [part["text"] for part in piece] for piece in found]
    return "".join(text for piece in pieces for text in piece)


def split_thinking(text: str, reasoning: str) -> tuple[str, str]:
    """Answer and reasoning of a content that may hold its thinking, as the module says; no word is lost."""
    if _OPEN not in text and _CLOSE not in text:
        return text, reasoning
    block, closed, answer = text.partition(_CLOSE)
    thought = block.lstrip()
    opened = thought.startswith(_OPEN)
    if not opened and (not closed or _OPEN in block):
        return text, reasoning
    thought = thought.removeprefix(_OPEN).strip()
    if thought not in reasoning:  # llama.cpp's deepseek-legacy format sends it twice
        reasoning = f"{reasoning}\n{thought}" if reasoning else thought
    return answer.lstrip(), reasoning


def _text(content: Any) -> str:
    """Text of a field, as a file can hold it."""
    if content is None:
        return ""
    if not isinstance(content, str):
        raise TypeError
    return storable(content)


def read_usage(usage: Any, timings: Any = None) -> Usage | None:
    """Tokens as the module says; None when prompt or completion tokens are not reported."""
    given, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if given is None or written is None:
        return None
    beyond = (_count(usage, "total_tokens") or 0) - given - written
    hidden = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    if hidden is None:
        hidden = max(beyond, 0)
    on_top = hidden > written or (hidden > 0 and beyond == hidden)
    return Usage(given, written if on_top else written - hidden, hidden, min(_cached(usage, timings), given))


def says_nothing(usage: Usage, written: str) -> bool:
    """Whether zeros stand where tokens must have been: a prompt is never empty, and a text has tokens."""
    return usage.input_tokens == 0 or (bool(written) and usage.output_tokens + usage.reasoning_tokens == 0)


def _cached(usage: Any, timings: Any) -> int:
    places = (
        (usage.get("prompt_tokens_details"), "cached_tokens"),
        (usage, "prompt_cache_hit_tokens"),
        (usage, "cached_tokens"),
        (timings, "cache_n"),
    )
    counts = (_count(holder, key) for holder, key in places)
    return next((count for count in counts if count is not None), 0)


def _count(holder: Any, key: str) -> int | None:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _ABSURD_TOKENS else None


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an endpoint gave no answer; `finish` is set where that is itself the answer to this one request."""

    status: int
    kind: ErrorKind
    words: str
    finish: FinishReason | None


def read_refusal(status: int, body: Any, content: bytes) -> Refused | None:
    """What a body of `status` says instead of an answer; None where it must be read as an answer."""
    body = body[0] if isinstance(body, list) and body else body  # Gemini wraps its errors in a list
    error = _error_in(body)
    if status // 100 == 2:  # noqa: PLR2004 - a success, in HTTP's own numbers
        if not error:
            return None
        status = _own_status(error) or status
    elif isinstance(body, dict):
        error = error or body  # older servers put the error at the top of the body
    raw = content[:_PAGE_BYTES].decode("utf-8", "replace")
    label, words = ("", raw) if error is None else _words(error)
    kind = _KINDS.get(status) or _KINDS_OF_HUNDRED.get(status // 100, "malformed")
    return Refused(status, kind, words or label, _finish_of(status, kind, label, words, error))


def _error_in(body: Any) -> Any:
    """The error of a body, or of its first choice (OpenRouter)."""
    if not isinstance(body, dict):
        return None
    choices = body.get("choices")
    if not choices:
        return body.get("error")
    first = choices[0] if isinstance(choices, list) else None
    return first.get("error") if isinstance(first, dict) else None


def _own_status(error: Any) -> int | None:
    """The HTTP status that an error names as its code."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code[:4])
    return int(code) if isinstance(code, int) and code in _ERRORS else None


def _words(error: Any) -> tuple[str, str]:
    """Code and type of a provider's error, and its message; a router's error holds the provider's own as `raw`."""
    if not isinstance(error, dict):
        return "", str(error)
    inner, metadata = error.get("innererror"), error.get("metadata")
    codes = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, dict) else None]
    said = [error.get("message") or error.get("detail"), metadata.get("raw") if isinstance(metadata, dict) else None]
    return " ".join(str(code) for code in codes if code), ": ".join(str(words) for words in said if words)


def _finish_of(status: int, kind: ErrorKind, label: str, words: str, error: Any) -> FinishReason | None:
    """`context` or `content_filter` where a refused request was one."""
    metadata = error.get("metadata") if isinstance(error, dict) else None
    if status == _FORBIDDEN and isinstance(metadata, dict) and "flagged_input" in metadata:
        return "content_filter"
    if kind != "bad_request":
        return None
    label, words = label[:_WORDS_CHARS].lower(), words[:_WORDS_CHARS].lower()
    if any(code in label for code in _CONTEXT_CODES) or any(text in words for text in _CONTEXT_TEXTS):
        return "context"
    if any(code in label for code in _FILTER_CODES) or any(text in words for text in _FILTER_TEXTS):
        return "content_filter"
    return None


def read_retry_after(value: str | None, date: str | None = None) -> float | None:
    """Seconds from a Retry-After header, which holds seconds or a date; None when it holds neither.

    A date is counted from the Date header of the same answer, where it has one: the clock here may be set wrong.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - (_timestamp(date) or time.time())
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _timestamp(date: str | None) -> float | None:
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
