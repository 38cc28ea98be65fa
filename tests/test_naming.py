"""Slips in names are answered with what was meant, or with what there is."""

from __future__ import annotations

import pytest

from trinity.errors import ConfigError
from trinity.naming import check_choice, did_you_mean


@pytest.mark.parametrize(
    ("word", "choices", "end"),
    [
        ("lokal", ["local", "scripted"], "did you mean 'local'?"),
        ("sede", ["seed", "data.seed", "store"], "did you mean 'seed'?"),
        ("n_train", ["data.n_train", "name", "data.n_val"], "did you mean 'data.n_train'?"),
        ("trainer.popsze", ["trainer.noise", "trainer.optimiser.popsize"], "did you mean 'trainer.optimiser.popsize'?"),
        ("exp", ["experiment", "pool"], "did you mean 'experiment'?"),
        ("zzz", ["b", "a"], "choose from: a, b"),
        ("zzz", [], "there is none to choose from"),
        ("zzz", list("abcdefghijklmnopqrst"), "choose from: " + ", ".join("abcdefghijklmnop") + " and 4 more"),
    ],
)
def test_did_you_mean(word: str, choices: list[str], end: str) -> None:
    """The nearest name is found, also at another level; with nothing near the choices are listed."""
    assert did_you_mean(word, choices) == end


def test_a_choice_is_checked() -> None:
    """A value that is none of the choices is one line with its key and all of them; a right one passes."""
    check_choice("encoder.readout", "last", ("penultimate", "last"))
    for value in ("lats", None, 3):
        with pytest.raises(ConfigError) as caught:
            check_choice("encoder.readout", value, ("penultimate", "last"))
        assert str(caught.value) == f"encoder.readout: there is no {value!r}; choose from: penultimate, last"
