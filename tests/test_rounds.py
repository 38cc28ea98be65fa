"""Episodes of several rounds: a task says something back, the method solves again, and all of it is one episode."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baselines.best_of_n import BestOfN
from baselines.cascade import Cascade
from baselines.conductor import Conductor
from baselines.cot import ChainOfThought
from baselines.debate import Debate
from baselines.five_times_reflection import FiveTimesReflection
from baselines.mixture_of_agents import MixtureOfAgents
from baselines.self_consistency import SelfConsistency
from baselines.self_refine import SelfRefine
from baselines.single import Single, SingleAgent
from baselines.vote import CostMatchedVote
from evals.stats.verifier import VerifierRow
from tests.ground import make_arena
from tests.scaffolds import Script, system
from tests.talks import HigherLower, Speaker, Talk, TwoTurns, speakers
from trinity.arena import Arena, Contender
from trinity.context import Context
from trinity.coordinator.heads import LinearHead
from trinity.coordinator.policy import RandomPolicy, RecordedPolicies
from trinity.coordinator.protocol import Choice, Coordinator
from trinity.episodes import Play
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.llm.budget import Cap
from trinity.llm.client import Rules
from trinity.llm.transports.base import Reply, Request, TransportError
from trinity.pipeline import contest
from trinity.rounds import Later
from trinity.runs.ledger import Ledger
from trinity.runs.records import comparable
from trinity.trainers.sep_cma_es import SepCMAES
from trinity.trainers.train import Training
from trinity.trainers.trained import TrainedCoordinator
from trinity.types import (
    Agent,
    Episode,
    FinishReason,
    Grade,
    Item,
    Message,
    Prepared,
    Price,
    Record,
    Replicate,
    Role,
    Usage,
)
from trinity.types import Task as TaskProtocol
from trinity.verdicts import verdicts

WARM = [
    Agent(
        name,
        "script",
        name,
        {"temperature": 1.0, "max_tokens": 12},
        price=Price(1.0, 3.0, "test"),
        active_params=1e9,
    )
    for name in ("ann", "bob", "cat")
]
TALKS: Mapping[str, TaskProtocol] = {"two": TwoTurns("two"), "guess": HigherLower("guess")}


def arena_of(folder: Path, script: Any = None, *, tasks: Mapping[str, TaskProtocol] = TALKS, **settings: Any) -> Arena:
    """An arena on tasks that talk, with agents that sample."""
    agents = settings.pop("agents", WARM)
    return make_arena(folder, tasks=tasks, transport=speakers(says=script), agents=list(agents), **settings)


async def one(arena: Arena, index: int = 0, method: Any = None) -> Record:
    """The record of the first agent alone on a test item of the first task."""
    task, item = list(arena.items("test"))[index]
    return await arena.player.play(Play(method or SingleAgent(arena.agents[0]), task, item, Replicate("test", 0)))


def patient(*texts: str | Reply) -> Script:
    """A script that says one thing after the other."""
    said = iter(texts)
    return Script(lambda _: next(said))


class TestPlaying:
    """One method, several rounds."""

    async def test_each_round_opens_with_all_that_was_said(self, tmp_path: Path) -> None:
        """The second request is the first opening, the answer as the assistant's, and what the task says back."""
        script = patient("Answer: 0", "Answer: 1")
        arena = arena_of(tmp_path, script)
        with arena.player.ledger:
            record = await one(arena)
        first, second = script.requests
        assert first.messages == ({"role": "user", "content": "two-test-0: which number? [secret 0]"},)
        assert second.messages == (
            *first.messages,
            {"role": "assistant", "content": "Answer: 0"},
            {"role": "user", "content": "And the next one? [secret 1]"},
        )
        assert (record.status, record.score, record.answer) == ("correct", 1.0, "0 1")

    async def test_all_rounds_are_one_bill(self, tmp_path: Path) -> None:
        """Turns, calls, tokens and costs are sums over the rounds, in one record."""
        arena = arena_of(tmp_path, patient("Answer: 0", "Answer: 9"))
        with arena.player.ledger as ledger:
            record = await one(arena)
            assert list(ledger.records()) == [record]
        assert (record.n_turns, record.n_calls, record.input_tokens, record.output_tokens) == (2, 2, 18, 8)
        assert record.cost_usd == pytest.approx((18 * 1.0 + 8 * 3.0) / 1e6)
        assert (record.status, record.score) == ("wrong", 0.5)

    async def test_a_conversation_goes_on_until_the_task_is_done(self, tmp_path: Path) -> None:
        """Guesses are answered until one is right; whoever halves finds 7, 3, 1, 0 of 16."""
        arena = arena_of(tmp_path, tasks={"guess": HigherLower("guess")})
        with arena.player.ledger:
            found = await one(arena, 0, SingleAgent(arena.agents[2]))
            at_once = await one(arena, 1, SingleAgent(arena.agents[2]))
        assert (found.status, found.n_calls, found.answer) == ("correct", 4, "0")
        assert (at_once.status, at_once.n_calls, at_once.answer) == ("correct", 1, "7")

    async def test_the_grader_sees_every_answer(self, tmp_path: Path) -> None:
        """`replies` are the answers of all rounds, `answer` is the last; in one round it is the only one."""
        seen: list[Episode] = []

        class Nosy(TwoTurns):
            async def grade(self, item: Item, episode: Episode, judge: object) -> Grade:
                seen.append(episode)
                return Grade(1.0, "x")

        class Once(Nosy):
            rounds = 1

            def reply(self, item: Item, episode: Episode) -> list[Message] | None:
                return None

        arena = arena_of(tmp_path, patient("one", "two", "three"), tasks={"a": Nosy("a"), "b": Once("b")})
        with arena.player.ledger:
            await one(arena, 0)
            await one(arena, 6)
        assert [(episode.answer, episode.replies) for episode in seen] == [
            ("two", ("one", "two")),
            ("three", ("three",)),
        ]

    @pytest.mark.parametrize(
        ("reasons", "status", "score", "raw"),
        [
            (("stop", "stop"), "correct", 1.0, 1.0),
            (("length", "stop"), "truncated", 0.0, 1.0),
            (("stop", "length"), "truncated", 0.0, 1.0),
            (("content_filter", "length"), "refused", 0.0, 1.0),
            (("length", "content_filter"), "truncated", 0.0, 1.0),
        ],
    )
    async def test_a_round_that_was_cut_short_spoils_the_episode(
        self, reasons: tuple[FinishReason, FinishReason], status: str, score: float, raw: float, tmp_path: Path
    ) -> None:
        """The first such round gives the status; all rounds are played, and `raw_score` is what they were worth."""
        said = [Reply(f"Answer: {k}", "", reason, Usage(9, 4)) for k, reason in enumerate(reasons)]
        arena = arena_of(tmp_path, patient(*said))
        with arena.player.ledger:
            record = await one(arena)
        assert (record.status, record.score, record.raw_score, record.n_calls) == (status, score, raw, 2)

    @pytest.mark.parametrize(
        ("said", "raw", "calls"), [(("Answer: 0", " "), 0.5, 2), (("",), 0.0, 1), (("Answer: 4", ""), 0.0, 2)]
    )
    async def test_an_empty_answer_ends_the_rounds(
        self, said: Sequence[str], raw: float, calls: int, tmp_path: Path
    ) -> None:
        """It is no answer and scores 0; `raw_score` is what was earned before."""
        texts = dict(enumerate(said))
        arena = arena_of(tmp_path, Script(lambda request: texts[len(request.messages) // 2]))
        with arena.player.ledger:
            record = await one(arena)
        assert (record.status, record.score, record.raw_score, record.n_calls) == ("no_answer", 0.0, raw, calls)

    async def test_a_failed_call_of_any_round_is_an_error(self, tmp_path: Path) -> None:
        """The episode is asked again as a whole; what it has bought stays on its bill."""

        def script(request: Request) -> Reply | Exception:
            return TransportError("server", "down") if len(request.messages) > 1 else Speaker({})(request)

        arena = arena_of(tmp_path, script)
        with arena.player.ledger:
            record = await one(arena)
        assert (record.status, record.score, record.n_calls) == ("error", None, 1)

    @pytest.mark.parametrize(
        ("attributes", "line"),
        [
            ({"rounds": 1}, "task two wants a reply to round 1, where its attribute `rounds` is 1"),
            ({"reply_bytes": 90}, "task two says 92 bytes back on two-test-0, where its attribute `reply_bytes` is 90"),
        ],
    )
    async def test_a_task_says_no_more_than_it_announces(
        self, attributes: dict[str, int], line: str, tmp_path: Path
    ) -> None:
        """Plans count on rounds and lengths, so a task that goes beyond them stops the run."""
        task = type("Chatty", (TwoTurns,), attributes)("two")
        arena = arena_of(tmp_path, tasks={"two": task})
        with arena.player.ledger, pytest.raises(ConfigError, match=re.escape(line)):
            await one(arena)

    async def test_a_reply_that_breaks_is_the_graders_error(self, tmp_path: Path) -> None:
        """Nothing is asked again for it, and no wrong answer is made of it."""

        class Broken(TwoTurns):
            def reply(self, item: Item, episode: Episode) -> list[Message] | None:
                raise KeyError("oops")

        arena = arena_of(tmp_path, tasks={"two": Broken("two")})
        with arena.player.ledger:
            record = await one(arena)
        assert (record.status, record.score, record.n_calls) == ("error", None, 1)

    def test_a_later_round_s_task_is_its_task_but_for_the_opening(self) -> None:
        """It has the task's attributes and methods and passes for an instance of its class."""
        task: Any = TwoTurns("two")
        later: Any = Later(task, [{"role": "user", "content": "hi"}])
        item = next(task.items("test"))
        assert [isinstance(later, kind) for kind in (TwoTurns, HigherLower, Prepared)] == [True, False, False]
        assert (later.name, later.threshold, later.rounds, later.comparable) == ("two", 1.0, 2, True)
        assert later.key(item, "Answer: 3") == "3"
        assert later.open(item) == [{"role": "user", "content": "hi"}]
        with pytest.raises(AttributeError):
            later.nothing  # noqa: B018 - reading it is the test

    async def test_a_coordinator_that_finds_no_answer_in_a_round_ends(self, tmp_path: Path) -> None:
        """A round of thinking alone is the last, and the episode is graded on the answer from before, as capped."""
        arena = arena_of(tmp_path)
        with arena.player.ledger:
            record = await one(arena, 0, Coordinator(Scripted(["worker", "verifier", "thinker", "thinker"]), WARM, 2))
        assert (record.n_calls, record.capped, record.raw_score) == (4, True, 0.5)
        assert (record.n_turns, record.encoder_tokens) == (4, 20)


@dataclass
class Scripted:
    """A policy that lets the first agent play these roles, turn after turn of the episode."""

    roles: Sequence[Role]
    name: str = "scripted"

    async def choose(self, chunks: tuple[str, ...], turn: int, context: Context) -> Choice:
        """The role of the turn's place in the episode."""
        return Choice(0, self.roles[context.turn(turn)], 5)


class TestCap:
    """The episode's own cap is one for all its rounds."""

    @pytest.mark.parametrize(("calls", "score", "capped"), [(1, 0.5, True), (2, 1.0, False)])
    async def test_it_ends_the_episode_on_what_there_is(
        self, calls: int, score: float, capped: bool, tmp_path: Path
    ) -> None:
        """Where it forbids the second round's call the first answer is graded, and the record says it was capped."""
        arena = arena_of(tmp_path, patient("Answer: 0", "Answer: 1"), rules=Rules(episode=Cap(calls=calls)))
        with arena.player.ledger:
            record = await one(arena)
        assert (record.raw_score, record.score, record.capped, record.n_calls) == (score, score, capped, calls)

    async def test_no_round_follows_one_that_it_has_ended(self, tmp_path: Path) -> None:
        """A coordinator whose last turn it forbade is asked no second question, though a shorter call might fit."""
        arena = arena_of(tmp_path, rules=Rules(episode=Cap(calls=3)))
        with arena.player.ledger as ledger:
            policy = RandomPolicy("random", [agent.name for agent in WARM], ledger)
            await arena.test(Coordinator(policy, WARM, 4, name="random"))
            rows = list(ledger.records())
            turns = turns_of(ledger)
        refused = [row for row in rows if len(turns[row.item_id, row.replicate.index]) > row.n_calls]
        assert refused
        assert all(row.capped and len(turns[row.item_id, row.replicate.index]) == 4 for row in refused)
        assert max(row.n_calls for row in rows) == 3


def turns_of(ledger: Ledger) -> dict[tuple[str, int], list[int]]:
    """The turns of a ledger's decisions by item and replicate."""
    found: dict[tuple[str, int], list[int]] = {}
    for row in ledger.decisions():
        found.setdefault((row.key.item_id, row.key.replicate.index), []).append(row.key.turn)
    return found


class TestNoise:
    """Turns of an episode have one numbering, and the first round's is what it always was."""

    def test_the_first_round_is_as_without_rounds(self) -> None:
        """Its noise is the function of seed, task, item, replicate, turn and label that runs of one round have."""
        task = Talk("t")
        item = next(task.items("test"))
        place = f"5\x1ft\x1f{item.item_id}\x1ftest\x1f2\x1f3\x1fagent:ann"
        bits = int.from_bytes(hashlib.blake2b(place.encode(), digest_size=8).digest(), "big")
        assert Context(task, item, Replicate("test", 2), 5).uniform(3, "agent:ann") == ((bits >> 11) + 0.5) / 2**53

    def test_a_later_round_s_turns_follow(self) -> None:
        """Turn 0 of the second round is the turn after the last that the first one used."""
        task = Talk("t")
        item = next(task.items("test"))
        plain, talk = (Context(task, item, Replicate("test", 0), 5) for _ in range(2))
        talk.uniform(1, "a")
        talk.uniform(0, "a")
        talk.next_round(task)
        assert talk.uniform(0, "a") == plain.uniform(2, "a")
        assert talk.turn(1) == 3
        talk.next_round(task)
        assert talk.turn(0) == 4

    async def test_decisions_of_all_rounds_stand_in_the_ledger(self, tmp_path: Path) -> None:
        """One decision a call, numbered through; none takes the place of another."""
        arena = arena_of(tmp_path)
        with arena.player.ledger as ledger:
            names = [agent.name for agent in WARM]
            await arena.test(Coordinator(RandomPolicy("random", names, ledger), WARM, 3, name="random"))
            turns = turns_of(ledger)
            rows = list(ledger.records())
            assert max(row.n_turns for row in rows) > 6
            assert all(turns[row.item_id, row.replicate.index] == list(range(row.n_calls)) for row in rows)

    async def test_decisions_can_be_taken_from_a_ledger(self, tmp_path: Path) -> None:
        """A replayed policy finds each round's decisions again and gives the same records."""
        was = arena_of(tmp_path / "a")
        names = [agent.name for agent in WARM]
        head = LinearHead(d=64, n_agents=3)
        with was.player.ledger as source:
            theta = np.random.default_rng(3).normal(size=head.size)
            for sampled in (True, False):
                made = was.policies.make(f"c/{sampled}", names, head, theta, sampled=sampled)
                await was.test(Coordinator(made, WARM, 3, "c", str(sampled)))
            now = arena_of(tmp_path / "b")
            with now.player.ledger as rebuilt:
                recorded = RecordedPolicies(64, source, rebuilt)
                for sampled in (True, False):
                    again = recorded.make(f"c/{sampled}", names, head, theta, sampled=sampled)
                    await now.test(Coordinator(again, WARM, 3, "c", str(sampled)))
                before, after = (list(map(comparable, ledger.records())) for ledger in (source, rebuilt))
        assert before == after
        assert len(before) == 72


METHODS: Mapping[str, Contender] = {
    "single": Single(),
    "cot": ChainOfThought(),
    "self_consistency": SelfConsistency(samples=3),
    "best_of_n": BestOfN(samples=3),
    "self_refine": SelfRefine(rounds=2),
    "five_times_reflection": FiveTimesReflection(rounds=2),
    "debate": Debate(),
    "mixture_of_agents": MixtureOfAgents(layers=2),
    "cascade": Cascade(order=["ann", "bob", "cat"]),
    "conductor": Conductor(planner="ann", max_steps=3),
    "coordinator": TrainedCoordinator(
        LinearHead, 3, Training(partial(SepCMAES, popsize=4), generations=2, trajectories=3, validate_every=1)
    ),
}


def planning(request: Request) -> Reply:
    """As any speaker, but a planner plans, so that a conductor has steps."""
    if "Step 1" in request.messages[-1]["content"] and "agent" in request.messages[-1]["content"].lower():
        plan = "Step 1: agent 1; sees none; task: find it\nStep 2: agent 2; sees all; task: answer"
        return Reply(plan, "", "stop", Usage(9, 4))
    return Speaker({"ann": 0.6})(request)


@pytest.mark.parametrize("name", METHODS)
async def test_every_method_shows_the_conversation(name: str, tmp_path: Path) -> None:
    """Whatever a method asks in the second round, its agents read the first question, the answer and the follow-up."""
    script = Script(planning)
    arena = arena_of(tmp_path, script, tasks={"two": TwoTurns("two", n_train=3, n_val=2, n_test=2)})
    with arena.player.ledger as ledger:
        await contest(arena, {name: METHODS[name]}, lambda _: None)
        assert all(row.n_calls >= 2 for row in ledger.records(split="test"))
    later = [request for request in script.asked if any(m["role"] == "assistant" for m in request.messages)]
    assert later
    for request in later:
        head = 1 if system(request) else 0
        question, answer, followed = request.messages[head:]
        assert (question["role"], answer["role"], followed["role"]) == ("user", "assistant", "user")
        assert question["content"].startswith("two-")
        assert "which number?" in question["content"]
        assert "And the next one?" in followed["content"]


@pytest.mark.parametrize("name", [*METHODS, "vote"])
@pytest.mark.parametrize("task", ["two", "guess"])
async def test_what_is_foreseen_is_never_less_than_what_it_costs(name: str, task: str, tmp_path: Path) -> None:
    """The plan counts every round at its longest, with all that was said before."""
    kinds = {"two": TwoTurns, "guess": HigherLower}
    tasks: dict[str, TaskProtocol] = {task: kinds[task](task, n_train=3, n_val=2, n_test=2)}
    contenders = {"coordinator": METHODS["coordinator"], "vote": CostMatchedVote(0.8, most=3)}
    played = contenders if name == "vote" else {name: METHODS[name]}
    arena = arena_of(tmp_path, planning, tasks=tasks)
    with arena.player.ledger as ledger:
        await contest(arena, {"single": METHODS["single"], **played}, lambda _: None)
        rows = [row for row in ledger.records() if row.method.partition("_")[0] == name.partition("_")[0]]
    forecast = {**METHODS, **contenders}[name].forecast(Ground(arena.agents, tasks, arena.replicates))
    assert forecast is not None
    assert forecast.spend.usd is not None
    assert forecast.episodes >= len(rows) > 0
    assert sum(row.n_calls for row in rows) <= forecast.spend.calls
    assert sum(row.weighted_tokens for row in rows) <= forecast.spend.weighted_tokens
    assert sum(row.cost_usd or 0.0 for row in rows) <= forecast.spend.usd


def test_a_plan_of_one_round_is_what_it_was() -> None:
    """A task that never replies is foreseen at the price of one round, one of five at more than five times that."""
    once, often = (
        Ground(WARM, {"t": task}, 1).played(WARM[:1], "test").spend for task in (Talk("t"), HigherLower("t"))
    )
    question = len("t-test-0: which number? [secret 0]")
    assert once.calls == 6
    assert once.weighted_tokens >= 6 * (question + 64 + 4 * 12)
    assert often.calls == 30
    assert often.weighted_tokens > 5 * once.weighted_tokens


async def test_order_and_concurrency_change_nothing(tmp_path: Path) -> None:
    """With latencies drawn anew, one episode at a time and 32 give the same records and decisions."""
    found = []
    for concurrency in (1, 32):
        folder = tmp_path / str(concurrency)
        transport = speakers(latency_ms=(0, 3))
        arena = make_arena(folder, tasks=TALKS, transport=transport, agents=WARM, concurrency=concurrency)
        with arena.player.ledger as ledger:
            await contest(arena, {name: METHODS[name] for name in ("single", "coordinator")}, lambda _: None)
            found.append((list(map(comparable, ledger.records())), [row.key for row in ledger.decisions()]))
    assert found[0] == found[1]


async def test_graded_episodes_are_not_played_again(tmp_path: Path) -> None:
    """A second pass over finished conversations asks nobody."""
    arena = arena_of(tmp_path)
    with arena.player.ledger:
        await arena.test(SingleAgent(WARM[0]))
        asked = arena.counts.logical
        await arena.test(SingleAgent(WARM[0]))
    assert arena.counts.logical == asked > 12


class TestVerdicts:
    """What verifiers said in episodes of several rounds."""

    async def test_only_the_last_answer_has_a_grade(self, tmp_path: Path) -> None:
        """Each verdict that is kept is about the answer that the episode ended on, and has the record's grade."""
        arena = arena_of(tmp_path, Speaker({"ann": 0.9, "bob": 0.9, "cat": 0.9}))
        with arena.player.ledger as ledger:
            names = [agent.name for agent in WARM]
            await arena.test(Coordinator(RandomPolicy("random", names, ledger), WARM, 4, name="random"))
            found = [row async for row in verdicts(ledger, arena.tasks, arena.seed)]
            rows = list(ledger.records())
        assert {type(row) for row in found} == {VerifierRow}
        assert {row.correct for row in found} == {True, False}
        assert sum(row.accepted for row in found) <= sum(row.status in ("correct", "wrong") for row in rows)

    async def test_an_answer_that_a_model_grades_is_not_graded_anew(self, tmp_path: Path) -> None:
        """No grader is called for it: that had to be paid for."""

        class Dear(Talk):
            judged = True
            graded = 0

            async def grade(self, item: Item, episode: Episode, judge: object) -> Grade:
                Dear.graded += 1
                return Grade(1.0, "1")

        arena = arena_of(tmp_path, tasks={"dear": Dear("dear")})
        with arena.player.ledger as ledger:
            names = [agent.name for agent in WARM]
            await arena.test(Coordinator(RandomPolicy("random", names, ledger), WARM, 5, name="random"))
            graded = Dear.graded
            found = [row async for row in verdicts(ledger, arena.tasks, arena.seed)]
        assert Dear.graded == graded
        assert found
