"""The reports of a run: Markdown with its pictures, and a page with transcripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evals.report import plots, plots_difficulty, plots_training, plots_use
from evals.report.canvas import Picture
from evals.report.content import parts
from evals.report.data import ReportData
from evals.report.html import write_html
from evals.report.markdown import IMAGES, report_text
from trinity.runs.files import write_atomic


def write_reports(folder: Path, data: ReportData) -> list[Path]:
    """Write `report.md` with `report_images/*.svg`, and `report.html` with what it loads from `report_data/`.

    Each file is whole or as before. What can be told apart from the outside (the restricted texts of a task) is in
    none of them; `report.md` holds no text of items or answers at all.

    Returns:
        The paths of `report.md` and `report.html`.

    Raises:
        LedgerError: something could not be written, or the ledger of `data.source` cannot be read.
    """
    pictures = {picture.name: picture for picture in drawn(data)}
    content = parts(data, pictures)
    images = folder / IMAGES
    images.mkdir(parents=True, exist_ok=True)
    for picture in pictures.values():
        write_atomic(images / f"{picture.name}.svg", picture.svg.encode())
    report = folder / "report.md"
    write_atomic(report, report_text(data, content).encode())
    page = write_html(folder, data, content)
    for file in images.iterdir():
        if file.name not in {f"{name}.svg" for name in pictures}:
            file.unlink()
    return [report, page]


def drawn(data: ReportData) -> list[Picture]:
    """Every picture that there is something to show in, each drawn once."""
    kind = str(data.summary["pool_kind"])
    found = [
        plots.accuracy_cost(data.summary),
        plots_difficulty.difficulty(data.analysis),
        plots_difficulty.gains(data.analysis),
        plots_difficulty.interaction(data.analysis),
        *_trained(data, kind),
        plots_use.use(data.uses, data.summary),
        plots_use.latency(data.latency, data.summary),
        plots_use.failures(data.summary, data.attempts),
    ]
    return [picture for picture in found if picture is not None]


def _trained(data: ReportData, kind: str) -> Iterator[Picture]:
    """The pictures of each trainer; those of a second one have its number in their names."""
    for place, (name, training) in enumerate(sorted(data.trained.items()), 1):
        for draw in (plots_training.training, plots_training.choices):
            picture = draw(name, training, kind)
            if picture is not None:
                yield picture if place == 1 else picture._replace(name=f"{picture.name}_{place}")
