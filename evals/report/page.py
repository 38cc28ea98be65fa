"""Self-contained HTML pages in the suite's style, light and dark; every text is escaped, nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence
from importlib.resources import files

from markupsafe import Markup, escape

from evals.report.palette import variables
from evals.report.text import printable


class Section:
    """A heading and what stands under it; `level` 3 is a part of the section before it."""

    def __init__(self, heading: str, *blocks: Markup, level: int = 2, name: str | None = None) -> None:
        """`name` is what links call it; by default its number."""
        self.heading, self.blocks, self.level, self.name = heading, blocks, level, name


def page(title: str, sections: Sequence[Section], *, caption: str) -> str:
    """A whole page.

    Args:
        title: of page and window.
        sections: in order; those of level 2 are listed as links under the title.
        caption: stands under the title; says the kind of pool.
    """
    return f"{beginning(title, caption=caption)}{contents(sections)}{body(sections)}{ending()}"


def beginning(title: str, *, caption: str, scripts: Sequence[str] = ()) -> Markup:
    """A page up to its first section. It runs its own `scripts` (their text) and what they load, nothing else."""
    style = asset("report.css")
    allowed = " ".join(f"'{_digest(script)}'" for script in (asset("theme.js"), *scripts))
    policy = (
        f"default-src 'none'; style-src '{_digest(_style(style))}'; style-src-attr 'unsafe-inline'; "
        f"script-src {allowed} 'strict-dynamic'; base-uri 'none'; form-action 'none'"
    )
    ours = Markup(_style(style))  # noqa: S704 - from our own file and palette
    return _HEAD.format(title=html_text(title), policy=policy, style=ours, caption=paragraph(caption))


def contents(sections: Sequence[Section]) -> Markup:
    """Links to the sections of level 2."""
    links = [
        Markup('<a href="#{}">{}</a>').format(section.name or f"s{place}", html_text(section.heading))
        for place, section in enumerate(sections, 1)
        if section.level == 2  # noqa: PLR2004 - the heading level of sections
    ]
    return Markup('<nav aria-label="Contents">{}</nav>\n').format(Markup(" ").join(links))


def body(sections: Sequence[Section]) -> Markup:
    """The sections one after another."""
    return Markup("").join(
        Markup('<h{level} id="{name}">{heading}</h{level}>\n{blocks}\n').format(
            level=section.level,
            name=section.name or f"s{place}",
            heading=html_text(section.heading),
            blocks=Markup("\n").join(section.blocks),
        )
        for place, section in enumerate(sections, 1)
    )


def ending(scripts: Sequence[str] = ()) -> Markup:
    """The end of a page whose `beginning` was given the same `scripts`."""
    texts = (asset("theme.js"), *scripts)
    return Markup("</main>\n{}</body>\n</html>\n").format(
        Markup("").join(Markup("<script>{}</script>\n").format(Markup(text)) for text in texts)  # noqa: S704 - our own
    )


def asset(name: str) -> str:
    """The text of one of our style sheets or scripts."""
    return (files("evals.report") / "assets" / name).read_text("utf-8")


def html_text(text: str) -> Markup:
    """`text` escaped, its lines apart, without characters that are not shown or shown as something else."""
    return Markup("<br>").join(escape(printable(line)) for line in str(text).split("\n"))


def paragraph(text: str) -> Markup:
    """One paragraph of plain text."""
    return Markup("<p>{}</p>").format(html_text(text))


def bullet_list(sentences: Sequence[str]) -> Markup:
    """A list of plain sentences."""
    entries = (Markup("<li>{}</li>").format(html_text(sentence)) for sentence in sentences)
    return Markup("<ul>{}</ul>").format(Markup("").join(entries))


def code(text: str) -> Markup:
    """A command as a block of its own."""
    lines = "\n".join(map(printable, text.split("\n")))
    return Markup('<pre class="scroll" tabindex="0"><code>{}</code></pre>').format(lines)


def html_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, strong: Collection[int] = ()
) -> Markup:
    """A table of plain texts that scrolls in its own box; lines of a cell stay apart.

    Args:
        titles: of the columns.
        rows: of cells; the first cell of a row is its heading.
        left: how many of the first columns are left aligned; the others are right aligned.
        strong: places of rows that are bold.
    """
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_side(place, left), html_text(text))
        for place, text in enumerate(titles)
    )
    lines = (
        Markup("<tr{}>{}</tr>\n").format(Markup(' class="strong"') if place in strong else "", _cells(row, left))
        for place, row in enumerate(rows)
    )
    return Markup(
        '<div class="scroll" tabindex="0"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>'
    ).format(head, Markup("").join(lines))


def _cells(row: Sequence[str], left: int) -> Markup:
    """The cells of a row, the first one its heading."""
    first = Markup('<th scope="row" class="left">{}</th>').format(html_text(row[0])) if row else Markup("")
    rest = (
        Markup("<td{}>{}</td>").format(_side(place, left), html_text(text)) for place, text in enumerate(row[1:], 1)
    )
    return first + Markup("").join(rest)


def _side(place: int, left: int) -> Markup:
    return Markup(' class="left"') if place < left else Markup("")


def folded(title: str, block: Markup) -> Markup:
    """A block that opens on a click on its title."""
    return Markup("<details><summary>{}</summary>{}</details>").format(html_text(title), block)


def figure(svg: str, caption: str) -> Markup:
    """A picture, drawn by `evals.report.plots`, and the text under it; on a narrow screen it scrolls in its box."""
    picture = Markup(svg)  # noqa: S704 - drawn by us, its texts are escaped by matplotlib
    frame = Markup('<figure><div class="scroll" tabindex="0">{}</div><figcaption>{}</figcaption></figure>')
    return frame.format(picture, html_text(caption))


def _style(text: str) -> str:
    """The whole style sheet of a page."""
    return f"{variables()}\n{text}"


def _digest(text: str) -> str:
    """How a Content-Security-Policy names an inline script or style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


_HEAD = Markup("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<header><h1>{title}</h1><button type="button" id="theme" hidden>Dark</button></header>
{caption}
""")
