"""A report of 10,000 episodes: seconds to write it, its size, and seconds until Chromium shows its list.

The page is opened three times in a fresh tab; the median counts. Without a browser on PATH that line is left out.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from evals.report.reports import write_reports
from tests.evals.report.told import Texts, told_run

ITEMS = 3334
"""With three episodes each."""
MOST_SECONDS = 3.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def prose(seed: str, n_words: int) -> str:
    """Words of which a few are frequent, as in any language; they pack about as well."""
    stream = random.Random(seed)
    return " ".join(f"word{int(stream.paretovariate(0.7)) % 20_000}" for _ in range(n_words))


def report(folder: Path) -> tuple[Path, dict[str, float]]:
    """A page of answers as long as a real model's, and what it took to write it."""
    said = Texts(
        prompt=lambda number: f"Question {number}: {prose(f'{number}', 60)}",
        reply=lambda number, role: f"{role} {number}: {prose(f'{number} {role}', 150)}",
    )
    data = told_run(folder / "ledger.sqlite", ITEMS, said)
    began = time.perf_counter()
    _, page = write_reports(folder, data)
    seconds = time.perf_counter() - began
    beside = sum(file.stat().st_size for file in (folder / "report_data").glob("*"))
    return page, {"write_s": round(seconds, 2), "page_mb": page.stat().st_size / 1e6, "beside_mb": beside / 1e6}


def opening_seconds(page: Path, browser: str) -> float:
    """From the wish to see the page to its list, filled."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for _ in range(3):
            tab = chromium.new_page()
            began = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready=yes]")
            times.append(time.perf_counter() - began)
            tab.close()
        chromium.close()
    return statistics.median(times)


def main() -> None:
    """Print the lines; fail where opening takes too long."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    with tempfile.TemporaryDirectory() as folder:
        page, written = report(Path(folder))
        print(
            json.dumps(
                {"bench": "report", "episodes": 3 * ITEMS, **{key: round(value, 2) for key, value in written.items()}}
            )
        )
        if browser is None:
            return
        seconds = opening_seconds(page, browser)
    print(
        json.dumps({"bench": "report", "what": "open in Chromium", "seconds": round(seconds, 2), "most": MOST_SECONDS})
    )
    if seconds > MOST_SECONDS:
        sys.exit(f"a report of {3 * ITEMS} episodes opens in {seconds:.1f} s, more than {MOST_SECONDS} s")


if __name__ == "__main__":
    main()
