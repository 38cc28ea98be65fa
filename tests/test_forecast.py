"""What a plan foresees is never less than what a run then costs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from pathlib import Path

import pytest

from baselines.chosen import BestSingle, Lookup
from baselines.oracle import Oracle
from baselines.random_choice import RandomChoice
from baselines.single import Single
from baselines.vote import CostMatchedVote
from tests.ground import AGENTS, make_arena, skill_tasks
from trinity.arena import Contender
from trinity.coordinator.heads import LinearHead
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground, dearest, episode
from trinity.llm.budget import Cap, Caps, worst_case
from trinity.pipeline import contest
from trinity.plan import confirm, foresee, plan_table, total, worst_usd
from trinity.trainers.sep_cma_es import SepCMAES
from trinity.trainers.train import Training
from trinity.trainers.trained import TrainedCoordinator
from trinity.types import Price, Record, Spend

PRICE = Price(2.0, 10.0, "test")
PRICED = [
    replace(agent, price=PRICE, sampling={**agent.sampling, "max_tokens": 32}, deterministic=number == 0)
    for number, agent in enumerate(AGENTS)
]


def contenders() -> dict[str, Contender]:
    """One of each kind; the vote must select, the coordinator trains for two generations."""
    training = Training(partial(SepCMAES, popsize=4), generations=2, trajectories=3, validate_every=1)
    return {
        "single": Single(),
        "random": RandomChoice(max_turns=3),
        "best_single": BestSingle(),
        "lookup": Lookup(),
        "coordinator": TrainedCoordinator(LinearHead, 3, training),
        "vote": CostMatchedVote(0.8, most=4),
        "oracle": Oracle(),
    }


def logical(records: list[Record]) -> Spend:
    """What `records` were billed."""
    spends = [Spend(record.cost_usd, record.weighted_tokens, record.n_calls) for record in records]
    return reduce(Spend.plus, spends, Spend())


def within(spend: Spend, most: Spend) -> bool:
    """Whether no axis of `spend` is above `most`'s; USD are known."""
    return all(had is not None and limit is not None and had <= limit for had, limit in zip(spend, most, strict=True))


@pytest.mark.parametrize("comparable", [True, False])
async def test_nothing_costs_more_than_foreseen(tmp_path: Path, comparable: bool) -> None:
    """Calls, tokens and USD of every method's test, and of all episodes together, are within the forecast."""
    tasks = skill_tasks(n_train=4, n_val=3, n_test=4, comparable=comparable)
    arena = make_arena(tmp_path, tasks=tasks, agents=PRICED)
    forecasts = foresee(contenders(), Ground(PRICED, tasks, arena.replicates))
    await contest(arena, contenders(), lambda _: None)
    rows = [row for row in arena.player.ledger.records() if row.method != "oracle"]
    for name, forecast in forecasts.items():
        assert forecast is not None
        tested = [row for row in rows if row.method == name and row.split == "test"]
        assert len(tested) <= forecast.episodes, name
        assert within(logical(tested), forecast.spend), name
    assert within(logical(rows), total(forecasts).spend)
    single = forecasts["single"]
    assert single is not None
    assert single.episodes == (1 + 3 + 3) * 3 * 4
    assert single.spend.calls == single.episodes
    arena.player.ledger.close()


def test_a_call_alone_is_foreseen_exactly_as_it_is_reserved() -> None:
    """One turn of one agent is the worst case of the very messages that it will get."""
    task = skill_tasks()["sums"]
    opening = task.open(next(iter(task.items("test"))))
    assert episode(PRICED[:1], opening) == worst_case(PRICED[0], opening)
    two = episode(PRICED, opening, turns=2)
    assert two.calls == 2
    assert two.weighted_tokens > 2 * episode(PRICED, opening).weighted_tokens


def test_an_unknown_price_makes_usd_unknown() -> None:
    """One agent without a price is enough; tokens and calls stay known."""
    mixed = [*PRICED[:2], replace(PRICED[2], price=None)]
    task = skill_tasks()["sums"]
    spend = episode(mixed, task.open(next(iter(task.items("test")))))
    assert (spend.usd, spend.calls) == (None, 1)
    assert spend.weighted_tokens > 0
    assert dearest([Spend(1.0, 5, 1), Spend(None, 3, 2)]) == Spend(None, 5, 2)


def test_a_method_that_offers_no_forecast_is_named_unknown() -> None:
    """It is neither zero in the table nor left out of what must be confirmed."""
    forecasts = {"known": Forecast(2, Spend(3.0, 10, 2)), "theirs": None}
    assert total(forecasts) == Forecast(2, Spend(3.0, 10, 2))
    assert worst_usd(forecasts, None) is None
    assert worst_usd(forecasts, 7.0) == 7.0
    cells = [[str(cell) for cell in column.cells] for column in plan_table(forecasts, "plan").columns]
    assert [column[1] for column in cells] == ["theirs", *["unknown"] * 4]


def test_a_dear_run_wants_to_be_confirmed() -> None:
    """Above the limit the line says the amount and both ways on; at it the run starts, as under a cap of its own."""
    dear = {"one": Forecast(1, Spend(12.345678, 1, 1))}
    with pytest.raises(ConfigError, match=r"may cost 12.35 USD, and budget.confirm_usd=10; .* yes=true, or set budget"):
        confirm(dear, PRICED, Caps(confirm_usd=10))
    confirm(dear, PRICED, Caps(Cap(usd=5.0), confirm_usd=10))
    confirm({"one": Forecast(1, Spend(10.0, 1, 1))}, PRICED, Caps(confirm_usd=10))


def test_an_unknown_cost_wants_to_be_confirmed_or_capped() -> None:
    """A missing price or forecast is not taken for zero: the line names it; any cap of the run bounds it."""
    unpriced = {"one": Forecast(1, Spend(None, 1, 7))}
    mixed = [*PRICED[:2], replace(PRICED[2], price=None)]
    with pytest.raises(ConfigError, match=r"7 calls whose cost is not known \(no price: cat\); .* set budget.run.c"):
        confirm(unpriced, mixed, Caps(confirm_usd=10))
    confirm(unpriced, mixed, Caps(Cap(calls=5), confirm_usd=10))
    confirm(unpriced, mixed, Caps(confirm_usd=None))
    with pytest.raises(ConfigError, match=r"not known \(no forecast: theirs\)"):
        confirm({"theirs": None}, PRICED, Caps(confirm_usd=10))
    confirm({"theirs": None}, PRICED, Caps(Cap(usd=5.0), confirm_usd=10))
