"""The benchmarks' runner: JSON lines on stdout, everything else on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench import __main__ as runner
from tests.bench import help as help_bench


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
    (folder / "b.py").write_text("def main():\n    print('[1]')\n    print('{\"value\": 2}')\n", "utf-8")
    monkeypatch.setattr(runner, "HERE", folder)
    assert runner.main([]) == 1
    captured = capsys.readouterr()
    assert captured.out == '{"value": 2}\n'
    assert captured.err == "noise\nerror: benchmark a ended with exit code 3\n[1]\n"


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
