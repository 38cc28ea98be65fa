"""An agent that is a Python function: a calculator, a code runner, a program of one's own."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from trinity.canonical import sha256
from trinity.errors import ConfigError
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.common import detail, seconds, storable
from trinity.llm.transports.redaction import Redactor
from trinity.naming import did_you_mean
from trinity.secrets import in_environment
from trinity.types import Message, PoolKind, Usage

Answered = str | Reply
Function = Callable[[Sequence[Message]], Answered | Awaitable[Answered]]

_HASH_DIGITS = 16


class FunctionTransport:
    """Answers every request by calling `function(messages)`, which returns a text or a `Reply`.

    It is `live`, for what it says is really computed, and may stand in a pool beside models. `function` is an import
    path (`acme.tools.calculate`) or the function itself. Each call of a plain function has a thread of its own; one
    that is still at work after `timeout_s` seconds is left to itself, for nothing can stop a thread. A coroutine
    function runs on the event loop and must not block it.

    A text costs no tokens, and that is known, not estimated; a `Reply` brings its own usage. Whatever the function
    raises, a wrong type or a late answer fails this one call for good; a `TransportError` says itself how it failed.
    The function sees user data and model output: it must not trust either.
    """

    kind: PoolKind = "live"

    def __init__(self, function: str | Function, *, endpoint_id: str | None = None, timeout_s: float = 60) -> None:
        """Find the function.

        Raises:
            ConfigError: there is no such function, or its source cannot be read and no `endpoint_id` is given;
                or `timeout_s` is no time limit.
        """
        self._function = _import(function) if isinstance(function, str) else function
        if not callable(self._function):
            raise ConfigError(f"function: {function} is no function but a {type(self._function).__name__}")
        self._name = function if isinstance(function, str) else _path(self._function)
        self._endpoint_id = endpoint_id or f"function:{self._name}:{_source_hash(self._function, self._name)}"
        self._timeout_s = seconds("timeout_s", timeout_s)

    @property
    def endpoint_id(self) -> str:
        """As configured; by default the function's import path and a hash of its module's source.

        So an answer of an older version is never taken for one of this; what the module imports does not count.
        """
        return self._endpoint_id

    def settings(self) -> dict[str, Any]:
        """Import path and time limit."""
        return {"engine": "function", "function": self._name, "timeout_s": self._timeout_s}

    async def send(self, request: Request, seed: int) -> Reply:
        """What the function says.

        Raises:
            TransportError: it raised, took too long or returned something else.
        """
        messages = [Message(role=message["role"], content=message["content"]) for message in request.messages]
        try:
            async with asyncio.timeout(self._timeout_s):
                said = await self._call(messages)
        except TransportError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a function may raise anything; its call has failed
            failed = self._failure(error)
        else:
            return self._reply(said)
        raise failed

    async def close(self) -> None:
        """Nothing to let go of."""

    async def _call(self, messages: list[Message]) -> Any:
        if inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(type(self._function).__call__):
            return await self._function(messages)  # type: ignore[misc]  # a coroutine, as the line above says
        return await _in_thread(self._function, messages)

    def _failure(self, error: BaseException) -> TransportError:
        if isinstance(error, TimeoutError) and not str(error):
            return TransportError("bad_request", f"function {self._name}: no answer within {self._timeout_s} s")
        told = detail(f"{type(error).__name__}: {error}", Redactor(in_environment()))
        return TransportError("bad_request", f"function {self._name}: {told}")

    def _reply(self, said: Any) -> Reply:
        if isinstance(said, str):
            return Reply(storable(said), "", "stop", Usage())
        if isinstance(said, Reply):
            return replace(said, text=storable(said.text), reasoning=storable(said.reasoning))
        kind = type(said).__name__
        raise TransportError(
            "bad_request", f"function {self._name}: returned a {kind}; it must return a text or a Reply"
        )


async def _in_thread(function: Callable[..., Any], messages: list[Message]) -> Any:
    """The function's result, from a thread that keeps neither the loop nor the end of the process waiting."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def work() -> None:
        result, failed = None, None
        try:
            result = function(messages)
        except BaseException as error:  # noqa: BLE001 - also SystemExit ends the call and not the run
            failed = error
        with suppress(RuntimeError):  # the loop was closed: nobody waits any longer
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, name="function", daemon=True).start()
    return await done


def _import(path: str) -> Any:
    """What an import path names.

    Raises:
        ConfigError: nothing.
    """
    module_name, _, name = path.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # importing runs the module, which may do anything
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(f"function: {path} cannot be imported ({what}); write package.module.function") from error
    if not hasattr(module, name):
        near = did_you_mean(name, [known for known in vars(module) if not known.startswith("_")])
        raise ConfigError(f"function: {module_name} holds no {name!r}; {near}")
    return getattr(module, name)


def _path(function: Any) -> str:
    owner = function if hasattr(function, "__qualname__") else type(function)
    return f"{owner.__module__}.{owner.__qualname__}"


def _source_hash(function: Any, name: str) -> str:
    """Hash of the source of the module that holds the function, cut to 16 digits.

    Raises:
        ConfigError: it cannot be read.
    """
    target = inspect.unwrap(function)
    module = inspect.getmodule(target if hasattr(target, "__qualname__") else type(target))
    try:
        source = inspect.getsource(module)  # type: ignore[arg-type]  # None, of which there is no source, raises
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"function: the source of {name} cannot be read ({error}); give an endpoint_id that changes when it does"
        ) from error
    return sha256(source)[:_HASH_DIGITS]
