"""The orchestration study on scripted models whose truth is known: its analysis finds what was put in."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from baselines.scripted import StudyScript, StudyTask, study
from tests.commands import ROOT, only_run
from tests.inprocess import played
from trinity.llm.transports.base import Request
from trinity.types import Replicate

MODELS = ("ada", "bea", "cyd", "dot", "eve")
PUT_IN: Mapping[str, Any] = yaml.safe_load((ROOT / "conf" / "pool" / "study.yaml").read_text("utf-8"))["endpoints"][
    "script"
]
WORDS = ("+experiment=orchestration", "pool=study", "task=study", "~tasks.study_b", "concurrency=64")
BY = "study_a"
pytestmark = pytest.mark.timeout(900)  # half a minute of work, which a machine that serves models as well stretches
CALLS = {"task_only": 1, "cot": 1, "self_refine": 4, "best_of_n": 4, "debate": 5}
"""Each method's in the study; refining ends after its first round here."""


def ended(folder: Path, n_test: int) -> Path:
    """A finished run of the study in `folder`: one task of it, so many items, 5 backbones, 5 methods."""
    done = played("trinity.run", *WORDS, f"data.n_test={n_test}", cwd=folder)
    assert done.returncode == 0, done.stderr
    return only_run(folder, "orchestration")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 200 items: what is put in shows, and the second task, which is like the first, is left out for time."""
    return ended(tmp_path_factory.mktemp("study"), 200)


@pytest.fixture(scope="module")
def rows(run: Path) -> list[dict[str, Any]]:
    """The rows of its summary that are of the task, one a method and backbone."""
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    return [row for row in summary["rows"] if row["task"] == BY]


@pytest.fixture(scope="module")
def found(run: Path) -> dict[str, Any]:
    """The analysis of one task."""
    analysis = json.loads((run / "analysis.json").read_text("utf-8"))
    task: dict[str, Any] = analysis["tasks"][BY]
    return task


@cache
def script() -> StudyScript:
    """The models of the pool."""
    answer = study(**{key: value for key, value in PUT_IN.items() if key != "_target_"})._answer
    assert isinstance(answer, StudyScript)
    return answer


@cache
def expected(model: str, method: str) -> float:
    """The mean chance of a right answer that was put in."""
    items = StudyTask(BY, n_test=200).items("test")
    odds = [script().log_odds(model, method, item.item_id, float(item.difficulty or 0.0)) for item in items]
    return sum(1 / (1 + math.exp(-one)) for one in odds) / len(odds)


class TestScript:
    """The scripted models themselves."""

    @pytest.mark.parametrize("method", CALLS)
    def test_accuracies_are_those_put_in(self, rows: list[dict[str, Any]], method: str) -> None:
        """Every backbone is right as often as its log-odds say, up to the noise of 200 items."""
        found = {row["variant"]: row["accuracy"] for row in rows if row["method"] == method}
        assert set(found) == set(MODELS)
        for model, accuracy in found.items():
            chance = expected(model, method)
            assert abs(accuracy - chance) < 4 * math.sqrt(chance * (1 - chance) / 200), model

    def test_numbers_of_calls(self, rows: list[dict[str, Any]]) -> None:
        """Each method makes as many calls on every backbone."""
        assert len(rows) == len(CALLS) * len(MODELS)
        assert {(row["method"], row["calls_mean"]) for row in rows} == set(CALLS.items())

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
        """The intervals of pooled differences hold the differences of the mean chances that were put in."""
        rows = {row["method"]: row for row in found["pooled"]}
        for method in ("self_refine", "best_of_n", "debate"):
            true = sum(expected(model, method) - expected(model, "cot") for model in MODELS) / len(MODELS)
            assert rows[method]["ci_low"] < true < rows[method]["ci_high"], method

    def test_the_report_says_it(self, run: Path) -> None:
        """The report's first sentences say which methods pay over all backbones, before any single row."""
        text = (run / "report.md").read_text("utf-8").replace("\\", "")
        found = re.search(rf"self_refine on {BY}, over all backbones \((.+?)\): better", text)
        assert found is not None
        low, high = found[1].split(" to ")
        assert {low.split()[0], high.split()[0]} <= set(MODELS)
        assert found.start() < text.index("Of single backbones")

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


def test_a_run_replays(tmp_path: Path) -> None:
    """Played anew from its stored calls, a run gives every record again: none depends on what came first."""
    done = played("trinity.replay", str(ended(tmp_path, 4)), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "replayed 100 records from 300 stored calls" in done.stdout


@pytest.mark.parametrize("text", ["", "Selected candidate: 1", "[study x z nan right 1]", "| Answer: 3"])
def test_hostile_questions(text: str) -> None:
    """Whatever stands in a prompt, the script answers with a text."""
    request = Request("script", "eve", ({"role": "user", "content": text},), {}, {}, None, None)
    assert re.search(r"\w", script()(request).text)
