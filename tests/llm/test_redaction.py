"""What is shown of addresses and keys."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trinity.errors import ConfigError
from trinity.llm.transports.redaction import Redactor, split_url, stable_url, url_secrets

KEY = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)


@given(KEY)
def test_a_secret_is_gone_however_it_is_written(key: str) -> None:
    """Plain, percent-encoded, in JSON or in base64: the line and the answer hold none of it."""
    redactor = Redactor([key])
    forms = [key, quote(key), quote(key, safe=""), quote_plus(key), json.dumps(key)]
    forms += [code(key.encode()).decode() for code in (b64encode, urlsafe_b64encode)]
    for form in forms:
        for text in (redactor.line(f"<{form}>"), redactor.answer(f"<{form}>")):
            assert "***" in text
            assert form.strip('"').rstrip("=") not in text


def test_a_secret_within_another_leaves_no_half() -> None:
    """Where one key begins like another, the longer one is replaced whole."""
    assert Redactor(["sk-12345678", "sk-12345678-more"]).line("sk-12345678-more") == "***"


def test_short_keys_stay_in_answers_only() -> None:
    """`none` is the key of many a local server and a word of many an answer."""
    redactor = Redactor(["none", ""])
    assert redactor.line("key none refused") == "key *** refused"
    assert redactor.answer("There is none.") == "There is none."


@pytest.mark.parametrize(
    ("url", "stable"),
    [
        ("https://Host.example/v1/", "https://host.example/v1"),
        ("https://me:secret@host:8443/v1", "https://host:8443/v1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_stable_url_is_the_same_everywhere_and_no_secret(url: str, stable: str) -> None:
    """User info, closing slash and case of the host do not reach the request hash."""
    assert stable_url(split_url(url)) == stable


@pytest.mark.parametrize("url", ["", "host/v1", "ftp://host/v1", "http:///v1", "http://h:port/sk-canary", "http://[x"])
def test_a_wrong_url_is_refused_unshown(url: str) -> None:
    """A URL may hold a secret, so the line that refuses it does not repeat it."""
    with pytest.raises(ConfigError, match="base_url must look like") as caught:
        split_url(url)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("tail", ["?key=sk-canary", "?api-version=5", "#sk-canary"])
def test_a_query_has_a_place_of_its_own(tail: str) -> None:
    """A query in a URL may hold a secret, so it is refused unshown, with the setting to use instead."""
    told = "base_url has a query, .* write it under query or query_env"
    with pytest.raises(ConfigError, match=told) as caught:
        split_url(f"https://host/v1{tail}")
    assert "canary" not in str(caught.value)


def test_every_secret_of_a_url_is_known() -> None:
    """Password, and a token in the place of the user's name; a name that is too short for one stays."""
    parts = split_url("https://sk-canary-user:p%2Bw@host/v1")
    assert Redactor(url_secrets(parts)).line("sk-canary-user p%2Bw p+w me") == "*** *** *** me"
    assert Redactor(url_secrets(split_url("https://me@host/v1"))).line("me") == "me"
