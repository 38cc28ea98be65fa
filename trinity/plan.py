"""What a run may cost, told before anything is asked: `plan=true` and the gate of `budget.confirm_usd`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.table import Table
from rich.text import Text

from trinity.arena import Contender
from trinity.errors import ConfigError
from trinity.forecast import Forecast, Ground, scaled
from trinity.grading import judged
from trinity.llm.budget import Caps, output_limit
from trinity.types import Agent

Forecasts = Mapping[str, Forecast | None]

UNKNOWN = "unknown"


GRADING_ROW = "(grading)"
"""No method's name; its episodes are the methods' own."""


def foresee(
    contenders: Mapping[str, Contender], ground: Ground, judge: Agent | None = None
) -> dict[str, Forecast | None]:
    """Method name -> its forecast, None where it offers none; then what `judge` may be asked, if a task is judged."""
    forecasts = {name: contender.forecast(ground) for name, contender in contenders.items()}
    tasks = {name: task for name, task in ground.tasks.items() if judged(task)}
    if judge is None or not tasks:
        return forecasts
    return {**forecasts, GRADING_ROW: _grading(contenders, replace(ground, tasks=tasks), judge)}


def _grading(contenders: Mapping[str, Contender], ground: Ground, judge: Agent) -> Forecast | None:
    """Every episode on `ground`, the part of the run's where every task is judged, graded at its worst."""
    forecasts = [contender.forecast(ground) for contender in contenders.values()]
    episodes = [forecast.episodes for forecast in forecasts if forecast is not None]
    known = len(episodes) == len(forecasts)
    return Forecast(0, scaled(ground.grading(judge), sum(episodes))) if known else None


def total(forecasts: Forecasts) -> Forecast:
    """All that can be foreseen together; calls that methods share are counted for each of them."""
    return Forecast.total(one for one in forecasts.values() if one is not None)


def plan_table(forecasts: Forecasts, title: str, asked: Sequence[Agent] = ()) -> Table:
    """A row per method: episodes, and calls, weighted tokens and USD at the worst.

    The caption names those of the `asked` agents whose output nothing bounds.
    """
    table = Table(title=Text(title), title_justify="left", caption_justify="left")
    for name in ("method", "episodes", "calls at most", "weighted tokens at most", "USD at most"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for name, forecast in forecasts.items():
        table.add_row(Text(name), *_cells(forecast))
    table.add_section()
    table.add_row("together", *_cells(total(forecasts)))
    table.caption = (
        "Every call at its longest, nothing found in the store, no attempt failed; "
        "calls that methods share are counted for each."
    )
    endless = dict.fromkeys(agent.name for agent in asked if output_limit(agent) is None)
    if endless:
        table.caption += f" Nothing bounds the output of {', '.join(endless)}: of it nothing is counted."
    return table


def _cells(forecast: Forecast | None) -> list[str]:
    if forecast is None:
        return [UNKNOWN] * 4
    usd = UNKNOWN if forecast.spend.usd is None else f"{forecast.spend.usd:,.2f}"
    return [f"{forecast.episodes:,}", f"{forecast.spend.calls:,}", f"{forecast.spend.weighted_tokens:,}", usd]


def worst_usd(forecasts: Forecasts, cap: float | None) -> float | None:
    """USD that the run may cost at the worst, its own cap considered; None where a price or a forecast is unknown."""
    known = None not in forecasts.values()
    foreseen = total(forecasts).spend.usd if known else None
    if cap is None or foreseen is None:
        return foreseen if cap is None else cap
    return min(foreseen, cap)


def confirm(forecasts: Forecasts, agents: Sequence[Agent], caps: Caps) -> None:
    """Let a live run start only if its worst case is known to be within `confirm_usd`, or a cap bounds what is unknown.

    Raises:
        ConfigError: says what it may cost, or why that is not known, and how to start it.
    """
    worst = worst_usd(forecasts, caps.run.usd)
    if caps.confirm_usd is None:
        return
    if worst is None and not caps.run.given:
        calls, why = total(forecasts).spend.calls, _why(forecasts, agents)
        raise ConfigError(f"this run may make {calls:,} calls whose cost is not known ({why}); {_how('calls')}")
    if worst is not None and worst > caps.confirm_usd:
        raise ConfigError(
            f"this run may cost {worst:.2f} USD, and budget.confirm_usd={caps.confirm_usd:g}; {_how('usd')}"
        )


def _how(axis: str) -> str:
    return f"look at it with plan=true, then start it with yes=true, or set budget.run.{axis}"


def _why(forecasts: Forecasts, agents: Sequence[Agent]) -> str:
    blind = [name for name, forecast in forecasts.items() if forecast is None]
    unpriced = [agent.name for agent in agents if agent.price is None]
    if blind:
        return f"no forecast: {', '.join(blind)}"
    return f"no price: {', '.join(unpriced)}" if unpriced else "an agent's output has no bound"
