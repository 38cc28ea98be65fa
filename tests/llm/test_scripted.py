"""Scripted answers."""

from __future__ import annotations

import pytest

from tests.llm.support import make_request, messages
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.llm.transports.scripted import ScriptedTransport, SkillScript, marker, reply_to, skills


def ask(content: str, model: str = "m", sample: int = 0) -> Request:
    """A request of one question."""
    return make_request(model=model, messages=tuple(messages(content)), sample=sample)


async def test_answers_may_be_values_coroutines_and_failures() -> None:
    """A script says what it likes in whichever way, and every request is counted."""

    async def later(request: Request) -> Reply | Exception:
        return reply_to(request, "later")

    request = make_request()
    for script, text in ((lambda r: reply_to(r, "now"), "now"), (later, "later")):
        assert (await ScriptedTransport(script).send(request, 0)).text == text
    failing = ScriptedTransport(lambda _: TransportError("server", "down"))
    for _ in range(2):
        with pytest.raises(TransportError, match="down"):
            await failing.send(request, 0)
    assert failing.sent == {request.hash: 2}


def test_skill_decides_between_the_two_marked_texts() -> None:
    """Probability 1 is always right, 0 and an unknown domain always wrong."""
    script = SkillScript({"m": {"sums": 1.0, "words": 0.0}})
    for sample in range(20):
        assert script(ask("Add. " + marker("sums", "Answer: 3", "Answer: 4"), sample=sample)).text == "Answer: 3"
        assert script(ask(marker("words", "yes", "no"), sample=sample)).text == "no"
        assert script(ask(marker("chess", "yes", "no"), sample=sample)).text == "no"
        assert script(ask(marker("sums", "yes", "no"), model="other", sample=sample)).text == "no"


def test_probabilities_hold_and_equal_requests_answer_equally() -> None:
    """A skill of .3 is right on 30 % of the samples, the same ones each time."""
    script = SkillScript({"m": {"sums": 0.3}})
    texts = [script(ask(marker("sums", "1", "0"), sample=sample)).text for sample in range(2000)]
    assert 0.27 < texts.count("1") / 2000 < 0.33
    assert texts == [script(ask(marker("sums", "1", "0"), sample=sample)).text for sample in range(2000)]


def test_first_marker_counts() -> None:
    """A marker that an earlier answer repeats further down does not change the question."""
    script = SkillScript({"m": {"sums": 1.0}})
    text = marker("sums", "first", "x") + "\n" + marker("sums", "second", "y")
    assert script(ask(text)).text == "first"


def test_question_without_marker_gets_no_answer() -> None:
    """Nothing is made up."""
    assert "know" in SkillScript({})(ask("How many?")).text


async def test_latencies_are_drawn_anew_and_leave_answers_alone() -> None:
    """Two transports with random latencies give the same text."""
    request = ask(marker("sums", "3", "4"))
    replies = [await skills({"m": {"sums": 0.5}}, latency_ms=[0, 1]).send(request, 0) for _ in range(5)]
    assert len({reply.text for reply in replies}) == 1
