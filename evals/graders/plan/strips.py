"""A world of facts that actions change, and the execution of a plan in it (STRIPS, Fikes and Nilsson 1971)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Fact = tuple[str, ...]
"""A predicate and its objects, as `("on", "red", "blue")`."""
State = frozenset[Fact]
Action = tuple[str, ...]
"""A name and its objects, as `("unstack", "red", "blue")`."""

VERSION = "plan/1"

_OPEN = "?"


@dataclass(frozen=True, slots=True)
class Schema:
    """What an action needs and does; `?0` stands for its first object, `?1` for its second, and so on."""

    name: str
    arity: int
    needs: tuple[Fact, ...]
    adds: tuple[Fact, ...]
    deletes: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """Where a plan starts and what it has to reach.

    Attributes:
        schemas: the world's actions by name.
        start: every fact that holds at first; all others do not.
        goal: facts that must hold at the end.
    """

    schemas: Mapping[str, Schema]
    start: State
    goal: State

    @property
    def objects(self) -> frozenset[str]:
        """Every object that a fact of start or goal names."""
        return frozenset(name for fact in self.start | self.goal for name in fact[1:])

    def changing(self, state: State) -> State:
        """The facts of a state that an action can change."""
        named = {fact[0] for each in self.schemas.values() for fact in (*each.adds, *each.deletes)}
        return frozenset(fact for fact in state if fact[0] in named)


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a plan.

    Attributes:
        state: the facts at the end, or before the action that could not be done.
        failed: number of that action, from 1; None = all were done.
        missing: the facts it lacked, empty where the world has no such action.
        unmet: facts of the goal that `state` lacks.
    """

    state: State
    failed: int | None
    missing: State
    unmet: State

    @property
    def valid(self) -> bool:
        """Whether every action could be done and the goal is reached."""
        return self.failed is None and not self.unmet


def execute(problem: Problem, plan: Iterable[Action]) -> Run:
    """Do the actions of `plan` one after another, up to the first that cannot be done.

    What an action both deletes and adds holds afterwards, as in PDDL.
    """
    state = set(problem.start)
    for number, action in enumerate(plan, start=1):
        schema = problem.schemas.get(action[0]) if action else None
        if schema is None or schema.arity != len(action) - 1:
            return _ended(problem, state, number, frozenset())
        if missing := frozenset(_filled(schema.needs, action)) - state:
            return _ended(problem, state, number, missing)
        state.difference_update(_filled(schema.deletes, action))
        state.update(_filled(schema.adds, action))
    return _ended(problem, state, None, frozenset())


def schema(name: str, parameters: str, needs: str, adds: str, deletes: str) -> Schema:
    """A schema from short texts: parameters by name, facts parted by commas (`on x y, clear x`).

    Raises:
        ValueError: a fact has an empty place.
    """
    places = {parameter: f"{_OPEN}{index}" for index, parameter in enumerate(parameters.split())}
    needed, added, deleted = (_facts(text, places) for text in (needs, adds, deletes))
    return Schema(name, len(places), needed, added, deleted)


def place(index: int) -> str:
    """How a schema's facts write the object at `index`, from 0."""
    return f"{_OPEN}{index}"


def shown(items: Sequence[Action]) -> str:
    """Actions in PDDL's form, one a line: `(unstack red blue)`."""
    return "\n".join(f"({' '.join(item)})" for item in items)


def _ended(problem: Problem, state: set[Fact], failed: int | None, missing: State) -> Run:
    return Run(frozenset(state), failed, missing, problem.goal - state)


def _filled(facts: Iterable[Fact], action: Action) -> list[Fact]:
    return [
        (fact[0], *(action[1 + int(name[1:])] if name.startswith(_OPEN) else name for name in fact[1:]))
        for fact in facts
    ]


def _facts(text: str, places: Mapping[str, str]) -> tuple[Fact, ...]:
    listed = [fact.split() for fact in text.split(",")] if text.strip() else []
    if not all(listed):
        raise ValueError(f"an empty fact in {text!r}")
    return tuple((predicate, *(places[name] for name in names)) for predicate, *names in listed)
