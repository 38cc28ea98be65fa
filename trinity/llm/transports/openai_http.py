"""Any OpenAI-compatible endpoint, spoken to over HTTP; `openai_body` reads what it answers."""

from __future__ import annotations

import errno
import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlunsplit

from trinity.errors import ConfigError
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
from trinity.llm.transports.connections import connector
from trinity.llm.transports.openai_body import decode, read_refusal, read_reply, read_retry_after
from trinity.llm.transports.redaction import Redactor, split_url, stable_url, url_secrets
from trinity.secrets import NAME
from trinity.types import PoolKind, Usage

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

MAX_BODY_BYTES = 16 * 2**20
"""A longer body is no answer; it would only fill the memory."""

REQUEST_ID = "X-Client-Request-Id"
"""Carries the request hash: OpenAI keeps it for tracing, others ignore it, and a server's log can be joined to ours."""

_CHUNK_BYTES = 2**16
_EXCERPT_CHARS = 80
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class _Wire(NamedTuple):
    """What belongs to a running loop: the session and where it sends to."""

    session: aiohttp.ClientSession
    url: URL


class OpenAIHTTP:
    """`POST {base_url}/chat/completions`, one attempt a call, over one session without a connection limit of its own.

    Secrets come from the environment at the first call and appear nowhere else: the key from the variable
    `api_key_env`, sent as a bearer token, and from `header_env` (`{api-key: AZURE_OPENAI_KEY}`) the values of other
    headers. `query` goes into every URL (`{api-version: "2024-10-21"}`), as do the values that `query_env` names the
    variables of. `headers` and `query` are for what is no secret, judged by their names. User info of `base_url` goes
    on the wire only.

    Timeouts are in seconds: `connect` to a connection (name, TCP and TLS), `read` between two pieces of the answer,
    `total` for the whole attempt. An answer comes in one piece when the model has ended, so the shorter one of the
    last two bounds how long a model may think: an attempt that is given up earlier is paid all the same.
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
        query: Mapping[str, str] | None = None,
        query_env: Mapping[str, str] | None = None,
        connect_timeout_s: float = CONNECT_S,
        read_timeout_s: float = READ_S,
        total_timeout_s: float = TOTAL_S,
        send_seed: bool = True,
    ) -> None:
        self._parts = split_url(base_url)
        self._shown_url = stable_url(self._parts)
        self._endpoint_id = endpoint_id or self._shown_url
        self._api_key_env = api_key_env
        self._header_env, self._headers = _texts(header_env), _texts(headers)
        self._query_env, self._query = _texts(query_env), _texts(query)
        self._timeouts = limits(connect_timeout_s, read_timeout_s, total_timeout_s)
        self._send_seed = send_seed
        self._wire: _Wire | None = None
        self._redact = Redactor(url_secrets(self._parts))
        self._check_names()

    @property
    def endpoint_id(self) -> str:
        """As configured; by default the base URL without user info."""
        return self._endpoint_id

    def settings(self) -> dict[str, Any]:
        """URL and query without secrets, the names of the secrets' variables, timeouts."""
        return {
            "engine": "openai_http",
            "url": self._shown_url,
            "api_key_env": self._api_key_env,
            "header_env": dict(self._header_env),
            "query": dict(self._query),
            "query_env": dict(self._query_env),
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
            told = response.headers
            retry_after = read_retry_after(told.get("Retry-After"), told.get("Date"))
            return self._read(response.status, retry_after, content)
        # Not in the handler: aiohttp's exceptions hold the whole URL, and none of them may become this one's context.
        raise broken

    async def close(self) -> None:
        """Close the connections."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.session.close()

    def _check_names(self) -> None:
        """Refuse a secret where only a name may stand, without showing it."""
        places = (("headers", self._headers, "api_key_env or header_env"), ("query", self._query, "query_env"))
        for setting, given, better in places:
            for name in filter(NAME.search, given):
                raise ConfigError(f"{setting}: {name} is a secret and must not stand in a config; use {better}")
        if self._query.keys() & self._query_env.keys():
            raise ConfigError("query and query_env set one parameter twice; drop one of them")
        self._check_headers()
        if self._api_key_env is not None:
            check_variable("api_key_env", self._api_key_env)
        for setting, variables in (("header_env", self._header_env), ("query_env", self._query_env)):
            for name, variable in variables.items():
                check_variable(f"{setting}: {name}", variable)

    def _check_headers(self) -> None:
        names = [*self._headers, *self._header_env, *(["Authorization"] if self._api_key_env is not None else [])]
        if len({name.lower() for name in names}) < len(names):
            raise ConfigError("headers, header_env and api_key_env set one header twice; drop one of them")
        if not all(_HEADER_NAME.fullmatch(name) for name in names):
            raise ConfigError("headers, header_env: a header's name holds letters, digits and hyphens only")
        if not all("\n" not in value and "\r" not in value for value in self._headers.values()):
            raise ConfigError("headers: a header's value is one line")

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

        headers, query = self._secrets()
        host = self._parts.netloc.rpartition("@")[2]
        path = self._parts.path.rstrip("/") + "/chat/completions"
        connect, read, total = self._timeouts.values()
        session = aiohttp.ClientSession(
            headers=headers,
            # Where `total` always comes first, `read` would only cost every call a timer.
            timeout=aiohttp.ClientTimeout(total, connect=connect, sock_read=read if read < total else None),
            connector=connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._wire = _Wire(session, URL(urlunsplit((self._parts.scheme, host, path, "", ""))).with_query(query))
        return self._wire

    def _secrets(self) -> tuple[dict[str, str], dict[str, str]]:
        """Headers and query of every request; what must not be shown of them is remembered for redaction."""
        secret, hidden = self._read_all(self._header_env), self._read_all(self._query_env)
        tokens = [*secret.values(), *hidden.values()]
        if self._api_key_env is not None:
            tokens.append(read_key(self._shown_url, self._api_key_env))
            secret["Authorization"] = f"Bearer {tokens[-1]}"
        elif self._parts.username is not None and "authorization" not in {name.lower() for name in secret}:
            pair = f"{unquote(self._parts.username)}:{unquote(self._parts.password or '')}"
            tokens.append(b64encode(pair.encode()).decode())
            secret["Authorization"] = f"Basic {tokens[-1]}"
        self._redact = Redactor([*tokens, *url_secrets(self._parts)])
        # Compressed answers would cost both sides more time than their bytes do.
        headers = {"Accept-Encoding": "identity", **self._headers, **secret, "Content-Type": "application/json"}
        return headers, {**self._query, **hidden}

    def _read_all(self, variables: Mapping[str, str]) -> dict[str, str]:
        return {name: read_key(self._shown_url, variable) for name, variable in variables.items()}

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

    def _read(self, status: int, retry_after: float | None, content: bytes) -> Reply:
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
        raise TransportError(refused.kind, detail, retry_after=retry_after, status=refused.status)

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
        variables = [self._api_key_env, *self._header_env.values(), *self._query_env.values()]
        not_found = "check base_url (it usually ends in /v1) and the agent's model name"
        return what_to_set(status, "base_url", not_found, [name for name in variables if name])

    def _broken(self, error: Exception) -> TransportError:
        """An attempt that ended without a complete HTTP answer."""
        import aiohttp

        told = (
            self._short(str(error).replace(" ssl:default", ""))
            or f"no complete answer within {self._timeouts['total_s']} s"
        )
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
        return detail(text, self._redact)


def _texts(given: Mapping[str, Any] | None) -> dict[str, str]:
    """Names and values of a setting; a config may write numbers."""
    return {str(name): str(value) for name, value in (given or {}).items()}
