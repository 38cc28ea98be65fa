"""The repository keeps its promises: what README, Makefile, pins and configurations name is there."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.utils import get_object
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "conf").rglob("*.yaml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
OURS = ("trinity", "baselines", "evals", "tests")
MACHINE_PATH = re.compile(r"(?<![\w.~*}-])/(?:work|home|root|Users|opt|mnt)/")


def read(name: str) -> str:
    """Text of a file of the repository."""
    return (ROOT / name).read_text("utf-8")


def requirements(*, development: bool) -> list[Requirement]:
    """The requirements of `pyproject.toml`: core and extras, and the development group when asked for."""
    lines = [*PROJECT["project"]["dependencies"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        lines += extra
    if development:
        lines += PROJECT["dependency-groups"]["dev"]
    return [Requirement(line) for line in lines]


def pins() -> dict[str, str]:
    """Package name to version, as `constraints.txt` says."""
    lines = [line for line in read("constraints.txt").splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def targets(value: Any) -> Iterator[str]:
    """Every `_target_` below a parsed configuration."""
    if isinstance(value, dict):
        if "_target_" in value:
            yield value["_target_"]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from targets(inner)


def tracked() -> list[Path]:
    """Text files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_readme_names_commands_that_exist() -> None:
    """The README says how to test, and each make target and module that it names is there."""
    readme, makefile = read("README.md"), read("Makefile")
    code = re.findall(r"```.*?```|`[^`]+`|^ {4}[^\n]*$", readme, re.DOTALL | re.MULTILINE)
    named = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(code)))
    assert "test" in named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for module in re.findall(r"python -m ((?:trinity|evals|baselines|paper)[\w.]*)", readme):
        assert find_spec(module), module


def test_ci_runs_make_test() -> None:
    """Continuous integration runs what a person runs."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert read(".ci/run").splitlines()[-1] == "exec make test"


def test_make_test_checks_everything() -> None:
    """`make test` runs linter, formatter, types and tests."""
    recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", read("Makefile"), re.MULTILINE)
    assert recipe is not None
    for tool in ("ruff check .", "ruff format --check .", "mypy", "pytest"):
        assert f"-m {tool}" in recipe[1]


@pytest.mark.parametrize("requirement", requirements(development=True), ids=lambda requirement: str(requirement.name))
def test_requirements_are_pinned(requirement: Requirement) -> None:
    """Each package that we ask for has an exact pin within our own bounds."""
    assert pins()[canonicalize_name(requirement.name)] in requirement.specifier


def test_pins_hold_on_every_index() -> None:
    """No pin carries a local suffix such as +cpu, and PyTorch's is the tested one."""
    assert [pin for pin in pins().values() if "+" in pin] == []
    assert pins()["torch"] == "2.13.0"


def test_imports_are_declared() -> None:
    """Each library that the source imports by name is one of the project's own requirements."""
    declared = {canonicalize_name(requirement.name) for requirement in requirements(development=False)}
    distributions = packages_distributions()
    for package in ("trinity", "baselines", "evals"):
        for file in (ROOT / package).rglob("*.py"):
            for name in imported(ast.parse(file.read_text("utf-8"))) - set(OURS) - sys.stdlib_module_names:
                assert declared & {canonicalize_name(found) for found in distributions[name]}, f"{file}: {name}"


def imported(tree: ast.Module) -> set[str]:
    """First parts of all absolute imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: str(file.relative_to(ROOT / "conf")))
def test_targets_resolve(file: Path) -> None:
    """Each configuration file parses, and every class or function that it names exists."""
    content = yaml.safe_load(file.read_text("utf-8"))
    assert isinstance(content, dict)
    for target in targets(content):
        assert callable(get_object(target)), target


def test_no_file_knows_a_machine() -> None:
    """No tracked file holds an absolute path of somebody's machine."""
    found = []
    for file in tracked():
        text = file.read_bytes().decode("utf-8", "replace")
        found += [f"{file.relative_to(ROOT)}: {hit[0]}" for hit in MACHINE_PATH.finditer(text)]
    assert found == []


def test_the_path_rule_can_fail() -> None:
    """The rule sees an absolute path and lets relative ones, web addresses and shebangs be."""
    assert MACHINE_PATH.search(f"open('/{'home'}/me/x')")
    assert not MACHINE_PATH.search("#!/usr/bin/env bash https://host.example/home/x ./work/x ~/opt/x")
