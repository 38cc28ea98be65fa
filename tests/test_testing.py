"""The public fakes: an encoder without weights, a server that fails as told, and a clock that does not wait."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trinity.testing
from tests.commands import ROOT, environment
from trinity.coordinator.encoder import Encoder
from trinity.errors import ConfigError
from trinity.llm.transports.base import Request
from trinity.llm.transports.scripted import marker, reply_to
from trinity.testing import (
    PRESETS,
    Counts,
    Event,
    Expected,
    Fault,
    Faults,
    FaultServer,
    HashedEncoder,
    SkippingLoop,
    expected,
    fault_marker,
)
from trinity.testing.counts import read_log
from trinity.testing.faults import REFUSALS, WASTED
from trinity.testing.server import ID_HEADER, skill_script
from trinity.types import Price, Usage

T = TypeVar("T")


def test_every_public_name_is_there_and_no_other() -> None:
    """Names are loaded when used; one that does not exist is missed as usual."""
    for name in trinity.testing.__all__:
        assert getattr(trinity.testing, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'FaultSever'"):
        trinity.testing.__getattr__("FaultSever")


def test_importing_the_server_is_light() -> None:
    """A test of a transport loads neither torch nor an encoder, nor aiohttp before a server is started."""
    code = "import sys, trinity.testing.server as s; s.FaultServer(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    heavy = {"torch", "transformers", "litellm", "aiohttp", "trinity.coordinator.encoder"}
    assert heavy & set(loaded.stdout.split()) == set()


@pytest.mark.parametrize("d", [2, 64, 1300])
async def test_a_state_has_the_declared_shape_and_norm(d: int) -> None:
    """A state is d float32 entries, the last one the bias, norm sqrt(d), not to be written to."""
    encoder: Encoder = HashedEncoder(d)
    vector, tokens = await encoder.encode(("one two two", "three"))
    assert (vector.shape, vector.dtype, encoder.d, tokens) == ((d,), np.dtype("float32"), d, 4)
    assert np.linalg.norm(vector) == pytest.approx(d**0.5, rel=1e-5)
    assert vector[-1] == 1
    assert not vector.flags.writeable


async def test_entries_look_like_standard_normal_ones() -> None:
    """Over many words the entries have mean 0, variance 1 and hardly any beyond three."""
    text = " ".join(f"word{number}" for number in range(200))
    entries = (await HashedEncoder(2001).encode((text,))).vector[:-1]
    assert abs(entries.mean()) < 0.1
    assert entries.std() == pytest.approx(1, abs=0.01)
    assert (np.abs(entries) > 3).mean() < 0.01


async def test_numbers_are_the_same_on_every_machine() -> None:
    """The signs of a known word, written down once."""
    vector = (await HashedEncoder(9, seed=0).encode(("apple",))).vector
    assert vector.astype(int).tolist() == [-1, -1, 1, -1, 1, 1, -1, -1, 1]


async def test_words_alone_count() -> None:
    """Order, case and borders of chunks do not matter, the counts of words, the seed and new words do."""
    encoder = HashedEncoder()
    base = (await encoder.encode(("red green", "blue"))).vector
    same = (await encoder.encode(("Blue RED green",))).vector
    np.testing.assert_allclose(base, same, atol=1e-6)
    for other in (
        (await encoder.encode(("red red green blue",))),
        (await HashedEncoder(seed=1).encode(("red green blue",))),
    ):
        assert not np.allclose(base, other.vector, atol=0.1)


async def test_shared_words_make_transcripts_alike() -> None:
    """Two questions of one kind are nearer to each other than to one of another kind."""
    encoder = HashedEncoder()
    texts = ("how many apples are left", "how many pears are left", "value of the expression len(x)")
    first, second, third = [(await encoder.encode((text,))).vector for text in texts]
    assert first @ second > 2 * max(first @ third, second @ third)


async def test_a_text_without_words_is_the_bias_alone() -> None:
    """Nothing, signs and broken characters have a state: zeros and the bias."""
    encoder = HashedEncoder(4)
    for chunks in ((), ("",), ("?! \ud800",)):
        assert (await encoder.encode(chunks)).vector.tolist() == [0, 0, 0, 1]


async def test_equal_transcripts_are_computed_once() -> None:
    """The counters tell computed states from those that were known, and closing forgets them."""
    encoder = HashedEncoder()
    for _ in range(3):
        await encoder.encode(("a b",))
    assert (encoder.counters.states, encoder.counters.tokens, encoder.counters.hits) == (1, 2, 2)
    encoder.close()
    await encoder.encode(("a b",))
    assert encoder.counters.states == 2


def test_name_and_settings_identify_the_projection() -> None:
    """Both d and seed are in the name, and the settings are JSON."""
    assert len({HashedEncoder().name, HashedEncoder(32).name, HashedEncoder(seed=1).name}) == 3
    assert json.loads(json.dumps(HashedEncoder().settings()))["encoder"] == HashedEncoder().name


QUESTION = f"Which? {marker('sums', 'Answer: right', 'Answer: wrong')}"
SKILLS = {"good": {"sums": 1.0}, "bad": {"sums": 0.0}}


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    """A server that fails only where a prompt asks for it."""
    async with FaultServer(script=skill_script(SKILLS)) as one:
        yield one


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that knows nothing of this project, with a read timeout of its own."""
    timeout = aiohttp.ClientTimeout(total=20, sock_read=0.2)
    async with aiohttp.ClientSession(timeout=timeout) as one:
        yield one


def body(content: str = QUESTION, model: str = "good", **more: Any) -> dict[str, Any]:
    """A chat completion request."""
    return {"model": model, "messages": [{"role": "user", "content": content}], **more}


async def post(
    session: aiohttp.ClientSession, server: FaultServer, content: Any, request_id: str = ""
) -> tuple[int, bytes, Mapping[str, str]]:
    """Status, body and headers of one attempt."""
    headers = {ID_HEADER: request_id} if request_id else {}
    async with session.post(f"{server.url}/chat/completions", json=content, headers=headers) as response:
        return response.status, await response.read(), response.headers


async def meet(session: aiohttp.ClientSession, server: FaultServer, fault: Fault) -> tuple[int, Any]:
    """Status and decoded answer of an attempt that meets `fault`."""
    status, content, _ = await post(session, server, body(f"{QUESTION} {fault_marker(fault)}"))
    return status, json.loads(content)


class TestOnTheWire:
    """What a client sees."""

    async def test_a_good_answer_is_scripted_and_says_what_it_cost(
        self, session: aiohttp.ClientSession, server: FaultServer
    ) -> None:
        """The skill of the model decides the text; usage adds up and is what the server counts."""
        status, content, _ = await post(session, server, body(temperature=0))
        answer = json.loads(content)
        assert (status, answer["choices"][0]["finish_reason"]) == (200, "stop")
        assert answer["choices"][0]["message"]["content"] == "Answer: right"
        usage = server.counts.billed["good"]
        assert answer["usage"]["prompt_tokens"] == usage.input_tokens > 0
        assert answer["usage"]["completion_tokens"] == usage.output_tokens > 0
        assert answer["usage"]["total_tokens"] == usage.total_tokens
        wrong = json.loads((await post(session, server, body(model="bad")))[1])
        assert wrong["choices"][0]["message"]["content"] == "Answer: wrong"

    @pytest.mark.parametrize("fault", list(REFUSALS))
    async def test_refusals_have_their_status(
        self, session: aiohttp.ClientSession, server: FaultServer, fault: Fault
    ) -> None:
        """Every fault that is a status comes as that status with an error object, and bills nothing."""
        status, answer = await meet(session, server, fault)
        assert status == REFUSALS[fault][0]
        assert answer["error"]["message"] == REFUSALS[fault][2]
        assert (server.counts.refused, server.counts.spend().weighted_tokens) == (1, 0)

    async def test_retry_after_is_a_header_of_one_of_the_two(
        self, session: aiohttp.ClientSession, server: FaultServer
    ) -> None:
        """One kind of 429 says how long to wait, the other does not."""
        for fault, wait in ((Fault.RATE_LIMIT, None), (Fault.RATE_LIMIT_AFTER, "0.01")):
            _, _, headers = await post(session, server, body(fault_marker(fault)))
            assert headers.get("Retry-After") == wait

    @pytest.mark.parametrize("fault", [Fault.HANG, Fault.CLOSED, Fault.CUT])
    async def test_no_whole_answer_comes(
        self, session: aiohttp.ClientSession, server: FaultServer, fault: Fault
    ) -> None:
        """A hang runs into the client's timeout, a broken connection breaks; the model's work counts as wasted."""
        errors = {
            Fault.HANG: aiohttp.SocketTimeoutError,
            Fault.CLOSED: aiohttp.ServerDisconnectedError,
            Fault.CUT: aiohttp.ClientPayloadError,
        }
        with pytest.raises((errors[fault], aiohttp.ClientOSError)):
            await meet(session, server, fault)
        await server.close()  # waits for what is open
        assert (server.counts.lost, server.counts.answered) == (1, 0)
        assert server.counts.spend(wasted=False).weighted_tokens == 0
        assert server.counts.spend().weighted_tokens > 0

    @pytest.mark.parametrize("fault", [Fault.HALF_JSON, Fault.HTML])
    async def test_malformed_bodies_are_no_json(
        self, session: aiohttp.ClientSession, server: FaultServer, fault: Fault
    ) -> None:
        """The body arrives whole, with status 200, and cannot be read."""
        with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
            await meet(session, server, fault)
        assert server.counts.lost == 1

    async def test_answers_that_lack_something(self, session: aiohttp.ClientSession, server: FaultServer) -> None:
        """No choices, no text, half a text, no usage: each by its own fault and billed as what it is."""
        assert (await meet(session, server, Fault.WRONG_SHAPE))[1]["choices"] == []
        for fault, text, finish in (
            (Fault.EMPTY, "", "stop"),
            (Fault.TRUNCATED, "Answer", "length"),
            (Fault.FILTERED, "Answer", "content_filter"),
            (Fault.NO_USAGE, "Answer: right", "stop"),
            (Fault.SLOW, "Answer: right", "stop"),
        ):
            before = server.counts.spend().weighted_tokens
            _, answer = await meet(session, server, fault)
            (choice,) = answer["choices"]
            assert (choice["message"]["content"], choice["finish_reason"]) == (text, finish)
            assert ("usage" in answer) is (fault is not Fault.NO_USAGE)
            assert server.counts.spend().weighted_tokens > before
        assert (server.counts.answered, server.counts.lost) == (5, 1)

    async def test_an_empty_answer_has_thought(self, session: aiohttp.ClientSession, server: FaultServer) -> None:
        """Empty text is billed for hidden tokens, as reasoning models do."""
        _, answer = await meet(session, server, Fault.EMPTY)
        hidden = answer["usage"]["completion_tokens_details"]["reasoning_tokens"]
        assert hidden == answer["usage"]["completion_tokens"] > 0

    async def test_nonsense_is_refused(self, session: aiohttp.ClientSession, server: FaultServer) -> None:
        """What is no chat completion request is a 400 and is not counted."""
        nonsense: list[Any] = [[], {"model": "m"}, {"messages": [{"role": "user"}], "model": "m"}, "text"]
        for content in nonsense:
            assert (await post(session, server, content))[0] == 400
        assert server.counts.received == 0

    async def test_a_request_is_known_by_its_header_or_its_body(
        self, session: aiohttp.ClientSession, server: FaultServer
    ) -> None:
        """With the header the body does not matter, without it equal bodies are one request; the first fault passes."""
        flaky = body(fault_marker(Fault.SERVER_ERROR, 1))
        statuses = [(await post(session, server, content, "a"))[0] for content in (flaky, {**flaky, "seed": 2})]
        assert statuses == [500, 200]
        statuses = [(await post(session, server, content))[0] for content in (flaky, flaky, {**flaky, "seed": 2})]
        assert statuses == [500, 200, 500]
        assert [tally.received for tally in server.counts.tallies.values()] == [2, 2, 1]

    async def test_more_at_once_than_allowed_are_refused(self, session: aiohttp.ClientSession) -> None:
        """Beyond `max_in_flight` there is 429, which is no attempt; the peak never passes it."""
        async with FaultServer(latency=lambda: 0.05, max_in_flight=2) as server:
            statuses = [
                one[0] for one in await asyncio.gather(*(post(session, server, body(str(n))) for n in range(5)))
            ]
            assert sorted(statuses) == [200, 200, 429, 429, 429]
            assert (server.counts.peak_in_flight, server.overloaded, server.counts.received) == (2, 3, 2)

    async def test_stats_are_asked_for(self, session: aiohttp.ClientSession, server: FaultServer) -> None:
        """Totals and counts by request come as JSON."""
        await post(session, server, body(), "a")
        root = server.url.removesuffix("/v1")
        async with session.get(f"{root}/stats") as response:
            totals = await response.json()
        async with session.get(f"{root}/stats/requests") as response:
            by_request = await response.json()
        assert (totals["received"], totals["answered"], totals["requests"], totals["in_flight"]) == (1, 1, 1, 0)
        assert by_request == {"a": {"received": 1, "answered": 1, "weighted_tokens": totals["weighted_tokens"]}}

    async def test_a_taken_port_is_a_line(self, server: FaultServer) -> None:
        """Two servers on one port: the second says so."""
        with pytest.raises(ConfigError, match=f"port {server.port}: .*choose another one"):
            await FaultServer(port=server.port).start()


class TestFaults:
    """The function of request hash and attempt."""

    @given(st.text(), st.integers(0, 9), st.integers(0, 9))
    def test_it_is_a_function(self, request_hash: str, attempt: int, seed: int) -> None:
        """Equal arguments give equal faults, in whatever object they are asked for."""
        first, second = (Faults(PRESETS["mixed"], seed).of(request_hash, attempt) for _ in range(2))
        assert first is second

    def test_rates_are_met(self) -> None:
        """Over many hashes each fault has its share, at each attempt, and attempts are independent."""
        faults = Faults({Fault.HANG: 0.3, Fault.EMPTY: 0.1})
        drawn = [[faults.of(str(number), attempt) for number in range(5000)] for attempt in (0, 1)]
        for attempts in drawn:
            assert attempts.count(Fault.HANG) / 5000 == pytest.approx(0.3, abs=0.03)
            assert attempts.count(Fault.EMPTY) / 5000 == pytest.approx(0.1, abs=0.02)
        both = sum(a is b is Fault.HANG for a, b in zip(*drawn, strict=True))
        assert both / 5000 == pytest.approx(0.09, abs=0.02)

    @pytest.mark.parametrize("rates", [{Fault.HANG: 0.6, Fault.CUT: 0.5}, {Fault.HANG: -0.1}])
    def test_rates_that_are_none_are_refused(self, rates: dict[Fault, float]) -> None:
        """A sum above one or a negative rate is a mistake."""
        with pytest.raises(ConfigError, match="add up to at most 1"):
            Faults(rates)

    def test_presets_and_files(self, tmp_path: Path) -> None:
        """A preset by its name, a file with rates and waits."""
        file = tmp_path / "faults.json"
        file.write_text('{"rates": {"hang": 0.5}, "retry_after_s": 3}')
        read = Faults.read(str(file), seed=4)
        assert (read.rates, read.seed, read.retry_after_s) == ({Fault.HANG: 0.5}, 4, 3.0)
        assert Faults.read("mixed").rates == PRESETS["mixed"]

    @pytest.mark.parametrize(
        ("content", "line"),
        [
            ('{"rates": {"hangs": 0.5}}', "unknown fault 'hangs'; did you mean 'hang'"),
            ('{"rates": {"hang": "often"}}', "'often' must be a number"),
            ('{"retry_after": 1}', "unknown key 'retry_after'; did you mean 'retry_after_s'"),
            ("[]", "must hold an object"),
            ("{", "no preset and no JSON file"),
        ],
    )
    def test_wrong_files_are_lines(self, tmp_path: Path, content: str, line: str) -> None:
        """Each mistake names itself and what would be right."""
        file = tmp_path / "faults.json"
        file.write_text(content)
        with pytest.raises(ConfigError, match=line):
            Faults.read(str(file))


def foretold(*faults: Fault, attempts: int = 3) -> Expected:
    """What must come of a request whose attempts meet `faults`, then none."""
    request = Request("e", "m", ({"role": "user", "content": "How many?"},), {}, {})
    script: Callable[[Request, int], Fault] = lambda _, attempt: (*faults, *[Fault.OK] * 9)[attempt]  # noqa: E731
    return expected(request, lambda asked: reply_to(asked, "Answer: 12"), Faults(scripted=script), attempts)


class TestExpected:
    """The design's table of outcomes, cell by cell."""

    @pytest.mark.parametrize(
        ("faults", "outcome", "attempts"),
        [
            ((Fault.OK,), "answered", 1),
            *[((fault,), "answered", 2) for fault in sorted(WASTED)],
            ((Fault.RATE_LIMIT, Fault.RATE_LIMIT_AFTER), "answered", 3),
            ((Fault.REQUEST_TIMEOUT, Fault.CONFLICT), "answered", 3),
            ((Fault.SERVER_ERROR, Fault.HANG, Fault.CUT), "error", 3),
            ((Fault.EMPTY,), "answered", 2),
            ((Fault.EMPTY, Fault.EMPTY), "no_answer", 2),
            ((Fault.EMPTY, Fault.HTML, Fault.EMPTY), "no_answer", 3),
            ((Fault.EMPTY, Fault.TRUNCATED), "truncated", 2),
            ((Fault.TRUNCATED,), "truncated", 1),
            ((Fault.FILTERED,), "refused", 1),
            ((Fault.NO_USAGE,), "answered", 1),
            ((Fault.SLOW,), "answered", 1),
            ((Fault.TOO_LONG,), "truncated", 1),
            ((Fault.TOO_LARGE,), "truncated", 1),
            ((Fault.FILTERED_REQUEST,), "refused", 1),
            ((Fault.BAD_REQUEST,), "error", 1),
            ((Fault.UNPROCESSABLE,), "error", 1),
            ((Fault.HANG, Fault.UNAUTHORIZED), "stopped", 2),
            *[((fault,), "stopped", 1) for fault in (Fault.PAYMENT_REQUIRED, Fault.FORBIDDEN, Fault.NOT_FOUND)],
        ],
    )
    def test_outcome(self, faults: tuple[Fault, ...], outcome: str, attempts: int) -> None:
        """Retried by class up to the limit, an empty answer once more, the rest at once."""
        result = foretold(*faults)
        assert (result.outcome, result.attempts) == (outcome, attempts)
        assert (result.reply is None) is (outcome in ("error", "stopped"))

    def test_every_complete_answer_is_billed(self) -> None:
        """An empty answer that is asked again is paid too, a refused attempt is not."""
        once, again = foretold(), foretold(Fault.EMPTY)
        assert once.reply is not None
        assert again.reply is not None
        assert once.billed == once.reply.usage == Usage(3, 3)
        assert again.billed == again.reply.usage == Usage(6, 3, 3)
        assert foretold(Fault.TOO_LONG).billed == Usage()
        assert foretold(Fault.EMPTY, Fault.HANG, Fault.HANG).billed == Usage(3, 0, 3)

    def test_missing_usage_is_estimated_and_billed_truly(self) -> None:
        """The client counts and says so, the provider bills what it was."""
        result = foretold(Fault.NO_USAGE)
        assert result.reply is not None
        assert (result.reply.usage, result.billed) == (Usage(3, 3, estimated=True), Usage(3, 3))


class TestCounts:
    """The log and what it amounts to."""

    async def test_the_log_outlives_the_server(self, session: aiohttp.ClientSession, tmp_path: Path) -> None:
        """Counts read from the log are the server's, and a second server goes on counting attempts from there."""
        log = tmp_path / "events.jsonl"
        flaky = body(f"{QUESTION} {fault_marker(Fault.SERVER_ERROR, 1)}")
        async with FaultServer(log=log) as first:
            assert (await post(session, first, flaky))[0] == 500
            await post(session, first, body())
        assert Counts.read(log) == first.counts
        with log.open("ab") as killed:
            killed.write(Event(time.monotonic(), "received", "open", 0, "good", Fault.OK).to_line())
        async with FaultServer(log=log) as second:
            assert (await post(session, second, flaky))[0] == 200
        assert (second.counts.received, second.counts.answered, second.counts.refused) == (4, 2, 1)
        assert second.counts.in_flight == 0

    async def test_asking_again_is_seen(self, session: aiohttp.ClientSession, tmp_path: Path) -> None:
        """A request that comes after its good answer is listed with both times; one after an empty answer is not."""
        log = tmp_path / "events.jsonl"
        async with FaultServer(log=log) as server:
            for content in (body(fault_marker(Fault.EMPTY, 1)), body()):
                for _ in range(2):
                    await post(session, server, content, content["messages"][0]["content"])
        (again,) = server.counts.asked_again
        assert again.request_hash == QUESTION
        assert again.answered_at < again.received_at
        assert [event.kind for event in read_log(log)] == ["received", "answered"] * 4

    async def test_a_line_cut_by_a_kill_is_left_out(self, tmp_path: Path) -> None:
        """Half of a last line is no event; a damaged line before it is named."""
        log = tmp_path / "events.jsonl"
        whole = Event(1.0, "received", "h", 0, "m", Fault.OK).to_line()
        log.write_bytes(whole + whole[:20])
        assert list(read_log(log)) == [Event(1.0, "received", "h", 0, "m", Fault.OK)]
        log.write_bytes(b"{}\n" + whole)
        with pytest.raises(ConfigError, match=r"events.jsonl:1: not a line of a fault server's log"):
            Counts.read(log)

    async def test_spend_is_priced_by_model(self, session: aiohttp.ClientSession, server: FaultServer) -> None:
        """USD follows the prices of the models; one without a price makes the sum unknown, never smaller."""
        await post(session, server, body())
        usage = server.counts.billed["good"]
        price = Price(1.0, 2.0, "test")
        usd = (usage.input_tokens + 2 * usage.output_tokens) / 1e6
        assert server.counts.spend({"good": price}).usd == pytest.approx(usd)
        assert server.counts.spend().usd is None
        assert server.counts.spend()[1:] == (usage.weighted_tokens, 1)


def run_skipping(main: Coroutine[Any, Any, T]) -> T:
    """Run on the loop under test."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(main)


class TestSkippingLoop:
    """A clock that jumps."""

    def test_waits_keep_their_order_and_length(self) -> None:
        """Hours pass on the loop's clock in the order of the timers, and hardly any time outside."""

        async def main() -> tuple[list[int], float]:
            loop, ended = asyncio.get_running_loop(), list[int]()

            async def wait(hours: int) -> None:
                await asyncio.sleep(3600 * hours)
                ended.append(hours)

            start = loop.time()
            await asyncio.gather(wait(3), wait(1), wait(2))
            return ended, loop.time() - start

        start = time.monotonic()
        ended, waited = run_skipping(main())
        assert ended == [1, 2, 3]
        assert waited >= 3 * 3600
        assert time.monotonic() - start < 600

    def test_only_what_hangs_times_out(self) -> None:
        """An answer that takes a minute comes before a timeout of an hour, which a hang runs into."""

        async def main() -> list[int]:
            timeout = aiohttp.ClientTimeout(total=None, sock_read=3600)
            async with FaultServer(latency=lambda: 60.0) as server, aiohttp.ClientSession(timeout=timeout) as session:
                good = (await post(session, server, body()))[0]
                with pytest.raises(aiohttp.SocketTimeoutError):
                    await meet(session, server, Fault.HANG)
                return [good, server.counts.answered]

        assert run_skipping(main()) == [200, 1]


class TestCommand:
    """The server as a process of its own."""

    async def test_it_prints_port_and_counts(self, session: aiohttp.ClientSession, tmp_path: Path) -> None:
        """The first line is the port; SIGTERM ends it with exit code 0 and its counts, which the log has too."""
        (tmp_path / "skills.json").write_text(json.dumps(SKILLS))
        words = (
            "--faults",
            "mixed",
            "--seed",
            "3",
            "--skills",
            "skills.json",
            "--log",
            "log",
            "--latency-ms",
            "0",
            "1",
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trinity.testing.server", *words),
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(await process.stdout.readline())}/v1/chat/completions"
        calm = next(str(n) for n in range(99) if Faults.read("mixed", 3).of(str(n), 0) is Fault.OK)
        async with session.post(url, json=body(), headers={ID_HEADER: calm}) as response:
            answer = await response.json()
        process.send_signal(signal.SIGTERM)
        rest, _ = await process.communicate()
        assert answer["choices"][0]["message"]["content"] == "Answer: right"
        assert process.returncode == 0
        assert json.loads(rest) == {**Counts.read(tmp_path / "log").to_json(), "overloaded": 0}

    def test_a_mistake_is_one_line(self, tmp_path: Path) -> None:
        """An unknown preset is exit code 2 with what there is."""
        done = subprocess.run(
            [sys.executable, "-m", "trinity.testing.server", "--faults", "mixd"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "presets are none, mixed" in done.stderr


def test_the_documented_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The example of `docs/testing.md` ends as it foretells."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text("utf-8"), re.DOTALL)
    exec(compile(example, "docs/testing.md", "exec"), {})
    assert "answered True {'received': 2, 'answered': 1, 'refused': 1" in capsys.readouterr().out
