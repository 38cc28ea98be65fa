"""Tasks whose questions say what is right and wrong, and scripted agents that answer them with known skill."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from trinity.canonical import digest
from trinity.coordinator.protocol import prompt
from trinity.llm.transports.base import Reply, Request
from trinity.llm.transports.scripted import ScriptedTransport, SkillScript, marker, reply_to
from trinity.types import Episode, Grade, Item, Judge, Message, Redistribute, Split


class SkillTask:
    """A task of marked questions that scripted agents of known skill answer; implements `trinity.types.Task`.

    The words of its questions are its own, so an encoder can tell tasks apart. `n_*` are items per split.
    """

    licence = "Apache-2.0"
    redistribute: Redistribute = "yes"
    threshold = 1.0
    chance = 0.0
    grader = "skill/1"

    def __init__(
        self, name: str, *, n_train: int = 0, n_val: int = 0, n_test: int = 0, comparable: bool = True
    ) -> None:
        """`comparable` False makes answers that cannot be voted on."""
        self.name, self.comparable = name, comparable
        self.sizes: dict[Split, int] = {"train": n_train, "val": n_val, "test": n_test}

    def items(self, split: Split) -> Iterator[Item]:
        """The items of a split."""
        for number in range(self.sizes[split]):
            place = f"{self.name}-{split}-{number}"
            words = " ".join(f"{self.name}{letter}" for letter in "abcdef")
            prompt = f"{place} {words} {marker(self.name, f'Answer: {number}', 'Answer: wrong')}"
            yield Item(place, self.name, prompt, str(number), self.name, float(number % 4), "constructed")

    def fingerprint(self) -> str:
        """Hash of name and sizes, which fix the items."""
        return digest([self.name, self.sizes])

    def open(self, item: Item) -> list[Message]:
        """The question as it is."""
        return [{"role": "user", "content": item.prompt}]

    def reply(self, item: Item, episode: Episode) -> list[Message] | None:
        """Nothing: one answer ends an item."""
        return None

    def key(self, item: Item, text: str) -> str | None:
        """What follows the last `Answer:`."""
        _, found, answer = text.rpartition("Answer: ")
        return answer.strip() if found else None

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """1 where the key is the target."""
        answer = self.key(item, episode.answer or "")
        return Grade(float(answer == item.target), answer)


@dataclass(frozen=True)
class TeamScript:
    """Scripted agents for the coordinator's loop: workers of known skill, thinkers that help nobody, true verifiers.

    `skills[model][task]` is the probability of a right answer (0 where none is given).
    """

    skills: Mapping[str, Mapping[str, float]]

    def __call__(self, request: Request) -> Reply:
        """Answer in the role that the system message gives."""
        system = request.messages[0]["content"]
        if system == prompt("thinker_system"):
            return reply_to(request, "Read the question again.")
        if system == prompt("verifier_system"):
            return reply_to(request, self._verdict(request.messages[-1]["content"]))
        return SkillScript(self.skills)(request)

    def _verdict(self, text: str) -> str:
        right = re.search(r"\| right (.*?) \|", text)
        answers = re.findall(r"^\| (Answer: .*)$", text, flags=re.MULTILINE)
        return "ACCEPT" if right and answers and answers[-1] == right[1] else "REVISE, it is wrong."


def team(skills: Mapping[str, Mapping[str, float]], latency_ms: Sequence[float] | None = None) -> ScriptedTransport:
    """A transport of a `TeamScript`, for a config; latencies in milliseconds are drawn between two bounds."""
    latency = None if latency_ms is None else partial(random.SystemRandom().uniform, *(ms / 1000 for ms in latency_ms))
    return ScriptedTransport(TeamScript(skills), latency, endpoint_id="scripted:team")
