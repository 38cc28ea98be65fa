"""`report.html`: what a run found and what its episodes said, in one page that asks nobody for anything."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from markupsafe import Markup

from evals.report.blocks import Block, Bullets, Command, Grid, Part, Text
from evals.report.canvas import pool_caption
from evals.report.content import lead
from evals.report.data import ReportData
from evals.report.page import (
    Section,
    asset,
    beginning,
    body,
    bullet_list,
    code,
    contents,
    ending,
    figure,
    folded,
    html_table,
    paragraph,
)
from evals.report.summary import tasks_of
from evals.report.transcripts import Chunk, Transcripts, packed
from trinity.runs.files import replacing, write_atomic

DATA = "report_data"
EMBEDDED = 12_000_000
"""Characters of packed transcripts that the page holds itself; what is more lies in `DATA` beside it."""
REPORT = "report.html"
LONG = 16
"""Tables of more rows are folded until the reader wants them."""


def write_html(folder: Path, data: ReportData, parts: Sequence[Part]) -> Path:
    """Write the page and what it loads on demand, streamed; the old page and its data stay whole until the new one is.

    Raises:
        LedgerError: it could not be written, or a ledger could not be read.
    """
    path, places = folder / REPORT, folder / DATA
    before = {file.name for file in places.glob("*")} if places.is_dir() else set()
    spilled: list[str] = []
    try:
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as page:
            _write_page(page, data, parts, places, spilled)
    except BaseException:
        _remove(places, set(spilled) - before)
        raise
    _remove(places, before - set(spilled))
    return path


def _remove(places: Path, names: set[str]) -> None:
    """Take away data that no page uses."""
    for name in names:
        (places / name).unlink(missing_ok=True)
    if places.is_dir() and not any(places.iterdir()):
        places.rmdir()


def _write_page(page: TextIO, data: ReportData, parts: Sequence[Part], places: Path, spilled: list[str]) -> None:
    """The whole page; the names of files beside it go into `spilled`."""
    script = asset("report.js")
    scripts = (script,) if data.source else ()
    sections = [Section(part.heading, *map(_block, part.blocks), level=part.level) for part in parts]
    if data.source:
        transcripts = Transcripts(data.source, data.summary, data.manifest)
        sections.append(Section("Transcripts", *_browser(data, transcripts), name="transcripts"))
    title = f"{data.summary['experiment']}: report"
    page.write(beginning(title, caption=lead(data.summary, data.manifest), scripts=scripts))
    page.write(contents(sections))
    page.write(body(sections))
    if data.source:
        _Embedding(page, places, spilled).write(transcripts)
    page.write(ending(scripts))


def _block(block: Block) -> Markup:
    """One block as HTML."""
    if isinstance(block, Text):
        return paragraph(block.text)
    if isinstance(block, Bullets):
        return bullet_list(block.sentences)
    if isinstance(block, Grid):
        table = html_table(block.titles, block.rows, left=block.left, strong=block.strong)
        return folded(f"Table of {len(block.rows)} rows", table) if len(block.rows) > LONG else table
    if isinstance(block, Command):
        return code(block.text)
    return figure(block.svg, block.caption)


@dataclass
class _Embedding:
    """Puts packed transcripts into the page, and beside it what would make it too large."""

    page: TextIO
    places: Path
    spilled: list[str]
    size: int = 0
    chunks: list[tuple[int, int, str | None]] = field(default_factory=list)
    held: dict[int, str] = field(default_factory=dict)

    def write(self, transcripts: Transcripts) -> None:
        """All transcripts. At most `EMBEDDED` characters of them are in memory."""
        for block in transcripts.blocks():
            self.size += len(block.data)
            if isinstance(block, Chunk):
                self.held[len(self.chunks)] = block.data
                self.chunks.append((block.first, block.n, None))
            else:
                self.page.write(_HELD.format(name="", look="index", data=block.data))
            while self.size > EMBEDDED and self.held:
                self._spill()
        for place, data in self.held.items():
            self.page.write(_HELD.format(name=f"chunk-{place}", look="chunk", data=data))
        meta = packed({"chunks": self.chunks, "shared": transcripts.shared})
        self.page.write(_HELD.format(name="transcripts-meta", look="meta", data=meta))

    def _spill(self) -> None:
        """Write the last chunk beside the page."""
        place, data = self.held.popitem()
        self.size -= len(data)
        script = f'trinityChunk({place},"{data}");\n'.encode("ascii")
        name = f"{place:04d}-{hashlib.sha256(script).hexdigest()[:12]}.js"  # a new page never changes an old one's data
        self.places.mkdir(exist_ok=True)
        self.spilled.append(name)
        write_atomic(self.places / name, script)
        self.chunks[place] = (*self.chunks[place][:2], f"{DATA}/{name}")


_HELD = Markup('<script type="application/octet-stream" id="{name}" class="{look}">{data}</script>\n')


def _browser(data: ReportData, transcripts: Transcripts) -> Sequence[Markup]:
    """The list's frame, which the page's script fills."""
    kind = str(data.summary["pool_kind"])
    told = _withheld(kind, transcripts.withheld, len(tasks_of(data.summary)))
    return [paragraph(f"{pool_caption(kind)}. {told}"), _BROWSER]


def _withheld(pool_kind: str, tasks: Sequence[str], n_tasks: int) -> str:
    """Which of the run's episodes can be read here, and why the others cannot."""
    every = "Every test episode: whom it asked, what came back."
    if not tasks:
        return every
    if pool_kind == "recorded":
        return "Every test episode with its score, without texts: others recorded these answers, they stay in the run."
    if len(tasks) == n_tasks:
        return "Every test episode with its score, without texts: the licences of all tasks keep them in the run."
    return f"{every} Of {', '.join(tasks)} only ids and scores: the licence keeps the texts in the run."


_BROWSER = Markup("""<noscript><p>The list of episodes needs JavaScript.</p></noscript>
<p id="failed" hidden></p>
<div id="browser" hidden>
<div class="bar">
<input id="query" type="search" placeholder="Item, method or text" aria-label="Search" autocomplete="off">
<button type="button" id="search">Search texts</button>
<select id="method" aria-label="Method"><option value="">all methods</option></select>
<select id="task" aria-label="Task"><option value="">all tasks</option></select>
<select id="status" aria-label="Status"><option value="">every status</option></select>
<span id="told" role="status"></span>
</div>
<div class="scroll list" tabindex="0"><table>
<thead><tr><th scope="col" class="left">item</th><th scope="col" class="left">method</th>
<th scope="col" class="left">task</th><th scope="col" class="left">status</th><th scope="col">replicate</th>
<th scope="col">score</th><th scope="col">weighted tokens</th><th scope="col">seconds</th></tr></thead>
<tbody id="rows"></tbody></table></div>
<div class="bar">
<button type="button" id="before">Previous page</button><button type="button" id="after">Next page</button>
<span id="count"></span>
</div>
</div>
<section id="episode" tabindex="-1" aria-live="off"></section>""")
