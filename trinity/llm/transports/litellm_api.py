"""Any provider that litellm knows and that does not speak OpenAI's language: Anthropic, Gemini, Bedrock, Ollama, ...

How an answer is read
    litellm turns a provider's answer into OpenAI's form, which `openai_body` reads. What litellm gets wrong is put
    right from the answer as the provider sent it:
    input           includes what came from a cache and, at Anthropic, what was written to one
    reasoning       hidden tokens where the provider counts them (Gemini `thoughtsTokenCount`, DeepSeek, OpenRouter,
                    Anthropic `thinking_tokens`); litellm's own guess from the text (Anthropic, Bedrock) is dropped, and
                    they count as output, at the same weight, as they do at Ollama and vLLM. Where litellm loses the
                    count (Gemini's refusals) it is what the total has beyond prompt and answer
    finish reason   a reason that litellm reads as `stop` because it knows no better (abort, error, load,
                    insufficient_system_resource, ...) is no complete answer: malformed
    no usage        None, and the client estimates: litellm says 0, or counts itself (Ollama) without saying so; where
                    one of Ollama's two counts is missing, the usage is marked as estimated

How a failure is read
    By the provider's own HTTP answer, as `openai_body` says, and not by litellm's exception: that has lost Retry-After
    and turns 413, 529 and others into something else. Three things are left to litellm, which knows the providers'
    words: a prompt that is too long, a filter, and a wrong key (Gemini answers it with 400). What litellm refuses
    before anything is sent (an unknown provider, a parameter that the provider does not take, no key) is fatal.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.metadata
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from trinity.errors import ConfigError, EndpointError
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.common import (
    CONNECT_S,
    READ_S,
    TOTAL_S,
    check_variable,
    detail,
    limits,
    read_key,
    what_to_set,
)
from trinity.llm.transports.openai_body import Refused, decode, read_refusal, read_reply, read_retry_after
from trinity.llm.transports.redaction import Redactor, split_url, stable_url, url_secrets
from trinity.secrets import NAME, in_environment
from trinity.types import FinishReason, PoolKind, Usage

_OURS = frozenset({"api_key", "api_base", "base_url", "timeout", "extra_headers", "deployment_id", "drop_params"})
_WHERE = re.compile(
    r"api_version|organization|project_id|region_name|space_id|tenant_id|(aws|azure|vertex|watsonx)_\w+"
)
"""Arguments that say where, and as whose guest, an endpoint is asked: they alone need not be a part of the request."""
_REASONING_COUNTS = frozenset(
    {"reasoning_tokens", "thinking_tokens", "thoughtsTokenCount", "thoughts_token_count", "reasoningTokens"}
)
_INCOMPLETE = frozenset(
    {
        *("abort", "aborted", "cancelled", "error", "insufficient_system_resource", "load", "unload"),
        *("malformed_function_call", "unexpected_tool_call", "tool_use_failed"),
    }
)
"""Reasons for an end that is none."""

ITS_WARNING = "Items? .* using the `ReadOnly` qualifier"
"""What pydantic says of litellm's types at the first call of some providers; nobody here can do anything about it."""

_BAD_KEY = 401
_CLIENT_ERRORS = range(400, 500)
_TRY_AGAIN = frozenset({408, 409, 429})


class LiteLLM:
    """`litellm.acompletion`, one attempt a call; litellm's own retries, caches, callbacks and logs are off.

    An agent's model has its provider in front, as litellm's documentation writes it (`anthropic/claude-sonnet-4-6`).
    `sampling` and `extra_body` become litellm's arguments, which hands what it does not know on to the provider;
    arguments that steer litellm itself are refused there. `options` are further arguments for the whole endpoint that
    are no secret and say where it is (`api_version`, `aws_region_name`, `vertex_project`); they are no part of the
    request hash, so that what shapes an answer is refused there. The key is read from the environment variable
    `api_key_env` at the first call; without one litellm looks for the provider's own variables.

    `send_seed` is off because many providers refuse seeds, `drop_params` because a parameter that is silently dropped
    is one that was never measured. Timeouts are in seconds, as in `OpenAIHTTP`. litellm works in a thread of its own,
    for it takes seconds to load and sometimes makes blocking calls.
    """

    kind: PoolKind = "live"

    def __init__(  # noqa: PLR0913 - one keyword a setting of the endpoint
        self,
        *,
        api_base: str | None = None,
        api_key_env: str | None = None,
        endpoint_id: str | None = None,
        options: Mapping[str, Any] | None = None,
        connect_timeout_s: float = CONNECT_S,
        read_timeout_s: float = READ_S,
        total_timeout_s: float = TOTAL_S,
        send_seed: bool = False,
        drop_params: bool = False,
    ) -> None:
        self._api_base = api_base
        parts = None if api_base is None else split_url(api_base, "api_base", "options")
        self._shown_url = None if parts is None else stable_url(parts)
        self._endpoint_id = endpoint_id or ("litellm" if api_base is None else f"litellm:{self._shown_url}")
        self._api_key_env = api_key_env
        self._options = dict(options or {})
        self._timeouts = limits(connect_timeout_s, read_timeout_s, total_timeout_s)
        self._send_seed = send_seed
        self._drop_params = drop_params
        self._check_names()
        self._key: str | None = None
        self._ready = False
        self._url_secrets = [] if parts is None else url_secrets(parts)
        self._redact = Redactor(self._url_secrets)
        self._own = self._redact

    @property
    def endpoint_id(self) -> str:
        """As configured; by default `litellm:` and the base URL without user info, or just `litellm`."""
        return self._endpoint_id

    def settings(self) -> dict[str, Any]:
        """Version of litellm, URL without secrets, the name of the key's variable, what is sent, timeouts."""
        return {
            "engine": "litellm",
            "engine_version": importlib.metadata.version("litellm"),
            "url": self._shown_url,
            "api_key_env": self._api_key_env,
            "options": dict(self._options),
            "send_seed": self._send_seed,
            "drop_params": self._drop_params,
            "timeouts": dict(self._timeouts),
        }

    async def send(self, request: Request, seed: int) -> Reply:
        """One attempt.

        Raises:
            TransportError: it failed; credentials, model name and refused parameters are kind `fatal`.
            EndpointError: the environment variable of the key is not set, or an argument would steer litellm.
        """
        if not self._ready:
            self._get_ready()
        return await _WORKSHOP.run(functools.partial(self._attempt, request, seed))

    async def close(self) -> None:
        """Let go of litellm's thread and connections, if no other transport uses them; a later call starts anew."""
        if self._ready:
            self._ready = False
            await asyncio.to_thread(_WORKSHOP.leave)

    def _check_names(self) -> None:
        if self._api_key_env is not None:
            check_variable("api_key_env", self._api_key_env)
        for name in self._options:
            if name in _OURS:
                raise ConfigError(f"options: {name} has a setting of its own")
            if not _WHERE.fullmatch(name):
                raise ConfigError(
                    f"options: {name} does not say where the endpoint is; what shapes an answer stands under an "
                    "agent's sampling or extra_body, which answers are stored by"
                )
            if NAME.search(name):
                raise ConfigError(f"options: {name} is a secret and must not stand in a config; use api_key_env")

    def _get_ready(self) -> None:
        """Read the key and learn what must not be shown."""
        if self._api_key_env is not None:
            self._key = read_key(self._endpoint_id, self._api_key_env)
        own = [*self._url_secrets, *([self._key] if self._key else [])]
        self._own, self._redact = Redactor(own), Redactor([*own, *in_environment()])
        _WORKSHOP.join()
        self._ready = True

    def _arguments(self, request: Request, seed: int) -> dict[str, Any]:
        """What litellm is called with; our own word is the last."""
        ours = {"api_base": self._api_base, "api_key": self._key, "seed": seed if self._send_seed else None}
        return {
            **self._options,
            **request.sampling,
            **request.extra_body,
            **{name: value for name, value in ours.items() if value is not None},
            "model": request.model,
            "messages": [dict(message) for message in request.messages],
            "drop_params": self._drop_params,
            "num_retries": 0,
            "max_retries": 0,
            "no-log": True,
        }

    async def _attempt(self, request: Request, seed: int) -> Reply:
        """One attempt, in litellm's thread.

        Raises:
            TransportError: it failed.
            EndpointError: an argument would steer litellm.
        """
        litellm, httpx = load_litellm(), importlib.import_module("httpx")
        self._refuse_steering([*request.sampling, *request.extra_body])
        exchange, arguments = _Exchange(), self._arguments(request, seed)
        timeout = httpx.Timeout(self._timeouts["read_s"], connect=self._timeouts["connect_s"])
        try:
            async with asyncio.timeout(self._timeouts["total_s"]):
                response = await litellm.acompletion(**arguments, timeout=timeout, logger_fn=exchange.note)
        except Exception as error:  # noqa: BLE001 - whatever litellm raises is a failed attempt
            failed = self._failure(error, exchange)
        else:
            return self._answer(response.model_dump(warnings=False), exchange.body)
        # Not in the handler: litellm's exceptions hold URLs and keys, and none of them may become this one's context.
        if isinstance(failed, TransportError):
            raise failed
        return failed

    def _refuse_steering(self, names: Iterable[str]) -> None:
        """Arguments that litellm keeps for itself: they would never be sent, or fake an answer (`mock_response`)."""
        for name in names:
            if name in _OURS or name in _steering() or name.startswith(("mock_", "litellm_")):
                raise EndpointError(
                    f"{self._endpoint_id}: `{name}` in sampling or extra_body steers litellm and is not sent; remove it"
                )

    def _answer(self, body: dict[str, Any], raw: Any) -> Reply:
        """The answer that litellm made of `raw`, put right."""
        reason = _native_reason(body, raw)
        if reason in _INCOMPLETE:
            raise TransportError(
                "malformed", f"{self._endpoint_id}: no complete answer: finish reason {reason}", status=200
            )
        usage, estimated = _mended(body.get("usage"), raw)
        try:
            reply = read_reply({**body, "usage": usage})
        except TransportError as error:
            detail = f"{self._endpoint_id}: {self._short(str(error))}"
            raise TransportError(error.kind, detail, status=error.status) from None
        counted = reply.usage
        if counted is not None and estimated:
            counted = Usage(counted.input_tokens, counted.output_tokens, counted.reasoning_tokens, 0, estimated=True)
        return Reply(self._own.answer(reply.text), self._own.answer(reply.reasoning), reply.finish_reason, counted)

    def _failure(self, error: Exception, exchange: _Exchange) -> Reply | TransportError:
        """The reply that a refused request amounts to, or the error that it is."""
        chain = list(_chain(error))
        response = _response_in(chain)
        if response is not None:
            content = _content(response)
            refused = read_refusal(response.status_code, decode(content), content)
            if refused is not None:
                headers = response.headers
                retry_after = read_retry_after(headers.get("Retry-After"), headers.get("Date"))
                return self._refusal(refused, error, retry_after)
        broken = self._broken(chain)
        if broken is not None:
            return broken
        if exchange.sent:
            refused = read_refusal(200, exchange.body, b"")
            if refused is not None and refused.status != 200:  # noqa: PLR2004 - an error within a success
                return self._refusal(refused, error, None)
            return TransportError("malformed", self._told("no complete answer", error), status=200)
        return self._never_sent(error, chain)

    def _refusal(self, refused: Refused, error: Exception, retry_after: float | None) -> Reply | TransportError:
        kind, status, finish = refused.kind, refused.status, refused.finish
        if kind == "bad_request" and finish is None:
            finish = _finish_by_class(error)
            if isinstance(error, load_litellm().AuthenticationError):
                kind, status = "fatal", _BAD_KEY
        if finish is not None:
            return Reply("", "", finish, Usage())
        detail = f"{self._endpoint_id}: HTTP {refused.status}: {self._short(refused.words) or 'no error text'}"
        if kind == "fatal":
            detail = f"{detail}; {self._what_to_set(status)}"
        return TransportError(kind, detail, retry_after=retry_after, status=refused.status)

    def _broken(self, chain: list[BaseException]) -> TransportError | None:
        """An attempt that ended without a complete HTTP answer."""
        httpx, litellm = importlib.import_module("httpx"), load_litellm()
        unreached = _first(chain, httpx.ConnectError, httpx.ConnectTimeout)
        if unreached is not None:
            return TransportError("connection", self._told("no connection", unreached), refused=True)
        late = _first(chain, TimeoutError, httpx.TimeoutException, litellm.Timeout)
        if late is not None:
            return TransportError("timeout", self._told("no answer in time", late))
        broken = _first(chain, httpx.TransportError)
        return None if broken is None else TransportError("connection", self._told("the connection broke", broken))

    def _never_sent(self, error: Exception, chain: list[BaseException]) -> TransportError:
        """An attempt that litellm gave up before it asked anybody."""
        status = getattr(error, "status_code", None)
        hopeless = status in _CLIENT_ERRORS and status not in _TRY_AGAIN
        if not hopeless and _first(chain, ImportError) is None:
            return TransportError("connection", self._told("litellm failed before it asked", error))
        told = self._told("litellm does not send this", error)
        if isinstance(error, load_litellm().UnsupportedParamsError):
            told = f"{told}; remove the parameter (`send_seed: false` for seed), or drop_params: true leaves it out"
        elif status in (401, 403):
            told = f"{told}; {self._what_to_set(status)}"
        return TransportError("fatal", told)

    def _what_to_set(self, status: int) -> str:
        not_found = "check the agent's model name (provider/model) and api_base"
        return what_to_set(status, "api_base", not_found, [self._api_key_env] if self._api_key_env else [])

    def _told(self, what: str, error: BaseException) -> str:
        """An error line: litellm's texts end in advice for its own settings or in a traceback."""
        text = re.split(r"Traceback \(most|To drop these|Handle with", str(error), maxsplit=1)[0]
        return f"{self._endpoint_id}: {what}: {type(error).__name__}: {self._short(text)}"

    def _short(self, text: str) -> str:
        return detail(text, self._redact)


class _Exchange:
    """What litellm tells of one call through its `logger_fn`: that it sends, and what came back."""

    def __init__(self) -> None:
        self.sent = False
        self._raw: Any = None

    def note(self, details: Mapping[str, Any]) -> None:
        """Called by litellm before it sends and after it received; the details hold the key and are not kept."""
        self.sent = self.sent or details.get("log_event_type") == "pre_api_call"
        said = details.get("original_response")
        if isinstance(said, (str, bytes)):
            self._raw = said

    @functools.cached_property
    def body(self) -> Any:
        """The provider's own answer, decoded; None where there is none or it is no JSON."""
        raw = self._raw.encode("utf-8", "replace") if isinstance(self._raw, str) else self._raw
        return None if raw is None else decode(raw)


class _Workshop:
    """A thread with an event loop of its own in which litellm works for all transports of the process.

    litellm keeps its connections in one cache for all, so the last transport that leaves closes them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def join(self) -> None:
        """Come in; the first one starts the thread."""
        with self._lock:
            self._users += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="litellm", daemon=True)
                self._thread.start()

    async def run(self, attempt: Callable[[], Coroutine[Any, Any, Reply]]) -> Reply:
        """The result of `attempt`, which runs in the thread; a cancelled waiter cancels it."""
        loop = self._loop
        if loop is None:
            raise TransportError("connection", "litellm was closed while it was asked")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(attempt(), loop))

    def leave(self) -> None:
        """Go; the last one closes connections and ends the thread. Blocks until that is done."""
        with self._lock:
            self._users -= 1
            if self._users or self._loop is None or self._thread is None:
                return
            loop, self._loop = self._loop, None
            asyncio.run_coroutine_threadsafe(_tidy(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


_WORKSHOP = _Workshop()


async def _tidy() -> None:
    """End what litellm left running in the background and close its connections."""
    if load_litellm.cache_info().currsize:
        await load_litellm().close_litellm_async_clients()
        load_litellm().in_memory_llm_clients_cache.flush_cache()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


@functools.cache
def load_litellm() -> Any:
    """The module litellm, imported without a look at the network and made silent: its logs hold prompts and keys."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    warnings.filterwarnings("ignore", ITS_WARNING)
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.cache = None
    for callbacks in ("callbacks", "input_callback", "success_callback", "failure_callback"):
        setattr(litellm, callbacks, [])
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).disabled = True
    _stay_where_asked()
    return litellm


def _stay_where_asked() -> None:
    """Let no client of litellm follow a redirect: of all key headers httpx leaves only `Authorization` behind."""
    handlers = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    common = importlib.import_module("litellm.llms.openai.common_utils")
    never = property(lambda _: False, lambda *_: None)
    for kind in (
        handlers.AsyncHTTPHandler,
        handlers.HTTPHandler,
        common.OpenAIAsyncHTTPClient,
        common.OpenAIHTTPClient,
    ):
        kind.follow_redirects = never
    for name in ("_get_async_http_client", "_get_sync_http_client"):
        make = getattr(common.BaseOpenAILLM, name)
        setattr(common.BaseOpenAILLM, name, staticmethod(functools.partial(_staying, make)))


def _staying(make: Callable[..., Any], *args: Any, **settings: Any) -> Any:
    """The client that `make` makes, which stays where it asked."""
    client = make(*args, **settings)
    if client is not None:
        client.follow_redirects = False
    return client


@functools.cache
def _steering() -> frozenset[str]:
    """Arguments that litellm keeps for itself, but for the one that lets others pass."""
    names = importlib.import_module("litellm.types.utils").all_litellm_params
    return frozenset(names) - {"allowed_openai_params"}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what it came from, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _first(chain: Sequence[BaseException], *kinds: type[BaseException]) -> Any:
    """The innermost exception of some kinds, for the cause says more than what litellm made of it; None: no such."""
    return next((error for error in reversed(chain) if isinstance(error, kinds)), None)


def _response_in(chain: Sequence[BaseException]) -> Any:
    """The provider's own HTTP answer, if there was one; litellm's exceptions hold others, which it made up."""
    error = _first(chain, importlib.import_module("httpx").HTTPStatusError)
    return None if error is None else error.response


def _content(response: Any) -> bytes:
    httpx = importlib.import_module("httpx")
    with suppress(httpx.StreamError):
        return bytes(response.content)
    return b""


def _finish_by_class(error: Exception) -> FinishReason | None:
    litellm = load_litellm()
    if isinstance(error, litellm.ContextWindowExceededError):
        return "context"
    return "content_filter" if isinstance(error, litellm.ContentPolicyViolationError) else None


def _native_reason(body: Mapping[str, Any], raw: Any) -> str:
    """The provider's own word for why an answer ended, in lower case; empty where it is not known."""
    choices = body.get("choices") or [{}]
    fields = choices[0].get("provider_specific_fields") or {}
    own = raw.get("done_reason") if isinstance(raw, dict) else None
    return str(fields.get("native_finish_reason") or own or "").lower()


def _mended(usage: Any, raw: Any) -> tuple[dict[str, Any] | None, bool]:
    """Usage as litellm tells it without what it made up, and whether it counted some of it itself."""
    if not isinstance(usage, dict) or not (usage.get("prompt_tokens") or usage.get("completion_tokens")):
        return None, False
    if not isinstance(raw, dict):
        return usage, False
    if "done_reason" in raw or "eval_count" in raw:  # Ollama
        counts = [key for key in ("prompt_eval_count", "eval_count") if key in raw]
        return (usage if counts else None), len(counts) == 1
    if not _names(raw) & _REASONING_COUNTS:
        usage = {**usage, "completion_tokens_details": None}
    return usage, False


def _names(value: Any) -> set[str]:
    names: set[str] = set()
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            names |= one.keys()
            left += one.values()
        elif isinstance(one, list):
            left += one
    return names
