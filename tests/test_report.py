"""`python -m trinity.report`: reports and cards of finished runs, and one line for everything else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.commands import TINY, command, only_run
from tests.inprocess import played
from trinity.runs.records import read_records


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the tiny experiment was run."""
    folder = tmp_path_factory.mktemp("work")
    done = played("trinity.run", *TINY, "data.n_test=2", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(folder: Path) -> Path:
    """The finished run."""
    return only_run(folder).relative_to(folder)


def report(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    done = played("trinity.report", *words, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def test_reports_are_written_anew(folder: Path, run: Path) -> None:
    """What the run wrote at its end comes out again, byte for byte, from the ledger alone; the paths are printed."""
    files = [run / "report.md", run / "report.html"]
    assert report(folder, str(run))[0] == 0  # with the analysis, where the run itself made none
    before = {file: (folder / file).read_bytes() for file in files}
    for file in files:
        (folder / file).unlink()
    shutil.rmtree(folder / run / "report_images")
    assert report(folder, str(run)) == (0, "".join(f"{file}\n" for file in files), "")
    assert {file: (folder / file).read_bytes() for file in files} == before
    assert (folder / run / "report_images" / "accuracy_cost.svg").exists()


def test_the_analysis_is_kept_or_made(folder: Path, run: Path) -> None:
    """Where there is one it is told as it stands; where there is none, or on demand, it is made from the records."""
    path = folder / run / "analysis.json"
    assert report(folder, str(run))[0] == 0
    made = json.loads(path.read_text())
    assert set(made["tasks"]) == {"sums", "words", "plans"}
    made["tasks"] = {"sums": {"not_identified": ["A sentence of its own."]}}
    path.write_text(json.dumps(made))
    assert report(folder, str(run))[0] == 0
    assert "A sentence of its own." in (folder / run / "report.md").read_text()
    assert report(folder, str(run), "--analyse")[0] == 0
    assert "A sentence of its own." not in (folder / run / "report.md").read_text()
    assert set(json.loads(path.read_text())["tasks"]) == {"sums", "words", "plans"}


def test_another_reference_rules_from_then_on(folder: Path, run: Path, tmp_path: Path) -> None:
    """Summary, analysis and report are told by it, the manifest says so, and a replay finds all of it again."""
    shutil.copytree(folder / run, tmp_path / run)
    assert report(tmp_path, str(run), "--reference", "lookup")[0] == 0
    read = [json.loads((tmp_path / run / f"{name}.json").read_text()) for name in ("summary", "analysis", "manifest")]
    assert [read[0]["reference"], read[1]["reference"]] == ["lookup", "lookup"]
    rows = {(row["method"], row["variant"]): row for row in read[0]["rows"] if row["task"] == "all"}
    assert rows["lookup", ""]["reference"]
    assert rows["coordinator", "sampled"]["diff"] == pytest.approx(
        rows["coordinator", "sampled"]["accuracy"] - rows["lookup", ""]["accuracy"]
    )
    assert read[2]["changes"][-1]["note"] == "differences are taken to lookup"
    told = (tmp_path / run / "report.md").read_text()
    assert "vs lookup" in told
    assert "against the best single agent" not in told
    done = played("trinity.replay", str(run), "--out", "again", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reference_that_is_not_there_changes_nothing(folder: Path, run: Path) -> None:
    """Its name is answered by the nearest one, before anything is written."""
    before = {file: file.read_bytes() for file in (folder / run).glob("*.json")}
    code, shown, error = report(folder, str(run), "--reference", "lokup")
    assert (code, shown) == (2, "")
    assert "has no row of lokup; did you mean 'lookup'?" in error
    assert {file: file.read_bytes() for file in before} == before


def test_the_same_reference_is_the_same_summary(folder: Path, run: Path, tmp_path: Path) -> None:
    """Told by what it was told by, a run says the same, to the byte."""
    shutil.copytree(folder / run, tmp_path / run)
    assert report(tmp_path, str(run), "--reference", "best_single")[0] == 0
    for name in ("summary.json", "report.md"):
        assert (tmp_path / run / name).read_bytes() == (folder / run / name).read_bytes()


def test_a_card_is_written(folder: Path, run: Path) -> None:
    """Below paper/runs or where one wants it, with every record of the run; the reports are left alone."""
    before = (folder / run / "report.md").stat().st_mtime_ns
    assert report(folder, str(run), "--card", "tiny") == (0, "paper/runs/tiny\n", "")
    assert report(folder, str(run), "--card", "tiny", "--cards-in", "cards") == (0, "cards/tiny\n", "")
    kept = [list(read_records(folder / place / "records.parquet")) for place in (run, "paper/runs/tiny", "cards/tiny")]
    assert kept[0] == kept[1] == kept[2]
    assert (folder / run / "report.md").stat().st_mtime_ns == before


def test_mistakes_are_one_line(folder: Path, run: Path, tmp_path: Path) -> None:
    """No run, an unfinished one, a damaged file, two runs for a card, an unknown option: what is wrong, exit code 2."""
    for name in ("unfinished", "torn", "strange"):
        shutil.copytree(folder / run, tmp_path / name)
    manifest = json.loads((tmp_path / "unfinished" / "manifest.json").read_text())
    (tmp_path / "unfinished" / "manifest.json").write_text(json.dumps({**manifest, "finished": False}))
    (tmp_path / "torn" / "summary.json").write_text("{")
    (tmp_path / "strange" / "summary.json").write_text('{"rows": 5}')
    for words, told in (
        (["nowhere"], "nowhere is no run: it has no manifest.json"),
        (["unfinished"], "this run is not finished; go on with: python -m trinity.run resume=unfinished"),
        (["torn"], "summary.json is damaged"),
        (["strange"], "a file of this run is damaged or of another version"),
        (["torn", "--reference", "cot", "--card", "c"], "changes a run, not its card"),
        (["torn", "strange", "--card", "c"], "a card is of one run, 2 are named"),
        (["torn", "--kard", "c"], "unrecognized arguments: --kard c"),
        (["torn", "--card", "../c"], "cannot name a card"),
    ):
        code, shown, error = report(tmp_path, *words)
        assert (code, shown) == (2, "")
        assert told in error
        assert error.count("\n") == 1


def test_the_command_by_itself(folder: Path) -> None:
    """As a process: help names every option, and nothing heavy is needed for it."""
    done = command("trinity.report", "--help", cwd=folder)
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("--analyse", "--reference", "--card", "--cards-in", "--force"))
