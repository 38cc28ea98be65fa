"""Tasks that say something back, one that a model grades, and scripted agents for them; a config can name them too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import SystemRandom
from typing import Any

from trinity.canonical import digest, sha256
from trinity.coordinator.protocol import prompt
from trinity.errors import ConfigError, GraderError
from trinity.llm.transports.base import Reply, Request
from trinity.llm.transports.scripted import ScriptedTransport, reply_to
from trinity.types import Episode, Grade, Item, Judge, Message, Redistribute, Split

HIGHEST = 15
_LAST = re.compile(r"Answer: *(\d+)")


class Talk:
    """A task of `n_*` numbers to find; what is said back is its subclasses' business."""

    licence = "Apache-2.0"
    redistribute: Redistribute = "yes"
    threshold = 1.0
    chance = 0.0
    comparable = True
    grader = "talk/1"

    def __init__(self, name: str, *, n_train: int = 4, n_val: int = 3, n_test: int = 6) -> None:
        self.name = name
        self._sizes: dict[Split, int] = {"train": n_train, "val": n_val, "test": n_test}

    def items(self, split: Split) -> Iterator[Item]:
        """Each item is a number from 0 to 15."""
        for number in range(self._sizes[split]):
            place = f"{self.name}-{split}-{number}"
            yield Item(place, self.name, f"{place}: which number?", str(7 * number % (HIGHEST + 1)), "numbers")

    def fingerprint(self) -> str:
        """Hash of name and sizes, which fix the items."""
        return digest([self.name, self._sizes])

    def open(self, item: Item) -> list[Message]:
        """The question, and in it what a script may read."""
        return [{"role": "user", "content": f"{item.prompt} [secret {item.target}]"}]

    def reply(self, item: Item, episode: Episode) -> list[Message] | None:
        """Nothing."""
        return None

    def key(self, item: Item, text: str) -> str | None:
        """The last number that is declared."""
        found = _LAST.findall(text)
        return found[-1] if found else None

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """1 where the last answer is the number."""
        answer = self.key(item, episode.answer or "")
        return Grade(float(answer == item.target), answer)


class TwoTurns(Talk):
    """Asks for the number, then for its successor; half a point each. The record's answer is both."""

    rounds = 2
    reply_bytes = 200

    def reply(self, item: Item, episode: Episode) -> list[Message] | None:
        """The second question after the first answer."""
        if len(episode.replies) > 1:
            return None
        return [{"role": "user", "content": f"And the next one? [secret {int(item.target) + 1}]"}]

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """The mean of both turns."""
        wanted = [int(item.target), int(item.target) + 1]
        answers = [self.key(item, text) for text in episode.replies]
        right = sum(answer == str(number) for answer, number in zip(answers, wanted, strict=False))
        return Grade(right / 2, " ".join(map(str, answers)) if any(answers) else None)


class HigherLower(Talk):
    """Says of every guess whether the number is higher or lower, four times at most."""

    rounds = 5
    reply_bytes = 100

    def reply(self, item: Item, episode: Episode) -> list[Message] | None:
        """Where the number lies; nothing once it is found or the guesses are used up."""
        guess = self.key(item, episode.answer or "")
        if guess == item.target or len(episode.replies) == self.rounds:
            return None
        side = "higher" if int(item.target) > int(guess or 0) else "lower"
        return [{"role": "user", "content": f"It is {side} than {int(guess or 0)}."}]


class Judged(TwoTurns):
    """Two turns, graded by a model that is asked twice for each."""

    judged = True
    judge_calls = 4

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """The mean of the verdicts.

        Raises:
            GraderError: there is no judge, or it gives no verdict.
        """
        if judge is None:
            raise GraderError("no judge")
        points = [await self._points(judge, item, turn, text) for turn, text in enumerate(episode.replies)]
        return Grade(sum(points) / self.rounds, f"{len(points)} judged")

    async def _points(self, judge: Judge, item: Item, turn: int, text: str) -> float:
        content = f"[judge {int(item.target) + turn}] Is it in this text?\n{text}"
        verdicts = [(await judge.ask([{"role": "user", "content": content}])).text for _ in range(2)]
        if not set(verdicts) <= {"yes", "no"}:
            raise GraderError(f"the judge says {verdicts[0]!r}")
        return verdicts.count("yes") / 2


@dataclass
class Facts:
    """What the task `Watched` notes, and what it is told to do."""

    heard: list[str] = field(default_factory=list)
    scale: float = 1.0
    broken: str = ""


FACTS = Facts()


class Watched(Talk):
    """A task that has to be made ready; `FACTS` tells what was called and how its machine is."""

    async def ready(self) -> None:
        """Note it; a broken machine refuses."""
        FACTS.heard.append("ready")
        if FACTS.broken:
            raise ConfigError(FACTS.broken)

    def facts(self) -> Mapping[str, Any]:
        """A scale, and rows that were left out."""
        return {"scale": FACTS.scale, "left_out": {"test": {"no [bold]test[/bold]": 3}, "train": {}}}

    async def close(self) -> None:
        """Note it."""
        FACTS.heard.append("close")

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """As any, once it is ready."""
        if FACTS.heard[-1] != "ready":
            raise GraderError("it is not ready")
        return await super().grade(item, episode, judge)


@dataclass(frozen=True)
class Speaker:
    """Scripted agents: `skills[model]` is the chance of a right answer, drawn by the request alone.

    Thinkers help nobody; verifiers accept every second time. A model called `judge` says whether the number that it is
    asked about stands in the text.
    """

    skills: Mapping[str, float]

    def __call__(self, request: Request) -> Reply:
        """Answer in the role that the messages give."""
        system, text = request.messages[0]["content"], request.messages[-1]["content"]
        if text.startswith("[judge "):
            number, _, shown = text.removeprefix("[judge ").partition("]")
            return reply_to(request, "yes" if f"Answer: {number}" in shown else "no")
        if system == prompt("thinker_system"):
            return reply_to(request, "Look again.")
        if system == prompt("verifier_system"):
            return reply_to(request, "ACCEPT" if self.draw(request) < 0.5 else "REVISE")
        return reply_to(request, self._answer(request))

    def draw(self, request: Request) -> float:
        """A number in [0, 1) that belongs to the request."""
        return int(sha256(request.hash)[:8], 16) / 16**8

    def _answer(self, request: Request) -> str:
        low, high = bounds(request.messages)
        if low > 0 or high < HIGHEST:
            return f"Answer: {(low + high) // 2}"
        found = re.findall(r"\[secret (\d+)\]", request.messages[-1]["content"])
        right = found and self.draw(request) < self.skills.get(request.model, 0.0)
        return f"Answer: {found[-1] if right else HIGHEST // 2}"


def bounds(messages: Sequence[Message]) -> tuple[int, int]:
    """Between which numbers the one that is looked for lies, as far as it was said."""
    said = "\n".join(message["content"] for message in messages if message["role"] == "user")
    low = max([int(number) + 1 for number in re.findall(r"higher than (\d+)", said)], default=0)
    high = min([int(number) - 1 for number in re.findall(r"lower than (\d+)", said)], default=HIGHEST)
    return low, high


SKILLS = {"ann": 0.9, "bob": 0.5, "cat": 0.2}


def speakers(
    skills: Mapping[str, float] | None = None,
    latency_ms: Sequence[float] | None = None,
    says: Callable[[Request], Reply | Exception] | None = None,
) -> ScriptedTransport:
    """A transport of a `Speaker`, or of another script; latencies in milliseconds are drawn between two bounds."""
    latency = None if latency_ms is None else partial(SystemRandom().uniform, *(ms / 1000 for ms in latency_ms))
    return ScriptedTransport(says or Speaker(skills or SKILLS), latency, endpoint_id="scripted:speakers")
