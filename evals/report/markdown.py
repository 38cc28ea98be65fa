"""Reports as Markdown that shows its texts and obeys none of them; `report.md` among them."""

from __future__ import annotations

from collections.abc import Sequence

from evals.report.blocks import Block, Bullets, Command, Grid, Part, Text
from evals.report.content import lead
from evals.report.data import ReportData
from evals.report.text import fenced, markdown

IMAGES = "report_images"
_SENTENCE = 1000


def report_text(data: ReportData, parts: Sequence[Part]) -> str:
    """The report; its pictures lie in `IMAGES` beside it. Texts of items and answers are not in it."""
    title = f"{data.summary['experiment']}: report"
    return document(title, [markdown(lead(data.summary, data.manifest), 20_000), *sections(parts)])


def document(title: str, blocks: Sequence[str]) -> str:
    """A whole text of Markdown blocks under a title."""
    return "\n\n".join([f"# {markdown(title)}", *blocks]) + "\n"


def sections(parts: Sequence[Part]) -> list[str]:
    """The parts one after another, a text each for headings and blocks."""
    return [
        text
        for part in parts
        for text in (f"{'#' * part.level} {markdown(part.heading)}", *(_block(block) for block in part.blocks))
    ]


def _block(block: Block) -> str:
    """One block as Markdown."""
    if isinstance(block, Text):
        return markdown(block.text, 2000)
    if isinstance(block, Bullets):
        return "\n".join(f"- {markdown(sentence, _SENTENCE)}" for sentence in block.sentences)
    if isinstance(block, Grid):
        return markdown_grid(block)
    if isinstance(block, Command):
        return fenced(block.text)
    return f"![{markdown(block.heading)}]({IMAGES}/{block.name}.svg)\n\n{markdown(block.caption, 1000)}"


def markdown_grid(grid: Grid) -> str:
    """A table; the first columns are left, the others right aligned."""
    rule = [":--" if place < grid.left else "--:" for place in range(len(grid.titles))]
    lines = [[markdown(cell) for cell in grid.titles], rule, *([markdown(cell) for cell in row] for row in grid.rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
