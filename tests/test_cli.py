"""Commands: whatever goes wrong, stderr holds one line that says what to do, and the exit code its kind."""

from __future__ import annotations

import errno
import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from trinity.cli import check_siblings, main_guard
from trinity.config import group_options
from trinity.errors import ConfigError, EndpointError
from trinity.launch.app import hydra_command
from trinity.run import USAGE

ROOT = Path(__file__).parents[1]
HEAVY = (
    "torch",
    "transformers",
    "litellm",
    "pandas",
    "pyarrow",
    "matplotlib",
    "cma",
    "xllamacpp",
    "statsmodels",
    "numpy",
)
Run = Callable[..., tuple[int, str]]


def done(_: DictConfig) -> int:
    """A run that ends well."""
    return 0


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """`command("pool=x", task=...)`: exit code and stderr of a command line, in an empty folder, with our `conf`."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, task: Callable[[DictConfig], int] = done) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["run.py", *words])
        return main_guard(lambda: hydra_command(task, USAGE)), capfd.readouterr().err

    return run


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[[str], tuple[str, str]]:
    """`experiment(text)`: the words that add an experiment file `mine` of this text."""

    def write(text: str) -> tuple[str, str]:
        file = tmp_path / "extra" / "experiment" / "mine.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(f"# @package _global_\n{text}\n", "utf-8")
        return f"--config-dir={tmp_path / 'extra'}", "+experiment=mine"

    return write


@pytest.mark.parametrize("multirun", [(), ("-m",)])
@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("pool=lokal", "error: pool=lokal: there is no such option; did you mean 'local'?"),
        ("trainer=sep_cma", "error: trainer=sep_cma: there is no such option; did you mean 'sep_cma_es'?"),
        ("sandbox=podman", "error: sandbox=podman: there is no such option; choose from: bubblewrap, docker, none"),
        ("task=[word_problms]", "error: task=word_problms: there is no such option; did you mean 'word_problems'?"),
        ("method=[single,vot]", "error: method=vot: there is no such option; did you mean 'vote'?"),
        ("+experiment=quikstart", "error: experiment=quikstart: there is no such option; did you mean 'quickstart'?"),
        ("expirement=quickstart", "error: there is no key 'expirement'; did you mean 'experiment'?"),
        ("sede=1", "error: there is no key 'sede'; did you mean 'seed'?"),
        ("data.n_trian=3", "error: there is no key 'data.n_trian'; did you mean 'data.n_train'?"),
        ("n_train=3", "error: there is no key 'n_train'; did you mean 'data.n_train'?"),
        ("+exp=quickstart", "error: there is no key 'exp'; did you mean 'experiment'?"),
        ("seed=abc", "error: seed: Value 'abc' of type 'str' could not be converted to Integer"),
        ("seed=1.5", "error: seed: Value '1.5' of type 'float' could not be converted to Integer"),
        ("data.n_train=0", "error: data.n_train=0: must be at least 1"),
        ("data=null", "error: data: field 'data' is not Optional"),
        ("pool", "error: pool has no value; write pool=NAME with one of: "),
        ("seed", "error: seed has no value; write seed=VALUE"),
        ("quickstart", "error: quickstart has no value; did you mean +experiment=quickstart?"),
        ("sede", "error: sede has no value; write KEY=VALUE; did you mean 'seed'?"),
        ("+experiment", "error: +experiment has no value; write +experiment=NAME with one of: cost_tradeoff, "),
        ("experiment=quickstart", "error: experiment=quickstart: write +experiment=quickstart, with a plus"),
        ("+experiment=", "error: +experiment= has no value; write +experiment=NAME with one of: cost_tradeoff"),
        ("pool=", "error: pool= has no value; write pool=NAME with one of: "),
        ("seed=", "error: seed= has no value; write seed=VALUE"),
        ("store=", "error: store= has no value; write store=VALUE"),
        ("resume=", "error: resume= has no value; write resume=FOLDER with the folder of a run, or leave it out"),
        ("resume=''", "error: resume='' has no value; write resume=FOLDER"),
        ("seed=1,", "error: cannot read 'seed=1,' as key=value"),
        ("seed=-1", "error: seed=-1: must be at least 0"),
        ("seed=9223372036854775808", "error: seed=9223372036854775808: a whole number must stay below 2**63"),
        ("--config-dir=nowhere", "error: nowhere: there is no such folder to look for configurations in"),
        ("hydra.searchpath=[file://nowhere]", "error: nowhere: there is no such folder"),
        (
            "hydra.searchpath=nowhere",
            "error: hydra.searchpath=nowhere: must be a list, hydra.searchpath=[file://FOLDER]",
        ),
        ('store="', "error: cannot read 'store=\"' as key=value"),
        ("~foo", "error: Could not delete from config. 'foo' does not exist."),
        ("store=${nope}", "error: store.path: Interpolation key 'nope' not found"),
        ("name=${nope}", "Interpolation key 'nope' not found"),
        ("store=???", "error: store.path: Missing mandatory value: path"),
        ("--halp", "error: unrecognized arguments: --halp"),
    ],
)
def test_mistakes_on_the_command_line(word: str, line: str, multirun: tuple[str, ...], command: Run) -> None:
    """Hydra's own errors come as one line with the nearest valid name and exit code 2, in a multirun too."""
    code, said = command(*multirun, word)
    assert code == 2
    assert said.count("\n") == 1
    assert line in said


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nmae: x", "error: conf/experiment/mine.yaml: there is no key 'nmae'; did you mean 'name'?"),
        ("seed: many", "error: conf/experiment/mine.yaml: seed: Value 'many' of type 'str' could not be converted"),
        ("defaults: [{override /pool: lokal}]", "error: pool=lokal: there is no such option; did you mean 'local'?"),
        ("defaults: [{override /pol: local}]", "Could not override 'pol'. No match in the defaults list."),
        ("data: {n_train: -1}", "error: data.n_train=-1: must be at least 1"),
    ],
)
def test_mistakes_in_a_file(text: str, line: str, command: Run, experiment: Callable[[str], tuple[str, str]]) -> None:
    """Mistakes in an experiment file are told like those on the command line, with the file."""
    code, said = command(*experiment(text))
    assert code == 2
    assert said.count("\n") == 1
    assert line in said


def test_broken_yaml_names_its_line(command: Run, experiment: Callable[[str], tuple[str, str]]) -> None:
    """A file that is no YAML is named with the line that breaks it."""
    code, said = command(*experiment("seed: [1, 2\nname: x"))
    assert code == 2
    assert said.count("\n") == 1
    assert "mine.yaml" in said
    assert "line 3" in said


def test_exit_code_of_the_task(command: Run, tmp_path: Path) -> None:
    """The task's own exit code is the command's, and a run that left nothing leaves no folder."""
    assert command(task=lambda _: 0) == (0, "")
    assert command(task=lambda _: 1) == (1, "")
    assert list((tmp_path / "outputs" / "default").iterdir()) == []


def test_run_folder_is_kept_when_used(command: Run, tmp_path: Path) -> None:
    """Each run has a folder of its own, named after the experiment, and what it wrote stays."""

    def write(_: DictConfig) -> int:
        from hydra.core.hydra_config import HydraConfig

        Path(HydraConfig.get().runtime.output_dir, "kept").touch()
        return 0

    assert command("name=mine", task=write) == (0, "")
    assert command("name=mine", task=write) == (0, "")
    assert len(list((tmp_path / "outputs" / "mine").glob("*/kept"))) == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("seed=0,1",), "error: seed=0,1: several values make a sweep, add -m; a list is written with [ and ]"),
        (("-m", "pool=local,lokal"), "error: pool=lokal: there is no such option; did you mean 'local'?"),
        (("-m", "seed=0,-1"), "error: seed=-1: must be at least 0"),
        (
            ("-m", "store=a,b"),
            "error: store.path shapes no result, so its values make no jobs of their own; give it one value",
        ),
        (("-m", "resume=a,b"), "error: resume=a,b: resume takes one value"),
        (("-m", "resume=nowhere"), "error: nowhere is no sweep: it has no sweep.json; a single run goes on without -m"),
    ],
)
def test_mistakes_about_sweeps(words: tuple[str, ...], line: str, command: Run) -> None:
    """A sweep with a value that makes no sense is refused before any of its jobs runs."""
    started: list[int] = []

    def task(cfg: DictConfig) -> int:
        started.append(cfg.seed)
        return 0

    assert command(*words, task=task) == (2, f"{line}\n")
    assert started == []


def test_missing_keys_inside_the_task(command: Run) -> None:
    """A key that the task looks for in vain is a mistake in the configuration, not a bug."""
    code, said = command(task=lambda cfg: int(cfg.trainer.generatoins))
    assert (code, said) == (2, "error: there is no key 'trainer.generatoins'; did you mean 'trainer.generations'?\n")


def test_debug_shows_the_traceback(command: Run) -> None:
    """debug=true puts the traceback before the line, for mistakes as for bugs."""
    code, said = command("debug=true", "pool=lokal")
    assert code == 2
    assert said.startswith("Traceback")
    assert said.splitlines()[-1].startswith("error: pool=lokal")
    code, said = command("debug=true", task=lambda _: 1 // 0)
    assert code == 1
    assert "in <lambda>" in said
    assert said.splitlines()[-1] == "internal error: ZeroDivisionError: integer division or modulo by zero"


def fail(error: BaseException) -> Callable[[], int]:
    """A command that raises `error`."""

    def run() -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (EndpointError("two\n lines\x1b[31m"), 2, "error: two lines\N{REPLACEMENT CHARACTER}[31m"),
        (KeyboardInterrupt(), 130, "interrupted; begin again with: python -m "),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.db"), 2, "error: No space left on device: x.db"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "x.db"), 2, "error: Permission denied: x.db"),
        (OSError(errno.EFBIG, os.strerror(errno.EFBIG), "x.log"), 2, "error: File too large: x.log"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 2, "error: No space left on device"),
        (ValueError("a\nb"), 1, "internal error: ValueError: a b (debug=true shows the traceback)"),
        (ExceptionGroup("group", [ValueError("x"), ExceptionGroup("in", [EndpointError("y")])]), 2, "error: y"),
        (ExceptionGroup("group", [ValueError("x")]), 1, "internal error: ValueError: x"),
    ],
)
def test_main_guard(error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every kind of error has its exit code and one printable line."""
    assert main_guard(fail(error), argv=[]) == code
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", [("store=a.sqlite",), ("++store=a.sqlite",), ("-m", "store=a.sqlite")])
def test_store_is_short_for_its_path(words: tuple[str, ...], command: Run) -> None:
    """`store=PATH` sets the store's path, in a sweep too, and leaves its mode."""
    seen: list[tuple[str, str]] = []

    def task(cfg: DictConfig) -> int:
        seen.append((cfg.store.path, cfg.store.mode))
        return 0

    assert command(*words, task=task) == (0, "")
    assert seen == [("a.sqlite", "use")]


def test_open_branches_take_new_keys(command: Run) -> None:
    """Sampling parameters and prompt components are given without a plus, though no configuration lists them."""
    seen: list[object] = []

    def task(cfg: DictConfig) -> int:
        seen.append((dict(cfg.backbones.sampling), dict(cfg.methods.cot.components)))
        return 0

    words = ("method=[cot]", "backbones.sampling.top_k=5", "methods.cot.components={generation_system: Think.}")
    assert command(*words, task=task) == (0, "")
    assert seen == [({"top_k": 5}, {"generation_system": "Think."})]


def test_main_guard_passes_exit_codes_on() -> None:
    """A command's own exit code stays."""
    assert main_guard(lambda: 7, argv=[]) == 7


@pytest.mark.parametrize("ignored", [False, True])
def test_sigterm_ends_a_command_as_an_interrupt_does(
    ignored: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGTERM unwinds the command, also where interrupts are ignored; one line, exit code 143, the handler put back."""
    put_away: list[bool] = []
    monkeypatch.setattr(sys, "argv", ["/suite/trinity/replay.py", "outputs/my run"])

    def run() -> int:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            put_away.append(True)
        return 0

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        if ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert main_guard(run, argv=[]) == 143
        assert signal.getsignal(signal.SIGTERM) == handlers[1]
    finally:
        signal.signal(signal.SIGINT, handlers[0])
    assert put_away == [True]
    again = "python -m trinity.replay 'outputs/my run'"
    assert capsys.readouterr().err == f"terminated; begin again with: {again}\n"
    assert main_guard(fail(KeyboardInterrupt()), argv=[]) == 130


def test_a_stopped_run_says_how_to_go_on(command: Run) -> None:
    """A run that has a manifest when it is stopped is told by its folder, a resumed one by its own."""

    def task(cfg: DictConfig) -> int:
        from hydra.core.hydra_config import HydraConfig

        Path(cfg.resume or HydraConfig.get().runtime.output_dir, "manifest.json").write_text("{}", "utf-8")
        raise KeyboardInterrupt

    code, said = command("name=mine", task=task)
    assert code == 130
    assert said.startswith("interrupted; go on with: python -m trinity.run resume=outputs/mine/")
    assert said.count("\n") == 1
    folder = said.rpartition("=")[2].strip()
    assert command(f"resume={folder}", task=task) == (130, said)


@pytest.mark.parametrize("name", ["evals", "baselines"])
def test_a_users_folder_must_not_hide_ours(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of our siblings' name in front of ours is refused by its path; a folder without code is not."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / name).mkdir()
    check_siblings()
    (tmp_path / name / "__init__.py").touch()
    importlib.invalidate_caches()
    with pytest.raises(ConfigError, match=f"{re.escape(str(tmp_path / name))} hides the suite's own package {name}"):
        check_siblings()


def trinity_run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The real command, in a process of its own."""
    command = [sys.executable, "-m", "trinity.run", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def test_the_command_itself(tmp_path: Path) -> None:
    """`python -m trinity.run` works from any folder, names the mistake on stderr and says nothing on stdout."""
    ran = trinity_run("pool=lokal", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: pool=lokal: there is no such option; did you mean 'local'?\n"
    assert list(tmp_path.iterdir()) == []


def test_help_lists_the_groups(tmp_path: Path) -> None:
    """--help names the command's groups and options."""
    ran = trinity_run("--help", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Usage: python -m trinity.run")
    for group in ("pool", "encoder", "trainer", "task", "method"):
        assert f"\n  {group}: {', '.join(group_options(group))}\n" in ran.stdout


def test_the_entry_loads_nothing_heavy(tmp_path: Path) -> None:
    """Importing the command loads neither numpy nor any of the heavy libraries."""
    code = f"import sys, trinity.run, trinity.config; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
    )
    assert ran.stdout.split() == []
