"""A finished run rebuilt from its ledger: the same contest without anybody to ask, and what came out otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from trinity.analysis import analysed, analysis_differences
from trinity.arena import Arena
from trinity.assembly import agent_from, build_contenders, build_tasks, node, phase_seeds, prompt_hashes
from trinity.canonical import canonical_json
from trinity.cli import print_text
from trinity.config import build
from trinity.coordinator.policy import Policies, RecomputingPolicies, RecordedPolicies
from trinity.episodes import Player, Stamp
from trinity.errors import LedgerError
from trinity.judging import Judges
from trinity.llm.budget import Caps
from trinity.llm.client import Client, Rules
from trinity.llm.pool import Pool
from trinity.llm.retry import RetryPolicy
from trinity.llm.store import MemoryStore, OwnFirst
from trinity.llm.transports.recorded import RecordedTransport
from trinity.pipeline import contest, publish, summarise
from trinity.prepared import prepared
from trinity.progress import Silence
from trinity.runs.calls import CALL_ID_DIGITS
from trinity.runs.checkpoint import load_policy
from trinity.runs.files import read_json
from trinity.runs.ledger import Ledger
from trinity.runs.manifest import check_finished, read_manifest
from trinity.runs.records import comparable, read_records
from trinity.stopping import run_async
from trinity.types import SPLITS, Record

SAME_THETA = 1e-9
"""Differences of parameters that only rounding makes."""

POLICIES = "checkpoint/*/best.safetensors"
MARK = "rebuilt"
"""File that says that a folder was made by a replay and may be emptied by the next one."""


def replay(run: Path, out: Path, *, recompute: bool = False) -> Iterator[str]:
    """Rebuild `run` into `out`; a line for everything that differs.

    Raises:
        LedgerError: no finished run is there, or a call or decision is missing.
    """
    manifest = read_manifest(run / "manifest.json")
    with Ledger.open(run / "ledger.sqlite", read_only=True) as source:
        damaged = list(damage(source))
        if damaged:
            yield from damaged
            return
        check_finished(run, manifest)
        yield from changed_prompts(manifest)
        _clear(out)
        with Ledger.create(out / "ledger.sqlite") as rebuilt:
            summary = run_async(_rebuild(run, manifest, source, rebuilt, out, recompute=recompute))
            yield from differences(run, out, rebuilt, summary)


def _clear(out: Path) -> None:
    """Make room for rebuilt files: what an earlier replay left must not be taken up again."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()) and not (out / MARK).exists():
        raise LedgerError(f"{out} holds files that no replay made; give --out an empty folder")
    (out / MARK).touch()
    shutil.rmtree(out / "checkpoint", ignore_errors=True)
    for file in out.glob("ledger.sqlite*"):
        file.unlink()


def damage(ledger: Ledger) -> Iterator[str]:
    """A line for each stored call whose content is not what it was, with the first record that it belongs to."""
    for request_hash in ledger.calls.damaged():
        call_id = request_hash[:CALL_ID_DIGITS]
        users = [record for record in ledger.records() if call_id in record.call_ids]
        where = f"record {_place(users[0])} (and {len(users) - 1} more)" if users else "no record"
        yield f"call {call_id}: the stored call was changed; it belongs to {where}"


def changed_prompts(manifest: Mapping[str, Any]) -> Iterator[str]:
    """A line for each prompt file that is not what the run used; it can have used none that came later."""
    now = prompt_hashes()
    for name, used in sorted(manifest["prompts"].items()):
        if now.get(name) != used:
            yield f"prompt {name}: changed since the run; take commit {manifest['git']['commit']}"


def differences(run: Path, out: Path, rebuilt: Ledger, summary: Mapping[str, Any]) -> Iterator[str]:
    """Lines for records, summary and policy of `run` that the rebuilt ones do not equal."""
    for was, now in zip_longest(read_records(run / "records.parquet"), rebuilt.records()):
        before, after = (None if row is None else canonical_json(comparable(row)) for row in (was, now))
        if before != after:
            yield f"record {_place(was or now)} differs"
    stored = read_json(run / "summary.json")
    for key in sorted(stored.keys() | summary.keys()):
        if canonical_json(stored.get(key)) != canonical_json(summary.get(key)):
            yield f"summary.json: {key} differs"
    if (run / "analysis.json").exists():
        for where in analysis_differences(read_json(run / "analysis.json"), read_json(out / "analysis.json")):
            yield f"analysis.json: {where} differs"
    if (run / "report.md").read_bytes() != (out / "report.md").read_bytes():
        yield "report.md differs"
    places = {policy.relative_to(folder) for folder in (run, out) for policy in folder.glob(POLICIES)}
    for place in sorted(places):
        if (run / place).exists() and (out / place).exists():
            yield from _policy_difference(run / place, out / place)
        else:
            yield f"{place}: the trained parameters are missing"


def _policy_difference(was: Path, now: Path) -> Iterator[str]:
    """A line when trained parameters are not the stored ones; another processor may round the last bits otherwise."""
    before, after = load_policy(was)[0], load_policy(now)[0]
    if before.tobytes() == after.tobytes():
        return
    if before.shape == after.shape and np.allclose(before, after, rtol=0.0, atol=SAME_THETA):
        print_text(f"{was}: equal but for rounding, at most {np.max(np.abs(before - after)):.3g}")
        return
    yield f"{was}: the trained parameters differ"


async def _rebuild(
    run: Path, manifest: Mapping[str, Any], source: Ledger, rebuilt: Ledger, out: Path, *, recompute: bool
) -> dict[str, Any]:
    """Play the run again on its ledger and write what follows; the summary."""
    with ExitStack() as stack:
        recomputing = _recomputing(manifest, source, rebuilt, stack) if recompute else None
        policies = recomputing or RecordedPolicies((manifest["encoder"] or {}).get("d", 0), source, rebuilt)
        arena = recorded_arena(manifest, source, rebuilt, out, policies)
        async with prepared(arena.tasks):
            await contest(arena, build_contenders(node(manifest["recipe"])), lambda _: None)
            analysis = await analysed(rebuilt, source, arena.tasks, manifest)
        summary = summarise(arena, manifest, source)
        publish(out, arena, manifest, summary, _as_stored(run, analysis), calls=source)
        print_text(f"replayed {sum(1 for _ in rebuilt.records())} records from {arena.counts.logical} stored calls")
        if recomputing:
            print_text(_recomputed(recomputing))
    return summary


def recorded_arena(
    manifest: Mapping[str, Any], source: Ledger, rebuilt: Ledger, out: Path, policies: Policies
) -> Arena:
    """The run's ground with its items, where only the ledger answers."""
    config = node(manifest["recipe"])
    tasks = build_tasks(config)
    for name in tasks:
        for split in SPLITS:
            rebuilt.add_items(split, source.items(name, split))
    client = _client(manifest, source, manifest["endpoints"], manifest["agents"])
    stamp = Stamp(manifest["run_id"], config.name, manifest["pool"], manifest["pool_kind"], config.seed)
    judges = _judges(manifest, source, client)
    player = Player(client, rebuilt, stamp, phase_seeds(config), 1, replayed=source, judges=judges)
    return Arena(
        agents=[agent_from(described) for described in manifest["agents"]],
        tasks=tasks,
        player=player,
        progress=Silence(),
        seed=config.seed,
        replicates=config.eval.replicates,
        pool=manifest["pool"],
        policies=policies,
        folder=out,
        counts=client.counts,
        cost_axis=config.get("cost_axis"),
    )


def _as_stored(run: Path, analysis: dict[str, Any]) -> dict[str, Any] | None:
    """The run's own analysis where this one agrees with it, so that reports do not differ in a rounded digit.

    None where the run has none: it could not be made then, and is no part of its report.
    """
    if not (run / "analysis.json").exists():
        return None
    stored: dict[str, Any] = read_json(run / "analysis.json")
    return analysis if any(analysis_differences(stored, analysis)) else stored


def _recomputed(policies: RecomputingPolicies) -> str:
    return (
        f"recomputed {policies.decisions} decisions: largest logit difference {policies.largest:.3g}, "
        f"{policies.flipped} choices would be others"
    )


def _judges(manifest: Mapping[str, Any], source: Ledger, client: Client) -> Judges | None:
    """Who judged in the run, answering from its ledger."""
    judge = manifest.get("judge")
    if judge is None:
        return None
    own = _client(manifest, source, judge["endpoints"], [judge["agent"]]) if judge["own"] else client
    return Judges(own, agent_from(judge["agent"]))


def _client(
    manifest: Mapping[str, Any], source: Ledger, described: Mapping[str, Any], agents: Sequence[Mapping[str, Any]]
) -> Client:
    """A client of the described endpoints and agents that knows the ledger's answers and nobody to ask."""
    failed = frozenset(attempt.request_hash for attempt in source.attempts())
    endpoints = {
        name: RecordedTransport(facts["endpoint_id"], facts["kind"], failed) for name, facts in described.items()
    }
    pool = Pool(manifest["pool"], [agent_from(agent) for agent in agents], endpoints)
    answers = OwnFirst(source.calls, MemoryStore())
    episode = Caps.from_config(manifest["recipe"].get("budget") or {}).episode
    rules = Rules(episode=episode, retries=RetryPolicy(attempts=1))
    return Client(pool, answers, None, rules)


def _recomputing(manifest: Mapping[str, Any], source: Ledger, rebuilt: Ledger, stack: ExitStack) -> RecomputingPolicies:
    """Policies that hold today's encoder and head against the ledger; closed with `stack`."""
    encoder = build(node(manifest["recipe"]).encoder)
    stack.callback(encoder.close)
    return RecomputingPolicies(encoder, source, rebuilt)


def _place(record: Record | None) -> str:
    if record is None:
        return "(none)"
    phase, index = record.replicate
    return f"{record.method} {record.variant} {record.task}/{record.item_id} {phase}#{index}".replace("  ", " ")
