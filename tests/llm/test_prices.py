"""The price table: read without litellm, dated, and never a price that nobody knows."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trinity.errors import ConfigError
from trinity.llm.prices import PriceTable, litellm_table, lookup
from trinity.types import Price

ROWS = {
    "claude-x": {
        "litellm_provider": "anthropic",
        "input_cost_per_token": 3e-6,
        "output_cost_per_token": 1.5e-5,
        "cache_read_input_token_cost": 3e-7,
    },
    "gemini/pro": {"litellm_provider": "gemini", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-5},
    "gemini/free": {"litellm_provider": "gemini", "input_cost_per_token": 0, "output_cost_per_token": 0.0},
    "pro": {
        "litellm_provider": "vertex_ai-language-models",
        "input_cost_per_token": 2e-6,
        "output_cost_per_token": 2e-5,
    },
    "ollama/llama": {"litellm_provider": "ollama", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0},
    "ollama/big-cloud": {"litellm_provider": "ollama", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0},
    "half": {"litellm_provider": "openai", "input_cost_per_token": 1e-6},
    "odd": {"litellm_provider": "openai", "input_cost_per_token": 1e-6, "output_cost_per_token": "1e-6"},
    "thinker": {
        "litellm_provider": "openai",
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 2e-6,
        "output_cost_per_reasoning_token": 3e-6,
    },
}
TABLE = PriceTable("litellm 1 sha256:abc", "2026-11-20", "built", ROWS)
SOURCE = "litellm 1 sha256:abc (built 2026-11-20): "


@pytest.mark.parametrize(
    ("model", "provider", "price"),
    [
        ("claude-x", None, Price(3.0, 15.0, f"{SOURCE}claude-x", 0.3)),
        ("anthropic/claude-x", None, Price(3.0, 15.0, f"{SOURCE}claude-x", 0.3)),
        ("claude-x", "anthropic", Price(3.0, 15.0, f"{SOURCE}claude-x", 0.3)),
        ("gemini/pro", None, Price(1.0, 10.0, f"{SOURCE}gemini/pro")),
        ("pro", "gemini", Price(1.0, 10.0, f"{SOURCE}gemini/pro")),
        ("vertex_ai/pro", None, Price(2.0, 20.0, f"{SOURCE}pro")),
        ("ollama/llama", None, Price(0.0, 0.0, f"{SOURCE}ollama/llama")),
        ("ollama_chat/llama", None, Price(0.0, 0.0, f"{SOURCE}ollama/llama")),
    ],
)
def test_a_model_is_found_by_its_name_in_litellm(model: str, provider: str | None, price: Price) -> None:
    """With or without its provider, in USD per million tokens, labelled with table, date and key."""
    assert TABLE.lookup(model, provider) == price


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("anthropic/claude-y", "knows no model 'anthropic/claude-y'; did you mean 'claude-x'?"),
        ("openai/claude-x", "knows no model 'openai/claude-x'"),
        ("gemini/free", "has no price for gemini/free"),
        ("ollama/big-cloud", "has no price for ollama/big-cloud"),
        ("half", "has half a price for half"),
        ("odd", "has half a price for odd"),
        ("thinker", "thinker bills its reasoning at 3.0 USD a million tokens, other output at 2.0"),
        ("", "knows no model ''"),
    ],
)
def test_what_nobody_knows_is_refused(model: str, line: str) -> None:
    """Unknown models, missing keys, and the zeros that stand for a paid model's unknown price; never a price of 0."""
    with pytest.raises(ConfigError, match=re.escape(line)) as caught:
        TABLE.lookup(model)
    assert "input_usd" in str(caught.value)


@given(st.text(max_size=20), st.none() | st.sampled_from(["anthropic", "ollama", ""]))
def test_any_name_is_a_price_or_a_line(model: str, provider: str | None) -> None:
    """Nothing else comes of a lookup."""
    with suppress(ConfigError):
        assert isinstance(TABLE.lookup(model, provider), Price)


def test_the_installed_table_says_what_and_when_it_is() -> None:
    """Version, hash and the day on which the wheel was built, from its bill of materials."""
    table = litellm_table()
    assert re.fullmatch(r"litellm \d+\.\d+\.\d+ sha256:[0-9a-f]{12}", table.id)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", table.date)
    assert table.dated_by == "built"


def test_every_listed_price_is_whole_or_refused() -> None:
    """Of the thousands of rows none gives a price of 0 to a model that somebody sells."""
    table = litellm_table()
    for key in table.rows:
        try:
            price = table.lookup(key)
        except ConfigError:
            continue
        assert price.input_usd > 0 or str(table.rows[key]["litellm_provider"]) in {"ollama", "lemonade"}


def test_looking_up_does_not_load_litellm() -> None:
    """A price costs milliseconds, not the seconds that importing litellm takes."""
    code = "import sys; from trinity.llm.prices import lookup; lookup('openai/gpt-5'); print('litellm' in sys.modules)"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout == "False\n"


def test_a_known_model_has_its_known_price() -> None:
    """GPT-5 costs what OpenAI's price list says."""
    price = lookup("openai/gpt-5")
    assert (price.input_usd, price.output_usd, price.cached_usd) == (1.25, 10.0, 0.125)
