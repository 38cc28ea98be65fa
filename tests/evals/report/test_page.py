"""Pages: whole, escaped, closed to everything that is not their own."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from markupsafe import Markup

from evals.report.page import Section, asset, bullet_list, code, figure, folded, html_table, html_text, page, paragraph
from evals.report.palette import PALETTE, themed, variables

HOSTILE = '</script><script>window.hacked = 1</script><img src=x onerror="hacked()">&amp;\u202e\ud800\x00\u2028'
VOID = {"meta", "br", "input"}


class Tags(HTMLParser):
    """The tags of a page, their nesting checked."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.attributes: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.found.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """A tag ends that is open."""
        assert self._open.pop() == tag

    def close(self) -> None:
        """Nothing is left open."""
        super().close()
        assert self._open == []


def tags(text: str) -> Tags:
    """The tags of a text."""
    parser = Tags()
    parser.feed(text)
    parser.close()
    return parser


def test_a_page_is_whole() -> None:
    """Title, caption, links to its sections and the sections stand in one well-formed page."""
    text = page(
        "Two runs",
        [Section("First", paragraph("one")), Section("Part of it", level=3), Section("Second", code("ls"), name="end")],
        caption="Scripted pool",
    )
    assert text.startswith("<!DOCTYPE html>")
    found = tags(text).found
    assert [found.count(name) for name in ("html", "head", "title", "main", "h1", "h2", "h3")] == [1, 1, 1, 1, 1, 2, 1]
    assert "<p>Scripted pool</p>" in text
    assert '<a href="#s1">First</a> <a href="#end">Second</a>' in text
    assert '<h3 id="s2">Part of it</h3>' in text


def test_every_text_is_escaped() -> None:
    """The same hostile text as title, heading, caption, cell, sentence and command gives no tag and no attribute."""
    blocks = [
        paragraph(HOSTILE), bullet_list([HOSTILE]), code(HOSTILE), folded(HOSTILE, paragraph(HOSTILE)),
        html_table([HOSTILE, HOSTILE], [[HOSTILE, HOSTILE]]), figure("<svg></svg>", HOSTILE),
    ]  # fmt: skip
    plain = [
        paragraph("x"), bullet_list(["x"]), code("x"), folded("x", paragraph("x")),
        html_table(["x", "x"], [["x", "x"]]), figure("<svg></svg>", "x"),
    ]  # fmt: skip
    hostile, harmless = (
        tags(page(word, [Section(word, *some)], caption=word)) for word, some in ((HOSTILE, blocks), ("x", plain))
    )
    assert hostile.found == harmless.found
    assert hostile.attributes == harmless.attributes


def test_a_page_can_be_written_as_utf_8() -> None:
    """Lone surrogates, NUL and direction marks become replacement characters."""
    text = page(HOSTILE, [Section(HOSTILE, code(HOSTILE))], caption=HOSTILE)
    assert not set(text) & {"\u202e", "\ud800", "\x00"}
    assert text.encode().decode() == text


def test_a_page_runs_its_own_script_alone() -> None:
    """The policy names the hash of the one script and of the one style sheet, and allows no other source."""
    text = page("t", [], caption="c")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    for kind in ("script", "style"):
        (body,) = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed
    assert allowed.startswith("default-src 'none'; ")
    assert "http" not in allowed
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", text)


def test_lines_of_a_cell_stay_apart() -> None:
    """A line end in a cell is a line end; the first column and those called left are left aligned."""
    text = html_table(["a", "b", "c"], [["x\ny", "1", "2"]], left=2, strong={0})
    assert '<tr class="strong"><th scope="row" class="left">x<br>y</th><td class="left">1</td><td>2</td></tr>' in text
    assert html_text("a\nb") == Markup("a<br>b")


def test_an_empty_table_is_one() -> None:
    """Rows and cells may be missing."""
    assert tags(html_table([], [])).found == ["div", "table", "thead", "tr", "tbody"]
    assert tags(html_table(["a"], [[]])).found.count("th") == 1


def test_colours_are_defined_for_both_themes() -> None:
    """Every colour has a light form of its own and is a variable in the default, the dark and the chosen theme."""
    assert len({colour.light for colour in PALETTE.values()}) == len(PALETTE)
    text = variables()
    for name, colour in PALETTE.items():
        assert text.count(f"--{name}:{colour.light};") == 1
        assert text.count(f"--{name}:{colour.dark};") == 2
    used = set(re.findall(r"var\(--([a-z]+)", asset("report.css")))
    assert used <= set(PALETTE)


def test_a_picture_takes_the_theme_s_colours() -> None:
    """Each colour of the palette becomes its variable, once, with its light form for who knows no variables."""
    svg = f"fill: {PALETTE['blue'].light}; stroke: {PALETTE['ink'].light}; color: #123456"
    assert themed(svg) == "fill: var(--blue, #0072b2); stroke: var(--ink, #1b1f24); color: #123456"


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2) of `#rrggbb`."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("name", "least"), [
    *[(name, 4.5) for name in ("ink", "soft", "link", "right", "broken")],
    *[(name, 3.0) for name in ("blue", "orange", "green", "vermillion", "purple")],
])  # fmt: skip
def test_contrast_is_enough(name: str, least: float) -> None:
    """Texts have a contrast of 4.5 to paper and panels, marks of 3, in both themes (WCAG 2.2, 1.4.3, 1.4.11)."""
    for theme in (0, 1):
        for ground in ("paper", "panel") if least > 3 else ("paper",):
            pair = sorted((luminance(PALETTE[name][theme]), luminance(PALETTE[ground][theme])))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= least
