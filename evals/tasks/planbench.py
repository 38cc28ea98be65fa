"""PlanBench: plans for worlds of blocks, packages and crates, under their own and other names, graded by execution."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Unpack

from evals.graders.plan.problem import STATEMENT, Posed, find_world, last_statement, read_problem
from evals.graders.plan.reading import Plan, read_plan
from evals.graders.plan.stated import claim_of, read_claim, read_state, shown_state, told_claim, told_state
from evals.graders.plan.strips import VERSION, Action, Problem, Run, execute, shown
from evals.tasks.base import item_id
from evals.tasks.benchmark import Benchmark, BenchmarkSettings, filled, prompt_text
from evals.tasks.hub import Row
from evals.tasks.options import one_of
from trinity.canonical import folded
from trinity.errors import ConfigError, GraderError
from trinity.types import Episode, Grade, Item, Judge, Message, Split

GENERATION = (
    *("task_1_plan_generation", "task_2_plan_optimality", "task_5_plan_generalization"),
    *("task_8_1_goal_shuffling", "task_8_2_full_to_partial", "task_8_3_partial_to_full"),
)
"""Tasks that ask for a plan."""
VERIFICATION = "task_3_plan_verification"
EXECUTION = "task_7_plan_execution"
_OPTIMAL = "task_2_plan_optimality"
_PROMPTS = {VERIFICATION: "planbench_verification", EXECUTION: "planbench_execution", _OPTIMAL: "planbench_optimal"}
_ENDINGS = {True: ("[PLAN]", "My plan is as follows:"), False: ("[VERIFICATION]", "[RESULTING STATE]")}
"""What a query ends with where a plan is asked for, and where something is to be said of a plan: left to the answer."""
_REPEATED = 200
"""Characters of a question's end by which it is found in an answer that repeats it, plans of its examples included."""
_ALWAYS_VALID = 0.58
"""Score of who calls every plan valid: 856 of the 1,485 that are to be verified are."""


class PlanBench(Benchmark):
    """PlanBench (Valmeekam et al., arXiv 2206.10498): blocks, logistics, depots, and the same with other words.

    Asked for a plan, any plan is right that reaches the goal by actions that can be done, in whatever words (see
    `graders.plan.reading`); the row's own plan is one of them. One unreadable line or one action that cannot be done
    makes it wrong. `task_2_plan_optimality` wants as few actions as the row's plan has, which is optimal.
    `task_3_plan_verification` wants the verdict on a plan, and of an invalid one what fails: an unmet goal, or the
    step with an unmet precondition, as the paper counts explained verdicts. `task_7_plan_execution` wants the state
    that actions lead to. Tasks 4 and 6 (reuse, replanning) are not on the hub.

    The question is the row's query with its worked examples, without the last `[PLAN]`: the paper's models completed
    it, ours may think first, so numbers are not to be set beside published ones. An example is another row's problem;
    `example=false` leaves it out where training must not see what is tested. Difficulty is the length of the row's
    plan, or of the plan that it shows; domain is the row's.

    Args:
        task: configuration on the hub, one of `GENERATION`, `VERIFICATION`, `EXECUTION`.
        domains: rows of these domains (`blocksworld`, `logistics`, ...); empty or None = all.
        example: show the worked examples.
        settings: see `BenchmarkSettings`.

    Raises:
        ConfigError: no such task, or `domains` is no list.
    """

    name = "planbench"
    repo = "tasksource/planbench"
    hub_splits: Mapping[Split, str] = {"train": "train", "val": "train", "test": "train"}
    columns = ("query", "ground_truth_plan", "domain", "task")
    optional = ("instance_id", "prompt_type")
    licence = "MIT"
    grader = VERSION
    citation = (
        "Valmeekam et al. 2023, PlanBench: An Extensible Benchmark for Evaluating Large Language Models on Planning "
        "and Reasoning about Change, arXiv 2206.10498"
    )

    def __init__(
        self,
        *,
        task: str = GENERATION[0],
        domains: Collection[str] | None = None,
        example: bool = True,
        **settings: Unpack[BenchmarkSettings],
    ) -> None:
        """Keep the settings; rows are read when items are first asked for."""
        super().__init__(**settings)
        self.task = one_of(self.name, "task", task, (*GENERATION, VERIFICATION, EXECUTION))
        if isinstance(domains, str) or not all(isinstance(domain, str) for domain in domains or ()):
            raise ConfigError(f"tasks.planbench.domains is {domains!r}; give a list, as [blocksworld,logistics]")
        self.example = example
        self.config = task
        self.domains = frozenset(domains or ())
        self.chance = _ALWAYS_VALID if task == VERIFICATION else 0.0

    def identity(self, row: Row) -> str:
        """The problem, without examples: rows may have the same problem with other ones."""
        return folded(f"{row.text('domain')} {last_statement(row.text('query'))}")

    def unusable(self, row: Row) -> str | None:
        """Rows of other tasks, domains and worlds; rows whose own plan fails, since their query has names cut short."""
        if row.text("task") != self.task:
            return "of another task"
        if self.domains and row.text("domain") not in self.domains:
            return "of a domain that was not asked for"
        if not find_world(row.text("query")):
            return "of an unknown world"
        posed, plan = self._solved(row)
        fails = self._generates and not execute(posed.problem, plan.actions).valid
        return "own plan does not reach the goal" if fails else None

    def item(self, row: Row) -> Item:
        """A problem; `target` is what the row says, `meta` holds the query and the plan that it gives or shows.

        Raises:
            DataError: the query or its plan is not understood.
        """
        posed, plan = self._solved(row)
        run = execute(posed.problem, plan.actions)
        prompt = self._question(row.text("query"))
        meta = {"query": row.text("query"), "plan": shown(plan.actions), "instance": row.text("instance_id", "")}
        return Item(
            item_id(self.name, f"{self.task} {prompt}"), self.name, prompt, self._target(plan, run, posed.problem),
            row.text("domain"), float(len(plan.actions)), "constructed", meta,
        )  # fmt: skip

    def _solved(self, row: Row) -> tuple[Posed, Plan]:
        """The row's problem, and the plan that it gives as the answer or shows in the question."""
        query = row.text("query")
        posed = read_problem(query)
        if posed is None:
            raise row.wrong("query", "a problem in the words of a known world")
        plan = read_plan(_marked(row.text("ground_truth_plan") if self._generates else last_statement(query)), posed)
        if plan is None or plan.broken is not None:
            raise row.error(f"a plan that is not understood: {plan.broken if plan else 'there is none'}")
        return posed, plan

    @property
    def _generates(self) -> bool:
        return self.task in GENERATION

    def _target(self, plan: Plan, run: Run, problem: Problem) -> str:
        if self._generates:
            return plan.key
        return claim_of(run).key if self.task == VERIFICATION else shown_state(problem.changing(run.state))

    def _question(self, query: str) -> str:
        """The query up to where the answer is to stand, with or without its examples."""
        statement = last_statement(query).rstrip()
        for ending in _ENDINGS[self._generates]:
            statement = statement.removesuffix(ending).rstrip()
        before = query[: len(query) - len(last_statement(query))] if self.example else query.partition(STATEMENT)[0]
        return f"{before.removesuffix(STATEMENT)}{STATEMENT}{statement}"

    def open(self, item: Item) -> list[Message]:
        """One user message: the task's prompt file with the question in it."""
        text = filled(prompt_text(_PROMPTS.get(self.task, self.name)), question=item.prompt)
        return [{"role": "user", "content": text}]

    def key(self, item: Item, text: str) -> str | None:
        """The plan's actions in one form, the verdict with what fails, or the state's facts."""
        return self._read(item, text).answer

    async def grade(self, item: Item, episode: Episode, judge: Judge | None) -> Grade:
        """1 for a plan that works, for a right verdict, or for the right state; else 0."""
        return Grade(0.0, None) if episode.answer is None else self._read(item, episode.answer)

    def _read(self, item: Item, text: str) -> Grade:
        """What `text` answers, and whether it is right."""
        posed = _posed(item)
        own = text.rpartition(item.prompt[-_REPEATED:])[2]
        if self._generates:
            return self._plan_grade(item, read_plan(own, posed), posed.problem)
        run = execute(posed.problem, _actions(item))
        if self.task == VERIFICATION:
            claim = read_claim(own, posed)
            return Grade(0.0, None) if claim is None else Grade(float(claim.agrees(run)), claim.key)
        said = read_state(own, posed)
        if said is None:
            return Grade(0.0, None)
        return Grade(float(said.agrees(run, posed.problem)), shown_state(posed.problem.changing(said.holds)))

    def _plan_grade(self, item: Item, plan: Plan | None, problem: Problem) -> Grade:
        if plan is None:
            return Grade(0.0, None)
        short = self.task != _OPTIMAL or len(plan.actions) <= len(_actions(item))
        return Grade(float(plan.broken is None and short and execute(problem, plan.actions).valid), plan.key)

    def solution(self, item: Item) -> str:
        """The row's plan, or what is to be said of the plan that it shows."""
        if self._generates:
            return f"[PLAN]\n{item.meta['plan']}\n[PLAN END]"
        problem = _posed(item).problem
        run = execute(problem, _actions(item))
        state = told_state(problem.changing(run.state))
        return told_claim(run) if self.task == VERIFICATION else f"[RESULTING STATE]\n{state}"


def _marked(text: str) -> str:
    """The last plan or action sequence in `text` between the marks of a plan, as rows write them or leave them out."""
    behind = re.split(r"\[(?:PLAN|ACTION SEQUENCE)\]", text)[-1]
    inside = re.split(r"\[(?:PLAN|ACTION SEQUENCE) END\]", behind)[0]
    return f"[PLAN]\n{inside}\n[PLAN END]"


def _posed(item: Item) -> Posed:
    posed = read_problem(item.meta["query"])
    if posed is None:
        raise GraderError(f"item {item.item_id} of {item.task} holds a query that is not understood")
    return posed


def _actions(item: Item) -> list[Action]:
    """The row's plan as `meta` keeps it."""
    return [tuple(line.strip("()").split()) for line in item.meta["plan"].splitlines()]
