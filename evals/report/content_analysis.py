"""What `analysis.json` says, as tables: differences, difficulty, models, costs, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evals.report.blocks import Block, Bullets, Column, Entry, Grid, Part, Text, grid, number_of, p_of, text_of
from evals.report.canvas import Picture, pool
from evals.report.plots_difficulty import QUARTILES, interacts, spoken
from evals.report.text import interval, number, percent

AXES = {"usd": "USD", "weighted_tokens": "weighted tokens", "gflop": "GFLOP"}
Tasks = Mapping[str, Mapping[str, Any]]


def analysis_parts(analysis: Mapping[str, Any], pictures: Mapping[str, Picture]) -> list[Part]:
    """The parts of a report that come of its analysis; none where there is none."""
    tasks: Tasks = analysis.get("tasks") or {}
    reference = spoken(analysis)
    found = [
        Part(f"Against {reference}", _against(tasks)),
        Part("Difficulty", _difficulty(tasks, reference, pictures)),
        Part("Mixed models of difficulty", _models(tasks)),
        Part("Method and backbone", _interaction(tasks, reference, pictures)),
        Part("Cost per correct answer", _costs(tasks)),
        Part("Sensitivity", _sensitivity(tasks)),
        Part("Verifiers", _verifiers(tasks)),
        Part("What this analysis cannot tell", _unidentified(tasks)),
    ]
    kind = Text(f"{pool(analysis.get('pool_kind'))}, test items.")
    return [part._replace(blocks=[kind, *part.blocks]) for part in found if part.blocks]


def _entries(tasks: Tasks, key: str) -> list[Entry]:
    """The entries of all tasks under a key, each with its task."""
    return [{"task": name, **entry} for name, task in tasks.items() for entry in task.get(key) or ()]


def _points(key: str = "difference") -> Callable[[Entry], str]:
    """A cell with a difference in points and its interval."""
    return lambda entry: interval(entry.get(key), entry.get("ci_low"), entry.get("ci_high"), signed=True)


def _share(key: str) -> Callable[[Entry], str]:
    """A cell with a share in percent."""
    return lambda entry: percent(entry.get(key))


TASK: Column = ("task", text_of("task"))
METHOD: Column = ("method", text_of("method"))
BACKBONE: Column = ("backbone", text_of("backbone"))
ITEMS: Column = ("items", text_of("n_items"))
POINTS: Column = ("difference\n(95 % CI)", _points())
P_VALUES: Sequence[Column] = (("p", p_of("p")), ("p, Holm", p_of("p_holm")))
CHANGED: Sequence[Column] = (("repaired", text_of("wins")), ("broken", text_of("losses")))


def _against(tasks: Tasks) -> list[Block]:
    """Differences over all models, and what they would take to be seen."""
    pooled, detectable = _entries(tasks, "pooled"), _entries(tasks, "detectable")
    blocks: list[Block] = []
    if pooled:
        blocks += [
            grid(pooled, (TASK, METHOD, ITEMS, POINTS, *P_VALUES, *CHANGED, ("tied", text_of("ties"))), 2),
            Text(
                "Paired by item, over all backbones. Repaired: items where the method scores higher; broken: lower. "
                "Holm's p allows for all comparisons of a task."
            ),
        ]
    if detectable:
        needed: list[Column] = [
            (f"items for\n{100 * float(size):g} points", _needed(size)) for size in _sizes(detectable)
        ]
        seen: Column = ("smallest difference\nthat would be seen", _seen)
        blocks.append(grid(detectable, (TASK, METHOD, ITEMS, seen, *needed), 2))
    return blocks


def _seen(entry: Entry) -> str:
    """A difference in points; none where not even the largest one there can be would be seen."""
    value = entry.get("difference")
    return "none" if value is not None and value > 1 else percent(value)


def _sizes(entries: Sequence[Entry]) -> list[str]:
    """The differences for which needed items are told."""
    return list(dict.fromkeys(size for entry in entries for size in entry.get("items_needed") or ()))


def _needed(size: str) -> Callable[[Entry], str]:
    return lambda entry: text_of(size)(entry.get("items_needed") or {})


def _difficulty(tasks: Tasks, reference: str, pictures: Mapping[str, Picture]) -> list[Block]:
    """Accuracy by difficulty and where a method gains."""
    known = {name: task["difficulty"] for name, task in tasks.items() if task.get("difficulty")}
    found = [{"task": name, **entry} for name, entry in known.items() if entry.get("kind")]
    if not found:
        return []
    rank: Column = ("Spearman's ρ of difficulty\nand accuracy (95 % CI)", _spearman)
    columns = (TASK, ("difficulty", text_of("kind")), ("items with one", text_of("n_known")), rank)
    blocks: list[Block] = [grid(found, (*columns, ("p, Holm", lambda entry: p_of("p_holm")(entry["spearman"] or {}))))]
    blocks += [pictures["difficulty"]] if "difficulty" in pictures else []
    gains = [{"task": name, **entry} for name, each in known.items() for entry in each.get("gains") or ()]
    if gains:
        blocks += [
            Text(f"Difference to {reference} by quarter of difficulty:"),
            grid(
                _by_quarter(gains),
                (TASK, METHOD, *((name, _quarter(place)) for place, name in enumerate(QUARTILES))),
                2,
            ),
        ]
    return blocks


def _by_quarter(gains: Sequence[Entry]) -> list[Entry]:
    """One row a task and method, its quarters under their numbers."""
    rows: dict[tuple[str, str], dict[Any, Any]] = {}
    for entry in gains:
        row = rows.setdefault((entry["task"], entry["method"]), {"task": entry["task"], "method": entry["method"]})
        row[entry["quartile"]] = entry
    return list(rows.values())


def _quarter(place: int) -> Callable[[Any], str]:
    return lambda row: _points()(row.get(place) or {})


def _spearman(entry: Entry) -> str:
    """A rank correlation and its interval."""
    found = entry.get("spearman")
    return _between(found, "rho", ".2f") if found else "n/a"


def _between(entry: Entry, key: str, form: str) -> str:
    """A number and its interval."""
    low, high = entry.get("ci_low"), entry.get("ci_high")
    if entry.get(key) is None:
        return "n/a"
    ends = "" if low is None or high is None else f"\n({low:{form}} to {high:{form}})"
    return f"{entry[key]:{form}}{ends}".replace("-", "−")


def _interaction(tasks: Tasks, reference: str, pictures: Mapping[str, Picture]) -> list[Block]:
    """Which model a method helps, and what is left of it without one of them."""
    cells, left_out = _entries(tasks, "interaction"), _entries(tasks, "leave_one_out")
    if not interacts(cells):
        return []
    blocks: list[Block] = [pictures["interaction"]] if "interaction" in pictures else []
    accuracy: Column = ("accuracy %", _share("accuracy"))
    blocks.append(grid(cells, (TASK, METHOD, BACKBONE, ITEMS, accuracy, POINTS, *P_VALUES, *CHANGED), 3))
    if left_out:
        blocks += [
            Text(f"The difference to {reference} when one backbone is left out:"),
            grid(left_out, (TASK, METHOD, ("without", text_of("without")), POINTS), 3),
        ]
    return blocks


def _models(tasks: Tasks) -> list[Block]:
    """Odds ratios, tests and fits of the mixed-effects models."""
    found = {name: task["models"] for name, task in tasks.items() if (task.get("models") or {}).get("fits")}
    if not found:
        return []
    ratios = [
        {"task": name, "model": model, **row}
        for name, models in found.items()
        for model, key in (("M1", "odds_ratios"), ("M2", "slope_ratios"), ("M3", "odds_ratios_by_backbone"))
        for row in models.get(key) or ()
    ]
    tests = [{"task": name, **row} for name, models in found.items() for row in models.get("tests") or ()]
    fits = [{"task": name, **row} for name, models in found.items() for row in models["fits"]]
    fitted: Sequence[Column] = (
        *((TASK, ("model", text_of("model")), ("formula", text_of("formula")), ("rows", text_of("n_rows")))),
        *(
            (
                ("log-likelihood", lambda fit: f"{fit['log_lik']:.2f}".replace("-", "−")),
                ("AIC", lambda fit: f"{fit['aic']:.1f}"),
            )
        ),
        ("variances", lambda fit: "\n".join(map(_variance, fit["variances"]))),
    )
    blocks: list[Block] = [_odds(ratios)] if ratios else []
    blocks.append(
        Text(
            "Mixed-effects logistic models of a right answer, items random. M1: odds ratio of a method to the "
            "reference; M2: by how much one standard deviation of difficulty multiplies it; M3: within each backbone."
        )
    )
    return [*blocks, *([_tests(tests)] if tests else []), grid(fits, fitted, 3)]


def _variance(row: Entry) -> str:
    """One variance between groups."""
    return f"{row['term']} {'≈ 0' if row.get('at_boundary') else number(row['estimate'])}"


def _odds(ratios: Sequence[Entry]) -> Grid:
    """Odds ratios of all models."""
    ratio: Column = ("odds ratio\n(95 % CI)", _ratio)
    within: Column = ("within", lambda row: str(row.get("backbone") or "all backbones"))
    return grid(ratios, (TASK, ("model", text_of("model")), METHOD, within, ratio, *P_VALUES), 4)


def _ratio(row: Entry) -> str:
    return f"{number(row['ratio'])}\n({number(row['ci_low'])} to {number(row['ci_high'])})"


def _tests(tests: Sequence[Entry]) -> Grid:
    """Likelihood-ratio tests."""
    pair: Column = ("test", lambda row: f"{row['smaller']} in {row['larger']}")
    return grid(tests, (TASK, pair, ("χ²", number_of("chi2")), ("df", text_of("df")), ("p", p_of("p"))), 2)


def _costs(tasks: Tasks) -> list[Block]:
    """Cost per correct answer on each axis that is known."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name, task in tasks.items():
        for axis, entry in (task.get("cost") or {}).items():
            for row in (entry or {}).get("rows") or ():
                place = name, str(row["method"]), str(row["backbone"])
                rows.setdefault(place, dict(zip(("task", "method", "backbone"), place, strict=True)))[axis] = row
    axes = [axis for axis in AXES if any(axis in row for row in rows.values())]
    if not axes:
        return []
    columns: list[Column] = [(f"{AXES[axis]}\n(95 % CI)", _per_correct(axis)) for axis in axes]
    best: Column = ("on the frontier of", lambda row: ", ".join(AXES[axis] for axis in axes if _is_best(row, axis)))
    return [grid(rows.values(), (TASK, METHOD, BACKBONE, *columns, best), 3)]


def _is_best(row: Entry, axis: str) -> bool:
    return bool((row.get(axis) or {}).get("on_frontier"))


def _per_correct(axis: str) -> Callable[[Entry], str]:
    """A cell with a cost per correct answer and its interval."""

    def cell(row: Entry) -> str:
        value, low, high = ((row.get(axis) or {}).get(key) for key in ("per_correct", "ci_low", "ci_high"))
        if value is None:
            return "n/a"
        return f"{number(value)}\n({_end(low)} to {_end(high)})" if low is not None else number(value)

    return cell


def _end(value: float | None) -> str:
    """An end of an interval; a row that may have no right answer at all has no upper one."""
    return "∞" if value is None else number(value)


def _sensitivity(tasks: Tasks) -> list[Block]:
    """What truncated answers do to accuracy."""
    rows = [row for row in _entries(tasks, "truncation") if row.get("n_truncated")]
    columns = (
        *(TASK, METHOD, BACKBONE, ("truncated", text_of("n_truncated")), ("accuracy %", _share("accuracy"))),
        *(("without them %", _share("accuracy_without")), ("their text graded %", _share("accuracy_raw"))),
    )
    return [grid(rows, columns, 3)] if rows else []


def _verifiers(tasks: Tasks) -> list[Block]:
    """How often verifiers accept right and wrong answers."""
    rows = _entries(tasks, "verifier")
    shares = (("accepts right answers %", _share("true_accept")), ("accepts wrong answers %", _share("false_accept")))
    return [grid(rows, (TASK, METHOD, ("verdicts", text_of("n")), *shares), 2)] if rows else []


def _unidentified(tasks: Tasks) -> list[Block]:
    """Plain sentences on what is left out, each once with its tasks."""
    found: dict[str, list[str]] = {}
    for name, task in tasks.items():
        for sentence in task.get("not_identified") or ():
            found.setdefault(str(sentence), []).append(name)
    return [Bullets([f"{', '.join(names)}: {sentence}" for sentence, names in found.items()])] if found else []
