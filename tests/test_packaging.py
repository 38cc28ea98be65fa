"""The wheel: what it holds, and that it runs where nothing else of the suite is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

import trinity
from tests.commands import ROOT, TINY

DATA = (".yaml", ".txt", ".json", ".jsonl", ".csv", ".typed", ".css", ".js")


class Installed(NamedTuple):
    """The wheel, and the interpreter of an environment that holds it beside the running one's libraries."""

    wheel: Path
    python: Path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the wheel and install it where this checkout does not reach.

    The new environment sees this one's libraries by a `.pth` line. Files of that kind inside a folder that was added
    so are not read: that is how the editable install of this checkout stays outside.
    """
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"), cwd=folder)
    python = folder / "venv" / "bin" / "python"
    install = ("pip", "install", "--offline", "--no-deps", "--python", str(python), str(wheel))
    _run(sys.executable, "-m", "uv", *install, cwd=folder)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv"), "platbase": str(folder / "venv")}))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return Installed(wheel, python)


def _run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command without this checkout's PYTHONPATH."""
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment = {**clean, "NO_COLOR": "1", "COLUMNS": "200", "UV_NO_CONFIG": "1"}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=240)
    if words[0] == sys.executable:
        assert done.returncode == 0, done.stderr
    return done


def test_what_the_wheel_holds(installed: Installed) -> None:
    """Every module, configuration, prompt and data file, licence and type marker; no tests; one version."""
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"trinity_suite-{trinity.__version__}.dist-info/METADATA").decode()
    packages = {name.split("/")[0] for name in names}
    ours = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} - {"tests"}
    assert packages == {*ours, f"trinity_suite-{trinity.__version__}.dist-info"}
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in ours
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", *DATA) and "__pycache__" not in path.parts
    }
    configs = {f"trinity/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "conf").rglob("*.yaml")}
    assert {name for name in names if ".dist-info" not in name} >= sources | configs
    assert not [name for name in names if name.endswith((".pyc", ".sqlite")) or "/outputs/" in name]
    assert f"trinity_suite-{trinity.__version__}.dist-info/licenses/LICENSE" in names
    assert f"\nVersion: {trinity.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata


def test_the_checkout_does_not_reach_in(installed: Installed, tmp_path: Path) -> None:
    """What the new environment imports lies in it, and its configurations too."""
    code = "import trinity, evals, trinity.config as c; print(trinity.__file__, evals.__file__, c.find_configs())"
    places = _run(str(installed.python), "-c", code, cwd=tmp_path).stdout.split()
    assert len(places) == 3
    assert all(place.startswith(str(installed.python.parents[1])) for place in places)
    searched = _run(str(installed.python), "-c", "import sys; print(*sys.path, sep='\\n')", cwd=tmp_path).stdout
    assert str(ROOT) not in searched.splitlines()


def test_a_folder_that_hides_ours(installed: Installed, tmp_path: Path) -> None:
    """From a folder with a package `evals` of somebody else every command refuses in one line that names it."""
    _decoys(tmp_path, "evals", "conf")
    for module in ("run", "replay", "compare", "report", "ledger"):
        done = _run(str(installed.python), "-m", f"trinity.{module}", "--help", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"error: {tmp_path / 'evals'} hides the suite's own package evals; rename it or call from another folder\n"
        )


def test_a_run_of_the_wheel(installed: Installed, tmp_path: Path) -> None:
    """From a folder with a `conf` of somebody else the wheel helps, plays a whole run, and replays it."""
    _decoys(tmp_path, "conf")
    shown = _run(str(installed.python), "-m", "trinity.run", "--help", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "decoy" not in shown.stdout
    assert "\n  pool: " in shown.stdout
    done = _run(str(installed.python), "-m", "trinity.run", *TINY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "outputs" / "scripted").iterdir()
    assert json.loads((run / "manifest.json").read_bytes())["finished"] is True
    again = _run(str(installed.python), "-m", "trinity.replay", str(run), cwd=tmp_path)
    assert again.returncode == 0, again.stderr


def test_a_users_folder_with_the_wheel(installed: Installed, tmp_path: Path) -> None:
    """`--config-dir` adds options of a user's own to those of the wheel."""
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine" / "experiment" / "own.yaml").write_text("# @package _global_\nname: theirs\n", "utf-8")
    words = ("-m", "trinity.run", "--config-dir", "mine", "+experiment=own", "--cfg", "job")
    done = _run(str(installed.python), *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "name: theirs" in done.stdout


def test_what_an_editable_install_holds(tmp_path: Path) -> None:
    """It points to the checkout and copies none of it: a copy would grow stale, and generated code could import it."""
    code = "import hatchling.build, sys; print(hatchling.build.build_editable(sys.argv[1]))"
    wheel = _run(sys.executable, "-c", code, str(tmp_path), cwd=ROOT).stdout.split()[-1]
    with zipfile.ZipFile(tmp_path / wheel) as editable:
        assert {name.split("/")[0].rpartition(".")[2] for name in editable.namelist()} == {"pth", "dist-info"}


def _decoys(folder: Path, *names: str) -> None:
    """Folders as a user might have them: a package of scripts, and configurations of another application."""
    for name in names:
        (folder / name / "pool").mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise SystemExit('decoy')\n", "utf-8")
        (folder / name / "config.yaml").write_text("name: decoy\n", "utf-8")
        (folder / name / "pool" / "decoy.yaml").write_text("name: decoy\n", "utf-8")
