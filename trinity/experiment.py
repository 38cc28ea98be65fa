"""One live run from its configuration: set up, contest, publish. `trinity.run` comes here."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from evals.report.table import agents_table, summary_table
from evals.stats.methods import BOUND
from trinity.analysis import analysed
from trinity.arena import Arena, Contender, Heard, cost_axis
from trinity.assembly import (
    all_items,
    build_contenders,
    build_tasks,
    checked_items,
    new_manifest,
    phase_seeds,
    rules,
)
from trinity.config import build
from trinity.coordinator.encoder import Encoder
from trinity.coordinator.policy import LivePolicies
from trinity.episodes import Player, Stamp
from trinity.errors import BudgetError, LedgerError, OfflineError, UngradedError
from trinity.forecast import Ground
from trinity.grading import shown
from trinity.judging import Judges, Seat, check_judge, read_judge
from trinity.launch.jobs import from_here
from trinity.llm.budget import Caps, bounded
from trinity.llm.client import Client
from trinity.llm.pool import Pool
from trinity.llm.pricing import bpe_tokens
from trinity.llm.store import OwnFirst, Store
from trinity.pipeline import admitted, contest, publish, summarise
from trinity.plan import confirm, foresee, plan_table
from trinity.prepared import left_out, left_out_of, prepared
from trinity.progress import ConsoleProgress, console
from trinity.runs.ledger import Ledger
from trinity.runs.manifest import add_wall_time, append_change, read_manifest, resuming, write_manifest
from trinity.runs.resume import alone_in, changes_since, check_unused, moved_facts, saved_run
from trinity.runs.sharing import shareable_manifest
from trinity.runs.trackers.base import Follower, RunStart, Tracker, generation_metrics
from trinity.stopping import PLAIN_COMMAND, command_line, run_async
from trinity.types import Agent, Task

PLAIN_WIDTH = 140
"""Columns of a table that goes into a file or a pipe."""


def run(cfg: DictConfig) -> int:
    """Run, train and evaluate as `cfg` says; the exit code.

    Raises:
        TrinityError: one line for the user; what is finished is kept and `resume=` goes on with it.
    """
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    with ConsoleProgress() as progress:
        if cfg.resume:
            folder, config, changes = saved_run(cfg, list(hydra.overrides.task))
            _in_loop(_Run(folder, config, progress, resumed=True, changes=changes).play())
        else:
            folder = from_here(Path(hydra.runtime.output_dir))
            _in_loop(_Run(folder, cfg, progress).play())
    return 0


def _in_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` on the fastest event loop there is, with a collector of garbage that does not look at modules."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if sys.platform != "win32":
        import uvloop

        factory = uvloop.new_event_loop
    gc.freeze()
    run_async(main, factory)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Whom a run asks: the agents of its pool, and the judge, where there is one."""

    pool: Pool
    judge: Seat | None

    @property
    def pools(self) -> list[Pool]:
        """The run's pool first, the judge's last; one where both are the same."""
        return [self.pool, self.judge.pool] if self.judge is not None and self.judge.own else [self.pool]

    @property
    def judging(self) -> list[Agent]:
        """The judge, or nobody."""
        return [] if self.judge is None else [self.judge.agent]


@dataclass
class _Run:
    """A run's folder and configuration, and the resources that it opens and closes."""

    folder: Path
    config: DictConfig
    progress: ConsoleProgress
    resumed: bool = False
    changes: list[str] = field(default_factory=list)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def play(self) -> None:
        """From set-up to report."""
        began = time.monotonic()
        async with self.stack as stack:
            contenders = build_contenders(self.config)
            tasks = build_tasks(self.config)
            tracker: Tracker = build(self.config.tracker)
            asked = self._asked(tasks)
            pool = asked.pool
            splits = checked_items(tasks, pool.agents)
            if not self._may_start(contenders, Ground(pool.agents, tasks, self.config.eval.replicates), asked):
                return
            await stack.enter_async_context(prepared(tasks))
            stack.enter_context(alone_in(self.folder))
            if not self.resumed:
                check_unused(self.folder)
            follower = stack.enter_context(Follower(tracker, self.progress.say))
            await self._prepare(asked)
            judge = None if asked.judge is None else asked.judge.facts()
            now = new_manifest(self.config, self.folder, pool.settings(), pool.agents, tasks, splits, judge)
            for line in left_out(now["tasks"]):
                self.progress.say(line)
            ledger, manifest = self._open(now, tasks)
            arena = self._arena(asked, tasks, ledger, manifest)
            arena.on_generation = self._followed(follower, arena)
            watch = asyncio.create_task(self.progress.watch(lambda: arena.counts.logical))
            stack.callback(watch.cancel)
            self._introduce(pool)
            try:
                await self._contest(arena, contenders, manifest)
            finally:
                add_wall_time(self.folder / "manifest.json", time.monotonic() - began)
            await self._finish(arena, follower)

    def _introduce(self, pool: Pool) -> None:
        """Say what begins."""
        agents = ", ".join(agent.name for agent in pool.agents)
        self.progress.say(f"run {self.folder} · pool {pool.name} ({pool.kind}): {agents}")
        if self.resumed:
            caps = [f"{key}={value}" for key, _, value in Caps.from_config(self.config.budget).entries()]
            self.progress.say(f"resumed, with {', '.join(caps) or 'no caps'}")

    async def _contest(self, arena: Arena, contenders: Mapping[str, Contender], manifest: dict[str, Any]) -> None:
        """Play it; where it stops early, publish what there is.

        Raises:
            BudgetError: a cap was reached; the line says how to go on, as do the others.
            UngradedError: an episode of training could not be graded.
            OfflineError: an answer is not in the store.
        """
        try:
            await contest(arena, contenders, self._early_table(arena, manifest))
        except (BudgetError, UngradedError, OfflineError) as error:
            told = str(error).replace("resume=RUN", resuming(self.folder))
            if isinstance(error, OfflineError):
                told = f"{told} --run {self.folder}"
            self._publish_part(arena, told.replace(command_line(), PLAIN_COMMAND))
            raise type(error)(told) from error

    def _asked(self, tasks: Mapping[str, Task]) -> _Asked:
        """The pool and the judge, closed with the run.

        Raises:
            ConfigError: one is configured wrongly, or a task needs a judge and there is none.
        """
        pool: Pool = build(self.config.pool)
        self.stack.push_async_callback(pool.close)
        judge = read_judge(self.config, pool)
        if judge is not None:
            self.stack.push_async_callback(judge.close)
        check_judge(tasks, judge)
        return _Asked(pool, judge)

    def _may_start(self, contenders: Mapping[str, Contender], ground: Ground, asked: _Asked) -> bool:
        """Whether the run is to be played: not where only its plan is wanted.

        Raises:
            ConfigError: a contender cannot be played, a cap cannot be kept, the set axis does not know an agent's
                cost, or a live run may cost more than its user has agreed to.
        """
        caps, pool, judging = Caps.from_config(self.config.budget), asked.pool, asked.judging
        bounded([*pool.agents, *judging], caps)
        cost_axis(pool.agents, self.config.get("cost_axis"))
        agents = [*admitted(contenders, ground), *judging]
        bounded(agents, caps)
        if self.config.plan:
            for line in left_out_of(ground.tasks):
                self.progress.say(line)
            title = f"{self.config.name}, pool {pool.name} ({pool.kind})"
            console(PLAIN_WIDTH).print(plan_table(foresee(contenders, ground, *judging), title, agents))
            return False
        if self.config.store.mode != "offline":
            for one in asked.pools:
                one.check_keys()
        asks = any(one.kind == "live" and one.costs_money for one in asked.pools) and caps.confirm_usd is not None
        if asks and not (self.resumed or self.config.yes):
            confirm(foresee(contenders, ground, *judging), [*pool.agents, *judging], caps)
        return True

    async def _prepare(self, asked: _Asked) -> None:
        """Have the weights at hand; agents whose weights no source has are named and left out."""
        pool = asked.pool
        for one in asked.pools:
            await one.ready()
        for name, reason in pool.missing.items():
            self.progress.say(f"without agent {name}: {reason}")
        if len(pool.agents) == 1:
            self.progress.say(f"pool {pool.name} has one agent left: nothing can be coordinated, it is measured alone")

    def _open(self, now: dict[str, Any], tasks: dict[str, Task]) -> tuple[Ledger, dict[str, Any]]:
        """Ledger and manifest: made, or taken up again if nothing that shapes results has changed."""
        if self.resumed:
            return self._reopen(now, tasks)
        write_manifest(self.folder / "manifest.json", now)
        return self._new_ledger(now, tasks), now

    def _new_ledger(self, manifest: dict[str, Any], tasks: dict[str, Task]) -> Ledger:
        """A ledger with every item; it is under its own name only when it is whole."""
        path = self.folder / "ledger.sqlite"
        unfinished = path.with_name("ledger.new")
        for part in self.folder.glob("ledger.new*"):
            part.unlink()
        with Ledger.create(unfinished) as ledger:
            if manifest["private"]:
                unfinished.chmod(0o600)
            ledger.set_meta("private", manifest["private"])
            for split, items in groupby(all_items(tasks), key=itemgetter(0)):
                ledger.add_items(split, (item for _, item in items))
        unfinished.replace(path)
        return self.stack.enter_context(Ledger.open(path))

    def _reopen(self, now: dict[str, Any], tasks: dict[str, Task]) -> tuple[Ledger, dict[str, Any]]:
        path = self.folder / "manifest.json"
        manifest = read_manifest(path)
        for change in changes_since(manifest, now):
            raise LedgerError(f"{self.folder}: {change} since the run began; take it back or start a new run")
        if not (self.folder / "ledger.sqlite").exists():  # it was stopped between the two
            return self._new_ledger(manifest, tasks), manifest
        ledger = self.stack.enter_context(Ledger.open(self.folder / "ledger.sqlite"))
        again = ledger.delete_ungraded()
        kept = {key: now[key] for key in ("config", "recipe")}  # with the budgets and limits that were set anew
        write_manifest(path, {**manifest, **kept, "finished": False})
        append_change(
            path,
            f"resumed at commit {now['git']['commit']} with {now['packages']}; {again} ungraded episodes are asked "
            f"again; changed: {', '.join(self.changes) or 'nothing'}",
        )
        for moved in moved_facts(manifest, now):
            self.progress.say(f"since the run began, {shown(moved)}")
            append_change(path, moved)
        return ledger, read_manifest(path)

    def _arena(self, asked: _Asked, tasks: dict[str, Task], ledger: Ledger, manifest: dict[str, Any]) -> Arena:
        config, pool, judge = self.config, asked.pool, asked.judge
        store = Store.open(Path(config.store.path), mode=config.store.mode, buyer=ledger.uid)
        self.stack.callback(store.close)
        answers = OwnFirst(ledger.calls, store) if self.resumed else store
        bounds = rules(config, ledger.spent())  # one budget for all who are asked
        clients = [Client(one, answers, ledger, bounds, count_tokens=bpe_tokens) for one in asked.pools]
        for client in clients:
            self.stack.push_async_callback(client.close)
        client = clients[0]
        # Progress speaks of the run, also of what it did before it was resumed.
        client.counts.paid = ledger.totals().paid_calls
        client.counts.logical = sum(record.n_calls for record in ledger.records() if record.method != BOUND)
        stamp = Stamp(manifest["run_id"], config.name, pool.name, pool.kind, config.seed)
        judges = None if judge is None else Judges(clients[-1], judge.agent)
        seeds, say = phase_seeds(config), self.progress.say
        player = Player(client, ledger, stamp, seeds, config.concurrency, judges=judges, say=say)
        policies = LivePolicies(self._encoder, ledger)
        return Arena(
            agents=pool.agents,
            tasks=tasks,
            player=player,
            progress=self.progress,
            seed=config.seed,
            replicates=config.eval.replicates,
            pool=pool.name,
            policies=policies,
            folder=self.folder,
            counts=client.counts,
            cost_axis=config.get("cost_axis"),
        )

    def _encoder(self) -> Encoder:
        """The encoder, built when the first policy needs it; the manifest learns what it is."""
        encoder: Encoder = build(self.config.encoder)
        self.stack.callback(encoder.close)
        path = self.folder / "manifest.json"
        write_manifest(path, {**read_manifest(path), "encoder": {**encoder.settings(), "d": encoder.d}})
        return encoder

    def _early_table(self, arena: Arena, manifest: dict[str, Any]) -> Callable[[str], None]:
        def tested(name: str) -> None:
            if name == "single":
                console(PLAIN_WIDTH).print(agents_table(summarise(arena, manifest)))

        return tested

    def _publish_part(self, arena: Arena, why: str) -> None:
        """Write what a stopped run has found so far; the manifest keeps saying that it is not finished."""
        if any(True for _ in arena.player.ledger.records(split="test")):
            arena.notes.append(f"not finished: {why}")
            manifest = read_manifest(self.folder / "manifest.json")
            summary = summarise(arena, manifest)
            publish(self.folder, arena, manifest, summary)

    def _followed(self, follower: Follower, arena: Arena) -> Heard:
        """Let the tracker hear of the run, and of its generations by what is returned."""
        ledger, agents = arena.player.ledger, [agent.name for agent in arena.agents]
        manifest = read_manifest(self.folder / "manifest.json")  # from the file, where secrets are redacted
        follower.start(RunStart(self.folder, shareable_manifest(manifest), self.resumed, self.progress.say))

        def heard(trainer: str, number: int, payload: Mapping[str, Any]) -> None:
            def measure() -> dict[str, Any]:
                ledger.flush()
                return generation_metrics(trainer, payload, ledger.path, agents, number)

            follower.generation(number, measure)

        return heard

    async def _analysis(self, arena: Arena, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """The analysis of the test episodes, or None: whatever it comes to, what was paid for is published."""
        ledger = arena.player.ledger
        try:
            return await analysed(ledger, ledger, arena.tasks, manifest)
        except Exception as error:  # noqa: BLE001 - an analysis can be made again, what was paid for cannot
            self.progress.say(
                f"no analysis ({type(error).__name__}: {error}); once that is mended: "
                f"{command_line('trinity.report', str(self.folder), '--analyse')}"
            )
            return None

    async def _finish(self, arena: Arena, follower: Follower) -> None:
        """Write what the run found, then say that it is whole; whoever follows it hears of that last."""
        path = self.folder / "manifest.json"
        manifest = read_manifest(path)
        summary = summarise(arena, manifest)
        publish(self.folder, arena, manifest, summary, await self._analysis(arena, manifest))
        await asyncio.sleep(0)  # who was told to stop meanwhile stops here, and not after saying that all is done
        write_manifest(path, {**manifest, "finished": True})
        terminal = console(PLAIN_WIDTH)
        terminal.print(summary_table(summary, width=terminal.width))
        self.progress.say(f"report: {self.folder / 'report.html'}")
        follower.finish(summary, self.folder)
