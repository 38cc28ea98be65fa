"""The worlds of PlanBench: their actions, and the sentences in which prompts and models speak of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from evals.graders.plan.strips import Fact, Schema, schema

_ARTICLES = frozenset({"the", "a", "an"})


@dataclass(frozen=True, slots=True)
class World:
    """Actions and language of one world.

    Attributes:
        schemas: its actions by name.
        fact: reads one fact in lower case without its full stop (`the red block is clear`); None = it is none.
        verbs: words that begin an action -> names of the actions that they may mean.
        fillers: words that may stand between an action's objects and mean nothing.
        alias: a short name of an object, as the PDDL plans of the data have it; None = it has none.
        kinds: facts that an object's name tells (`("truck", "truck_0")`).
    """

    schemas: Mapping[str, Schema]
    fact: Callable[[str], Fact | None]
    verbs: Mapping[tuple[str, ...], tuple[str, ...]]
    fillers: frozenset[str]
    alias: Callable[[str], str | None] = lambda _: None
    kinds: Callable[[str], tuple[Fact, ...]] = lambda _: ()
    lexicon: Mapping[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Every way to write a verb: `pick up`, `pick-up`, `pick_up`, `pickup`."""
        spelled = {joint.join(words): names for words, names in self.verbs.items() for joint in (" ", "-", "_", "")}
        object.__setattr__(self, "lexicon", spelled)

    @property
    def facts(self) -> list[Fact]:
        """Every fact that the actions need, add or delete, with open places."""
        return [fact for each in self.schemas.values() for fact in (*each.needs, *each.adds, *each.deletes)]


def by_name(*schemas: Schema) -> dict[str, Schema]:
    """Schemas by their names."""
    return {each.name: each for each in schemas}


def from_sentences(*sentences: str) -> Callable[[str], Fact | None]:
    """A reader of facts from `predicate: sentence` with `{}` for each object; the first sentence that fits counts."""
    patterns = [_pattern(*sentence.split(": ", 1)) for sentence in sentences]

    def fact(text: str) -> Fact | None:
        for predicate, pattern in patterns:
            if found := pattern.fullmatch(text):
                return predicate, *found.groups()
        return None

    return fact


def _pattern(predicate: str, sentence: str) -> tuple[str, re.Pattern[str]]:
    return predicate, re.compile(re.escape(sentence).replace(r"\{\}", r"([a-z0-9_]{1,60})"))


def _words(table: Mapping[str, Iterable[str]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    return {tuple(words.split()): tuple(names) for words, names in table.items()}


BLOCKSWORLD = World(
    schemas=by_name(
        schema("pick-up", "x", "clear x, ontable x, handempty", "holding x", "clear x, ontable x, handempty"),
        schema("put-down", "x", "holding x", "clear x, ontable x, handempty", "holding x"),
        schema("stack", "x y", "holding x, clear y", "on x y, clear x, handempty", "holding x, clear y"),
        schema("unstack", "x y", "on x y, clear x, handempty", "holding x, clear y", "on x y, clear x, handempty"),
    ),
    fact=from_sentences(
        "clear: the {} block is clear",
        "ontable: the {} block is on the table",
        "on: the {} block is on top of the {} block",
        "handempty: the hand is empty",
        "holding: the hand is currently holding {} block",
        "holding: the hand is currently holding the {} block",
        "holding: the hand is holding {} block",
        "holding: the hand is holding the {} block",
        *(f"holding: the {{}} block is {held}" for held in ("in the hand", "in hand", "held", "being held")),
    ),
    verbs=_words(
        {
            "pick up": ["pick-up"],
            "pick": ["pick-up"],
            "put down": ["put-down"],
            "put": ["put-down", "stack"],
            "place": ["put-down", "stack"],
            "stack": ["stack"],
            "unstack": ["unstack"],
        }
    ),
    fillers=_ARTICLES | {"block", "from", "on", "top", "of", "onto", "off", "to", "table", "up", "down"},
)


def _logistics_alias(name: str) -> str | None:
    """`package_0` is `p0` in the data's plans, `location_1_0` is `l1-0`."""
    kind, _, number = name.partition("_")
    return kind[:1] + number.replace("_", "-") if number else None


def _logistics_kinds(name: str) -> tuple[Fact, ...]:
    return ((name.partition("_")[0], name),)


def _load(vehicle: str) -> Schema:
    together = f"package p, {vehicle} v, location l, at v l, at p l"
    return schema(f"load-{vehicle}", "p v l", together, "in p v", "at p l")


def _unload(vehicle: str) -> Schema:
    inside = f"package p, {vehicle} v, location l, at v l, in p v"
    return schema(f"unload-{vehicle}", "p v l", inside, "at p l", "in p v")


_ROAD = "truck v, location x, location y, city c, at v x, in-city x c, in-city y c"
LOGISTICS = World(
    schemas=by_name(
        *(act(vehicle) for act in (_load, _unload) for vehicle in ("truck", "airplane")),
        schema("drive-truck", "v x y c", _ROAD, "at v y", "at v x"),
        schema("fly-airplane", "v x y", "airplane v, airport x, airport y, at v x", "at v y", "at v x"),
    ),
    fact=from_sentences(
        "airport: {} is an airport", "at: {} is at {}", "in-city: {} is in the city {}", "in: {} is in {}"
    ),
    verbs=_words(
        {
            **{
                f"{act} {vehicle}": [f"{act}-{vehicle}"]
                for act in ("load", "unload")
                for vehicle in ("truck", "airplane")
            },
            "drive truck": ["drive-truck"],
            "fly airplane": ["fly-airplane"],
            "load": ["load-truck", "load-airplane"],
            "unload": ["unload-truck", "unload-airplane"],
            "drive": ["drive-truck"],
            "fly": ["fly-airplane"],
        }
    ),
    fillers=_ARTICLES | {"into", "onto", "on", "to", "from", "at", "in", "city", "truck", "airplane", "package"},
    alias=_logistics_alias,
    kinds=_logistics_kinds,
)

_DEPOT_KINDS = {
    "crate": ("crate", "surface"),
    "pallet": ("surface",),
    "depot": ("place",),
    "distributor": ("place",),
    "hoist": ("hoist",),
    "truck": ("truck",),
}
_HOIST = "hoist h, crate c, place p, at h p"


def _depot_kinds(name: str) -> tuple[Fact, ...]:
    return tuple((kind, name) for kind in _DEPOT_KINDS.get(name.rstrip("0123456789"), ()))


DEPOTS = World(
    schemas=by_name(
        schema("drive", "t x y", "truck t, place x, place y, at t x", "at t y", "at t x"),
        schema(
            "lift", "h c s p",
            f"{_HOIST}, surface s, available h, at c p, on c s, clear c",
            "lifting h c, clear s",
            "at c p, clear c, available h, on c s",
        ),
        schema(
            "drop", "h c s p",
            f"{_HOIST}, surface s, at s p, clear s, lifting h c",
            "available h, at c p, clear c, on c s",
            "lifting h c, clear s",
        ),
        schema(
            "load", "h c t p",
            f"{_HOIST}, truck t, at t p, lifting h c",
            "in c t, available h",
            "lifting h c",
        ),
        schema(
            "unload", "h c t p",
            f"{_HOIST}, truck t, at t p, available h, in c t",
            "lifting h c",
            "in c t, available h",
        ),
    ),
    fact=from_sentences(
        "at: {} is at {}",
        "available: {} is available",
        "clear: {} is clear",
        "on: {} is on {}",
        "lifting: {} is lifting {}",
        "in: {} is in {}",
    ),
    verbs=_words({name: [name] for name in ("drive", "lift", "drop", "load", "unload")}),
    fillers=_ARTICLES | {"from", "to", "at", "into", "onto", "on", "in", "off"},
    kinds=_depot_kinds,
)  # fmt: skip
