"""The methods that a run may have by name: their order in tables, their part, and whose answers they give again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

Role = Literal["control", "method", "bound"]


class Known(NamedTuple):
    """A method that tables and tests know by its name.

    Attributes:
        name: of the method in records.
        role: a control is what a method has to beat for its price, a bound picks by the outcome and cannot be played.
        copies: methods whose answers it gives again on the same backbone.
        any_agent: it takes its answers from any of the agents, so that all of them are those of `single`.
        chosen: its agents were chosen by the validation episodes of the single agents.
        prepared: something is played for it before the test.
    """

    name: str
    role: Role
    copies: tuple[str, ...] = ()
    any_agent: bool = False
    chosen: bool = False
    prepared: bool = True


SINGLE = "single"
BEST_SINGLE = "best_single"
"""The single agent that was best on validation: what differences are taken to unless a run says otherwise."""
TRAINED = "coordinator"
BOUND = "oracle"

METHODS = (
    Known(SINGLE, "control", prepared=False),
    Known("task_only", "control", prepared=False),
    Known("cot", "control", prepared=False),
    Known("random", "control"),
    Known(BEST_SINGLE, "control", copies=(SINGLE,), chosen=True),
    Known("lookup", "control", copies=(SINGLE, BEST_SINGLE), any_agent=True, chosen=True),
    Known("vote", "control", chosen=True),
    Known("matched", "control"),
    Known("self_consistency", "method", prepared=False),
    Known("five_times_context", "method", prepared=False),
    Known("five_times_reflection", "method", prepared=False),
    Known("self_refine", "method", prepared=False),
    Known("best_of_n", "method", prepared=False),
    Known("debate", "method", prepared=False),
    Known("debate_mixed", "method", prepared=False),
    Known("mixture_of_agents", "method"),
    Known("cascade", "method"),
    Known("conductor", "method"),
    Known(TRAINED, "method"),
    Known(BOUND, "bound", copies=(SINGLE, BEST_SINGLE, "lookup"), any_agent=True, prepared=False),
)
"""In the order of tables; other methods stand before the bound."""
FAMILIES = ("matched", TRAINED)
"""Methods of which a run may have several: all names that go on with `_` after one of these are of its kind."""
CONTROLS = tuple(known.name for known in METHODS if known.role == "control")
_PLACES = {known.name: float(place) for place, known in enumerate(METHODS)}


def known(name: str) -> Known:
    """What is known of a method; one of another name is prepared by itself and copies nobody."""
    found = [one for one in METHODS if one.name == _kind(name)]
    return found[0]._replace(name=name) if found else Known(name, "method")


def place_of(name: str) -> float:
    """Where a method stands in tables."""
    return _PLACES.get(_kind(name), len(METHODS) - 1.5)


def is_trained(name: str) -> bool:
    """Whether a method is a coordinator."""
    return _kind(name) == TRAINED


def is_one_of(name: str, methods: Collection[str]) -> bool:
    """Whether a method of a study is one of some: by itself, with a setting behind its name, or by its family."""
    return bool({name, without_setting(name), _kind(without_setting(name))} & set(methods))


def without_setting(name: str) -> str:
    """A method of a study without what else its variant says: `vote` of `vote T=0.8`."""
    return name.partition(" ")[0]


def spoken(name: str) -> str:
    """How a sentence calls the method that differences are taken to."""
    return "the best single agent" if name == BEST_SINGLE else name


def titled(name: str) -> str:
    """How the title of a column calls it."""
    return "best single" if name == BEST_SINGLE else name


def _kind(name: str) -> str:
    """The family of a method, else the method itself."""
    return next((family for family in FAMILIES if name.startswith(f"{family}_")), name)
