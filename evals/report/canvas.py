"""Figures in the suite's style, and their SVG text: one picture for Markdown and for light and dark pages."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape

from evals.report.palette import light, themed
from evals.report.text import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 6.4
"""Inches: as wide as a page's text."""
SMALL = 8.5
"""Points of labels in a picture."""
HALO = "halo"
"""Group id of texts that stand over lines: they get an edge in the colour of the paper."""

_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_NOISE = re.compile(
    r"\A.*?(?=<svg)|<metadata>.*?</metadata>|<defs>\s*<style.*?</defs>|<!--.*?-->"
    r'| transform="rotate\(-0 [^"]*\)"| id="(?!C[0-9a-f]+_[0-9a-f]+_)[\w.]+_\d+"|(?<=>)\s+(?=<)',
    re.DOTALL,
)
_STYLE = re.compile(r'style="([^"]*)"')
_ROOT = re.compile(r'<svg [^>]*?width="([\d.]+)pt" height="([\d.]+)pt"[^>]*>')


class Picture(NamedTuple):
    """A drawn picture: `name` is that of its file, `svg` its text; the caption says the kind of pool."""

    name: str
    heading: str
    caption: str
    svg: str


def style() -> Any:
    """Matplotlib's settings, in the light form of our colours."""
    ink, soft, rule, paper = light("ink"), light("soft"), light("rule"), light("paper")
    return {
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), paper),
        **dict.fromkeys(("text.color", "axes.labelcolor"), ink),
        **dict.fromkeys(("xtick.color", "ytick.color"), soft),
        **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), ink),
        "axes.edgecolor": soft,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 9.5,
        "axes.labelsize": 9,
        "figure.dpi": 100,
        "font.family": ["DejaVu Sans"],
        "font.size": 9,
        "grid.color": rule,
        "grid.linewidth": 0.7,
        "legend.fontsize": SMALL,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "xtick.labelsize": SMALL,
        "ytick.labelsize": SMALL,
    }


@contextmanager
def canvas(height: float, name: str) -> Iterator[Figure]:
    """A figure of its own (`WIDTH` x `height` inches), in our style whatever the user's; no global state is left."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({**style(), "svg.hashsalt": name})
        yield Figure(figsize=(WIDTH, height))


def panel(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the figure's upper left corner.

    A layout engine would draw everything twice or thrice to find places that our few kinds of picture know.
    """
    whole = figure.get_figheight()
    return figure.add_axes((left / WIDTH, 1 - (top + height) / whole, width / WIDTH, height / whole))


def count_along(axes: Axes) -> None:
    """Whole numbers on the horizontal axis."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def room(labels: Iterable[str]) -> float:
    """Inches that the longest of some labels needs beside an axis."""
    return 0.15 + SMALL / 72 * 0.62 * max((len(line) for label in labels for line in label.split("\n")), default=0)


def picture_text(value: Any, limit: int = 40) -> str:
    """Text for a picture: formulas switched off, characters that the font lacks replaced."""
    return "".join(char if ord(char) in _glyphs() else "\ufffd" for char in clean(value, limit)).replace("$", r"\$")


@cache
def _glyphs() -> frozenset[int]:
    """The characters of the font that pictures are measured with."""
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def pool_caption(kind: Any) -> str:
    """How a caption begins: the kind of pool, which is never left out."""
    return f"{str(kind).capitalize()} pool"


def picture(figure: Figure, name: str, heading: str, caption: str) -> Picture:
    """The figure as a picture; equal figures are equal texts, without date or version."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    drawn: Any = FigureCanvasSVG(figure)  # its printing is published without annotations
    drawn.print_svg(buffer, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return Picture(name, heading, caption, tidy(buffer.getvalue(), f"{heading}. {caption}"))


def tidy(text: str, spoken: str) -> str:
    """Matplotlib's SVG with colours as variables and the reader's fonts; without names, which a page has once.

    `spoken` is what it is called where it cannot be seen. Texts that came from outside are escaped in it already and
    hold no tag that this could take for one.
    """
    text = _NOISE.sub("", text)
    text = text.replace(f'<g id="{HALO}">', _HALO)
    text = _STYLE.sub(lambda found: f'style="{_themed(found[1])}"', text)
    label = escape(clean(spoken, 1000), {'"': "&quot;"})
    return _ROOT.sub(lambda found: _root(float(found[1]), float(found[2]), label), text, count=1)


def _root(width: float, height: float, label: str) -> str:
    """The opening tag; sizes in points."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'aria-label="{label}" viewBox="0 0 {width:g} {height:g}" width="{width:g}pt" height="{height:g}pt" '
        'style="stroke-linejoin: round; stroke-linecap: butt">'
    )


@lru_cache(maxsize=4096)
def _themed(declarations: str) -> str:
    """The content of a style attribute; a picture has few different ones."""
    return themed(declarations).replace("'DejaVu Sans'", _FONTS)


_HALO = f'<g style="paint-order: stroke; stroke: {light("paper")}; stroke-width: 2.5">'
