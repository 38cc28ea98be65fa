"""How plans are found and read in what models write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evals.graders.plan.problem import Posed, read_problem
from evals.graders.plan.reading import Plan, read_plan
from evals.graders.plan.strips import execute
from tests.evals.tasks.rows_puzzles import (
    CRATES,
    FREIGHT,
    LAMP,
    SMALL,
    SMALL_PLAN,
    blocks_query,
)

STEPS = [
    "unstack the red block from on top of the blue block",
    "put down the red block",
    "pick up the blue block",
    "stack the blue block on top of the red block",
]
RIGHT = "\n".join(f"({step})" for step in SMALL_PLAN)
MYSTERY = blocks_query([("on", "red", "blue"), ("clear", "red")], [("on", "blue", "red")], mystery=True)


def posed(text: str = SMALL) -> Posed:
    """The problem of a query."""
    found = read_problem(text)
    assert found is not None
    return found


def key(reply: str, text: str = SMALL) -> str | None:
    """The key of the plan in a reply."""
    plan = read_plan(reply, posed(text))
    return None if plan is None else plan.key


def lines(*steps: str) -> str:
    """Lines below one another."""
    return "\n".join(steps)


SPOKEN = lines(*STEPS)
NUMBERED = lines(*(f"{number}. {step.capitalize()}." for number, step in enumerate(STEPS, start=1)))


FORMS = [
    f"[PLAN]\n{SPOKEN}\n[PLAN END]",
    f"Let me think.\n\n**[PLAN]**\n\n{NUMBERED}\n\n**[PLAN END]**\n\nThis works: the red block is on the table.",
    f"{SPOKEN}\n[PLAN END]",
    f"[PLAN]\n{SPOKEN}",
    f"[PLAN]\n{RIGHT}\n[PLAN END]",
    f"[PLAN]\n{RIGHT.upper()}\n[PLAN END]",
    f"[plan]\n```\n{SPOKEN}\n```\n[plan end]",
    f"[PLAN]\nHere is what to do:\n{SPOKEN}\n; done\n[PLAN END]",
    f"[PLAN]\npick up the blue block\n[PLAN END]\nNo, that fails.\n[PLAN]\n{SPOKEN}\n[PLAN END]",
    f"<think>[PLAN]\npick up the blue block\n[PLAN END]</think>\n[PLAN]\n{SPOKEN}\n[PLAN END]",
    f"[PLAN]\n{SPOKEN}\n[PLAN END]\n\n[STATEMENT]\nAs initial ...\n[PLAN]\npick up the red block\n[PLAN END]",
    NUMBERED,
    f"The plan is:\n\n{NUMBERED}\n\nIt obeys the rules:\n1. One block at a time.\n2. The hand is empty first.",
    f"{NUMBERED}\n\n**Explanation:**\n- First, move red away.\n- Finally, stack the blue block on top of red.",
    lines(*(f"- {step}" for step in STEPS)),
    lines(*(f"* **{step.title()}**" for step in STEPS)),
    lines(*(f"Step {number}: {step}" for number, step in enumerate(STEPS, start=1))),
    lines(*(f"**Action {number}:** `{step}`" for number, step in enumerate(STEPS, start=1))),
    "Unstack(red, blue)\nPutDown(red)\nPickUp(blue)\nStack(blue, red)",
    "1. unstack(red_block, blue_block)\n2. put_down(red_block)\n3. pick up(blue)\n4. stack(blue, red)",
    "(unstack red blue) (put-down red) (pick-up blue) (stack blue red)",
    "0.000: (unstack red blue)\n1.000: (put-down red)\n2.000: (pick-up blue)\n3.000: (stack blue red)",
    lines(*(f'"{step}",' for step in STEPS)),
    f"[{', '.join(repr(step) for step in STEPS)}]",
    "Unstack red from blue, put it down on the table, pick up blue, then stack it onto red.",
    "unstack red from blue -> put down red -> pick up blue -> stack blue on red",
    lines(
        "1. Unstack the red block from the blue block (the hand is empty).",
        "2. Put the red block on the table - it is free.",
        "3. Pick up the blue block from the table, since it is clear.",
        "4. Place the blue block on top of red.",
    ),
    lines(
        "1. **Unstack red from blue**",
        "   - Effects: the red block is held",
        "   - put down red comes next",
        "2. **Put down red**",
        "3. **Pick up blue**",
        "4. **Stack blue on red**",
    ),
    lines(
        "1. Free blue:",
        "   - unstack red from blue",
        "   - put down red",
        "2. Build:",
        "   - pick up blue",
        "   - stack blue on red",
    ),
    "1. unstack red from blue 2. put down red 3. pick up blue 4. stack blue on red",
    "Plan:\n" + "\n".join(f"    {step}" for step in STEPS),
    f"{SPOKEN}\n[PLAN END]\nWhy it works:\n1. Pick up the blue block.\n2. Stack the blue block on the red block.",
    "x" * 300_000 + f"\n\nThus:\n{NUMBERED}",
]


@pytest.mark.parametrize("reply", FORMS)
def test_a_plan_is_read_however_it_is_written(reply: str) -> None:
    """The same four actions, in all these forms, have one key and are valid."""
    assert key(reply) == RIGHT
    plan = read_plan(reply, posed())
    assert plan is not None
    assert execute(posed().problem, plan.actions).valid


@pytest.mark.parametrize(
    ("reply", "broken"),
    [
        (f"[PLAN]\n{SPOKEN}\nand the goal is reached\n[PLAN END]", "and the goal is reached"),
        (f"[PLAN]\nmove red to the table\n{SPOKEN}\n[PLAN END]", "move red to the table"),
        ("[PLAN]\nunstack the red block from the table\n[PLAN END]", "unstack the red block from the table"),
        ("[PLAN]\npick up the blue block and the red block\n[PLAN END]", "pick up the blue block and the red block"),
        ("[PLAN]\nput down the red block on the blue block\n[PLAN END]", "put down the red block on the blue block"),
        ("[PLAN]\nstack the blue block\n[PLAN END]", "stack the blue block"),
        ("[PLAN]\npick up the green block\n[PLAN END]", "pick up the green block"),
        ("[PLAN]\npick up the red block carefully\n[PLAN END]", "pick up the red block carefully"),
        ("pick up blue\nmove it\nstack blue on red\n[PLAN END]", "move it"),
        ("1. Pick up blue.\n2. Do something clever.\n3. Stack blue on red.", "2. Do something clever."),
        ("1. Pick up blue.\n2. Stack it.\n3. Put down red.", "2. Stack it."),
        ("Stack the blue block.", "Stack the blue block."),
    ],
)
def test_an_unreadable_line_breaks_a_plan(reply: str, broken: str) -> None:
    """What is no action, or one with too few or unknown objects, makes a plan broken, and its key says where."""
    plan = read_plan(reply, posed())
    assert plan is not None
    assert (plan.broken or "").lower() == broken.lower()
    assert plan.key.endswith(f"unreadable: {plan.broken}")


def test_the_end_of_a_plan_is_no_part_of_it() -> None:
    """Numbered remarks behind the last action are left out."""
    assert key(f"{NUMBERED}\n5. Now the goal is reached.") == RIGHT


def test_an_object_that_is_not_there_fails_when_it_is_executed() -> None:
    """In PDDL an unknown name is read as it stands, and no action can be done with it."""
    plan = read_plan("[PLAN]\n(pick-up green)\n[PLAN END]", posed())
    assert plan == Plan((("pick-up", "green"),))
    assert plan is not None
    assert execute(posed().problem, plan.actions).failed == 1


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "There is no plan: the goal cannot be reached.",
        "[PLAN]\nNo plan is possible.\n[PLAN END]",
        "The red block is on top of the blue block, so the red block must be moved first.",
        "I would have to\n1. look at the blocks\n2. think",
        "unstackable; pickup truck; stacked(red)",
    ],
)
def test_no_plan_is_no_answer(reply: str) -> None:
    """A text without any action is no answer."""
    assert read_plan(reply, posed()) is None


def test_an_empty_plan_is_a_plan() -> None:
    """Nothing between the marks says that nothing is to be done, which is right where the goal holds."""
    done = posed(blocks_query([("on", "red", "blue"), ("clear", "red")], [("on", "red", "blue")]))
    plan = read_plan("[PLAN]\n[PLAN END]", done)
    assert plan == Plan(())
    assert plan is not None
    assert plan.key == "()"
    assert execute(done.problem, plan.actions).valid


@pytest.mark.parametrize(
    ("text", "reply", "expected"),
    [
        (FREIGHT, "load package_0 into truck_0 at location_0_1", "(load-truck package_0 truck_0 location_0_1)"),
        (
            FREIGHT,
            "Load package_0 into airplane_0 at location_1_0",
            "(load-airplane package_0 airplane_0 location_1_0)",
        ),
        (FREIGHT, "unload package_0 from truck_1 at location_1_0.", "(unload-truck package_0 truck_1 location_1_0)"),
        (
            FREIGHT,
            "drive truck_0 from location_0_0 to location_0_1 in city_0",
            "(drive-truck truck_0 location_0_0 location_0_1 city_0)",
        ),
        (FREIGHT, "(fly-airplane a0 l1-0 l0-0)", "(fly-airplane airplane_0 location_1_0 location_0_0)"),
        (
            FREIGHT,
            "fly airplane_0 from location_1_0 to location_0_0",
            "(fly-airplane airplane_0 location_1_0 location_0_0)",
        ),
        (CRATES, "Use hoist0 to lift crate1 from crate0 at depot0", "(lift hoist0 crate1 crate0 depot0)"),
        (CRATES, "lift crate1 from crate0 at depot0 using hoist0", "(lift hoist0 crate1 crate0 depot0)"),
        (
            CRATES,
            "Use hoist1 to unload crate1 from truck0 at distributor0",
            "(unload hoist1 crate1 truck0 distributor0)",
        ),
        (CRATES, "drive truck0 from distributor0 to depot0", "(drive truck0 distributor0 depot0)"),
        (MYSTERY, "leave object a from object b", "(leave a b)"),
        (MYSTERY, "Leave a from b", "(leave a b)"),
        (MYSTERY, "leave(a, b)", "(leave a b)"),
        (MYSTERY, "**Wake**: perform `wake b` to be able to greet", "(wake b)"),
        (LAMP, "Zor object_0 object_1.", "(zor object_0 object_1)"),
        (LAMP, "(mip o0 o2 o3)", "(mip object_0 object_2 object_3)"),
    ],
)
def test_every_world_has_its_own_words(text: str, reply: str, expected: str) -> None:
    """Sentences and PDDL of freight, crates and described worlds are read as the same actions."""
    assert key(f"[PLAN]\n{reply}\n[PLAN END]", text) == expected


def test_short_names_are_for_pddl_alone() -> None:
    """`a` in a sentence is an article or an object of the problem, never a shortened name of another."""
    assert key("[PLAN]\nload p0 into t0 at l0-1\n[PLAN END]", FREIGHT) != "(load-truck package_0 truck_0 location_0_1)"
    assert key("[PLAN]\n(load-truck p0 t0 l0-1)\n[PLAN END]", FREIGHT) == "(load-truck package_0 truck_0 location_0_1)"


HOSTILE: dict[str, Callable[[], str]] = {
    "ten megabytes of letters": lambda: "a" * 10_000_000,
    "a million actions": lambda: "pick up the blue block\nput down the blue block\n" * 500_000,
    "a million actions between marks": lambda: "[PLAN]\n" + "(pick-up blue)\n" * 1_000_000 + "[PLAN END]",
    "a million numbered actions": lambda: "\n".join(f"{number}. pick up blue" for number in range(1, 1_000_001)),
    "one line of actions": lambda: "pick up the blue block, " * 400_000,
    "deep nesting": lambda: "(" * 5_000_000 + ")" * 5_000_000,
    "deep nesting of an action": lambda: "(" * 1_000_000 + "pick-up blue" + ")" * 1_000_000,
    "marks without end": lambda: "[PLAN]" * 1_500_000,
    "marks in pairs": lambda: "[PLAN][PLAN END]" * 500_000,
    "marks and statements": lambda: "[PLAN END][STATEMENT]" * 400_000,
    "thoughts": lambda: "</think>" * 1_200_000,
    "indentation": lambda: "\n".join(" " * (depth % 2000) + "- pick up blue" for depth in range(8000)),
    "spaces": lambda: " " * 10_000_000,
    "tabs": lambda: "\t" * 3_000_000,
    "combining marks": lambda: "a" + "\u0301" * 5_000_000,
    "ligatures that grow": lambda: "\ufdfa" * 2_000_000,
    "surrogates and zeros": lambda: "\ud800\x00" * 1_000_000,
    "other digits": lambda: "".join(f"{chr(0x0661)}. pick up blue\n" for _ in range(200_000)),
    "numbers without end": lambda: "9" * 1_000_000 + ". pick up blue",
    "labels": lambda: "step " * 1_000_000 + "1: pick up blue",
    "underscores": lambda: "_" * 5_000_000 + "pick_up(blue)",
    "joined words": lambda: "[PLAN]\n" + "blue_" * 1_000_000 + "\n[PLAN END]",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_judged(name: str) -> None:
    """Texts of megabytes made to be slow are read, and none is a valid plan."""
    plan = read_plan(HOSTILE[name](), posed())
    assert plan is None or plan.broken is not None or not execute(posed().problem, plan.actions).valid


@pytest.mark.parametrize("name", ["a million actions", "a million actions between marks", "a million numbered actions"])
def test_a_plan_longer_than_what_is_read_is_broken(name: str) -> None:
    """The end of a plan is never taken for the whole."""
    plan = read_plan(HOSTILE[name](), posed())
    assert plan is not None
    assert plan.broken is not None


def test_a_plan_behind_megabytes_of_thoughts_is_read() -> None:
    """What stands before does not matter."""
    assert key("I think. " * 1_000_000 + f"\n[PLAN]\n{SPOKEN}\n[PLAN END]") == RIGHT


def test_an_unreadable_line_is_shown_in_part() -> None:
    """Its first 80 characters stand in the key, behind the actions that were read."""
    plan = Plan((("go", "a"),), "x")
    assert plan.key == "(go a)\nunreadable: x"
    assert Plan((), "x").key == "unreadable: x"
    found = read_plan(f"[PLAN]\n{SPOKEN}\nmove {'y' * 100}\n[PLAN END]", posed())
    assert found is not None
    assert found.broken == f"move {'y' * 75}"
    assert len(found.actions) == 4
    cut = read_plan("pick up the blue block\n" * 10_000, posed())
    assert cut == Plan((), "a plan that is longer than what is read")
