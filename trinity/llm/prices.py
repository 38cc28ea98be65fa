"""The price table that comes with litellm, read from its file: importing litellm takes seconds.

Prices are those for short prompts, without the surcharges of some models from 128,000 or 200,000 input tokens on, of
batches or of priority tiers. Input that is written to a cache counts as any input.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trinity.canonical import sha256
from trinity.errors import ConfigError
from trinity.naming import did_you_mean
from trinity.types import Price

TABLES = ("litellm",)

_FILE = "model_prices_and_context_window_backup.json"
_HASH_DIGITS = 12
_MILLION = 1e6
_MICRO_DIGITS = 9
_FREE = frozenset({"docker_model_runner", "hosted_vllm", "lemonade", "llamafile", "lm_studio", "ollama", "xinference"})
"""Who serves models on one's own machines; a price of 0 that is listed for anybody else stands for an unknown one."""
_SAME = {"ollama_chat": "ollama"}
"""Providers under whose name litellm can be asked, and the one in the table."""
_HOSTED = "-cloud"
"""Ends the names of the models that Ollama serves from its own machines, for money."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices by model name.

    Attributes:
        id: `litellm <version> sha256:<12 hex digits of the file>`.
        date: ISO date, of what `dated_by` says: `built`, the day on which the installed wheel was built, as its bill
            of materials says; `installed`, where there is none.
        rows: model name -> what litellm knows of it.
    """

    id: str
    date: str
    dated_by: str
    rows: Mapping[str, Mapping[str, Any]] = field(repr=False)

    def source(self, key: str) -> str:
        """What a price of this table is labelled with."""
        return f"{self.id} ({self.dated_by} {self.date}): {key}"

    def lookup(self, model: str, provider: str | None = None) -> Price:
        """Price of a model by its name in litellm, with or without its provider in front.

        Raises:
            ConfigError: the table does not know it, or not what it costs; names the nearest it knows.
        """
        key = self._find(model, provider)
        if key is None:
            name = model if provider is None else f"{provider}/{model}"
            raise ConfigError(
                f"the price table {self.id} knows no model {name!r}; give input_usd, output_usd and source, "
                f"or null for unknown; {self._nearest(name)}"
            )
        return self._price(key)

    def _find(self, model: str, provider: str | None) -> str | None:
        for name, of in _spellings(model, provider):
            row = self.rows.get(name)
            if row is not None and (of is None or _provider(row).startswith(of)):
                return name
        return None

    def _nearest(self, name: str) -> str:
        """The nearest model of the same provider, or of all where the provider is not known."""
        provider = name.partition("/")[0]
        provider = _SAME.get(provider, provider)
        priced = {key: _provider(row) for key, row in self.rows.items() if "output_cost_per_token" in row}
        return did_you_mean(name, [key for key, of in priced.items() if of.startswith(provider)] or priced)

    def _price(self, key: str) -> Price:
        row = self.rows[key]
        free = _provider(row) in _FREE and not key.endswith(_HOSTED)
        given, written = (_cost(row, name, free=free) for name in ("input_cost_per_token", "output_cost_per_token"))
        if given is None or written is None:
            what = "no price" if given is None and written is None else "half a price"
            raise ConfigError(f"the price table {self.id} has {what} for {key}; give input_usd, output_usd and source")
        hidden = _cost(row, "output_cost_per_reasoning_token", free=free)
        if hidden is not None and hidden != written:
            raise ConfigError(
                f"{key} bills its reasoning at {hidden} USD a million tokens, other output at {written}: one price "
                "cannot say that; give input_usd, output_usd (the dearer one) and source"
            )
        cached = _cost(row, "cache_read_input_token_cost", free=free)
        return Price(given, written, self.source(key), cached)


def lookup(model: str, provider: str | None = None) -> Price:
    """As `PriceTable.lookup`, of the installed table."""
    return litellm_table().lookup(model, provider)


@functools.cache
def litellm_table() -> PriceTable:
    """The table of the installed litellm.

    Raises:
        ConfigError: litellm is not installed, or its table cannot be read.
    """
    try:
        spec = importlib.util.find_spec("litellm")
        if spec is None or spec.origin is None:
            raise FileNotFoundError("litellm")
        content = (Path(spec.origin).parent / _FILE).read_bytes()
        rows = json.loads(content)
        distribution = importlib.metadata.distribution("litellm")
    except (OSError, ValueError, importlib.metadata.PackageNotFoundError) as error:
        raise ConfigError(f"the price table of litellm cannot be read ({error}); pip install litellm") from error
    date, dated_by = _date(distribution, Path(spec.origin))
    table_id = f"litellm {distribution.version} sha256:{sha256(content)[:_HASH_DIGITS]}"
    return PriceTable(table_id, date, dated_by, rows)


def _date(distribution: importlib.metadata.Distribution, file: Path) -> tuple[str, str]:
    """When the table was made, and how that is known: wheels say it nowhere but in a bill of materials."""
    for path in distribution.files or []:
        if path.name.endswith(".cyclonedx.json"):
            try:
                stamp = json.loads(path.read_text(encoding="utf-8"))["metadata"]["timestamp"]
                return datetime.fromisoformat(stamp).astimezone(UTC).date().isoformat(), "built"
            except (OSError, ValueError, KeyError, TypeError):
                break
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat(), "installed"


def _spellings(model: str, provider: str | None) -> Iterator[tuple[str, str | None]]:
    """Names under which a model may stand in the table, each with the provider that its row must be of.

    litellm lists some models under their own name only, and some under their provider's too: the same name alone is
    another provider's model.
    """
    if provider is None:
        yield model, None
        provider, _, model = model.partition("/")
    if model:
        provider = _SAME.get(provider, provider)
        yield f"{provider}/{model}", provider
        yield model, provider


def _provider(row: Mapping[str, Any]) -> str:
    return str(row.get("litellm_provider") or "")


def _cost(row: Mapping[str, Any], name: str, *, free: bool) -> float | None:
    """USD per million tokens; None where it is not known."""
    value = row.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        return None
    return round(value * _MILLION, _MICRO_DIGITS) if value or free else None
