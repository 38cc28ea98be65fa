"""The report in a real Chromium: it opens, shows transcripts on a click, finds texts, and runs nothing of theirs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evals.report import html, transcripts
from evals.report.blocks import Grid, Part
from evals.report.html import write_html
from evals.report.reports import write_reports
from evals.report.transcripts import Transcripts
from tests.evals.report.told import Texts, told_run
from trinity.types import Item, Record

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on PATH"),
]
LINE = "long line " * 100_000
HOSTILE = "<script>window.hacked = 1</script></script><img src=x onerror='window.hacked = 1'>\u202eEND\ud800\x00\u2028"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page that may reach files alone; an error in its scripts fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    told: list[str] = []
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("console", lambda message: told.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("request", lambda request: told.append(request.url) if not request.url.startswith("file:") else None)
    yield page
    context.close()
    assert told == []


def opened(page: Page, path: Path) -> Page:
    """The page at a path, its list ready."""
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")  # no waiting for functions: the page lets nobody evaluate texts
    return page


def texts(number: int, role: str) -> str:
    """What agents say: on item 3 something hostile, on item 4 a megabyte in one line, on item 7 a word of its own."""
    special = {3: HOSTILE, 4: LINE, 7: "Zanzibar"}
    return f"{role} {number} {special.get(number, '')}"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of 90 episodes on 30 items, in chunks of 20 episodes, all in the page."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcripts, "CHUNK_EPISODES", 20)
        data = told_run(folder / "ledger.sqlite", 30, Texts(reply=texts))
        _, page = write_reports(folder, data)
    return page


def test_an_episode_opens_on_a_click(page: Page, report: Path) -> None:
    """Question, expected and graded answer, and each call with role, agent, text, verdict and its folded messages."""
    opened(page, report)
    assert page.inner_text("#count") == "1 to 50 of 90"
    page.click("#rows >> text=coordinator sampled >> nth=0")
    page.wait_for_selector("article.call")
    shown = page.inner_text("#episode")
    for part in (
        "coordinator sampled · sums · sums-00000 · replicate 0", "What is 0 + 0?", "target 0", "graded target 0",
        "1. thinker · small", "2. worker · large", "worker 0", "Verdict: accept", "tokens: 12 in, 7 out",
    ):  # fmt: skip
        assert part in shown
    assert "You check the work of others." not in shown
    page.click("text=Message of system >> nth=0")
    page.wait_for_selector("#episode details[open] pre")
    assert "You check the work of others." in page.inner_text("#episode")
    assert page.url.endswith("#episode-2")


def test_neighbours_and_closing(page: Page, report: Path) -> None:
    """From one episode to the next and back, by buttons and by the browser's own; closing leaves the list."""
    opened(page, report)
    page.evaluate("location.hash = 'episode-2'")
    page.click("text=Next >> nth=1")
    page.wait_for_selector("h3:has-text('single large · sums · sums-00001')")
    page.go_back()
    page.wait_for_selector("h3:has-text('coordinator sampled · sums · sums-00000')")
    page.click("text=Close")
    page.wait_for_selector("#episode:empty", state="attached")
    assert page.url.endswith("#transcripts")


def test_a_link_opens_its_episode(page: Page, report: Path) -> None:
    """An address that names an episode shows it at once; one that names none shows the list."""
    page.goto(f"{report.as_uri()}#episode-23")
    page.wait_for_selector("article.call")
    assert "sums-00007" in page.inner_text("#episode")
    page.goto(f"{report.as_uri()}#episode-4711")
    page.wait_for_selector("#episode:empty", state="attached")


def test_filters_and_search(page: Page, report: Path) -> None:
    """By method and status at once, by item as one types, and by any text of any episode on request."""
    opened(page, report)
    page.select_option("#method", "coordinator sampled")
    assert page.inner_text("#count") == "1 to 30 of 30"
    page.select_option("#method", "")
    page.select_option("#status", "wrong")
    assert page.inner_text("#count") == "1 to 30 of 30"
    page.select_option("#status", "")
    page.fill("#query", "sums-0001")
    assert page.inner_text("#count") == "1 to 30 of 30"
    page.fill("#query", "zanzibar")
    assert page.inner_text("#count") == "none"
    page.click("#search")
    page.wait_for_selector("#told:text-is('3 episodes hold it in their texts.')")
    assert page.inner_text("#count") == "1 to 3 of 3"
    assert {row.inner_text() for row in page.query_selector_all("#rows .item")} == {"sums-00007"}
    page.fill("#query", "")
    assert page.inner_text("#count") == "1 to 50 of 90"
    page.click("#after")
    assert page.inner_text("#count") == "51 to 90 of 90"


def test_a_hostile_transcript_is_text(page: Page, report: Path) -> None:
    """Markup is shown as it is written and never runs; characters that would hide or turn text show their numbers."""
    opened(page, report)
    page.evaluate("location.hash = 'episode-11'")
    page.wait_for_selector("article.call")
    shown = page.inner_text("#episode")
    assert "<script>window.hacked = 1</script></script><img src=x onerror='window.hacked = 1'>" in shown
    assert "⟨U+202E⟩END⟨U+D800⟩⟨U+0000⟩⟨U+2028⟩" in shown
    assert page.evaluate("window.hacked") is None
    assert page.query_selector("#episode img, #episode script") is None


def test_a_megabyte_in_a_line_is_cut(page: Page, report: Path) -> None:
    """The beginning is shown at once, all of it on a click, in pieces that the browser can lay out."""
    opened(page, report)
    page.evaluate("location.hash = 'episode-12'")
    more = page.wait_for_selector("text=Show all 1,000,014 characters")
    assert more is not None
    assert len(page.inner_text("#episode article.call pre")) < 5_000
    more.click()
    shown = page.evaluate("document.querySelector('#episode article.call pre').textContent.length")
    assert shown == len("alone large 4 ") + len(LINE)
    assert page.locator("#episode .piece").count() > 90


def test_the_theme_can_be_changed(page: Page, report: Path) -> None:
    """It begins as the reader's system has it; the button changes page and pictures, and the choice is kept."""
    page.emulate_media(color_scheme="light")
    opened(page, report)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    picture = "getComputedStyle(document.querySelector('figure svg path')).fill"
    light = page.evaluate(f"[{ground}, {picture}]")
    assert light == ["rgb(255, 255, 255)"] * 2
    page.click("#theme")
    dark = page.evaluate(f"[{ground}, {picture}]")
    assert dark == ["rgb(20, 23, 27)"] * 2
    page.reload()
    assert page.evaluate(ground) == dark[0]
    page.click("#theme")
    assert page.evaluate(ground) == light[0]


def test_a_phone_never_scrolls_the_page_sideways(page: Page, report: Path) -> None:
    """At 390 pixels wide tables and pictures scroll in boxes of their own, with a long transcript open as well."""
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, report)
    wide = "[document.documentElement.scrollWidth, document.body.scrollWidth]"
    assert page.evaluate(wide) == [390, 390]
    page.evaluate("location.hash = 'episode-12'")
    page.wait_for_selector("article.call")
    assert page.evaluate(wide) == [390, 390]
    box, picture = (page.locator(place).first.bounding_box() for place in ("figure .scroll", "figure svg"))
    assert box is not None
    assert picture is not None
    assert box["width"] <= 390
    assert picture["width"] >= 480


def test_data_beside_the_page_is_loaded(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file, without a server, a chunk beside the page comes when it is wanted, for reading and for searching."""
    spilled(tmp_path, monkeypatch)
    opened(page, tmp_path / "report.html")
    page.evaluate("location.hash = 'episode-8'")
    page.wait_for_selector("article.call")
    assert "worker 2" in page.inner_text("#episode")
    page.fill("#query", "thinker 3")
    page.click("#search")
    page.wait_for_selector("#told:text-is('1 episode holds it in its texts.')")


def test_lost_data_is_missed_in_a_line(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the file of an episode's chunk the page says which one, and shows the others."""
    spilled(tmp_path, monkeypatch)
    (lost,) = (tmp_path / "report_data").glob("0000-*.js")
    lost.unlink()
    page = opened(browser.new_page(), tmp_path / "report.html")
    page.evaluate("location.hash = 'episode-0'")
    page.wait_for_selector(f"text=report_data/{lost.name} is missing; keep report_data beside report.html")
    assert page.locator("article.call").count() == 0
    page.evaluate("location.hash = 'episode-8'")
    page.wait_for_selector("article.call")
    assert lost.name not in page.inner_text("#episode")
    page.close()


@pytest.mark.parametrize("content", ["", 'trinityChunk(0,"abc'])
def test_cut_data_is_missed_in_a_line(
    content: str, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is there and does not bring its chunk is said to be damaged."""
    spilled(tmp_path, monkeypatch)
    (cut,) = (tmp_path / "report_data").glob("0000-*.js")
    cut.write_text(content)
    page = opened(browser.new_page(), tmp_path / "report.html")
    page.evaluate("location.hash = 'episode-0'")
    page.wait_for_selector(f"text=report_data/{cut.name} is damaged; python -m trinity.report writes it anew")
    assert page.locator("article.call").count() == 0
    page.close()


def spilled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of twelve episodes in chunks of six, all of them beside the page."""
    monkeypatch.setattr(html, "EMBEDDED", 0)
    monkeypatch.setattr(transcripts, "CHUNK_EPISODES", 6)
    write_html(folder, told_run(folder / "l.sqlite", 4, Texts(reply=texts)), [])


def test_ten_thousand_episodes_open(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of 10,080 episodes (30 items, 3 methods, 112 times each) lists them all and opens the last one."""
    once = Transcripts._replicates

    def often(self: Transcripts, item: Item, row: dict[str, Any]) -> Iterator[Record]:
        for record in once(self, item, row):
            yield from repeat(record, 112)

    monkeypatch.setattr(Transcripts, "_replicates", often)
    opened(page, write_html(tmp_path, told_run(tmp_path / "l.sqlite", 30), []))
    assert page.inner_text("#count") == "1 to 50 of 10,080"
    page.evaluate("location.hash = 'episode-10079'")
    page.wait_for_selector("article.call")
    assert "worker says 58" in page.inner_text("#episode")


def test_long_tables_are_folded(page: Page, tmp_path: Path) -> None:
    """A table of many rows opens on a click on how many there are."""
    data = told_run(tmp_path / "l.sqlite", 1)
    grid = Grid(["a", "b"], [[f"row {place}", "1"] for place in range(40)])
    opened(page, write_html(tmp_path, data, [Part("Numbers", [grid])]))
    assert not page.is_visible("text=row 39")
    page.click("text=Table of 40 rows")
    assert page.is_visible("text=row 39")
