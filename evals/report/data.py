"""What a report is made from: the run's summary and small sums that are taken from its ledger, streamed."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evals.report.plots_training import Training
from evals.report.plots_use import Use, latency_bin
from trinity.runs.counts import Choices, call_times, choices
from trinity.runs.ledger import Ledger

UNKNOWN_AGENT = "not in the pool"
_GENERATION = re.compile(r"g(\d+)/")

Verdict = Callable[[str], str | None]
"""What the text of a verifier decides, for transcripts."""


@dataclass(frozen=True)
class Source:
    """Where transcripts come from: `ledger` has records, decisions and items, `calls` the answered calls."""

    ledger: Ledger
    calls: Ledger
    verdict: Verdict = lambda _: None


@dataclass(frozen=True)
class ReportData:
    """Everything in a report.

    Attributes:
        summary: as `build_summary` made it.
        manifest: of the run; read here: `folder, seeds, machine, git`, `agents` (`name, model, endpoint, sampling,
            extra_body, active_params`), `endpoints` (`endpoint_id`), `tasks` (`name, redistribute, licence`) and
            `weights` (`name, licence, sha256, source`). Each may be missing.
        analysis: the content of `analysis.json`; empty where there is none.
        trained: trainer -> its generations.
        uses: choices of policies in test episodes.
        latency: agent -> bin -> calls, see `plots_use.latency`.
        attempts: kind of a failed attempt -> how many.
        source: where transcripts come from; None: the report has none.
    """

    summary: Mapping[str, Any]
    manifest: Mapping[str, Any]
    analysis: Mapping[str, Any] = field(default_factory=dict)
    trained: Mapping[str, Training] = field(default_factory=dict)
    uses: Mapping[Use, int] = field(default_factory=dict)
    latency: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    source: Source | None = None


def gathered(
    source: Source, summary: Mapping[str, Any], manifest: Mapping[str, Any], analysis: Mapping[str, Any]
) -> ReportData:
    """What a run's report is made from. Ledgers are streamed; what is kept does not grow with the run.

    Raises:
        LedgerError: a ledger cannot be read.
    """
    found = _Choices()
    for row in choices(source.ledger):
        found.add(row)
    return ReportData(
        summary=summary,
        manifest=manifest,
        analysis=analysis,
        trained={
            name: Training([payload for _, payload in source.ledger.generations(name)], agents, found.roles[name])
            for name, agents in found.agents.items()
        },
        uses=found.uses,
        latency=latencies(source.calls, agent_names(manifest)),
        attempts=Counter(attempt.kind for attempt in source.calls.attempts()),
        source=source,
    )


@dataclass
class _Choices:
    """Counts of a ledger's decisions: per trainer and generation, and of the test."""

    agents: dict[str, Counts] = field(default_factory=dict)
    roles: dict[str, Counts] = field(default_factory=dict)
    uses: Counter[Use] = field(default_factory=Counter)

    def add(self, row: Choices) -> None:
        """Count choices, if they were made by a candidate of a generation or in the test."""
        if row.phase == "test":
            self.uses[Use(row.policy, row.agent, row.role, row.turn)] += row.number
        elif row.phase == "train":
            trainer, _, variant = row.policy.partition("/")
            found = _GENERATION.match(variant)
            if found:
                for counts, name in ((self.agents, row.agent), (self.roles, row.role)):
                    counts.setdefault(trainer, defaultdict(Counter))[int(found[1])][name] += row.number


Counts = dict[int, Counter[str]]
"""Generation -> agent or role -> choices."""

Names = Callable[[Mapping[str, Any]], str]
"""Settings of a request (`endpoint_id, model, sampling, extra_body`) -> the agent that they are of."""


def agent_names(manifest: Mapping[str, Any]) -> Names:
    """How the agents of a run are told from the settings of their requests.

    Methods may ask an agent at other sampling parameters than its own: then endpoint and model tell. Agents that
    nothing but their prompts tells apart share a name.
    """
    ids = {name: facts.get("endpoint_id") for name, facts in (manifest.get("endpoints") or {}).items()}
    exact: dict[str, list[str]] = defaultdict(list)
    near: dict[str, list[str]] = defaultdict(list)
    for agent in manifest.get("agents") or ():
        facts = {**agent, "endpoint_id": ids.get(agent.get("endpoint"))}
        exact[_key(facts, "sampling", "extra_body")].append(str(agent.get("name")))
        near[_key(facts)].append(str(agent.get("name")))

    def name(settings: Mapping[str, Any]) -> str:
        found = exact.get(_key(settings, "sampling", "extra_body")) or near.get(_key(settings))
        return " or ".join(found) if found else str(settings.get("model") or UNKNOWN_AGENT)

    return name


def _key(facts: Mapping[str, Any], *more: str) -> str:
    return json.dumps([facts.get(key) for key in ("endpoint_id", "model", *more)], sort_keys=True)


def latencies(ledger: Ledger, names: Names) -> dict[str, Counter[int]]:
    """Calls of each agent by how long they took; those that took no time at all (fakes) are left out."""
    agents: dict[bytes, str] = {}
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for call in call_times(ledger):
        if call.latency_s > 0:
            if call.settings not in agents:
                agents[call.settings] = names(ledger.calls.part(call.settings))
            found[agents[call.settings]][latency_bin(call.latency_s)] += 1
    return dict(found)
