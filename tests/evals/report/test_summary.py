"""The summary against numbers worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from evals.report.summary import plain, rows_of
from evals.stats.intervals import wilson
from tests.evals.report import support
from trinity.canonical import canonical_json
from trinity.errors import LedgerError
from trinity.types import Record, Usage

MakeRecord = Callable[..., Record]
CONTRACT = {
    "method", "variant", "task", "n_items", "n_graded", "accuracy", "ci_low", "ci_high", "weighted_tokens_mean",
    "cost_usd_mean", "gflop_mean", "calls_mean", "turns_mean",
}  # fmt: skip


@pytest.fixture
def summary(run_records: list[Record], manifest: dict[str, Any]) -> dict[str, Any]:
    """The summary of the small run, made anew so that each test reaches what makes it."""
    parts: dict[str, Any] = {
        "choices": {"best_single": {"agent": "large"}, "vote": {"sums": {"n": 3}}},
        "effort": {"episodes": 96},
        "totals": {"paid_calls": 311, "reused_calls": 40},
    }
    return support.summarise(run_records, manifest=manifest, **parts)


def summarise(records: Iterable[Record], **manifest: Any) -> dict[str, Any]:
    """A summary without choices or training."""
    return support.summarise(records, manifest=manifest)


def row(summary: dict[str, Any], method: str = "single", variant: str = "small", task: str = "all") -> dict[str, Any]:
    """The one row of that name."""
    (found,) = [row for row in rows_of(summary, task) if (row["method"], row["variant"]) == (method, variant)]
    return found


def test_rows_have_the_contract_keys(summary: dict[str, Any]) -> None:
    """Every row holds the published keys, and there is one per method, variant and task, plus `all`."""
    assert all(row.keys() >= CONTRACT for row in summary["rows"])
    places = [(row["method"], row["variant"], row["task"]) for row in summary["rows"]]
    assert len(places) == len(set(places)) == 9 * 3
    assert [task for _, _, task in places[:3]] == ["all", "choice", "sums"]


def test_the_summary_says_what_it_was_given(summary: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Choices, effort and totals are handed on; pool and kind are the records', the seeds the manifest's."""
    assert set(summary) == {
        *("run_id", "experiment", "pool", "pool_kind", "seeds", "reference", "cost_axis", "rows", "mdd", "headroom"),
        *("totals", "effort", "choices", "notes"),
    }
    assert summary["choices"] == {"best_single": {"agent": "large"}, "vote": {"sums": {"n": 3}}}
    assert (summary["effort"], summary["totals"]) == ({"episodes": 96}, {"paid_calls": 311, "reused_calls": 40})
    assert (summary["reference"], summary["seeds"]) == ("best_single", manifest.get("seeds"))
    assert summarise([], run_id="r", experiment="e", pool="p", pool_kind="live")["pool_kind"] == "live"


def test_replicates_are_averaged_within_an_item_first(make_record: MakeRecord) -> None:
    """An item with three replicates weighs as much as one with one: (2/3 + 0) / 2, not 2/4."""
    records = [make_record(score, index) for index, score in enumerate((1.0, 1.0, 0.0))]
    found = row(summarise([*records, make_record(0.0, item_id="sums-1")]))
    assert found["accuracy"] == pytest.approx(1 / 3, abs=1e-15)
    assert (found["n_items"], found["n_graded"], found["n_replicates"], found["n_episodes"]) == (2, 2, 3, 4)


def test_all_is_the_mean_over_items_not_over_tasks(make_record: MakeRecord) -> None:
    """Three right items of one task and a wrong one of another are 75 %, although the tasks' mean is 50 %."""
    records = [make_record(1.0, item_id=f"sums-{number}") for number in range(3)]
    found = summarise([*records, make_record(0.0, task="choice", item_id="choice-0")])
    assert row(found)["accuracy"] == 0.75
    assert row(found, task="choice")["accuracy"] == 0.0


def test_failed_calls_are_no_wrong_answers(make_record: MakeRecord) -> None:
    """`error` and `over_budget` leave accuracy and costs alone and open the bounds; other failures score 0."""
    records = [
        make_record(1.0, item_id="a", weighted_tokens=100),
        make_record(0.0, item_id="b", weighted_tokens=300, status="truncated"),
        make_record(None, item_id="c", weighted_tokens=9999),
        make_record(None, item_id="d", weighted_tokens=9999, status="over_budget"),
    ]
    found = row(summarise(records))
    assert (found["accuracy"], found["n_graded"], found["n_items"]) == (0.5, 2, 4)
    assert (found["bound_low"], found["bound_high"]) == (0.25, 0.75)
    assert found["weighted_tokens_mean"] == 200
    assert found["statuses"] == {"correct": 1, "error": 1, "over_budget": 1, "truncated": 1}
    assert found["n_truncated"] == 1


def test_an_ungraded_replicate_opens_the_bounds(make_record: MakeRecord) -> None:
    """With one of two replicates failed the item is graded on the other; bounds take it as wrong and as right."""
    found = row(summarise([make_record(1.0, 0), make_record(None, 1)]))
    assert (found["accuracy"], found["n_graded"]) == (1.0, 1)
    assert (found["bound_low"], found["bound_high"]) == (0.5, 1.0)


def test_items_never_asked_count_as_ungraded(make_record: MakeRecord) -> None:
    """A method that was not run on an item which another answered shows n - 1 of n, bounds, and a note."""
    both = [make_record(1.0, item_id=item, variant=name) for name, item in [("x", "a"), ("x", "b"), ("y", "a")]]
    found = summarise(both)
    assert row(found, variant="x")["bound_low"] is None
    assert (row(found, variant="y")["n_graded"], row(found, variant="y")["n_items"]) == (1, 2)
    assert (row(found, variant="y")["bound_low"], row(found, variant="y")["bound_high"]) == (0.5, 1.0)
    assert "single y was graded on 1 of 2 items." in found["notes"]


def test_nothing_graded_is_unknown(make_record: MakeRecord) -> None:
    """A row without a graded item has no accuracy, interval, cost or difference, but full bounds."""
    found = row(summarise([make_record(None)]))
    unknown = ("accuracy", "ci_low", "ci_high", "diff", "weighted_tokens_mean", "cost_usd_mean")
    assert [found[key] for key in unknown] == [None] * 6
    assert (found["bound_low"], found["bound_high"]) == (0.0, 1.0)


def test_interval_is_that_of_the_rule(make_record: MakeRecord) -> None:
    """Eight items with one replicate get Wilson's interval."""
    found = row(summarise(make_record(float(number < 6), item_id=str(number)) for number in range(8)))
    expected = wilson(6, 8)
    assert expected is not None
    assert (found["ci_low"], found["ci_high"]) == pytest.approx(expected)


def test_unknown_price_is_none_and_named(make_record: MakeRecord, manifest: dict[str, Any]) -> None:
    """One call of unknown price makes the mean unknown, names the agent, and moves the cost axis to GFLOP."""
    records = [make_record(1.0, item_id="a"), make_record(1.0, item_id="b", cost_usd=None)]
    priced = make_record(1.0, item_id="a", variant="large")
    found = summarise([*records, priced], **manifest)
    assert row(found)["cost_usd_mean"] is None
    assert row(found)["unknown_price"] == ["small"]
    assert row(found, variant="large")["cost_usd_mean"] == 0.001
    assert row(found, variant="large")["unknown_price"] == []
    assert found["cost_axis"] == "gflop"
    assert "The price is unknown for: small." in found["notes"]


def test_unknown_price_of_an_ungraded_episode_does_not_matter(make_record: MakeRecord) -> None:
    """Costs are means over graded episodes, so a failed one without a price leaves them known."""
    found = row(summarise([make_record(1.0, item_id="a"), make_record(None, item_id="b", cost_usd=None)]))
    assert found["cost_usd_mean"] == 0.001


@pytest.mark.parametrize(
    ("usd", "gflop", "axis"),
    [(0.1, 1.0, "usd"), (0.0, 1.0, "gflop"), (None, 1.0, "gflop"), (None, None, "weighted_tokens")],
)
def test_cost_axis(make_record: MakeRecord, usd: float | None, gflop: float | None, axis: str) -> None:
    """USD where everything is priced and not free, else GFLOP where known, else weighted tokens."""
    assert summarise([make_record(1.0, cost_usd=usd, gflop=gflop)])["cost_axis"] == axis


@pytest.mark.parametrize(("config", "axis"), [({"cost_axis": "weighted_tokens"}, "weighted_tokens"), ({}, "usd")])
def test_cost_axis_of_the_run(make_record: MakeRecord, config: dict[str, str], axis: str) -> None:
    """The axis that a run was set to rules its summary, whatever else is known."""
    assert summarise([make_record(1.0, cost_usd=0.1)], config=config)["cost_axis"] == axis


def test_difference_is_paired_over_items_graded_for_both(make_record: MakeRecord) -> None:
    """With b ungraded for the coordinator and c for the reference, a and d remain: (1 - 0 + 1 - 1) / 2."""
    best = {"a": 0.0, "b": 1.0, "c": None, "d": 1.0}
    ours = {"a": 1.0, "b": None, "c": 1.0, "d": 1.0}
    records = [make_record(score, method="best_single", item_id=item) for item, score in best.items()]
    records += [
        make_record(score, method="coordinator", variant="argmax", item_id=item) for item, score in ours.items()
    ]
    found = summarise(records)
    compared = row(found, "coordinator", "argmax")
    assert (compared["diff"], compared["n_paired"], compared["reference"]) == (0.5, 2, False)
    assert compared["diff_low"] <= 0.5 <= compared["diff_high"]
    assert row(found, "best_single")["diff"] is None
    assert row(found, "best_single")["reference"]


def test_the_coordinators_tests_are_adjusted_together(make_record: MakeRecord) -> None:
    """6 of 6 and 5 of 5 items repaired: 2/64 and 2/32 by McNemar; Holm doubles the first, and the vote counts not."""
    items = {"best_single": 0, "vote": 6}
    rows = [make_record(float(n < k), method=m, item_id=str(n)) for m, k in items.items() for n in range(6)]
    for variant, right in (("sampled", 6), ("argmax", 5)):
        rows += [make_record(float(n < right), method="coordinator", variant=variant, item_id=str(n)) for n in range(6)]
    found = summarise(rows)
    tests = {name: row(found, "coordinator", name) for name in ("sampled", "argmax")}
    assert [one["p"] for one in tests.values()] == pytest.approx([2 / 64, 2 / 32])
    assert [one["p_holm"] for one in tests.values()] == pytest.approx([4 / 64, 4 / 64])
    assert (row(found, "vote")["p"], row(found, "vote")["p_holm"]) == (pytest.approx(2 / 64), None)


def test_replicates_of_an_interval_are_graded_ones(make_record: MakeRecord) -> None:
    """Where one replicate of two failed on every item, the means are 0/1 scores, and the interval is Wilson's."""
    records = [make_record(float(n < 6), 0, item_id=str(n)) for n in range(8)]
    found = row(summarise([*records, *(make_record(None, 1, item_id=str(n)) for n in range(8))]))
    expected = wilson(6, 8)
    assert expected is not None
    assert (found["ci_low"], found["ci_high"]) == pytest.approx(expected)
    assert found["n_replicates"] == 2


def test_items_of_equal_id_in_two_tasks_are_not_paired(make_record: MakeRecord) -> None:
    """Item `0` of one task is not item `0` of another."""
    records = [
        make_record(1.0, method="best_single", task="sums", item_id="0"),
        make_record(0.0, method="lookup", task="choice", item_id="0"),
    ]
    assert row(summarise(records), "lookup")["n_paired"] == 0


def test_the_chosen_agent_alone_is_the_reference_too(summary: dict[str, Any]) -> None:
    """The row of the agent that was chosen is not compared with itself; the other agent's row is."""
    assert row(summary, variant="large")["reference"]
    assert not row(summary)["reference"]
    assert row(summary)["n_paired"] == 12


def test_headroom(summary: dict[str, Any]) -> None:
    """The gap is oracle - best single as chosen on validation, whichever agent is best on test."""
    found = summary["headroom"]
    assert found["best_single"] == pytest.approx(6 / 12)
    assert found["oracle"] == pytest.approx(10 / 12)
    assert found["gap"] == pytest.approx(4 / 12)
    assert found["best_agents"] == ["small"]
    assert found["tasks"]["sums"]["best_agents"] == ["large"]
    assert found["tasks"]["sums"]["gap"] == pytest.approx(2 / 6)
    assert sorted(found["tasks"]) == ["choice", "sums"]
    assert found["best_agents_accuracy"] == pytest.approx(row(summary)["accuracy"])


@pytest.mark.parametrize("method", ["best_single", "oracle"])
def test_headroom_of_half_a_gap_is_unknown(make_record: MakeRecord, method: str) -> None:
    """Without the one or the other row there is no gap, and without agents alone none is the best."""
    found = summarise([make_record(1.0, method=method, variant="")])["headroom"]
    expected = dict.fromkeys(("oracle", "best_single", "gap", "best_agents_accuracy")) | {
        "best_agents": [],
        method: 1.0,
    }
    assert found == {**expected, "tasks": {"sums": expected}}


def test_detectable_difference_needs_a_spread(make_record: MakeRecord, summary: dict[str, Any]) -> None:
    """By statsmodels for 12 differences of known spread; where sides never differ it is unknown, with the reason."""
    sd = np.std([-1 / 3, -1 / 3, 1, 1, 1, *[0] * 7], ddof=1)
    effect = TTestPower().solve_power(nobs=12, alpha=0.05, power=0.8)
    assert summary["mdd"]["difference"] == pytest.approx(effect * sd, rel=1e-4)
    assert summary["mdd"]["n_items"] == 12
    assert summary["mdd"]["comparison"] == "coordinator sampled and best single agent"
    assert (summary["mdd"]["power"], summary["mdd"]["reason"]) == (0.8, None)
    records = [
        make_record(1.0, method=method, item_id=item) for method in ("coordinator", "best_single") for item in "ab"
    ]
    assert summarise(records)["mdd"]["difference"] is None
    assert summarise(records)["mdd"]["reason"]
    assert summarise([])["mdd"] == {
        "difference": None,
        "n_items": 0,
        "reason": "no method is there besides controls and bounds",
        "power": 0.8,
        "comparison": None,
    }
    lonely = summarise([make_record(1.0, method="coordinator")])["mdd"]
    assert lonely["reason"] == "no method has a row of best_single to be compared to"


def test_chance_of_all_is_weighted_by_items(make_record: MakeRecord, manifest: dict[str, Any]) -> None:
    """One item at 0 and three at 1/4 are guessed at 3/16; a task without a stated chance leaves it unknown."""
    records = [make_record(task="choice", item_id=f"choice-{number}") for number in range(3)]
    assert row(summarise([*records, make_record()], **manifest))["chance"] == pytest.approx(3 / 16)
    assert row(summarise([make_record()]))["chance"] is None


def test_notes(make_record: MakeRecord) -> None:
    """Reasons from the choices, missing agents, a pool of one and a small run are said, each once."""
    found = support.summarise(
        [make_record(1.0)],
        manifest={
            "missing_agents": {"tiny": "its weights are gone"},
            "agents": [{"name": "small"}],
            "notes": ["n/a x"],
        },
        choices={"notes": ["n/a x", "chosen so"]},
    )
    assert found["notes"] == [
        "n/a x",
        "chosen so",
        "The run went on without agent tiny: its weights are gone.",
        "The pool has one agent: there is nothing to coordinate.",
        "A run of 1 test items shows the path, not a finding.",
    ]


def test_only_the_test_split_counts(make_record: MakeRecord) -> None:
    """Validation records change nothing."""
    records = [make_record(1.0)]
    validated = [*records, replace(make_record(0.0, item_id="v"), split="val")]
    assert summarise(validated) == summarise(records)


def test_order_of_records_does_not_matter(
    run_records: list[Record], summary: dict[str, Any], manifest: dict[str, Any]
) -> None:
    """Shuffled records, read once from a stream, give the same bytes of canonical JSON."""
    shuffled = random.Random(3).sample(run_records, len(run_records))
    parts = {name: summary[name] for name in ("choices", "effort", "totals")}
    assert canonical_json(support.summarise(iter(shuffled), manifest=manifest, **parts)) == canonical_json(summary)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run_id": "run-2"}, "run_id"),
        ({"pool_kind": "scripted"}, "pool_kind"),
        ({}, "twice"),
        ({"item_id": "x", "score": None, "status": "wrong"}, "score None"),
        ({"item_id": "x", "score": 1.5}, "score 1.5"),
        ({"item_id": "x", "score": float("nan")}, "score None"),
        ({"task": "all"}, "rename the task"),
    ],
)
def test_bad_records_are_refused(make_record: MakeRecord, changes: dict[str, Any], message: str) -> None:
    """Other runs, mixed kinds of pool, doubles, bad scores and a task named `all` stop the summary."""
    with pytest.raises(LedgerError, match=message):
        summarise([make_record(1.0), make_record(**{"score": 1.0, **changes})])


def test_plain_is_canonical() -> None:
    """NaN becomes None, numpy numbers, tuples and dataclasses become JSON's own."""
    value = {"a": np.float64("nan"), 1: (np.int64(2), float("inf")), "u": Usage(1), "b": np.bool_(1)}
    assert canonical_json(plain(value)) == (
        '{"1":[2,null],"a":null,"b":true,"u":{"cached_tokens":0,"estimated":false,"input_tokens":1,"output_tokens":0,'
        '"reasoning_tokens":0}}'
    )
