"""Any OpenAI-compatible endpoint, spoken to over HTTP; `openai_body` reads what it answers."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlunsplit

from trinity.errors import ConfigError, EndpointError
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.connections import connector
from trinity.llm.transports.openai_body import decode, read_refusal, read_reply, read_retry_after
from trinity.llm.transports.redaction import Redactor, split_url, stable_url, url_secrets
from trinity.types import PoolKind, Usage

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

MAX_BODY_BYTES = 16 * 2**20
"""A longer body is no answer; it would only fill the memory."""

REQUEST_ID = "X-Client-Request-Id"
"""Carries the request hash: OpenAI keeps it for tracing, others ignore it, and a server's log can be joined to ours."""

_CHUNK_BYTES = 2**16
_DETAIL_CHARS = 300
_EXCERPT_CHARS = 80
_SECRET_HEADER = re.compile("key|token|secret|auth|cookie", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VARIABLE = re.compile("[A-Z_][A-Z0-9_]*")
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class _Wire(NamedTuple):
    """What belongs to a running loop: the session and where it sends to."""

    session: aiohttp.ClientSession
    url: URL


class OpenAIHTTP:
    """`POST {base_url}/chat/completions`, one attempt a call, over one session without a connection limit of its own.

    Secrets come from the environment at the first call and appear nowhere else: the key from the variable
    `api_key_env`, sent as a bearer token, and from `header_env` (`{api-key: AZURE_OPENAI_KEY}`) the values of other
    headers. User info and query of `base_url` go on the wire only. `headers` are for what is no secret, judged by
    their names.

    Timeouts are in seconds: `connect` to a connection (name, TCP and TLS), `read` between two pieces of the answer,
    `total` for the whole attempt. An answer comes in one piece when the model has ended, so `read` bounds how long a
    model may think: an attempt that is given up earlier is paid all the same.
    """

    kind: PoolKind = "live"

    def __init__(  # noqa: PLR0913 - one keyword a setting of the endpoint
        self,
        base_url: str,
        *,
        api_key_env: str | None = None,
        header_env: Mapping[str, str] | None = None,
        endpoint_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        connect_timeout_s: float = 10,
        read_timeout_s: float = 600,
        total_timeout_s: float = 600,
        send_seed: bool = True,
    ) -> None:
        self._parts = split_url(base_url)
        self._shown_url = stable_url(base_url)
        self._endpoint_id = endpoint_id or self._shown_url
        self._api_key_env = api_key_env
        self._header_env = {name: str(variable) for name, variable in (header_env or {}).items()}
        self._headers = {name: str(value) for name, value in (headers or {}).items()}
        timeouts = {"connect": connect_timeout_s, "read": read_timeout_s, "total": total_timeout_s}
        self._timeouts = {f"{name}_s": _seconds(f"{name}_timeout_s", value) for name, value in timeouts.items()}
        self._send_seed = send_seed
        self._wire: _Wire | None = None
        self._redact = Redactor(url_secrets(self._parts))
        self._check_names()

    @property
    def endpoint_id(self) -> str:
        """As configured; by default the base URL without user info and query."""
        return self._endpoint_id

    def settings(self) -> dict[str, Any]:
        """URL without secrets, the names of the secrets' variables, timeouts."""
        return {
            "engine": "openai_http",
            "url": self._shown_url,
            "api_key_env": self._api_key_env,
            "header_env": dict(self._header_env),
            "send_seed": self._send_seed,
            "timeouts": dict(self._timeouts),
        }

    async def send(self, request: Request, seed: int) -> Reply:
        """One attempt.

        Raises:
            TransportError: it failed; credentials and URL are kind `fatal`.
            EndpointError: the environment variable of a key is not set.
        """
        import aiohttp

        session, url = self._wire or self._open()
        data, headers = self._body(request, seed), {REQUEST_ID: request.hash}
        try:
            async with session.post(url, data=data, headers=headers, allow_redirects=False) as response:
                content = await self._read_capped(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            broken = self._broken(error)
        else:
            return self._read(response.status, response.headers.get("Retry-After"), content)
        # Not in the handler: aiohttp's exceptions hold the whole URL, and none of them may become this one's context.
        raise broken

    async def close(self) -> None:
        """Close the connections."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.session.close()

    def _check_names(self) -> None:
        """Refuse a secret where only a name may stand, without showing it."""
        for name in self._headers:
            if _SECRET_HEADER.search(name):
                told = "is a secret and must not stand in a config; use api_key_env or header_env"
                raise ConfigError(f"headers: {name} {told}")
        variables = {"Authorization": self._api_key_env} if self._api_key_env is not None else {}
        names = [*self._headers, *self._header_env, *variables]
        if len({name.lower() for name in names}) < len(names):
            raise ConfigError("headers, header_env and api_key_env set one header twice; drop one of them")
        if not all(_HEADER_NAME.fullmatch(name) for name in names):
            raise ConfigError("headers, header_env: a header's name holds letters, digits and hyphens only")
        if not all("\n" not in value and "\r" not in value for value in self._headers.values()):
            raise ConfigError("headers: a header's value is one line")
        for name, variable in {**self._header_env, **variables}.items():
            if not _VARIABLE.fullmatch(variable):
                where = "api_key_env" if name in variables else f"header_env: {name}"
                told = "must be the name of an environment variable, in capitals, that holds the key"
                raise ConfigError(f"{where} {told} (what stands there is not shown, for it may be the key)")

    def _body(self, request: Request, seed: int) -> bytes:
        body: dict[str, Any] = {"model": request.model, "messages": request.messages}
        body |= {**request.sampling, **request.extra_body}
        if self._send_seed:
            body["seed"] = seed
        return _ENCODER.encode(body).encode()

    def _open(self) -> _Wire:
        """The session; made at the first call, for it belongs to the running loop."""
        import aiohttp
        from yarl import URL

        host = self._parts.netloc.rpartition("@")[2]
        path = self._parts.path.rstrip("/") + "/chat/completions"
        connect, read, total = self._timeouts.values()
        session = aiohttp.ClientSession(
            headers=self._wire_headers(),
            # Where `total` always comes first, `read` would only cost every call a timer.
            timeout=aiohttp.ClientTimeout(total, connect=connect, sock_read=read if read < total else None),
            connector=connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._wire = _Wire(session, URL(urlunsplit((self._parts.scheme, host, path, self._parts.query, ""))))
        return self._wire

    def _wire_headers(self) -> dict[str, str]:
        """Headers of every request; what must not be shown is remembered for redaction."""
        secret = {name: self._from_environment(variable) for name, variable in self._header_env.items()}
        tokens = list(secret.values())
        if self._api_key_env is not None:
            tokens.append(self._from_environment(self._api_key_env))
            secret["Authorization"] = f"Bearer {tokens[-1]}"
        elif self._parts.username is not None and "authorization" not in {name.lower() for name in secret}:
            pair = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
            tokens.append(b64encode(pair.encode()).decode())
            secret["Authorization"] = f"Basic {tokens[-1]}"
        self._redact = Redactor([*tokens, *url_secrets(self._parts)])
        # Compressed answers would cost both sides more time than their bytes do.
        return {"Accept-Encoding": "identity", **self._headers, **secret, "Content-Type": "application/json"}

    def _from_environment(self, variable: str) -> str:
        key = os.environ.get(variable, "").strip()
        if not key:
            raise EndpointError(
                f"{self._shown_url}: no API key; set the environment variable {variable} "
                "(api_key_env: null where the endpoint wants none)"
            )
        if not (key.isascii() and key.isprintable()):
            raise EndpointError(f"{self._shown_url}: the key in {variable} holds characters that no header may hold")
        return key

    async def _read_capped(self, response: aiohttp.ClientResponse) -> bytes:
        """The body, given up when it is longer than any answer."""
        headers = response.headers
        if not ("Content-Encoding" in headers or "Transfer-Encoding" in headers):
            length = response.content_length
            if length is not None and length <= MAX_BODY_BYTES:
                return await response.read()
        content = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            content += chunk
            if len(content) > MAX_BODY_BYTES:
                detail = f"{self._shown_url}: body of more than {MAX_BODY_BYTES} bytes"
                raise TransportError("malformed", detail, status=response.status)
        return bytes(content)

    def _read(self, status: int, retry_after: str | None, content: bytes) -> Reply:
        """The answer in a body, or the reply that a refused request amounts to.

        Raises:
            TransportError: there is none.
        """
        body = decode(content)
        refused = read_refusal(status, body, content)
        if refused is None:
            return self._answer(body, content, status)
        if refused.finish is not None:
            return Reply("", "", refused.finish, Usage())
        detail = f"{self._shown_url}: HTTP {refused.status}: {self._short(refused.words) or 'no error text'}"
        if refused.kind == "fatal":
            detail = f"{detail}; {self._what_to_set(refused.status)}"
        raise TransportError(refused.kind, detail, retry_after=read_retry_after(retry_after), status=refused.status)

    def _answer(self, body: Any, content: bytes, status: int) -> Reply:
        if body is None:
            shown = self._short(content[:_CHUNK_BYTES].decode("utf-8", "replace"))[:_EXCERPT_CHARS]
            raise TransportError("malformed", f"{self._shown_url}: no JSON but {shown!r}", status=status)
        try:
            reply = read_reply(body)
        except TransportError as error:
            raise TransportError(error.kind, f"{self._shown_url}: {self._short(str(error))}", status=status) from None
        text, reasoning = self._redact.answer(reply.text), self._redact.answer(reply.reasoning)
        return Reply(text, reasoning, reply.finish_reason, reply.usage)

    def _what_to_set(self, status: int) -> str:
        variables = [name for name in (self._api_key_env, *self._header_env.values()) if name]
        match status:
            case 404:
                return "check base_url (it usually ends in /v1) and the agent's model name"
            case 402:
                return "top up the account, or choose another endpoint"
            case 401 | 403 if not variables:
                return "set api_key_env to the environment variable that holds the key"
            case 401 | 403:
                return f"check the key in the environment variable {' or '.join(variables)}"
            case _:
                return "it is a redirect; set base_url to where it leads"

    def _broken(self, error: Exception) -> TransportError:
        """An attempt that ended without a complete HTTP answer."""
        import aiohttp

        told = self._short(str(error)) or f"no complete answer within {self._timeouts['total_s']} s"
        detail = f"{self._shown_url}: {type(error).__name__}: {told}"
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return TransportError("connection", f"{detail}; lower `concurrency`, or raise the limit of `ulimit -n`")
        if isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)):
            return TransportError("connection", detail, refused=True)
        if isinstance(error, TimeoutError):
            return TransportError("timeout", detail)
        if isinstance(error, aiohttp.ClientResponseError):
            return TransportError("malformed", detail)
        return TransportError("connection", detail)

    def _short(self, text: str) -> str:
        """Provider text for an error line; cut after it was redacted, lest half a key is left."""
        return self._redact.line(text)[:_DETAIL_CHARS]


def _seconds(name: str, value: Any) -> float:
    """A time limit as it must be."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ConfigError(f"{name} is {value!r}; it must be a number of seconds above 0")
    return value
