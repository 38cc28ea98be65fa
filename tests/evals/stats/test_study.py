"""A study holds what its records say: names, rows, difficulty and means over replicates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from evals.stats.axes import AXES
from evals.stats.study import COLUMNS, Study, studies
from trinity.errors import LedgerError

BASE: Mapping[str, Any] = {
    "task": "sums",
    "split": "test",
    "status": "correct",
    "method": "single",
    "variant": "small",
    "backbone": "model-s",
    "pool_kind": "scripted",
    "item_id": "sums-0",
    "replicate_index": 0,
    "difficulty": 1.0,
    "difficulty_kind": "human",
    "score": 1.0,
    "raw_score": 1.0,
    "weighted_tokens": 10,
    "cost_usd": 0.5,
    "gflop": 2.0,
}


def columns(*rows: Mapping[str, Any]) -> dict[str, Any]:
    """A batch of records that differ from the base as said."""
    whole = [{**BASE, **row} for row in rows]
    return {name: [row[name] for row in whole] for name in COLUMNS}


AGENTS = {"small": "model-s", "large": "model-l", "calm": "model-t", "wild": "model-t"}


def only(*rows: Mapping[str, Any]) -> Study:
    """The study of a few records of one task."""
    (study,) = studies([columns(*rows)], AGENTS)
    return study


def test_backbone_is_the_agent_or_the_pool() -> None:
    """A variant that names an agent is the backbone; any other one belongs to the method's name."""
    study = only(
        {},
        {"variant": "large", "backbone": "model-s"},
        {"method": "coordinator", "variant": "sampled", "backbone": "team"},
        {"method": "lookup", "variant": "", "backbone": "team"},
    )
    assert study.methods == ("coordinator sampled", "lookup", "single")
    assert study.backbones == ("large", "small", "team")
    assert [(study.methods[m], study.backbones[b]) for m, b in zip(study.method, study.backbone, strict=True)] == [
        ("coordinator sampled", "team"),
        ("lookup", "team"),
        ("single", "large"),
        ("single", "small"),
    ]


@pytest.mark.parametrize(
    ("variant", "backbone", "name"),
    [
        ("large", "model-l", "single on large"),
        ("large@T=0.8", "model-l", "single T=0.8 on large"),
        ("wild@T=0.8", "model-t", "single T=0.8 on wild"),
        ("calm", "model-t", "single on calm"),
        ("", "model-l", "single on large"),
        ("", "model-t", "single on model-t"),
        ("n=3", "model-l", "single n=3 on large"),
        ("", "model-l + model-s", "single on model-l + model-s"),
        ("other@T=0.8", "team", "single other@T=0.8 on team"),
    ],
)
def test_a_model_is_its_agent_where_it_has_one(variant: str, backbone: str, name: str) -> None:
    """The variant tells the agent, with its setting or without; else the model does, unless two agents share it."""
    study = only({"variant": variant, "backbone": backbone})
    assert f"{study.methods[0]} on {study.backbones[0]}" == name


def test_only_graded_test_episodes_count() -> None:
    """Training rows and failed calls are no rows; truncated ones are, with score 0 and what their text was worth."""
    study = only(
        {"split": "val"},
        {"status": "error", "score": np.nan, "replicate_index": 1},
        {"status": "over_budget", "score": np.nan, "replicate_index": 2},
        {"status": "truncated", "score": 0.0, "raw_score": 1.0, "replicate_index": 3},
        {"status": "wrong", "score": 0.25, "raw_score": np.nan, "replicate_index": 4},
    )
    assert study.score.tolist() == [0.0, 0.25]
    assert study.truncated.tolist() == [True, False]
    assert study.correct.tolist() == [False, False]
    assert study.raw_score is not None
    assert study.raw_score[0] == 1.0
    assert np.isnan(study.raw_score[1])


def test_one_study_a_task_in_any_order() -> None:
    """Records in another order, in other batches, give equal studies to the last bit."""
    rows = [
        {"task": task, "item_id": f"{task}-{item}", "replicate_index": index, "score": score, "status": "wrong"}
        for item, task in enumerate(("words", "sums", "sums"))
        for index, score in enumerate((0.1, 0.2, 0.7))
    ]
    first = studies([columns(*rows)], AGENTS)
    again = studies([columns(row) for row in reversed(rows)], AGENTS)
    assert [study.task for study in first] == ["sums", "words"]
    for one, other in zip(first, again, strict=True):
        assert one.items == other.items
        assert one.cube(one.score).tolist() == other.cube(other.score).tolist()


def test_nothing_to_study() -> None:
    """No batches, or none with a graded test record, give no study."""
    assert studies([], AGENTS) == []
    assert studies([columns({"split": "train"})], AGENTS) == []


def test_cube_by_hand() -> None:
    """Replicates are averaged within an item; a cell that nobody played and an unknown price are NaN."""
    study = only(
        {"score": 1.0, "weighted_tokens": 10},
        {"score": 0.0, "status": "wrong", "weighted_tokens": 40, "replicate_index": 1, "cost_usd": np.nan},
        {"score": 0.5, "status": "wrong", "weighted_tokens": 7, "item_id": "sums-1", "variant": "large"},
    )
    nan = np.nan
    assert study.replicates.tolist() == [[[0, 1], [2, 0]]]
    np.testing.assert_array_equal(study.cube(study.score), [[[nan, 0.5], [0.5, nan]]])
    np.testing.assert_array_equal(study.cube(study.costs["weighted_tokens"]), [[[nan, 7], [25, nan]]])
    np.testing.assert_array_equal(study.cube(study.costs["cost_usd"]), [[[nan, 0.5], [nan, nan]]])
    assert tuple(study.costs) == tuple(axis.column for axis in AXES)


def test_subset_keeps_names() -> None:
    """Leaving episodes out leaves their item in the names, with a NaN in the cube."""
    study = only({}, {"item_id": "sums-1", "status": "truncated", "score": 0.0})
    rest = study.subset(~study.truncated)
    assert rest.items == ("sums-0", "sums-1")
    np.testing.assert_array_equal(rest.cube(rest.score), [[[1.0, np.nan]]])


def graded(difficulties: Iterator[float] | list[float]) -> Study:
    """A study of items of these difficulties."""
    return only(*({"item_id": f"sums-{n:03}", "difficulty": value} for n, value in enumerate(difficulties)))


def test_difficulty_is_standardised_over_what_is_known() -> None:
    """Of 1, 3 and 5 the mean is 3 and the standard deviation 2; an unknown one stays NaN and moves nothing."""
    np.testing.assert_allclose(graded([1, 3, np.nan, 5]).z, [-1, 0, np.nan, 1])


def test_equal_and_unknown_difficulties() -> None:
    """Difficulties that do not differ are 0; without any, all is NaN and no quarter is named."""
    assert graded([4, 4, 4]).z.tolist() == [0, 0, 0]
    assert graded([4, 4, 4]).quartile.tolist() == [0, 0, 0]
    unknown = graded([np.nan, np.nan])
    assert np.isnan(unknown.z).all()
    assert unknown.quartile.tolist() == [-1, -1]


def test_quartiles_are_quarters() -> None:
    """200 distinct difficulties fall into four quarters of 50, the easiest first; equal ones are never parted."""
    shuffled = np.random.default_rng(0).permutation(200)
    quartile = graded([float(value) for value in shuffled]).quartile
    assert [sorted(shuffled[quartile == place].tolist()) for place in range(4)] == [
        list(range(start, start + 50)) for start in (0, 50, 100, 150)
    ]
    assert graded([1, 1, 1, 2, np.nan]).quartile.tolist() == [0, 0, 0, 3, -1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{}, {}], "an episode is recorded twice; rebuild the run's records from its ledger"),
        ([{"score": np.nan}], "a graded record has score nan; grade the run again"),
        ([{"score": 1.5}], "a graded record has score 1.5; grade the run again"),
        ([{"score": -0.5}], "a graded record has score -0.5; grade the run again"),
        (
            [{}, {"item_id": "sums-1", "pool_kind": "live"}],
            "records of kinds of pool live, scripted do not go into one table",
        ),
        (
            [{}, {"replicate_index": 1, "difficulty": 2.0}],
            "item sums-0 has two difficulties; compare runs of one data set",
        ),
    ],
)
def test_what_no_study_can_be_made_from(rows: list[dict[str, Any]], message: str) -> None:
    """A record that is there twice, has no score or contradicts the others is refused with one line."""
    with pytest.raises(LedgerError) as found:
        only(*rows)
    assert str(found.value) == f"task sums: {message}"


def test_mixed_kinds_of_difficulty_are_named() -> None:
    """Items rated by different means keep both names, since one kind would be untrue."""
    study = only({}, {"item_id": "sums-1", "difficulty_kind": "irt"}, {"item_id": "sums-2", "difficulty_kind": None})
    assert study.difficulty_kind == "human and irt"
