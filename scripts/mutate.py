"""Mutation testing: how many small faults, planted one at a time, do the tests of a group of modules notice?

`make mutate` plants a seeded sample of each group; `make mutate ARGS="graders --every"` plants all of one group. mutmut
makes the faults and picks, for each, the tests that reach it; this script chooses the groups, draws the samples, and
writes what survives, with its change, as text.

Not planted: what runs in the sandbox's own interpreter (evals/graders/code/inside), where mutmut is not at hand; the
tests of evals/graders/code judge it from outside.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
KILLED = {1, 3, 24, 36, 152, 255, -24, -11, -9}
"""Exit codes of mutmut's children: a test failed, time ran out, or the interpreter fell."""


@dataclass(frozen=True)
class Group:
    """Modules that are mutated together, and the tests that may notice."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


CLIENT = tuple(
    f"tests/llm/test_{name}.py" for name in ("request", "store", "client", "client_limits", "function", "retry")
)

GROUPS = {
    "hashing": Group(
        ("trinity/canonical.py", "trinity/llm/transports/base.py"),
        (*CLIENT, "tests/llm/test_openai_body.py", "tests/test_naming.py", "tests/test_arena.py"),
    ),
    "store": Group(
        ("trinity/llm/store.py", "trinity/llm/leases.py", "trinity/llm/turns.py", "trinity/llm/verified.py"),
        (*CLIENT, "tests/llm/test_turns.py", "tests/llm/test_verified.py"),
    ),
    "budgets": Group(
        ("trinity/llm/budget.py", "trinity/llm/prices.py", "trinity/llm/pricing.py"),
        (*CLIENT, *(f"tests/llm/test_{name}.py" for name in ("budget", "prices", "pricing"))),
    ),
    "statuses": Group(
        (
            *(f"trinity/{name}.py" for name in ("grading", "verdicts", "episodes", "rounds")),
            *(f"evals/report/{name}.py" for name in ("summary", "tally", "weighed")),
        ),
        (
            *(f"tests/test_{name}.py" for name in ("grading", "verdicts", "episodes", "rounds", "judging")),
            *(f"tests/evals/report/test_{name}.py" for name in ("summary", "tally", "weighed", "table")),
        ),
    ),
    "usage": Group(
        tuple(f"trinity/llm/transports/{name}.py" for name in ("openai_body", "common", "litellm_api")),
        tuple(f"tests/llm/test_{name}.py" for name in ("openai_body", "openai_http", "litellm_api")),
    ),
    "protocol": Group(("trinity/coordinator/protocol.py",), ("tests/coordinator/test_protocol.py",)),
    "graders": Group(("evals/graders/*.py",), ("tests/evals/graders",)),
    "statistics": Group(("evals/stats/*.py",), ("tests/evals/stats",)),
}
LEFT_OUT = ("evals/graders/code/inside/*.py",)


def main() -> None:
    """Mutate the groups that are named, or all, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; default: all")
    parser.add_argument("--sample", type=int, default=200, help="faults a group (200)")
    parser.add_argument("--every", action="store_true", help="plant all")
    parser.add_argument("--again", action="store_true", help="plant what survived last time, by the files in --out")
    parser.add_argument("--seed", type=int, default=0, help="of the samples (0)")
    parser.add_argument("--children", type=int, default=2, help="processes at once (2)")
    parser.add_argument("--out", type=Path, default=ROOT / "outputs" / "mutation", help="folder for what survives")
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.groups or GROUPS:
        print(json.dumps(measure(name, options)), flush=True)


def measure(name: str, options: argparse.Namespace) -> dict[str, object]:
    """Mutate a copy of the checkout; the folder for what survives gets a file."""
    children = str(options.children)
    survivors = options.out / f"{name}.txt"
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy = Path(folder) / "suite"
        copy_checkout(copy, GROUPS[name])
        # A pattern that fits none: mutmut only makes the mutants, and finds out which test reaches which.
        mutmut(copy, "run", "--max-children", children, "no such mutant")
        names = sorted(outcomes(copy))
        chosen = drawn(names, name, options, survivors)
        mutmut(copy, "run", "--max-children", children, *chosen)
        codes = outcomes(copy)
        if any(codes[mutant] is None for mutant in chosen):
            sys.exit(
                f"{name}: not every mutant was tried; the group's tests as mutmut runs them:\n{tested(copy, name)}"
            )
        alive = [mutant for mutant in chosen if codes[mutant] not in KILLED]
        survivors.write_text("\n".join(shown(copy, alive)), "utf-8")
    counts = {"mutants": len(names), "planted": len(chosen), "killed": len(chosen) - len(alive)}
    return {"group": name, **counts, "score": round(1 - len(alive) / max(1, len(chosen)), 4)}


def drawn(names: list[str], group: str, options: argparse.Namespace, survivors: Path) -> list[str]:
    """The mutants that are planted."""
    if options.every:
        return names
    if options.again:
        last = set(survivors.read_text("utf-8").splitlines())
        return [name for name in names if name in last]
    return sorted(random.Random(f"{options.seed} {group}").sample(names, min(options.sample, len(names))))


def copy_checkout(copy: Path, group: Group) -> None:
    """What git tracks or would, with mutmut told what to mutate."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for path in filter(None, listed.split("\0")):
        if (ROOT / path).is_file():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, copy / path)
    settings = {
        "source_paths": ["trinity", "baselines", "evals"],
        "only_mutate": list(group.modules),
        "do_not_mutate": list(LEFT_OUT),
        "also_copy": sorted(path.name for path in copy.iterdir() if path.name not in {"trinity", "baselines", "evals"}),
        "pytest_add_cli_args_test_selection": list(group.tests),
        # A second pytest in one process is one that hypothesis refuses.
        "process_isolation": "forkserver",
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    with (copy / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n".join(["", "[tool.mutmut]", *lines, ""]))


def mutmut(copy: Path, *words: str) -> str:
    """What a command of mutmut prints; its exit code says nothing about the mutants."""
    command = [sys.executable, "-m", "mutmut", *words]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False).stdout  # noqa: S603


def tested(copy: Path, group: str) -> str:
    """How the tests end in the copy without a mutant."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", *GROUPS[group].tests]
    environment = {**os.environ, "MUTANT_UNDER_TEST": ""}
    done = subprocess.run(  # noqa: S603
        command, cwd=copy / "mutants", env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout[-2000:]


def outcomes(copy: Path) -> Mapping[str, int | None]:
    """Exit code by mutant; None where none was run."""
    found: dict[str, int | None] = {}
    for path in (copy / "mutants").rglob("*.meta"):
        found |= json.loads(path.read_text("utf-8"))["exit_code_by_key"]
    return found


def shown(copy: Path, mutants: Iterable[str]) -> Iterable[str]:
    """Each mutant with the lines that it changes."""
    for mutant in mutants:
        changed = [
            line
            for line in mutmut(copy, "show", mutant).splitlines()
            if line[:1] in {"-", "+"} and line[:3] not in {"---", "+++"}
        ]
        yield "\n".join((mutant, *changed, ""))


if __name__ == "__main__":
    main()
