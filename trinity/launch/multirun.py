"""Sweeps: every combination of the values on the command line as a job of its own, gone on with after any end."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from trinity.cli import EXIT_BUG, report, told
from trinity.config import check, find_configs
from trinity.errors import ConfigError, LedgerError, TrinityError
from trinity.launch.jobs import CONFIG, Ending, Main, attempt, call_hydra, from_here, remove_empty, with_plugins
from trinity.launch.overrides import Line, joined_paths, keep_chosen, parsed, quoted, value_of
from trinity.runs import sweep as files
from trinity.runs.files import write_atomic
from trinity.runs.manifest import resuming
from trinity.stopping import PLAIN_COMMAND, command_line, go_on_by

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

BASIC = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"
SEVERAL = "sweep"
"""Experiment folder of a sweep whose jobs are of several experiments."""
_SHOWN = 200
WIDE = 160
"""Columns of a table that goes into a file or a pipe."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep before it begins.

    `jobs` are the overrides of each by its name, None where the sweeper will decide; `forecast_only` says that only
    their costs are wanted.
    """

    folder: Path
    jobs: dict[str, tuple[str, ...]] | None
    forecast_only: bool


def play_sweep(main: Main, line: Line) -> int:
    """Play every job that is not finished; a failing one does not stop the others.

    `resume=SWEEP` takes a sweep up again: the words are its own again, or are left out.

    Returns:
        1 where a job failed or was killed, else the worst exit code of a job.

    Raises:
        ConfigError: a job's configuration makes no sense; no job has begun.
        LedgerError: there is no such sweep, or its files cannot be written.
        KeyboardInterrupt: it was stopped.
    """
    line, saved = _taken_up(line)
    plan = _planned(line)
    line = replace(line, words=(*line.words, f"hydra.sweep.dir={quoted(str(plan.folder))}"))
    if plan.forecast_only:
        return _play_plans(main, line)
    if saved is None:
        files.start_sweep(plan.folder, line.words[:-1], plan.jobs)
    else:
        _check_same(plan, saved)
    go_on_by(lambda: f"go on with: {resuming(plan.folder, sweep=True)}")
    try:
        code = _launched(main, line)
    except KeyboardInterrupt:
        _publish(plan.folder)
        raise
    finally:
        _forget_config(plan.folder)
    files.settle(plan.folder)
    summary = _publish(plan.folder)
    _print(summary)
    return code or files.exit_code(summary)


def play_job(main: Main, cfg: DictConfig) -> None:
    """One job in its folder, unless it is finished; then the sweep's summary is written anew.

    What goes wrong is told in a line and noted in the job's file, for an error that is raised stops the other jobs.

    Raises:
        KeyboardInterrupt: it was stopped.
    """
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    job = Job(from_here(Path(hydra.runtime.output_dir)), tuple(hydra.overrides.task), int(hydra.job.num))
    _forget_config(job.folder.parent)
    try:
        with files.alone_at(job.folder):
            if job.is_finished():
                return
            job.play(main, cfg)
        summary = _publish(job.folder.parent)
    except (TrinityError, OSError) as error:
        report(error, debug=cfg.debug)
    else:
        if not _all_ended(summary):
            _print(summary)


@dataclass(frozen=True, slots=True)
class Job:
    """A job's folder, its overrides, and its place in the sweep."""

    folder: Path
    overrides: tuple[str, ...]
    number: int

    def is_finished(self) -> bool:
        """Whether nothing is left to do; its `job.json` then says so.

        Raises:
            LedgerError: what it left is damaged; noted as its failure.
        """
        try:
            finished = files.is_finished(self.folder)
        except LedgerError as error:
            self.note("failed", *told(error))
            raise
        if finished:
            self.note("finished", 0)
        return finished

    def play(self, main: Main, cfg: DictConfig) -> None:
        """Begin it, or take it up where it stopped, and note how it ended."""
        if files.can_resume(self.folder):
            cfg.resume = str(self.folder)
        else:
            files.clear(self.folder)
        self.note("running")
        try:
            ending = attempt(main, cfg)
        except KeyboardInterrupt as stop:
            self.note("stopped", told(stop)[0], "it was interrupted")
            raise
        self.note(_state(ending), ending.code, ending.line or (f"exit code {ending.code}" if ending.code else ""))

    def note(self, state: files.State, exit_code: int | None = None, error: str = "") -> None:
        """Write its `job.json`."""
        told = error.replace(command_line(), PLAIN_COMMAND)  # what is written down names no machine's path
        files.note(self.folder, self.overrides, self.number, state, exit_code=exit_code, error=told)


def _state(ending: Ending) -> files.State:
    if ending.code == 0:
        return "finished"
    return "stopped" if ending.capped else "failed"


def _launched(main: Main, line: Line) -> int:
    """Let Hydra's launcher play the jobs; 1 where the launcher itself failed, which ends no other job's record."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    def job(cfg: DictConfig) -> None:
        play_job(main, cfg)

    try:
        call_hydra(job, line)
    except (TrinityError, HydraException, OmegaConfBaseException):
        raise
    except Exception as error:  # noqa: BLE001 - a launcher may raise anything when its processes die
        report(ConfigError(f"the launcher failed: {type(error).__name__}: {str(error)[:_SHOWN]}"), debug=False)
        return EXIT_BUG
    return 0


def _play_plans(main: Main, line: Line) -> int:
    """Only what the jobs would cost is wanted: nothing is kept of them."""
    codes: list[int] = []

    def job(cfg: DictConfig) -> None:
        from hydra.core.hydra_config import HydraConfig

        folder = Path(HydraConfig.get().runtime.output_dir)
        codes.append(attempt(main, cfg).code)
        _forget_config(folder.parent)
        remove_empty(folder)
        remove_empty(folder.parent)

    call_hydra(job, line)
    return max(codes, default=0)


def _taken_up(line: Line) -> tuple[Line, dict[str, Any] | None]:
    """The line of a sweep without its `resume`, and what the sweep that it names has saved."""
    resume = value_of(line.words, "resume")
    if resume is None:
        return line, None
    folder = Path(resume)
    saved = files.read_sweep(folder)
    words = [word for word in line.words if not word.startswith("resume=")]
    if not files.shaping(words):
        words = [*saved["overrides"], *words]
    words = [word for word in words if not word.startswith("hydra.sweep.dir=")]
    pinned = (*joined_paths(words), f"hydra.sweep.dir={quoted(str(folder))}")
    return replace(line, words=pinned), saved


def _planned(line: Line) -> Plan:
    """Folder and jobs; every value on the line is composed and checked once, beside the first values of the others.

    Raises:
        ConfigError: a configuration makes no sense, or jobs would share a folder.
    """
    from hydra import initialize_config_dir

    words = [parsed(word) for word in with_plugins(line.words)]
    hydra = [str(word.input_line) for word in words if _is_hydras(word)]
    columns = _columns(word for word in words if not _is_hydras(word))
    with initialize_config_dir(str(find_configs()), version_base="1.3"):
        first = _composed([column[0] for column in columns.values()], hydra)
        extra = first.hydra.sweeper.get("params") or {}
        columns = _columns(parsed(f"{key}={value}") for key, value in extra.items()) | columns
        names = {first.name, *(_composed(trial, hydra).name for trial in _trials([*columns.values()]))}
    if len(names) > 1:
        first.name = SEVERAL
    basic = first.hydra.sweeper.get("_target_") == BASIC
    folder = from_here(Path(first.hydra.sweep.dir).absolute())
    return Plan(folder, _jobs(columns) if basic else None, bool(first.plan))


def _jobs(columns: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Overrides of every job by its name.

    Raises:
        ConfigError: some would have one name.
    """
    for key, column in columns.items():
        if len(set(column)) > 1 and not files.shaping(column):
            raise ConfigError(f"{key} shapes no result, so its values make no jobs of their own; give it one value")
    return {files.job_name(job): job for job in itertools.product(*columns.values())}


def _check_same(plan: Plan, saved: Mapping[str, Any]) -> None:
    if plan.jobs is not None and plan.jobs.keys() != (saved["jobs"] or {}).keys():
        raise ConfigError(
            f"resume={plan.folder}: these words make other jobs than that sweep has; give the same again, none at all, "
            "or start a new sweep"
        )


def _is_hydras(word: Override) -> bool:
    return word.key_or_group.startswith(("hydra.", "hydra/"))


def _columns(words: Iterable[Override]) -> dict[str, list[str]]:
    """By key, the overrides that the basic sweeper makes of each word: one, or one per value of a sweep."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    discrete = [word for word in words if not word.is_sweep_override() or word.is_discrete_sweep()]
    return {
        word.get_key_element(): [job[0] for job in BasicSweeper.split_arguments([word], None)[0]] for word in discrete
    }


def _trials(columns: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """For every further value of a column, the first job with that value in its place."""
    first = [column[0] for column in columns]
    for place, column in enumerate(columns):
        for value in column[1:]:
            yield [*first[:place], value, *first[place + 1 :]]


def _composed(words: Sequence[str], hydra: Sequence[str]) -> DictConfig:
    """A job's configuration, checked, Hydra's node included.

    Raises:
        ConfigError: a value is out of range or unknown.
        Exception: Hydra or OmegaConf cannot compose it.
    """
    from hydra import compose
    from hydra.core.hydra_config import HydraConfig

    cfg = compose(CONFIG, [*words, *hydra, "hydra.runtime.output_dir=."], return_hydra_config=True)
    HydraConfig.instance().set_config(cfg)
    OmegaConf.set_readonly(cfg, False)  # noqa: FBT003 - OmegaConf's signature
    keep_chosen(cfg, words)
    check(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"]))
    return cfg


def _forget_config(sweep: Path) -> None:
    """Hydra writes all that was on the command line into the sweep's folder, secrets included."""
    (sweep / "multirun.yaml").unlink(missing_ok=True)


def _all_ended(summary: dict[str, Any]) -> bool:
    ended = [job for job in summary["jobs"] if job["state"] != "running"]
    return bool(len(ended) == summary["n_jobs"])


def _publish(sweep: Path) -> dict[str, Any]:
    from evals.report.sweep import sweep_markdown

    with files.summary_of(sweep) as summary:
        write_atomic(sweep / "summary.md", sweep_markdown(summary).encode())
    return summary


def _print(summary: dict[str, Any]) -> None:
    from evals.report.sweep import sweep_tables
    from trinity.progress import console

    terminal = console(WIDE)
    for part in sweep_tables(summary, terminal.width):
        terminal.print(part)
