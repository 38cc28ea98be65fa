"""`python -m evals.check task=NAME`: grade each item's own solution, which has to be graded right.

Exit code 0: all are; 1: one is not; 2: nothing can be checked.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from trinity.cli import LineParser, main_guard, print_text
from trinity.errors import ConfigError, GraderError
from trinity.stopping import run_async

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from trinity.types import Item, Task

USAGE = """\
Words are those of trinity.run: task=[NAME, ...], tasks.NAME.KEY=VALUE, data.n_test=NUMBER, data.seed=NUMBER, ...
Every test item is checked unless a word says how many (of a task that takes no null, as many as data.n_test says), and
training and validation items where a word asks for some."""

SPOKE_S = 5.0
"""Seconds between two lines about how far a check is."""

_SIZES = {"n_train": 0, "n_val": 0, "n_test": None}
"""How many items are made where no word says."""


def main() -> int:
    """The command; its exit code."""
    return main_guard(command)


def command() -> int:
    """Check the tasks that the command line names.

    Raises:
        TrinityError: nothing can be checked.
    """
    parser = LineParser(
        prog="python -m evals.check",
        description=__doc__.partition("\n")[0],
        usage="%(prog)s [--wrong] task=NAME [KEY=VALUE ...]",
        epilog=USAGE,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--wrong", action="store_true", help="also give each item another one's solution, which has to be graded wrong"
    )
    given, words = parser.parse_known_args()
    cfg = composed(words)
    tasks = [sized(cfg, str(name), words) for name in cfg.tasks]
    found = [_solved(task) for task in tasks]
    reasons = [one.unchecked for one in found if one.unchecked]
    if len(reasons) == len(found):
        raise ConfigError("; ".join(reasons))
    for reason in reasons:
        print_text(f"not checked: {reason}")
    checked = [one for one in found if not one.unchecked]
    return max([run_async(_check(one, cfg.concurrency, wrong=given.wrong)) for one in checked])


def _solved(task: Task) -> Solved:
    """Each item of all splits that has a solution, with it."""
    from trinity.grading import judged
    from trinity.types import SPLITS

    if judged(task):
        return Solved(task, unchecked=f"task {task.name} is graded by a judge, and a check asks nobody; leave it out")
    items = list(chain.from_iterable(map(task.items, SPLITS)))
    trials = [Trial(item, text) for item in items if (text := _solution(task, item)) is not None]
    none = f"task {task.name}: none of its {len(items)} items has a solution, so nothing can be checked"
    return Solved(task, trials, len(items) - len(trials), None if trials else none)


def _solution(task: Task, item: Item) -> str | None:
    """A reply that has to be graded right; None where the task knows none."""
    solution: Callable[[Item], str | None] = getattr(task, "solution", lambda _: None)
    return solution(item)


def composed(words: Sequence[str]) -> DictConfig:
    """The configuration that a run would have, checked.

    Raises:
        ConfigError: a word or a file makes no sense, or no task is named.
    """
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    from trinity.config import check, find_configs, group_options, register_schema
    from trinity.launch.hydra_errors import hydra_raises
    from trinity.launch.jobs import with_plugins
    from trinity.launch.overrides import read_line, search_paths
    from trinity.launch.plugins import check_clashes, name_folders

    register_schema()
    with hydra_raises():
        check_clashes(find_configs())
        line = read_line(words)
        if line.flags or line.multirun:
            raise ConfigError(f"{(*line.flags, 'a sweep')[0]}: a check knows --wrong, --config-dir and words KEY=VALUE")
        name_folders(search_paths(line.words))
        if not any(word.startswith(("task=", "+experiment=")) for word in line.words):
            raise ConfigError(f"no task is named; write task=NAME with one of: {', '.join(group_options('task'))}")
        GlobalHydra.instance().clear()
        with initialize_config_dir(str(find_configs()), version_base="1.3"):
            cfg = compose("config", with_plugins(line.words))
        check(cfg)
    return cfg


def sized(cfg: DictConfig, name: str, words: Sequence[str]) -> Task:
    """A task with all its test items, where it can make all, and no other ones, unless `words` say how many.

    Raises:
        ConfigError: it is configured wrongly.
    """
    from omegaconf import DictConfig

    from trinity.assembly import build_at

    node = cfg.tasks[name]
    said = {word.split("=")[0].lstrip("+~") for word in words}
    before = {str(key): value for key, value in node.items_ex(resolve=False)} if isinstance(node, DictConfig) else {}
    for key, size in _SIZES.items():
        if key in before and not {f"data.{key}", f"tasks.{name}.{key}"} & said:
            node[key] = size
    try:
        task: Task = build_at(cfg, "tasks", name)
    except ConfigError:
        if "n_test" not in before or node.n_test is not None:
            raise
        node.n_test = before["n_test"]  # a generator has no end; so has a task that takes no null
        task = build_at(cfg, "tasks", name)
    return task


class Trial(NamedTuple):
    """A text given as the answer to an item, and whose solution it is where that is another's."""

    item: Item
    text: str
    other: Item | None = None


class Solved(NamedTuple):
    """The solutions of a task, and how many items have none; or why nothing of it can be checked."""

    task: Task
    trials: Sequence[Trial] = ()
    unsolved: int = 0
    unchecked: str | None = None


@dataclass
class Tally:
    """What came of the trials of a task: how many were graded as they should be, and a line for each other one."""

    name: str
    total: int
    good: int = 0
    troubles: dict[int, str] = field(default_factory=dict)
    _spoke: float = field(default_factory=time.monotonic)

    def add(self, place: int, trouble: str | None) -> None:
        """Enter the trial number `place`; say how far it is, now and then."""
        if trouble is None:
            self.good += 1
        else:
            self.troubles[place] = trouble
        if time.monotonic() - self._spoke >= SPOKE_S:
            self._spoke = time.monotonic()
            sys.stderr.write(f"{self.name}: {self.good + len(self.troubles)} of {self.total}\n")

    def tell(self, right: str, aside: str = "") -> int:
        """Print the sum and every trouble in the items' order; 1 where there is one."""
        print_text(f"{self.name}: {self.good}/{self.total} {right}{aside}")
        for _, line in sorted(self.troubles.items()):
            print_text(f"  {line}")
        return int(bool(self.troubles))


async def _check(solved: Solved, concurrency: int, *, wrong: bool) -> int:
    """Check one task; its exit code."""
    from trinity.prepared import prepared

    task, trials = solved.task, solved.trials
    async with prepared({task.name: task}):
        code = (await _graded_all(task, trials, concurrency)).tell("right", _aside(task, solved.unsolved))
        if wrong:
            others = list(exchanged(trials, comparable=task.comparable))
            tally = await _graded_all(task, others, concurrency)
            unlike = f"; {len(trials) - len(others)} have no other answer to try" if len(others) < len(trials) else ""
            code = max(code, tally.tell("answers of other items wrong", unlike))
    return code


def exchanged(solved: Sequence[Trial], *, comparable: bool = True) -> Iterator[Trial]:
    """Each item with the solution of the next one whose target is another; items without such a one are left out.

    Where targets are empty, or tell no answers apart (`comparable` is false: hidden tests do), another text is another
    answer.
    """
    for place, (item, text, _) in enumerate(solved):
        following = chain(solved[place + 1 :], solved[:place])
        unlike = (trial for trial in following if trial.text != text and (not comparable or _unlike(trial.item, item)))
        other = next(unlike, None)
        if other is not None:
            yield Trial(item, other.text, other.item)


def _unlike(one: Item, other: Item) -> bool:
    return one.target != other.target or not one.target


async def _graded_all(task: Task, trials: Sequence[Trial], concurrency: int) -> Tally:
    """Grade the trials, `concurrency` at once."""
    tally, waiting = Tally(task.name, len(trials)), iter(enumerate(trials))

    async def work(mine: Iterable[tuple[int, Trial]]) -> None:
        for place, trial in mine:
            tally.add(place, await _trouble(task, trial))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(trials))):
            group.create_task(work(waiting))
    return tally


async def _trouble(task: Task, trial: Trial) -> str | None:
    """What is wrong with the grade of a trial, with the item's place; None = nothing."""
    from trinity.grading import graded
    from trinity.types import Episode

    task.open(trial.item)  # a prompt that can not be made is found here, too
    try:
        outcome = await graded(task, trial.item, Episode(trial.text, replies=(trial.text,)))
    except GraderError as error:
        return f"{_place(trial.item)}: the grader failed: {error}"
    if trial.other is None:
        return None if outcome.status == "correct" else f"{_place(trial.item)}: graded {outcome.status}"
    taken = f"{_place(trial.item)}: the solution of {_place(trial.other)} is graded correct"
    return taken if outcome.status == "correct" else None


def _place(item: Item) -> str:
    """The item's id, and its number in the source where the task keeps it."""
    source = item.meta.get("source")
    return f"{item.item_id} ({source})" if isinstance(source, (str, int)) else item.item_id


def _aside(task: Task, unsolved: int) -> str:
    """What was not checked."""
    from trinity.prepared import facts_of

    left_out = (facts_of(task) or {}).get("left_out") or {}
    parts = [f"{unsolved} without a solution"] if unsolved else []
    parts += [
        f"{number} rows of {there} left out: {reason}"
        for there, reasons in left_out.items()
        for reason, number in reasons.items()
    ]
    return "".join(f"; {part}" for part in parts)


if __name__ == "__main__":
    sys.exit(main())
