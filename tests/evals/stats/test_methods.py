"""What is known of methods by their names, and what a run's configuration says of its statistics."""

from __future__ import annotations

import random

import pytest

from evals.stats.methods import CONTROLS, is_one_of, is_trained, known, place_of, spoken, titled
from evals.stats.settings import Settings, settings_of

ORDER = [
    *("single", "task_only", "cot", "random", "best_single", "lookup", "vote", "matched_self_consistency"),
    *("self_consistency", "five_times_context", "five_times_reflection", "self_refine", "best_of_n", "debate"),
    *("debate_mixed", "mixture_of_agents", "cascade", "conductor", "coordinator", "somebody's own", "oracle"),
]


def test_tables_go_from_simple_to_bound() -> None:
    """Single calls and controls first, orchestration, coordinators, methods that are not known, the bound last."""
    shuffled = random.Random(1).sample(ORDER, len(ORDER))
    assert sorted(shuffled, key=place_of) == ORDER
    assert place_of("coordinator_w0.5") == place_of("coordinator")


@pytest.mark.parametrize(
    ("role", "names"),
    [
        ("control", ["single", "task_only", "cot", "random", "best_single", "lookup", "vote", "matched_debate"]),
        (
            "method",
            ["self_refine", "cascade", "debate_mixed", "coordinator", "coordinator_w0", "somebody's own", "cots"],
        ),
        ("bound", ["oracle"]),
    ],
)
def test_roles(role: str, names: list[str]) -> None:
    """One call and what is matched in price is a control; what nobody knows is a method, not a trained one."""
    assert {name: known(name).role for name in names} == dict.fromkeys(names, role)
    assert [name for name in names if name in CONTROLS] == [
        name for name in names if role == "control" and "_debate" not in name
    ]


def test_what_is_played_before_the_test() -> None:
    """Methods that choose agents or sizes on validation items are prepared; those that only ask are not."""
    prepared = {name for name in ORDER if known(name).prepared}
    assert prepared == {
        *("random", "best_single", "lookup", "vote", "matched_self_consistency", "mixture_of_agents", "cascade"),
        *("conductor", "coordinator", "somebody's own"),
    }
    assert known("matched_best_of_n").name == "matched_best_of_n"


def test_coordinators_are_told_by_their_names() -> None:
    """One trained for a price of its own is a coordinator; a name that merely begins alike is none."""
    names = ["coordinator", "coordinator_w0.1", "coordinators", "cot"]
    assert [is_trained(name) for name in names] == [True, True, False, False]


def test_a_setting_behind_a_name_and_a_family_are_found() -> None:
    """`vote T=0.8` is a vote and `matched_debate` is matched, but `votes` is no vote."""
    assert is_one_of("vote T=0.8", ["cot", "vote"])
    assert is_one_of("matched_debate", ["matched"])
    assert is_one_of("coordinator_w0.1 argmax", ["coordinator"])
    assert not is_one_of("votes", ["vote"])
    assert not is_one_of("vote", [])


def test_names_in_titles_and_sentences() -> None:
    """The best single agent is called what it is, every other method by its name."""
    assert (spoken("best_single"), titled("best_single")) == ("the best single agent", "best single")
    assert (spoken("cot"), titled("cot")) == ("cot", "cot")


@pytest.mark.parametrize("manifest", [{}, {"config": {}}, {"config": {"analysis": None}}, {"config": {"analysis": {}}}])
def test_runs_of_earlier_versions_have_the_default(manifest: dict[str, object]) -> None:
    """A manifest that does not say what differences are taken to means the best single agent."""
    assert settings_of(manifest) == Settings("best_single", (), ())


def test_settings_are_read() -> None:
    """Names of methods, however a file had them."""
    analysis = {"reference": "cot", "models_without": ["task_only"], "ratios_to": ["task_only", 5]}
    assert settings_of({"config": {"analysis": analysis}}) == Settings("cot", ("task_only",), ("task_only", "5"))
