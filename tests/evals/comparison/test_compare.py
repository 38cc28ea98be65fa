"""The comparison against numbers worked out by hand, and everything that it refuses or says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.power import TTestPower

from evals.comparison.choice import Request, letters
from evals.comparison.compare import compare
from evals.comparison.pairs import Side, pair_numbers
from evals.comparison.runs import AXES, Played, Run
from tests.evals.comparison.comparing import NOTHING_SPENT, Scores, change, episodes, write_run
from trinity.errors import ConfigError, LedgerError
from trinity.runs.records import write_records
from trinity.runs.sweep import note, start_sweep
from trinity.types import Record

ONCE_A: Scores = {"i1": [1], "i2": [0], "i3": [0], "i4": [1], "i5": [0], "i6": [0]}
ONCE_B: Scores = {"i1": [1], "i2": [1], "i3": [1], "i4": [0], "i5": [1], "i6": [0]}

Runs = Callable[..., list[Path]]


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """`runs(scores, scores, ...)`: a run folder for each, named A, B, ..., with a coordinator and a best single row."""

    def make(*scores: Scores, manifests: Sequence[Mapping[str, Any]] = (), **changes: Any) -> list[Path]:
        folders = []
        for place, one in enumerate(scores):
            records = [*episodes(one, "best_single", "small"), *episodes(one, **changes)]
            manifest = manifests[place] if place < len(manifests) else {}
            folders.append(write_run(tmp_path / letters(place), records, manifest=manifest))
        return folders

    return make


def only(found: Mapping[str, Any], task: str = "all", method: str = "coordinator") -> dict[str, Any]:
    """The one comparison of a method on a task."""
    (row,) = [row for row in found["comparisons"] if (row["task"], row["method"]) == (task, method)]
    assert isinstance(row, dict)
    return row


def told(found: Mapping[str, Any], kind: str) -> list[str]:
    """The sentences of one kind of difference."""
    return [entry["sentence"] for entry in found["differences"] if entry["kind"] == kind]


class TestByHand:
    """Two runs of six items, every number from pencil and paper."""

    def costs(self, runs: Runs) -> list[Path]:
        """B costs 150 tokens where A costs 100; A's latency is 1 s, B's 3 s on the first item and 1 s elsewhere."""
        (a,) = runs(ONCE_A, weighted_tokens=100, latency_s=1.0, n_calls=2, gflop=2.0)
        slow: dict[str, Any] = {
            "weighted_tokens": 150,
            "n_calls": 2,
            "latency_s": lambda item: 3.0 if item == "i1" else 1.0,
        }
        records = [*episodes(ONCE_B, "best_single", "small"), *episodes(ONCE_B, cost_usd=None, gflop=1.0, **slow)]
        return [a, write_run(a.parent / "B", records)]

    def test_difference(self, runs: Runs) -> None:
        """4/6 - 2/6; three items won, two tied, one lost."""
        row = only(compare(self.costs(runs), Request()))
        assert (row["run"], row["reference"]["run"]) == ("B", "A")
        assert row["accuracy"] == pytest.approx(4 / 6, abs=1e-15)
        assert row["accuracy_reference"] == pytest.approx(2 / 6, abs=1e-15)
        assert row["difference"] == pytest.approx(2 / 6, abs=1e-15)
        assert (row["wins"], row["ties"], row["losses"]) == (3, 2, 1)
        assert (row["n_items"], row["n_items_reference"], row["n_common"], row["n_paired"]) == (6, 6, 6, 6)

    def test_mcnemar(self, runs: Runs) -> None:
        """Three against one: twice the chance of at most one head in four tosses, 2 x 5 / 16."""
        row = only(compare(self.costs(runs), Request()))
        assert row["test"] == "exact McNemar"
        assert row["p"] == pytest.approx(10 / 16, abs=1e-12)

    def test_interval(self, runs: Runs) -> None:
        """The 2.5 % points of the sum of six draws from {0, 1, 1, -1, 1, 0}, whose distribution is counted here."""
        draw = {1: Fraction(3, 6), 0: Fraction(2, 6), -1: Fraction(1, 6)}
        sums = {0: Fraction(1)}
        for _ in range(6):
            sums = {
                total: sum((sums.get(total - step, Fraction(0)) * chance for step, chance in draw.items()), Fraction(0))
                for total in range(-6, 7)
            }
        below = {total: sum(chance for other, chance in sums.items() if other <= total) for total in sums}
        low, high = (min(total for total in sums if below[total] >= end) for end in (0.025, 0.975))
        assert (low, high) == (-2, 5)
        row = only(compare(self.costs(runs), Request()))
        assert (row["ci_low"], row["ci_high"]) == (pytest.approx(low / 6), pytest.approx(high / 6))

    def test_holm(self, runs: Runs) -> None:
        """Two tests with p = 10/16 each: the smaller one doubles to 1, the other may not be below it."""
        rows = compare(self.costs(runs), Request())["comparisons"]
        assert [row["p"] for row in rows] == [pytest.approx(10 / 16)] * 2
        assert [row["p_holm"] for row in rows] == [1.0, 1.0]

    def test_ratios(self, runs: Runs) -> None:
        """150 / 100 tokens on each item, so without spread; (3 + 5) / 6 of a latency, between its possible values."""
        ratios = only(compare(self.costs(runs), Request()))["ratios"]
        assert {axis: ratio["ratio"] for axis, ratio in ratios.items()} == {
            "weighted_tokens": 1.5,
            "cost_usd": None,
            "gflop": 0.5,
            "n_calls": 1.0,
            "latency_s": pytest.approx(8 / 6),
        }
        assert [ratios["weighted_tokens"][end] for end in ("ci_low", "ci_high")] == [1.5, 1.5]
        assert ratios["cost_usd"]["mean"] is None
        assert ratios["cost_usd"]["mean_reference"] == pytest.approx(0.001)
        # the slow item is drawn 0 times with chance (5/6)^6 = .33 and at most 3 times with chance .991
        assert ratios["latency_s"]["ci_low"] == 1.0
        assert ratios["latency_s"]["ci_high"] == pytest.approx((3 * 3 + 3) / 6)

    def test_detectable(self, runs: Runs) -> None:
        """Six items whose differences have the variance (4 - 6/9) / 5 = 2/3, by statsmodels' power of a t-test."""
        row = only(compare(self.costs(runs), Request()))
        effect = TTestPower().solve_power(nobs=6, alpha=0.05, power=0.8)
        assert row["detectable"] == pytest.approx(effect * np.sqrt(2 / 3), rel=1e-4)

    def test_replicates(self, runs: Runs) -> None:
        """Means of 2/3, 1/3 and 1 against 1/3, 1 and 1/3: differences in thirds of 1, -2 and 2, which sum to 1.

        Of the eight ways to set their signs, all leave at least a distance of 1: +-1 +-2 +-2 is never 0.
        """
        a = {"i1": [1, 0, 0], "i2": [1], "i3": [0, 1, 0]}
        b = {"i1": [1, 1, 0], "i2": [0, 0, 1], "i3": [1]}
        row = only(compare(runs(a, b), Request()))
        assert row["difference"] == pytest.approx(1 / 9, abs=1e-15)
        assert (row["wins"], row["ties"], row["losses"]) == (2, 0, 1)
        assert (row["test"], row["p"]) == ("exact sign flips", pytest.approx(1.0, abs=1e-12))

    def test_sign_flips(self, runs: Runs) -> None:
        """Differences of 1, 2 and 3 thirds: of eight ways only all plus and all minus are as far from 0."""
        a = {"i1": [0, 0, 0], "i2": [0, 0, 0], "i3": [0, 0, 0]}
        b = {"i1": [1, 0, 0], "i2": [1, 1, 0], "i3": [1, 1, 1]}
        assert only(compare(runs(a, b), Request()))["p"] == pytest.approx(2 / 8, abs=1e-12)

    def test_partial_scores(self, runs: Runs) -> None:
        """Scores between 0 and 1, two items both better: the two extreme ones of four ways to set the signs."""
        row = only(compare(runs({"i1": [0.25], "i2": [0.5]}, {"i1": [0.5], "i2": [0.9]}), Request()))
        assert (row["test"], row["p"]) == ("exact sign flips", pytest.approx(0.5))

    def test_many_items_differ(self, runs: Runs) -> None:
        """Thirty items all better, by two amounts: no random sign pattern is as far, and p is not below 1 in 10,000."""
        better = {f"i{place}": [0.5 + place % 2 / 4] for place in range(30)}
        row = only(compare(runs({name: [0.0] for name in better}, better), Request()))
        assert (row["test"], row["p"]) == ("9,999 sign flips", 1e-4)

    def test_equal_means_added_otherwise_are_a_tie(self, runs: Runs) -> None:
        """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last bit, and no item is won by that."""
        row = only(compare(runs({"i1": [0.1, 0.2, 0.3]}, {"i1": [0.3, 0.2, 0.1]}), Request()))
        assert (row["wins"], row["ties"], row["losses"], row["p"]) == (0, 1, 0, 1.0)

    def test_ungraded(self, runs: Runs) -> None:
        """A failed call is no wrong answer: the item is left out, and that is said."""
        found = compare(runs({**ONCE_A, "i2": [None]}, ONCE_B), Request())
        row = only(found)
        assert (row["n_common"], row["n_paired"], row["wins"]) == (6, 5, 2)
        assert row["difference"] == pytest.approx(1 / 5)
        assert any("1 of 6 common items were not graded for both" in line for line in found["notes"])

    def test_nothing_differs(self, runs: Runs) -> None:
        """Equal scores: p is 1, and the interval is not the single point that a bootstrap gives."""
        row = only(compare(runs(ONCE_A, ONCE_A), Request()))
        assert (row["difference"], row["p"], row["detectable"]) == (0.0, 1.0, None)
        assert row["ci_low"] < 0 < row["ci_high"]

    def test_tasks(self, tmp_path: Path) -> None:
        """Each task has a line of its own and all tests are adjusted together; `overall` leaves one."""
        both = [
            [*episodes(scores, task="sums"), *episodes(scores, task="words"), *episodes(scores, "best_single", "small")]
            for scores in (ONCE_A, ONCE_B)
        ]
        folders = [write_run(tmp_path / name, records) for name, records in zip("AB", both, strict=True)]
        found = compare(folders, Request(methods=("coordinator",)))
        assert [(row["task"], row["n_paired"]) for row in found["comparisons"]] == [
            ("all", 12),
            ("sums", 6),
            ("words", 6),
        ]
        # 12 items: 2 x (1 + 8 + 28) / 256 of eight tosses, times three; the others are 10/16 and stay in order
        assert only(found)["p_holm"] == pytest.approx(3 * 74 / 256)
        assert only(found, "sums")["p_holm"] == 1.0
        whole = compare(folders, Request(methods=("coordinator",), overall=True))
        assert only(whole)["p_holm"] == pytest.approx(74 / 256)


def side(label: str, scores: Sequence[Sequence[float]]) -> Side:
    """A row that scored so; its costs are those scores and 1."""
    items = tuple(("sums", f"i{place}") for place in range(len(scores)))
    means = np.array([np.mean(one) for one in scores])
    graded = np.array([len(one) for one in scores])
    costs = {axis: means + 1 + place for place, axis in enumerate(AXES)}
    played = Played(items, graded, means, costs, tuple(("d", 1.0) for _ in items))
    return Side(Run(label, Path(label), {}, {}), ("coordinator", ""), played)


SCORES = st.lists(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=3), min_size=1, max_size=40)


@settings(max_examples=40, deadline=None)
@given(a=SCORES, b=SCORES)
def test_swapping_turns_signs_only(a: list[list[float]], b: list[list[float]]) -> None:
    """Difference and interval mirrored to the last bit, wins and losses exchanged, p the same, ratios inverse."""
    size = min(len(a), len(b))
    one, two = side("A", a[:size]), side("B", b[:size])
    there, back = pair_numbers(two, one), pair_numbers(one, two)
    assert there["difference"] == -back["difference"]
    assert (there["ci_low"], there["ci_high"]) == (-back["ci_high"], -back["ci_low"])
    assert (there["wins"], there["losses"], there["ties"]) == (back["losses"], back["wins"], back["ties"])
    assert [there[key] for key in ("test", "p", "detectable")] == [back[key] for key in ("test", "p", "detectable")]
    for axis in AXES:
        ours, theirs = there["ratios"][axis], back["ratios"][axis]
        assert ours["ratio"] == pytest.approx(1 / theirs["ratio"], rel=1e-12)
        if size > 1:
            assert ours["ci_low"] == pytest.approx(1 / theirs["ci_high"], rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8))
def test_sign_flips_are_counted(steps: list[tuple[int, int]]) -> None:
    """P is the share of all sign patterns whose sum is as far from 0, here counted one by one."""
    scores = [([1.0] * ours + [0.0] * (3 - ours), [1.0] * theirs + [0.0] * (3 - theirs)) for ours, theirs in steps]
    found = pair_numbers(side("A", [one for one, _ in scores]), side("B", [two for _, two in scores]))
    differences = [ours - theirs for ours, theirs in steps]
    far = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True))) >= abs(sum(differences))
        for signs in product((1, -1), repeat=len(differences))
    ]
    assert found["p"] == pytest.approx(sum(far) / len(far), abs=1e-9)


class TestRows:
    """Which rows are compared with which."""

    def names(self, found: Mapping[str, Any]) -> list[str]:
        """`B coordinator/sampled - A coordinator/sampled` for every comparison."""
        return [
            " - ".join(f"{one['run']} {one['method']}/{one['variant']}" for one in (row, row["reference"]))
            for row in found["comparisons"]
        ]

    def test_default(self, runs: Runs) -> None:
        """Every later run's rows against the first run's rows of the same name."""
        assert self.names(compare(runs(ONCE_A, ONCE_B, ONCE_A), Request())) == [
            "B best_single/small - A best_single/small",
            "B coordinator/sampled - A coordinator/sampled",
            "C best_single/small - A best_single/small",
            "C coordinator/sampled - A coordinator/sampled",
        ]

    def test_single_run(self, runs: Runs) -> None:
        """One run alone: its coordinator against its best single agent."""
        assert self.names(compare(runs(ONCE_A), Request())) == ["A coordinator/sampled - A best_single/small"]

    @pytest.mark.parametrize("word", ["B", "folder"])
    def test_reference_run(self, runs: Runs, word: str) -> None:
        """Another run by its letter or folder."""
        folders = runs(ONCE_A, ONCE_B)
        reference = word if word == "B" else str(folders[1])
        found = compare(folders, Request(("coordinator",), reference))
        assert self.names(found) == ["A coordinator/sampled - B coordinator/sampled"]

    @pytest.mark.parametrize(
        ("word", "run"), [("best_single", "A"), ("best_single/small", "A"), ("B:best_single", "B")]
    )
    def test_reference_row(self, runs: Runs, word: str, run: str) -> None:
        """One row, of the first run unless another is named, against the rows of every run."""
        found = compare(runs(ONCE_A, ONCE_B), Request(("coordinator",), word))
        assert self.names(found) == [f"{label} coordinator/sampled - {run} best_single/small" for label in "AB"]

    def test_all_pairs(self, runs: Runs) -> None:
        """The later one of every two runs against the earlier one."""
        found = compare(runs(ONCE_A, ONCE_B, ONCE_A), Request(("coordinator",), all_pairs=True))
        assert [name[0] + name.partition(" - ")[2][0] for name in self.names(found)] == ["BA", "CA", "CB"]

    def test_all_pairs_of_one_run(self, runs: Runs) -> None:
        """Every two rows of a single run."""
        found = compare(runs(ONCE_A), Request(all_pairs=True))
        assert self.names(found) == ["A coordinator/sampled - A best_single/small"]

    def test_another_agent_was_best(self, tmp_path: Path) -> None:
        """The best single agent is compared with the other run's, whichever agent that is."""
        folders = [
            write_run(tmp_path / name, [*episodes(ONCE_A), *episodes(ONCE_A, "best_single", agent)])
            for name, agent in (("A", "small"), ("B", "large"))
        ]
        assert self.names(compare(folders, Request()))[1] == "B best_single/large - A best_single/small"

    def test_row_without_partner(self, tmp_path: Path) -> None:
        """A row that the other run does not have is named and left out."""
        more = [*episodes(ONCE_A), *episodes(ONCE_A, variant="argmax")]
        found = compare([write_run(tmp_path / "A", episodes(ONCE_A)), write_run(tmp_path / "B", more)], Request())
        assert self.names(found) == ["B coordinator/sampled - A coordinator/sampled"]
        assert "B coordinator argmax has no row of that name in A." in found["notes"]

    @pytest.mark.parametrize(
        ("request_", "message"),
        [
            (Request(("lookup",)), "has no row lookup; choose from: best_single/small, coordinator/sampled"),
            (Request(reference="Z"), "has no row Z"),
            (Request(reference="A", all_pairs=True), "all pairs have no reference"),
        ],
    )
    def test_unknown_names(self, runs: Runs, request_: Request, message: str) -> None:
        """A row or reference that is not there is refused with what there is."""
        with pytest.raises(ConfigError, match=message):
            compare(runs(ONCE_A, ONCE_B), request_)

    def study(self, folder: Path, **analysis: Any) -> Path:
        """A run of three methods on two backbones."""
        methods = ("task_only", "cot", "debate")
        rows = [row for method in methods for agent in ("small", "large") for row in episodes(ONCE_A, method, agent)]
        return write_run(folder, rows, manifest={"config": {"analysis": analysis}} if analysis else None)

    def test_reference_on_the_same_backbone(self, tmp_path: Path) -> None:
        """A method of several rows means the one on each row's backbone; controls are compared when asked for."""
        folder = self.study(tmp_path / "A")
        found = compare([folder], Request(("debate", "task_only/small"), "cot"))
        assert self.names(found) == [
            "A task_only/small - A cot/small",
            "A debate/small - A cot/small",
            "A debate/large - A cot/large",
        ]

    def test_the_runs_own_reference(self, tmp_path: Path) -> None:
        """Where nothing was trained the other methods are compared, with what their run takes differences to."""
        folder = self.study(tmp_path / "A", reference="cot")
        assert self.names(compare([folder], Request())) == [
            "A debate/small - A cot/small",
            "A debate/large - A cot/large",
        ]
        with pytest.raises(ConfigError, match="has no row best_single"):
            compare([self.study(tmp_path / "B")], Request())

    def test_no_reference_on_a_backbone(self, tmp_path: Path) -> None:
        """A row on a backbone of its own is named and left out."""
        more = [*episodes(ONCE_A, "cot", "a"), *episodes(ONCE_A, "cot", "b"), *episodes(ONCE_A, "debate", "a")]
        more += episodes(ONCE_A, "conductor", "")
        found = compare([write_run(tmp_path / "A", more)], Request(reference="cot"))
        assert self.names(found) == ["A debate/a - A cot/a"]
        assert "A conductor has no row of cot on its backbone in A." in found["notes"]

    def test_no_coordinator(self, tmp_path: Path) -> None:
        """Where nothing was trained the user is asked what to compare."""
        folder = write_run(tmp_path / "A", episodes(ONCE_A, "single", "small"))
        with pytest.raises(ConfigError, match="has no coordinator row; choose rows by --method from: single/small"):
            compare([folder], Request())

    def test_letters(self) -> None:
        """Runs beyond the alphabet have two letters."""
        assert [letters(place) for place in (0, 25, 26, 51, 52, 702)] == ["A", "Z", "AA", "AZ", "BA", "AAA"]


class TestRefusals:
    """What is not compared, each with one line."""

    def test_no_common_item(self, runs: Runs) -> None:
        """Other items: how many each has, and what to look at."""
        with pytest.raises(ConfigError, match=r"A, 6\) have none in common; compare runs of the same tasks"):
            compare(runs(ONCE_A, {"j1": [1], "j2": [0]}), Request())

    @pytest.mark.parametrize("kind", ["recorded", "simulated", "scripted"])
    def test_kinds_of_pool(self, runs: Runs, kind: str) -> None:
        """A live run is compared with nothing else, whatever is allowed."""
        folders = runs(ONCE_A, ONCE_B, manifests=({}, {"pool_kind": kind}))
        with pytest.raises(ConfigError, match=f"A live, .*B {kind}"):
            compare(folders, Request(allow_differences=True))

    def test_graders(self, runs: Runs) -> None:
        """Scores of two graders are refused, or compared and said."""
        folders = runs(ONCE_A, ONCE_B, manifests=({}, {"graders": {"sums": "number/2"}}))
        with pytest.raises(ConfigError, match=r"sums was graded by number/1 in .*A and by number/2 in .*B;"):
            compare(folders, Request())
        found = compare(folders, Request(allow_differences=True))
        assert told(found, "graders") == ["Grader of sums: number/1 in A; number/2 in B."]

    def test_a_task_that_one_run_lacks(self, runs: Runs) -> None:
        """Where one of three runs has no grader of a task, that pair is compared on the others' tasks all the same."""
        both = {"graders": {"sums": "number/1", "words": "letter/9"}}
        folders = runs(ONCE_A, ONCE_B, ONCE_A, manifests=(both, both, {"graders": {"words": "letter/9"}}))
        found = compare(folders, Request(methods=("coordinator",)))
        assert {row["run"] for row in found["comparisons"]} == {"B", "C"}

    @pytest.mark.parametrize("judged", [True, False])
    def test_judges(self, judged: bool, runs: Runs) -> None:
        """A judged task is graded by its judge, too: scores of two judges are refused, those of other tasks are not."""
        folders = runs(
            ONCE_A,
            ONCE_B,
            manifests=[
                {"judge": {"agent": {"name": "judge", "model": model}}, "tasks": [{"name": "sums", "judged": judged}]}
                for model in ("gpt", "claude")
            ],
        )
        found = compare(folders, Request(allow_differences=True))
        line = "Grader of sums: number/1 with judge gpt in A; number/1 with judge claude in B."
        assert told(found, "graders") == ([line] if judged else [])
        if judged:
            with pytest.raises(ConfigError, match=r"graded by number/1 with judge gpt in .* with judge claude in"):
                compare(folders, Request())

    def test_graders_of_other_tasks(self, runs: Runs) -> None:
        """The grader of a task that nobody compares is nobody's matter."""
        folders = runs(ONCE_A, ONCE_B, manifests=({}, {"graders": {"sums": "number/1", "words": "letter/9"}}))
        assert told(compare(folders, Request()), "graders") == []

    @pytest.mark.parametrize(("tokens", "equal"), [(1000, True), (951, True), (949, False)])
    def test_effort(self, tmp_path: Path, tokens: int, equal: bool) -> None:
        """Up to 5 % of the larger effort counts as equal; more is said, or refused where that is wanted."""
        folders = [
            write_run(
                tmp_path / name,
                episodes(ONCE_A),
                effort={"coordinator": {**NOTHING_SPENT, "episodes": 10, "weighted_tokens": spent}},
            )
            for name, spent in (("A", 1000), ("B", tokens))
        ]
        found = compare(folders, Request())
        assert [row["weighted_tokens"] for row in found["effort"]] == [1000, tokens]
        sentence = f"1,000 weighted tokens for A coordinator, {tokens} for B coordinator, which is more than 5 % apart"
        assert [sentence in line for line in told(found, "effort")] == [] if equal else [True]
        if equal:
            compare(folders, Request(require_equal_effort=True))
        else:
            with pytest.raises(ConfigError, match=sentence):
                compare(folders, Request(require_equal_effort=True))

    def test_effort_of_controls(self, tmp_path: Path) -> None:
        """A vote is billed its own samples and the validation that chose its agent; a single agent nothing."""
        one = {**NOTHING_SPENT, "episodes": 1}
        records = [row for method in ("single", "vote", "vote_two") for row in episodes(ONCE_A, method, "small")]
        effort = dict.fromkeys(("single", "vote_sample", "vote_3", "vote_two", "coordinator"), one)
        folder = write_run(tmp_path / "A", records, effort=effort)
        found = compare([folder], Request(("single", "vote"), "vote_two"))
        assert {row["method"]: row["counted"] for row in found["effort"]} == {
            "single": [],
            "vote": ["single", "vote_sample", "vote_3"],
            "vote_two": ["vote_two"],
        }
        assert {row["method"]: row["episodes"] for row in found["effort"]} == {"single": 0, "vote": 3, "vote_two": 1}

    def test_unfinished(self, runs: Runs) -> None:
        """A run that is not finished is refused with the command that goes on with it."""
        folders = runs(ONCE_A, ONCE_B, manifests=({}, {"finished": False}))
        with pytest.raises(LedgerError, match=r"B: this run is not finished; .* resume=.*B"):
            compare(folders, Request())

    def test_given_twice(self, runs: Runs) -> None:
        """A run against itself, under whatever path, is a slip."""
        (folder,) = runs(ONCE_A)
        with pytest.raises(ConfigError, match="is given twice"):
            compare([folder, folder / ".." / "A"], Request())

    @pytest.mark.parametrize("name", ["manifest.json", "summary.json", "records.parquet"])
    def test_missing_files(self, runs: Runs, name: str) -> None:
        """Each file that is missing is named."""
        folders = runs(ONCE_A, ONCE_B)
        (folders[1] / name).unlink()
        with pytest.raises(LedgerError, match=name):
            compare(folders, Request())

    @pytest.mark.parametrize("name", ["manifest.json", "summary.json", "records.parquet"])
    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"PAR1 nonsense PAR1"])
    def test_damaged_files(self, runs: Runs, name: str, damage: bytes) -> None:
        """Each file that is damaged is named."""
        folders = runs(ONCE_A, ONCE_B)
        (folders[1] / name).write_bytes(damage)
        with pytest.raises(LedgerError, match=name):
            compare(folders, Request())

    def test_no_folder(self, tmp_path: Path) -> None:
        """Neither a missing folder nor one of something else is a run."""
        with pytest.raises(LedgerError, match="there is no such folder"):
            compare([tmp_path / "nowhere"], Request())
        with pytest.raises(LedgerError, match="is neither a run nor a sweep"):
            compare([tmp_path], Request())

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"run_id": "other"}, "summary.json has run_id 'other'"),
            ({"pool_kind": "scripted"}, "summary.json has pool_kind 'scripted'"),
            ({"rows": [1]}, "summary.json is damaged"),
            ({"effort": {"coordinator": {"episodes": 1}}}, "effort of coordinator lacks 'logical_calls'"),
        ],
    )
    def test_summary_of_another_run(self, runs: Runs, changes: dict[str, Any], message: str) -> None:
        """A summary that does not belong to the manifest, or is not whole, is no ground for a comparison."""
        folders = runs(ONCE_A, ONCE_B)
        change(folders[1] / "summary.json", **changes)
        with pytest.raises(LedgerError, match=message):
            compare(folders, Request())

    def test_summary_and_records_disagree(self, runs: Runs) -> None:
        """Records that are not those of the summary are noticed by their accuracy."""
        folders = runs(ONCE_A, ONCE_B)
        own = [*episodes(ONCE_A, run_id="B"), *episodes(ONCE_A, "best_single", "small", run_id="B")]
        write_records(folders[1] / "records.parquet", own)
        with pytest.raises(LedgerError, match=r"summary.json and records.parquet disagree on .*; rebuild them"):
            compare(folders, Request())

    @pytest.mark.parametrize(
        ("broken", "message"),
        [
            ({"run_id": "C"}, "holds records with run_id 'C'"),
            ({"pool_kind": "scripted"}, "holds records with pool_kind 'scripted'"),
            ({"score": 2.0}, r"has no score in \[0, 1\]"),
            ({"score": None, "status": "wrong"}, r"has no score in \[0, 1\]"),
        ],
    )
    def test_wrong_records(self, runs: Runs, broken: dict[str, Any], message: str) -> None:
        """Records of another run or kind, and grades that are none, are refused."""
        folders = runs(ONCE_A, ONCE_B)
        own = [*episodes(ONCE_B, run_id="B"), *episodes(ONCE_B, "best_single", "small", run_id="B")]
        fields = {name: getattr(own[0], name) for name in Record.__dataclass_fields__}
        write_records(folders[1] / "records.parquet", [Record(**{**fields, **broken}), *own[1:]])
        with pytest.raises(LedgerError, match=message):
            compare(folders, Request())

    def test_recorded_twice(self, runs: Runs) -> None:
        """An episode that stands twice in the records would count twice."""
        folders = runs(ONCE_A, ONCE_B)
        own = [*episodes(ONCE_B, run_id="B"), *episodes(ONCE_B, "best_single", "small", run_id="B")]
        write_records(folders[1] / "records.parquet", [*own, own[0]])
        with pytest.raises(LedgerError, match="coordinator sampled is recorded twice"):
            compare(folders, Request())


class TestDifferences:
    """What else differs is said, run by run."""

    @pytest.mark.parametrize(
        ("kind", "changes", "sentence"),
        [
            ("prompts", {"prompts": {"coordinator/worker.txt": "e" * 64}}, "cccccccccc in A; eeeeeeeeee in B"),
            ("data", {"data": {"sums": "f" * 64}}, "aaaaaaaaaa in A; ffffffffff in B"),
            ("pools", {"pool": "other"}, "Pool: local in A; other in B."),
            ("encoders", {"encoder": None}, "Encoder: hashed/64/0 in A; none in B."),
            ("code", {"git": {"commit": "e" * 40, "dirty": False}}, f"Code: {'d' * 40} in A; {'e' * 40} in B."),
            ("seeds", {"seeds": {"seed": 1, "data.seed": 1, "eval.seed": 0}}, "Seed seed: 0 in A; 1 in B."),
            ("replicates", {"config": {"eval": {"replicates": 1}}}, "3 in A; 1 in B"),
            ("budgets", {"config": {"budget": {"run": {"calls": 5}}}}, "Setting budget.run.calls: 9 in A; 5 in B."),
            ("settings", {"config": {"trainer": {"sigma0": 0.2}}}, "Setting trainer.sigma0: 0.1 in A; 0.2 in B."),
            ("packages", {"packages": {"numpy": "2.1"}}, "Package numpy: 2.0 in A; 2.1 in B."),
            ("machines", {"machine": {"cpu": "slide rule"}}, "abacus, 2 cores in A; slide rule, None cores in B"),
            ("endpoints", {"endpoints": {"e": {"endpoint_id": "local:2"}}}, "Endpoint e: local:1 in A; local:2 in B."),
        ],
    )
    def test_each_kind(self, runs: Runs, kind: str, changes: dict[str, Any], sentence: str) -> None:
        """One change in the manifest is one sentence of its kind that names both values."""
        (line,) = told(compare(runs(ONCE_A, ONCE_B, manifests=({}, changes)), Request()), kind)
        assert sentence in line

    def test_prompt_files_of_later_versions(self, runs: Runs) -> None:
        """A file that one run did not have it did without: that is no difference."""
        later = {"prompts": {"coordinator/worker.txt": "c" * 64, "evals.tasks/aime.txt": "e" * 64}}
        assert told(compare(runs(ONCE_A, ONCE_B, manifests=({}, later)), Request()), "prompts") == []

    def test_agents_and_prices(self, runs: Runs) -> None:
        """Settings of an agent that both have are told; of one that only one has, that it is missing."""
        agent = {"name": "small", "endpoint": "e", "model": "m", "sampling": {"temperature": 1.0}, "style": "SECRET"}
        other = {**agent, "name": "large"}
        price = {"input_usd": 1.0, "output_usd": 2.0, "source": "list"}
        manifest = {"agents": [{**agent, "price": price, "active_params": 1e9, "deterministic": True}, other]}
        found = compare(runs(ONCE_A, ONCE_B, manifests=({}, manifest)), Request())
        lines = told(found, "agents")
        assert "Agents: small in A; large, small in B." in lines
        assert 'Agent small, sampling: {"temperature":0.5} in A; {"temperature":1.0} in B.' in lines
        assert not any("Agent large" in line for line in lines)
        assert "SECRET" not in json.dumps(found)
        assert told(found, "prices") == [
            'Price of agent small: none in A; {"input_usd":1.0,"output_usd":2.0,"source":"list"} in B.'
        ]

    def test_repeated_settings(self, runs: Runs) -> None:
        """A value that another key lends is told once, and another class instead of all its settings."""
        config = {"data": {"n_test": 1}, "tasks": {"sums": {"n": 1}}, "encoder": {"_target_": "X", "width": 1}}
        other = {"data": {"n_test": 2}, "tasks": {"sums": {"n": 2}}, "encoder": {"_target_": "Y", "depth": 2}}
        recipe = {"tasks": {"sums": {"n": "${data.n_test}"}}}
        manifests = [{"config": one, "recipe": recipe} for one in (config, other)]
        assert told(compare(runs(ONCE_A, ONCE_B, manifests=manifests), Request()), "settings") == [
            "Setting data.n_test: 1 in A; 2 in B.",
            "Setting encoder._target_: X in A; Y in B.",
        ]

    def test_shapeless_settings(self, runs: Runs) -> None:
        """What shapes no result (stores, concurrency) is no difference."""
        manifests = [{"config": {"concurrency": number, "store": {"path": str(number)}}} for number in (1, 2)]
        assert told(compare(runs(ONCE_A, ONCE_B, manifests=manifests), Request()), "settings") == []

    def test_what_differences_are_taken_to(self, runs: Runs) -> None:
        """Another reference is a difference; a run of a version that knew one only had the best single agent."""
        manifests = [{"config": {}}, {"config": {"analysis": {"reference": "best_single", "ratios_to": []}}}]
        assert told(compare(runs(ONCE_A, ONCE_B, manifests=manifests), Request()), "settings") == []

    def test_another_reference(self, runs: Runs) -> None:
        """It is told by run."""
        manifests = [{"config": {}}, {"config": {"analysis": {"reference": "cot"}}}]
        found = compare(runs(ONCE_A, ONCE_B, manifests=manifests), Request(("coordinator",)))
        assert told(found, "settings") == ["Setting analysis.reference: best_single in A; cot in B."]

    def test_uncommitted_code(self, runs: Runs) -> None:
        """One commit with uncommitted changes may be two codes."""
        dirty = {"git": {"commit": "d" * 40, "dirty": True}}
        (line,) = told(compare(runs(ONCE_A, ONCE_B, manifests=(dirty, dirty)), Request()), "code")
        assert line == "Code with uncommitted changes made A, B; what was changed is not known."

    def test_items(self, runs: Runs) -> None:
        """Items of one run alone are counted, and the comparison is on the common ones."""
        found = compare(runs(ONCE_A, {"i1": [1], "i2": [1], "j": [1]}), Request())
        assert told(found, "items") == [
            "Items of sums: 2 in both A and B, 4 only in A, 1 only in B; only common items are compared."
        ]
        assert (only(found)["n_paired"], only(found)["difference"]) == (2, 0.5)

    def test_items_of_one_id_that_differ(self, runs: Runs) -> None:
        """An id that means another difficulty in the other run is no common item in truth, and that is said."""
        folders = runs(ONCE_A)
        hard = [*episodes(ONCE_B, "best_single", "small"), *episodes(ONCE_B, difficulty=3.0)]
        folders.append(write_run(folders[0].parent / "B", hard))
        assert told(compare(folders, Request()), "items") == [
            "Items of sums: 6 have one id but another domain or difficulty in B than in A."
        ]

    def test_same_manifests(self, runs: Runs) -> None:
        """Runs of one recipe differ in nothing, and nothing is made up."""
        assert compare(runs(ONCE_A, ONCE_B), Request())["differences"] == []


@pytest.mark.parametrize(
    ("right", "sentence"),
    [
        (12, "better, +100.0 points on 12 items graded for both, p <0.001 adjusted."),
        (5, "no difference is shown, +41.7 points on 12 items graded for both, p 0.062 adjusted; the interval leaves"),
        (1, "no difference is shown, +8.3 points on 12 items graded for both, p 1.000 adjusted."),
    ],
)
def test_findings(runs: Runs, right: int, sentence: str) -> None:
    """A difference is called one where the adjusted p allows it, not by the interval alone: 2 / 2^5 is .0625."""
    wrong = {f"i{place}": [0.0] for place in range(12)}
    some = {f"i{place}": [float(place < right)] for place in range(12)}
    (line,) = compare(runs(wrong, some), Request(("coordinator",)))["findings"]
    assert line.startswith(f"B coordinator sampled against A coordinator sampled: {sentence}")


def test_sweep(tmp_path: Path) -> None:
    """A sweep stands for its finished jobs in their order; the others are named."""
    sweep = tmp_path / "sweep"
    start_sweep(sweep, ["seed=0,1,2"], {"two": ["seed=0"], "one": ["seed=1"], "zero": ["seed=2"]})
    for number, (name, scores) in enumerate((("two", ONCE_A), ("one", ONCE_B), ("zero", ONCE_A))):
        write_run(sweep / name, episodes(scores), manifest={"finished": name != "zero"})
        note(sweep / name, [f"seed={number}"], number, "failed" if name == "zero" else "finished", exit_code=0)
    found = compare([sweep], Request())
    assert [run["run_id"] for run in found["runs"]] == ["two", "one"]
    assert only(found)["difference"] == pytest.approx(2 / 6)
    assert f"Job zero of {sweep} is failed and left out." in found["notes"]


def test_sweep_without_finished_jobs(tmp_path: Path) -> None:
    """A sweep of which nothing is finished holds nothing to compare."""
    start_sweep(tmp_path / "sweep", ["seed=0,1"], {"one": ["seed=0"]})
    with pytest.raises(LedgerError, match="no job of this sweep is finished"):
        compare([tmp_path / "sweep"], Request())
