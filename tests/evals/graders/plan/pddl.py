"""A second judge of plans: worlds as PDDL texts, read and run by an interpreter that shares no code with the grader."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

BLOCKS = """
(:action pick-up :parameters (?b)
  :precondition (and (clear ?b) (ontable ?b) (handempty))
  :effect (and (holding ?b) (not (clear ?b)) (not (ontable ?b)) (not (handempty))))
(:action put-down :parameters (?b)
  :precondition (holding ?b)
  :effect (and (clear ?b) (ontable ?b) (handempty) (not (holding ?b))))
(:action stack :parameters (?b ?under)
  :precondition (and (holding ?b) (clear ?under))
  :effect (and (on ?b ?under) (clear ?b) (handempty) (not (holding ?b)) (not (clear ?under))))
(:action unstack :parameters (?b ?under)
  :precondition (and (on ?b ?under) (clear ?b) (handempty))
  :effect (and (holding ?b) (clear ?under) (not (on ?b ?under)) (not (clear ?b)) (not (handempty))))
"""

LOGISTICS = """
(:action load-truck :parameters (?p ?t ?l)
  :precondition (and (isa-package ?p) (isa-truck ?t) (isa-place ?l) (at ?p ?l) (at ?t ?l))
  :effect (and (in ?p ?t) (not (at ?p ?l))))
(:action unload-truck :parameters (?p ?t ?l)
  :precondition (and (isa-package ?p) (isa-truck ?t) (isa-place ?l) (in ?p ?t) (at ?t ?l))
  :effect (and (at ?p ?l) (not (in ?p ?t))))
(:action load-airplane :parameters (?p ?a ?l)
  :precondition (and (isa-package ?p) (isa-airplane ?a) (isa-place ?l) (at ?p ?l) (at ?a ?l))
  :effect (and (in ?p ?a) (not (at ?p ?l))))
(:action unload-airplane :parameters (?p ?a ?l)
  :precondition (and (isa-package ?p) (isa-airplane ?a) (isa-place ?l) (in ?p ?a) (at ?a ?l))
  :effect (and (at ?p ?l) (not (in ?p ?a))))
(:action drive-truck :parameters (?t ?x ?y ?c)
  :precondition (and (isa-truck ?t) (at ?t ?x) (in-city ?x ?c) (in-city ?y ?c))
  :effect (and (not (at ?t ?x)) (at ?t ?y)))
(:action fly-airplane :parameters (?a ?x ?y)
  :precondition (and (isa-airplane ?a) (airport ?x) (airport ?y) (at ?a ?x))
  :effect (and (not (at ?a ?x)) (at ?a ?y)))
"""

DEPOTS = """
(:action drive :parameters (?t ?x ?y)
  :precondition (and (isa-truck ?t) (isa-place ?x) (isa-place ?y) (at ?t ?x))
  :effect (and (not (at ?t ?x)) (at ?t ?y)))
(:action lift :parameters (?h ?c ?s ?p)
  :precondition (and (isa-hoist ?h) (isa-crate ?c) (at ?h ?p) (available ?h) (at ?c ?p) (on ?c ?s) (clear ?c))
  :effect (and (lifting ?h ?c) (clear ?s) (not (at ?c ?p)) (not (clear ?c)) (not (available ?h)) (not (on ?c ?s))))
(:action drop :parameters (?h ?c ?s ?p)
  :precondition (and (isa-hoist ?h) (isa-crate ?c) (at ?h ?p) (at ?s ?p) (clear ?s) (lifting ?h ?c))
  :effect (and (available ?h) (at ?c ?p) (clear ?c) (on ?c ?s) (not (lifting ?h ?c)) (not (clear ?s))))
(:action load :parameters (?h ?c ?t ?p)
  :precondition (and (isa-hoist ?h) (isa-crate ?c) (isa-truck ?t) (at ?h ?p) (at ?t ?p) (lifting ?h ?c))
  :effect (and (in ?c ?t) (available ?h) (not (lifting ?h ?c))))
(:action unload :parameters (?h ?c ?t ?p)
  :precondition (and (isa-hoist ?h) (isa-crate ?c) (isa-truck ?t) (at ?h ?p) (at ?t ?p) (available ?h) (in ?c ?t))
  :effect (and (lifting ?h ?c) (not (in ?c ?t)) (not (available ?h))))
"""

Step = tuple[str, ...]


def parsed(text: str) -> list[Any]:
    """Nested lists of the words in `text`."""
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0]


class World:
    """A world in PDDL with its objects.

    Args:
        text: its actions.
        objects: all that there are.
    """

    def __init__(self, text: str, objects: Sequence[str]) -> None:
        self.objects = objects
        self.actions = {action[1]: dict(zip(action[2::2], action[3::2], strict=True)) for action in parsed(text)}

    def after(self, state: frozenset[Step], step: Step) -> frozenset[Step] | None:
        """The state that a step leads to; None where it cannot be done."""
        action = self.actions.get(step[0])
        if action is None or len(action[":parameters"]) != len(step) - 1:
            return None
        names = dict(zip(action[":parameters"], step[1:], strict=True))
        if not all(_named(fact, names) in state for fact in _conjuncts(action[":precondition"])):
            return None
        effects = list(_conjuncts(action[":effect"]))
        gone = {_named(effect[1], names) for effect in effects if effect[0] == "not"}
        come = {_named(effect, names) for effect in effects if effect[0] != "not"}
        return (state - gone) | come

    def reaches(self, start: frozenset[Step], goal: frozenset[Step], plan: Sequence[Step]) -> bool:
        """Whether all steps can be done and the goal holds at the end."""
        state: frozenset[Step] | None = start
        for step in plan:
            state = None if state is None else self.after(state, step)
        return state is not None and goal <= state

    def steps(self) -> Iterator[Step]:
        """Every step that there could be."""
        for name, action in self.actions.items():
            for objects in product(self.objects, repeat=len(action[":parameters"])):
                yield (name, *objects)

    def search(self, start: frozenset[Step], goal: frozenset[Step]) -> list[Step] | None:
        """A shortest plan, breadth first; None = there is none."""
        every = list(self.steps())
        come_from: dict[frozenset[Step], tuple[frozenset[Step], Step] | None] = {start: None}
        queue = deque([start])
        while queue:
            state = queue.popleft()
            if goal <= state:
                return _walked(come_from, state)
            for step in every:
                following = self.after(state, step)
                if following is not None and following not in come_from:
                    come_from[following] = (state, step)
                    queue.append(following)
        return None


def _conjuncts(formula: list[Any]) -> list[list[Any]]:
    return formula[1:] if formula[0] == "and" else [formula]


def _named(fact: list[str], names: dict[str, str]) -> Step:
    return (fact[0], *(names[word] for word in fact[1:]))


def _walked(
    come_from: dict[frozenset[Step], tuple[frozenset[Step], Step] | None], state: frozenset[Step]
) -> list[Step]:
    plan = []
    while (before := come_from[state]) is not None:
        state, step = before
        plan.append(step)
    return plan[::-1]
