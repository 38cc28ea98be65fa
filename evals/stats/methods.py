"""The methods that a run may have by name: their order in tables, their part, and whose answers they give again."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Known(NamedTuple):
    """A method that tables and tests know by its name.

    Attributes:
        name: of the method in records.
        role: a control is what a method has to beat, a bound picks by the outcome and cannot be played.
        copies: methods whose answers it gives again on the same backbone.
        any_agent: it takes its answers from any of the agents, so that all of them are those of `single`.
        chosen: its agents were chosen by the validation episodes of the single agents.
        prepared: something is played for it before the test.
    """

    name: str
    role: Literal["control", "trained", "bound"]
    copies: tuple[str, ...] = ()
    any_agent: bool = False
    chosen: bool = False
    prepared: bool = True


SINGLE = "single"
REFERENCE = "best_single"
"""The method that differences are taken to: the single agent that was best on validation."""
TRAINED = "coordinator"
BOUND = "oracle"

METHODS = (
    Known(SINGLE, "control", prepared=False),
    Known("random", "control"),
    Known(REFERENCE, "control", copies=(SINGLE,), chosen=True),
    Known("lookup", "control", copies=(SINGLE, REFERENCE), any_agent=True, chosen=True),
    Known("vote", "control", chosen=True),
    Known(TRAINED, "trained"),
    Known(BOUND, "bound", copies=(SINGLE, REFERENCE, "lookup"), any_agent=True, prepared=False),
)
"""In the order of tables; other methods stand before the bound."""
CONTROLS = tuple(known.name for known in METHODS if known.role == "control")


def known(name: str) -> Known:
    """What is known of a method; one of another name is prepared by itself and copies nobody."""
    found = [one for one in METHODS if one.name == name]
    return found[0] if found else Known(name, "trained")
