"""Baselines at another method's price: which size, which backbone, what is said and what it costs to find out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from omegaconf import OmegaConf

from baselines.backbones import PerBackbone, whole_number
from baselines.best_of_n import BestOfN
from baselines.chosen import BestSingle
from baselines.components import Parts
from baselines.cot import GENERATION
from baselines.matched import Matched
from baselines.mixture_of_agents import MixtureOfAgents
from baselines.self_consistency import SelfConsistency
from baselines.self_refine import SelfRefine
from baselines.workflow import Scaffold, Workflow
from tests.ground import AGENTS, TASKS, make_arena, skill_tasks
from tests.scaffolds import (
    LAVISH,
    WARM,
    bounded,
    two_tasks,
)
from trinity.arena import Arena, Contender
from trinity.config import build
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.llm.transports.base import Reply, Request
from trinity.llm.transports.scripted import ScriptedTransport
from trinity.pipeline import contest
from trinity.types import Agent, Method, Price, Usage

CALL = 2 * 500 * 1e9 / 1e9
"""GFLOP of one call of an agent of 1e9 parameters that reads 300 tokens and writes 200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeating(Scaffold):
    """Asks the same thing `times` times, the last answer counts."""

    agent: Agent
    times: int

    async def play(self, flow: Workflow) -> None:
        """Ask one after another."""
        for _ in range(self.times):
            flow.offer(await flow.ask(self.agent, "worker", flow.solve_as(self.agent)))


class Repeat(PerBackbone):
    """A baseline whose cost is its size times that of a call."""

    name = "repeat"
    parts: ClassVar[Parts] = {GENERATION: ()}

    def __init__(self, *, times: int = 1, **rest: Any) -> None:
        """`times` calls."""
        super().__init__(**rest)
        self.times = whole_number(self.name, "times", times)

    def method(self, agent: Agent) -> Repeating:
        """On one backbone."""
        return Repeating(agent=agent, times=self.times, **self.row(agent))

    def reads(self) -> Sequence[int]:
        """Calls that read no other."""
        return [0] * self.times


class Nobody(Repeat):
    """A baseline that finds nobody to ask."""

    name = "nobody"

    async def prepare(self, arena: Arena) -> Sequence[Method]:
        """No row, for a reason."""
        arena.notes.append(f"{self.name}: n/a, nobody is there")
        return ()


def says_zero(_: Request) -> Reply:
    """Item 0 of each task is right, the others are wrong."""
    return Reply("Answer: 0", "", "stop", Usage(300, 200))


def arena_of(folder: Path, **given: Any) -> Arena:
    """An arena of three tasks whose calls cost `CALL` on the first agent."""
    settings = {"transport": ScriptedTransport(says_zero), "agents": [replace(WARM[0], name="ann")], **given}
    return make_arena(folder, **settings)


def priced(arena: Arena, **costs: float | None) -> None:
    """A coordinator that has validated at these costs, the same everywhere unless a task is named."""
    arena.choices["coordinator"] = {"cost_val": {task: costs.get(task, costs.get("all")) for task in TASKS}}


async def sizes(arena: Arena, contender: Matched, knob: str = "times") -> dict[str, int]:
    """Task to the size that was chosen."""
    with arena.player.ledger:
        await contender.prepare(arena)
    return {task: told[knob] for task, told in arena.choices[contender.name]["tasks"].items()}


def matched(**given: Any) -> Matched:
    """The double, up to five times."""
    return Matched(**{"baseline": partial(Repeat), "knob": "times", "most": 5, **given})


class TestSize:
    """The largest whose mean cost is at or below the target."""

    async def test_largest_within_the_target(self, tmp_path: Path) -> None:
        """Each task has its own size: four where four calls are paid for, two where it is short of a third."""
        arena = arena_of(tmp_path)
        priced(arena, sums=4 * CALL, words=2.99 * CALL, plans=100 * CALL)
        assert await sizes(arena, matched()) == {"sums": 4, "words": 2, "plans": 5}
        told = arena.choices["matched_repeat"]["tasks"]
        assert told["sums"] == {
            "times": 4,
            "cost_val": 4 * CALL,
            "matched_cost_val": 4 * CALL,
            "dearer": False,
            "at_limit": False,
        }
        assert told["plans"]["at_limit"]
        assert arena.notes == ["matched_repeat: at its largest size on plans, where it may cost less than coordinator"]

    async def test_dearer_at_the_smallest(self, tmp_path: Path) -> None:
        """Where even the smallest size costs more it is played at that size, and a note says so."""
        arena = arena_of(tmp_path)
        priced(arena, all=3 * CALL, words=1.9 * CALL)
        assert await sizes(arena, matched(least=2)) == {"sums": 3, "words": 2, "plans": 3}
        told = arena.choices["matched_repeat"]
        assert [task for task in TASKS if told["tasks"][task]["dearer"]] == ["words"]
        assert told["cost_val"] == {"sums": 3 * CALL, "words": 2 * CALL, "plans": 3 * CALL}
        assert arena.notes == ["matched_repeat: dearer than coordinator on words even with times=2"]

    async def test_each_task_is_played_at_its_size(self, tmp_path: Path) -> None:
        """In the test an item is asked as often as its task allows."""
        arena = arena_of(tmp_path)
        priced(arena, sums=CALL, words=2 * CALL, plans=3 * CALL)
        with arena.player.ledger:
            await contest(arena, {"matched": matched()}, lambda _: None)
            rows = list(arena.player.ledger.records(split="test"))
        assert {(row.task, row.n_calls) for row in rows} == {("sums", 1), ("words", 2), ("plans", 3)}
        assert {(row.method, row.variant, row.backbone) for row in rows} == {("matched_repeat", "ann", "ann")}

    async def test_effort_and_bill(self, tmp_path: Path) -> None:
        """Every size that was tried is its effort; a larger one pays only for what the smaller one had not asked."""
        transport = ScriptedTransport(says_zero)
        arena = arena_of(tmp_path, tasks=skill_tasks(n_val=2), transport=transport)
        priced(arena, sums=CALL, words=2 * CALL, plans=4 * CALL)
        with arena.player.ledger:
            await matched().prepare(arena)
            rows = list(arena.player.ledger.records(method="matched_repeat", split="val"))
        calls = {task: sum(row.n_calls for row in rows if row.task == task) for task in TASKS}
        assert calls == {"sums": 2 * (1 + 2), "words": 2 * (1 + 2 + 3), "plans": 2 * (1 + 2 + 3 + 4 + 5)}
        assert transport.sent.total() == 2 * (2 + 3 + 5)

    @pytest.mark.parametrize(("axis", "target"), [("usd", 0.0014), ("gflop", 2 * CALL), ("weighted_tokens", 2200.0)])
    async def test_on_any_axis(self, axis: Any, target: float, tmp_path: Path) -> None:
        """Two calls of 300 and 200 tokens: 2200 weighted tokens, 0.0014 USD at 1 and 2 USD a million, 2000 GFLOP."""
        agent = replace(WARM[0], price=Price(1.0, 2.0, "test"))
        arena = replace(arena_of(tmp_path, agents=[agent]), cost_axis=axis)
        priced(arena, all=target)
        assert set((await sizes(arena, matched())).values()) == {2}
        assert arena.choices["matched_repeat"]["axis"] == axis


class TestMatch:
    """Whose price."""

    async def test_any_method_that_says_what_it_costs(self, tmp_path: Path) -> None:
        """The best single agent's price is one call; a baseline of two calls is dearer, another baseline can be met."""
        arena = arena_of(tmp_path)
        contenders: dict[str, Contender] = {
            "best_single": BestSingle(),
            "one": matched(match="best_single"),
            "same": Matched(baseline=partial(SelfConsistency), knob="samples", most=3, match="matched_repeat"),
        }
        with arena.player.ledger:
            await contest(arena, contenders, lambda _: None)
        assert arena.choices["best_single"]["cost_val"] == dict.fromkeys(TASKS, CALL)
        for name, knob in (("matched_repeat", "times"), ("matched_self_consistency", "samples")):
            assert {told[knob] for told in arena.choices[name]["tasks"].values()} == {1}

    @pytest.mark.parametrize("noted", [None, {"coordinator": {"agent": "ann"}}, {"coordinator": "odd"}])
    async def test_nothing_to_match(self, noted: dict[str, Any] | None, tmp_path: Path) -> None:
        """Without a method that says what it costs the row is n/a, and nothing is asked."""
        transport = ScriptedTransport(says_zero)
        arena = arena_of(tmp_path, transport=transport)
        arena.choices |= noted or {}
        with arena.player.ledger:
            assert await matched().prepare(arena) == ()
        assert arena.notes == ["matched_repeat: n/a, there is no method coordinator before it that says what it costs"]
        assert transport.sent.total() == 0

    async def test_unknown_price(self, tmp_path: Path) -> None:
        """A method whose cost is unknown on one task cannot be matched, and the task is named."""
        arena = arena_of(tmp_path)
        priced(arena, sums=CALL, plans=CALL)
        with arena.player.ledger:
            assert await matched().prepare(arena) == ()
        assert "no cost in gflop is known of coordinator on words" in arena.notes[0]

    @pytest.mark.parametrize(
        ("baseline", "note"),
        [
            (Repeat, "matched_repeat: n/a, its own cost in gflop is not known on sums, words, plans"),
            (Nobody, "matched_nobody: n/a, nobody is there"),
        ],
    )
    async def test_nothing_to_size(self, baseline: Any, note: str, tmp_path: Path) -> None:
        """Where the baseline's own cost is unknown, or it has no row, this one has none, and a note says why."""
        arena = arena_of(tmp_path, tasks=skill_tasks(n_val=0))
        priced(arena, all=CALL)
        with arena.player.ledger:
            assert await matched(baseline=partial(baseline)).prepare(arena) == ()
        assert arena.notes == [note]


class TestBackbone:
    """On whom."""

    @pytest.mark.parametrize(("skilled", "chosen"), [(("bob",), "bob"), (("bob", "cat"), "bob"), ((), "ann")])
    async def test_best_on_validation(self, skilled: Sequence[str], chosen: str, tmp_path: Path) -> None:
        """The backbone that is right most often at the smallest size; of equals the cheaper one."""

        def answer(request: Request) -> Reply:
            number = request.messages[-1]["content"].split()[0].rpartition("-")[2]
            right = request.model in skilled
            return Reply(f"Answer: {number if right else 'none'}", "", "stop", Usage(300, 200))

        arena = arena_of(tmp_path, agents=WARM[::-1], transport=ScriptedTransport(answer))
        priced(arena, all=50 * CALL)
        (method,) = await _prepared(arena, matched())
        assert method.variant == chosen
        scores = {agent.name: float(agent.name in skilled) for agent in WARM}
        assert arena.choices["matched_repeat"]["accuracy_val"] == scores
        tried = {row.variant for row in arena.player.ledger.records(method="matched_repeat")}
        assert tried >= {f"{agent.name} times=1" for agent in WARM}
        assert {name.split()[0] for name in tried if not name.endswith("=1")} == {chosen}

    async def test_several_agents_in_one_row(self, tmp_path: Path) -> None:
        """A baseline in which agents answer together has one row, sized like any other: 1 x 2 + 1 calls, then 5, 7."""
        twins = [WARM[0], replace(WARM[1], active_params=1e9)]
        arena = arena_of(tmp_path, agents=twins)
        priced(arena, all=6 * CALL)
        layered = Matched(baseline=partial(MixtureOfAgents, aggregator="ann"), knob="layers", most=4)
        assert set((await sizes(arena, layered, "layers")).values()) == {2}
        assert list(arena.choices) == ["coordinator", "matched_mixture_of_agents"]

    async def test_effort_of_a_baseline_that_validates_for_itself(self, tmp_path: Path) -> None:
        """What the baseline asks to choose its aggregator is this method's effort, and nobody else's."""
        arena = arena_of(tmp_path, agents=WARM)
        priced(arena, all=1e9)
        with arena.player.ledger:
            await Matched(baseline=partial(MixtureOfAgents), knob="layers", most=2).prepare(arena)
            rows = list(arena.player.ledger.records())
        assert {row.method for row in rows} == {"matched_mixture_of_agents"}
        assert {row.variant for row in rows} == {"ann", "bob", "cat", "layers=1", "layers=2"}


async def _prepared(arena: Arena, contender: Matched) -> Sequence[Any]:
    methods = await contender.prepare(arena)
    arena.player.ledger.flush()
    return methods


class TestSettings:
    """What is refused before anything is asked."""

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"least": 0}, "least=0"),
            ({"most": 2, "least": 3}, "most=2"),
            ({"most": 5000}, "most=5000"),
        ],
    )
    def test_sizes(self, given: Mapping[str, Any], said: str) -> None:
        """Sizes go up from one at least."""
        with pytest.raises(ConfigError, match=said):
            matched(**given)

    def test_sizes_that_the_baseline_refuses(self) -> None:
        """The baseline's own limit holds."""
        with pytest.raises(ConfigError, match="layers=17"):
            Matched(baseline=partial(MixtureOfAgents), knob="layers", most=17)

    def test_knob_that_is_none(self) -> None:
        """A setting that the baseline does not have is named with its place."""
        inner = {"_target_": f"{__name__}.Repeat", "_partial_": True}
        node = OmegaConf.create({"m": {"_target_": "baselines.matched.Matched", "baseline": inner, "most": 3}})
        node.m.knob = "tims"
        with pytest.raises(ConfigError, match=r"m: TypeError.*'tims'"):
            build(node.m)

    def test_cold_samples(self) -> None:
        """Samples that would be equal are refused as the baseline refuses them."""
        ground = Ground(AGENTS, skill_tasks(), 1)
        with pytest.raises(ConfigError, match=r"self_consistency.*temperature"):
            Matched(baseline=partial(SelfConsistency), knob="samples", most=3).check(ground)


@pytest.mark.parametrize(
    ("baseline", "knob", "least", "calls"),
    [
        (partial(SelfConsistency), "samples", 1, {3, 4}),
        (partial(BestOfN), "samples", 2, {4}),
        (partial(SelfRefine), "rounds", 1, {7}),
        (partial(MixtureOfAgents, aggregator="ann"), "layers", 1, {10}),
        (partial(MixtureOfAgents), "layers", 1, {10}),
    ],
)
async def test_nothing_costs_more_than_foreseen(
    baseline: Any, knob: str, least: int, calls: set[int], tmp_path: Path
) -> None:
    """With a target that no size reaches, every size that is tried and the largest in the test are foreseen.

    Exactly, but where a baseline chooses an aggregator at every size: it is foreseen as often, and asked for once.
    """
    alike = [replace(agent, price=Price(1.0, 2.0, "test"), active_params=1e9) for agent in LAVISH]
    noted = {"coordinator": {"cost_val": dict.fromkeys(two_tasks(), 1e9)}}
    contender = Matched(baseline=baseline, knob=knob, least=least, most=3)
    exact = baseline.func is not MixtureOfAgents or bool(baseline.keywords)
    records = await bounded(contender, tmp_path, agents=alike, noted=noted, exact=exact)
    assert {record.n_calls for record in records if record.split == "test"} == calls
