"""Pools from configs, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from tests.llm.support import make_agent, make_context, make_pool, messages
from trinity.errors import ConfigError, EndpointError, WeightsGoneError
from trinity.llm.client import Client
from trinity.llm.limits import Limit
from trinity.llm.pool import Pool, build_pool, read_agent
from trinity.llm.prices import lookup
from trinity.llm.store import MemoryStore
from trinity.llm.transports.openai_http import OpenAIHTTP
from trinity.llm.transports.scripted import ScriptedTransport, marker, reply_to
from trinity.types import PoolKind, Price

CONF = Path(__file__).parents[2] / "conf" / "pool"
HTTP = {"_target_": "trinity.llm.transports.openai_http.OpenAIHTTP", "base_url": "http://h/v1"}
LITELLM = {"_target_": "trinity.llm.transports.litellm_api.LiteLLM"}
PLAIN = {"name": "a", "endpoint": "e", "model": "m"}
SCRIPT = {"_target_": "trinity.llm.transports.scripted.skills", "skills": {}}


class Gone:
    """An endpoint whose weights cannot be had."""

    def __init__(self) -> None:
        raise WeightsGoneError("model.gguf is gone from all sources")


class Live(ScriptedTransport):
    """A scripted transport that calls itself live; counts how often it was closed."""

    kind: PoolKind = "live"
    closed = 0

    async def close(self) -> None:
        """Count, and fail."""
        self.closed += 1
        raise OSError("cannot stop")


def scripted() -> ScriptedTransport:
    """A transport that answers anything."""
    return ScriptedTransport(lambda request: reply_to(request, "3"))


def test_agent_takes_every_key_from_its_config() -> None:
    """Nothing in an agent's config is lost; a sampling key that is null is left out."""
    agent = read_agent(
        "p",
        0,
        {
            **PLAIN,
            "sampling": {"temperature": 0, "stop": ["\n", "END"], "top_p": None},
            "extra_body": {"cache_prompt": False, "deep": {"er": [1]}},
            "price": {"input_usd": 1, "output_usd": 2.5, "cached_usd": 0, "source": "list of 2026"},
            "active_params": 5e8,
            "deterministic": True,
            "profile": "small",
        },
    )
    assert agent.sampling == {"temperature": 0, "stop": ["\n", "END"]}
    assert agent.extra_body == {"cache_prompt": False, "deep": {"er": [1]}}
    assert agent.price == Price(1.0, 2.5, "list of 2026", 0.0)
    assert (agent.active_params, agent.deterministic, agent.profile, agent.style) == (5e8, True, "small", "")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"modle": "m"}, "unknown key 'modle'; did you mean 'model'"),
        ({"model": None}, "`model` must be a text"),
        ({"model": 5}, "`model` must be a text"),
        ({"sampling": {"temperature": {"x": 1}}}, "`sampling.temperature` must be a scalar"),
        ({"sampling": {"temperature": float("nan")}}, "`sampling.temperature` must be a scalar"),
        ({"sampling": {"n": 3}}, "`sampling.n` is set by the client"),
        ({"sampling": [1]}, "`sampling` must be a mapping"),
        ({"extra_body": {"stream": True}}, "`extra_body.stream` is set by the client"),
        ({"extra_body": {"x": float("inf")}}, "`extra_body` is not plain JSON"),
        ({"price": {"input_usd": -1, "output_usd": 1, "source": "s"}}, "`price.input_usd` must be USD"),
        ({"price": {"input_usd": 1, "source": "s"}}, "`price.output_usd` must be USD"),
        ({"price": {"input_usd": 1, "output_usd": 1}}, "`source` must be a text"),
        ({"price": {"inptu_usd": 1}}, "did you mean 'input_usd'"),
        ({"price": 3}, "`price` must hold"),
        ({"price": {"input_usd": 1, "output_usd": 1, "cached_usd": "x", "source": "s"}}, "`price.cached_usd` must be"),
        ({"price": "tabel"}, "or be `table`, or null for unknown; it is 'tabel'"),
        ({"price": "table"}, "price: the price table litellm"),
        ({"price": {"table": "litelm"}}, "price.table: there is no 'litelm'; choose from: litellm"),
        ({"price": {"table": "litellm", "modle": "x"}}, "did you mean 'model'"),
        ({"price": {"table": "litellm", "model": 3}}, "`model` must be a text"),
        ({"sampling": {"max_tokens": 0}}, "`sampling.max_tokens` must be a whole number"),
        ({"sampling": {"max_tokens": "many"}}, "`sampling.max_tokens` must be a whole number"),
        ({"sampling": {"max_completion_tokens": True}}, "`sampling.max_completion_tokens` must be a whole number"),
        ({"sampling": {"temperature": "hot"}}, "`sampling.temperature` must be a number at least 0"),
        ({"sampling": {"temperature": -0.1}}, "`sampling.temperature` must be a number at least 0"),
        ({"sampling": {"top_p": 1.5}}, "`sampling.top_p` must be a number between 0 and 1"),
        ({"sampling": {"reasoning_effort": 3}}, "`sampling.reasoning_effort` must be a text"),
        ({"profile": 3}, "`profile` must be a text"),
        ({"style": 3}, "`style` must be the name or the path"),
        ({"active_params": 0}, "`active_params` must be a positive number"),
        ({"active_params": "1e9"}, "`active_params` must be a positive number"),
        ({"deterministic": "yes"}, "`deterministic` must be true or false"),
        ({"deterministic": True, "sampling": {"temperature": 0.1}}, "needs `sampling.temperature: 0`"),
        ({"deterministic": True}, "needs `sampling.temperature: 0`"),
        ({"style": "no/such.txt"}, "cannot read the style file no/such.txt"),
        ({"style": "step_by_stpe"}, "did you mean 'step_by_step'"),
    ],
)
def test_a_wrong_agent_is_one_line_that_names_it(changes: dict[str, Any], line: str) -> None:
    """Pool, agent, key and what to do stand in one line."""
    with pytest.raises(ConfigError) as caught:
        read_agent("p", 0, {**PLAIN, **changes})
    assert str(caught.value).startswith("pool p: agent a")
    assert line in str(caught.value)


def test_an_agent_that_is_no_mapping_is_named_by_its_number() -> None:
    """A list entry without keys can still be found."""
    with pytest.raises(ConfigError, match="agent number 2"):
        read_agent("p", 1, "a")


def test_style_is_read_from_the_packaged_files_or_a_path(tmp_path: Path) -> None:
    """A name means a file of the coordinator's styles, a path means that file."""
    (tmp_path / "own.txt").write_text("Be terse.\n", encoding="utf-8")
    assert read_agent("p", 0, {**PLAIN, "style": str(tmp_path / "own.txt")}).style == "Be terse."
    assert "step" in read_agent("p", 0, {**PLAIN, "style": "step_by_step"}).style


@pytest.mark.parametrize(
    ("agents", "line"),
    [
        ([], "it has no agents"),
        ([PLAIN, PLAIN], "two agents are called 'a'"),
        ([{**PLAIN, "endpoint": "scrpit"}], "unknown endpoint 'scrpit'; did you mean 'script'"),
    ],
)
def test_a_wrong_list_of_agents_is_refused(agents: list[dict[str, Any]], line: str) -> None:
    """Empty pools, twins and endpoints that do not exist are found before anything is asked."""
    with pytest.raises(ConfigError, match="pool p: ") as caught:
        build_pool("p", agents, {"script": SCRIPT, "e": SCRIPT})
    assert line in str(caught.value)


def test_kinds_of_answers_are_never_mixed() -> None:
    """A live and a scripted agent cannot stand in one pool."""
    agents = [make_agent("a", "e"), make_agent("b", "f")]
    with pytest.raises(ConfigError, match="mixes live and scripted"):
        Pool("p", agents, {"e": scripted(), "f": Live(lambda _: ValueError())})


@pytest.mark.parametrize(("setting", "value"), [("slots", 2), ("prompt_cache", True)])
def test_deterministic_agents_need_a_steady_endpoint(setting: str, value: object) -> None:
    """A local server with slots or a prompt cache takes agents that sample, and refuses deterministic ones by key."""
    server: Any = {"_target_": "trinity.llm.transports.local.LocalServer", "weights": "smollm2-135m-instruct"}
    server |= {"store": {"_target_": "trinity.llm.weights.Weights", "sources": ""}}
    steady = {**PLAIN, "name": "b", "sampling": {"temperature": 0}, "deterministic": True}
    assert len(build_pool("p", [PLAIN, steady], {"e": server}).agents) == 2
    assert len(build_pool("p", [PLAIN], {"e": {**server, setting: value}}).agents) == 1
    with pytest.raises(
        ConfigError, match=f"agent b cannot be deterministic with endpoints.e.{setting}: {value}; make it"
    ):
        build_pool("p", [PLAIN, steady], {"e": {**server, setting: value}})


def test_sources_of_an_endpoint_are_checked() -> None:
    """A wrong source of weights inside an endpoint's config is one line of the suite's own."""
    store: Any = {"_target_": "trinity.llm.weights.Weights", "sources": "web"}
    server = {
        "_target_": "trinity.llm.transports.local.LocalServer",
        "weights": "smollm2-135m-instruct",
        "store": store,
    }
    with pytest.raises(ConfigError, match=r"^pool p: endpoints.e: weights.sources: there is no 'web'"):
        build_pool("p", [PLAIN], {"e": server})


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"skills": {}}, "no `_target_`"),
        ({"_target_": "trinity.llm.transports.scripted.no_such"}, "no_such"),
        ({"_target_": "fractions.Fraction"}, "a Fraction is not a transport"),
        ({"_target_": "builtins.dict"}, "endpoints.e: no signature found"),
        ({**HTTP, "base_url": "nowhere"}, "base_url must look like"),
        ({**HTTP, "url": "http://h"}, "endpoints.e.url: OpenAIHTTP knows no such key; did you mean 'base_url'?"),
        ({**HTTP, "connect_timeout_s": "abc"}, "endpoints.e.connect_timeout_s=abc: must be a finite float"),
        ({**HTTP, "read_timeout_s": -1}, "endpoints.e: read_timeout_s is -1; it must be a number of seconds above 0"),
        ({**HTTP, "send_seed": 1}, "endpoints.e.send_seed=1: must be a finite bool"),
        ({"_target_": HTTP["_target_"]}, "missing a required argument: 'base_url'"),
        ({**LITELLM, "drop_params": "yes"}, "endpoints.e.drop_params=yes: must be a finite bool"),
    ],
)
def test_a_wrong_endpoint_is_one_line(config: dict[str, Any], line: str) -> None:
    """What cannot be constructed is one line that names pool, endpoint and key, and no traceback of Hydra's."""
    with pytest.raises(ConfigError) as caught:
        build_pool("p", [PLAIN], {"e": config})
    assert str(caught.value).startswith("pool p: endpoints.e")
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        ({"mian": {"rpm": 60}}, "limits: unknown endpoint 'mian'; did you mean 'main'?"),
        ({"main": {"rmp": 60}}, "there is no key 'limits.main.rmp'; did you mean 'rpm'?"),
        ({"main": {"rpm": 0}}, "limits.main.rpm=0: must be a number above 0"),
        ({"main": {"tpm": "many"}}, "limits.main.tpm=many: must be a number above 0"),
        ({"main": {"concurrency": 0}}, "limits.main.concurrency=0: must be a whole number of at least 1"),
        ({"main": 3}, "limits.main=3: must hold concurrency, rpm or tpm"),
    ],
)
def test_a_wrong_limit_is_one_line(limits: Any, line: str) -> None:
    """A limit that does not hold is found before anything is asked."""
    with pytest.raises(ConfigError) as caught:
        build_pool("p", [{**PLAIN, "endpoint": "main"}], {"main": SCRIPT}, limits)
    assert str(caught.value).startswith("pool p: ")
    assert line in str(caught.value)


def test_a_local_server_is_asked_as_much_as_it_can_answer() -> None:
    """Calls wait for their turn where they are timed and can be cancelled, not in the server's own queue."""

    class Slotted(ScriptedTransport):
        def settings(self) -> dict[str, Any]:
            return {"slots": 2}

    pool = Pool("p", [make_agent()], {"e": Slotted(lambda _: None)})  # type: ignore[arg-type, return-value]
    assert [pool.limit("e", concurrency).concurrency for concurrency in (1, 64)] == [1, 2]


def test_limits_are_those_of_the_endpoint() -> None:
    """What the pool says of an endpoint goes before the run's default; an endpoint that is not used may have one."""
    endpoints = {"main": SCRIPT, "side": SCRIPT, "spare": SCRIPT}
    agents = [{**PLAIN, "endpoint": "main"}, {**PLAIN, "name": "b", "endpoint": "side"}]
    pool = build_pool(
        "p", agents, endpoints, {"main": {"concurrency": 4, "rpm": 60}, "side": None, "spare": {"tpm": 1}}
    )
    assert pool.limit("main", 16) == Limit(4, rpm=60)
    assert pool.limit("side", 16) == Limit(16)
    with pytest.raises(ConfigError, match="unknown endpoint 'mian'; did you mean 'main'"):
        pool.limit("mian", 16)


@pytest.mark.parametrize(
    "price", ["table", {"table": "litellm", "model": "claude-sonnet-4-6", "provider": "anthropic"}]
)
def test_a_price_can_be_looked_up(price: Any) -> None:
    """The price of the agent's own model or of another one, with the table that it is from."""
    agent = read_agent("p", 0, {**PLAIN, "model": "anthropic/claude-sonnet-4-6", "price": price})
    assert agent.price == lookup("anthropic/claude-sonnet-4-6")


def test_missing_weights_cost_only_their_agents() -> None:
    """The pool goes on with the agents that are left, and says which ones are missing and why."""
    gone = {"_target_": f"{__name__}.Gone"}
    pool = build_pool("p", [PLAIN, {**PLAIN, "name": "b", "endpoint": "g"}], {"e": SCRIPT, "g": gone})
    assert [agent.name for agent in pool.agents] == ["a"]
    assert pool.missing == {"b": "model.gguf is gone from all sources"}
    with pytest.raises(ConfigError, match=r"agent b is missing: model\.gguf"):
        pool.agent("b")
    with pytest.raises(EndpointError, match=r"no agent is left \(a: model\.gguf"):
        build_pool("p", [PLAIN], {"e": gone})


def test_endpoints_that_no_agent_uses_are_not_constructed() -> None:
    """A spare endpoint costs nothing, not even when it is broken."""
    assert build_pool("p", [PLAIN], {"e": SCRIPT, "spare": {"_target_": "no.such.thing"}}).kind == "scripted"


def test_dropping_agents_leaves_at_least_one() -> None:
    """Agents can be dropped by name or endpoint until one is left."""
    agents = [make_agent("a"), make_agent("b"), make_agent("c", "f")]
    pool = Pool("p", agents, {"e": scripted(), "f": scripted()})
    pool.drop_endpoint("e", "gone")
    assert pool.missing == {"a": "gone", "b": "gone"}
    assert pool.agents == [agents[2]]
    with pytest.raises(EndpointError, match=r"no agent is left \(a: gone; b: gone; c: too\)"):
        pool.drop("c", "too")


def test_unknown_agent_is_answered_with_the_nearest_name() -> None:
    """A misspelt agent is found quickly."""
    with pytest.raises(ConfigError, match="unknown agent 'linguits'; did you mean 'linguist'"):
        make_pool(scripted(), make_agent("linguist"), make_agent("b")).agent("linguits")


async def test_close_reaches_every_endpoint() -> None:
    """A server that cannot be stopped does not keep the others running, and is not kept quiet."""
    first, second = Live(lambda _: ValueError()), Live(lambda _: ValueError())
    pool = Pool("p", [make_agent("a", "e"), make_agent("b", "f")], {"e": first, "f": second})
    with pytest.raises(OSError, match="cannot stop"):
        await pool.close()
    assert (first.closed, second.closed) == (1, 1)


async def test_scripted_example_runs() -> None:
    """The pool of `conf/pool/scripted.yaml` can be built and asked."""
    pool = instantiate(OmegaConf.load(CONF / "scripted.yaml"))
    client = Client(pool, MemoryStore(), None)
    question = messages("Add. " + marker("arithmetic", "Answer: 3", "Answer: 4"))
    answers = [(await client.complete(agent, question, make_context())).text for agent in pool.agents[:2]]
    assert answers == ["Answer: 3", "Answer: 4"]
    assert pool.settings()["kind"] == "scripted"
    await client.close()


def test_http_example_is_filled_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool of `conf/pool/openai_http.yaml` takes URL and model from variables and shows no secret."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://user:canary-7311@host.example/v1")
    monkeypatch.setenv("OPENAI_MODEL", "some-model")
    pool = instantiate(OmegaConf.load(CONF / "openai_http.yaml"))
    assert [agent.model for agent in pool.agents] == ["some-model"] * 2
    assert pool.settings()["endpoints"]["main"]["endpoint_id"] == "https://host.example/v1"
    assert "canary" not in repr(pool.settings())


POOLS = sorted(file.stem for file in CONF.glob("*.yaml"))


@pytest.mark.parametrize("name", POOLS)
def test_every_pool_is_built_without_keys_and_network(
    name: str, compose_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ready-made pool composes and is built; its agents say how long an answer may be and what a token costs.

    A price that nobody knows is an explicit null, and one that is looked up names the table.
    """
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_MODEL", "some-model")
    config = compose_config(f"pool={name}", "weights.sources=[]")
    pool = instantiate(config.pool)
    assert pool.name == name
    assert not pool.missing
    for agent, entry in zip(pool.agents, config.pool.agents, strict=True):
        assert agent.sampling["max_tokens"] >= 1
        assert "price" in entry
        assert agent.price is None or agent.price.source
        assert pool.limit(agent.endpoint, 16).concurrency >= 1
    assert pool.settings()["kind"] in ("live", "scripted")


def test_the_papers_pool_is_priced_throughout(compose_config: Any) -> None:
    """All seven agents have a price from the table, so that a cap in USD can hold."""
    agents = instantiate(compose_config("pool=trinity7").pool).agents
    assert [agent.name for agent in agents] == [
        *("gpt", "claude", "gemini", "r1-distill", "gemma", "qwen-reasoning", "qwen-direct")
    ]
    for agent in agents:
        assert agent.sampling["max_tokens"] == 4096
        assert agent.price is not None
        assert agent.price.source.startswith("litellm ")
        assert agent.price.input_usd > 0


@pytest.mark.parametrize(
    ("url", "far"),
    [
        ("http://127.0.0.1:8000/v1", False),
        ("http://[::1]:8000/v1", False),
        ("http://localhost/v1", False),
        ("http://gpu-node-3:8000/v1", False),
        ("http://10.1.2.3/v1", False),
        ("https://api.example.com/v1", True),
        ("https://8.8.8.8/v1", True),
    ],
)
def test_an_unpriced_endpoint_costs_money_when_it_is_far_away(url: str, far: bool) -> None:
    """Nobody sends a bill for a server of one's own; a price says more than the place."""
    unpriced = Pool("p", [make_agent()], {"e": OpenAIHTTP(url)})
    assert unpriced.costs_money is far
    for usd in (0.0, 1.0):
        priced = Pool("p", [make_agent(price=Price(usd, usd, "test"))], {"e": OpenAIHTTP(url)})
        assert priced.costs_money is bool(usd)


def test_all_missing_keys_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No endpoint is paid before the key of another is missed."""
    monkeypatch.setenv("SET_KEY", "x")
    agents = [make_agent(name, endpoint=name) for name in "abc"]
    endpoints = {
        "a": OpenAIHTTP("http://h/v1", api_key_env="SET_KEY"),
        "b": OpenAIHTTP("http://h/v1", api_key_env="UNSET_KEY"),
        "c": OpenAIHTTP("http://h/v1", header_env={"api-key": "OTHER_UNSET"}, query_env={"key": "THIRD_UNSET"}),
    }
    with pytest.raises(EndpointError, match="no API key; set UNSET_KEY, OTHER_UNSET, THIRD_UNSET "):
        Pool("p", agents, endpoints).check_keys()
    Pool("p", agents[:1], endpoints).check_keys()
