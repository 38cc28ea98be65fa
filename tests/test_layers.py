"""The order of the house: imports run one way, go in no circle, and load nothing heavy before it is needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("trinity", "baselines", "evals")

# Lowest first: a module imports from its own layer and from those before it. What is not named here are the commands
# and what they are put together from: the top, which may import everything.
LAYERS = (
    (
        "trinity.__version__",
        "trinity.types",
        "trinity.errors",
        "trinity.canonical",
        "trinity.context",
        "trinity.naming",
        "trinity.quoting",
        "trinity.secrets",
        "trinity.stopping",
    ),
    (
        "trinity.config",
        "trinity.cli",
        "trinity.launch.hydra_errors",
        "trinity.launch.plugins",
        "trinity.launch.overrides",
        "trinity.splits",
        "trinity.progress",
    ),
    ("trinity.runs",),
    ("trinity.llm",),
    ("trinity.rounds", "trinity.grading", "trinity.episodes"),
    ("trinity.coordinator",),
    ("trinity.forecast",),
    ("trinity.arena", "trinity.testing"),
    ("trinity.trainers",),
    ("baselines",),
)
WORDS = ("trinity.types", "trinity.errors", "trinity.canonical", "trinity.quoting")
# Who may import what besides itself; the parts of evals stand outside the layers.
EVALS = {
    "evals.sandbox": WORDS,
    "evals.graders": (*WORDS, "evals.sandbox"),
    "evals.tasks": (*WORDS, "evals.graders", "evals.sandbox"),
    "evals.stats": (*WORDS, "trinity.runs"),
    "evals.report": (*WORDS, "trinity.runs", "evals.stats"),
    "evals.comparison": (*WORDS, "trinity.runs", "evals.stats", "evals.report"),
}
HEAVY = {
    *("torch", "transformers", "litellm", "pandas", "pyarrow", "matplotlib", "cma", "xllamacpp", "statsmodels"),
    *("sympy", "mpmath", "math_verify", "latex2sympy2_extended"),
    *("scipy", "datasets", "wandb", "gguf", "gpboost", "huggingface_hub", "safetensors", "chess"),
}
LEAN = {"trinity.run", "trinity.cli", "trinity.config", "trinity.errors", "trinity.types", "trinity.canonical"}


def module_name(file: Path) -> str:
    """Dotted name of a source file."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def trees() -> dict[str, ast.Module]:
    """Every module of ours, parsed."""
    files = [file for package in OURS for file in sorted((ROOT / package).rglob("*.py"))]
    return {module_name(file): ast.parse(file.read_text("utf-8")) for file in files}


TREES = trees()


def is_typing_only(node: ast.AST) -> bool:
    """Whether this is an `if TYPE_CHECKING:` block, which never runs."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(tree: ast.AST, *, lazy: bool) -> Iterator[str]:
    """Dotted names that a module imports; with `lazy` also those that its functions import."""
    for node in ast.iter_child_nodes(tree):
        if is_typing_only(node) or (not lazy and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node, lazy=lazy)


def within(module: str, packages: tuple[str, ...]) -> bool:
    """Whether `module` (or a name in it) belongs to one of `packages`."""
    return module.startswith(tuple(f"{package}." for package in packages)) or module in packages


def rank(module: str) -> int:
    """Number of the module's layer; the commands have the highest."""
    found = [level for level, packages in enumerate(LAYERS) if within(module, packages)]
    return found[0] if found else len(LAYERS)


def wrong_imports(module: str, tree: ast.Module) -> list[str]:
    """Imports of our own that the order does not allow."""
    ours = [name for name in imports(tree, lazy=True) if within(name, OURS)]
    for part, allowed in EVALS.items():
        if within(module, (part,)):
            return [name for name in ours if not within(name, (part, *allowed))]
    return [name for name in ours if rank(name) > rank(module)]


def test_every_package_is_looked_at() -> None:
    """The walk finds the modules of all packages."""
    assert {name.partition(".")[0] for name in TREES} == set(OURS)
    assert "trinity.llm.transports.base" in TREES


@pytest.mark.parametrize("module", sorted(TREES))
def test_imports_run_one_way(module: str) -> None:
    """No module imports from a layer above its own, not even inside a function."""
    assert wrong_imports(module, TREES[module]) == []


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("trinity.runs.x", "from trinity.llm.pool import Pool", ["trinity.llm.pool.Pool"]),
        ("trinity.trainers.x", "def f():\n    import evals.tasks", ["evals.tasks"]),
        ("baselines.x", "from trinity import experiment", ["trinity.experiment"]),
        ("evals.tasks.x", "from trinity.runs import ledger", ["trinity.runs.ledger"]),
        ("evals.graders.x", "from evals.tasks.base import f", ["evals.tasks.base.f"]),
        ("evals.report.x", "from trinity.runs.ledger import Ledger\nfrom evals.stats import power", []),
        ("trinity.types", "if TYPE_CHECKING:\n    from trinity.llm.pool import Pool", []),
        ("trinity.llm.x", "from trinity.runs.ledger import Ledger\nimport numpy", []),
        ("trinity.experiment", "from evals.report import table\nimport baselines.vote", []),
    ],
)
def test_the_order_is_held(module: str, source: str, wrong: list[str]) -> None:
    """The rule catches each kind of breach and nothing else."""
    assert wrong_imports(module, ast.parse(source)) == wrong


def test_no_circles() -> None:
    """Modules can be put in an order in which each comes after all that it imports."""
    graph = {module: {named(name) for name in imports(tree, lazy=True)} for module, tree in TREES.items()}
    assert circle(graph) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (["b", "c", "b"], ["c", "b", "c"])


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules of which each imports the next, the first one again at the end; empty where there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def named(name: str) -> str:
    """The module of ours that an imported name stands in; others stay as they are."""
    return name if name in TREES else name.rpartition(".")[0]


@pytest.mark.parametrize("module", sorted(TREES))
def test_nothing_heavy_at_the_top(module: str) -> None:
    """Heavy libraries are imported where they are used; the commands' way in is free of numpy too."""
    banned = HEAVY | {"numpy"} if module in LEAN else HEAVY
    top = {name.partition(".")[0] for name in imports(TREES[module], lazy=False)}
    assert top & banned == set()
