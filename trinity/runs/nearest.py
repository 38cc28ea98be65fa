"""The stored request that comes nearest to one that is not stored, and the fields in which the two differ."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, AnyStr, NamedTuple

from trinity.canonical import canonical_json
from trinity.runs.calls import PART_BYTES, CallTable, RequestRows, StoredRequest
from trinity.runs.sqlite import pack

UNLIKE = 3.0
"""A message of another text counts as one field that differs and up to so many more, the less they are alike."""

CANDIDATES = 1000
"""Messages a position whose likeness is remembered."""

EDGE_BYTES = 24
"""Texts that share neither so long a beginning nor so long an end count as wholly unlike."""

_HEAD = len('{"content":"')
Likeness = dict[tuple[int, bytes], float]


class Difference(NamedTuple):
    """A field in which two requests differ; None where one of them has no such field."""

    field: str
    asked: str | None
    stored: str | None


def nearest(calls: CallTable, request: Mapping[str, Any]) -> str | None:
    """Hash of the answered request that is nearest to `request` (its JSON form); None where nothing is stored.

    Nearness counts the fields that differ; messages count by their likeness, which is the share of their common
    beginning and end. Texts and requests are read once each, streamed; memory stays flat.
    """
    likeness = _likeness(calls, [pack(message) for message in request["messages"]])
    score = _Score(calls, request, likeness)
    best, best_cost = None, float("inf")
    for row in calls.requests():
        cost = score.cost(row, best_cost)
        if cost < best_cost and calls.is_answered(row.request_hash):
            best, best_cost = row.request_hash.hex(), cost
    return best


def differences(asked: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[Difference]:
    """The fields in which two requests in their JSON form differ, by name."""
    before, after = fields(asked), fields(stored)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield Difference(name, before.get(name), after.get(name))


def fields(request: Mapping[str, Any]) -> dict[str, str]:
    """A request as one text a field, JSON but for the texts of messages: `sampling.top_p`, `messages[1].content`."""
    return dict(_flat("", request))


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, entry in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), entry)
    elif name == "messages":
        for place, message in enumerate(value):
            yield from ((f"{name}[{place}].{key}", message[key]) for key in ("role", "content"))
    else:
        yield name, canonical_json(value)


class _Score:
    """How far stored requests are from one that is asked for."""

    def __init__(self, calls: CallTable, request: Mapping[str, Any], likeness: Likeness) -> None:
        self._calls, self._likeness = calls, likeness
        self._asked = StoredRequest._make(RequestRows.of("", request).row)
        self._messages = self._asked.messages
        self._fields = fields(_settings_of(request))
        self._settings = lru_cache(maxsize=CANDIDATES)(self._count_settings)

    def cost(self, row: StoredRequest, enough: float) -> float:
        """Fields that differ, messages by their likeness; anything above `enough` where that is all one must know."""
        _, parts, phase, index, sample = row
        asked = self._asked
        cost = float(self._settings(parts[:PART_BYTES]) + (sample != asked.sample))
        cost += (index, phase) != (asked.index, asked.phase)
        cost += (1 + UNLIKE) * abs(len(parts) - len(asked.parts)) / PART_BYTES
        if cost >= enough or parts[PART_BYTES:] == asked.parts[PART_BYTES:]:
            return cost
        for place, (wanted, stored) in enumerate(zip(self._messages, row.messages, strict=False)):
            if wanted != stored:
                cost += 1 + UNLIKE * (1 - self._likeness.get((place, stored), 0.0))
        return cost

    def _count_settings(self, key: bytes) -> int:
        if key == self._asked.settings:
            return 0
        try:
            stored = fields(self._calls.part(key))
        except ValueError:
            return len(self._fields)
        return sum(self._fields.get(name) != stored.get(name) for name in self._fields.keys() | stored.keys())


def _settings_of(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key not in ("messages", "replicate", "sample")}


def _likeness(calls: CallTable, wanted: list[bytes]) -> Likeness:
    """By position and key, how alike stored messages are to those `wanted`; only the likest of each position."""
    best: list[list[tuple[float, bytes]]] = [[] for _ in wanted]
    ends = [(text[: _HEAD + EDGE_BYTES], text[-_tail(text) :]) for text in wanted]
    for key, content in calls.parts():
        for place, (head, tail) in enumerate(ends):
            if content.startswith(head) or content.endswith(tail):
                entry = (alike(wanted[place], content), key)
                if len(best[place]) < CANDIDATES:
                    heapq.heappush(best[place], entry)
                elif entry > best[place][0]:
                    heapq.heapreplace(best[place], entry)
    return {(place, key): value for place, entries in enumerate(best) for value, key in entries}


def _tail(packed: bytes) -> int:
    """Bytes from the end of a packed message that hold its role and the end of its text."""
    return len(packed) - packed.rindex(b'","role":"') + EDGE_BYTES


def alike(one: bytes, other: bytes) -> float:
    """The share, 0 to 1, that two texts' common beginning and common end have in the longer one."""
    longest = max(len(one), len(other))
    return sum(edges(one, other)) / longest if longest else 1.0


def edges(one: AnyStr, other: AnyStr) -> tuple[int, int]:
    """Lengths of two texts' common beginning and of the common end of what is left."""
    shortest = min(len(one), len(other))
    begin = common(one, other, shortest)
    return begin, common(one[::-1], other[::-1], shortest - begin)


def common(one: AnyStr, other: AnyStr, most: int) -> int:
    """Length of the common beginning, `most` at most, by bisection: comparing slices is what Python does fast."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
