"""The command that compares runs: on real scripted runs, and on what it cannot do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import TINY
from tests.evals.comparison.comparing import NOTHING_SPENT, change, episodes, write_run
from tests.inprocess import played
from trinity.compare import switched
from trinity.errors import ConfigError


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two finished runs that differ in the seed of their training."""
    folder = tmp_path_factory.mktemp("finished")
    runs = []
    for seed in (0, 1):
        done = played("trinity.run", *TINY, f"seed={seed}", f"hydra.run.dir=run{seed}", cwd=folder)
        assert done.returncode == 0, done.stderr
        runs.append(folder / f"run{seed}")
    return runs[0], runs[1]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two small runs made by hand."""
    scores = {"i1": [1.0], "i2": [0.0]}
    a, b = (write_run(tmp_path / name, episodes(scores)) for name in "AB")
    return a, b


def compared(*words: object, cwd: Path) -> dict[str, Any]:
    """The comparison that the command writes as JSON."""
    done = played("trinity.compare", *map(str, words), "--json", "found.json", cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads((cwd / "found.json").read_bytes())
    assert isinstance(found, dict)
    return found


class TestScriptedRuns:
    """What two runs of the same experiment give."""

    def test_same_items(self, finished: tuple[Path, Path], tmp_path: Path) -> None:
        """Two training seeds meet the same 12 test items, and nothing but the seed differs."""
        found = compared(*finished, cwd=tmp_path)
        whole = [row for row in found["comparisons"] if row["task"] == "all"]
        assert [row["method"] for row in whole] == ["best_single", "coordinator", "coordinator"]
        assert {(row["n_common"], row["n_paired"]) for row in whole} == {(12, 12)}
        assert [entry for entry in found["differences"] if entry["kind"] not in ("seeds", "effort", "code")] == []
        assert {"kind": "seeds", "sentence": "Seed seed: 0 in A; 1 in B."} in found["differences"]

    def test_order_turns_signs_only(self, finished: tuple[Path, Path], tmp_path: Path) -> None:
        """The runs the other way round: everything mirrored, p and counts as before."""
        there, back = (compared(*order, cwd=tmp_path)["comparisons"] for order in (finished, finished[::-1]))
        for ours, theirs in zip(there, back, strict=True):
            assert ours["difference"] == -theirs["difference"]
            assert (ours["ci_low"], ours["ci_high"]) == (-theirs["ci_high"], -theirs["ci_low"])
            assert (ours["wins"], ours["losses"]) == (theirs["losses"], theirs["wins"])
            assert [ours[key] for key in ("p", "p_holm", "test")] == [theirs[key] for key in ("p", "p_holm", "test")]

    def test_one_run_agrees_with_its_own_table(self, finished: tuple[Path, Path], tmp_path: Path) -> None:
        """The coordinator against the best single agent is what the run's summary says, interval included."""
        summary = json.loads((finished[0] / "summary.json").read_bytes())
        own = {(row["method"], row["variant"], row["task"]): row for row in summary["rows"]}
        found = compared(finished[0], cwd=tmp_path)["comparisons"]
        assert len(found) == 2 * 4
        for row in found:
            told = own[row["method"], row["variant"], row["task"]]
            assert row["n_paired"] == told["n_paired"]
            numbers = [row["difference"], row["ci_low"], row["ci_high"]]
            assert numbers == pytest.approx([told["diff"], told["diff_low"], told["diff_high"]], abs=1e-12)

    def test_table(self, finished: tuple[Path, Path], tmp_path: Path) -> None:
        """The tables go to stdout with the kind of pool in each caption."""
        done = played("trinity.compare", *map(str, finished), cwd=tmp_path)
        assert done.returncode == 0
        assert done.stdout.count(", scripted pool") == 5


def test_files(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """`--out` makes its folder and writes all three forms, `--html` a page of its own."""
    done = played("trinity.compare", *map(str, pair), "--out", "new/folder", "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0
    names = ["comparison.html", "comparison.json", "comparison.md"]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == names
    written = ["page.html", *(f"new/folder/comparison.{kind}" for kind in ("json", "md", "html"))]
    assert done.stdout.splitlines()[-1] == f"written: {', '.join(written)}"
    assert (tmp_path / "page.html").read_bytes() == (tmp_path / "new" / "folder" / "comparison.html").read_bytes()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("A", "nowhere"), "error: nowhere: there is no such folder; give run folders such as outputs/NAME/TIME"),
        (("A", "alow_differences=true"), "did you mean 'allow_differences'?"),
        (("A", "B", "require_equal_effort=perhaps"), "error: require_equal_effort=perhaps: must be true or false"),
        (("A", "B", "--method", "\x1b[31mred"), "has no row"),
        (("A", "B", "--json", "missing/folder/found.json"), "error: cannot write missing/folder/found.json"),
        ((), "error: the following arguments are required: RUN"),
    ],
)
@pytest.mark.usefixtures("pair")
def test_mistakes(tmp_path: Path, words: tuple[str, ...], line: str) -> None:
    """A mistake is one line on stderr and exit code 2, whatever it holds."""
    done = played("trinity.compare", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
    assert done.stdout == ""


def test_unreadable_manifest(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """A manifest of another shape than this version's is one line too."""
    change(pair[1] / "manifest.json", agents=[{"model": "nameless"}])
    done = played("trinity.compare", "A", "B", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a file of these runs is damaged or of another version (KeyError: 'name')" in done.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [("statuses", []), ("ci_low", "x"), ("weighted_tokens_mean", "<b>"), ("weighted_tokens_mean", float("inf"))],
)
def test_damaged_summary(pair: tuple[Path, Path], tmp_path: Path, key: str, value: Any) -> None:
    """A value of a wrong kind in a summary is one line, and no file is begun."""
    summary = json.loads((pair[1] / "summary.json").read_bytes())
    change(pair[1] / "summary.json", rows=[{**row, key: value} for row in summary["rows"]])
    done = played("trinity.compare", "A", "B", "--out", "told", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert not (tmp_path / "told").exists()


@pytest.mark.parametrize("word", ["--require-equal-effort", "require_equal_effort=true"])
def test_equal_effort(tmp_path: Path, word: str) -> None:
    """Both forms of the switch refuse unequal effort."""
    for name, spent in (("A", 10), ("B", 20)):
        effort = {"coordinator": {**NOTHING_SPENT, "episodes": spent}}
        write_run(tmp_path / name, episodes({"i1": [1.0]}), effort=effort)
    done = played("trinity.compare", "A", "B", word, cwd=tmp_path)
    assert done.returncode == 2
    assert "10 episodes for A coordinator, 20 for B coordinator" in done.stderr
    assert played("trinity.compare", "A", "B", cwd=tmp_path).returncode == 0


def test_switches() -> None:
    """Words of a run's command line are taken out; paths and rows with an equals sign stay."""
    words, switches = switched(
        ["A", "allow_differences=true", "debug=true", "vote/a@T=0.8", "require_equal_effort=False"]
    )
    assert (words, switches) == (["A", "vote/a@T=0.8"], ["allow_differences"])
    with pytest.raises(ConfigError, match="must be true or false"):
        switched(["allow_differences=maybe"])
