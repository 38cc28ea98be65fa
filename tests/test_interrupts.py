"""Ctrl-C and SIGTERM, wherever they come: one line with the command that goes on, and nothing is lost."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.commands import TINY, environment, only_run
from tests.inprocess import played
from trinity.episodes import Play, Player
from trinity.launch.overrides import read_line, value_of
from trinity.runs.checkpoint import load_policy
from trinity.runs.manifest import resuming
from trinity.runs.records import comparable, read_records
from trinity.stopping import command_line, same_again
from trinity.types import Phase, Record

Results = tuple[list[dict[str, Any]], bytes]


def results(run: Path) -> Results:
    """Records and theta, as far as they must be equal between runs."""
    policy = run / "checkpoint" / "coordinator" / "best.safetensors"
    return [comparable(record) for record in read_records(run / "records.parquet")], load_policy(policy)[0].tobytes()


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody stopped."""
    folder = tmp_path_factory.mktemp("calm")
    done = played("trinity.run", *TINY, cwd=folder)
    assert done.returncode == 0, done.stderr
    return only_run(folder)


def told(stderr: str) -> tuple[str, list[str]]:
    """The last line up to the command that it names, and that command's words behind `python -m`."""
    said, mark, command = stderr.splitlines()[-1].partition("with: ")
    assert mark
    python, flag, *words = shlex.split(command)
    assert (python, flag) == ("python", "-m")
    return said.strip(), words


def struck(patch: pytest.MonkeyPatch, place: str, number: int = signal.SIGINT) -> None:
    """Let the function at `place`, a name in the module that calls it, begin with a signal the first time."""
    owner, _, name = place.rpartition(".")
    module = pytest.importorskip(owner)
    before: Callable[..., Any] = getattr(module, name)
    waiting = [number]

    def strike(*given: Any, **more: Any) -> Any:
        if waiting:
            os.kill(os.getpid(), waiting.pop())
        return before(*given, **more)

    patch.setattr(module, name, strike)


def struck_in(patch: pytest.MonkeyPatch, phase: Phase) -> None:
    """Let the third episode of a phase begin with Ctrl-C."""
    before, left = Player.play, [3]

    async def strike(self: Player, play: Play) -> Record:
        if play.replicate.phase == phase:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGINT)
        return await before(self, play)

    patch.setattr(Player, "play", strike)


BEFORE = {
    "set-up: tasks": "trinity.experiment.build_tasks",
    "set-up: what the manifest tells": "trinity.experiment.new_manifest",
}
BEGUN = {
    "set-up: the ledger": "trinity.experiment.groupby",
    "set-up: the store": "trinity.experiment.rules",
    "analysis": "trinity.analysis.build_analysis",
    "report: summary": "trinity.pipeline.build_summary",
    "report: records": "trinity.pipeline.write_records",
    "report: pages": "trinity.pipeline.write_reports",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", BEFORE)
def test_stopped_before_it_began(
    place: str, number: signal.Signals, calm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that has left nothing yet leaves no folder, and its line is the command itself, which then runs."""
    with monkeypatch.context() as patch:
        struck(patch, BEFORE[place], number)
        done = played("trinity.run", *TINY, cwd=tmp_path)
    how, words = told(done.stderr)
    assert (done.returncode, how) in [(130, "interrupted; begin again"), (143, "terminated; begin again")]
    assert done.stderr.count("\n") == 1
    assert words == ["trinity.run", *TINY]
    assert not [*tmp_path.glob("outputs/scripted/*/manifest.json")]
    assert played(*words, cwd=tmp_path).returncode == 0
    whole = max((tmp_path / "outputs" / "scripted").iterdir())
    assert results(whole) == results(calm)


def goes_on(done: subprocess.CompletedProcess[str], folder: Path) -> Results:
    """What a stopped run comes to by the command of its line."""
    how, words = told(done.stderr)
    assert (done.returncode, how) == (130, "interrupted; go on")
    assert words == ["trinity.run", f"resume={only_run(folder).relative_to(folder)}"]
    again = played(*words, cwd=folder)
    assert again.returncode == 0, again.stderr
    return results(only_run(folder))


@pytest.mark.parametrize("place", BEGUN)
def test_stopped_while_it_works_alone(place: str, calm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in set-up, analysis or report, a run goes on by the command of its line and ends as any other."""
    with monkeypatch.context() as patch:
        struck(patch, BEGUN[place])
        done = played("trinity.run", *TINY, cwd=tmp_path)
    assert goes_on(done, tmp_path) == results(calm)


@pytest.mark.parametrize("phase", ["train", "val", "reeval", "test"])
def test_stopped_while_it_plays(phase: Phase, calm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in an episode of any phase, a run goes on by the command of its line and ends as any other."""
    with monkeypatch.context() as patch:
        struck_in(patch, phase)
        done = played("trinity.run", *TINY, cwd=tmp_path)
    assert goes_on(done, tmp_path) == results(calm)


def test_a_plan_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the costs are wanted, the line is the command itself."""
    with monkeypatch.context() as patch:
        struck(patch, "trinity.experiment.plan_table")
        done = played("trinity.run", *TINY, "plan=true", cwd=tmp_path)
    assert (done.returncode, told(done.stderr)[1]) == (130, ["trinity.run", *TINY, "plan=true"])


def test_a_sweep_goes_on_by_one_command(calm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in its first job, a sweep plays no other one, and one command goes on with all."""
    with monkeypatch.context() as patch:
        struck_in(patch, "test")
        done = played("trinity.run", *TINY, "data.n_test=4,3", "-m", cwd=tmp_path)
    how, words = told(done.stderr)
    assert (done.returncode, how) == (130, "interrupted; go on")
    sweep = only_run(tmp_path)
    assert words == ["trinity.run", "-m", f"resume={sweep.relative_to(tmp_path)}"]
    assert len([*sweep.glob("*/manifest.json")]) == 1
    again = played(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    tables = [results(job.parent) for job in sweep.glob("*/records.parquet")]
    assert len(tables) == 2
    assert results(calm) in tables


READERS = {
    "replay": ("trinity.replay", "trinity.rebuild.contest"),
    "report": ("trinity.report", "trinity.reporting.write_reports"),
    "compare": ("trinity.compare", "evals.comparison.compare.compare"),
    "regrade": ("evals.regrade", "trinity.pipeline.contest"),
}


@pytest.mark.parametrize("name", READERS)
def test_commands_that_read_a_run(name: str, calm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped, they name their own command line, which then works; the run is as it was."""
    run = Path(shutil.copytree(calm, tmp_path / "a run"))
    module, place = READERS[name]
    with monkeypatch.context() as patch:
        struck(patch, place)
        done = played(module, str(run), cwd=tmp_path)
    how, words = told(done.stderr)
    assert (done.returncode, how, words) == (130, "interrupted; begin again", [module, str(run)])
    assert played(*words, cwd=tmp_path).returncode == 0
    assert results(run) == results(calm)


def test_a_check_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped check names its own command line."""
    words = ("task=[python_values]", "data.n_test=2")
    with monkeypatch.context() as patch:
        struck(patch, "evals.check._graded_all")
        done = played("evals.check", *words, cwd=tmp_path)
    assert (done.returncode, told(done.stderr)[1]) == (130, ["evals.check", *words])


BUSY = """\
    import asyncio, os, signal, sys, time
    from trinity import cli, stopping

    stopping.PATIENCE_S = {patience}

    async def stubborn():
        while True:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

    async def waiting():
        try:
            await asyncio.gather(kill())
        finally:
            await asyncio.sleep(0)
            print("put away", flush=True)

    async def kill():
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(3600)

    async def computing():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(3600)
        finally:
            await asyncio.sleep(0)
            print("put away", flush=True)

    async def deaf():
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            try:
                time.sleep(0.01)
            except KeyboardInterrupt:
                pass

    sys.argv = ["trinity.run", "a b"]
    sys.exit(cli.main_guard(lambda: stopping.run_async({busy}())))
"""
LINE = "interrupted; begin again with: python -m trinity.run 'a b'\n"


def busy(name: str, patience: float) -> subprocess.CompletedProcess[str]:
    """A process that interrupts itself and does not want to end."""
    script = textwrap.dedent(BUSY).format(busy=name, patience=patience)
    words = [sys.executable, "-c", script]
    return subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("name", "patience", "said"),
    [
        ("waiting", 3600.0, "put away\n"),
        ("computing", 3600.0, "put away\n"),
        ("stubborn", 3600.0, ""),  # the second signal ends it at once
        ("deaf", 0.2, ""),
    ],
)
def test_whoever_does_not_hear_is_ended(name: str, patience: float, said: str) -> None:
    """What waits or computes is broken off and puts its things away; a second signal, or patience, ends the rest."""
    done = busy(name, patience)
    assert (done.returncode, done.stderr, done.stdout) == (130, LINE, said)


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["/suite/evals/check.py", "task=[mbpp]"], "python -m evals.check 'task=[mbpp]'"),
        (["trinity.run", "url=http://me:word@host/v1"], "python -m trinity.run 'url=http://***@host/v1'"),
        (["trinity.run", "x=sk-very-secret"], "python -m trinity.run 'x=***'"),
    ],
)
def test_the_same_again(argv: Sequence[str], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is what a shell takes; user info and values of secret variables are masked."""
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret")
    assert same_again(argv) == line


def test_a_printed_command_names_the_interpreter_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python` where the PATH leads to it, else its path, from here where it lies below; written for a shell."""
    monkeypatch.chdir(tmp_path)
    for place in ("my env/bin", "other/bin"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "python").write_text("#!/bin/sh\n")
        (tmp_path / place / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my env" / "bin" / "python3"))
    monkeypatch.setenv("PATH", str(tmp_path / "my env" / "bin"))
    assert command_line("trinity.run", "resume=a b") == "python -m trinity.run 'resume=a b'"
    for path in (str(tmp_path / "other" / "bin"), ""):
        monkeypatch.setenv("PATH", path)
        assert command_line("trinity.run") == "'my env/bin/python3' -m trinity.run"
    monkeypatch.chdir(tmp_path / "other")
    assert command_line() == f"'{tmp_path / 'my env' / 'bin' / 'python3'}' -m"


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("outputs/a/1", "python -m trinity.run resume=outputs/a/1"),
        ("it's ü, a=b", """python -m trinity.run 'resume='"'"'it\\'"'"'s ü, a=b'"'"''"""),
    ],
)
def test_a_folder_that_a_command_names(folder: str, line: str) -> None:
    """A folder of any name is written as shell and Hydra read it."""
    assert resuming(folder) == line


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize(
    "folder",
    [
        *("outputs/a/1", "a b", "ünï ☃", "k=v,a#h[0]", "d$HOME", "${oc.env:HOME}", "{a: b}", "~x", "%s", " lead"),
        *("it's", 'say "x"', "back\\slash", "one\\", "two\\\\", "three\\\\\\", "q\\'q", "q\\\\'q", "'", "tab\there"),
        *("null", "true", "2026", "1e3", "1_000", "a\nb"),
    ],
)
def test_shell_and_hydra_read_the_folder_that_was_written(folder: str, sweep: bool) -> None:
    """Whatever a folder is called, the command that goes on with it finds that very name."""
    words = shlex.split(resuming(folder, sweep=sweep))
    line = read_line(words[words.index("trinity.run") + 1 :])
    assert (value_of(line.words, "resume"), line.multirun) == (folder, sweep)
