"""Checkpoints come back bit for bit, and a damaged one gives way to the one before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from trinity.errors import LedgerError
from trinity.runs.checkpoint import Checkpoint, load_policy, save_policy


def names(folder: Path) -> list[str]:
    """What is in the folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def arrays(index: int) -> dict[str, NDArray[Any]]:
    """Small arrays of several types that differ by generation."""
    return {
        "mean": np.linspace(0, index + 1 / 3, 50),
        "words": np.arange(7, dtype=np.uint32) + index,
        "file": np.array(index),
        "none": np.zeros((0, 3), np.float32),
    }


def saved(folder: Path, *indices: int) -> Checkpoint:
    """A checkpoint folder after these generations."""
    checkpoint = Checkpoint(folder)
    for index in indices:
        checkpoint.save(index, arrays(index), {"sigma": 0.1 * index, "fitness": [[0.5, 1 / 3]] * index})
    return checkpoint


def assert_is(checkpoint: Checkpoint, index: int) -> None:
    """The latest whole generation is `index`, to the bit."""
    found = checkpoint.latest()
    assert found is not None
    assert found[0] == index
    assert {name: (a.dtype, a.shape, a.tobytes()) for name, a in found[1].items()} == {
        name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays(index).items()
    }
    assert found[2] == {"sigma": 0.1 * index, "fitness": [[0.5, 1 / 3]] * index}


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    """Before the first save there is nothing to go on from."""
    assert Checkpoint(tmp_path / "checkpoint").latest() is None
    assert Checkpoint(tmp_path).latest() is None


def test_latest_comes_back_bit_for_bit(tmp_path: Path) -> None:
    """Arrays of any shape and type, state and fitness vectors come back as they were, past 999999 generations."""
    assert_is(saved(tmp_path / "a", 0), 0)
    assert_is(saved(tmp_path / "b", 9, 10, 11), 11)
    long_run = saved(tmp_path / "c")
    for index in (999_999, 1_000_000):
        long_run.save(index, arrays(index), {})
    found = long_run.latest()
    assert found is not None
    assert found[0] == 1_000_000


def test_two_generations_are_kept(tmp_path: Path) -> None:
    """The folder does not grow, and holds nothing else."""
    saved(tmp_path, 0, 1, 2, 3)
    assert names(tmp_path) == ["generation-000002.npz", "generation-000003.npz"]


def test_going_back_ends_what_came_after(tmp_path: Path) -> None:
    """Training that goes on from an earlier generation leaves none of the later ones."""
    checkpoint = saved(tmp_path, 6, 7, 3)
    assert_is(checkpoint, 3)
    assert names(tmp_path) == ["generation-000003.npz"]


@pytest.mark.parametrize("kept", [0, 1, 100, 1000])
def test_truncated_newest_gives_way(tmp_path: Path, kept: int) -> None:
    """A newest file that lost its end is skipped."""
    checkpoint = saved(tmp_path, 4, 5)
    path = tmp_path / "generation-000005.npz"
    path.write_bytes(path.read_bytes()[:kept])
    assert_is(checkpoint, 4)


def test_flipped_bytes_give_way_or_are_harmless(tmp_path: Path) -> None:
    """Wherever a byte of the newest is flipped, a load gives one of the two generations as it was saved."""
    checkpoint = saved(tmp_path, 4, 5)
    path = tmp_path / "generation-000005.npz"
    good = path.read_bytes()
    skipped = 0
    for place in range(0, len(good), 3):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        found = checkpoint.latest()
        assert found is not None
        assert_is(checkpoint, found[0])
        skipped += found[0] == 4
    assert skipped > len(good) / 3 / 2


def test_all_damaged_is_an_error(tmp_path: Path) -> None:
    """Training never starts over silently because its checkpoints are damaged."""
    checkpoint = saved(tmp_path, 4, 5)
    for path in tmp_path.iterdir():
        path.write_bytes(b"x")
    with pytest.raises(LedgerError, match=r"generation-000004\.npz is damaged.*delete it to train again"):
        checkpoint.latest()


@pytest.mark.usefixtures("small_files")
def test_refused_write_keeps_the_generations_before(tmp_path: Path) -> None:
    """Where there is no room, the error names the file and the last generation is still there."""
    checkpoint = saved(tmp_path, 4)
    with pytest.raises(LedgerError, match=r"cannot write .*generation-000005\.npz"):
        checkpoint.save(5, {"mean": np.zeros(1 << 16)}, {})
    assert_is(checkpoint, 4)
    assert names(tmp_path) == ["generation-000004.npz"]


def test_objects_and_nan_state_are_refused(tmp_path: Path) -> None:
    """What could only be pickled, or is no JSON, is not saved."""
    checkpoint = saved(tmp_path, 4)
    with pytest.raises(ValueError, match="Object arrays"):
        checkpoint.save(5, {"x": np.array([{}], object)}, {})
    with pytest.raises(ValueError, match="not JSON compliant"):
        checkpoint.save(5, {}, {"sigma": float("nan")})
    assert_is(checkpoint, 4)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    """A file with a pickled object in it is damaged, not run."""
    checkpoint = saved(tmp_path, 4)
    with (tmp_path / "generation-000005.npz").open("wb") as file:
        np.savez(file, state=np.array([print], object), allow_pickle=True)
    assert_is(checkpoint, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_policy_comes_back_bit_for_bit(tmp_path: Path, dtype: type) -> None:
    """Theta keeps its type and bits, also from a strided view; metadata comes back as given."""
    theta: NDArray[Any] = np.linspace(-1, 1, 26).astype(dtype)[::2]
    save_policy(tmp_path / "p.safetensors", theta, {"encoder": "SmolLM2 ü"})
    found, metadata = load_policy(tmp_path / "p.safetensors")
    assert (found.dtype, found.tobytes()) == (theta.dtype, theta.tobytes())
    assert metadata == {"encoder": "SmolLM2 ü"}


def test_policy_of_another_shape_is_refused(tmp_path: Path) -> None:
    """A matrix is no row of parameters; the line names its shape."""
    save_policy(tmp_path / "p.safetensors", np.zeros((5, 2)), {})
    with pytest.raises(LedgerError, match=r"p\.safetensors holds theta of shape \(5, 2\), and no row"):
        load_policy(tmp_path / "p.safetensors")


def test_damaged_policy_is_never_loaded(tmp_path: Path) -> None:
    """Missing, cut short or with any byte of theta flipped, a policy is refused and named."""
    path = tmp_path / "p.safetensors"
    with pytest.raises(LedgerError, match=r"p\.safetensors is missing"):
        load_policy(path)
    theta = np.ones(4, np.float32)
    save_policy(path, theta, {"a": "b"})
    good = path.read_bytes()
    for place in range(len(good)):
        flipped = good[:place] + bytes([good[place] ^ 0x11]) + good[place + 1 :]
        for content in (good[:place], flipped):
            path.write_bytes(content)
            assert loaded_or_none(path) in (None, theta.tobytes())
    path.write_bytes(good[:-1] + b"\x00")
    with pytest.raises(LedgerError, match="theta is not what was stored"):
        load_policy(path)


def loaded_or_none(path: Path) -> bytes | None:
    """Theta's bytes from a file that may be damaged."""
    try:
        return load_policy(path)[0].tobytes()
    except LedgerError:
        return None
