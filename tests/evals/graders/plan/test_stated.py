"""How verdicts on plans and states after plans are read and judged."""

from __future__ import annotations

import pytest

from evals.graders.plan.problem import Posed, read_problem
from evals.graders.plan.stated import Claim, claim_of, read_claim, read_state, told_claim, told_state
from evals.graders.plan.strips import Run, execute
from tests.evals.tasks.rows_puzzles import FREIGHT, SMALL, SMALL_PLAN

PLAN = [tuple(step.split()) for step in SMALL_PLAN]
HELD = "the blue block is clear, the hand is currently holding red block and the blue block is on the table"


def posed(text: str = SMALL) -> Posed:
    """The problem of a query."""
    found = read_problem(text)
    assert found is not None
    return found


def run(steps: int, *others: tuple[str, ...]) -> Run:
    """The first steps of the plan that works, then others."""
    return execute(posed().problem, [*PLAN[:steps], *others])


VALID, UNMET, FAILED = run(4), run(2), run(1, ("pick-up", "blue"))


@pytest.mark.parametrize(
    ("reply", "key"),
    [
        ("The above plan is valid.", "valid"),
        ("The plan is not valid? No, step by step it works.\nThe above plan is valid.", "valid"),
        ("The above plan is not invalid.", "valid"),
        ("**Answer: valid**", "valid"),
        (
            "The above plan is invalid. This is the unmet goal condition:\nthe blue block is on top of the red block",
            "invalid, goal: on blue red",
        ),
        (
            "The plan isn't valid. Step 2 has unmet preconditions:\nthe hand is empty and the blue block is clear",
            "invalid, step 2: clear blue; handempty",
        ),
        (
            "The above plan is invalid: step 2 has an unmet precondition: the hand is empty. Step 3: red is clear",
            "invalid, step 2: handempty",
        ),
        ("The above plan is invalid.", "invalid, goal: "),
        ("I cannot tell.", None),
        ("a valid point, an invalid one", None),
    ],
)
def test_verdicts_are_read(reply: str, key: str | None) -> None:
    """The last verdict counts, with the first step and the conditions that follow it."""
    claim = read_claim(reply, posed())
    assert (claim and claim.key) == key


@pytest.mark.parametrize("true", [VALID, UNMET, FAILED])
def test_a_verdict_is_right_about_its_own_run_alone(true: Run) -> None:
    """What is to be said of a run is read back from the sentence that tells it, and agrees with no other run."""
    claim = read_claim(told_claim(true), posed())
    assert claim == claim_of(true)
    assert claim is not None
    assert [claim.agrees(other) for other in (VALID, UNMET, FAILED)].count(True) == 1
    assert claim.agrees(true)


def test_an_invalid_plan_has_to_be_explained() -> None:
    """One of the unmet facts has to be named; the wrong step, a fact that holds, and none at all do not do."""
    assert Claim(valid=False, step=2, facts=frozenset({("handempty",)})).agrees(FAILED)
    assert Claim(valid=False, step=2, facts=frozenset({("handempty",), ("clear", "red")})).agrees(FAILED)
    assert not Claim(valid=False, step=1, facts=frozenset({("handempty",)})).agrees(FAILED)
    assert not Claim(valid=False, step=2, facts=frozenset({("clear", "blue")})).agrees(FAILED)
    assert not Claim(valid=False, step=2).agrees(FAILED)
    assert not Claim(valid=False).agrees(UNMET)


@pytest.mark.parametrize(
    "reply",
    [
        f"[RESULTING STATE]\n{HELD}",
        f"First red is taken.\n\n**Resulting state:** {HELD}.",
        f"Thus:\n{HELD}",
        "[RESULTING STATE]\n- The blue block is clear.\n- The hand is holding red block.\n- (ontable blue)\n[END]",
        f"[RESULTING STATE]\n{HELD}, the hand is not empty and the red block is no longer clear",
        "[RESULTING STATE]\n(clear blue), (holding red), (ontable blue)",
    ],
)
def test_states_are_read(reply: str) -> None:
    """Sentences in a row, as bullets or in PDDL, with what no longer holds denied, agree with the state."""
    said = read_state(reply, posed())
    assert said is not None
    assert said.agrees(run(1), posed().problem)


@pytest.mark.parametrize(
    "reply",
    [
        f"[RESULTING STATE]\n{HELD} and the red block is clear",
        "[RESULTING STATE]\nthe blue block is clear and the hand is currently holding red block",
        f"[RESULTING STATE]\n{HELD} and the blue block is not clear",
    ],
)
def test_a_fact_more_or_less_is_wrong(reply: str) -> None:
    """A fact that does not hold, one that is left out, and one that is denied though it holds are wrong."""
    said = read_state(reply, posed())
    assert said is not None
    assert not said.agrees(run(1), posed().problem)


@pytest.mark.parametrize("reply", ["", "[RESULTING STATE]\n", "[RESULTING STATE]\nall is well", f"{HELD}, or not"])
def test_other_texts_are_no_state(reply: str) -> None:
    """Nothing, or a sentence that the world does not know, is no answer."""
    assert read_state(reply, posed()) is None


def test_what_never_changes_may_be_left_out() -> None:
    """Airports and cities need not be listed, and may be."""
    problem = posed(FREIGHT)
    after = execute(problem.problem, [])
    changing = told_state(problem.problem.changing(after.state))
    for more in ("", ", location_0_0 is an airport and location_0_0 is in the city city_0"):
        said = read_state(f"[RESULTING STATE]\n{changing}{more}", problem)
        assert said is not None
        assert said.agrees(after, problem.problem)


@pytest.mark.parametrize("part", ["plan is ", "plan aaaaaaa", "a", "step 1 ", "[RESULTING STATE]", "not ", "- ", "("])
def test_hostile_texts_are_judged(part: str) -> None:
    """Texts of ten megabytes made to be slow are read, and none says anything."""
    text = part * (10_000_000 // len(part))
    assert read_claim(text, posed()) is None
    assert read_state(text, posed()) is None


def test_what_is_told_of_runs() -> None:
    """The sentence of each outcome, in the words in which it is read back."""
    assert told_claim(VALID) == "The above plan is valid."
    assert told_claim(UNMET) == "The above plan is invalid: unmet goal: (on blue red)"
    assert told_claim(FAILED) == "The above plan is invalid: step 2 has an unmet precondition: (handempty)"
    assert told_state(frozenset({("on", "a", "b"), ("clear", "c")})) == "(clear c), (on a b)"
    claim = Claim(valid=False, step=2, facts=frozenset({("holding", "blue"), ("clear", "red")}))
    assert claim.key == "invalid, step 2: clear red; holding blue"
    assert claim_of(UNMET) == Claim(valid=False, step=None, facts=frozenset({("on", "blue", "red")}))


def test_the_end_of_a_text_is_judged() -> None:
    """The last 10,000 characters count, for a verdict and for a state."""
    claim, state = "plan is valid", f"[RESULTING STATE]\n{HELD}"
    assert read_claim(claim + " " * (10_000 - len(claim)), posed()) == Claim(valid=True)
    assert read_claim(claim + " " * (10_001 - len(claim)), posed()) is None
    said = read_state("x" * 9_000 + state, posed())
    assert said is not None
    assert (said.fails, len(said.holds)) == (frozenset(), 3)
