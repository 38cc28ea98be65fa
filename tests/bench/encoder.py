"""Bench: the fifth decision of an episode with the prefix cache against one full pass without it."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from trinity.coordinator.encoder import TransformersEncoder, from_registry

REPEATS = 5
QUESTION_TOKENS = 150
TURN_TOKENS = 100
TURNS_SO_FAR = 4  # the fifth decision reads the question and four turns, the last of them new
WORDS = ("red", "blue", "green", "seven", "eight", "nine", "ten", "apple", "pear", "plum", "train", "farm", "field")


def _text(encoder: TransformersEncoder, label: str, n_tokens: int) -> str:
    """About `n_tokens` tokens of text that no other label shares."""
    words = [label]
    while len(encoder._framing.tokens(" ".join(words))) < n_tokens:
        words.append(WORDS[len(words) % len(WORDS)])
    return " ".join(words)


def full_pass(encoder: TransformersEncoder, chunks: tuple[str, ...]) -> NDArray[np.float32]:
    """The state, shape (d,), from a single pass over the whole input, nothing reused or kept."""

    def read() -> NDArray[np.float32]:
        prefix, last = encoder._framing.pieces(chunks)
        with torch.inference_mode():
            return encoder._read(encoder._forward(list(chain(*prefix, last)), DynamicCache()))

    return encoder._worker.submit(read).result()


async def _measure(encoder: TransformersEncoder) -> list[tuple[float, float]]:
    """Seconds with and without the cache, taken in turn so that a busy machine slows both."""
    times = []
    for repeat in range(REPEATS + 1):
        earlier = [_text(encoder, f"question {repeat}", QUESTION_TOKENS)]
        earlier += [_text(encoder, f"turn {turn} {repeat}", TURN_TOKENS) for turn in range(1, TURNS_SO_FAR)]
        chunks = (*earlier, _text(encoder, f"newest {repeat}", TURN_TOKENS))
        for end in range(1, len(chunks)):
            await encoder.encode(chunks[:end])
        start = time.perf_counter()
        await encoder.encode(chunks)
        middle = time.perf_counter()
        full_pass(encoder, chunks)
        times.append((middle - start, time.perf_counter() - middle))
    return times[1:]  # the first one warms the libraries up


def main() -> None:
    """Print the comparison as one JSON line."""
    encoder = from_registry("smollm2-135m-instruct", threads=1)
    cached, full = (statistics.median(seconds) for seconds in zip(*asyncio.run(_measure(encoder)), strict=True))
    encoder.close()
    line = {"bench": "encoder: decision 5 with the prefix cache", "value": round(cached, 4), "unit": "s"}
    line |= {"rival": "one full pass", "rival_value": round(full, 4), "ratio": round(cached / full, 3)}
    print(json.dumps({**line, "target": "rival_value >= 3 x value", "ok": full >= 3 * cached}))


if __name__ == "__main__":
    main()
