"""The script that makes pictures of a report, so that it can be looked at."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from evals.report.reports import write_reports
from tests.commands import ROOT, environment
from tests.evals.report.told import told_run

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on PATH"),
]


def screenshots(*words: str) -> subprocess.CompletedProcess[str]:
    """What the script prints."""
    command = [sys.executable, str(ROOT / "scripts" / "screenshots.py"), *words]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


def test_four_pictures_of_a_report(tmp_path: Path) -> None:
    """Light and dark, each as wide as a telephone and as a screen, and the dark ones differ from the light ones."""
    write_reports(tmp_path, told_run(tmp_path / "ledger.sqlite", 3))
    folder = tmp_path / "pictures"
    done = screenshots(str(tmp_path), str(folder))
    assert done.returncode == 0, done.stderr
    names = [f"{scheme}_{width}.png" for scheme in ("light", "dark") for width in (390, 1280)]
    assert done.stdout.splitlines() == [str(folder / name) for name in names]
    widths = [struct.unpack(">I", (folder / name).read_bytes()[16:20])[0] for name in names]
    assert widths == [390, 1280, 390, 1280]
    assert (folder / "light_390.png").read_bytes() != (folder / "dark_390.png").read_bytes()


def test_a_folder_without_a_report_is_one_line(tmp_path: Path) -> None:
    """Without a report the script says what writes one; with the wrong words, how it is called."""
    done = screenshots(str(tmp_path), str(tmp_path / "pictures"))
    assert done.returncode == 1
    expected = f"error: {tmp_path} has no report.html; write it with: python -m trinity.report {tmp_path}\n"
    assert done.stderr == expected
    assert "usage" in screenshots(str(tmp_path)).stderr
    assert not (tmp_path / "pictures").exists()
