"""What `analysis.json` says, as tables: differences, difficulty, models, costs, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evals.report.blocks import (
    BACKBONE,
    ITEMS,
    METHOD,
    P_VALUES,
    POINTS,
    TASK,
    Block,
    Bullets,
    Column,
    Entry,
    Grid,
    Part,
    Text,
    grid,
    in_order,
    interval_of,
    number_of,
    p_of,
    share_of,
    text_of,
)
from evals.report.canvas import Picture, pool_caption
from evals.report.content_costs import Tasks, cost_parts
from evals.report.plots_difficulty import QUARTILES, against, interacts
from evals.report.table import MOST_VERDICTS, verdict
from evals.report.text import clean, detectable_points, number, percent
from evals.stats.methods import known


def analysis_parts(analysis: Mapping[str, Any], pictures: Mapping[str, Picture]) -> list[Part]:
    """The parts of a report that come of its analysis; none where there is none."""
    tasks: Tasks = analysis.get("tasks") or {}
    reference = against(analysis)
    found = [
        Part(f"Against {reference}", _against(tasks, reference)),
        Part("Difficulty", _difficulty(tasks, reference, pictures)),
        Part("Mixed models of difficulty", _models(tasks, analysis.get("reference"))),
        Part("Method and backbone", _interaction(tasks, reference, pictures)),
        *cost_parts(tasks, reference),
        Part("Truncated answers", _sensitivity(tasks, reference)),
        Part("Verifiers", _verifiers(tasks)),
        Part("What this analysis cannot tell", _unidentified(tasks)),
    ]
    kind = Text(f"{pool_caption(analysis.get('pool_kind'))}, test items.")
    return [part._replace(blocks=[kind, *part.blocks]) for part in found if part.blocks]


def _entries(tasks: Tasks, key: str) -> list[Entry]:
    """The entries of all tasks under a key, each with its task, methods in the order of tables."""
    return in_order({"task": name, **entry} for name, task in tasks.items() for entry in task.get(key) or ())


CHANGED: Sequence[Column] = (("repaired", text_of("wins")), ("broken", text_of("losses")))


def over_backbones(analysis: Mapping[str, Any]) -> list[str]:
    """Sentences on each method over all backbones, a task at a time, where it was played on several.

    What holds of a method may be shown of none of its rows, each of which has fewer answers and more rows beside it.
    """
    tasks = {name: task for name, task in (analysis.get("tasks") or {}).items() if len(_played_on(task)) > 1}
    told = []
    for name, task in tasks.items():
        rows = [row for row in task["pooled"] if known(row["method"]).role == "method" and row["p_holm"] is not None]
        told += [
            f"{row['method']} on {name}, over all backbones ({_each(task, row['method'])}): "
            + verdict(row["difference"], (row["ci_low"], row["ci_high"]), row["p_holm"], row["n_items"])
            for row in rows
        ]
    if not told:
        return []
    family = "Of single backbones, each tested beside the rows of all methods and backbones, over all tasks:"
    return [*(clean(sentence, 600) for sentence in told), family]


def _each(task: Mapping[str, Any], method: str) -> str:
    """A method's difference on each backbone, of many the lowest and the highest: their mean may hold of none."""
    rows = [row for row in task["interaction"] if row["method"] == method and row["difference"] is not None]
    told = [f"{row['backbone']} {percent(row['difference'], signed=True)}" for row in sorted(rows, key=_points)]
    return ", ".join(told) if len(told) <= MOST_VERDICTS else f"{told[0]} to {told[-1]}"


def _points(row: Entry) -> float:
    return float(row["difference"])


def _played_on(task: Mapping[str, Any]) -> set[str]:
    """Backbones on which a method was compared."""
    return {row["backbone"] for row in task.get("interaction") or ()}


def _against(tasks: Tasks, reference: str) -> list[Block]:
    """Differences over all models, and what they would take to be seen."""
    pooled, detectable = _entries(tasks, "pooled"), _entries(tasks, "detectable")
    blocks: list[Block] = []
    if pooled:
        blocks += [
            grid(pooled, (TASK, METHOD, ITEMS, POINTS, *P_VALUES, *CHANGED, ("tied", text_of("ties"))), 2),
            Text(
                "Paired by item, over all backbones. Repaired: answers (one an item and backbone, replicates averaged) "
                f"that score higher than those of {reference}; broken: lower. Holm's p allows for all methods of one "
                "task."
            ),
        ]
    if detectable:
        needed: list[Column] = [
            (f"items for\n{100 * float(size):g} points", _needed(size)) for size in _sizes(detectable)
        ]
        seen: Column = (
            "smallest difference\nthat would be seen",
            lambda entry: detectable_points(entry.get("difference")),
        )
        blocks += [
            grid(detectable, (TASK, METHOD, ITEMS, seen, *needed), 2),
            Text(
                "A true difference of the size shown would be found by four in five runs of so many items (paired "
                "t-test, two-sided 5 %); smaller ones need the items shown beside it."
            ),
        ]
    return blocks


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
    blocks.append(Text("Negative: harder items are answered less often. Holm's p allows for all tasks."))
    blocks += [pictures["difficulty"]] if "difficulty" in pictures else []
    gains = in_order({"task": name, **entry} for name, each in known.items() for entry in each.get("gains") or ())
    if gains:
        blocks += [
            *([pictures["gains"]] if "gains" in pictures else []),
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
    return lambda row: POINTS[1](row.get(place) or {})


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
    accuracy: Column = ("accuracy %", share_of("accuracy"))
    blocks.append(grid(cells, (TASK, METHOD, BACKBONE, ITEMS, accuracy, POINTS, *P_VALUES, *CHANGED), 3))
    blocks.append(Text("Repaired and broken count items. Holm's p allows for all methods and backbones of one task."))
    if left_out:
        blocks += [
            Text(f"The difference to {reference} when one backbone is left out:"),
            grid(left_out, (TASK, METHOD, ("without", text_of("without")), POINTS), 3),
        ]
    return blocks


def _models(tasks: Tasks, reference: object) -> list[Block]:
    """Odds ratios, tests and fits of the mixed-effects models."""
    models = {name: task["models"] for name, task in tasks.items() if task.get("models")}
    ratios = [
        {"task": name, "model": model, "reference": found.get("reference"), **row}
        for name, found in models.items()
        for model, key in (("M1", "odds_ratios"), ("M2", "slope_ratios"), ("M3", "odds_ratios_by_backbone"))
        for row in found.get(key) or ()
    ]
    tests, fits = (
        [{"task": name, **row} for name, found in models.items() for row in found.get(key) or ()]
        for key in ("tests", "fits")
    )
    if not (ratios or tests or fits):
        return []
    told = [f"Mixed-effects logistic models of a right answer, items random. {_told(bool(ratios))}"]
    told += _stand_ins(models, reference) if ratios else []
    told.append(
        "They take the answers to an item as drawn one by one: where methods share samples (docs/baselines.md) they "
        "reject M0 too often, and the paired differences count."
    )
    tables = [draw(rows) for draw, rows in ((_odds, ratios), (_tests, tests), (_fits, fits)) if rows]
    return [Text(" ".join(told)), *tables]


def _told(ratios: bool) -> str:  # noqa: FBT001 - whether there are odds ratios
    """How to read the odds ratios."""
    if not ratios:
        return "No odds ratio can be estimated from these answers; the models can still be compared."
    return (
        "M1: odds ratio of a method to the one that it stands against; M2: by how much one standard deviation of "
        "difficulty multiplies it; M3: within each backbone. Holm's p allows for all ratios of a model and task."
    )


def _stand_ins(models: Mapping[str, Any], reference: object) -> list[str]:
    """A sentence for each method that stands in the place of the analysis's reference, with its tasks."""
    found: dict[str, list[str]] = {}
    for name, entry in models.items():
        if entry.get("reference") not in (None, reference):
            found.setdefault(str(entry["reference"]), []).append(name)
    return [
        f"In {', '.join(names)} {method} stands in the place of {reference}, which is not among the models' methods."
        for method, names in found.items()
    ]


def _fits(fits: Sequence[Entry]) -> Grid:
    """Which models were fitted, and how well."""
    columns: Sequence[Column] = (
        *((TASK, ("model", text_of("model")), ("formula", text_of("formula")), ("rows", text_of("n_rows")))),
        ("log-likelihood", lambda fit: f"{fit['log_lik']:.2f}".replace("-", "−")),
        ("AIC", lambda fit: f"{fit['aic']:.1f}"),
        ("variances", lambda fit: "\n".join(map(_variance, fit["variances"]))),
    )
    return grid(fits, columns, 3)


def _variance(row: Entry) -> str:
    """One variance between groups."""
    return f"{row['term']} {'≈ 0' if row.get('at_boundary') else number(row['estimate'])}"


def _odds(ratios: Sequence[Entry]) -> Grid:
    """Odds ratios of all models."""
    ratio: Column = ("odds ratio\n(95 % CI)", _ratio)
    within: Column = ("within", lambda row: str(row.get("backbone") or "all backbones"))
    against: Column = ("against", text_of("reference"))
    return grid(ratios, (TASK, ("model", text_of("model")), METHOD, against, within, ratio, *P_VALUES), 5)


def _ratio(row: Entry) -> str:
    return f"{number(row['ratio'])}\n({number(row['ci_low'])} to {number(row['ci_high'])})"


def _tests(tests: Sequence[Entry]) -> Grid:
    """Likelihood-ratio tests."""
    pair: Column = ("test", lambda row: f"{row['smaller']} in {row['larger']}")
    return grid(tests, (TASK, pair, ("χ²", number_of("chi2")), ("df", text_of("df")), ("p", p_of("p"))), 2)


def _sensitivity(tasks: Tasks, reference: str) -> list[Block]:
    """What truncated answers do to accuracy and to differences."""
    rows = [row for row in _entries(tasks, "truncation") if _owes(row)]
    if not rows:
        return []
    kinds = (("", ""), ("without\nthem", "_without"), ("their text\ngraded", "_raw"))
    accuracies = [(title or "accuracy %", share_of(f"accuracy{kind}")) for title, kind in kinds]
    differences = [(title or "difference", share_of(f"difference{kind}", signed=True)) for title, kind in kinds]
    columns = (TASK, METHOD, BACKBONE, ("truncated", text_of("n_truncated")), *accuracies, *differences)
    reading = (
        f"Accuracy and difference to {reference} in points, as everywhere (truncated answers are wrong), without these "
        "episodes, and with their text graded as it stands: conclusions that hold in all three owe nothing to "
        "truncation."
    )
    return [grid(rows, columns, 3), Text(reading)]


def _owes(row: Entry) -> bool:
    """Whether a row's answers, or those that it is compared to, were truncated."""
    return bool(row.get("n_truncated")) or row.get("difference") != row.get("difference_without")


def _verifiers(tasks: Tasks) -> list[Block]:
    """How often verifiers accept right and wrong answers, and what their acceptance is worth."""
    rows = _entries(tasks, "verifier")
    if not rows:
        return []
    shares = [
        (f"{title}\n(95 % CI)", interval_of(key, key))
        for title, key in (
            *(("accepts right\nanswers %", "true_accept"), ("accepts wrong\nanswers %", "false_accept")),
            ("of the accepted,\nright %", "precision"),
        )
    ]
    columns = (TASK, METHOD, ("verdicts", text_of("n")), ("on right\nanswers", text_of("n_correct")), *shares)
    reading = (
        "A verifier that tells nothing accepts right and wrong answers equally often. Wilson's intervals; verdicts on "
        "one item count as independent."
    )
    return [grid(rows, columns, 2), Text(reading)]


def _unidentified(tasks: Tasks) -> list[Block]:
    """Plain sentences on what is left out, each once with its tasks."""
    found: dict[str, list[str]] = {}
    for name, task in tasks.items():
        for sentence in task.get("not_identified") or ():
            found.setdefault(str(sentence), []).append(name)
    return [Bullets([f"{', '.join(names)}: {sentence}" for sentence, names in found.items()])] if found else []
