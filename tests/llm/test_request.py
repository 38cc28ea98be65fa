"""The request hash: what changes it, what does not, and its value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.llm.support import make_request
from trinity.canonical import digest
from trinity.llm.transports.base import Template
from trinity.types import Replicate


def test_hash_value_is_fixed() -> None:
    """Stored answers stay reachable: the hash of a given request has this value on every machine and version."""
    request = make_request(messages=({"role": "user", "content": "Wie groß? 🙂"},), extra_body={"cache_prompt": False})
    assert request.hash == "ff331b790b3f020e934f014c5dcf5991ee9c6ede60b7eb8593431831ade19a5d"
    assert request.call_id == "ff331b790b3f020e934f014c5dcf5991ee9c6ede60b7eb8593431831ade19a5d"[:16]


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint_id": "other"},
        {"model": "other"},
        {"messages": ({"role": "user", "content": "How many? "},)},
        {"messages": ({"role": "system", "content": "How many?"},)},
        {"sampling": {"temperature": 0.5}},
        {"sampling": {}},
        {"extra_body": {"top_k": 3}},
        {"replicate": Replicate("train", 1)},
        {"replicate": Replicate("test", 0)},
        {"replicate": None},
        {"sample": 1},
        {"sample": None},
    ],
)
def test_each_part_changes_the_hash(change: dict[str, Any]) -> None:
    """Whatever shapes the answer is in the hash."""
    assert make_request(**change).hash != make_request().hash


def test_key_order_does_not_change_the_hash() -> None:
    """Two configs that list the same keys in another order share their answers."""
    first = make_request(sampling={"temperature": 1.0, "top_p": 0.9})
    second = make_request(sampling={"top_p": 0.9, "temperature": 1.0})
    assert first.hash == second.hash


@given(
    content=st.text(),
    extra=st.dictionaries(st.sampled_from(["sample", "sampling", "a", "z", '"']), st.none() | st.text(max_size=9)),
    sample=st.none() | st.integers(0, 9),
)
def test_hashes_are_digests_of_the_json_form(content: str, extra: dict[str, Any], sample: int | None) -> None:
    """What the ledger stores of a request is enough to check its hash, however the request was made."""
    request = make_request(
        messages=({"role": "user", "content": content},), extra_body=extra, sampling=extra, sample=sample
    )
    form = request.to_json()
    assert request.hash == digest(form)
    number = None if sample is None else lambda _: sample
    assert Template.of(request).request(request.messages, request.replicate, number).hash == request.hash


def test_sample_number_alone_separates_equal_requests() -> None:
    """Equal requests ask for their number under one name, others under another; the number changes the hash."""
    names: list[str] = []

    def number(name: str) -> int:
        names.append(name)
        return len(names)

    first = make_request()
    warmer = Template(first.endpoint_id, first.model, {"temperature": 9}, first.extra_body)
    made = [one.request(first.messages, first.replicate, number) for one in (*2 * [Template.of(first)], warmer)]
    assert names[0] == names[1] != names[2]
    assert made[0].hash != made[1].hash == made[0].with_sample(2).hash


def test_seed_comes_from_the_first_four_bytes_and_fits_31_bits() -> None:
    """The wire seed is a function of the hash that every server's integer type holds."""
    for sample in range(200):
        request = make_request(sample=sample)
        assert request.seed == int(request.hash[:8], 16) % 2**31


def test_lone_surrogate_can_be_hashed() -> None:
    """An item with broken Unicode is a request like any other."""
    assert len(make_request(messages=({"role": "user", "content": "\ud800"},)).hash) == 64
