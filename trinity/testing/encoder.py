"""An encoder without weights, for everything that needs states and not meaning."""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trinity.coordinator.encoder import Counters, State

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
