"""The price table: read without litellm, dated, and never a price that nobody knows."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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


KNOWS = "the price table litellm 1 sha256:abc"
GIVE = "give input_usd, output_usd and source"
PRICED = "claude-x, gemini/free, gemini/pro, odd, ollama/big-cloud, ollama/llama, pro, thinker"


@pytest.mark.parametrize(
    ("model", "provider", "line"),
    [
        (
            "anthropic/claude-y",
            None,
            f"{KNOWS} knows no model 'anthropic/claude-y'; {GIVE}, or null for unknown; did you mean 'claude-x'?",
        ),
        (
            "openai/claude-x",
            None,
            f"{KNOWS} knows no model 'openai/claude-x'; {GIVE}, or null for unknown; choose from: odd, thinker",
        ),
        (
            "pro",
            "anthropic",
            f"{KNOWS} knows no model 'anthropic/pro'; {GIVE}, or null for unknown; choose from: claude-x",
        ),
        (
            "ollama_chat/lama",
            None,
            f"{KNOWS} knows no model 'ollama_chat/lama'; {GIVE}, or null for unknown; did you mean 'ollama/llama'?",
        ),
        ("", None, f"{KNOWS} knows no model ''; {GIVE}, or null for unknown; choose from: {PRICED}"),
        ("gemini/free", None, f"{KNOWS} has no price for gemini/free; {GIVE}"),
        ("ollama/big-cloud", None, f"{KNOWS} has no price for ollama/big-cloud; {GIVE}"),
        ("half", None, f"{KNOWS} has half a price for half; {GIVE}"),
        ("odd", None, f"{KNOWS} has half a price for odd; {GIVE}"),
        (
            "thinker",
            None,
            (
                "thinker bills its reasoning at 3.0 USD a million tokens, other output at 2.0: one price cannot say "
                "that; give input_usd, output_usd (the dearer one) and source"
            ),
        ),
    ],
)
def test_what_nobody_knows_is_refused(model: str, provider: str | None, line: str) -> None:
    """Unknown models, missing keys, and the zeros that stand for a paid model's unknown price; never a price of 0."""
    with pytest.raises(ConfigError) as caught:
        TABLE.lookup(model, provider)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("cost", "usd"),
    [
        *((1.25e-6, 1.25), (1e-15, 1e-9), (1.2345678e-6, 1.2345678), (1.2345678912e-6, 1.234567891), (2, 2e6)),
        *((cost, None) for cost in (0, -1e-6, float("inf"), float("nan"), True, "1e-6", None)),
    ],
)
def test_a_price_is_a_number_above_nothing(cost: Any, usd: float | None) -> None:
    """In USD a million tokens, to nine digits after the point; anything else is not known."""
    row = {"litellm_provider": "openai", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    price = PriceTable("t", "d", "built", {"m": {**row, "cache_read_input_token_cost": cost}}).lookup("m")
    assert price == Price(1.0, 1.0, "t (built d): m", usd)


def test_reasoning_at_the_price_of_output_is_one_price() -> None:
    """A row that names both alike is taken; one without a provider is found by its own name alone."""
    row = {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6, "output_cost_per_reasoning_token": 2e-6}
    table = PriceTable("t", "d", "built", {"m": row})
    assert table.lookup("m") == Price(1.0, 2.0, "t (built d): m")
    with pytest.raises(ConfigError, match="knows no model 'openai/m'"):
        table.lookup("m", "openai")


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


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a litellm whose price table was installed on 2001-09-09."""
    package, info = tmp_path / "litellm", tmp_path / "litellm-7.8.9.dist-info"
    for folder in (package, info):
        folder.mkdir()
    (package / "model_prices_and_context_window_backup.json").write_text('{"m": {}}', encoding="utf-8")
    (package / "__init__.py").touch()
    os.utime(package / "__init__.py", (1e9, 1e9))
    (info / "METADATA").write_text("Name: litellm\nVersion: 7.8.9\n", encoding="utf-8")
    (info / "RECORD").write_text("litellm/__init__.py,,\nlitellm-7.8.9.dist-info/sboms/a.cyclonedx.json,,\n", "utf-8")
    spec = importlib.util.spec_from_file_location("litellm", package / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: importlib.metadata.PathDistribution(info))
    litellm_table.cache_clear()
    yield tmp_path
    litellm_table.cache_clear()


@pytest.mark.parametrize(
    ("bill", "date", "dated_by"),
    [
        ('{"metadata": {"timestamp": "2026-11-20T23:30:00-02:00"}}', "2026-11-21", "built"),
        ('{"metadata": {"timestamp": "yesterday"}}', "2001-09-09", "installed"),
        ('{"metadata": {"timestamp": 5}}', "2001-09-09", "installed"),
        ("{}", "2001-09-09", "installed"),
        ("no JSON", "2001-09-09", "installed"),
        (None, "2001-09-09", "installed"),
    ],
)
def test_a_table_is_dated_by_what_there_is(wheel: Path, bill: str | None, date: str, dated_by: str) -> None:
    """By the bill of materials, in UTC; where there is none that can be read, by when the package was installed."""
    if bill is not None:
        (wheel / "litellm-7.8.9.dist-info" / "sboms").mkdir()
        (wheel / "litellm-7.8.9.dist-info" / "sboms" / "a.cyclonedx.json").write_text(bill, encoding="utf-8")
    table = litellm_table()
    assert table == PriceTable("litellm 7.8.9 sha256:856eefc88f4e", date, dated_by, {"m": {}})
    assert table.source("m") == f"litellm 7.8.9 sha256:856eefc88f4e ({dated_by} {date}): m"


def test_a_table_that_cannot_be_read_is_one_line(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No litellm, one without its table, or a table that is no JSON: why, and what to do."""
    path = wheel / "litellm" / "model_prices_and_context_window_backup.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^the price table of litellm cannot be read \(Expecting .*\); pip install"):
        litellm_table()
    path.unlink()
    with pytest.raises(ConfigError, match=r"cannot be read .*No such file"):
        litellm_table()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError) as caught:
        lookup("m")
    assert str(caught.value) == "the price table of litellm cannot be read (litellm); pip install litellm"


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
