"""Cost of calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.llm.support import make_agent, messages
from trinity.llm.pricing import bpe_tokens, cost_usd, estimated_usage, gflop, rough_tokens
from trinity.types import Price, Usage

USAGE = Usage(input_tokens=1000, output_tokens=10, reasoning_tokens=90, cached_tokens=500)


def test_price_is_per_million_and_hidden_tokens_cost_as_output() -> None:
    """1000 input at 2 USD and 100 written at 10 USD per million are 0.003 USD."""
    assert cost_usd(Price(2.0, 10.0, "test"), USAGE) == pytest.approx(0.003)


def test_cached_input_has_a_price_of_its_own() -> None:
    """Half of 1000 input tokens at .2 instead of 2 USD save .0009 USD; a price of 0 is one."""
    assert cost_usd(Price(2.0, 10.0, "test", 0.2), USAGE) == pytest.approx(0.0021)
    assert cost_usd(Price(2.0, 10.0, "test", 0.0), USAGE) == pytest.approx(0.002)


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


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("antidisestablishmentarianism", 6),
        ("<|endoftext|>", 7),
        ("\ud800", 1),
        ("日本語", 4),
    ],
)
def test_tokens_are_those_of_cl100k_base(text: str, tokens: int) -> None:
    """Known counts of OpenAI's vocabulary; special tokens and broken Unicode in hostile text are plain text."""
    assert bpe_tokens(text) == tokens


def test_counting_needs_no_network_and_makes_no_noise() -> None:
    """In a process of its own, without a network and with warnings as errors, a count prints nothing but itself."""
    code = """
import socket
def refuse(*_): raise SystemExit("asked the network")
socket.socket.connect = socket.getaddrinfo = refuse
from trinity.llm.pricing import bpe_tokens
print(bpe_tokens("hello world"))
"""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


def test_a_long_answer_is_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100,000 equal letters, on which pair merging is slowest, the encoder never gets more than 2,000 at a time."""
    import tiktoken

    bpe_tokens("")
    encode, pieces = tiktoken.Encoding.encode, list[int]()

    def counted(encoding: tiktoken.Encoding, text: str, **options: Any) -> list[int]:
        pieces.append(len(text))
        return encode(encoding, text, **options)

    monkeypatch.setattr(tiktoken.Encoding, "encode", counted)
    assert bpe_tokens("a" * 100_000) == 12_500
    assert sum(pieces) == 100_000
    assert max(pieces) <= 2_000


def test_estimate_is_marked_and_uses_the_given_counter() -> None:
    """All messages count as input, visible and hidden text apart, and the usage says that it is estimated."""
    usage = estimated_usage(messages("ab", "c"), "defg", "hi", len)
    assert usage == Usage(input_tokens=3, output_tokens=4, reasoning_tokens=2, estimated=True)
