"""The weight-free encoder: the interface of the real one, the same numbers everywhere."""

from __future__ import annotations

import json

import numpy as np
import pytest

from trinity.coordinator.encoder import Encoder
from trinity.testing import HashedEncoder


@pytest.mark.parametrize("d", [2, 64, 1300])
async def test_a_state_has_the_declared_shape_and_norm(d: int) -> None:
    """A state is d float32 entries, the last one the bias, norm sqrt(d), not to be written to."""
    encoder: Encoder = HashedEncoder(d)
    vector, tokens = await encoder.encode(("one two two", "three"))
    assert (vector.shape, vector.dtype, encoder.d, tokens) == ((d,), np.dtype("float32"), d, 4)
    assert np.linalg.norm(vector) == pytest.approx(d**0.5, rel=1e-5)
    assert vector[-1] == 1
    assert not vector.flags.writeable


async def test_entries_look_like_standard_normal_ones() -> None:
    """Over many words the entries have mean 0, variance 1 and hardly any beyond three."""
    text = " ".join(f"word{number}" for number in range(200))
    entries = (await HashedEncoder(2001).encode((text,))).vector[:-1]
    assert abs(entries.mean()) < 0.1
    assert entries.std() == pytest.approx(1, abs=0.01)
    assert (np.abs(entries) > 3).mean() < 0.01


async def test_numbers_are_the_same_on_every_machine() -> None:
    """The signs of a known word, written down once."""
    vector = (await HashedEncoder(9, seed=0).encode(("apple",))).vector
    assert vector.astype(int).tolist() == [-1, -1, 1, -1, 1, 1, -1, -1, 1]


async def test_words_alone_count() -> None:
    """Order, case and borders of chunks do not matter, the counts of words, the seed and new words do."""
    encoder = HashedEncoder()
    base = (await encoder.encode(("red green", "blue"))).vector
    same = (await encoder.encode(("Blue RED green",))).vector
    np.testing.assert_allclose(base, same, atol=1e-6)
    for other in (
        (await encoder.encode(("red red green blue",))),
        (await HashedEncoder(seed=1).encode(("red green blue",))),
    ):
        assert not np.allclose(base, other.vector, atol=0.1)


async def test_shared_words_make_transcripts_alike() -> None:
    """Two questions of one kind are nearer to each other than to one of another kind."""
    encoder = HashedEncoder()
    texts = ("how many apples are left", "how many pears are left", "value of the expression len(x)")
    first, second, third = [(await encoder.encode((text,))).vector for text in texts]
    assert first @ second > 2 * max(first @ third, second @ third)


async def test_a_text_without_words_is_the_bias_alone() -> None:
    """Nothing, signs and broken characters have a state: zeros and the bias."""
    encoder = HashedEncoder(4)
    for chunks in ((), ("",), ("?! \ud800",)):
        assert (await encoder.encode(chunks)).vector.tolist() == [0, 0, 0, 1]


async def test_equal_transcripts_are_computed_once() -> None:
    """The counters tell computed states from those that were known, and closing forgets them."""
    encoder = HashedEncoder()
    for _ in range(3):
        await encoder.encode(("a b",))
    assert (encoder.counters.states, encoder.counters.tokens, encoder.counters.hits) == (1, 2, 2)
    encoder.close()
    await encoder.encode(("a b",))
    assert encoder.counters.states == 2


def test_name_and_settings_identify_the_projection() -> None:
    """Both d and seed are in the name, and the settings are JSON."""
    assert len({HashedEncoder().name, HashedEncoder(32).name, HashedEncoder(seed=1).name}) == 3
    assert json.loads(json.dumps(HashedEncoder().settings()))["encoder"] == HashedEncoder().name
