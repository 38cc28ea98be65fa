"""Reads what a model says of a plan that it was shown: whether it is valid and why not, or the state it leads to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from evals.graders.plan.problem import AND, Posed, each_fact
from evals.graders.plan.strips import Problem, Run, State

_WINDOW = 10_000
"""Characters that are read, from the end."""

_CLAIM = re.compile(
    r"\bplan\b[^\n]{0,40}?\b(?P<not>not[ ]|isn['’]t[ ])?(?P<word>valid|invalid)\b"
    r"|\banswer[ *]{0,4}:[ *]{0,4}(?P<un>not )?(?P<alone>valid|invalid)\b",
    re.IGNORECASE,
)
_STEP = re.compile(r"\bstep[ ]?([0-9]{1,4})\b", re.IGNORECASE)
_STATE = re.compile(r"\[RESULTING STATE\]|\bresulting state(?: is)?[ *]{0,4}:", re.IGNORECASE)
_MARK = re.compile(r"\[[A-Z /]{1,40}\]")
_BULLET = re.compile(r"^[ \t]{0,40}(?:[-*•+][ ]|[0-9]{1,3}[.)][ ])", re.MULTILINE)
_COLON = re.compile(r"[:;.]")
_DENIAL = re.compile(r"\b(?:not|no longer) ", re.IGNORECASE)


def told_claim(run: Run) -> str:
    """A sentence that says of an executed plan what is to be said."""
    if run.valid:
        return "The above plan is valid."
    what = "unmet goal" if run.failed is None else f"step {run.failed} has an unmet precondition"
    return f"The above plan is invalid: {what}: {told_state(run.missing or run.unmet)}"


def told_state(facts: State) -> str:
    """Facts in PDDL's form, parted by commas."""
    return ", ".join(f"({' '.join(fact)})" for fact in sorted(facts))


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said of a plan's validity.

    Attributes:
        valid: whether it is valid.
        step: number of the action that cannot be done, from 1; None = none is named.
        facts: those said to be unmet, of the goal or of that action's needs.
    """

    valid: bool
    step: int | None = None
    facts: State = frozenset()

    @property
    def key(self) -> str:
        """`valid`, `invalid, goal: on red blue`, `invalid, step 2: clear red; holding blue`."""
        if self.valid:
            return "valid"
        return f"invalid, {'goal' if self.step is None else f'step {self.step}'}: {shown_state(self.facts)}"

    def agrees(self, run: Run) -> bool:
        """Whether it is right: of an invalid plan it names what fails, and at least one fact that is unmet.

        PlanBench (Valmeekam et al. 2023) counts an explained verdict so.
        """
        if self.valid or run.valid:
            return self.valid == run.valid
        lacking = run.unmet if run.failed is None else run.missing
        return self.step == run.failed and bool(self.facts & lacking)


def claim_of(run: Run) -> Claim:
    """What is to be said of an executed plan."""
    return Claim(run.valid, run.failed, frozenset() if run.valid else run.missing or run.unmet)


def read_claim(text: str, posed: Posed) -> Claim | None:
    """The last verdict in `text` (`the plan is invalid`, `Answer: valid`) with what follows it; None = no answer."""
    tail = text[-_WINDOW:]
    found = list(_CLAIM.finditer(tail))
    if not found:
        return None
    last = found[-1]
    valid = (last["word"] or last["alone"]).lower() == "valid"
    if valid != bool(last["not"] or last["un"]):
        return Claim(valid=True)
    because, *later = _STEP.split(tail[last.end() :])
    number = int(later[0]) if later else None
    sentences = _COLON.sub(",", _plain(later[1] if later else because))
    return Claim(valid=False, step=number, facts=frozenset(fact for fact in each_fact(sentences, posed.world) if fact))


class Said(NamedTuple):
    """Facts that are said to hold, and facts that are said not to."""

    holds: State
    fails: State

    def agrees(self, run: Run, problem: Problem) -> bool:
        """Whether all that an action can change is said, rightly; facts that none changes may be left out."""
        return problem.changing(run.state) <= self.holds <= run.state and not self.fails & run.state


def read_state(text: str, posed: Posed) -> Said | None:
    """The state after the last `[RESULTING STATE]` or `Resulting state:`, else that of the last line.

    Sentences are parted by commas, `and`, or lines. None = one is not understood, or there is none.
    """
    tail = text[-_WINDOW:].strip()
    marks = list(_STATE.finditer(tail))
    said = tail[marks[-1].end() :] if marks else tail.rpartition("\n")[2]
    if end := _MARK.search(said):
        said = said[: end.start()]
    sentences = AND.split(_plain(said))
    denied = [part for part in sentences if _DENIAL.search(part)]
    stated = ",".join(part for part in sentences if part not in denied)
    holds = list(each_fact(stated, posed.world))
    fails = list(each_fact(",".join(_DENIAL.sub("", part) for part in denied), posed.world))
    if None in (*holds, *fails) or not holds:
        return None
    return Said(frozenset(fact for fact in holds if fact), frozenset(fact for fact in fails if fact))


def shown_state(facts: State) -> str:
    """Facts in one order, as `clear red; on red blue`."""
    return "; ".join(" ".join(fact) for fact in sorted(facts))


def _plain(text: str) -> str:
    """Text without bullets and marks of emphasis, its lines parted by commas too."""
    return _BULLET.sub("", text).replace("*", "").replace("`", "").replace("\n", ",\n")
