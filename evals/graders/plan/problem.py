"""Reads the problem that a prompt of PlanBench poses: its world, where it starts, and its goal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from evals.graders.plan.described import read_world
from evals.graders.plan.strips import Fact, Problem, State
from evals.graders.plan.worlds import BLOCKSWORLD, DEPOTS, LOGISTICS, World

STATEMENT = "[STATEMENT]"

_KNOWN = {
    "i am playing with a set of blocks": BLOCKSWORLD,
    "i have to plan logistics to transport packages": LOGISTICS,
    "i have to plan the logistics of transporting crates": DEPOTS,
}
_START = re.compile(r"As initial conditions I have that,?([^.\n]*)\.")
_GOAL = re.compile(r"My goal is to have that([^.\n]*)\.")
AND = re.compile(r",|\band\b")
"""What parts the sentences of a list."""


class Posed(NamedTuple):
    """A problem and the world whose language it is told in."""

    problem: Problem
    world: World


def last_statement(query: str) -> str:
    """The query from its last `[STATEMENT]` on: the problem that is asked, behind the examples; "" = it has none."""
    return query.rpartition(STATEMENT)[2] if STATEMENT in query else ""


def read_problem(query: str) -> Posed | None:
    """The problem of the last statement; None = the world is none that is known, or a sentence is not understood.

    A query without a goal (of a plan's execution) has an empty one.
    """
    statement, world = last_statement(query), find_world(query)
    start, goal = _START.search(statement), _GOAL.search(statement)
    if world is None or start is None:
        return None
    starts, goals = read_facts(start[1], world), read_facts(goal[1] if goal else "", world)
    if starts is None or goals is None:
        return None
    return Posed(Problem(world.schemas, starts | _kinds(world, starts | goals), goals), world)


def find_world(query: str) -> World | None:
    """The world of a query by how its introduction begins or what it describes; None = unknown."""
    intro = query.partition(STATEMENT)[0]
    begin = " ".join(intro[:200].lower().split())
    known = next((world for words, world in _KNOWN.items() if begin.startswith(words)), None)
    return known or read_world(intro)


def read_facts(text: str, world: World) -> State | None:
    """The facts that a list of sentences states (`the red block is clear and the hand is empty`).

    None where one of them is not understood; an empty text states none.
    """
    facts = list(each_fact(text, world))
    return None if None in facts else frozenset(fact for fact in facts if fact)


def each_fact(text: str, world: World) -> Iterator[Fact | None]:
    """The facts of a list of sentences one by one, None for each that is not understood.

    A fact may also stand in PDDL's form, `(on red blue)`.
    """
    for sentence in AND.split(text.lower()):
        if words := " ".join(sentence.split()).strip(" .;"):
            yield _formal(words, world) if words.startswith("(") else world.fact(words)


def _formal(words: str, world: World) -> Fact | None:
    predicate, *names = words.strip("()").split() or [""]
    return (predicate, *names) if predicate in {fact[0] for fact in world.facts} else None


def _kinds(world: World, facts: State) -> State:
    names = {name for fact in facts for name in fact[1:]}
    return frozenset(kind for name in names for kind in world.kinds(name))
