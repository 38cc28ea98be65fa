"""The pictures: drawn, not blank, equal bytes each time, labels apart."""

from __future__ import annotations

import io
import itertools
import random
import sys
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from evals.report import plots
from evals.report.labels import Box, Point, distance, place, strays
from evals.report.plots import accuracy_cost_png, shown, training_png, use_png
from evals.report.summary import build_summary
from trinity.types import Record

MakeRecord = Callable[..., Record]


Uses = list[tuple[str, str, str]]


def drawn(summary: dict[str, Any], generations: list[dict[str, Any]], uses: Uses) -> list[bytes | None]:
    """All three pictures."""
    return [accuracy_cost_png(summary), training_png(generations, summary), use_png(uses, summary)]


@pytest.fixture(scope="module")
def pictures(summary: dict[str, Any], generations: list[dict[str, Any]], uses: Uses) -> list[bytes | None]:
    """All three pictures of the small run."""
    return drawn(summary, generations, uses)


def pixels(png: bytes | None) -> Any:
    """The picture as an array (height, width, 4)."""
    assert png is not None
    return imread(io.BytesIO(png))


def settings() -> dict[str, Any]:
    """Matplotlib's settings; reading the backend would choose one."""
    return {str(key): mpl.rcParams[key] for key in mpl.rcParams if key != "backend"}


def test_pictures_are_drawn(pictures: list[bytes | None]) -> None:
    """Each picture is 800 to 1000 pixels wide and has many colours, data as well as text."""
    for png in pictures:
        picture = pixels(png)
        assert 800 <= picture.shape[1] <= 1000
        assert len(np.unique(np.rint(picture[..., :3] * 255) @ [1, 256, 65536])) > 50


def test_pictures_are_the_same_bytes_each_time(
    pictures: list[bytes | None],
    summary: dict[str, Any],
    generations: list[dict[str, Any]],
    uses: Uses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The user's matplotlib settings neither shape the pictures nor are changed by them, and pyplot is not needed."""
    monkeypatch.setitem(mpl.rcParams, "font.size", 31.0)
    monkeypatch.setitem(mpl.rcParams, "lines.linewidth", 9.0)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    before = settings()
    assert drawn(summary, generations[::-1], uses[::-1]) == pictures
    assert settings() == before


def test_pictures_bear_no_version_or_time(pictures: list[bytes | None]) -> None:
    """No text chunk names the library or a date."""
    for png in pictures:
        assert png is not None
        assert b"Software" not in png
        assert b"tIME" not in png


def test_nothing_to_draw_is_no_picture(make_record: MakeRecord) -> None:
    """Without graded rows, generations or choices there is no empty panel but None."""
    empty = build_summary([make_record(None)], manifest={}, choices={}, effort={}, totals={})
    assert [accuracy_cost_png(empty), training_png([], empty), use_png([], empty)] == [None] * 3


def test_coordinator_is_drawn_in_its_own_colour(summary: dict[str, Any]) -> None:
    """Vermillion pixels are there with the coordinator and gone without it."""
    without = {**summary, "rows": [row for row in summary["rows"] if row["method"] != "coordinator"]}
    vermillion = np.array([0xD5, 0x5E, 0x00]) / 255
    counts = [
        int((np.abs(pixels(accuracy_cost_png(found))[..., :3] - vermillion).max(axis=2) < 0.01).sum())
        for found in (summary, without)
    ]
    assert counts[0] > 50
    assert counts[1] == 0


@pytest.mark.parametrize("name", ["$x_2$ $", "日本語 😀\ud800\n<b>" + "x" * 200])
def test_hostile_names_can_be_drawn(make_record: MakeRecord, name: str) -> None:
    """A name with formulas, missing glyphs or surrogates raises no error or warning (warnings are errors here)."""
    records = [make_record(1.0, variant=name, experiment=name, method=method) for method in ("single", "coordinator")]
    found = build_summary(records, manifest={}, choices={}, effort={}, totals={})
    assert accuracy_cost_png(found)
    assert use_png([(name, name, "worker")], found)
    assert "$" not in shown(name).replace(r"\$", "")


@pytest.mark.parametrize("costs", [(0.0, 0.0), (0.0, 5.0), (1.0, 1e6), (3.0, 3.0)])
def test_any_costs_can_be_drawn(make_record: MakeRecord, costs: tuple[float, float]) -> None:
    """Free methods, equal costs and costs of very different size give a picture."""
    records = [
        make_record(1.0, variant=str(place), cost_usd=None, gflop=None, weighted_tokens=cost)
        for place, cost in enumerate(costs)
    ]
    assert accuracy_cost_png(build_summary(records, manifest={}, choices={}, effort={}, totals={}))


def test_one_generation_can_be_drawn(summary: dict[str, Any], generations: list[dict[str, Any]]) -> None:
    """The first generation alone, read from a stream, gives a picture."""
    assert training_png(iter(generations[:1]), summary)


def test_training_is_drawn_and_counted_as_the_console_counts(
    summary: dict[str, Any], generations: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generations stand at 1, 2, 3, the validated one at 2, and the caption adds up episodes and calls."""
    lines: dict[str, list[int]] = {}
    captions: list[str] = []

    def keep(figure: Figure) -> bytes:
        for axes in figure.axes:
            lines.update({str(line.get_label()): np.asarray(line.get_xdata()).tolist() for line in axes.lines})
        captions.append(figure.get_supxlabel())
        return b""

    monkeypatch.setattr(plots, "_png", keep)
    training_png(generations, summary)
    assert lines["mean of candidates"] == [1, 2, 3]
    assert lines["favourite on validation items"] == [2]
    assert captions[0].endswith(" · 72 episodes, 180 calls")


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
