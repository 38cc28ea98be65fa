"""The pictures: drawn, the same text each time, in variable colours, with numbers that are right and labels apart."""

from __future__ import annotations

import itertools
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest

from evals.report.canvas import Picture, picture_text, room
from evals.report.labels import Box, Point, distance, place, strays
from evals.report.marks import COORDINATOR, OTHER, Key
from evals.report.palette import PALETTE
from evals.report.plots import Dot, _draw_frontier, accuracy_cost
from evals.report.plots_difficulty import difficulty, gains, interaction, interacts
from evals.report.plots_training import Training, choices, training
from evals.report.plots_use import Use, failures, latency, latency_bin, quantiles, seconds, use
from tests.evals.report.support import summarise
from trinity.types import Record

MakeRecord = Callable[..., Record]
Generations = list[dict[str, Any]]

USES = Counter({
    Use("coordinator/sampled", "large", "worker", 0): 30,
    Use("coordinator/sampled", "small", "thinker", 0): 10,
    Use("coordinator/sampled", "large", "verifier", 1): 200,
    Use("coordinator/sampled", "small", "verifier", 1): 1,
    Use("coordinator/argmax", "large", "worker", 0): 12,
})  # fmt: skip
LATENCY = {"large": {latency_bin(2.0): 90, latency_bin(30.0): 10}, "small": {latency_bin(0.2): 5}}
CELLS = (("a", 0.25, 0.1, 0.4), ("b", -0.125, -0.3, 0.1), ("c", None, None, None))
ANALYSIS: dict[str, Any] = {
    "pool_kind": "recorded",
    "reference": "best_single",
    "tasks": {
        "sums": {
            "difficulty": {
                "quartiles": [
                    {"method": method, "backbone": "b", "quartile": quartile, "n_items": 5, "difficulty_mean": 0.0,
                     "accuracy": None if method == "vote" else 0.9 - quartile / 5, "ci_low": 0.1, "ci_high": 0.95}
                    for method in ("single", "coordinator x", "best_single", "vote")
                    for quartile in range(4)
                ],
                "gains": [
                    {"method": method, "quartile": quartile, "difference": 0.1, "ci_low": low, "ci_high": 0.23}
                    for method, low in (("vote", None), ("coordinator x", -0.1), ("cot", 0.05))
                    for quartile in (0, 3)
                ],
            },
            "interaction": [
                {"method": "coordinator x", "backbone": backbone, "difference": value, "ci_low": low, "ci_high": high}
                for backbone, value, low, high in CELLS
            ],
        },
        "empty": {"difficulty": {"quartiles": []}, "interaction": []},
    },
}  # fmt: skip


def all_pictures(summary: dict[str, Any], generations: Generations) -> list[Picture | None]:
    """Every kind of picture."""
    found = Training(generations, {0: Counter(a=3, b=1)}, {0: Counter(worker=4)})
    return [
        accuracy_cost(summary),
        training("coordinator", found, "live"),
        choices("coordinator", found, "live"),
        use(USES, summary),
        latency(LATENCY, summary),
        failures(summary, {"timeout": 3}),
        difficulty(ANALYSIS),
        gains(ANALYSIS),
        interaction(ANALYSIS),
    ]


@pytest.fixture(scope="module")
def pictures(summary: dict[str, Any], generations: Generations) -> list[Picture | None]:
    """Every kind of picture of the small run."""
    return all_pictures(summary, generations)


def texts(picture: Picture | None) -> list[str]:
    """The texts of a picture, in the order in which they were drawn; its text is well-formed."""
    assert picture is not None
    root = ET.fromstring(picture.svg)
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


def settings() -> dict[str, Any]:
    """Matplotlib's settings; reading the backend would choose one."""
    return {str(key): mpl.rcParams[key] for key in mpl.rcParams if key != "backend"}


def test_pictures_are_drawn(pictures: list[Picture | None]) -> None:
    """Each is a well-formed SVG of one width with texts and a spoken name; its caption begins with the kind of pool."""
    for found in pictures:
        assert found is not None
        assert texts(found)
        root = ET.fromstring(found.svg)
        assert root.get("width") == "460.8pt"
        assert str(root.get("aria-label")).startswith(f"{found.heading}. ")
        assert re.match(r"(Live|Recorded) pool", found.caption)


def test_pictures_are_the_same_text_each_time(
    pictures: list[Picture | None], summary: dict[str, Any], generations: Generations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's matplotlib settings neither shape the pictures nor are changed by them, and pyplot is not needed."""
    monkeypatch.setitem(mpl.rcParams, "font.size", 31.0)
    monkeypatch.setitem(mpl.rcParams, "lines.linewidth", 9.0)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    before = settings()
    assert all_pictures(summary, generations[::-1]) == pictures
    assert settings() == before


def test_pictures_name_no_library_or_time(pictures: list[Picture | None]) -> None:
    """Nothing in the text tells matplotlib or a date, and there is no style sheet that a page would obey."""
    for found in pictures:
        assert found is not None
        assert not re.search(r"matplotlib|<style|<metadata|<!--|20\d\d-", found.svg, re.IGNORECASE)


def test_colours_are_variables(pictures: list[Picture | None]) -> None:
    """Every colour is a variable of the palette with its light form behind it; none stands by itself."""
    for found in pictures:
        assert found is not None
        rest = re.sub(r"var\(--([a-z]+), (#[0-9a-f]{6})\)", lambda one: check(one[1], one[2]), found.svg)
        assert not re.search(r"(fill|stroke): #", rest)


def check(name: str, light: str) -> str:
    """A variable has the light form of its name's colour behind it."""
    assert PALETTE[name].light == light
    return ""


def test_ids_of_two_pictures_do_not_meet(pictures: list[Picture | None]) -> None:
    """All pictures can stand in one page: what they refer to is in themselves, and no name is there twice."""
    names = [set(re.findall(r'id="([^"]*)"', found.svg)) for found in pictures if found]
    assert sum(map(len, names)) == len(set.union(*names)) > 8
    for found, own in zip([found for found in pictures if found], names, strict=True):
        assert set(re.findall(r'(?:url\(#|href="#)([^")]*)', found.svg)) <= own


def test_nothing_to_draw_is_no_picture(make_record: MakeRecord) -> None:
    """Without graded rows, generations, choices, times, failures or an analysis there is no empty frame but None."""
    empty = summarise([make_record(None)])
    assert accuracy_cost(empty) is None
    assert training("c", Training([]), "live") is None
    assert choices("c", Training([]), "live") is None
    assert use({}, empty) is None
    assert latency({}, empty) is None
    assert failures(summarise([make_record(1.0), make_record(0.0, item_id="2")]), {}) is None
    assert difficulty({}) is None
    assert gains({"tasks": {"sums": {"difficulty": {"gains": []}}}}) is None
    assert interaction({"tasks": {"sums": {}}}) is None


# ---------------------------------------------------------------------------------------------- accuracy and cost


def test_coordinator_is_drawn_in_its_own_colour(summary: dict[str, Any]) -> None:
    """Vermillion is there with the coordinator and gone without it."""
    without = {**summary, "rows": [row for row in summary["rows"] if row["method"] != "coordinator"]}
    found = [accuracy_cost(rows) for rows in (summary, without)]
    assert [bool(picture and "--vermillion" in picture.svg) for picture in found] == [True, False]


@pytest.mark.parametrize("name", ["$x_2$ $", "日本語 😀\ud800\n<b>" + "x" * 200, '</svg><script>x</script>"', "a -- b"])
def test_hostile_names_can_be_drawn(make_record: MakeRecord, name: str) -> None:
    """Formulas, missing glyphs, surrogates and markup raise no error or warning (an error here) and stay text."""
    records = [make_record(1.0, variant=name, experiment=name, method=method) for method in ("single", "coordinator")]
    found = summarise(records)
    for picture in (accuracy_cost(found), use({Use(f"c/{name}", name, "worker", 0): 1}, found)):
        assert "".join(texts(picture))
        assert picture is not None
        assert "<script" not in picture.svg
    assert "$" not in picture_text(name).replace(r"\$", "")


@pytest.mark.parametrize("costs", [(0.0, 0.0), (0.0, 5.0), (1.0, 1e6), (3.0, 3.0)])
def test_any_costs_can_be_drawn(make_record: MakeRecord, costs: tuple[float, float]) -> None:
    """Free methods, equal costs and costs of very different size give a picture."""
    records = [
        make_record(1.0, variant=str(place), cost_usd=None, gflop=None, weighted_tokens=cost)
        for place, cost in enumerate(costs)
    ]
    assert accuracy_cost(summarise(records))


def test_the_frontier_is_drawn() -> None:
    """Steps by cost, each more accurate than every cheaper one, up to the right edge; equal points are one step."""
    from matplotlib.figure import Figure

    points = [(5.0, 0.9), (1.0, 0.5), (2.0, 0.4), (2.0, 0.7), (9.0, 0.9), (1.0, 0.3), (7.0, 0.95), (7.0, 0.95)]
    axes = Figure().add_subplot()
    axes.set_xlim(0, 10)
    _draw_frontier(axes, [Dot(cost, {"accuracy": accuracy}, "") for cost, accuracy in points])
    (line,) = axes.lines
    assert dict(np.asarray(line.get_xydata()).tolist()) == pytest.approx({1.0: 50, 2.0: 70, 5.0: 90, 7.0: 95, 10.0: 95})


def many(make_record: MakeRecord, n_backbones: int) -> dict[str, Any]:
    """A summary of three methods on some backbones, each dearer and better than the one before, and a coordinator."""
    rows = [(method, f"b{n}", 3 * n + place) for n in range(n_backbones) for place, method in enumerate(METHODS)]
    records = [
        make_record(float(item < 5 + step), method=method, variant=name, backbone=name, item_id=str(item),
                    weighted_tokens=100 + 10 * step, cost_usd=None, gflop=None)
        for method, name, step in [*rows, ("coordinator", "sampled", 3 * n_backbones)]
        for item in range(5 + 3 * n_backbones)
    ]  # fmt: skip
    return summarise(records, manifest={"agents": [{"name": f"b{n}", "model": f"b{n}"} for n in range(n_backbones)]})


METHODS = ("task_only", "cot", "debate")


def test_many_rows_have_a_key(make_record: MakeRecord) -> None:
    """Of 22 points on the frontier and off it, colours and shapes are told below; few points have their names alone."""
    few, lots = (accuracy_cost(many(make_record, n)) for n in (4, 7))
    assert few is not None
    assert lots is not None
    assert "cot" not in texts(few)
    assert {"cot b0", "coordinator sampled"} <= set(texts(few))
    assert {*METHODS, *(f"b{n}" for n in range(7)), "coordinator sampled"} <= set(texts(lots))
    assert "A colour is a backbone, a shape a method" in lots.caption
    assert "A colour is" not in few.caption
    heights = [float(str(ET.fromstring(picture.svg).get("height")).removesuffix("pt")) for picture in (few, lots)]
    assert heights[1] > heights[0] + 20


def test_points_off_the_frontier_have_no_label_among_many(make_record: MakeRecord) -> None:
    """Colour and shape tell them; the frontier and the coordinator are named."""
    found = many(make_record, 7)
    worse = {**found["rows"][0], "method": "debate", "variant": "b0", "backbone": "b0", "weighted_tokens_mean": 900.0}
    shown = texts(accuracy_cost({**found, "rows": [*found["rows"], worse]}))
    assert shown.count("debate b0") == 1
    assert "coordinator sampled" in shown


def test_a_key_tells_backbones_of_several_methods() -> None:
    """An agent of one method and a coordinator keep their own marks; the seventh backbone has no colour of its own."""
    pairs = [(method, f"b{n}") for n in range(8) for method in METHODS]
    rows = [{"method": method, "variant": name, "backbone": name} for method, name in [*pairs, ("vote", "x")]]
    key = Key.of(rows)
    assert list(key.shapes) == list(METHODS)
    assert len(set(key.shapes.values())) == 3
    assert len({key.colours[f"b{n}"] for n in range(6)}) == 6
    assert key.colours["b6"] == key.colours["b7"] == "soft"
    assert key.mark(rows[0]).shape == key.shapes["task_only"]
    assert key.mark(rows[-1]) == OTHER
    assert key.mark({"method": "coordinator_w0.1", "variant": "sampled", "backbone": "b0"}) == COORDINATOR


# ------------------------------------------------------------------------------------------------------- training


def test_training_counts_as_the_console_counts(generations: Generations) -> None:
    """The caption adds up episodes and calls of the generations, which are numbered from 1."""
    found = training("coordinator", Training(generations), "scripted")
    assert found is not None
    assert found.caption == "Scripted pool, coordinator: 72 episodes and 180 calls before the test."
    assert {"1", "2", "3"} <= set(texts(found))
    assert "favourite, validation" in texts(found)


@pytest.mark.parametrize("n", [1, 200])
def test_few_and_many_generations_can_be_drawn(generations: Generations, n: int) -> None:
    """One generation, and more than there are bars for; without a validation none is in the legend."""
    many = [{**generations[0], "index": place} for place in range(n)]
    shares = {place: Counter(a=2, b=1) for place in range(n)}
    picture = training("c", Training(many), "live")
    assert "favourite, validation" not in texts(picture)
    assert len(picture.svg if picture else "") < 50_000
    drawn = choices("c", Training(many, shares, {place: Counter(worker=3) for place in range(n)}), "live")
    assert {"a", "b", "worker"} <= set(texts(drawn))


def test_agents_without_a_colour_are_others() -> None:
    """The six agents that are chosen most have their names; what is left of each generation is called others."""
    counts = {0: Counter({f"agent{place}": 10 - place for place in range(8)})}
    found = texts(choices("c", Training([], counts, {0: Counter(worker=52)}), "live"))
    assert [name for name in found if name.startswith(("agent", "others"))].count("others") == 1
    assert "agent5" in found
    assert "agent6" not in found


# ------------------------------------------------------------------------------------------ use, latency, failures


def test_use_tells_shares_of_a_turn(summary: dict[str, Any]) -> None:
    """Of 40 first choices 30 are 75 %; of 201 second ones 1 is less than 1 %; a policy's turns are its own."""
    found = texts(use(USES, summary))
    assert [text for text in found if re.fullmatch(r"<?\d+", text) and text not in {"1", "2"}] == [
        "25",
        "75",
        "100",
        "<1",
        "100",
    ]
    assert "coordinator sampled" in found
    assert found.index("coordinator sampled") < found.index("coordinator argmax")


def test_late_turns_share_a_column(summary: dict[str, Any]) -> None:
    """Of twenty turns eight columns are shown, the last one for the eighth and all later ones."""
    found = texts(use({Use("c/s", "large", "worker", turn): 1 for turn in range(20)}, summary))
    assert "8+" in found
    assert "9" not in found


def test_quantiles_of_binned_times() -> None:
    """Of 90 calls of two seconds and 10 of thirty, median and 95 % are those, to within half a bin (1.5 %)."""
    assert quantiles(LATENCY["large"], (0.05, 0.5, 0.95)) == pytest.approx([2.0, 2.0, 30.0], rel=0.015)


def test_latency_says_what_it_is_of() -> None:
    """90 + 10 + 5 calls, and nobody may read retries or waits into the bars: neither is a part of a call's time."""
    shown = latency(LATENCY, {"pool_kind": "live"})
    assert shown is not None
    assert "105 calls, each timed by its last attempt alone, without retries and waits." in shown.caption


def test_times_have_a_unit() -> None:
    """Seconds, milliseconds and microseconds, three digits each."""
    assert [seconds(value) for value in (61.0, 1.234, 0.25, 0.0000326)] == ["61 s", "1.23 s", "250 ms", "32.6 µs"]
    assert "2 s" in texts(latency(LATENCY, {"pool_kind": "live"}))


def test_failures_are_named(make_record: MakeRecord) -> None:
    """Statuses that occurred are in the legend, failed attempts have their number, the most frequent kind first."""
    records = [
        make_record(0.0, item_id=str(place), status=status)
        for place, status in enumerate(["truncated", "refused", "wrong"])
    ]
    found = failures(summarise(records), {"timeout": 7, "busy": 1200})
    assert found is not None
    said = texts(found)
    assert {"truncated", "refused", "7", "1,200", "single small"} <= set(said)
    assert "no_answer" not in said
    assert said.index("busy") < said.index("timeout")
    assert texts(failures(summarise([make_record(1.0)]), {"timeout": 7}))[-1] == "7"


# ---------------------------------------------------------------------------------------------------- the analysis


def test_difficulty_has_a_line_per_row() -> None:
    """Agents alone stand by their backbone, others by method and backbone; the four quarters are named once a task."""
    found = texts(difficulty(ANALYSIS))
    assert {"b", "coordinator x · b", "best_single · b", "vote · b"} <= set(found)
    assert [found.count(name) for name in ("easiest", "2nd quarter", "3rd quarter", "hardest", "sums", "empty")] == [
        1
    ] * 5 + [0]


def test_gains_have_a_line_per_method() -> None:
    """Methods in the order of tables, the four quarters, and axes of whole five points that hold every interval."""
    found = gains(ANALYSIS)
    assert found is not None
    said = texts(found)
    assert [name for name in said if name in ("cot", "vote", "coordinator x")] == ["cot", "vote", "coordinator x"]
    assert (said.count("+25"), said.count("−25"), said.count("hardest")) == (4, 4, 1)
    assert "minus that of the best single agent" in found.caption
    assert "minus that of cot" in (gains({**ANALYSIS, "reference": "cot"}) or found).caption


def test_the_reference_has_its_colour() -> None:
    """Green is whichever method differences are taken to."""
    rows = [{**row, "method": "cot"} for row in ANALYSIS["tasks"]["sums"]["difficulty"]["quartiles"][:4]]
    task = {"difficulty": {"quartiles": rows}}
    for reference, colour in (("cot", "green"), ("vote", "blue")):
        picture = difficulty({"reference": reference, "tasks": {"sums": task}})
        assert picture is not None
        assert f"--{colour}" in picture.svg


def test_interaction_has_a_number_per_cell() -> None:
    """Differences in points with their sign, bold where the interval leaves out 0; unknown ones are n/a."""
    found = interaction(ANALYSIS)
    assert found is not None
    assert {"+25.0", "−12.5", "n/a", "coordinator x", "a", "b", "c"} <= set(texts(found))
    assert re.search(r"font-weight: 700[^>]*>\+25\.0<", found.svg)
    assert not re.search(r"font-weight: 700[^>]*>−12\.5<", found.svg)


def test_one_backbone_a_method_is_no_interaction() -> None:
    """Agents alone on two backbones, or two methods on one each, tell nothing of an interaction."""
    rows = [{"method": "single", "backbone": name} for name in "ab"]
    rows += [{"method": "vote", "backbone": "a"}, {"method": "coordinator", "backbone": "b"}]
    assert not interacts(rows)
    assert interacts([*rows, {"method": "vote", "backbone": "b"}])


# ---------------------------------------------------------------------------------------------------------- labels


def test_labels_do_not_overlap() -> None:
    """Fourteen labels, half of them around one crowd of points, cover no label, no marker, and stay in the frame."""
    stream = random.Random(2)
    frame = Box(0, 0, 850, 480)
    crowd = [(300 + 6 * number, 240 + stream.uniform(-8, 8)) for number in range(7)]
    spread = [(stream.uniform(30, 820), stream.uniform(30, 450)) for _ in range(7)]
    points = [Point(x, y, stream.uniform(50, 170), 14) for x, y in crowd + spread]
    markers = [Box(point.x - 7, point.y - 7, point.x + 7, point.y + 7) for point in points]
    boxes = place(points, frame, markers, [])
    assert all(first.overlap(second) == 0 for first, second in itertools.combinations(boxes, 2))
    assert all(box.overlap(marker) == 0 for box in boxes for marker in markers)
    assert all(box.outside(frame) == pytest.approx(0) for box in boxes)


def test_a_lone_label_stands_right_beside_its_point() -> None:
    """With nothing in the way the label starts within ten pixels of the point."""
    point = Point(100, 100, 80, 14)
    (box,) = place([point], Box(0, 0, 400, 400), [], [])
    assert distance(box, point) <= 10
    assert box.left > 100
    assert strays(box, point, [Point(105, 100, 1, 1)]) == 1
    assert strays(box, point, [Point(10, 100, 1, 1)]) == 0


def test_room_is_for_the_longest_line() -> None:
    """A label of two lines needs what its longer line needs; more letters need more."""
    assert room(["abcdef\na"]) == room(["abcdef"]) > room(["abc"]) > room([])
