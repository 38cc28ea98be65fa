"""The benchmarks' runner: JSON lines on stdout, everything else on stderr."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.bench import __main__ as runner
from tests.bench import help as help_bench
from tests.bench import report as report_bench
from tests.bench import tracker as tracker_bench


def test_benchmarks_are_found() -> None:
    """Every module beside the runner is a benchmark, the runner itself is none."""
    assert "help" in runner.names()
    assert "__main__" not in runner.names()


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name runs nothing and is answered with the right ones."""
    assert runner.main(["halp"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: no benchmark halp; choose from: ")


def test_only_json_reaches_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Noise goes to stderr, and a benchmark that fails does not keep the next one from running."""
    folder = tmp_path / "tests" / "bench"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("def main():\n    print('noise')\n    raise SystemExit(3)\n", "utf-8")
    result = json.dumps({"bench": "b", "value": 2, "unit": "s", "target": "value <= 1", "ok": False, "more": 3})
    (folder / "b.py").write_text(f"def main():\n    print('[1]')\n    print('{result}')\n", "utf-8")
    monkeypatch.setattr(runner, "HERE", folder)
    assert runner.main([]) == 1
    captured = capsys.readouterr()
    assert captured.out == f"{result}\n"
    assert captured.err == "noise\nerror: benchmark a ended with exit code 3\n[1]\nmissed: b: 2 s, value <= 1\n"
    assert runner.main(["b"]) == 0


@pytest.mark.parametrize(
    ("change", "lacking"),
    [({}, []), ({"ok": None, "note": "no R"}, []), ({"ok": None}, ["note"]), ({"ok": None, "note": ""}, ["note"])]
    + [({key: ...}, [key]) for key in runner.KEYS],
)
def test_every_line_has_the_same_keys(
    capsys: pytest.CaptureFixture[str], change: dict[str, Any], lacking: list[str]
) -> None:
    """A line without one of them, or that cannot judge and does not say why, is a fault of its benchmark."""
    found = {"bench": "b", "value": 1, "unit": "s", "target": "value <= 1", "ok": True, **change}
    text = json.dumps({key: value for key, value in found.items() if value is not ...}) + "\n"
    assert runner.forward(text) is bool(lacking)
    captured = capsys.readouterr()
    assert captured.out == text
    assert captured.err == (f"error: the line lacks {', '.join(lacking)}: {text}" if lacking else "")


@pytest.mark.parametrize("browser", [None, "/usr/bin/chromium"])
def test_a_missing_browser_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], browser: str | None
) -> None:
    """Without a browser the report's benchmark has the same lines, one of which cannot judge and says why."""
    monkeypatch.setattr(report_bench, "report", lambda folder: (folder, {"write_s": 30.004, "page_mb": 1.0}))
    monkeypatch.setattr(report_bench, "opening_seconds", lambda *_: 2.5)
    monkeypatch.setattr(shutil, "which", lambda _: browser)
    report_bench.main()
    written, opened = map(json.loads, capsys.readouterr().out.splitlines())
    assert (written["value"], written["ok"], written["page_mb"]) == (30.0, False, 1.0)
    assert (opened["value"], opened["ok"], "note" in opened) == (
        (None, None, True) if browser is None else (2.5, True, False)
    )
    assert set(runner.KEYS) <= set(opened)


def test_the_tracker_is_judged_before_rounding() -> None:
    """A run may end less than ten seconds after its last record; what was said of W&B stands beside the number."""
    late, soon = (tracker_bench.line("x", value, "W&B: offline; wandb sync d", 3.0) for value in (10.0, 9.999))
    assert (late["ok"], soon["ok"], soon["value"]) == (False, True, 10.0)
    assert soon["said"] == "W&B: offline"
    beside = [tracker_bench.line(tracker_bench.FORSAKEN, value, "", 3.0)["ok"] for value in (13.0, 12.999)]
    assert beside == [False, True]
    assert set(runner.KEYS) <= set(soon)


def test_help_is_compared() -> None:
    """The line on --help holds both wall times of real commands and their unit."""
    line = json.loads(json.dumps(help_bench.compare(runs=1)))
    assert (line["bench"], line["unit"]) == ("help", "s")
    assert line["value"] > 0
    assert line["rival_value"] > 0


@pytest.mark.parametrize(
    ("value", "rival", "ok"),
    [(0.5, 0.4, True), (0.8, 0.4, True), (0.8001, 0.4, False), (0.9999, 0.9, True), (1.0, 0.9, False)],
)
def test_help_is_judged_before_rounding(value: float, rival: float, ok: bool) -> None:
    """--help is good below a second and at up to twice the rival's time, and the numbers shown are rounded."""
    line = help_bench.line(value, rival)
    assert line["ok"] is ok
    assert (line["value"], line["rival_value"], line["ratio"]) == (round(value, 3), rival, round(value / rival, 2))
