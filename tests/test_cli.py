"""Commands: whatever goes wrong, stderr holds one line that says what to do, and the exit code its kind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from trinity.cli import hydra_command, main_guard
from trinity.config import group_options
from trinity.errors import EndpointError
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
        ("pool", "error: cannot read 'pool' as key=value: missing EQUAL at '<EOF>'"),
        ('store="', "error: cannot read 'store=\"' as key=value"),
        ("~foo", "error: Could not delete from config. 'foo' does not exist."),
        ("store=${nope}", "error: store: Interpolation key 'nope' not found"),
        ("name=${nope}", "Interpolation key 'nope' not found"),
        ("store=???", "error: store: Missing mandatory value: store"),
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


def test_a_failed_job_does_not_stop_a_multirun(command: Run) -> None:
    """The other jobs run, each failure has its line, and the worst exit code counts."""
    seen: list[int] = []

    def task(cfg: DictConfig) -> int:
        seen.append(cfg.seed)
        if cfg.seed == 1:
            raise EndpointError("nobody listens at http://127.0.0.1:9; start the server")
        return 0

    code, said = command("-m", "seed=0,1,2", task=task)
    assert (code, seen) == (2, [0, 1, 2])
    assert said == "error: nobody listens at http://127.0.0.1:9; start the server\n"


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
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.db"), 2, "error: No space left on device: x.db"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "x.db"), 2, "error: Permission denied: x.db"),
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


def test_main_guard_passes_exit_codes_on() -> None:
    """A command's own exit code stays."""
    assert main_guard(lambda: 7, argv=[]) == 7


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
