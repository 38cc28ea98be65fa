"""The orchestration study on scripted models whose truth is known: its analysis finds what was put in."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from baselines.scripted import StudyScript, StudyTask, study
from tests.commands import ROOT, only_run
from tests.inprocess import played
from trinity.llm.transports.base import Request
from trinity.types import Item, Replicate

MODELS = ("ada", "bea", "cyd", "dot", "eve")
PUT_IN: Mapping[str, Any] = yaml.safe_load((ROOT / "conf" / "pool" / "study.yaml").read_text("utf-8"))["endpoints"][
    "script"
]
WORDS = ("+experiment=orchestration", "pool=study", "task=study", "data.n_test=200", "concurrency=64")
BY = "study_a"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the study: 200 items, 2 tasks, 5 backbones, 5 methods."""
    folder = tmp_path_factory.mktemp("study")
    ended = played("trinity.run", *WORDS, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return only_run(folder, "orchestration")


@pytest.fixture(scope="module")
def found(run: Path) -> dict[str, Any]:
    """The analysis of one task."""
    analysis = json.loads((run / "analysis.json").read_text("utf-8"))
    task: dict[str, Any] = analysis["tasks"][BY]
    return task


def script() -> StudyScript:
    """The models of the pool."""
    answer = study(**{key: value for key, value in PUT_IN.items() if key != "_target_"})._answer
    assert isinstance(answer, StudyScript)
    return answer


def items() -> Iterator[Item]:
    """The test items of a task."""
    return StudyTask(BY, n_test=200).items("test")


def expected(model: str, method: str) -> float:
    """The mean chance of a right answer that was put in."""
    odds = [script().log_odds(model, method, item.item_id, float(item.difficulty or 0.0)) for item in items()]
    return sum(1 / (1 + math.exp(-one)) for one in odds) / len(odds)


class TestScript:
    """The scripted models themselves."""

    @pytest.mark.parametrize("method", ["task_only", "cot", "self_refine", "best_of_n", "debate"])
    def test_accuracies_are_those_put_in(self, run: Path, method: str) -> None:
        """Every backbone is right as often as its log-odds say, up to the noise of 200 items."""
        rows = json.loads((run / "summary.json").read_text("utf-8"))["rows"]
        for row in rows:
            if row["method"] == method and row["task"] == BY:
                chance = expected(row["variant"], method)
                assert abs(row["accuracy"] - chance) < 4 * math.sqrt(chance * (1 - chance) / 200), row["variant"]

    def test_numbers_of_calls(self, run: Path) -> None:
        """Each method makes the calls of the study; refining ends after its first round here."""
        rows = json.loads((run / "summary.json").read_text("utf-8"))["rows"]
        assert {row["method"]: row["calls_mean"] for row in rows} == {
            "task_only": 1, "cot": 1, "self_refine": 4, "best_of_n": 4, "debate": 5,
        }  # fmt: skip

    def test_without_a_question(self) -> None:
        """A request that holds no question of the study is answered, not failed."""
        request = Request("script", "ada", ({"role": "user", "content": "Hello?"},), {}, {}, Replicate("test", 0), 0)
        assert script()(request).text == "I do not know."


class TestAnalysis:
    """What the analysis says against what is true."""

    def test_reference_is_chain_of_thought(self, run: Path) -> None:
        """Differences are taken to chain of thought on the same backbone."""
        analysis = json.loads((run / "analysis.json").read_text("utf-8"))
        assert analysis["reference"] == "cot"

    def test_odds_ratios(self, found: dict[str, Any]) -> None:
        """The models' odds ratios hold the log-odds that were put in, within three standard errors."""
        ratios = {row["method"]: row for row in found["models"]["odds_ratios"]}
        for method in ("self_refine", "best_of_n"):
            error = (math.log(ratios[method]["ci_high"]) - math.log(ratios[method]["ci_low"])) / (2 * 1.96)
            assert abs(math.log(ratios[method]["ratio"]) - PUT_IN["effects"][method]) < 3 * error, method

    def test_tests_of_models(self, found: dict[str, Any]) -> None:
        """Methods differ (M1), by backbone (M3), and not by difficulty (M2): as put in."""
        p = {(test["smaller"], test["larger"]): test["p"] for test in found["models"]["tests"]}
        assert p["M0", "M1"] < 1e-4
        assert p["M1", "M3"] < 1e-4
        assert p["M1", "M2"] > 0.01

    def test_harmful_debate_is_found(self, found: dict[str, Any]) -> None:
        """The one backbone on which debate does harm stands out, and no other one does so."""
        rows = {row["backbone"]: row for row in found["interaction"] if row["method"] == "debate"}
        assert rows["bea"]["difference"] < 0
        assert rows["bea"]["p_holm"] < 0.001
        assert [name for name in MODELS if rows[name]["difference"] < 0 and rows[name]["p_holm"] < 0.05] == ["bea"]

    def test_gains(self, found: dict[str, Any]) -> None:
        """Pooled differences agree with the mean chances that were put in; their intervals hold them."""
        rows = {row["method"]: row for row in found["pooled"]}
        for method in ("self_refine", "best_of_n", "debate"):
            true = sum(expected(model, method) - expected(model, "cot") for model in MODELS) / len(MODELS)
            half = (rows[method]["ci_high"] - rows[method]["ci_low"]) / 2
            assert abs(rows[method]["difference"] - true) < 1.5 * half, method

    def test_difficulty(self, found: dict[str, Any]) -> None:
        """Harder items are answered less often, in every quarter and by rank."""
        assert found["difficulty"]["spearman"]["rho"] < -0.5
        shares = [
            [row["accuracy"] for row in found["difficulty"]["quartiles"]
             if row["method"] == "cot" and row["backbone"] == "cyd" and row["quartile"] == quarter]
            for quarter in range(4)
        ]  # fmt: skip
        assert shares == sorted(shares, reverse=True)

    def test_ratios(self, found: dict[str, Any]) -> None:
        """Token ratios are told to chain of thought and to the task's prompt alone."""
        told = found["cost"]["weighted_tokens"]["ratios"]
        assert {row["to"] for row in told} == {"cot", "task_only"}


async def test_no_method_sees_the_truth(run: Path) -> None:
    """Replayed from its ledger the run is the same: nothing in it depends on who asked when."""
    ended = played("trinity.replay", str(run), cwd=run.parents[2])
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("text", ["", "Selected candidate: 1", "[study x z nan right 1]", "| Answer: 3"])
def test_hostile_questions(text: str) -> None:
    """Whatever stands in a prompt, the script answers with a text."""
    request = Request("script", "eve", ({"role": "user", "content": text},), {}, {}, None, None)
    assert re.search(r"\w", script()(request).text)
