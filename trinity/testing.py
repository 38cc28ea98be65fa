"""Public fakes for tests: the shapes of the real thing, without weights, servers or money."""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trinity.canonical import digest
from trinity.coordinator.encoder import Counters, State
from trinity.coordinator.protocol import prompt
from trinity.llm.transports.base import Reply, Request
from trinity.llm.transports.scripted import ScriptedTransport, SkillScript, marker, reply_to
from trinity.types import Client, Episode, Grade, Item, Message, Redistribute, Split

_WORD = re.compile(r"\w+")
_BLOCK_BITS = 512


class HashedEncoder:
    """An encoder without weights: a seeded random projection of the words of all chunks, plus a bias.

    Every word owns a vector of random signs (blake2b of seed and word); a state is their sum over the transcript's
    words, counted and folded in case, scaled to norm sqrt(d - 1), and a last entry of 1. So entries look
    like N(0, 1), the norm is sqrt(d) and transcripts that share words are alike. Equal on every machine.

    Args:
        d: length of a state, at least 2.
        seed: of the projection.
    """

    def __init__(self, d: int = 64, seed: int = 0) -> None:
        self.d = d
        self.name = f"hashed/{d}/{seed}"
        self.counters = Counters()
        self._seed = seed
        self._states: dict[tuple[str, ...], State] = {}
        self._words: dict[str, NDArray[np.float64]] = {}

    async def encode(self, chunks: tuple[str, ...]) -> State:
        """State of a transcript; `tokens` are its words."""
        if chunks in self._states:
            self.counters.hits += 1
        else:
            self._states[chunks] = self._state(chunks)
        return self._states[chunks]

    def settings(self) -> dict[str, Any]:
        """What the manifest keeps."""
        return {"encoder": self.name, "d": self.d, "seed": self._seed}

    def close(self) -> None:
        """Forget states and words."""
        self._states.clear()
        self._words.clear()

    def _state(self, chunks: tuple[str, ...]) -> State:
        words = [word for chunk in chunks for word in _WORD.findall(chunk.casefold())]
        for word in words:
            if word not in self._words:
                self._words[word] = self._signs(word)
        total = sum((self._words[word] for word in words), np.zeros(self.d - 1))
        norm = float(np.linalg.norm(total))
        scale = math.sqrt(self.d - 1) / norm if norm else 0.0
        vector = np.append(total * scale, 1.0).astype(np.float32)
        vector.flags.writeable = False
        self.counters.states += 1
        self.counters.tokens += len(words)
        return State(vector, len(words))

    def _signs(self, word: str) -> NDArray[np.float64]:
        """Random signs (d - 1,) of a word."""
        blocks = range(-(-(self.d - 1) // _BLOCK_BITS))
        data = b"".join(
            hashlib.blake2b(f"{self._seed}\x1f{block}\x1f{word}".encode("utf-8", "surrogatepass")).digest()
            for block in blocks
        )
        bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8))[: self.d - 1]
        signs: NDArray[np.float64] = np.where(bits, 1.0, -1.0)
        return signs


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
        self._sizes: dict[Split, int] = {"train": n_train, "val": n_val, "test": n_test}

    def items(self, split: Split) -> Iterator[Item]:
        """The items of a split."""
        for number in range(self._sizes[split]):
            place = f"{self.name}-{split}-{number}"
            words = " ".join(f"{self.name}{letter}" for letter in "abcdef")
            prompt = f"{place} {words} {marker(self.name, f'Answer: {number}', 'Answer: wrong')}"
            yield Item(place, self.name, prompt, str(number), self.name, float(number % 4), "constructed")

    def fingerprint(self) -> str:
        """Hash of name and sizes, which fix the items."""
        return digest([self.name, self._sizes])

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

    async def grade(self, item: Item, episode: Episode, judge: Client | None) -> Grade:
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
