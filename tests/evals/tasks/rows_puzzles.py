"""Rows in the columns of PlanBench, AutoLogi and AR-Bench, made here: small worlds, seatings, numbers and cases."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

Facts = Sequence[tuple[str, ...]]

COLOURS = ("red", "blue", "orange", "yellow")

BLOCKS = "I am playing with a set of blocks where I need to arrange the blocks into stacks. One block at a time."
LOGISTICS = "I have to plan logistics to transport packages within cities via trucks and between cities via airplanes."
DEPOTS = "I have to plan the logistics of transporting crates between a number of depots and distributors via trucks."

# Blocks under other names, told as Mystery Blocksworld is.
MYSTERY = """I am playing with a set of objects. Here are the actions I can do

   Wake object
   Greet object from another object

I have the following restrictions on my actions:
    To perform Wake action, the following facts need to be true: Sleepy object, Alone object, Quiet.
    Once Wake action is performed the following facts will be true: Lively object.
    Once Wake action is performed the following facts will be false: Sleepy object, Alone object, Quiet.
    To perform Calm action, the following facts need to be true: Lively object.
    Once Calm action is performed the following facts will be true: Sleepy object, Alone object, Quiet.
    Once Calm action is performed the following facts will be false: Lively object.
    To perform Greet action, the following needs to be true: Sleepy other object, Lively object.
    Once Greet action is performed the following will be true: Quiet, Sleepy object, Object Likes other object.
    Once Greet action is performed the following will be false: Sleepy other object, Lively object.
    To perform Leave action, the following needs to be true: Object Likes other object, Sleepy object, Quiet.
    Once Leave action is performed the following will be true: Lively object, Sleepy other object.
    Once Leave action is performed the following will be false:, Object Likes other object, Sleepy object, Quiet."""

# A lamp that is carried to a socket, told as Obfuscated Logistics is.
NUMBERED = """I am playing with a set of objects. Here are the actions I can do

Zor object_0 object_1.
Mip object_0 object_1 object_2.

I have the following restrictions on my actions:
To perform zor action, the following facts need to be true: vee object_0, and wub object_0 object_1
Once zor is performed the following facts will be true: hux object_0
Once zor is performed the following facts will be false: wub object_0 object_1
To perform mip action, the following facts need to be true:hux object_0, jat object_1, and kel object_1 object_2
Once mip is performed the following facts will be true: wub object_0 object_2
Once mip is performed the following facts will be false: hux object_0"""

_SENTENCES = {
    "clear": "the {} block is clear",
    "ontable": "the {} block is on the table",
    "on": "the {} block is on top of the {} block",
    "handempty": "the hand is empty",
    "holding": "the hand is currently holding {} block",
}
_ACTIONS = {
    "pick-up": "pick up the {} block",
    "put-down": "put down the {} block",
    "stack": "stack the {} block on top of the {} block",
    "unstack": "unstack the {} block from on top of the {} block",
}
_MYSTERY_NAMES = {"pick-up": "wake", "put-down": "calm", "stack": "greet", "unstack": "leave"}
_MYSTERY_SENTENCES = {
    "clear": "sleepy object {}",
    "ontable": "alone object {}",
    "on": "object {} likes object {}",
    "handempty": "quiet",
}
_LETTERS = dict(zip(COLOURS, "abcd", strict=True))


def listed(sentences: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(sentences[:-1]), *sentences[-1:])))


def query(intro: str, start: str, goal: str, example: str = "") -> str:
    """A query that asks for a plan."""
    return (
        f"{intro}\n\n{example}[STATEMENT]\nAs initial conditions I have that, {start}.\n"
        f"My goal is to have that {goal}.\n\nMy plan is as follows:\n\n[PLAN]"
    )


def towers(rng: Random, colours: Sequence[str] = COLOURS) -> list[list[str]]:
    """Blocks in towers, each from the table up."""
    made: list[list[str]] = []
    for colour in rng.sample(colours, len(colours)):
        places = [*made, None]
        place = rng.choice(places)
        if place is None:
            made.append([colour])
        else:
            place.append(colour)
    return made


def facts_of(stacks: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The facts of a table with towers and an empty hand."""
    facts: list[tuple[str, ...]] = [("handempty",)]
    for tower in stacks:
        facts += [("ontable", tower[0]), ("clear", tower[-1])]
        facts += [("on", upper, lower) for lower, upper in pairwise(tower)]
    return facts


def blocks_text(facts: Facts, *, mystery: bool = False) -> str:
    """Facts of blocks as sentences, in blocks' words or those of `MYSTERY`."""
    words, names = (_MYSTERY_SENTENCES, _LETTERS) if mystery else (_SENTENCES, {colour: colour for colour in COLOURS})
    return listed([words[fact[0]].format(*(names[name] for name in fact[1:])) for fact in facts])


def blocks_query(start: Facts, goal: Facts, *, mystery: bool = False, example: str = "") -> str:
    """A query about blocks."""
    first, last = (blocks_text(facts, mystery=mystery) for facts in (start, goal))
    return query(MYSTERY if mystery else BLOCKS, first, last, example)


def sentence(step: tuple[str, ...], *, mystery: bool = False) -> str:
    """A step as prompts say it."""
    if mystery:
        return f"{_MYSTERY_NAMES[step[0]]} " + " from ".join(f"object {_LETTERS[name]}" for name in step[1:])
    return _ACTIONS[step[0]].format(*step[1:])


def formal(step: tuple[str, ...]) -> str:
    """A step in PDDL."""
    return f"({' '.join(step)})"


def mystery_step(step: tuple[str, ...]) -> tuple[str, ...]:
    """A step about blocks as one of `MYSTERY`."""
    return (_MYSTERY_NAMES[step[0]], *(_LETTERS[name] for name in step[1:]))


SMALL = query(
    BLOCKS,
    "the red block is clear, the hand is empty, the red block is on top of the blue block and the blue block is on the "
    "table",
    "the blue block is on top of the red block",
)
"""Red stands on blue; blue is to stand on red."""
SMALL_PLAN = ("unstack red blue", "put-down red", "pick-up blue", "stack blue red")

FREIGHT = query(
    LOGISTICS,
    "location_0_0 is an airport, location_1_0 is an airport, airplane_0 is at location_1_0, package_0 is at "
    "location_0_1, truck_0 is at location_0_0, truck_1 is at location_1_0, location_0_0 is in the city city_0, "
    "location_0_1 is in the city city_0 and location_1_0 is in the city city_1",
    "package_0 is at location_1_0",
)
FREIGHT_PLAN = (
    "drive-truck t0 l0-0 l0-1 c0",
    "load-truck p0 t0 l0-1",
    "drive-truck t0 l0-1 l0-0 c0",
    "unload-truck p0 t0 l0-0",
    "fly-airplane a0 l1-0 l0-0",
    "load-airplane p0 a0 l0-0",
    "fly-airplane a0 l0-0 l1-0",
    "unload-airplane p0 a0 l1-0",
)

CRATES = query(
    DEPOTS,
    "crate0 is at depot0, crate1 is at depot0, hoist0 is at depot0, hoist1 is at distributor0, pallet0 is at depot0, "
    "pallet1 is at distributor0, truck0 is at distributor0, hoist0 is available, hoist1 is available, crate1 is clear, "
    "pallet1 is clear, crate0 is on pallet0 and crate1 is on crate0",
    "crate1 is on pallet1",
)
CRATES_PLAN = (
    "drive truck0 distributor0 depot0",
    "lift hoist0 crate1 crate0 depot0",
    "load hoist0 crate1 truck0 depot0",
    "drive truck0 depot0 distributor0",
    "unload hoist1 crate1 truck0 distributor0",
    "drop hoist1 crate1 pallet1 distributor0",
)

LAMP = query(
    NUMBERED,
    "vee object_0, wub object_0 object_1, jat object_2 and kel object_2 object_3",
    "wub object_0 object_3",
)
LAMP_PLAN = ("zor o0 o1", "mip o0 o2 o3")


def planbench_row(text: str, plan: Sequence[str], domain: str, **changed: Any) -> dict[str, Any]:
    """A row of `task_1_plan_generation`."""
    return {
        "task": "task_1_plan_generation",
        "prompt_type": "oneshot",
        "domain": domain,
        "instance_id": 1,
        "example_instance_ids": [0],
        "query": text,
        "ground_truth_plan": "".join(f"({step})\n" for step in plan),
        **changed,
    }


def planbench(count: int) -> list[dict[str, Any]]:
    """Rows of problems in four worlds; blocks in as many towers as are wanted."""
    rows = [
        planbench_row(FREIGHT, FREIGHT_PLAN, "logistics"),
        planbench_row(CRATES, CRATES_PLAN, "depots"),
        planbench_row(LAMP, LAMP_PLAN, "obfuscated_deceptive_logistics"),
    ]
    rng = Random(0)
    while len(rows) < count:
        first, second, *rest = rng.sample(COLOURS, 4)
        start = facts_of([[first], [second], *([[each] for each in rest])])
        text = blocks_query(start, [("on", first, second)], mystery=len(rows) % 2 == 0)
        steps = [("pick-up", first), ("stack", first, second)]
        shown = [mystery_step(step) if len(rows) % 2 == 0 else step for step in steps]
        row = planbench_row(
            text, [" ".join(step) for step in shown], "mystery_blocksworld" if len(rows) % 2 == 0 else "blocksworld"
        )
        if row["query"] not in {other["query"] for other in rows}:
            rows.append(row)
    return rows[:count]


_SEATS = """def inputs_check(inputs):
    return isinstance(inputs, dict) and set(inputs) == {"left", "right"} and all(
        isinstance(side, set) and side <= {"Ann", "Ben", "Cid"} for side in inputs.values()
    ) and sorted(inputs["left"] | inputs["right"]) == ["Ann", "Ben", "Cid"] and not inputs["left"] & inputs["right"]
"""
_RULES = """def together(inputs):
    return not {"Ann", "Ben"} <= inputs["left"] and not {"Ann", "Ben"} <= inputs["right"]

def led(inputs):
    return "Cid" in inputs["left"]

constraint_list = [together, led]
"""
_WALK = """from itertools import product

def count_valid_arrangements():
    valid, total = 0, 0
    for sides in product(("left", "right"), repeat=3):
        arrangement = {"left": set(), "right": set()}
        for name, side in zip(("Ann", "Ben", "Cid"), sides):
            arrangement[side].add(name)
        if not inputs_check(arrangement):
            continue
        valid += verify_function(arrangement, inputs_check, constraint_list)
        total += 1
    return valid, total
"""


def autologi(count: int, **changed: Any) -> list[dict[str, Any]]:
    """Rows of puzzles: three people on two benches, Ann and Ben apart, Cid on the left."""
    code = {"Inputs_Check_code": _SEATS, "Constraint_List_code": _RULES, "Traverse_code": _WALK}
    return [
        {
            "idx": index,
            "prompt": f"Seat Ann, Ben and Cid on two benches, game {index}. Ann and Ben sit apart; Cid sits left.",
            "lang": "en",
            "code": code,
            **changed,
        }
        for index in range(count)
    ]


def numbers(count: int) -> list[str]:
    """Secret numbers of four different digits."""
    found = (f"{number:04}" for number in range(123, 10_000) if len(set(f"{number:04}")) == 4)
    return [number for number, _ in zip(found, range(count), strict=False)]


def cases(count: int) -> list[dict[str, Any]]:
    """Murders in as many gardens; the third suspect is the murderer."""
    return [_case(index) for index in range(count)]


def _case(index: int) -> dict[str, Any]:
    names = [f"{name} {index}" for name in ("Ada", "Bo", "Cy", "Di", "Eve")]
    victim = {"name": "Vic", "introduction": "A gardener.", "cause_of_death": "Poison", "murder_weapon": "A flower pot"}
    suspects = [
        {
            "name": name,
            "introduction": f"{name} gardens.",
            "story": "SECRET: I did it." if place == 2 else "SECRET: I did not.",
            "task": "SECRET: mislead.",
            "is_murderer": place == 2,
            "evidence": "SECRET evidence",
            "timeline": [{"time": "noon", "activity": "SECRET deed"}],
            "key_question": ["SECRET question"],
            "relationship": "A neighbour.",
            "reason_at_scene": ["Watering.", "Weeding."],
            "suspicion": ["Seen running."],
            "motive": ["Envy."] if place in {0, 1, 2} else "None.",
            "opportunity": ["Was alone there."] if place in {0, 2, 3} else "Was away.",
            "access_to_weapon": ["Owns pots."] if place in {1, 2, 3} else "Had none.",
            "testimony": ["Saw nobody."],
        }
        for place, name in enumerate(names[:4])
    ]
    known = [{"name": name, "introduction": f"{name} gardens."} for name in (names[2], names[4], *names[:2], names[3])]
    return {
        "time": "Noon",
        "location": f"Garden {index}",
        "victim": victim,
        "suspects": suspects,
        "initial_information": {"time": "Noon", "location": f"Garden {index}", "victim": victim, "suspect": known},
        "key_question": ["SECRET question"],
        "label": 0,
        "index": index,
    }


def situations(count: int) -> list[dict[str, Any]]:
    """Strange situations with their stories."""
    return [
        {
            "surface": f"A man opens his {index}. umbrella indoors and laughs. Why?",
            "bottom": f"He tests umbrellas for a shop and the {index}. one is painted like a cake",
            "supernatural": False,
            "someone_dies": False,
            "key_question": ["SECRET"],
            "index": index,
        }
        for index in range(count)
    ]
