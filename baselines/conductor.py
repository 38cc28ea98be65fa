"""A planner writes a workflow as text, agents work it off, after the Conductor (arXiv 2512.04388).

As in the source: one model reads the question and a numbered list of agents, and says for each of at most five steps
which agent works, at which subtask in its own words, and which earlier steps' results that agent is shown (some, none
or all); an agent may work at several steps, the planner too; the answer of the last step is the answer.

Not as in the source: the planner is not trained (there a 7B model learns it by GRPO) and is shown no examples of plans;
a step is a line of text, not an entry in each of three Python lists, so that a plan cut short still holds whole steps;
agents have names and profiles besides their numbers, which is all that an untrained planner can go by; each agent is
asked the question besides its subtask and reads earlier results quoted in one message, not as turns of a chat; steps
that do not see each other may run at once; no plan calls the planner to plan anew. What a plan that cannot be read
becomes is ours:

* a line that begins with `Step` and a number is a step, any other line is prose and is passed over;
* the plan is the steps before the first invalid one, which has another form or not the next number, names an agent or
  an earlier step that does not exist, gives no task, or is one too many; a step cut short by a cap is taken as it is;
* where that leaves no step (a refusal, silence, nonsense), the planner answers alone, asked as `cot` asks.

A plan is read, never evaluated. A subtask is meant to instruct its agent, so it cannot be made harmless, only small: it
stands quoted, as the planner's words, in a prompt of ours that puts it below the question. It cannot end its quotation
or pass as ours, and it reaches no agent and no result but those that the plan names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Unpack

from baselines.backbones import Common, Orchestrated, joint_row, whole_number
from baselines.chosen import best_agent, mean_scores
from baselines.components import Components, Parts
from baselines.cot import GENERATION, alone_on_validation
from baselines.workflow import Scaffold, Workflow, shown
from trinity.arena import Arena
from trinity.forecast import Forecast, Ground
from trinity.quoting import MARK, quote
from trinity.types import Agent, Completion, Message

UNSEEN = "(There are none that you are shown.)"
"""Stands for the results of earlier steps in the prompt of a step that sees none."""

_MOST_STEPS = 20

# Every repetition is bounded, so that no line, whatever it holds, costs more than its length.
_HEAD = r"[\s*_`#>+-]{0,16}(?:[0-9]{1,2}[.)][\s*_`]{0,4})?step[\s*_`#]{0,4}([0-9]{1,9})"
_STARTS = re.compile(_HEAD, re.IGNORECASE | re.ASCII)
_STEP = re.compile(
    _HEAD + r"[\s*_`:.)-]{0,8}agent[\s*_`#:]{0,8}([0-9]{1,9})(?:\s?\([^()]{0,80}\))?"
    r"[\s*_`;,.|-]{0,8}sees(?![a-z0-9])(.{0,120}?)(?<![a-z0-9])task[\s*_`]{0,4}:[*_`]{0,3}",
    re.IGNORECASE | re.ASCII,
)
_BETWEEN = re.compile(r"[\s,;&*_`#]+")
_FILLERS = frozenset({"", "and", "step", "steps"})


class Step(NamedTuple):
    """One step of a plan: index of its agent, indices of the steps that it sees (all from 0), and its subtask."""

    agent: int
    sees: tuple[int, ...]
    task: str


def read_plan(text: str, n_agents: int, max_steps: int, told: str = "") -> tuple[Step, ...]:
    """The valid steps before the first invalid one; in time linear in the text, whatever it says.

    A step is a line `Step 1: agent 2; sees none; task: ...`. Case, Markdown marks, list marks, punctuation and a remark
    in brackets after the agent's number are free; `sees` has numbers of earlier steps, or `none`, or `all`. Lines that
    stand in `told`, what the planner was told, are its examples said again, and passed over.
    """
    steps: list[Step] = []
    examples = set(map(str.strip, told.splitlines()))
    for line in text.splitlines():
        if not _STARTS.match(line) or line.strip() in examples:
            continue
        step = _read_step(line, len(steps), n_agents)
        if step is None or len(steps) == max_steps:
            break
        steps.append(step)
    return tuple(steps)


def _read_step(line: str, place: int, n_agents: int) -> Step | None:
    """The step at `place` (from 0) of a plan; None where the line is none that fits there."""
    found = _STEP.match(line)
    if found is None or int(found[1]) != place + 1 or not 1 <= int(found[2]) <= n_agents:
        return None
    sees, task = _read_sees(found[3], place), line[found.end() :].strip()
    return Step(int(found[2]) - 1, sees, task) if sees is not None and task else None


def _read_sees(text: str, place: int) -> tuple[int, ...] | None:
    """Which of the `place` earlier steps are seen, in their order; None where the text does not say it."""
    words = [word for word in _BETWEEN.split(text.lower().strip(" \t*_`:;,.|()[]-")) if word not in _FILLERS]
    if words in (["none"], ["nothing"]):
        return ()
    if words == ["all"]:
        return tuple(range(place))
    numbers = [str(number) for number in range(1, place + 1)]
    if not words or not set(words) <= set(numbers):
        return None
    return tuple(sorted({numbers.index(word) for word in words}))


def together(steps: Sequence[Step]) -> list[list[int]]:
    """The places of the steps in order, neighbours that do not see each other in one group."""
    groups: list[list[int]] = []
    for place, step in enumerate(steps):
        if groups and not set(step.sees) & set(groups[-1]):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def agent_list(agents: Sequence[Agent]) -> str:
    """The agents as the planner is shown them, one a line: number, name, profile."""
    return "\n".join(_entry(number, agent) for number, agent in enumerate(agents, 1))


def _entry(number: int, agent: Agent) -> str:
    name, profile = _one_line(agent.name), _one_line(agent.profile)
    return f"Agent {number} ({name}): {profile}" if profile else f"Agent {number}: {name}"


def _one_line(text: str) -> str:
    """A text of the configuration as a part of a line of ours."""
    return quote(" ".join(text.split())).removeprefix(MARK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Scaffold):
    """Method: `planner` writes a plan for `workers`, which they work off; without a plan it answers alone."""

    planner: Agent
    workers: Sequence[Agent]
    components: Components
    max_steps: int

    async def play(self, flow: Workflow) -> None:
        """The plan, then its steps in order; neighbours that do not see each other are asked at once."""
        plan = await flow.ask(self.planner, "thinker", self._order(flow))
        steps = read_plan(plan.text, len(self.workers), self.max_steps, self.components["planner"])
        if not steps:
            alone = replace(self.planner, style=self.components[GENERATION])
            await flow.ask_all([(alone, flow.solve_as(alone))])
        results: list[Completion] = []
        for group in together(steps):
            asked = [(self.workers[steps[place].agent], self._part(flow, steps, place, results)) for place in group]
            results += await flow.ask_all(asked)

    def _order(self, flow: Workflow) -> list[Message]:
        content = self.components.fill(
            "planner",
            original_prompt=flow.question,
            agents=agent_list(self.workers),
            max_steps=str(self.max_steps),
        )
        return flow.briefed(self.components["planner_system"], content)

    def _part(self, flow: Workflow, steps: Sequence[Step], place: int, results: Sequence[Completion]) -> list[Message]:
        """What the agent of a step is asked; the last one is also told to answer the question, as in `cot`."""
        step, last = steps[place], place == len(steps) - 1
        earlier = [f"Step {number + 1}:\n{shown(results[number])}" for number in step.sees]
        content = self.components.fill(
            "step",
            original_prompt=flow.question,
            subtask=quote(step.task),
            earlier="\n\n".join(earlier) or UNSEEN,
        )
        if not last:
            return flow.briefed("", content)
        return flow.briefed(self.components[GENERATION], f"{content}\n\n{self.components['last_step']}")


class Conductor(Orchestrated):
    """One row: the backbones, led by an untrained planner."""

    name = "conductor"
    parts: ClassVar[Parts] = {
        GENERATION: (),
        "planner_system": (),
        "planner": ("original_prompt", "agents", "max_steps"),
        "step": ("original_prompt", "subtask", "earlier"),
        "last_step": (),
    }

    def __init__(self, *, planner: str | None = None, max_steps: int = 5, **rest: Unpack[Common]) -> None:
        """`planner` names any agent of the pool (None: the backbone that is best on validation)."""
        super().__init__(**rest)
        self.planner = planner
        self.max_steps = whole_number(self.name, "max_steps", max_steps, most=_MOST_STEPS)

    async def prepare(self, arena: Arena) -> Sequence[Planned]:
        """Choose the planner, say which it is."""
        workers = self.backbones.of(arena.agents)
        planner, scores = await self._chosen(arena, workers)
        arena.choices[self.name] = {"planner": planner.name, "accuracy_val": scores}
        team = [*workers, planner]
        times = 1 if all(agent.deterministic for agent in team) else self.replicates
        row = joint_row(self.name, "", team, times)
        return [Planned(**row, planner=planner, workers=workers, components=self.components, max_steps=self.max_steps)]

    def check(self, ground: Ground) -> None:
        """Refuse unknown backbones and an unknown planner."""
        self.backbones.of(ground.agents)
        self._named(ground.agents)

    def forecast(self, ground: Ground) -> Forecast:
        """A plan and all its steps, each of which reads its subtask and all results before it; the choice before."""
        workers = self.backbones.of(ground.agents)
        team = [*workers, *self._named(ground.agents)]
        n_bytes, times = self.components.n_bytes, ground.times(team, self.replicates)
        listed = len(agent_list(workers).encode())
        tested = ground.worked(team, "test", range(self.max_steps + 1), n_bytes + listed, times=times)
        tried = [ground.worked([agent], "val", (0,), n_bytes) for agent in self._candidates(workers)]
        return Forecast.total([tested, *tried])

    def _named(self, pool: Sequence[Agent]) -> list[Agent]:
        return self.named(pool, "planner", self.planner)

    def _candidates(self, workers: Sequence[Agent]) -> Sequence[Agent]:
        """Who has to be validated to choose a planner."""
        return workers if self.planner is None and len(workers) > 1 else ()

    async def _chosen(self, arena: Arena, workers: Sequence[Agent]) -> tuple[Agent, dict[str, float | None]]:
        """The planner, and each candidate's mean validation score at answering alone, as `cot` asks."""
        candidates = self._candidates(workers)
        if not candidates:
            return (self._named(arena.agents) or workers)[0], {}
        records = await alone_on_validation(arena, self.name, candidates, self.components[GENERATION])
        return best_agent(arena, candidates, records), mean_scores(records)
