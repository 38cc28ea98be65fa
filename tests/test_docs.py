"""What README and docs say of the code is so: links, files, keys, commands, both walks, the picture of the layers."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.utils import get_object

from tests.commands import ROOT, only_run
from tests.inprocess import played
from tests.served import pool_words, server
from tests.test_layers import EVALS, LAYERS, OURS, TREES, imports, within
from tests.tracing import first_calls

DOCS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
WALKS = ("One item, from configuration to report", "One model call, from request to ledger")

LINK = re.compile(r"\[[^\]]*\]\((?!\w+:|#)([^)\s]+)\)")
STEP = re.compile(r"\[`([\w.]+)`\]\(\.\./([\w/]+\.py)\)")
FILE = re.compile(r"`((?:trinity|baselines|evals|conf|docs|tests|scripts|paper)/[a-z_0-9./-]*)`")
KEY = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)(?:=[^`]*)?`")
SUFFIXES = (".json", ".jsonl", ".py")
NAME = re.compile(r"(?<![/.\w])(?:trinity|baselines|evals)(?:\.\w+)+")
COMMAND = re.compile(r"^ *python -m trinity\.run (.*?)(?: +#.*)?$", re.MULTILINE)
SIZE = re.compile(r" · (\d+)")
ROOMS = ("words", "front", "runs", "llm", "episodes", "coordinator", "forecast", "arena", "trainers", "baselines")
"""What the picture calls the layers of `tests/test_layers.py`, lowest first."""

TOP = "commands"


def text_of(file: Path) -> str:
    """A document's text."""
    return file.read_text("utf-8")


def walk(title: str) -> list[tuple[str, str]]:
    """File and symbol of every function that a walk of `docs/architecture.md` names, in its order."""
    section = text_of(ARCHITECTURE).partition(f"## {title}\n")[2].partition("\n## ")[0]
    steps = [line for line in re.split(r"\n(?=\d+\. )", section) if re.match(r"\d+\. ", line)]
    return [(file, symbol) for step in steps for symbol, file in STEP.findall(step.partition("\n\n")[0])]


def symbols(tree: ast.AST, place: str = "") -> Iterator[str]:
    """Qualified names of the functions and classes that a module defines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield place + node.name
            yield from symbols(node, f"{place}{node.name}.")


@pytest.mark.parametrize("document", DOCS, ids=lambda file: file.name)
def test_links_lead_to_files(document: Path) -> None:
    """Each relative link, and each path in code style, of a document is a file or folder of the repository."""
    linked = {document.parent / link.partition("#")[0] for link in LINK.findall(text_of(document))}
    told = {ROOT / path for path in FILE.findall(text_of(document))}
    assert [str(path) for path in sorted(linked | told) if not path.exists()] == []


@pytest.mark.parametrize("document", DOCS, ids=lambda file: file.name)
def test_names_are_there(document: Path) -> None:
    """Each module, class or function that a document names with its package is one that can be imported."""
    for name in sorted(set(NAME.findall(text_of(document)))):
        assert find_spec(name) if name.count(".") == 1 else get_object(name), name


@pytest.mark.parametrize("title", WALKS)
def test_walks_name_what_is_there(title: str) -> None:
    """Each function that a walk links is defined in the module that the link leads to."""
    steps = walk(title)
    assert len(steps) > len(WALKS)
    assert [step for step in steps if step[1] not in symbols(ast.parse(text_of(ROOT / step[0])))] == []


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """First calls of a run of one item, asked over HTTP within caps, and of its replay."""
    folder = tmp_path_factory.mktemp("traced")
    sizes = ("data.n_train=1", "data.n_val=1", "data.n_test=1", "eval.replicates=1", "concurrency=1")
    one = ("~tasks.words", "~tasks.plans", "method=[random]", "coordinator.max_turns=8")
    caps = ("budget.run.calls=100", "budget.episode.calls=50")
    with server(folder / "server") as (url, _):
        pool = [word for word in pool_words(folder, url, deterministic=False) if not word.startswith(("coord", "meth"))]
        with first_calls() as calls:
            assert played("trinity.run", *pool, *sizes, *one, *caps, cwd=folder).returncode == 0
            assert played("trinity.replay", str(only_run(folder)), cwd=folder).returncode == 0
    return calls


@pytest.mark.parametrize("title", WALKS)
def test_walks_go_the_way_of_a_run(title: str, traced: list[tuple[str, str]]) -> None:
    """A real run and its replay call the functions of a walk for the first time in the order of the walk."""
    steps = dict.fromkeys(walk(title))
    assert [step for step in steps if step not in traced] == []
    assert [*steps] == sorted(steps, key=traced.index)


def rooms() -> dict[str, tuple[str, ...]]:
    """The boxes of the picture: a name, and the modules or packages in it; what is in none is at the top."""
    return dict(zip(ROOMS, LAYERS, strict=True)) | {part.replace(".", "_"): (part,) for part in EVALS}


@cache
def room_of(module: str) -> str:
    """The box that a module, or a name in it, stands in."""
    return next((room for room, packages in rooms().items() if within(module, packages)), TOP)


def drawn_arrows() -> set[tuple[str, str]]:
    """Who imports from whom, without the arrows that others make superfluous."""
    below: dict[str, set[str]] = {}
    for module, tree in TREES.items():
        found = {room_of(name) for name in imports(tree, lazy=True) if within(name, OURS)}
        below.setdefault(room_of(module), set()).update(found - {room_of(module)})
    return {
        (room, one)
        for room, direct in below.items()
        for one in direct
        if not any(one in reached(below, other) for other in direct - {one})
    }


def reached(below: Mapping[str, set[str]], room: str) -> set[str]:
    """All boxes below one."""
    found: set[str] = set()
    waiting = [room]
    while waiting:
        new = below.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def hundreds() -> dict[str, int]:
    """Box -> hundreds of lines of its Python files."""
    lines: dict[str, int] = dict.fromkeys([TOP, *rooms()], 0)
    for module in TREES:
        file = ROOT / f"{module.replace('.', '/')}.py"
        file = file if file.exists() else file.with_suffix("") / "__init__.py"
        lines[room_of(module)] += text_of(file).count("\n")
    return {room: round(count / 100) for room, count in lines.items()}


def picture() -> str:
    """The picture as `docs/architecture.md` shows it."""
    names = {room: [one.removeprefix("trinity.") for one in packages] for room, packages in rooms().items()}
    labels = {room: ", ".join(name for name in listed if not name.startswith("_")) for room, listed in names.items()}
    labels[TOP] = "the commands, and what they are put together from"
    boxes = [f'    {room}["{labels[room]} · {size}"]' for room, size in hundreds().items()]
    return "\n".join(["flowchart TD", *boxes, *(f"    {room} --> {one}" for room, one in sorted(drawn_arrows()))])


def test_the_picture_is_true() -> None:
    """The picture of the layers has the imports' own arrows, and sizes that are right within a fifth."""
    shown = re.search(r"```mermaid\n(.*?)\n```", text_of(ARCHITECTURE), re.DOTALL)
    assert shown is not None
    assert SIZE.sub("", shown[1]) == SIZE.sub("", picture()), f"it should be\n{picture()}"
    sizes = zip(SIZE.findall(shown[1]), SIZE.findall(picture()), strict=True)
    far = [(told, true) for told, true in sizes if abs(int(told) - int(true)) > max(2, int(true) / 5)]
    assert far == [], f"it should be\n{picture()}"


def keys_in(value: Any, place: str) -> Iterator[str]:
    """Dotted names of all keys below a parsed configuration that stands at `place`."""
    yield place
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from keys_in(inner, f"{place}.{key}" if place else str(key))


def known_keys() -> set[str]:
    """Keys of every file of `conf/`, at the place where it is composed."""
    found: set[str] = set()
    for file in (ROOT / "conf").rglob("*.yaml"):
        package = re.match(r"# @package (\S+)\n", text_of(file))
        place = package[1] if package else "" if file.parent.name == "conf" else file.parent.name
        found.update(keys_in(yaml.safe_load(text_of(file)), "" if place == "_global_" else place))
    return found


def test_keys_exist() -> None:
    """Each key that a document names in code style, below a key of the configuration, is in a file of `conf/`."""
    known = known_keys() | {"methods.cot.components.generation_system", "hydra.searchpath"}  # what takes any key
    heads = {key.partition(".")[0] for key in known}
    told = {(file.name, key) for file in DOCS for key in KEY.findall(text_of(file)) if key.partition(".")[0] in heads}
    keys = {(file, key) for file, key in told if not key.endswith(SUFFIXES)}
    assert len(keys) > len(DOCS)
    assert sorted((file, key) for file, key in keys if key not in known) == []


def documented_runs() -> list[str]:
    """Words of every run that a document shows, but of those that need a folder or a plug-in of the reader's."""
    found = {words for file in DOCS for words in COMMAND.findall(text_of(file))}
    return sorted(
        words for words in found if not re.search(r"resume=|--config-dir|acme|pool=NAME|hydra/launcher", words)
    )


@pytest.mark.parametrize("words", documented_runs())
def test_documented_runs_compose(words: str, tmp_path: Path) -> None:
    """Every run that a document shows is one that the configuration allows."""
    given = shlex.split(words)
    if "-m" in given:
        given = [word.partition(",")[0] for word in given if word != "-m"]
    endpoint = {"OPENAI_BASE_URL": "http://localhost/v1", "OPENAI_MODEL": "m"}
    done = played("trinity.run", *given, "--cfg", "job", cwd=tmp_path, **endpoint)
    assert done.returncode == 0, done.stderr


def test_one_method_twice(tmp_path: Path) -> None:
    """The file of `docs/baselines.md` makes a second Best-of-N with six samples."""
    page = text_of(ROOT / "docs" / "baselines.md")
    ((name, text),) = re.findall(r'^```yaml title="([^"]+)"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text, "utf-8")
    sizes = ("data.n_train=1", "data.n_val=1", "data.n_test=1", "eval.replicates=1")
    words = (*sizes, "method=[best_of_n,best_of_six]", "backbones.sampling.temperature=1")
    done = played("trinity.run", "--config-dir", "mine/conf", "+experiment=scripted", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads((only_run(tmp_path) / "summary.json").read_bytes())["rows"]
    assert {row["method"]: row["calls_mean"] for row in rows} == {"best_of_n": 4.0, "best_of_six": 7.0}
