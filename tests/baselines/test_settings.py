"""Settings of the orchestration baselines: what is refused before anything is asked, and how caps are held."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baselines.best_of_n import BestOfN
from baselines.cascade import Cascade
from baselines.conductor import Conductor, read_plan
from baselines.cot import ChainOfThought
from baselines.debate import MixedDebate
from baselines.five_times_context import FiveTimesContext
from baselines.matched import Matched
from baselines.mixture_of_agents import MixtureOfAgents
from baselines.self_consistency import SelfConsistency
from baselines.self_refine import read_needed
from tests.ground import skill_tasks
from tests.inprocess import played
from tests.scaffolds import WARM
from trinity.arena import Contender
from trinity.errors import ConfigError
from trinity.forecast import Ground
from trinity.llm.budget import output_limit
from trinity.pipeline import admitted
from trinity.plan import foresee, plan_table

SCRIPTED = ("pool=study", "task=study", "data.n_train=1", "data.n_val=1", "data.n_test=1", "eval.replicates=1")


class TestSampling:
    """What may be laid over the agents' sampling parameters."""

    @pytest.mark.parametrize(
        "sampling",
        [
            *({"max_tokens": value} for value in (0, -5, "many", "64", 1.5, True, {"a": 1})),
            *({"temperature": value} for value in ("hot", -1, float("nan"), [1], True)),
            *({"model": "x"}, {"messages": []}, {"stream": True}, {"n": 5}, {"seed": 1}, {"stop": {"a": 1}}),
            *([], 3, None, "x"),
        ],
    )
    def test_is_checked_as_a_pool_is(self, sampling: object) -> None:
        """What no agent of a pool may have, no backbone gets."""
        with pytest.raises(ConfigError, match="backbones: `sampling"):
            ChainOfThought(backbones={"sampling": sampling})

    @pytest.mark.parametrize("agents", [[], "ann", 3, {"ann": 1}, [3], [""], [["ann"]]])
    def test_agents_are_a_list_of_names(self, agents: object) -> None:
        """An empty list would play nothing, a text its letters: both are refused."""
        with pytest.raises(ConfigError, match=r"backbones\.agents=.*give a list of names"):
            ChainOfThought(backbones={"agents": agents})

    @pytest.mark.parametrize("taken", ["null", "'9'"])
    def test_caps_are_held_against_backbones(self, taken: str, tmp_path: Path) -> None:
        """A backbone without an output cap starts under no cap of tokens, though the pool's agent would."""
        words = (*SCRIPTED, "method=[cot]", f"backbones.sampling.max_tokens={taken}", "budget.run.weighted_tokens=300")
        ended = played("trinity.run", *words, cwd=tmp_path)
        assert ended.returncode == 2
        assert "max_tokens" in ended.stderr
        assert not (tmp_path / "outputs" / "store.sqlite").exists()

    def test_plan_names_whose_output_nothing_bounds(self) -> None:
        """The plan counts nothing of an endless output, and says of whom."""
        contenders: dict[str, Contender] = {"cot": ChainOfThought(backbones={"sampling": {"max_tokens": None}})}
        ground = Ground(WARM, skill_tasks(n_test=1), 1)
        asked = admitted(contenders, ground)
        assert [output_limit(agent) for agent in asked] == [None] * 3
        table = plan_table(foresee(contenders, ground), "plan", asked)
        assert "Nothing bounds the output of ann, bob, cat" in str(table.caption)
        assert "bounds" not in str(plan_table({}, "plan", WARM).caption)


class TestNames:
    """Two methods with rows of one name."""

    def test_refused_before_anything_is_asked(self) -> None:
        """The second one is refused, with the key that renames it."""
        with pytest.raises(ConfigError, match=r"methods\.b: .* cot, as those of methods\.a; set methods\.b\.name"):
            admitted({"a": ChainOfThought(), "b": ChainOfThought()}, Ground(WARM, {}, 1))

    def test_a_name_of_its_own(self) -> None:
        """With a name of its own a method stands beside itself with other components."""
        brief = ChainOfThought(name="cot_brief", components={"generation_system": "Be brief."})
        admitted({"a": ChainOfThought(), "b": brief}, Ground(WARM, {}, 1))
        assert brief.method(WARM[0]).name == "cot_brief"

    def test_shipped_texts_stay(self) -> None:
        """Another name takes the prompts of the method that it is."""
        assert BestOfN(name="pick").components.texts == BestOfN().components.texts


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (MixtureOfAgents, {"proposers": 3}),
        (MixtureOfAgents, {"proposers": "ann"}),
        (Cascade, {"order": {"ann": "bob"}}),
        (Cascade, {"order": [["ann"]]}),
        (MixedDebate, {"pairs": 3}),
        (MixedDebate, {"pairs": []}),
        (MixedDebate, {"pairs": [["ann"]]}),
        (MixedDebate, {"pairs": ["ab"]}),
        (ChainOfThought, {"components": 3}),
        (ChainOfThought, {"components": {"generation_system": "prompt.txt"}}),
        (ChainOfThought, {"name": ""}),
        (FiveTimesContext, {"backbones": 3}),
        (Conductor, {"max_steps": "five"}),
        (Matched, {"baseline": dict, "knob": "samples", "most": 2}),
        (Matched, {"baseline": SelfConsistency, "knob": "replicates", "most": 2}),
        (Matched, {"baseline": SelfConsistency, "knob": "backbones", "most": 2}),
    ],
)
def test_wrong_kinds_are_one_line(make: Callable[..., Contender], settings: dict[str, Any]) -> None:
    """A setting of the wrong kind is refused by name when the method is made."""
    with pytest.raises(ConfigError, match=r"^methods\."):
        make(**settings)


class TestEchoes:
    """A reply that repeats what was asked says nothing."""

    @pytest.mark.parametrize("lead", ["", "**", "- "])
    def test_both_choices_of_a_criticism(self, lead: str) -> None:
        """Both lines of the feedback's prompt are no verdict; one after them is."""
        echo = f"{lead}Is further refinement needed: yes\nor\n{lead}Is further refinement needed: no"
        assert read_needed(echo) is None
        assert read_needed(f"{echo}\nWell.\nIs further refinement needed: no") is False

    @pytest.mark.parametrize("text", ["no, but yes", "no problem is left? yes", "yes or no", "yes/no"])
    def test_two_words(self, text: str) -> None:
        """A line that says both is no verdict."""
        assert read_needed(f"Is further refinement needed: {text}") is None

    def test_example_steps(self) -> None:
        """The planner's examples said again are no plan, and do not hide one that follows."""
        told = Conductor().components["planner"]
        assert read_plan(told, 2, 5, told) == ()
        own = "Step 1: agent 1; sees none; task: add them"
        (step,) = read_plan(f"{told}\n{own}", 2, 5, told)
        assert step.task == "add them"
