"""The pool: which agents can be asked, and through what."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from omegaconf import OmegaConf

from trinity.canonical import canonical_json
from trinity.config import build
from trinity.errors import ConfigError, EndpointError, WeightsGoneError
from trinity.llm.budget import OUTPUT_KEYS
from trinity.llm.limits import Limit
from trinity.llm.prices import TABLES, lookup
from trinity.llm.transports.base import Transport
from trinity.naming import check_choice, did_you_mean
from trinity.types import Agent, PoolKind, Price

STYLES = Path(__file__).parent.parent / "coordinator" / "prompts" / "styles"

HIGHEST_USD = 1e9

RESERVED = frozenset({"model", "messages", "seed", "stream", "n"})
"""Keys of the wire that the client sets itself, or that would break one request = one answer."""

_AGENT_KEYS = tuple(field.name for field in fields(Agent))
_STEADY: Mapping[str, Any] = {"slots": 1, "prompt_cache": False}
"""Settings of an endpoint with which equal requests have equal answers, whatever else it is asked."""
_PRICE_KEYS = tuple(field.name for field in fields(Price))
_TABLE_KEYS = ("table", "model", "provider")
_RANGES = {"temperature": (0.0, math.inf), "top_p": (0.0, 1.0)}


class Pool:
    """Agents by name and the transports that answer for them.

    Attributes:
        name: as in records and tables.
        missing: agents that were dropped, with the reason.
    """

    def __init__(
        self,
        name: str,
        agents: Sequence[Agent],
        endpoints: Mapping[str, Transport],
        limits: Mapping[str, Any] | None = None,
    ) -> None:
        """Check what belongs together; `limits` are by endpoint, as `trinity.llm.limits.Limit` reads them.

        Raises:
            ConfigError: empty, two agents of one name, unknown endpoint, kinds of answers mixed, a deterministic
                agent behind an endpoint whose answers depend on what else it is asked, or a limit that is none.
        """
        self.name = name
        self.missing: dict[str, str] = {}
        self._endpoints = dict(endpoints)
        self._limits = _checked_limits(name, limits or {}, self._endpoints)
        self._agents = {agent.name: agent for agent in agents}
        self._check(agents)

    def _check(self, agents: Sequence[Agent]) -> None:
        if not agents:
            raise ConfigError(f"pool {self.name}: it has no agents; list at least one under `agents`")
        _refuse_twins(self.name, [agent.name for agent in agents])
        _refuse_strangers(self.name, agents, self._endpoints)
        kinds = sorted({self._endpoints[agent.endpoint].kind for agent in agents})
        if len(kinds) > 1:
            raise ConfigError(f"pool {self.name}: it mixes {' and '.join(kinds)} answers; make one pool of each kind")
        _refuse_unsteady(self.name, agents, self._endpoints)

    @property
    def kind(self) -> PoolKind:
        """Whether models really answer; the same for all agents."""
        return self.transport(self.agents[0]).kind

    @property
    def agents(self) -> list[Agent]:
        """The agents that are left, in the order of the config."""
        return list(self._agents.values())

    def agent(self, name: str) -> Agent:
        """The agent called `name`.

        Raises:
            ConfigError: there is none, or it was dropped.
        """
        if name in self._agents:
            return self._agents[name]
        if name in self.missing:
            raise ConfigError(f"pool {self.name}: agent {name} is missing: {self.missing[name]}")
        raise ConfigError(f"pool {self.name}: {_unknown('agent', name, self._agents)}")

    def transport(self, agent: Agent) -> Transport:
        """What answers for `agent`."""
        return self._endpoints[agent.endpoint]

    def limit(self, endpoint: str, concurrency: int) -> Limit:
        """What an endpoint can take; where its limits name none, `concurrency` or a local server's slots, if fewer.

        Raises:
            ConfigError: there is no such endpoint, or `concurrency` is out of range.
        """
        if endpoint not in self._endpoints:
            raise ConfigError(f"pool {self.name}: {_unknown('endpoint', endpoint, self._endpoints)}")
        slots = self._endpoints[endpoint].settings().get("slots") or concurrency
        # A call that waits here and not in the server's own queue is timed from its turn on, and can be cancelled.
        return Limit.from_config(f"limits.{endpoint}", self._limits.get(endpoint), min(concurrency, slots))

    @property
    def costs_money(self) -> bool:
        """Whether somebody may send a bill: an agent has a price above 0, or none and is asked over the internet."""
        return any(
            agent.price.output_usd > 0 or agent.price.input_usd > 0
            if agent.price is not None
            else _is_far(self.transport(agent).settings())
            for agent in self.agents
        )

    def check_keys(self) -> None:
        """See that every key that an endpoint in use will want is set, so that none is missed after others were paid.

        Raises:
            EndpointError: names all variables that are not.
        """
        missing: dict[str, None] = {}
        for agent in self.agents:
            settings = self.transport(agent).settings()
            others = [(settings.get(key) or {}).values() for key in ("header_env", "query_env")]
            names = [settings.get("api_key_env"), *chain(*others)]
            missing |= dict.fromkeys(name for name in names if name and not os.environ.get(name, "").strip())
        if missing:
            raise EndpointError(
                f"pool {self.name}: no API key; set {', '.join(missing)} (an endpoint that wants none: "
                "pool.endpoints.NAME.api_key_env=null)"
            )

    def drop(self, name: str, reason: str) -> None:
        """Go on without an agent.

        Raises:
            ConfigError: there is no such agent.
            EndpointError: it was the last one.
        """
        del self._agents[self.agent(name).name]
        self.missing[name] = reason
        if not self._agents:
            reasons = "; ".join(f"{agent}: {why}" for agent, why in self.missing.items())
            raise EndpointError(f"pool {self.name}: no agent is left ({reasons})")

    def drop_endpoint(self, endpoint: str, reason: str) -> None:
        """Go on without all agents of an endpoint; raises as `drop` does."""
        for agent in self.agents:
            if agent.endpoint == endpoint:
                self.drop(agent.name, reason)

    async def ready(self) -> None:
        """Let every endpoint in use prepare itself (weights, say); go on without those whose weights nobody has.

        Raises:
            EndpointError: no agent is left.
            WeightsError: weights are damaged.
        """
        for name in dict.fromkeys(agent.endpoint for agent in self.agents):
            prepare = getattr(self._endpoints[name], "prepare", None)
            try:
                if prepare is not None:
                    await asyncio.to_thread(prepare)
            except WeightsGoneError as error:
                self.drop_endpoint(name, str(error))

    def settings(self) -> dict[str, Any]:
        """Name, kind and settings of the endpoints in use, for the manifest: plain JSON values without secrets."""
        used = {agent.endpoint: self.transport(agent) for agent in self.agents}
        return {
            "name": self.name,
            "kind": self.kind,
            "endpoints": {
                name: {"endpoint_id": one.endpoint_id, "kind": one.kind, **one.settings()} for name, one in used.items()
            },
            "missing": dict(self.missing),
        }

    async def close(self) -> None:
        """Close every transport, also when one of them fails to; the first failure is raised at the end."""
        failures: list[Exception] = []
        for transport in self._endpoints.values():
            try:
                await transport.close()
            except Exception as error:  # noqa: BLE001 - the others must be closed whatever this one raised
                failures.append(error)
        if failures:
            raise failures[0]


def build_pool(
    name: str,
    agents: Sequence[Mapping[str, Any]],
    endpoints: Mapping[str, Any],
    limits: Mapping[str, Any] | None = None,
) -> Pool:
    """The pool that a config describes.

    `endpoints` maps a name to a transport or to its config (with `_target_`); only those that an agent uses are
    constructed. `limits` maps the name of an endpoint to its `concurrency`, `rpm` (requests a minute) and `tpm`
    (tokens a minute). Where an endpoint's weights are gone its agents are dropped, and the pool goes on with those
    that are left.

    Raises:
        ConfigError: as `Pool` and `read_agent` say, or an endpoint's config is wrong.
        EndpointError: no agent is left.
    """
    if isinstance(agents, (str, Mapping)) or not isinstance(agents, Sequence):
        raise ConfigError(f"pool {name}: `agents` must be a list of mappings, not {agents!r}")
    read = [read_agent(name, number, entry) for number, entry in enumerate(agents)]
    _refuse_strangers(name, read, endpoints)
    checked = _checked_limits(name, limits or {}, endpoints)
    used = {agent.endpoint for agent in read}
    built: dict[str, Transport] = {}
    gone: dict[str, str] = {}
    for endpoint, config in endpoints.items():
        if endpoint in used:
            try:
                built[endpoint] = _construct(name, endpoint, config)
            except WeightsGoneError as error:
                gone[endpoint] = str(error)
    return _without(name, read, built, gone, {key: limit for key, limit in checked.items() if key in built})


def _without(
    name: str,
    agents: Sequence[Agent],
    built: dict[str, Transport],
    gone: dict[str, str],
    limits: Mapping[str, Any],
) -> Pool:
    """The pool of the agents whose endpoint is there."""
    _refuse_twins(name, [agent.name for agent in agents])
    missing = {agent.name: gone[agent.endpoint] for agent in agents if agent.endpoint in gone}
    left = [agent for agent in agents if agent.name not in missing]
    if missing and not left:
        reasons = "; ".join(f"{agent}: {why}" for agent, why in missing.items())
        raise EndpointError(f"pool {name}: no agent is left ({reasons})")
    pool = Pool(name, left, built, limits)
    pool.missing.update(missing)
    return pool


def _construct(pool: str, endpoint: str, config: Any) -> Transport:
    """A transport from its config; one that is already made is returned as it is.

    Raises:
        ConfigError: a setting is unknown, missing or wrong; names pool, endpoint and setting.
    """
    place = f"endpoints.{endpoint}"
    if not isinstance(config, Mapping):
        made = config
    elif "_target_" not in config:
        raise ConfigError(f"pool {pool}: {place}: it has no `_target_`; name the class of its transport")
    else:
        made = _built(pool, place, endpoint, config)
    if not hasattr(made, "send"):
        told = f"a {type(made).__name__} is not a transport; `_target_` must name one"
        raise ConfigError(f"pool {pool}: {place}: {told}")
    transport: Transport = made
    return transport


def _built(pool: str, place: str, endpoint: str, config: Mapping[str, Any]) -> Any:
    """What `build` makes of an endpoint's config; its error lines begin with the pool's name."""
    node = OmegaConf.create({"endpoints": {endpoint: dict(config)}}, flags={"allow_objects": True})
    try:
        return build(node.endpoints[endpoint])
    except (ConfigError, ValueError) as error:  # ValueError: a builtin, of which nobody knows the arguments
        told = str(error) if str(error).startswith(place) else f"{place}: {error}"
        raise ConfigError(f"pool {pool}: {told}") from error


def _checked_limits(pool: str, limits: Mapping[str, Any], endpoints: Mapping[str, object]) -> dict[str, Any]:
    """The limits, unless one is for no endpoint or none at all."""
    for endpoint, given in limits.items():
        if endpoint not in endpoints:
            raise ConfigError(f"pool {pool}: limits: {_unknown('endpoint', endpoint, endpoints)}")
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(f"pool {pool}: limits.{endpoint}={given}: must hold concurrency, rpm or tpm")
        try:
            Limit.from_config(f"limits.{endpoint}", given, 1)
        except ConfigError as error:
            raise ConfigError(f"pool {pool}: {error}") from error
    return dict(limits)


def read_agent(pool: str, number: int, entry: Any) -> Agent:
    """The agent of the `number`-th config entry.

    Keys are those of `Agent`; `name`, `endpoint` and `model` are needed. `style` is the name of a file in
    `coordinator/prompts/styles` (without `.txt`), a path, or null. A sampling key that is null is left out. `price`
    holds `input_usd`, `output_usd`, `source` and perhaps `cached_usd`; `table`: what litellm's price table says of the
    agent's model; `{table: litellm, model: NAME}`: of another one; null: unknown.

    Raises:
        ConfigError: a key is unknown or missing, or a value is not what it must be.
    """
    if not isinstance(entry, Mapping):
        raise ConfigError(f"pool {pool}: agent number {number + 1} is not a mapping; give it name, endpoint and model")
    where = f"pool {pool}: agent {entry.get('name', f'number {number + 1}')}"
    _refuse_unknown(where, entry, _AGENT_KEYS)
    sampling = checked_sampling(where, entry.get("sampling") or {})
    model = _text(where, entry, "model")
    deterministic = _flag(where, "deterministic", entry.get("deterministic", False))
    if deterministic and sampling.get("temperature") != 0:
        raise ConfigError(f"{where}: a deterministic agent needs `sampling.temperature: 0`")
    return Agent(
        name=_text(where, entry, "name"),
        endpoint=_text(where, entry, "endpoint"),
        model=model,
        sampling=sampling,
        style=_style(where, entry.get("style")),
        extra_body=_extra_body(where, entry.get("extra_body") or {}),
        price=_price(where, model, entry.get("price")),
        active_params=_positive(where, "active_params", entry.get("active_params")),
        deterministic=deterministic,
        profile=_text(where, entry, "profile") if entry.get("profile") else "",
    )


def _is_far(settings: Mapping[str, Any]) -> bool:
    """Whether an endpoint lies outside this machine and its private network; one that names no URL does not."""
    if settings.get("engine") == "litellm" and not settings.get("url"):
        return True
    host = urlsplit(str(settings.get("url") or "")).hostname or "localhost"
    try:
        return not ipaddress.ip_address(host).is_private
    except ValueError:
        return host != "localhost" and "." in host and not host.endswith((".local", ".internal", ".lan"))


def _unknown(what: str, name: Any, known: Iterable[str]) -> str:
    """A clause that names the nearest valid name, or all of them."""
    return f"unknown {what} {name!r}; {did_you_mean(str(name), known)}"


def _refuse_twins(pool: str, names: Sequence[str]) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise ConfigError(f"pool {pool}: two agents are called {twins[0]!r}; give each its own name")


def _refuse_strangers(pool: str, agents: Sequence[Agent], endpoints: Mapping[str, object]) -> None:
    for agent in agents:
        if agent.endpoint not in endpoints:
            raise ConfigError(f"pool {pool}: agent {agent.name}: {_unknown('endpoint', agent.endpoint, endpoints)}")


def _refuse_unsteady(pool: str, agents: Sequence[Agent], endpoints: Mapping[str, Transport]) -> None:
    """Answers of requests that share a batch or a reused prompt are rounded by what else is asked."""
    for agent in agents:
        settings = endpoints[agent.endpoint].settings() if agent.deterministic else {}
        for key, steady in _STEADY.items():
            if settings.get(key, steady) != steady:
                raise ConfigError(
                    f"pool {pool}: agent {agent.name} cannot be deterministic with endpoints.{agent.endpoint}.{key}: "
                    f"{settings[key]}; make it {steady}, or the agent `deterministic: false`"
                )


def _refuse_unknown(where: str, entry: Mapping[Any, Any], known: Sequence[str]) -> None:
    for key in entry:
        if key not in known:
            raise ConfigError(f"{where}: {_unknown('key', key, known)}")


def _text(where: str, entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: `{key}` must be a text, not {value!r}")
    return value


def _flag(where: str, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: `{key}` must be true or false, not {value!r}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _positive(where: str, key: str, value: Any) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or value <= 0:
        raise ConfigError(f"{where}: `{key}` must be a positive number or null, not {value!r}")
    return float(value)


def _price(where: str, model: str, price: Any) -> Price | None:
    """USD per million tokens, given or looked up; half a price would be taken for a whole one, so it needs its keys."""
    if price is None:
        return None
    if price == "table":
        return _listed(where, model, None)
    if not isinstance(price, Mapping):
        known = f"{', '.join(_PRICE_KEYS)}; or be `table`, or null for unknown"
        raise ConfigError(f"{where}: `price` must hold {known}; it is {price!r}")
    if "table" in price:
        _refuse_unknown(f"{where}: price", price, _TABLE_KEYS)
        check_choice(f"{where}: price.table", price["table"], TABLES)
        provider = None if price.get("provider") is None else _text(f"{where}: price", price, "provider")
        return _listed(where, _text(f"{where}: price", {"model": model, **price}, "model"), provider)
    _refuse_unknown(f"{where}: price", price, _PRICE_KEYS)
    given, written = (_usd(where, price, key) for key in ("input_usd", "output_usd"))
    cached = None if price.get("cached_usd") is None else _usd(where, price, "cached_usd")
    return Price(given, written, _text(f"{where}: price", price, "source"), cached)


def _listed(where: str, model: str, provider: str | None) -> Price:
    try:
        return lookup(model, provider)
    except ConfigError as error:
        raise ConfigError(f"{where}: price: {error}") from error


def _usd(where: str, price: Mapping[str, Any], key: str) -> float:
    value: Any = price.get(key)
    if not _is_number(value) or not 0 <= value <= HIGHEST_USD:
        raise ConfigError(f"{where}: `price.{key}` must be USD per million tokens (0 to 1e9), not {value!r}")
    return float(value)


def checked_sampling(where: str, sampling: Any) -> dict[str, Any]:
    """Sampling parameters, those that are null left out: scalars or lists of scalars.

    What else the provider knows is its own business.

    Raises:
        ConfigError: one is of the wrong kind, out of its range, or set by the client; `where` stands before it.
    """
    if not isinstance(sampling, Mapping):
        raise ConfigError(f"{where}: `sampling` must be a mapping, not {sampling!r}")
    _refuse_reserved(where, "sampling", sampling)
    kept = {key: value for key, value in sampling.items() if value is not None}
    for key, value in kept.items():
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, (str, bool)) or _is_number(part) for part in parts):
            raise ConfigError(f"{where}: `sampling.{key}` must be a scalar or a list of scalars, not {value!r}")
        _check_known(where, key, value)
    return kept


def _check_known(where: str, key: str, value: Any) -> None:
    """Refuse values of parameters that every provider reads alike; what else there is, is the provider's business."""
    if key in OUTPUT_KEYS and (type(value) is not int or value < 1):
        raise ConfigError(f"{where}: `sampling.{key}` must be a whole number of tokens, at least 1, not {value!r}")
    if key in _RANGES:
        low, high = _RANGES[key]
        if not _is_number(value) or not low <= value <= high:
            bounds = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
            raise ConfigError(f"{where}: `sampling.{key}` must be a number {bounds}, not {value!r}")
    if key == "reasoning_effort" and not isinstance(value, str):
        raise ConfigError(f"{where}: `sampling.{key}` must be a text (low, medium, high, ...), not {value!r}")


def _extra_body(where: str, body: Any) -> dict[str, Any]:
    """Further keys of the request body, as plain JSON."""
    if not isinstance(body, Mapping):
        raise ConfigError(f"{where}: `extra_body` must be a mapping, not {body!r}")
    _refuse_reserved(where, "extra_body", body)
    try:
        canonical_json(dict(body))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: `extra_body` is not plain JSON: {error}") from error
    return dict(body)


def _refuse_reserved(where: str, part: str, given: Mapping[Any, Any]) -> None:
    for key in given:
        if key in RESERVED:
            raise ConfigError(f"{where}: `{part}.{key}` is set by the client; remove it")


def _style(where: str, style: Any) -> str:
    """The text of a style file."""
    if style is None or style == "":
        return ""
    if not isinstance(style, str):
        raise ConfigError(f"{where}: `style` must be the name or the path of a file, or null, not {style!r}")
    path = Path(str(style)) if str(style).endswith(".txt") else STYLES / f"{style}.txt"
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        if path.parent != STYLES:
            raise ConfigError(f"{where}: cannot read the style file {path}: {error}") from error
        names = [file.stem for file in STYLES.glob("*.txt")]
        raise ConfigError(f"{where}: {_unknown('style', style, names)}") from error
