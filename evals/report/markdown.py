"""`report.md`: what a run found, as Markdown that shows its texts and obeys none of them."""

from __future__ import annotations

from collections.abc import Sequence

from evals.report.blocks import Block, Bullets, Command, Grid, Part, Text
from evals.report.content import lead
from evals.report.data import ReportData
from evals.report.table import markdown_grid
from evals.report.text import fenced, markdown

IMAGES = "report_images"


def report_text(data: ReportData, parts: Sequence[Part]) -> str:
    """The report; its pictures lie in `IMAGES` beside it. Texts of items and answers are not in it."""
    blocks = [f"# {markdown(data.summary['experiment'])}: report", markdown(lead(data.summary, data.manifest), 20_000)]
    for part in parts:
        blocks += [f"{'#' * part.level} {markdown(part.heading)}", *(_block(block) for block in part.blocks)]
    return "\n\n".join(blocks) + "\n"


def _block(block: Block) -> str:
    """One block as Markdown."""
    if isinstance(block, Text):
        return markdown(block.text, 2000)
    if isinstance(block, Bullets):
        return "\n".join(f"- {markdown(sentence)}" for sentence in block.sentences)
    if isinstance(block, Grid):
        return markdown_grid(block.titles, block.rows, block.left)
    if isinstance(block, Command):
        return fenced(block.text)
    return f"![{markdown(block.heading)}]({IMAGES}/{block.name}.svg)\n\n{markdown(block.caption, 1000)}"
