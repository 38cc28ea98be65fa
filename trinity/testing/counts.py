"""What a server saw: a fold over events that are also written to a log, so that it outlives server and client."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from trinity.errors import ConfigError
from trinity.llm.pricing import cost_usd
from trinity.testing.faults import Fault
from trinity.types import Price, Spend, Usage

Kind = Literal["received", "answered", "wasted", "refused"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to one attempt (from 0) at a request.

    It is `received` and then ends as `answered` (a complete reply was written whole), `wasted` (the model worked, the
    client got nothing whole) or `refused` (by an HTTP status; no model was asked). `t` is in seconds of
    `time.monotonic()`, which all processes of a machine share. `usage` is the true one, zero unless the model worked.
    """

    t: float
    kind: Kind
    request_hash: str
    attempt: int
    model: str
    fault: Fault
    usage: Usage = field(default_factory=Usage)

    def to_line(self) -> bytes:
        """One line of the log."""
        # `asdict` would take as long as answering does.
        content = {name: getattr(self, name) for name in self.__slots__}
        content["usage"] = {name: getattr(self.usage, name) for name in self.usage.__slots__}
        return json.dumps(content).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read back what `to_line` wrote."""
        content = json.loads(line)
        return cls(**{**content, "fault": Fault(content["fault"]), "usage": Usage(**content["usage"])})


def read_log(path: Path) -> Iterator[Event]:
    """The events of a log in the order in which they were written; a last line cut by a kill is left out.

    Raises:
        ConfigError: the file holds something else.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield Event.from_line(line)
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(f"{path}:{number}: not a line of a fault server's log ({error!r})") from None


@dataclass(slots=True)
class Tally:
    """One request: how often it was received, how often answered, the tokens of its complete replies."""

    received: int = 0
    answered: int = 0
    usage: Usage = field(default_factory=Usage)
    _done_at: float | None = None


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """A request that was received although it had been answered for good; times as in `Event.t`."""

    request_hash: str
    answered_at: float
    received_at: float


@dataclass(slots=True)
class Counts:
    """Totals and one `Tally` a request hash.

    `billed` are the tokens of complete replies, `wasted` those of replies that never arrived whole, by model.
    `asked_again` lists requests that came again after a reply that ends them: all but an empty one.
    """

    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    received: int = 0
    answered: int = 0
    refused: int = 0
    lost: int = 0
    in_flight: int = 0
    peak_in_flight: int = 0
    billed: dict[str, Usage] = field(default_factory=lambda: defaultdict(Usage))
    wasted: dict[str, Usage] = field(default_factory=lambda: defaultdict(Usage))
    asked_again: list[AskedAgain] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Self:
        """The counts that a log amounts to; attempts that a killed server left open are still in flight."""
        counts = cls()
        for event in read_log(path):
            counts.note(event)
        return counts

    def note(self, event: Event) -> None:
        """Count an event."""
        tally = self.tallies[event.request_hash]
        if event.kind == "received":
            self._note_received(event, tally)
            return
        self.in_flight -= 1
        if event.kind == "answered":
            self._note_answered(event, tally)
        elif event.kind == "wasted":
            self.lost += 1
            self.wasted[event.model] += event.usage
        else:
            self.refused += 1

    def _note_received(self, event: Event, tally: Tally) -> None:
        if tally._done_at is not None:  # noqa: SLF001 - a tally is this module's
            self.asked_again.append(AskedAgain(event.request_hash, tally._done_at, event.t))  # noqa: SLF001
        tally.received += 1
        self.received += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def _note_answered(self, event: Event, tally: Tally) -> None:
        if event.fault is not Fault.EMPTY:
            tally._done_at = event.t  # noqa: SLF001 - a tally is this module's
        tally.answered += 1
        tally.usage += event.usage
        self.answered += 1
        self.billed[event.model] += event.usage

    def spend(self, prices: Mapping[str, Price] | None = None, *, wasted: bool = True) -> Spend:
        """What all attempts cost: USD by price of each model (None where one is unknown), weighted tokens, attempts.

        `wasted` adds what a provider may bill although the client got nothing whole.
        """
        total = Spend(calls=self.received)
        for bill in (self.billed, self.wasted) if wasted else (self.billed,):
            for model, usage in bill.items():
                usd = cost_usd((prices or {}).get(model), usage)
                total = total.plus(Spend(usd, usage.weighted_tokens))
        return total

    def to_json(self) -> dict[str, Any]:
        """Totals as plain JSON values."""
        names = ("received", "answered", "refused", "lost", "in_flight", "peak_in_flight")
        return {
            **{name: getattr(self, name) for name in names},
            "requests": len(self.tallies),
            "asked_again": len(self.asked_again),
            "billed": {model: asdict(usage) for model, usage in self.billed.items()},
            "wasted": {model: asdict(usage) for model, usage in self.wasted.items()},
            "weighted_tokens": self.spend(wasted=False).weighted_tokens,
        }

    def by_request(self) -> dict[str, dict[str, int]]:
        """Received, answered and weighted tokens by request hash, as plain JSON values."""
        return {
            key: {"received": one.received, "answered": one.answered, "weighted_tokens": one.usage.weighted_tokens}
            for key, one in self.tallies.items()
        }


class Log:
    """An append-only file of events; each is in the kernel's hands before the server goes on."""

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise ConfigError(f"cannot write the log {path}: {error.strerror or error}") from error

    def write(self, event: Event) -> None:
        """Append one line."""
        os.write(self._descriptor, event.to_line())

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
