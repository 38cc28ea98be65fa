"""Run cards: what leaves a run, what does not, and what is never overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trinity.errors import ConfigError, LedgerError
from trinity.runs.card import write_card
from trinity.runs.manifest import FORMAT
from trinity.runs.records import read_records, write_records
from trinity.types import PoolKind, Record, Replicate

MakeRun = Callable[..., Path]
RULES = {"open": "yes", "ids": "ids-only", "closed": "never"}


def record(task: str, kind: PoolKind) -> Record:
    """One right answer."""
    return Record(
        "x/1", "x", "single", "a", "m", "p", kind, task, "test", f"{task}-1", "d", None, None, Replicate("test", 0), 0,
        "correct", 1.0, 1.0, False, f"SECRET {task}", 1, 1, 5, 5, 0, 0, 0, False, 25, None, None, 0.1, ("ab" * 8,),
    )  # fmt: skip


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """`make_run(name, kind, **changes)`: a finished run's folder with a record of each task."""

    def make(name: str = "run", kind: PoolKind = "live", **changes: Any) -> Path:
        run = tmp_path / name
        run.mkdir()
        tasks = [{"name": task, "redistribute": rule} for task, rule in RULES.items()]
        manifest = {
            "format": FORMAT,
            "run_id": f"x/{name}",
            "started": "then",
            "finished": True,
            "pool_kind": kind,
            "tasks": tasks,
            **changes,
        }
        (run / "manifest.json").write_text(json.dumps(manifest))
        (run / "summary.json").write_text('{"rows": []}')
        write_records(run / "records.parquet", [record(task, kind) for task in (*RULES, "unnamed")])
        return run

    return make


def answers(card: Path) -> dict[str, str | None]:
    """Task -> answer of a card's records."""
    return {row.task: row.answer for row in read_records(card / "records.parquet")}


def test_a_card_has_the_analysis(make_run: MakeRun, tmp_path: Path) -> None:
    """Where a run was analysed its card has the analysis, and a card made anew without it replaces the old one."""
    run = make_run()
    (run / "analysis.json").write_text('{"tasks": {}}')
    card = write_card(run, tmp_path / "cards", "first")
    assert json.loads((card / "analysis.json").read_text()) == {"tasks": {}}
    (run / "analysis.json").unlink()
    assert not (write_card(run, tmp_path / "cards", "first") / "analysis.json").exists()


def test_a_card_has_three_files(make_run: MakeRun, tmp_path: Path) -> None:
    """Manifest and summary as the run has them, the records, and nothing else; no temporary folder stays."""
    run = make_run()
    card = write_card(run, tmp_path / "cards", "first")
    assert card == tmp_path / "cards" / "first"
    assert sorted(path.name for path in card.iterdir()) == ["manifest.json", "records.parquet", "summary.json"]
    for name in ("manifest.json", "summary.json"):
        assert json.loads((card / name).read_text()) == json.loads((run / name).read_text())
    assert [path.name for path in (tmp_path / "cards").iterdir()] == ["first"]


def test_restricted_answers_stay_in_the_run(make_run: MakeRun, tmp_path: Path) -> None:
    """Only a task that says `yes` keeps its answers; ids and scores of all stay, and the run is as it was."""
    run = make_run()
    card = write_card(run, tmp_path / "cards", "c")
    assert answers(card) == {"open": "SECRET open", "ids": None, "closed": None, "unnamed": None}
    kept, whole = (list(read_records(folder / "records.parquet")) for folder in (card, run))
    assert [replace(row, answer=None) for row in kept] == [replace(row, answer=None) for row in whole]
    assert all(row.answer for row in whole)


def test_recorded_answers_stay_in_the_run(make_run: MakeRun, tmp_path: Path) -> None:
    """Outcomes that were recorded elsewhere leave without their answers, whatever the task says."""
    assert set(answers(write_card(make_run(kind="recorded"), tmp_path / "cards", "c")).values()) == {None}


def test_another_run_s_card_is_kept(make_run: MakeRun, tmp_path: Path) -> None:
    """The same run may renew its card; another one may not, nor may the same folder run anew, unless forced."""
    first, second = make_run("first"), make_run("second")
    card = write_card(first, tmp_path / "cards", "c")
    assert write_card(first, tmp_path / "cards", "c") == card
    with pytest.raises(LedgerError, match="is the card of run x/first; choose another name, or give --force"):
        write_card(second, tmp_path / "cards", "c")
    assert json.loads((card / "manifest.json").read_text())["run_id"] == "x/first"
    write_card(second, tmp_path / "cards", "c", force=True)
    assert json.loads((card / "manifest.json").read_text())["run_id"] == "x/second"
    manifest = json.loads((second / "manifest.json").read_text())
    (second / "manifest.json").write_text(json.dumps({**manifest, "started": "later"}))
    with pytest.raises(LedgerError, match="is the card of run x/second"):
        write_card(second, tmp_path / "cards", "c")


def test_what_is_no_card_is_kept(make_run: MakeRun, tmp_path: Path) -> None:
    """A folder with other files, or a file, is never replaced, even when forced."""
    run = make_run()
    (tmp_path / "cards" / "notes").mkdir(parents=True)
    (tmp_path / "cards" / "notes" / "thesis.tex").write_text("mine")
    (tmp_path / "cards" / "file").write_text("mine")
    for name in ("notes", "file"):
        with pytest.raises(LedgerError, match="is no run card and stays as it is"):
            write_card(run, tmp_path / "cards", name, force=True)
    assert (tmp_path / "cards" / "notes" / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "-x", "a b", "x" * 101, "é"])
def test_names_that_are_none(make_run: MakeRun, tmp_path: Path, name: str) -> None:
    """A name that leads elsewhere, hides, or reads as an option is refused before anything is written."""
    with pytest.raises(ConfigError, match="cannot name a card"):
        write_card(make_run(), tmp_path / "cards", name)
    assert not (tmp_path / "cards").exists()


def test_an_unfinished_run_has_no_card(make_run: MakeRun, tmp_path: Path) -> None:
    """The line says how to go on."""
    run = make_run(finished=False)
    with pytest.raises(LedgerError, match="is not finished; go on with"):
        write_card(run, tmp_path / "cards", "c")


def test_a_card_is_the_old_one_or_the_new_one(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the records are damaged or the new folder cannot be put in place, the old card stands alone and whole."""
    run = make_run()
    card = write_card(run, tmp_path / "cards", "c")
    before = {path: path.read_bytes() for path in card.iterdir()}
    whole = (run / "records.parquet").read_bytes()
    (run / "records.parquet").write_bytes(b"no parquet")
    with pytest.raises(LedgerError, match="damaged"):
        write_card(run, tmp_path / "cards", "c")
    (run / "records.parquet").write_bytes(whole)
    rename = Path.rename

    def refuses(self: Path, target: Path) -> Path:
        if target == card and self.name.count("-old") == 0:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuses)
    with pytest.raises(LedgerError, match="No space left"):
        write_card(run, tmp_path / "cards", "c")
    assert {path: path.read_bytes() for path in (tmp_path / "cards").rglob("*.*")} == before
