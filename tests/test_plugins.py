"""Plug-ins: the package of `docs/extending.md` works as it stands, and a broken one is named in a line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evals.sandbox.build import RISK
from tests.commands import ROOT, command, environment, only_run
from tests.evals.tasks.rows import write
from tests.inprocess import played
from trinity.config import find_configs, group_options
from trinity.errors import ConfigError
from trinity.launch.plugins import GROUP, check_clashes, name_folders, plugins, search_folders

BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
Install = Callable[..., Path]


def blocks() -> dict[str, str]:
    """The files that the document shows, by path."""
    return dict(BLOCK.findall((ROOT / "docs" / "extending.md").read_text("utf-8")))


def install(site: Path, files: dict[str, str], points: dict[str, str], name: str = "acme-trinity") -> Path:
    """Lay `files` and the metadata of a distribution with these entry points into a folder of packages."""
    metadata = site / f"{name.replace('-', '_')}-1.0.dist-info"
    lines = [f"[{GROUP}]", *(f"{key} = {value}" for key, value in points.items())]
    for path, text in {
        **{site / path: text for path, text in files.items()},
        metadata / "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        metadata / "entry_points.txt": "\n".join(lines) + "\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return site


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search path for Python with this checkout and the document's package, installed by its own metadata."""
    files = blocks()
    points = tomllib.loads(files.pop("pyproject.toml"))["project"]["entry-points"][GROUP]
    return f"{ROOT}:{install(tmp_path_factory.mktemp('site'), files, points)}"


@pytest.fixture
def here(acme: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The document's package is there in this process, until the test ends."""
    monkeypatch.syspath_prepend(acme.removeprefix(f"{ROOT}:"))
    plugins.cache_clear()
    yield
    name_folders([])
    plugins.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme"]:
        del sys.modules[name]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`installed(files, points)`: the plug-in is there in this process, until the test ends."""

    def put(files: dict[str, str], points: dict[str, str], name: str = "acme-trinity") -> Path:
        site = install(tmp_path / name, files, points, name)
        monkeypatch.syspath_prepend(str(site))
        plugins.cache_clear()
        return site

    yield put
    name_folders([])
    plugins.cache_clear()


def test_the_document_shows_each_kind() -> None:
    """There is an example of every plug point."""
    groups = {path.split("/")[2] for path in blocks() if path.startswith("acme/conf/")}
    assert groups == {"task", "method", "coordinator", "trainer", "pool", "experiment"}


def test_the_example_runs_to_its_replay(acme: str, tmp_path: Path) -> None:
    """Task, grader, baseline, coordinator, trainer and transport of a foreign package make a run that replays."""
    done = command("trinity.run", "+experiment=acme", cwd=tmp_path, PYTHONPATH=acme)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path, "acme")
    summary = json.loads((run / "summary.json").read_bytes())
    rows = {(row["method"], row["variant"]): row for row in summary["rows"] if row["task"] == "products"}
    assert rows["single", "careful"]["accuracy"] > rows["single", "hasty"]["accuracy"] > 0
    assert rows["relay", ""]["accuracy"] == rows["single", "hasty"]["accuracy"]
    assert {"sampled", "argmax"} <= {variant for method, variant in rows if method == "coordinator"}
    assert command("trinity.replay", str(run), cwd=tmp_path, PYTHONPATH=acme).returncode == 0


def test_a_benchmark_of_programs_checks_its_own_solutions(acme: str, tmp_path: Path) -> None:
    """A foreign code task with its prompt beside it grades right solutions right and others wrong."""
    rows = [
        {"text": f"Make it {k} times as much.", "function": f"times_{k}", "check": f"assert times_{k}(7) == {7 * k}",
         "solution": f"def times_{k}(x):\n    return {k} * x"}
        for k in (2, 3, 4)
    ]  # fmt: skip
    path = write(tmp_path / "rows.jsonl", rows)
    trusted = ("sandbox=none", f"sandbox.{RISK}=true")
    words = ("--wrong", "task=doubles", f"tasks.doubles.path={path}", *trusted)
    done = command("evals.check", *words, cwd=tmp_path, PYTHONPATH=acme)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "doubles: 3/3 right\ndoubles: 3/3 answers of other items wrong\n"


def test_own_questions_from_a_file(tmp_path: Path) -> None:
    """The document's recipe works from a folder as its own command says: the file's answers are graded right."""
    for path, text in blocks().items():
        (tmp_path / "mine" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / path).write_text(text, "utf-8")
    words = ("--config-dir", "mine/acme/conf", "task=mine")
    done = command("evals.check", *words, cwd=tmp_path, PYTHONPATH=f"{ROOT}:{tmp_path / 'mine'}")
    assert (done.returncode, done.stdout) == (0, "mine: 2/2 right\n"), done.stderr


@pytest.mark.usefixtures("here")
def test_a_comparison_on_own_questions(tmp_path: Path) -> None:
    """Plan and run say which rows of the file were left out and why; without the package a replay says what to do."""
    rows = [{"question": f"What is {n} times 7?", "answer": f"{7 * n}"} for n in range(2, 22)]
    path = write(tmp_path / "rows.jsonl", [*rows, rows[0], rows[4]])
    words = ("+experiment=acme", "task=[mine]", f"tasks.mine.path={path}", "method=[single,best_single]")
    told = (
        "Task mine: rows that became no items: 2 of test (another row has the same question: rows 1 and 21, 5 and 22)."
    )
    for more in (("plan=true",), ()):
        done = played("trinity.run", *words, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(told) == 1
    run = only_run(tmp_path, "acme")
    summary = json.loads((run / "summary.json").read_bytes())
    accuracy = {row["variant"]: row["accuracy"] for row in summary["rows"] if row["method"] == "single"}
    assert accuracy["careful"] == 1.0
    assert accuracy["hasty"] == 1.0
    done = command("trinity.replay", str(run), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "error: tasks.mine: Error locating target 'acme.mine.Mine': there is no package acme here; install it, or put "
        "the folder that holds it on PYTHONPATH\n"
    )


@pytest.mark.usefixtures("here")
def test_two_coordinators_in_one_table(tmp_path: Path) -> None:
    """The document's second coordinator is trained beside the first, and progress says whose generation it is."""
    words = ("+experiment=acme", "trainer=sep_cma_es", "trainer.generations=1", "trainer.trajectories=1")
    small = ("trainer.optimiser.popsize=3", "trainer.finalists=1", "trainer.reeval_replicates=1", "data.n_test=2")
    done = played("trinity.run", *words, *small, "+method=[blind_coordinator,cot]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((only_run(tmp_path, "acme") / "summary.json").read_bytes())
    assert {"coordinator", "blind", "cot"} <= {row["method"] for row in summary["rows"]}
    assert done.stderr.count("coordinator, generation 1/1") == done.stderr.count("blind, generation 1/1") == 1


@pytest.mark.usefixtures("here")
def test_a_function_is_an_agent(tmp_path: Path) -> None:
    """The document's function answers as any model does, and its pool is a live one."""
    words = ("+experiment=acme", "pool=multiplier", "method=[single]")
    done = played("trinity.run", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((only_run(tmp_path, "acme") / "summary.json").read_bytes())
    assert summary["pool_kind"] == "live"
    assert {row["accuracy"] for row in summary["rows"]} == {1.0}


@pytest.mark.usefixtures("here")
def test_help_and_hints_know_plugins(tmp_path: Path) -> None:
    """A plug-in's options stand in --help and are the nearest names."""
    shown = played("trinity.run", "--help", cwd=tmp_path).stdout
    assert re.search(r"^  method: .*\brelay\b", shown, re.MULTILINE)
    done = played("trinity.run", "pool=reckoner", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "error: pool=reckoner: there is no such option; did you mean 'reckoners'?\n",
    )


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "words", [("--config-dir", "mine"), ("--config-dir=mine",), ("hydra.searchpath=[file://mine]",)]
)
def test_a_folder_of_the_users_goes_with_plugins(words: tuple[str, ...], tmp_path: Path) -> None:
    """Options of a user's folder and of a plug-in are found together, however the folder is named."""
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    text = "# @package _global_\ndefaults: [{override /coordinator: blind}]\nname: theirs\n"
    (tmp_path / "mine" / "experiment" / "own.yaml").write_text(text, "utf-8")
    done = played("trinity.run", *words, "+experiment=own", "--cfg", "job", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "name: theirs" in done.stdout
    assert "acme.head.BlindHead" in done.stdout
    done = played("trinity.run", *words, "+experiment=owm", cwd=tmp_path)
    assert "did you mean 'own'?" in done.stderr


@pytest.mark.parametrize("value", ["nowhere.conf", "json.conf", "acme.cofn", "acme:conf", "acme"])
def test_a_plugin_that_leads_nowhere(value: str, installed: Install) -> None:
    """It is named, with its package and what is wrong."""
    installed({"acme/__init__.py": "", "acme/conf/method/x.yaml": ""}, {"broken": value})
    with pytest.raises(ConfigError, match=rf"^plug-in broken of package acme-trinity: {GROUP} names '{value}', which"):
        search_folders()


def test_a_plugin_is_not_imported(installed: Install) -> None:
    """To find its folder, no code of a plug-in runs."""
    installed(
        {"acme_loud/__init__.py": "raise SystemExit", "acme_loud/conf/method/loud.yaml": ""}, {"a": "acme_loud.conf"}
    )
    assert "loud" in group_options("method")
    assert "acme_loud" not in sys.modules


def test_two_files_of_one_name_are_refused(installed: Install) -> None:
    """Which of two options of one name counts is never left to chance."""
    installed({"acme_one/conf/method/vote.yaml": ""}, {"one": "acme_one.conf"})
    with pytest.raises(ConfigError, match=r"^plug-in one: method/vote.yaml is already in the suite itself; rename"):
        check_clashes(find_configs())
    check_clashes(find_configs() / "nothing")
    installed({"acme_two/conf/method/vote.yaml": ""}, {"two": "acme_two.conf"}, "acme-two")
    with pytest.raises(ConfigError, match=r"^plug-in two: method/vote.yaml is already in plug-in one; rename"):
        check_clashes(find_configs() / "nothing")


def test_a_class_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    """A plug-in whose code is broken ends a run with one line that names the class and its place."""
    site = install(
        tmp_path / "site",
        {
            "acme/broken.py": "import nowhere_at_all\n",
            "acme/conf/method/broken.yaml": "# @package methods.broken\n_target_: acme.broken.X\n",
        },
        {"acme": "acme.conf"},
    )
    words = ("+experiment=scripted", "+method=broken")
    done = command("trinity.run", *words, cwd=tmp_path, PYTHONPATH=f"{ROOT}:{site}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "methods.broken" in done.stderr
    assert "acme.broken.X" in done.stderr


def test_plugins_cost_nothing_until_they_are_needed(tmp_path: Path) -> None:
    """Importing the command reads no package's metadata."""
    code = "import sys, trinity.run; print('importlib.metadata' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
