"""The validator of plans, held against an interpreter of PDDL that shares no code with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import pytest

from evals.graders.plan.problem import Posed, read_problem
from evals.graders.plan.reading import read_plan
from evals.graders.plan.strips import Problem, Run, Schema, execute, place, schema, shown
from tests.evals.graders.plan.pddl import BLOCKS, DEPOTS, LOGISTICS, Step, World
from tests.evals.tasks.rows_puzzles import (
    COLOURS,
    CRATES,
    CRATES_PLAN,
    FREIGHT,
    FREIGHT_PLAN,
    LAMP,
    LAMP_PLAN,
    blocks_query,
    facts_of,
    formal,
    mystery_step,
    sentence,
    towers,
)


class Case(NamedTuple):
    """A world and problem as the second judge has it, and a plan that solves it."""

    world: World
    start: frozenset[Step]
    goal: frozenset[Step]
    plan: Sequence[Step]


def posed(text: str) -> Posed:
    """The problem of a query, which is understood."""
    found = read_problem(text)
    assert found is not None
    return found


def judged(text: str, reply: str) -> bool:
    """The grader's verdict on a reply."""
    problem = posed(text)
    plan = read_plan(reply, problem)
    return plan is not None and plan.broken is None and execute(problem.problem, plan.actions).valid


def marked(steps: Sequence[str]) -> str:
    """Steps between the marks of a plan."""
    return "\n".join(("[PLAN]", *steps, "[PLAN END]"))


def mutants(plan: Sequence[Step], world: World, rng: Random) -> list[list[Step]]:
    """The plan with a step dropped, doubled, swapped with another, and about another object; and cut short."""
    steps = list(plan)
    at, other = rng.randrange(len(steps)), rng.randrange(len(steps))
    swapped = list(steps)
    swapped[at], swapped[other] = swapped[other], swapped[at]
    place = rng.randrange(1, len(steps[at]))
    changed = (*steps[at][:place], rng.choice(world.objects), *steps[at][place + 1 :])
    return [
        steps[:at] + steps[at + 1 :],
        [*steps[: at + 1], *steps[at:]],
        swapped,
        [*steps[:at], changed, *steps[at + 1 :]],
        steps[:-1],
    ]


def block_case(rng: Random) -> Case:
    """Towers, other towers as the goal (without the table), and a shortest plan."""
    world = World(BLOCKS, COLOURS[:3])
    start, end = (frozenset(facts_of(towers(rng, COLOURS[:3]))) for _ in range(2))
    goal = frozenset(fact for fact in end if fact[0] == "on")
    plan = world.search(start, goal)
    assert plan is not None
    return Case(world, start, goal, plan)


def detour(case: Case, rng: Random) -> list[Step]:
    """Another plan that works: a step at random, and the shortest way on from there."""
    first = rng.choice([step for step in case.world.steps() if case.world.after(case.start, step) is not None])
    state = case.world.after(case.start, first)
    assert state is not None
    return [first, *(case.world.search(state, case.goal) or [])]


def walk(case: Case, rng: Random, length: int) -> list[Step]:
    """Steps at random that can be done, but one in ten."""
    state, steps = case.start, []
    every = list(case.world.steps())
    every = [*case.plan, *rng.sample(every, min(len(every), 300))]
    for _ in range(length):
        options = [step for step in every if case.world.after(state, step) is not None]
        step = rng.choice(every if rng.random() < 0.1 or not options else options)
        state = case.world.after(state, step) or state
        steps.append(step)
    return steps


@pytest.mark.parametrize("mystery", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_blocks_are_judged_as_pddl_judges_them(seed: int, mystery: bool) -> None:
    """Shortest plans, their mutants and random walks get the same verdict from both, told in sentences and formally."""
    rng = Random(seed)
    case = block_case(rng)
    text = blocks_query(sorted(case.start), sorted(case.goal), mystery=mystery)
    plans = [case.plan, detour(case, rng), walk(case, rng, 8)] + (
        mutants(case.plan, case.world, rng) if case.plan else []
    )
    for plan in plans:
        right = case.world.reaches(case.start, case.goal, plan)
        spoken = [sentence(step, mystery=mystery) for step in plan]
        written = [formal(mystery_step(step) if mystery else step) for step in plan]
        assert judged(text, marked(spoken)) == judged(text, marked(written)) == right, plan
    assert case.world.reaches(case.start, case.goal, case.plan)


def test_the_cases_above_hold_right_and_wrong_plans() -> None:
    """Neither verdict is rare, so that agreement says something."""
    verdicts: Counter[bool] = Counter()
    for seed in range(25):
        rng = Random(seed)
        case = block_case(rng)
        tried = [case.plan, detour(case, rng), *(mutants(case.plan, case.world, rng) if case.plan else [])]
        verdicts.update(case.world.reaches(case.start, case.goal, plan) for plan in tried)
    assert min(verdicts[True], verdicts[False]) >= 50, verdicts


def long(short: str) -> Step:
    """A step of logistics with the names that prompts use."""
    kinds = {"p": "package", "t": "truck", "a": "airplane", "l": "location", "c": "city"}
    name, *objects = short.split()
    return (name, *(f"{kinds[each[0]]}_{each[1:].replace('-', '_')}" for each in objects))


def freight() -> Case:
    """The problem of `FREIGHT`."""
    names = ("package_0", "truck_0", "truck_1", "airplane_0", "location_0_0", "location_0_1", "location_1_0", "city_0")
    kinds = {"package": "isa-package", "truck": "isa-truck", "airplane": "isa-airplane", "location": "isa-place"}
    facts: set[Step] = {(kinds[stem], name) for name in names if (stem := name.split("_")[0]) in kinds}
    facts |= {("airport", "location_0_0"), ("airport", "location_1_0"), ("in-city", "location_1_0", "city_1")}
    facts |= {("in-city", "location_0_0", "city_0"), ("in-city", "location_0_1", "city_0")}
    facts |= {("at", "airplane_0", "location_1_0"), ("at", "package_0", "location_0_1")}
    facts |= {("at", "truck_0", "location_0_0"), ("at", "truck_1", "location_1_0")}
    goal: frozenset[Step] = frozenset({("at", "package_0", "location_1_0")})
    return Case(World(LOGISTICS, (*names, "city_1")), frozenset(facts), goal, [long(step) for step in FREIGHT_PLAN])


def crates() -> Case:
    """The problem of `CRATES`."""
    depot, distributor = "depot0", "distributor0"
    facts: set[Step] = {("isa-place", depot), ("isa-place", distributor), ("isa-truck", "truck0")}
    facts |= {("at", f"hoist{place}", where) for place, where in enumerate((depot, distributor))}
    facts |= {("at", f"pallet{place}", where) for place, where in enumerate((depot, distributor))}
    facts |= {("isa-hoist", "hoist0"), ("isa-hoist", "hoist1"), ("available", "hoist0"), ("available", "hoist1")}
    facts |= {("isa-crate", "crate0"), ("isa-crate", "crate1"), ("at", "crate0", depot), ("at", "crate1", depot)}
    facts |= {("on", "crate0", "pallet0"), ("on", "crate1", "crate0"), ("clear", "crate1"), ("clear", "pallet1")}
    facts |= {("at", "truck0", distributor)}
    names = (depot, distributor, "truck0", "hoist0", "hoist1", "pallet0", "pallet1", "crate0", "crate1")
    goal: frozenset[Step] = frozenset({("on", "crate1", "pallet1")})
    return Case(World(DEPOTS, names), frozenset(facts), goal, [tuple(step.split()) for step in CRATES_PLAN])


@pytest.mark.parametrize(("text", "make"), [(FREIGHT, freight), (CRATES, crates)])
@pytest.mark.parametrize("seed", range(15))
def test_freight_and_crates_are_judged_as_pddl_judges_them(text: str, make: Callable[[], Case], seed: int) -> None:
    """The plan of each problem, its mutants and random walks get the same verdict from both."""
    case, rng = make(), Random(seed)
    assert case.world.reaches(case.start, case.goal, case.plan)
    for plan in [case.plan, *mutants(case.plan, case.world, rng), walk(case, rng, 6)]:
        right = case.world.reaches(case.start, case.goal, plan)
        assert judged(text, marked([formal(step) for step in plan])) == right, plan


def test_a_described_world_does_what_it_says() -> None:
    """The lamp is taken from its first place and put to another; neither alone reaches the goal."""
    take, put = (f"({step})" for step in LAMP_PLAN)
    assert judged(LAMP, marked([take, put]))
    assert not judged(LAMP, marked([take]))
    assert not judged(LAMP, marked([put]))
    assert not judged(LAMP, marked([take, "(mip o0 o3 o2)"]))


def test_what_failed_is_told() -> None:
    """A run names the first step that could not be done and what it lacked, else what the goal lacks."""
    problem = posed(CRATES).problem
    early = execute(problem, [("lift", "hoist0", "crate0", "pallet0", "depot0")])
    assert (early.failed, early.valid) == (1, False)
    assert early.missing == {("clear", "crate0")}
    unknown = execute(problem, [("push", "crate0")])
    assert (unknown.failed, unknown.missing) == (1, frozenset())
    nothing = execute(problem, [])
    assert nothing.failed is None
    assert nothing.unmet == {("on", "crate1", "pallet1")}


def test_a_place_left_and_reached_is_reached() -> None:
    """A truck that drives to where it stands is there: what a step both deletes and adds holds."""
    problem = posed(FREIGHT).problem
    stays = execute(problem, [("drive-truck", "truck_0", "location_0_0", "location_0_0", "city_0")])
    assert stays.failed is None
    assert ("at", "truck_0", "location_0_0") in stays.state


@pytest.mark.parametrize(
    "text",
    [
        "[STATEMENT]\nAs initial conditions I have that, the red block is clear.",
        "I am playing chess.\n[STATEMENT]\nAs initial conditions I have that, it is safe.\nMy goal is to have that x.",
        blocks_query([("clear", "red")], [("on", "red", "blue")]).replace("is clear", "is shy"),
        blocks_query([("clear", "red")], [("on", "red", "blue")]).replace("As initial", "At first"),
    ],
)
def test_other_worlds_and_sentences_are_not_guessed_at(text: str) -> None:
    """A query without a known world, or with a sentence that is not understood, is no problem."""
    assert read_problem(text) is None


@pytest.mark.parametrize(
    "missing", ["To perform Calm", "Once Wake action is performed the following facts will be true"]
)
def test_a_world_that_is_told_in_part_is_none(missing: str) -> None:
    """Every action has to tell what it needs, adds and deletes."""
    text = blocks_query([("clear", "red")], [("on", "red", "blue")], mystery=True)
    assert read_problem(text) is not None
    assert read_problem(text.replace(missing, "Nobody knows about")) is None


def test_schemas_from_short_texts() -> None:
    """Objects become places, an empty text no fact, and an empty place is refused."""
    made = schema("put", "x y", "on x y, clear x", "", "free")
    assert made == Schema("put", 2, (("on", "?0", "?1"), ("clear", "?0")), (), (("free",),))
    assert place(2) == "?2"
    assert shown([("put", "a", "b"), ("go",)]) == "(put a b)\n(go)"
    with pytest.raises(ValueError, match=r"^an empty fact in 'on x y, '$"):
        schema("put", "x y", "on x y, ", "", "")


def test_steps_by_hand() -> None:
    """A step needs as many objects as its action has; what failed tells the state before it."""
    made = schema("put", "x", "clear x", "on x", "clear x")
    problem = Problem({"put": made}, frozenset({("clear", "a"), ("fixed", "b")}), frozenset({("on", "a")}))
    done = execute(problem, [("put", "a")])
    assert done == Run(frozenset({("on", "a"), ("fixed", "b")}), None, frozenset(), frozenset())
    assert done.valid
    goal = frozenset({("on", "a")})
    assert execute(problem, [("put", "a"), ("put", "b")]) == Run(
        done.state, 2, frozenset({("clear", "b")}), frozenset()
    )
    for step in (("put",), ("put", "a", "b"), (), ("take", "a")):
        assert execute(problem, [step]) == Run(problem.start, 1, frozenset(), goal)
    assert problem.objects == {"a", "b"}
    assert problem.changing(done.state) == {("on", "a")}
