"""Any OpenAI-compatible endpoint, spoken to over HTTP.

How a provider's answer is read
    text            `message.content`; a list of parts is joined, null is empty
    reasoning       `message.reasoning_content` (DeepSeek, llama.cpp, vLLM) or `message.reasoning` (OpenRouter, vLLM)
    finish reason   stop, eos, end_turn, tool_calls, function_call, null -> `stop`; length, max_tokens -> `length`;
                    content_filter, or no content and a `message.refusal` -> `content_filter`;
                    anything else (error, abort, ...) is no complete answer: malformed
    input           `usage.prompt_tokens`
    cached          `usage.prompt_tokens_details.cached_tokens`, a part of input
    reasoning       `usage.completion_tokens_details.reasoning_tokens`; 0 where it is not reported (llama.cpp, vLLM),
                    whose hidden tokens then count as output, at the same weight
    output          `usage.completion_tokens` - reasoning (OpenAI counts hidden tokens as completion tokens), or
                    `usage.completion_tokens` where `usage.total_tokens` shows that reasoning comes on top (xAI)
    no usage        None: the client estimates

How a failure is read
    429 rate_limit; 408 and 409 timeout; 5xx server; 3xx and 401 to 404 fatal; an error object in a body of status 200
    counts as its own `code` says; any other 4xx: context too long -> finish reason `context`, content filter ->
    `content_filter`, else bad_request. Both are recognised by the error's code or type, then by its message.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

from trinity.errors import ConfigError, EndpointError
from trinity.llm.transports.base import ErrorKind, Reply, Request, TransportError
from trinity.types import FinishReason, PoolKind, Usage

if TYPE_CHECKING:
    import aiohttp

_ABSURD_TOKENS = 2**31
"""A count that no call can have; it is taken as not reported."""

MAX_BODY_BYTES = 16 * 2**20
"""A longer body is no answer; it would only fill the memory."""

_CHUNK_BYTES = 2**16
_DETAIL_CHARS = 300
_SECRET_CHARS = 8
"""Shorter keys ("none", "x") stand in ordinary answers and protect nothing."""
_SECRET_HEADER = re.compile("key|token|secret|auth|cookie", re.IGNORECASE)

_KINDS: dict[int, ErrorKind] = {
    401: "fatal",
    402: "fatal",
    403: "fatal",
    404: "fatal",
    408: "timeout",
    409: "timeout",
    429: "rate_limit",
}
_KINDS_OF_HUNDRED: dict[int, ErrorKind] = {3: "fatal", 4: "bad_request", 5: "server"}

_FINISH: dict[str | None, FinishReason] = {
    None: "stop",
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}

_CONTEXT_CODES = ("context_length_exceeded", "exceed_context_size_error", "string_above_max_length")
_CONTEXT_TEXTS = (
    "maximum context length",  # OpenAI, vLLM
    "longer than the maximum model length",  # vLLM
    "available context size",  # llama.cpp
    "exceeds the context window",
    "prompt is too long",
    "entity too large",  # proxies, 413
    "payload too large",
    "content too large",
)
_FILTER_CODES = ("content_filter", "content_policy_violation", "responsibleaipolicyviolation")
_FILTER_TEXTS = ("content management policy", "content policy", "content filter")


class OpenAIHTTP:
    """`POST {base_url}/chat/completions`, one attempt a call, over one session without a connection limit of its own.

    The key is read from the environment variable `api_key_env` at the first call and appears nowhere else; user info
    and query of `base_url` go on the wire only. `headers` are for what is no secret, judged by their names. Timeouts
    are in seconds: `connect` to a connection, `read` between two pieces of the answer, `total` for the whole attempt.
    """

    kind: PoolKind = "live"

    def __init__(
        self,
        base_url: str,
        *,
        api_key_env: str | None = None,
        endpoint_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        connect_timeout_s: float = 10,
        read_timeout_s: float = 120,
        total_timeout_s: float = 600,
        send_seed: bool = True,
    ) -> None:
        self._parts = _split_url(base_url)
        self._shown_url = stable_url(base_url)
        self._endpoint_id = endpoint_id or self._shown_url
        self._api_key_env = api_key_env
        self._headers = _plain_headers(headers or {})
        self._timeouts = {"connect_s": connect_timeout_s, "read_s": read_timeout_s, "total_s": total_timeout_s}
        self._send_seed = send_seed
        self._session: aiohttp.ClientSession | None = None
        self._secrets = _url_secrets(self._parts)

    @property
    def endpoint_id(self) -> str:
        """As configured; by default the base URL without user info and query."""
        return self._endpoint_id

    def settings(self) -> dict[str, Any]:
        """URL without secrets, the name of the key's variable, timeouts."""
        return {
            "engine": "openai_http",
            "url": self._shown_url,
            "api_key_env": self._api_key_env,
            "send_seed": self._send_seed,
            "timeouts": dict(self._timeouts),
        }

    async def send(self, request: Request, seed: int) -> Reply:
        """One attempt.

        Raises:
            TransportError: it failed; credentials and URL are kind `fatal`.
            EndpointError: the environment variable of the key is not set.
        """
        import aiohttp

        body: dict[str, Any] = {"model": request.model, "messages": list(request.messages)}
        body |= {**request.sampling, **request.extra_body}
        if self._send_seed:
            body["seed"] = seed
        session = self._open_session()
        try:
            async with session.post(self._wire_url, data=json.dumps(body).encode(), allow_redirects=False) as response:
                content = await _read_capped(response)
                return self._read(response.status, response.headers.get("Retry-After"), content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._broken(error) from None

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def _wire_url(self) -> str:
        host = self._parts.netloc.rpartition("@")[2]
        path = self._parts.path.rstrip("/") + "/chat/completions"
        return urlunsplit((self._parts.scheme, host, path, self._parts.query, ""))

    def _open_session(self) -> aiohttp.ClientSession:
        """The session; made at the first call, for it belongs to the running loop."""
        import aiohttp

        if self._session is None or self._session.closed:
            timeout = aiohttp.ClientTimeout(
                total=self._timeouts["total_s"],
                sock_connect=self._timeouts["connect_s"],
                sock_read=self._timeouts["read_s"],
            )
            self._session = aiohttp.ClientSession(
                headers=self._wire_headers(),
                timeout=timeout,
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _wire_headers(self) -> dict[str, str]:
        """Headers of every request; what must not be shown is remembered for redaction."""
        headers = {**self._headers, "Content-Type": "application/json"}
        token = ""
        if self._api_key_env is not None:
            token = self._read_key(self._api_key_env)
            headers["Authorization"] = f"Bearer {token}"
        elif self._parts.username is not None:
            pair = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
            token = b64encode(pair.encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        self._secrets = (*([token] if token else []), *_url_secrets(self._parts))
        return headers

    def _read_key(self, variable: str) -> str:
        key = os.environ.get(variable, "").strip()
        if not key:
            raise EndpointError(
                f"{self._shown_url}: no API key; set the environment variable {variable} "
                "(api_key_env: null where the endpoint wants none)"
            )
        if not (key.isascii() and key.isprintable()):
            raise EndpointError(f"{self._shown_url}: the key in {variable} holds characters that no header may hold")
        return key

    def _read(self, status: int, retry_after: str | None, content: bytes) -> Reply:
        body = _decode(content)
        error = body.get("error") if isinstance(body, dict) else None
        if 200 <= status < 300:  # noqa: PLR2004 - a success, in HTTP's own numbers
            if not error or "choices" in body:
                return self._redact_reply(read_reply(body))
            if isinstance(error, dict) and error.get("code") in range(400, 600):
                status = error["code"]
        return self._failure(status, retry_after, _error_words(body, content))

    def _failure(self, status: int, retry_after: str | None, words: tuple[str, str]) -> Reply:
        """The reply that a refused request amounts to, or the error that it is."""
        label, message = words
        detail = f"{self._shown_url}: HTTP {status}: {self._short(message or label) or 'no error text'}"
        finish = _finish_of(label, message)
        if _kind_of(status) == "bad_request" and finish is not None:
            return Reply("", "", finish, Usage())
        if _kind_of(status) == "fatal":
            detail = f"{detail}; {self._what_to_set(status)}"
        raise TransportError(_kind_of(status), detail, retry_after=read_retry_after(retry_after), status=status)

    def _what_to_set(self, status: int) -> str:
        match status:
            case 404:
                return "check base_url (it usually ends in /v1) and the agent's model name"
            case 300 | 301 | 302 | 303 | 307 | 308:
                return "it is a redirect; set base_url to where it leads"
            case 402:
                return "top up the account, or choose another endpoint"
            case _ if self._api_key_env is None:
                return "set api_key_env to the environment variable that holds the key"
            case _:
                return f"check the key in the environment variable {self._api_key_env}"

    def _broken(self, error: Exception) -> TransportError:
        """An attempt that ended without a complete HTTP answer."""
        import aiohttp

        detail = f"{self._shown_url}: {type(error).__name__}: {self._short(str(error))}"
        if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)):
            return TransportError("connection", detail, refused=True)
        if isinstance(error, TimeoutError):
            return TransportError("timeout", detail)
        return TransportError("connection", detail)

    def _short(self, text: str) -> str:
        """Provider text for an error line; cut after it was redacted, lest half a key is left."""
        return self._redact(text)[:_DETAIL_CHARS]

    def _redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _redact_reply(self, reply: Reply) -> Reply:
        """A reply without our secrets, should an endpoint echo what it was sent."""
        told = [secret for secret in self._secrets if len(secret) >= _SECRET_CHARS]
        if not any(secret in reply.text or secret in reply.reasoning for secret in told):
            return reply
        return Reply(self._redact(reply.text), self._redact(reply.reasoning), reply.finish_reason, reply.usage)


def _split_url(base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigError("base_url must look like https://HOST/v1 (it is not shown, for it may hold a secret)")
    return parts


def stable_url(base_url: str) -> str:
    """`base_url` without user info, query, fragment and closing slash: the same on every machine, and no secret."""
    parts = _split_url(base_url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2].lower(), parts.path.rstrip("/"), "", ""))


def _url_secrets(parts: SplitResult) -> tuple[str, ...]:
    """What must not be shown of a URL, as it stands there and decoded; a user's name may be a token too."""
    others = [parts.username or "", *(value for _, value in parse_qsl(parts.query))]
    values = [parts.password or "", *(value for value in others if len(value) >= _SECRET_CHARS)]
    raw = [piece.partition("=")[2] for piece in parts.query.split("&")]
    forms = (lambda text: text, unquote, quote, partial(quote, safe=""))
    both = [form(value) for value in (*values, *raw) if value for form in forms]
    return tuple(dict.fromkeys(both))


def _plain_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, unless one of them is by its name for a secret."""
    for name in headers:
        if _SECRET_HEADER.search(name):
            raise ConfigError(f"headers: {name} is a secret and must not stand in a config; use api_key_env")
    return dict(headers)


async def _read_capped(response: aiohttp.ClientResponse) -> bytes:
    """The body, given up when it is longer than any answer."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise TransportError("malformed", f"body of more than {MAX_BODY_BYTES} bytes", status=response.status)
    return bytes(content)


def _decode(content: bytes) -> Any:
    """The body as JSON; None when it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def read_reply(body: Any) -> Reply:
    """The answer in a decoded body of status 200, read as the module says.

    Raises:
        TransportError: malformed.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
        reasoning = _text(message.get("reasoning_content") or message.get("reasoning"))
        refusal = message.get("refusal")
        finish = _FINISH[choice.get("finish_reason")]
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise TransportError("malformed", f"no complete chat completion ({type(error).__name__})", status=200) from None
    if refusal and not text:
        finish = "content_filter"
    return Reply(text, reasoning, finish, read_usage(body.get("usage")))


def _text(content: Any) -> str:
    """Text of a content field; lone surrogates, which no file can hold, become U+FFFD."""
    if content is None:
        return ""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError
    return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not content.isascii() else content


def read_usage(usage: Any) -> Usage | None:
    """Tokens as the module says; None when prompt or completion tokens are not reported."""
    if not isinstance(usage, dict):
        return None
    given, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if given is None or written is None:
        return None
    hidden = _count(usage.get("completion_tokens_details"), "reasoning_tokens") or 0
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens") or 0
    on_top = hidden > written or (hidden > 0 and _count(usage, "total_tokens") == given + written + hidden)
    return Usage(given, written if on_top else written - hidden, hidden, min(cached, given))


def _count(holder: Any, key: str) -> int | None:
    value = holder.get(key) if isinstance(holder, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _ABSURD_TOKENS else None


def _error_words(body: Any, content: bytes) -> tuple[str, str]:
    """Code and type of a provider's error, and its message."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(error, str):
        return "", error
    if not isinstance(error, dict):
        return "", content.decode("utf-8", "replace")
    inner = error.get("innererror")
    codes = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, dict) else None]
    label = " ".join(str(code) for code in codes if code)
    return label, str(error.get("message") or error.get("detail") or "")


def _finish_of(label: str, message: str) -> FinishReason | None:
    """`context` or `content_filter` where a refused request was one."""
    label, message = label[:_DETAIL_CHARS].lower(), message[:_DETAIL_CHARS].lower()
    if any(code in label for code in _CONTEXT_CODES) or any(text in message for text in _CONTEXT_TEXTS):
        return "context"
    if any(code in label for code in _FILTER_CODES) or any(text in message for text in _FILTER_TEXTS):
        return "content_filter"
    return None


def _kind_of(status: int) -> ErrorKind:
    """How an HTTP status other than success fails."""
    if status in _KINDS:
        return _KINDS[status]
    return _KINDS_OF_HUNDRED.get(status // 100, "malformed")


def read_retry_after(value: str | None) -> float | None:
    """Seconds from a Retry-After header, which holds seconds or a date; None when it holds neither."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
