"""What a call cost: USD from a price, GFLOP from a parameter count, tokens where the provider counted none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trinity.types import Agent, Message, Price, Usage

CountTokens = Callable[[str], int]

_MILLION = 1e6
_GIGA = 1e9
_BYTES_PER_TOKEN = 4


def rough_tokens(text: str) -> int:
    """Tokens of `text` when no tokenizer is at hand: its UTF-8 bytes / 4, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def estimated_usage(messages: Sequence[Message], text: str, reasoning: str, count: CountTokens) -> Usage:
    """Usage of a call whose provider reported none, marked as estimated; template tokens are not known and left out."""
    return Usage(
        input_tokens=sum(count(message["content"]) for message in messages),
        output_tokens=count(text),
        reasoning_tokens=count(reasoning),
        estimated=True,
    )


def cost_usd(price: Price | None, usage: Usage) -> float | None:
    """USD of `usage`; None where the price is unknown. Cached input is billed in full, for discounts differ."""
    if price is None:
        return None
    written = usage.output_tokens + usage.reasoning_tokens
    return (usage.input_tokens * price.input_usd + written * price.output_usd) / _MILLION


def gflop(agent: Agent, usage: Usage) -> float | None:
    """GFLOP of `usage`: 2 x active parameters x tokens; None where the parameters are unknown."""
    if agent.active_params is None:
        return None
    return 2.0 * agent.active_params * usage.total_tokens / _GIGA
