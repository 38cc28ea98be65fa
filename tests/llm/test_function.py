"""Agents that are Python functions, and the calculator as the example."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.llm.support import answer, completion, make_context, make_request, messages, running_server
from trinity.errors import CallError, ConfigError
from trinity.llm.client import Client
from trinity.llm.limits import Limit
from trinity.llm.pool import build_pool
from trinity.llm.store import MemoryStore
from trinity.llm.transports.base import Reply, TransportError
from trinity.llm.transports.calculator import calculate, evaluate, written
from trinity.llm.transports.function import FunctionTransport
from trinity.types import Message, Price, Usage

HERE = __name__
DOCS = Path(__file__).parents[2] / "docs"


def shout(said: Sequence[Message]) -> str:
    """The last message in capitals."""
    return said[-1]["content"].upper()


async def shout_later(said: Sequence[Message]) -> Reply:
    """The same from a coroutine, with a bill."""
    await asyncio.sleep(0)
    return Reply(shout(said), "thought", "length", Usage(5, 6))


class Shouter:
    """The same from an object."""

    def __call__(self, said: Sequence[Message]) -> str:
        """The last message in capitals."""
        return shout(said)


def fail(_: Sequence[Message]) -> str:
    """Raise with a text of two lines."""
    raise KeyError("two\nlines")


def leave(_: Sequence[Message]) -> str:
    """Try to end the process."""
    sys.exit(3)


def hang(_: Sequence[Message]) -> str:
    """Come back much too late."""
    threading.Event().wait(60)
    return "late"


def number(_: Sequence[Message]) -> Any:
    """Return something else than a text."""
    return 3


def busy(_: Sequence[Message]) -> str:
    """Say how it failed."""
    raise TransportError("rate_limit", "come back later", retry_after=3)


async def send(function: Any, **settings: Any) -> Reply:
    """One attempt."""
    return await FunctionTransport(function, **settings).send(make_request(), 0)


@pytest.mark.parametrize("function", [shout, f"{HERE}.shout", Shouter()])
async def test_a_text_is_an_answer_that_costs_nothing(function: Any) -> None:
    """A function, its import path or an object that can be called: the answer is its text, with no tokens, known."""
    assert await send(function) == Reply("HOW MANY?", "", "stop", Usage())


async def test_a_reply_is_taken_as_it_is() -> None:
    """A coroutine function may say more: reasoning, finish reason, usage."""
    assert await send(shout_later) == Reply("HOW MANY?", "thought", "length", Usage(5, 6))


async def test_functions_run_beside_the_loop_and_beside_each_other() -> None:
    """Each of two calls waits for the other one to have begun, and both for the loop."""
    meeting = threading.Barrier(3, timeout=60)

    def meet(_: Sequence[Message]) -> str:
        return str(meeting.wait() >= 0)

    both = asyncio.gather(send(meet), send(meet))
    await asyncio.to_thread(meeting.wait)
    assert [reply.text for reply in await both] == ["True", "True"]


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (fail, f"function {HERE}.fail: KeyError: 'two\\nlines'"),
        (leave, f"function {HERE}.leave: RuntimeError: SystemExit(3)"),
        (number, f"function {HERE}.number: returned a int; it must return a text or a Reply"),
        (hang, f"function {HERE}.hang: no answer within 0.05 s"),
    ],
)
async def test_whatever_goes_wrong_fails_the_one_call(function: Any, line: str) -> None:
    """One line that names the function, and no second attempt."""
    with pytest.raises(TransportError) as caught:
        await send(function, timeout_s=0.05)
    assert (caught.value.kind, str(caught.value)) == ("bad_request", line)


async def test_a_function_may_say_how_it_failed() -> None:
    """A `TransportError` of its own decides about retries."""
    with pytest.raises(TransportError) as caught:
        await send(busy)
    assert (caught.value.kind, caught.value.retry_after) == ("rate_limit", 3)


async def test_broken_unicode_never_reaches_the_store() -> None:
    """Half a surrogate pair, which no file can hold, is replaced."""
    assert (await send(lambda _: "a\ud800", endpoint_id="mine")).text == "a\ufffd"


def test_a_changed_function_is_another_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default endpoint id holds a hash of the module's source; a given one stays."""
    monkeypatch.syspath_prepend(str(tmp_path))
    ids = []
    for number, text in enumerate(("1", "1", "2")):
        (tmp_path / f"tool{number}.py").write_text(f"def tool(messages):\n    return {text!r}\n")
        ids.append(FunctionTransport(f"tool{number}.tool").endpoint_id)
    hashes = [one.rpartition(":")[2] for one in ids]
    assert ids[0].startswith("function:tool0.tool:")
    assert hashes[0] == hashes[1] != hashes[2]
    assert FunctionTransport("tool0.tool", endpoint_id="mine").endpoint_id == "mine"


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("no.such.thing", "function: no.such.thing cannot be imported"),
        ("shout", "function: shout cannot be imported (ValueError: Empty module name); write package.module.function"),
        (f"{HERE}.shuot", "holds no 'shuot'; did you mean 'shout'?"),
        (f"{HERE}.HERE", "is no function but a str"),
        ("math.sqrt", "the source of math.sqrt cannot be read"),
    ],
)
def test_a_wrong_function_is_one_line(function: str, line: str) -> None:
    """What cannot be called or told apart from its next version is refused before anything is asked."""
    with pytest.raises(ConfigError) as caught:
        FunctionTransport(function)
    assert line in str(caught.value)


def test_a_wrong_time_limit_is_one_line() -> None:
    """As for the other transports."""
    with pytest.raises(ConfigError, match="timeout_s is -1; it must be a number of seconds above 0"):
        FunctionTransport(shout, timeout_s=-1)


async def test_a_functions_error_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function may ask a provider with a key of its own, whose error texts repeat it."""
    monkeypatch.setenv("SOME_KEY", "sk-canary-4711")

    def broken(_: Sequence[Message]) -> str:
        raise ValueError("wrong key sk-canary-4711")

    with pytest.raises(TransportError, match=r"ValueError: wrong key \*\*\*$"):
        await send(broken)


def test_settings_name_the_function() -> None:
    """The manifest says what answered."""
    told = FunctionTransport(f"{HERE}.shout", timeout_s=5).settings()
    assert told == {"engine": "function", "function": f"{HERE}.shout", "timeout_s": 5}


async def test_a_calculator_beside_two_live_models() -> None:
    """The pool of docs/agents.md: the calculator is exact and free, the models answer over HTTP, all are live."""
    async with running_server() as server:
        server.steps = [answer(completion("Answer: 400") | {"usage": {"prompt_tokens": 9, "completion_tokens": 3}})]
        http = {"_target_": "trinity.llm.transports.openai_http.OpenAIHTTP", "base_url": server.url}
        function = "trinity.llm.transports.calculator.calculate"
        tool = {"_target_": "trinity.llm.transports.function.FunctionTransport", "function": function}
        free = {"input_usd": 0, "output_usd": 0, "source": "a program on this machine"}
        agents: list[dict[str, Any]] = [
            {
                "name": "calculator",
                "endpoint": "tool",
                "model": "calculator",
                "sampling": {"temperature": 0},
                "deterministic": True,
                "price": free,
            },
            {"name": "one", "endpoint": "http", "model": "m"},
            {"name": "two", "endpoint": "http", "model": "n"},
        ]
        pool = build_pool("p", agents, {"tool": tool, "http": http})
        client = Client(pool, MemoryStore(), None)
        question = messages("What is 17 * 23 + 4?")
        said = [await client.complete(agent, question, make_context()) for agent in pool.agents]
        await client.close()
    assert pool.kind == "live"
    assert [one.text for one in said] == ["17 * 23 + 4 = 395\nAnswer: 395", "Answer: 400", "Answer: 400"]
    assert (said[0].usage, said[0].cost_usd) == (Usage(), 0.0)
    assert said[1].cost_usd is None


async def test_the_documented_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Function and pool of docs/agents.md, as they stand there: written down, composed, asked."""
    for name, text in blocks(DOCS / "agents.md").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    pool = instantiate(OmegaConf.load(tmp_path / "mine/conf/pool/adder.yaml"))
    client = Client(pool, MemoryStore(), None)
    said = await client.complete(pool.agent("adder"), messages("What is 17 plus 23?"), make_context())
    assert (said.text, said.cost_usd) == ("Answer: 40", 0.0)
    await client.close()
    plain = instantiate(OmegaConf.load(tmp_path / "mine/conf/pool/mine.yaml"))
    assert plain.limit("main", 16) == Limit(32, 500, 200000)
    assert plain.agents[0].price == Price(0.15, 0.6, "price list of 2026-11-01", 0.075)


def blocks(file: Path) -> dict[str, str]:
    """The titled code blocks of a page, by title."""
    return dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', file.read_text("utf-8"), re.MULTILINE | re.DOTALL))


async def test_a_failing_function_is_an_error_of_its_episode() -> None:
    """The call fails, is not tried again, and names the function."""
    calls = []

    def broken(_: Sequence[Message]) -> str:
        calls.append(threading.current_thread().name)
        raise ValueError("no")

    pool = build_pool("p", [{"name": "a", "endpoint": "e", "model": "m"}], {"e": FunctionTransport(broken)})
    client = Client(pool, MemoryStore(), None)
    with pytest.raises(CallError, match=r"agent a: function .*broken: ValueError: no"):
        await client.complete(pool.agents[0], messages("?"), make_context())
    await client.close()
    assert calls == ["function"]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What is 17 * 23 + 4? End with a line `Answer: <number>`.", "17 * 23 + 4 = 395\nAnswer: 395"),
        ("(1/3 + 1/6) × 1,200", "(1/3 + 1/6) * 1200 = 600\nAnswer: 600"),
        ("2^10 − 24.", "2**10 - 24 = 1000\nAnswer: 1000"),
        ("First 1 + 2, then 3 * 4 + 1", "3 * 4 + 1 = 13\nAnswer: 13"),
        ("What? .5 + 1.", ".5 + 1 = 1.5\nAnswer: 1.5"),
        ("Is it 5 + 3 (no) ... 2 *", "5 + 3 = 8\nAnswer: 8"),
        ("0.1 + 0.2", "0.1 + 0.2 = 0.3\nAnswer: 0.3"),
        ("Three apples and 4 pears", "I see no arithmetic here."),
        ("9**9**9", "I cannot work this out."),
        ("1 / 0", "I cannot work this out."),
        ("((((1 + 2)", "I cannot work this out."),
        ("1 + " * 100 + "1", "I cannot work this out."),
    ],
)
def test_the_calculator_answers_arithmetic_and_nothing_else(question: str, said: str) -> None:
    """What it cannot work out it says without a number, which a grader might take for its answer."""
    assert calculate(messages(question)) == said


@pytest.mark.parametrize(
    "text",
    [
        "-",
        "(",
        ")",
        ".",
        " ",
        "1",
        "1 ",
        "1- ",
        "- -x",
        "a-",
        ". x",
        "1,000",
        "(1+",
        "9**",
        "*.5",
        "1" + " " * 99 + "x",
    ],
)
def test_long_hostile_text_is_read_in_one_go(text: str) -> None:
    """100 kB of what looks like arithmetic and is none: in time that grows with its square this would not end."""
    assert calculate(messages(text * (100_000 // len(text)))).startswith("I ")


def _joined(parts: tuple[str, str, str]) -> str:
    return f"({' '.join(parts)})"


@given(st.recursive(st.integers(0, 99).map(str), lambda x: st.tuples(x, st.sampled_from("+-*"), x).map(_joined)))
def test_the_calculator_counts_as_python_does(expression: str) -> None:
    """On whole numbers it agrees with Python itself."""
    if len(expression) <= 200:
        assert evaluate(expression) == Fraction(eval(expression))


@given(st.text(alphabet="0123456789+-*/%(). x_[]'", max_size=30))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    """Nothing else comes of hostile text: no name is looked up, nothing is called."""
    with suppress(ValueError):
        assert written(evaluate(text))
