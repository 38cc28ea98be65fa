"""Every mistake is one line that says what to do, and exit code 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.commands import TINY, command
from tests.inprocess import played
from trinity.assembly import checked_items
from trinity.errors import ConfigError, SplitError
from trinity.splits import check_disjoint
from trinity.testing import SkillTask
from trinity.types import Item

EVERYDAY = ("+experiment=scripted", "task=[everyday]", "data.n_train=2", "data.n_val=2", "data.n_test=2")
NO_VOTE = "method vote is not chosen; name it in method=[...], or add it with +method=[vote]"
NO_GSM8K = "task gsm8k is not chosen; name it in task=[...], or add it with +task=[gsm8k]"
Play = Callable[..., CompletedProcess[str]]


def line(cwd: Path, *words: str, play: Play = played, **environment: str) -> str:
    """The one line that a mistaken command prints."""
    done = play("trinity.run", *words, cwd=cwd, **environment)
    assert done.returncode == 2, done.stderr
    *progress, text = done.stderr.splitlines()
    assert text.startswith("error: ")
    assert all(told.startswith("run ") for told in progress)
    assert done.stdout == ""
    return text


def questions(n: int) -> list[dict[str, object]]:
    """Well-formed lines of the everyday task."""
    source = Path(__file__).resolve().parent.parent / "evals" / "tasks" / "data" / "everyday.jsonl"
    return [json.loads(text) for text in source.read_text("utf-8").splitlines()[:n]]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    """A data file of `rows`."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class TestConfiguration:
    """Mistakes on the command line."""

    def test_unknown_option(self, tmp_path: Path) -> None:
        """A group has no such option; the nearest is named."""
        assert "did you mean 'scripted'?" in line(tmp_path, "pool=scriptd")

    def test_misspelt_key(self, tmp_path: Path) -> None:
        """There is no such key; the nearest is named."""
        assert "did you mean 'concurrency'?" in line(tmp_path, "concurency=3")

    def test_misspelt_argument(self, tmp_path: Path) -> None:
        """A key that a class does not know is named with its place."""
        assert "did you mean" in line(tmp_path, *TINY, "+methods.vote.tmperature=1")

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (
                ("+experiment=quickstart", "method=[single]", "methods.vote.most=3"),
                f"methods.vote.most=3: {NO_VOTE}",
            ),
            (
                ("method=[single]", "methods.vote.most=3"),
                f"there is no key 'methods.vote': {NO_VOTE}",
            ),
            (
                ("method=[single]", "methods.vote.name=voters"),
                f"methods.vote.name=voters: {NO_VOTE}",
            ),
            (
                ("task=[everyday]", "tasks.gsm8k.path=rows.jsonl"),
                f"there is no key 'tasks.gsm8k': {NO_GSM8K}",
            ),
            (
                ("task=[everyday]", "+tasks.gsm8k.path=rows.jsonl"),
                f"+tasks.gsm8k.path=rows.jsonl: {NO_GSM8K}",
            ),
            (
                ("+methods.vot.most=3",),
                "methods.vot: has no _target_, and no method of that name is chosen; did you mean 'vote'?",
            ),
            (("+method=cot", "+method=debate"), "+method stands twice; write +method=[cot,debate]"),
            (("+pool=ollama",), "pool has one option already; write pool=NAME, without a plus, to take another"),
            (
                ("--experiment", "quickstart"),
                "there is no flag --experimental-rerun; an experiment is chosen with +experiment=NAME",
            ),
        ],
    )
    def test_words_about_what_is_not_chosen(self, words: tuple[str, ...], told: str, tmp_path: Path) -> None:
        """Settings of a method or task that the run lacks, and words that add wrongly, are refused with the way."""
        assert line(tmp_path, *words) == f"error: {told}"

    def test_a_file_may_speak_of_what_is_not_chosen(self, tmp_path: Path) -> None:
        """An experiment's settings of methods that the command line's list leaves out are forgotten."""
        words = ("+experiment=quickstart", "pool=team", "method=[single,coordinator]", "plan=true")
        done = played("trinity.run", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [word for word in ("single", "coordinator", "vote", "random") if word in done.stdout] == [
            "single",
            "coordinator",
        ]

    def test_a_chosen_file_without_a_class(self, tmp_path: Path) -> None:
        """An option of the user's own that names no class is not taken for one that is not chosen."""
        (tmp_path / "mine" / "method").mkdir(parents=True)
        (tmp_path / "mine" / "method" / "own.yaml").write_text("# @package methods.own\nmost: 3\n")
        text = line(tmp_path, "--config-dir", "mine", "+experiment=scripted", "+method=own")
        assert "methods.own: has no _target_" in text

    def test_two_agents_of_one_name(self, tmp_path: Path) -> None:
        """Names are unique."""
        agent = "{name: twin, endpoint: script, model: reckoner}"
        assert "twin" in line(tmp_path, *TINY, f"pool.agents=[{agent},{agent}]")

    def test_cold_vote(self, tmp_path: Path) -> None:
        """A vote of equal samples is refused before anything is asked."""
        assert "temperature" in line(tmp_path, *TINY, "methods.vote.temperature=0.1")

    @pytest.mark.parametrize(
        ("word", "place"),
        [
            ("methods.coordinator=null", "methods.coordinator"),
            ("coordinator.max_turns=abc", "max_turns=abc"),
            ("methods.vote.temperature=nan", "temperature=nan"),
            ("tasks.sums.n_test=abc", "tasks.sums.n_test"),
            ("trainer.optimiser.popsize=3.5", "trainer.optimiser"),
        ],
    )
    def test_values_of_the_wrong_kind(self, word: str, place: str, tmp_path: Path) -> None:
        """A value that its class cannot use is named before anything is asked."""
        assert place in line(tmp_path, *TINY[:1], word)

    def test_axis_without_prices(self, tmp_path: Path) -> None:
        """Costs in USD of agents without a price are refused before anything is asked, and the agents are named."""
        text = line(tmp_path, *TINY, "cost_axis=usd")
        assert text == "error: cost_axis=usd: no price is known of reckoner, linguist, planner; give it in the pool"
        assert not [*tmp_path.glob("outputs/scripted/*")]

    def test_nothing_is_left_behind(self, tmp_path: Path) -> None:
        """A run that refused to start leaves no run folder."""
        line(tmp_path, *TINY, "methods.vote.temperature=0.1")
        assert not [*tmp_path.glob("outputs/scripted/*")]


class TestData:
    """Mistakes in data."""

    def test_missing_file(self, tmp_path: Path) -> None:
        """The missing file is named."""
        assert str(tmp_path / "none.jsonl") in line(tmp_path, *EVERYDAY, f"+tasks.everyday.path={tmp_path}/none.jsonl")

    def test_broken_line(self, tmp_path: Path) -> None:
        """A broken line is named by file and number."""
        path = write(tmp_path / "data.jsonl", questions(9))
        path.write_text(path.read_text().replace("{", "", 1))
        assert f"{path}:1" in line(tmp_path, *EVERYDAY, f"+tasks.everyday.path={path}")

    def test_overlapping_splits(self, tmp_path: Path) -> None:
        """A task that shares its questions with another one, cut otherwise, is refused."""
        other = "{_target_: tests.copycat.Copycat, n_train: 0, n_val: 0, n_test: 3}"
        text = line(tmp_path, *TINY, f"+tasks.copycat={other}")
        assert "splits overlap: sums/sums-train-0 (train) and copycat/0 (test)" in text

    def test_splits_are_compared_folded(self) -> None:
        """Texts that differ by case, width or white space are the same question, across tasks too."""
        first = Item("1", "a", "What is  TWO plus two?", "4", "d")
        second = Item("2", "b", "what is\uff0ctwo plus two?".replace("\uff0c", "\u00a0"), "4", "d")
        with pytest.raises(SplitError, match=r"a/1 \(train\) and b/2 \(test\)"):
            check_disjoint([("train", first), ("test", second)])
        check_disjoint([("train", first), ("train", second)])

    def test_a_split_without_items(self, tmp_path: Path) -> None:
        """A task that has nothing in one of its splits is named with the split."""
        empty = "{_target_: trinity.testing.SkillTask, name: empty, n_train: 1, n_val: 0, n_test: 1}"
        assert "task empty: its val split holds items of nothing" in line(tmp_path, *TINY, f"+tasks.empty={empty}")

    def test_items_of_another_task(self) -> None:
        """Items that name another task than the one that gives them are refused."""
        owner, borrower = (SkillTask(name, n_train=1, n_val=1, n_test=1) for name in ("owner", "borrower"))
        assert checked_items({"borrower": borrower})["borrower"]["test"] == ["borrower-test-0"]
        borrower.items = owner.items  # type: ignore[method-assign]
        with pytest.raises(ConfigError, match="task borrower: its train split holds items of owner"):
            checked_items({"borrower": borrower})


class TestEndpoints:
    """Mistakes about models."""

    def test_unreachable(self, tmp_path: Path) -> None:
        """Where nobody listens the run stops and names the address."""
        text = line(
            tmp_path,
            *TINY,
            "pool=openai_http",
            play=command,
            OPENAI_BASE_URL="http://127.0.0.1:9/v1",
            OPENAI_MODEL="m",
            OPENAI_API_KEY="canary-5d1f",
        )
        assert "127.0.0.1:9" in text
        assert "canary" not in text

    def test_missing_environment(self, tmp_path: Path) -> None:
        """A variable that the pool needs is named."""
        text = line(tmp_path, *TINY, "pool=openai_http", OPENAI_MODEL="m")
        assert "pool.endpoints.main.base_url: set the environment variable OPENAI_BASE_URL" in text

    def test_a_folder_without_a_run(self, tmp_path: Path) -> None:
        """What `resume` names must be a run's folder, and the line says what one looks like."""
        assert "is no run: it has no manifest.json" in line(tmp_path, f"resume={tmp_path / 'nothing'}")

    def test_damaged_weights(self, tmp_path: Path) -> None:
        """A weights file with another hash never reaches the engine."""
        file = tmp_path / "model.gguf"
        file.write_bytes(b"GGUF" + bytes(100))
        text = line(tmp_path, *TINY, "pool=local", f"+weights.paths={{qwen2.5-coder-0.5b-instruct: {file}}}")
        assert "damaged weights" in text
        assert str(file) in text
