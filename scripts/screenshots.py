#!/usr/bin/env python
"""`python scripts/screenshots.py RUN FOLDER`: what a run's report.html looks like on a narrow and a wide screen.

Writes `{light,dark}_{390,1280}.png` of the whole page, folded tables open, with the Chromium on PATH.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")


def picture(browser: Browser, page: Path, scheme: str, width: int, target: Path) -> None:
    """Write one picture."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    tab = context.new_page()
    tab.goto(page.resolve().as_uri())
    tab.wait_for_selector("html[data-ready=yes]")
    for table in tab.query_selector_all("details:not([open]) > summary"):
        table.click()
    tab.screenshot(path=target, full_page=True)
    context.close()


def main(run: Path, folder: Path) -> None:
    """Write all pictures; their paths."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit(f"error: none of {', '.join(BROWSERS)} is on PATH; install Chromium")
    if not (run / "report.html").is_file():
        sys.exit(f"error: {run} has no report.html; write it with: python -m trinity.report {run}")
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for scheme in SCHEMES:
            for width in WIDTHS:
                target = folder / f"{scheme}_{width}.png"
                picture(browser, run / "report.html", scheme, width, target)
                print(target)  # noqa: T201 - what the command is for
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004 - RUN and FOLDER
        sys.exit("error: usage: python scripts/screenshots.py RUN FOLDER")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
