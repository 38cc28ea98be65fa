"""The request hash: what changes it, what does not, and its value; and what passes for a reply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.llm.support import make_request
from trinity.canonical import canonical_json, digest, folded, sha256
from trinity.llm.transports.base import MOST_TOKENS, Reply, Template, TransportError, checked
from trinity.types import FinishReason, Message, Replicate, Usage


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
    assert [request.sample for request in made] == [1, 2, 3]
    assert made[0].hash != made[1].hash == replace(made[0], sample=2).hash


def test_messages_of_a_request_are_its_own() -> None:
    """Roles and contents of several messages are taken over in their order; the caller's list may change later."""
    given: list[Message] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
    like = make_request(messages=tuple(given), sample=None)
    request = Template.of(like).request(given, like.replicate)
    given[1]["content"] = "something else"
    expected = make_request(
        messages=({"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}), sample=None
    )
    assert request == expected
    assert request.hash == expected.hash == digest(expected.to_json())


def test_seed_comes_from_the_first_four_bytes_and_fits_31_bits() -> None:
    """The wire seed is a function of the hash that every server's integer type holds."""
    for sample in range(200):
        request = make_request(sample=sample)
        assert request.seed == int(request.hash[:8], 16) % 2**31


def test_lone_surrogate_can_be_hashed() -> None:
    """An item with broken Unicode is a request like any other."""
    assert len(make_request(messages=({"role": "user", "content": "\ud800"},)).hash) == 64


def test_canonical_text_has_one_form() -> None:
    """Keys are sorted, nothing is spaced or escaped, and what is no JSON is refused."""
    assert canonical_json({"b": [1, None], "a": "é"}) == '{"a":"é","b":[1,null]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def test_bytes_and_text_have_the_hash_of_their_bytes() -> None:
    """Text is hashed as UTF-8, half of a surrogate pair as the three bytes that it would have; bytes as they are."""
    assert sha256(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256("é\ud800") == sha256(b"\xc3\xa9\xed\xa0\x80")


@pytest.mark.parametrize(
    "text",
    ["Straße fine 1", "  straße\tﬁne\n1 ", "STRASSE FINE ①", "strasse\u00a0fine\u3000１"],  # noqa: RUF001
)
def test_texts_that_look_alike_fold_alike(text: str) -> None:
    """Case, kinds of white space, ligatures and full-width or circled signs make no difference."""
    assert folded(text) == "strasse fine 1"


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(),
        Usage(0, 0, 0, 0),
        Usage(5, 0, 0, 5),
        Usage(MOST_TOKENS - 1, MOST_TOKENS - 1, MOST_TOKENS - 1, MOST_TOKENS - 1),
        Usage(5, 7, 3, 5, estimated=True),
    ],
)
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter", "context"])
def test_a_whole_reply_is_kept_as_it_is(usage: Usage | None, finish: FinishReason) -> None:
    """Every finish reason, no usage, and counts up to their limits; cached tokens may be all of the input."""
    reply = Reply("", "", finish, usage)
    assert checked(reply) is reply


class Longer(str):
    """A text that is more than one."""

    __slots__ = ()


NO_TEXT = "the transport returned a Reply whose text or finish reason is none"
NO_USAGE = "the transport returned a usage that is not whole numbers of at least 0"


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ("3", "the transport returned a str, not a Reply"),
        (None, "the transport returned a NoneType, not a Reply"),
        (Reply(3, "", "stop", None), NO_TEXT),  # type: ignore[arg-type]
        (Reply("", 3, "stop", None), NO_TEXT),  # type: ignore[arg-type]
        (Reply(Longer("3"), "", "stop", None), NO_TEXT),
        (Reply("3", Longer(""), "stop", None), NO_TEXT),
        (Reply("3", "", "bored", None), NO_TEXT),  # type: ignore[arg-type]
        (Reply("3", "", "stop", (5, 1, 0, 0)), NO_USAGE),  # type: ignore[arg-type]
        *(
            (Reply("3", "", "stop", Usage(*counts)), NO_USAGE)
            for counts in (
                *((-1, 1), (1, -1), (1, 1, -1), (1, 1, 0, -1), (5, 9, 9, 6), (1, MOST_TOKENS)),
                *((MOST_TOKENS, 1), (1, 1, MOST_TOKENS), (1, 1.5), (True, 1), ("1", 1), (1, None)),
            )
        ),
    ],
)
def test_what_is_no_reply_is_refused(reply: object, line: str) -> None:
    """Text, reasoning, finish reason and each count are looked at; the attempt can never succeed, and says why."""
    with pytest.raises(TransportError) as caught:
        checked(reply)
    assert (caught.value.kind, str(caught.value)) == ("bad_request", line)


def test_a_failure_carries_what_the_provider_said() -> None:
    """Kind, seconds to wait, status and whether nobody listened are those that it was made with, else nothing."""
    told = TransportError("rate_limit", "slow", retry_after=3.5, status=429, refused=True)
    assert (told.kind, str(told), told.retry_after, told.status, told.refused) == ("rate_limit", "slow", 3.5, 429, True)
    bare = TransportError("server", "down")
    assert (bare.kind, str(bare), bare.retry_after, bare.status, bare.refused) == ("server", "down", None, None, False)
