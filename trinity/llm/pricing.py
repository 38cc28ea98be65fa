"""What a call cost: USD from a price, GFLOP from a parameter count, tokens where the provider counted none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from trinity.types import Agent, Message, Price, Usage

CountTokens = Callable[[str], int]

_MILLION = 1e6
_GIGA = 1e9
_BYTES_PER_TOKEN = 4


def rough_tokens(text: str) -> int:
    """Tokens of `text` when no tokenizer is at hand: its UTF-8 bytes / 4, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def bpe_tokens(text: str) -> int:
    """Tokens of `text` in OpenAI's vocabulary cl100k_base, for models whose own tokenizer is not known.

    The vocabulary lies inside litellm, so no network is needed; it is loaded by the first call, which takes seconds.
    Special tokens spelled out in `text` are plain text. Of very long texts litellm counts samples.
    """
    return _token_counter()(text)


@functools.cache
def _token_counter() -> CountTokens:
    from trinity.llm.transports.litellm_api import load_litellm

    litellm = load_litellm()
    # The model stands for its vocabulary.
    return lambda text: litellm.token_counter(model="gpt-3.5-turbo", text=text)


def estimated_usage(messages: Sequence[Message], text: str, reasoning: str, count: CountTokens) -> Usage:
    """Usage of a call whose provider reported none, marked as estimated; template tokens are not known and left out."""
    return Usage(
        input_tokens=sum(count(message["content"]) for message in messages),
        output_tokens=count(text),
        reasoning_tokens=count(reasoning),
        estimated=True,
    )


def cost_usd(price: Price | None, usage: Usage) -> float | None:
    """USD of `usage`; None where the price is unknown. Cached input costs as any input where it has no own price."""
    if price is None:
        return None
    cached_usd = price.input_usd if price.cached_usd is None else price.cached_usd
    fresh = usage.input_tokens - usage.cached_tokens
    written = usage.output_tokens + usage.reasoning_tokens
    return (fresh * price.input_usd + usage.cached_tokens * cached_usd + written * price.output_usd) / _MILLION


def gflop(agent: Agent, usage: Usage) -> float | None:
    """GFLOP of `usage`: 2 x active parameters x tokens; None where the parameters are unknown."""
    if agent.active_params is None:
        return None
    return 2.0 * agent.active_params * usage.total_tokens / _GIGA
