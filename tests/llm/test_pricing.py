"""Cost of calls."""

from __future__ import annotations

import pytest

from tests.llm.support import make_agent, messages
from trinity.llm.pricing import cost_usd, estimated_usage, gflop, rough_tokens
from trinity.types import Price, Usage

USAGE = Usage(input_tokens=1000, output_tokens=10, reasoning_tokens=90, cached_tokens=500)


def test_price_is_per_million_and_hidden_tokens_cost_as_output() -> None:
    """1000 input at 2 USD and 100 written at 10 USD per million are 0.003 USD."""
    assert cost_usd(Price(2.0, 10.0, "test"), USAGE) == pytest.approx(0.003)


def test_unknown_price_is_none_and_free_is_zero() -> None:
    """Nobody takes an unknown price for a free model."""
    assert cost_usd(None, USAGE) is None
    assert cost_usd(Price(0.0, 0.0, "own machine"), USAGE) == 0.0


def test_gflop_is_two_per_parameter_and_token() -> None:
    """Half a billion parameters on 1100 tokens are 1100 GFLOP."""
    assert gflop(make_agent(active_params=0.5e9), USAGE) == pytest.approx(1100.0)
    assert gflop(make_agent(), USAGE) is None


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("ßß", 1), ("\ud800", 1)])
def test_rough_count_is_a_quarter_of_the_bytes_rounded_up(text: str, tokens: int) -> None:
    """The estimate needs no tokenizer and never fails on broken Unicode."""
    assert rough_tokens(text) == tokens


def test_estimate_is_marked_and_uses_the_given_counter() -> None:
    """All messages count as input, visible and hidden text apart, and the usage says that it is estimated."""
    usage = estimated_usage(messages("ab", "c"), "defg", "hi", len)
    assert usage == Usage(input_tokens=3, output_tokens=4, reasoning_tokens=2, estimated=True)
